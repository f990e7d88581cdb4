//! A slow or dead node holds up only its own requests.

use std::time::Duration;

use flashmob_lab::faults::{ClientPlan, Fault, Scenario, run};

const EXTENT_BYTES: u64 = 16 * 1024;
const SECOND: Duration = Duration::from_secs(1);

/// The p99 latency in nanoseconds of a client of nodes 1 to 3, while another one uses node 0.
fn p99_of_the_others(fault: Option<Fault>, slowness: u64) -> u64 {
    let mut scenario = Scenario::plain(3, 4, EXTENT_BYTES);
    scenario.slowness[0] = slowness;
    scenario.faults = fault.map(|fault| (Duration::from_millis(20), fault)).into_iter().collect();
    scenario.span = Duration::from_millis(100);
    scenario.record_latencies = true;
    let client = |start: u64, bytes: u64, requests: u32| ClientPlan {
        mix: [4, 2, 0, 0, 0],
        len_max: 512,
        busy_rate: 1.0,
        busy: vec![(start, bytes)],
        ..ClientPlan::reader(requests, 16)
    };
    let others = client(EXTENT_BYTES, 3 * EXTENT_BYTES - 512, 4000);
    scenario.clients = vec![client(0, EXTENT_BYTES - 512, 400), others];
    let outcome = run(scenario, false);
    assert_eq!(outcome.violation, None);
    let mut latencies: Vec<u64> = outcome.latencies.iter().filter(|l| l.0 == 1).map(|l| l.1).collect();
    assert!(latencies.len() >= 4000, "all of them succeed: {}", latencies.len());
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn other_nodes_requests_keep_their_latency() {
    let calm = p99_of_the_others(None, 1);
    let troubled = [
        ("death", p99_of_the_others(Some(Fault::Death(0)), 1)),
        ("freeze", p99_of_the_others(Some(Fault::Freeze(0, 3 * SECOND)), 1)),
        ("stall", p99_of_the_others(Some(Fault::Stall(0, 3 * SECOND)), 1)),
        ("kill", p99_of_the_others(Some(Fault::Kill(0, SECOND)), 1)),
        ("store errors", p99_of_the_others(Some(Fault::StoreErrors(0, SECOND)), 1)),
        ("slowness", p99_of_the_others(None, 50)),
    ];
    for (name, p99) in troubled {
        assert!(p99 < 2 * calm, "{name} of node 0: p99 of the others is {p99} ns instead of {calm} ns");
    }
}
