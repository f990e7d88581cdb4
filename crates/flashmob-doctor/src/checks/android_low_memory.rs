//! How soon Android ends this process when memory is short.

use super::Finding;
use crate::view::View;

/// From here on are apps that nobody sees (PREVIOUS_APP_ADJ and what comes after it); a service in the foreground has 200, what adb starts -950.
const CACHED: i64 = 700;

pub(super) fn look(view: &View) -> Finding {
    if !view.is_android() {
        return Finding::not_applicable("this is not Android");
    }
    let Some(adjustment) = view.number::<i64>("proc/self/oom_score_adj") else {
        return Finding::unknown("/proc/self/oom_score_adj cannot be read, which tells who is ended first");
    };
    if adjustment < CACHED {
        return Finding::well(format!(
            "when memory is short others are ended before this (oom_score_adj {adjustment})"
        ));
    }
    Finding::severe(
        format!("Android counts this among apps that nobody needs (oom_score_adj {adjustment})"),
        "it is ended as soon as memory is short: opening the camera is enough",
    )
    .with_advice("run it as a foreground service: Termux with 'termux-wake-lock' and its notification")
}
