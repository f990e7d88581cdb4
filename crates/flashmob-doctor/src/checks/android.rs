//! Android's limits on background processes. None of these checks applies elsewhere: the table's entries begin with [`on_android`].

use super::Finding;
use crate::view::{Answer, View};

/// flashmob runs inside Termux or an app of its own.
const APPS: [&str; 2] = ["com.termux", "flashmob"];
/// Lowest oom_score_adj of apps that are not visible (PREVIOUS_APP_ADJ); a foreground service has 200, a process of adb -950.
const CACHED: i64 = 700;
/// Android 12, which limits the processes that apps start: it kills those beyond 32 of all apps, and those that use much processor time.
const API_WITH_LIMIT: u32 = 31;

fn on_android(view: &View, check: fn(&View) -> Finding) -> Finding {
    if view.is_android() { check(view) } else { Finding::not_applicable("this is not Android") }
}

/// Whether Android schedules this process as a background process: on fewer and slower processors.
pub(super) fn background(view: &View) -> Finding {
    on_android(view, |view| {
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
            "it runs on the small processors only, and after all other processes",
        )
        .with_advice(
            "run it as a foreground service: Termux with 'termux-wake-lock' and its notification, or the screen on",
        )
    })
}

/// Battery optimisation: Doze suspends the network of apps while the screen is off and the device lies still, unless it charges.
pub(super) fn battery(view: &View) -> Finding {
    on_android(view, |view| {
        let advice =
            "settings, apps, the app, battery: 'unrestricted'; and keep the device charging, then Doze does not begin";
        let unknown = "dumpsys does not tell who is exempt from Doze";
        let listed = match view.ask("dumpsys", &["deviceidle", "whitelist"]) {
            // A refusal is reported with success as well.
            Answer::Said(text) if text.contains(',') => text,
            Answer::Said(_) => return Finding::unknown(unknown).with_advice(advice),
            Answer::Refused(why) => return Finding::unknown(format!("{unknown}: {why}")).with_advice(advice),
            Answer::Absent => {
                return Finding::unknown("without dumpsys it is not known who is exempt from Doze").with_advice(advice);
            }
        };
        let mut names = listed.lines().flat_map(|line| line.split(','));
        match names.find(|name| APPS.iter().any(|app| name.contains(app))) {
            Some(name) => Finding::well(format!("{name} is exempt from battery optimisation")),
            None => Finding::wrong(
                "neither Termux nor flashmob is exempt from battery optimisation",
                "when the screen is off and the device lies still and does not charge, its network is suspended for minutes: links break",
            )
            .with_command("dumpsys deviceidle whitelist +com.termux")
            .with_advice(advice),
        }
    })
}

/// How early Android kills this process when memory is low.
pub(super) fn low_memory(view: &View) -> Finding {
    on_android(view, |view| {
        let Some(adjustment) = view.number::<i64>("proc/self/oom_score_adj") else {
            return Finding::unknown("/proc/self/oom_score_adj cannot be read, which tells who is ended first");
        };
        if adjustment < CACHED {
            return Finding::well(format!(
                "when memory is short others are ended before this (oom_score_adj {adjustment})"
            ));
        }
        Finding::severe(
            format!("Android counts this among apps that are not needed (oom_score_adj {adjustment})"),
            "it is ended as soon as memory is short: opening the camera is enough",
        )
        .with_advice("run it as a foreground service: Termux with 'termux-wake-lock' and its notification")
    })
}

/// Whether Android kills processes that apps start.
pub(super) fn processes(view: &View) -> Finding {
    on_android(view, |view| {
        let property = |name: &str| match view.ask("getprop", &[name]) {
            Answer::Said(text) => Some(text),
            _ => view.text("system/build.prop").and_then(|text| {
                text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim().to_string()))
            }),
        };
        let Some(api) = property("ro.build.version.sdk").and_then(|text| text.parse::<u32>().ok()) else {
            return Finding::unknown("the version of Android cannot be determined");
        };
        if api < API_WITH_LIMIT {
            return Finding::not_applicable(format!("Android before 12 (API {api}) ends no processes that apps start"));
        }
        let unknown = "it is not known whether Android ends processes that apps start";
        let advice =
            "by adb or as root; on Android 14 also in the developer options: 'disable child process restrictions'";
        match view.ask("settings", &["get", "global", "settings_enable_monitor_phantom_procs"]) {
            Answer::Said(text) if text == "false" => Finding::well("processes that apps start are left alone"),
            Answer::Said(text) if text == "true" || text == "null" => Finding::wrong(
                "Android ends processes that apps start when they are more than 32, or busy (the phantom process killer)",
                "a node inside Termux ends with signal 9 in the middle of its work",
            )
            .with_command("settings put global settings_enable_monitor_phantom_procs false")
            .with_advice(advice),
            Answer::Said(_) | Answer::Absent => Finding::unknown(unknown).with_advice(advice),
            Answer::Refused(why) => Finding::unknown(format!("{unknown}: {why}")).with_advice(advice),
        }
    })
}
