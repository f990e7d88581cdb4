//! Memory that programs can still have.

use super::Finding;
use crate::bytes;
use crate::view::View;

/// What a node takes for itself unless told otherwise (`--memory`).
pub(super) const NODE_BYTES: u64 = 64 << 20;
/// And as much again for the page cache, without which every read goes to the flash.
pub(super) const ENOUGH_BYTES: u64 = 2 * NODE_BYTES;

pub(super) fn look(view: &View) -> Finding {
    let text = view.text("proc/meminfo").unwrap_or_default();
    // Kernels before 3.14 do not say it: what is free, and what is cached and clean as a rule.
    let estimated = || Some(kib(&text, "MemFree:")?.saturating_add(kib(&text, "Cached:")?));
    let Some(available) = kib(&text, "MemAvailable:").or_else(estimated).map(|kib| kib.saturating_mul(1024)) else {
        return Finding::unknown("/proc/meminfo does not say how much memory is available");
    };
    let found = format!("{} of memory are available", bytes(available));
    let advice = "end programs that are not needed, or give the node less: flashmob node --memory 32MiB";
    if available < NODE_BYTES {
        let cost = "a node takes up to 64 MiB: the system swaps, or ends it or another program";
        return Finding::severe(found, cost).with_advice(advice);
    }
    if available < ENOUGH_BYTES {
        let cost = "beside a node's 64 MiB hardly anything is left for the page cache: reads go to the flash that might have come from memory";
        return Finding::wrong(found, cost).with_advice(advice);
    }
    Finding::well(found)
}

fn kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix("kB")?.trim().parse().ok()
}
