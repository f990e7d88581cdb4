//! Who chooses the processors' frequency.
//!
//! `powersave` holds them at the lowest, whatever there is to do. Not so with intel_pstate and amd-pstate-epp, whose `powersave` is the
//! ordinary one that follows the load.

use super::Finding;
use crate::change::{Change, Place};
use crate::view::View;

const FOLDER: &str = "sys/devices/system/cpu/cpufreq";
/// Drivers with a `powersave` of their own. In their passive modes they are called otherwise (`intel_cpufreq`, `amd-pstate`), and have the
/// kernel's.
const DYNAMIC: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
/// What takes its place, the best first: they follow the load.
const BETTER: [&str; 5] = ["schedutil", "ondemand", "interactive", "conservative", "performance"];

pub(super) fn look(view: &View) -> Finding {
    let policies: Vec<String> = view.names(FOLDER).into_iter().filter(|name| name.starts_with("policy")).collect();
    let mut slow = Vec::new();
    let mut said = Vec::new();
    for policy in policies {
        let file = |name: &str| view.text(&format!("{FOLDER}/{policy}/{name}"));
        let Some(governor) = file("scaling_governor") else { continue };
        let driver = file("scaling_driver").unwrap_or_default();
        let is_dynamic = DYNAMIC.contains(&driver.as_str());
        if !said.contains(&governor) {
            said.push(governor.clone());
        }
        if governor != "powersave" || is_dynamic {
            continue;
        }
        let frequency = |name: &str| file(name).and_then(|text| text.parse::<u64>().ok()).filter(|&khz| khz > 0);
        let offered = file("scaling_available_governors").unwrap_or_default();
        let better = BETTER.into_iter().find(|better| offered.split_whitespace().any(|has| has == *better));
        let least = frequency("scaling_min_freq").or_else(|| frequency("cpuinfo_min_freq"));
        slow.push((policy.clone(), least, frequency("cpuinfo_max_freq"), better));
    }
    if said.is_empty() {
        return Finding::not_applicable("nothing here chooses the processors' frequency");
    }
    if slow.is_empty() {
        return Finding::well(format!("the processors' frequency follows {}", said.join(", ")));
    }
    let names: Vec<&str> = slow.iter().map(|(policy, ..)| policy.as_str()).collect();
    let cost = match slow.first() {
        Some((_, Some(least), Some(most), _)) if least < most => format!(
            "they run at {} of {} MHz whatever there is to do: {:.0} % of their speed",
            least / 1000,
            most / 1000,
            *least as f64 * 100.0 / *most as f64
        ),
        _ => "they run at the lowest frequency whatever there is to do".to_string(),
    };
    let finding = Finding::wrong(format!("the governor powersave is in charge of {}", names.join(", ")), cost)
        .with_advice("it saves battery: leave it where nobody waits for this device");
    slow.into_iter().fold(finding, |finding, (policy, _, _, better)| match better {
        Some(better) => finding.with_change(Change { place: Place::Governor { policy }, new: better.into() }),
        None => finding,
    })
}
