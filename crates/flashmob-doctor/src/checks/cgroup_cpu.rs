//! Limits on processor time that a control group has, and whether they bind.

use super::Finding;
use super::cgroups::{Version, folders};
use crate::view::View;

/// A gateway and a node are one busy thread each.
const CPUS_MIN: f64 = 1.0;
/// Of the periods of a group that had something to do.
const THROTTLED_PART_MAX: f64 = 0.05;
/// Fewer say nothing.
const PERIODS_MIN: u64 = 100;

pub(super) fn look(view: &View) -> Finding {
    let folders = folders(view, "cpu");
    if folders.is_empty() {
        return Finding::not_applicable("no control group is in charge of processors here");
    }
    let mut limits = Vec::new();
    for (version, folder) in folders {
        let Some(cpus) = limit(view, version, &folder) else { continue };
        let stat = view.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
        let of = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let part = match (of("nr_throttled "), of("nr_periods ")) {
            (Some(throttled), Some(periods)) if periods >= PERIODS_MIN => throttled as f64 / periods as f64,
            _ => 0.0,
        };
        limits.push((cpus, part, folder));
    }
    let Some((cpus, _, folder)) = limits.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Finding::well("no control group limits processors");
    };
    let found = format!("a control group allows {cpus:.2} processors (/{folder})");
    let advice = "raise the limit (systemd: CPUQuota=200%)";
    if *cpus < CPUS_MIN {
        let cost = format!(
            "{:.0} % of the time a busy node or gateway stands still, up to {:.0} ms at a time",
            (1.0 - cpus) * 100.0,
            (1.0 - cpus) * 100.0
        );
        return Finding::wrong(found, cost).with_advice(advice);
    }
    match limits.iter().find(|(_, part, _)| *part > THROTTLED_PART_MAX) {
        Some((_, part, folder)) => {
            let cost = format!("in {:.0} % of its periods the group was made to stand still", part * 100.0);
            Finding::wrong(format!("{found}, and /{folder} has needed more"), cost).with_advice(advice)
        }
        None => Finding::well(found),
    }
}

/// Processors that the group may use; `None` if it is not limited.
fn limit(view: &View, version: Version, folder: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = match version {
        Version::One => {
            // -1 is no limit, and no number without a sign.
            (view.number(&format!("{folder}/cpu.cfs_quota_us"))?, view.number(&format!("{folder}/cpu.cfs_period_us"))?)
        }
        Version::Two => {
            let text = view.text(&format!("{folder}/cpu.max"))?;
            let mut words = text.split_whitespace();
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
        }
    };
    (period > 0).then(|| quota as f64 / period as f64)
}
