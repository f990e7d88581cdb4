//! All checks of a device.

use std::time::SystemTime;

use flashmob_host::device;
use flashmob_results::clock;
use flashmob_results::diagnosis::{Check, Diagnosis, FORMAT, FORMAT_VERSION, Path};

use crate::change::Change;
use crate::checks;
use crate::view::{Rate, View};

/// The findings, and the changes that would fix them.
#[derive(Debug)]
pub struct Looked {
    /// The findings in the published format.
    pub diagnosis: Diagnosis,
    /// For each check, in the same order, the changes that would fix it.
    pub changes: Vec<Vec<Change>>,
}

/// Runs the checks whose names `wanted` accepts.
#[must_use]
pub fn look(view: &View, program_version: &str, wanted: &dyn Fn(&str) -> bool) -> Looked {
    let mut looked = Vec::new();
    let mut changes = Vec::new();
    for &(name, check) in checks::TABLE.iter().filter(|(name, _)| wanted(name)) {
        let finding = check(view);
        let commands: Vec<String> = finding.changes.iter().map(Change::command).collect();
        let command = if finding.command.is_empty() { commands.join(" && ") } else { finding.command };
        looked.push(Check {
            name: name.to_string(),
            outcome: finding.outcome,
            found: finding.found,
            cost: finding.cost,
            command,
            can_fix: !finding.changes.is_empty() && view.is_live(),
            advice: finding.advice,
        });
        changes.push(finding.changes);
    }
    let device = if view.is_live() { device::describe() } else { device::describe_at(view.root()) };
    let diagnosis = Diagnosis {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: program_version.into(),
        looked_unix_s: clock::unix_s(SystemTime::now()),
        device,
        path: view.path.as_ref().map(|found| {
            let rate = found.rate.map(Rate::bits_per_second);
            let window = rate.zip(found.rtt_s).map(|(bits, rtt)| (bits / 8.0 * rtt).ceil() as u64);
            Path {
                peer: found.asked.peer.clone(),
                interface: found.interface.clone(),
                rtt_ms: found.rtt_s.map(|seconds| seconds * 1e3),
                bits_per_second: rate,
                is_rate_measured: matches!(found.rate, Some(Rate::Measured(_))),
                bandwidth_delay_bytes: window,
            }
        }),
        checks: looked,
    };
    Looked { diagnosis, changes }
}
