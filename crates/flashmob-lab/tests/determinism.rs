//! A seed repeats a run exactly.

use flashmob_lab::faults::{Scenario, run};

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..40 {
        let (first, second) = (run(Scenario::from_seed(seed), false), run(Scenario::from_seed(seed), false));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.totals, second.totals, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_with_copies() {
    for seed in 0..40 {
        let again = || run(Scenario::with_copies_from_seed(seed), false);
        assert_eq!(again().trace_hash, again().trace_hash, "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_runs() {
    let hashes: std::collections::BTreeSet<u64> =
        (0..40).map(|seed| run(Scenario::from_seed(seed), false).trace_hash).collect();
    assert_eq!(hashes.len(), 40);
}
