//! C1: a device's flash does more random reads each second than a PC's hard disk.
//!
//! The best rate over threads of the one against the best of the other, at equal block size. Best, because each may have the number
//! of threads that suits it; equal block size, because a smaller read is never slower. It holds if flash is the faster one, by
//! more than 10 % and the spread, at every block size that both have. Each flash device is compared with each disk.

use flashmob_results::disk::Point;

use super::{Definition, Finding, Judged, on_phone, rate};
use crate::entry::{Entry, Medium};
use crate::stats::Comparison;
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C1",
    source: "P1, Fig. 1-4",
    words: "A device's flash does more random reads per second than a hard disk.",
    short: "Flash reads faster than a hard disk",
    criterion: "At every block size that both have, the best rate over threads is more than 10 % higher on flash, beyond the spread.",
    command: "flashmob bench disk FILE --preset p1",
    measured_on: " on a flash device and on a rotating disk, both results in one report",
    on_phone: on_phone::P1_AND_DISK,
    judge: judged,
    ..Definition::DEVICE
};

fn judged(entries: &[Entry]) -> Judged {
    let of = |medium| entries.iter().enumerate().filter(move |(_, entry)| entry.medium() == medium);
    let pairs = of(Medium::Flash).flat_map(|flash| of(Medium::Rotational).map(move |disk| (flash, disk)));
    Judged { findings: pairs.filter_map(|(flash, disk)| compared(flash, disk)).collect(), missing: Vec::new() }
}

fn compared((flash_at, flash): (usize, &Entry), (disk_at, disk): (usize, &Entry)) -> Option<Finding> {
    let (of_flash, of_disk) = (best(flash), best(disk));
    let pairs: Vec<(&Point, &Point)> = of_flash
        .iter()
        .filter_map(|a| of_disk.iter().find(|b| b.parameters.block_bytes == a.parameters.block_bytes).map(|b| (*a, *b)))
        .collect();
    let narrowest = pairs.iter().min_by(|x, y| ratio(x).total_cmp(&ratio(y)))?;
    let unbeaten: Vec<String> = pairs
        .iter()
        .filter(|(a, b)| !Comparison::of(a, b).first_is_faster())
        .map(|(a, _)| words::bytes(a.parameters.block_bytes))
        .collect();
    let reason = if unbeaten.is_empty() {
        String::new()
    } else {
        format!("; flash is not faster by 10 % and the spread at {}", words::list(&unbeaten))
    };
    let numbers = format!(
        "{}narrowest at {}: {}/s ({}) on flash against {}/s ({}) on the disk, {} times as many{reason}",
        if pairs.len() > 1 { format!("{} block sizes; ", pairs.len()) } else { String::new() },
        words::bytes(narrowest.0.parameters.block_bytes),
        words::number(rate(narrowest.0)),
        words::threads(narrowest.0.parameters.threads),
        words::number(rate(narrowest.1)),
        words::threads(narrowest.1.parameters.threads),
        words::number(ratio(narrowest)),
    );
    let points: Vec<&Point> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    Some(Finding { entries: vec![flash_at, disk_at], ..Finding::of(flash_at, unbeaten.is_empty(), numbers, &points) })
}

fn ratio((a, b): &(&Point, &Point)) -> f64 {
    rate(a) / rate(b)
}

/// The fastest random read of each block size, among those over the widest range: a disk's arm moves less within a narrow one.
pub(super) fn best(entry: &Entry) -> Vec<&Point> {
    let points: Vec<&Point> = entry.random_reads().into_iter().flat_map(|(_, points)| points).collect();
    let widest = |block_bytes| {
        let same = points.iter().filter(|p| p.parameters.block_bytes == block_bytes);
        same.map(|p| p.parameters.range_bytes).max()
    };
    let mut best: Vec<&Point> = Vec::new();
    for &point in points.iter().filter(|p| Some(p.parameters.range_bytes) == widest(p.parameters.block_bytes)) {
        match best.iter_mut().find(|b| b.parameters.block_bytes == point.parameters.block_bytes) {
            Some(known) if rate(known) < rate(point) => *known = point,
            Some(_) => {}
            None => best.push(point),
        }
    }
    best
}
