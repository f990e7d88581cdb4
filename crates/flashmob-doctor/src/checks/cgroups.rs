//! Limits of control groups, such as those of a container or a service. Version 1 has a hierarchy for each controller, version 2 one for
//! all.

use super::Finding;
use super::machine::{ENOUGH_BYTES, NODE_BYTES};
use crate::bytes;
use crate::view::View;

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 64;

/// A gateway and a node each have one busy thread.
const CPUS_MIN: f64 = 1.0;
/// Most throttled periods, as a fraction of a group's active periods.
const THROTTLED_PART_MAX: f64 = 0.05;
/// Fewer periods are no evidence.
const PERIODS_MIN: u64 = 100;
/// Version 1 reports the largest number of pages for "no limit".
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Which version a folder belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// This process's group for a controller and all above it, the nearest first, relative to the view's root; empty if there are none.
fn folders(view: &View, controller: &str) -> Vec<(Version, String)> {
    let text = view.text("proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if path.split('/').any(|part| part == "..") {
            continue;
        }
        if controllers.is_empty() {
            for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                if view.root().join(mount).join("cgroup.controllers").exists() {
                    found.extend(upwards(mount, path).map(|folder| (Version::Two, folder)));
                    break;
                }
            }
        } else if controllers.split(',').any(|each| each == controller) {
            // The folder is named after all controllers mounted together, or after this one.
            let mounts = [controllers, controller].map(|name| format!("sys/fs/cgroup/{name}"));
            if let Some(mount) = mounts.iter().find(|mount| view.root().join(mount).is_dir()) {
                found.extend(upwards(mount, path).map(|folder| (Version::One, folder)));
            }
        }
    }
    // In a container the path is the host's, and the mount shows the group itself as its top.
    found.retain(|(_, folder)| view.root().join(folder).is_dir());
    found
}

fn upwards(mount: &str, path: &str) -> impl Iterator<Item = String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).take(DEPTH_MAX).collect();
    let mount = mount.to_string();
    let paths: Vec<String> =
        (0..=parts.len()).rev().map(|len| [&[mount.as_str()], &parts[..len]].concat().join("/")).collect();
    paths.into_iter()
}

/// The limit on processor time, and whether it binds.
pub(super) fn cpu(view: &View) -> Finding {
    let folders = folders(view, "cpu");
    if folders.is_empty() {
        return Finding::not_applicable("no control group is in charge of processors here");
    }
    let mut limits = Vec::new();
    for (version, folder) in folders {
        let Some(cpus) = cpus(view, version, &folder) else { continue };
        let stat = view.text(&format!("{folder}/cpu.stat")).unwrap_or_default();
        let part = match (number_of(&stat, "nr_throttled "), number_of(&stat, "nr_periods ")) {
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
        let percent = (1.0 - cpus) * 100.0;
        let cost =
            format!("{percent:.0} % of the time a busy node or gateway stands still, up to {percent:.0} ms at a time");
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
fn cpus(view: &View, version: Version, folder: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = match version {
        Version::One => {
            // -1 means no limit, and does not parse as an unsigned number.
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

/// The limit on memory.
pub(super) fn memory(view: &View) -> Finding {
    let folders = folders(view, "memory");
    if folders.is_empty() {
        return Finding::not_applicable("no control group is in charge of memory here");
    }
    let mut tightest: Option<(u64, u64, String)> = None;
    for (version, folder) in folders {
        let (limit, used) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            Version::Two => ("memory.max", "memory.current"),
        };
        // "max" means no limit, and does not parse.
        let Some(limit) = view.number::<u64>(&format!("{folder}/{limit}")).filter(|&limit| limit < UNLIMITED_BYTES)
        else {
            continue;
        };
        let used = view.number::<u64>(&format!("{folder}/{used}")).unwrap_or(0);
        // The group's part of the page cache is reclaimed on demand.
        let cached = view.text(&format!("{folder}/memory.stat")).and_then(|text| reclaimable(&text)).unwrap_or(0);
        let left = limit.saturating_sub(used.saturating_sub(cached));
        if tightest.as_ref().is_none_or(|(least, _, _)| left < *least) {
            tightest = Some((left, limit, folder));
        }
    }
    let Some((left, limit, folder)) = tightest else { return Finding::well("no control group limits memory") };
    let found = format!("a control group allows {}, of which {} are left (/{folder})", bytes(limit), bytes(left));
    let advice = "raise the limit (systemd: MemoryMax=256M), or give the node less: flashmob node --memory 32MiB";
    if left < NODE_BYTES {
        return Finding::severe(found, "a node takes up to 64 MiB, and the kernel ends it when there is no more")
            .with_advice(advice);
    }
    if left < ENOUGH_BYTES {
        let cost = "beside a node's 64 MiB hardly anything is left for the page cache, which counts as well: reads go to the flash that might have come from memory";
        return Finding::wrong(found, cost).with_advice(advice);
    }
    Finding::well(found)
}

/// Bytes of the page cache that the group can reclaim.
fn reclaimable(text: &str) -> Option<u64> {
    // Version 1 has totals that include the groups below.
    let of = |kind: &str| number_of(text, &format!("total_{kind} ")).or_else(|| number_of(text, &format!("{kind} ")));
    Some(of("inactive_file")?.saturating_add(of("active_file").unwrap_or(0)))
}

/// The number after `name` at the beginning of a line.
fn number_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}
