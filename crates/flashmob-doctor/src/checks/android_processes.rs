//! Android 12's limit on processes that apps start: beyond 32 of all apps, and those that take much processor time, are ended.

use super::Finding;
use crate::view::{Answer, View};

/// Android 12.
const API_WITH_LIMIT: u32 = 31;

pub(super) fn look(view: &View) -> Finding {
    if !view.is_android() {
        return Finding::not_applicable("this is not Android");
    }
    let property = |name: &str| match view.ask("getprop", &[name]) {
        Answer::Said(text) => Some(text),
        _ => view.text("system/build.prop").and_then(|text| {
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim().to_string()))
        }),
    };
    let Some(api) = property("ro.build.version.sdk").and_then(|text| text.parse::<u32>().ok()) else {
        return Finding::unknown("which Android this is cannot be found out");
    };
    if api < API_WITH_LIMIT {
        return Finding::not_applicable(format!("Android before 12 (API {api}) ends no processes that apps start"));
    }
    let command = "settings put global settings_enable_monitor_phantom_procs false";
    let advice = "by adb or as root; on Android 14 also in the developer options: 'disable child process restrictions'";
    match view.ask("settings", &["get", "global", "settings_enable_monitor_phantom_procs"]) {
        Answer::Said(text) if text == "false" => Finding::well("processes that apps start are left alone"),
        Answer::Said(text) if text == "true" || text == "null" => Finding::wrong(
            "Android ends processes that apps start when they are more than 32, or busy (the phantom process killer)",
            "a node inside Termux ends with signal 9 in the middle of its work",
        )
        .with_command(command)
        .with_advice(advice),
        Answer::Said(_) | Answer::Absent => {
            Finding::unknown("whether Android ends processes that apps start is not known").with_advice(advice)
        }
        Answer::Refused(why) => {
            Finding::unknown(format!("whether Android ends processes that apps start is not known: {why}"))
                .with_advice(advice)
        }
    }
}
