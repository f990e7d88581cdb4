//! Counts of a run of many seeds, printed as lines.

use flashmob_lab::faults::{Change, Fault, Totals, Victim};

/// How changes ended in whose middle somebody was killed.
fn tell_changes(t: &Totals) {
    println!(
        "killed in the middle: changes that came to their end, and those that were not on record yet and were forgotten"
    );
    let row = |name: &str, cells: Vec<String>| println!("{name:<10}{}", cells.concat());
    row("", Victim::ALL.iter().map(|victim| format!("{:>14}", victim.name())).collect());
    for (change, counts) in Change::ALL.iter().zip(t.changes) {
        let cells = counts.iter().map(|killed| format!("{:>8} +{:>4}", killed.ended, killed.forgotten));
        row(change.name(), cells.collect());
    }
}

/// Prints the counts of all runs.
pub fn tell_totals(t: &Totals) {
    let [_, reads, writes, flushes, trims, zeroes, maps] = t.requests;
    println!(
        "requests: {reads} reads, {writes} writes, {flushes} flushes, {trims} trims, {zeroes} write-zeroes, {maps} maps with {} bytes of holes and {} of data",
        t.hole_bytes, t.mapped_data_bytes
    );
    println!("answers: {}, of them {} errors", t.answers, t.errors);
    println!(
        "batches: {} with {:.2} pieces each, {} to be answered together ({} by choice), {} pieces sent again; {} store operations; {} connects",
        t.batches,
        t.pieces as f64 / t.batches.max(1) as f64,
        t.together,
        t.together_by_choice,
        t.resent,
        t.store_ops,
        t.connects
    );
    let faults: Vec<String> =
        Fault::KINDS.iter().zip(t.faults.0).map(|(name, count)| format!("{count} {name}")).collect();
    println!("faults: {}; {} damaged writes", faults.join(", "), t.corruptions);
    if t.compared + t.evicted_copies > 0 {
        println!(
            "copies: {} declared behind, {} made current again, {} of chunks whose loss was accepted, {} moved ({} slots freed, {} orphans found), {} nodes added, {} removed, {} chunks more, {} times smaller, {} chunks compared; {} corrupt blocks mended, {} marked as lost; {} answers waited for changes; {} hedged reads, {} of them answered by the second copy first; {} forged maps",
            t.evicted_copies,
            t.resynced,
            t.accepted,
            t.moved,
            t.freed,
            t.orphans,
            t.joined,
            t.removed,
            t.grown,
            t.shrunk,
            t.compared,
            t.mended,
            t.marked,
            t.held_answers,
            t.hedged,
            t.hedges_first,
            t.forged_maps
        );
        println!(
            "scrubs: {}; {} corrupt blocks found, {} that differ; {} written again by their nodes",
            t.scrubs, t.scrub_corrupt, t.scrub_differing, t.rewritten
        );
    }
    if t.changes.iter().flatten().any(|killed| killed.ended + killed.forgotten > 0) {
        tell_changes(t);
    }
    println!("events: {}, virtual time {:.0} s", t.events, t.virtual_ns as f64 / 1e9);
}
