//! Limits on memory that a control group has, such as a container's or a service's.

use super::Finding;
use super::cgroups::{Version, folders};
use super::memory::{ENOUGH_BYTES, NODE_BYTES};
use crate::bytes;
use crate::view::View;

/// Version 1 says "no limit" with the largest number of pages; nobody sets as much.
const UNLIMITED_BYTES: u64 = 1 << 60;

pub(super) fn look(view: &View) -> Finding {
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
        // "max" is no number, and no limit.
        let Some(limit) = view.number::<u64>(&format!("{folder}/{limit}")).filter(|&limit| limit < UNLIMITED_BYTES)
        else {
            continue;
        };
        let used = view.number::<u64>(&format!("{folder}/{used}")).unwrap_or(0);
        // What the group has of the page cache is given up when somebody needs it.
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

fn reclaimable(text: &str) -> Option<u64> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // Version 1 counts those below as well under names of their own.
    let file = of("total_inactive_file ").or_else(|| of("inactive_file "))?;
    Some(file.saturating_add(of("total_active_file ").or_else(|| of("active_file ")).unwrap_or(0)))
}
