//! Links whose bytes are changed on the way: whatever an attacker between gateway and node does to a connection, it ends, another one takes its place, and
//! every call has the bytes that were written last.

mod change;
#[path = "../cluster/mod.rs"]
mod cluster;
mod lane;
mod proxy;
mod replay;

use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use change::{Change, RECORD_HEADER_BYTES, record_bytes};
use lane::{Keyed, Lane, Outcome, config, identity};
use proxy::{DIRECTIONS, Direction, Plan, Proxy};

/// Clusters side by side. Some changes make an end wait for bytes that never come, or a gateway for a second before it tries again.
const LANES: usize = 32;
/// How often a change is tried.
const TRIES: usize = 5;
/// Kinds of TLS records (RFC 8446, 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
/// Bytes of an encrypted record's header that say what is the same for all: the kind, and the second byte of the version. What they should be is
/// authenticated; what they are does not matter.
const FIXED_AT: [usize; 2] = [0, 2];

/// Runs all plans, each through one connection, and returns them with their outcomes.
fn run(plans: &[Plan]) -> Vec<(Plan, Outcome)> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(plans.len()) {
            scope.spawn(|| {
                let mut lane = Lane::new();
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::SeqCst)) {
                    // A connection that ended before its change says nothing: the machine stood still for longer than a handshake may take.
                    let says_something = |outcome: &Outcome| *outcome != Outcome::Ended(None);
                    let outcome = (0..TRIES).map(|_| lane.round(*plan)).find(says_something);
                    let outcome = outcome.unwrap_or(Outcome::Ended(None));
                    outcomes.lock().expect("outcomes").push((*plan, outcome));
                }
                lane.end();
            });
        }
    });
    outcomes.into_inner().expect("outcomes")
}

/// Where the records of a connection end that nobody changes, by direction.
fn ends_of_records() -> [Vec<usize>; 2] {
    let mut lane = Lane::new();
    assert_eq!(lane.round(Plan::NONE), Outcome::Untouched);
    let connection = lane.proxy.planned().expect("a connection");
    let ends = DIRECTIONS.map(|direction| {
        let (came, mut ends, mut at) = (connection.came(direction), Vec::new(), 0);
        while let Some(len) = record_bytes(&came[at..]) {
            at += len;
            ends.push(at);
        }
        assert_eq!(at, came.len(), "whole records");
        // That of the read with which a round makes sure that the others have passed.
        ends.pop();
        ends
    });
    lane.end();
    ends
}

/// Positions of the headers of records that end there.
fn headers(ends: &[usize]) -> impl Iterator<Item = usize> {
    std::iter::once(&0).chain(&ends[..ends.len() - 1]).flat_map(|start| *start..start + RECORD_HEADER_BYTES)
}

#[test]
fn no_bit_of_a_link_can_be_changed() {
    let ends = ends_of_records();
    let mut plans = Vec::new();
    for direction in DIRECTIONS {
        let ends = &ends[direction as usize];
        let flip = |(at, bit)| Plan::new(direction, Change::Flip { at, bit });
        let len = *ends.last().expect("records");
        plans.extend((0..len).map(|at| (at, (at % 8) as u8)).map(flip));
        plans.extend(headers(ends).flat_map(|at| (0..8).map(move |bit| (at, bit))).map(flip));
    }
    let outcomes = run(&plans);
    assert_eq!(outcomes.len(), plans.len());
    for (plan, outcome) in outcomes {
        let is_harmless = match outcome {
            Outcome::Ended(touched) => touched.is_some(),
            Outcome::Survived(touched) => FIXED_AT.contains(&touched.offset),
            Outcome::Untouched => false,
        };
        assert!(is_harmless, "{plan:?}: {outcome:?}");
    }
}

#[test]
fn records_are_neither_cut_nor_moved_nor_repeated() {
    let ends = ends_of_records();
    let mut plans = Vec::new();
    for direction in DIRECTIONS {
        let ends = &ends[direction as usize];
        let len = *ends.last().expect("records");
        // Around the ends of records, and in their middle.
        let around = ends.iter().flat_map(|&end| [end - 1, end, end + 1, end + RECORD_HEADER_BYTES]);
        let mut cuts: Vec<usize> = around.chain((0..len).step_by(23)).filter(|at| *at < len).collect();
        cuts.sort_unstable();
        cuts.dedup();
        plans.extend(cuts.into_iter().map(|at| Plan::new(direction, Change::Cut { at })));
        for record in 0..ends.len() {
            let changes = [Change::Double { record }, Change::Insert { record }, Change::Swap { record }];
            plans.extend(changes.map(|change| Plan::new(direction, change)));
        }
    }
    for (plan, outcome) in run(&plans) {
        let is_harmless = match outcome {
            Outcome::Ended(touched) => touched.is_some(),
            // Either end may send this record more than once during the handshake, and means nothing by it.
            Outcome::Survived(touched) => {
                matches!(plan.change, Change::Double { .. } | Change::Swap { .. }) && touched.kind == CHANGE_CIPHER_SPEC
            }
            Outcome::Untouched => false,
        };
        assert!(is_harmless, "{plan:?}: {outcome:?}");
    }
}

#[test]
fn a_connection_that_is_led_elsewhere_changes_nothing_there() {
    let keyed = Keyed::new();
    let known = keyed.node("known");
    let mut lane = Lane::in_cluster(keyed);
    let unknown = lane.keyed.node("unknown");
    let plain = cluster::node(&lane.keyed.path("plain"), lane::SIZE_BYTES);
    let stranger = Lane::new();
    for address in [known.address, unknown.address, plain.address, stranger.node.address, echo()] {
        assert_eq!(lane.round(Plan::elsewhere(address)), Outcome::Ended(None));
    }
    for (name, node) in [("known", known), ("unknown", unknown), ("plain", plain)] {
        node.end();
        let bytes = std::fs::read(lane.keyed.path(name)).expect("the extent");
        assert!(bytes.iter().all(|byte| *byte == 0), "{name} was written to");
        assert!(name == "known" || identity(&lane.keyed, name).place().is_none(), "{name} was adopted");
    }
    lane.end();
    stranger.end();
}

#[test]
fn a_free_node_is_not_adopted_in_the_place_of_another_one() {
    let keyed = Keyed::new();
    let other = keyed.node("b");
    let mut lane = Lane::in_cluster(keyed);
    assert_eq!(lane.round(Plan::elsewhere(other.address)), Outcome::Ended(None));
    other.end();
    assert_eq!(identity(&lane.keyed, "b").place(), None);
    lane.end();
}

#[test]
fn a_free_node_is_not_adopted_by_what_was_changed() {
    let ends = ends_of_records();
    // Up to the gateway's hello, and up to the node's welcome.
    for (direction, records) in [(Direction::ToNode, 5), (Direction::ToGateway, 3)] {
        for end in &ends[direction as usize][..records] {
            let keyed = Keyed::new();
            let node = keyed.node("a");
            let proxy = Proxy::new(node.address);
            proxy.plan_for_all(Plan::new(direction, Change::Flip { at: end - 1, bit: 0 }));
            let gateway = cluster::gateway(&config(proxy.address, Some(keyed.keys())));
            while proxy.count() < 4 {
                std::thread::sleep(Duration::from_millis(1));
            }
            gateway.end();
            node.end();
            assert!(identity(&keyed, "a").place().is_none(), "{direction:?}: byte {}", end - 1);
        }
    }
}

/// A server that sends back what comes.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // It ends when the connection does.
            let _ = std::io::copy(&mut &stream, &mut &stream);
        }
    });
    address
}
