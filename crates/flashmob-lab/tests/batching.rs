//! Batching clocks itself: nothing is delayed when there is little to do, and batches are large when there is much.

use flashmob_core::gateway::BatchMode;
use flashmob_lab::faults::{ClientPlan, Outcome, Scenario, run};

fn reads(nodes: usize, batch: BatchMode, requests: u32, depth: usize) -> Outcome {
    let mut scenario = Scenario::plain(1, nodes, 4096);
    scenario.volume.batch = batch;
    scenario.clients = vec![ClientPlan::reader(requests, depth)];
    scenario.record_latencies = true;
    let outcome = run(scenario, false);
    assert_eq!(outcome.violation, None);
    outcome
}

#[test]
fn with_one_request_outstanding_auto_adds_nothing_to_the_latency_of_one_by_one() {
    for nodes in [1, 4, 8] {
        let auto = reads(nodes, BatchMode::Auto, 500, 1).latencies;
        let single = reads(nodes, BatchMode::Fixed(1), 500, 1).latencies;
        assert_eq!(auto[..500], single[..500], "to the nanosecond, over {nodes} nodes");
    }
}

#[test]
fn with_256_requests_outstanding_batches_are_large_though_nothing_waits_for_a_timer() {
    for nodes in [2, 4, 8] {
        let outcome = reads(nodes, BatchMode::Auto, 20_000, 256);
        let mean = outcome.totals.pieces as f64 / outcome.totals.batches as f64;
        println!("{nodes} nodes: {mean:.1} pieces per batch");
        assert!(mean > 8.0, "{mean} pieces per batch over {nodes} nodes");
    }
}

#[test]
fn with_256_requests_outstanding_auto_is_faster_than_one_by_one() {
    let auto = reads(4, BatchMode::Auto, 10_000, 256).totals.virtual_ns;
    let single = reads(4, BatchMode::Fixed(1), 10_000, 256).totals.virtual_ns;
    assert!(auto * 2 < single, "{auto} ns against {single} ns");
}
