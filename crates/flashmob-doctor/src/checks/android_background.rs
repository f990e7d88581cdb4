//! Whether Android treats this process as one in the background: fewer and slower processors.

use super::Finding;
use crate::view::View;

pub(super) fn look(view: &View) -> Finding {
    if !view.is_android() {
        return Finding::not_applicable("this is not Android");
    }
    let Some(groups) = view.text("proc/self/cgroup") else {
        return Finding::unknown("/proc/self/cgroup cannot be read, which tells whether this is in the background");
    };
    let in_background = groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        controllers.split(',').any(|each| matches!(each, "cpuset" | "cpu" | "schedtune"))
            && path.split('/').any(|part| matches!(part, "background" | "bg_non_interactive" | "system-background"))
    });
    if !in_background {
        return Finding::well("this is not among the processes in the background");
    }
    Finding::wrong(
        "this is among the processes in the background",
        "it runs on the small processors only, and after everybody else",
    )
    .with_advice(
        "run it as a foreground service: Termux with 'termux-wake-lock' and its notification, or the screen on",
    )
}
