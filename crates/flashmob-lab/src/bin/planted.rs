//! The number of seeds that the fault simulator needs to find planted bugs: a table, and a failure if one is never found.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use flashmob_core::planted::{Bug, plant};
use flashmob_lab::faults::{self, Scenario};

/// Plants each bug, and counts the seeds that the fault simulator needs to find it, over disjoint ranges of seeds.
#[derive(Parser)]
struct Args {
    /// Ranges of seeds.
    #[arg(long, default_value_t = 5)]
    ranges: u64,
    /// Most seeds of each.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed of the first range; each of the others begins a million later.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only the bugs with this in their names.
    #[arg(long, default_value = "")]
    only: String,
}

/// Bugs that need a rare sequence of events, and what finds them where ranges do not: seeds from that one on, and its name.
type Rare = (Bug, fn(u64) -> Scenario, u64, u64, &'static str);
const RARE: [Rare; 2] = [
    (Bug::ShrinkTakesChanges, Scenario::killed_from_seed, 0, 4_800, "killed"),
    (Bug::ShrinkUnfenced, Scenario::with_copies_from_seed, 979_079_640, 1, "copies"),
];

/// The distance between ranges.
const APART: u64 = 1_000_000;

fn main() -> ExitCode {
    let args = Args::parse();
    // Panics are findings here.
    panic::set_hook(Box::new(|_| ()));
    println!("| bug | seeds to find it, median of {} ranges | each range | missed |", args.ranges);
    println!("|---|---:|---|---:|");
    let mut missed_all = 0;
    let families = |bug: Bug| [(bug, false), (bug, true)].into_iter().filter(|&(bug, copies)| is_tried(bug, copies));
    for (bug, copies) in Bug::ALL.into_iter().flat_map(families).filter(|(bug, _)| bug.name().contains(&args.only)) {
        plant(Some(bug));
        let first = |range: u64| args.first + range * APART;
        let mut found: Vec<Option<u64>> =
            (0..args.ranges).map(|range| seeds_until_found(scenario_of(copies), first(range), args.seeds)).collect();
        let mut each: Vec<String> =
            found.iter().map(|seeds| seeds.map_or("missed".to_string(), |n| n.to_string())).collect();
        let missed = found.iter().filter(|seeds| seeds.is_none()).count();
        let mut is_found = (missed as u64) < args.ranges;
        if let Some((_, scenario, from, seeds, how)) = RARE.into_iter().find(|rare| rare.0 == bug && !is_found)
            && let Some(count) = seeds_until_found(scenario, from, seeds)
        {
            is_found = true;
            each.push(format!("seed {} of `faults --{how}`", from + count - 1));
        }
        plant(None);
        // A miss counts as more than any number.
        found.sort_unstable_by_key(|seeds| seeds.unwrap_or(u64::MAX));
        let median = found.get(found.len() / 2).copied().flatten();
        let median = median.map_or(format!("more than {}", args.seeds), |n| n.to_string());
        let with = if copies && !bug.is_of_copies() { ", with copies" } else { "" };
        println!("| {}{with} | {median} | {} | {missed} |", bug.name(), each.join(", "));
        missed_all += u64::from(!is_found);
    }
    if missed_all == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a bug is tried in clusters whose volumes have copies, or in the others.
fn is_tried(bug: Bug, copies: bool) -> bool {
    bug.is_for_simulator() && (bug.is_of_copies() == copies || bug.is_of_both())
}

fn scenario_of(copies: bool) -> fn(u64) -> Scenario {
    if copies { Scenario::with_copies_from_seed } else { Scenario::from_seed }
}

/// Which seed of a range finds the planted bug, counted from 1.
fn seeds_until_found(scenario: fn(u64) -> Scenario, first: u64, seeds: u64) -> Option<u64> {
    let next = AtomicU64::new(first);
    let found = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Threads may finish in another order: those before the first that was found are run to their end.
                    if seed >= first + seeds || seed > found.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = panic::catch_unwind(AssertUnwindSafe(|| faults::run(scenario(seed), false)));
                    if outcome.map_or(true, |outcome| outcome.violation.is_some()) {
                        found.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let found = found.into_inner();
    (found != u64::MAX).then(|| found - first + 1)
}
