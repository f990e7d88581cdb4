//! Android's battery optimisation: Doze suspends the network of apps when the screen is off and the device lies still, unless it charges.

use super::Finding;
use crate::view::{Answer, View};

/// flashmob runs inside Termux or an app of its own.
const APPS: [&str; 2] = ["com.termux", "flashmob"];

pub(super) fn look(view: &View) -> Finding {
    if !view.is_android() {
        return Finding::not_applicable("this is not Android");
    }
    let advice =
        "settings, apps, the app, battery: 'unrestricted'; and keep the device charging, then Doze does not begin";
    let listed = match view.ask("dumpsys", &["deviceidle", "whitelist"]) {
        Answer::Said(text) => text,
        Answer::Refused(why) => {
            return Finding::unknown(format!("dumpsys does not tell who is exempt from Doze: {why}"))
                .with_advice(advice);
        }
        Answer::Absent => {
            return Finding::unknown("without dumpsys nobody tells who is exempt from Doze").with_advice(advice);
        }
    };
    // What it may not say it says with success as well.
    if !listed.lines().any(|line| line.contains(',')) {
        return Finding::unknown("dumpsys does not tell who is exempt from Doze").with_advice(advice);
    }
    let exempt = listed.lines().flat_map(|line| line.split(',')).find(|name| APPS.iter().any(|app| name.contains(app)));
    if let Some(name) = exempt {
        return Finding::well(format!("{name} is exempt from battery optimisation"));
    }
    Finding::wrong(
        "neither Termux nor flashmob is exempt from battery optimisation",
        "when the screen is off and the device lies still and does not charge, its network is suspended for minutes: links break",
    )
    .with_command("dumpsys deviceidle whitelist +com.termux")
    .with_advice(advice)
}
