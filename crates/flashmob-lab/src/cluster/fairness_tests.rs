//! What a client with few requests and a load with many take from each other.

use std::time::Duration;

use super::fairness::{Modest, Shared, quantile, run};
use super::tests::{rate, settings};
use super::*;
use crate::air::{Attachment, Profile};

fn shared(nodes: u32, air: &str, flash: Option<&str>, every_ms: u64) -> Shared {
    let settings = Settings {
        nodes,
        loaded_nodes: nodes,
        air: Profile::parse(air).unwrap(),
        gateway: Attachment::Wired,
        flash: flash.map(|name| crate::flash::Profile::named(name).unwrap()),
        block_bytes: 4096,
        outstanding: 1024,
        warmup: Duration::from_secs(6),
        time: Duration::from_secs(4),
        node_cost: Cost::COMPUTER,
        ..settings()
    };
    run(&settings, Modest { block_bytes: 4096, every_ns: every_ms * 1_000_000 }).unwrap()
}

/// By how much the load raises the modest client's median and its p99, and which part of its rate the load keeps.
fn ratios(shared: &Shared) -> (f64, f64, f64) {
    let ratio = |q| quantile(&shared.beside_ns, q).as_secs_f64() / quantile(&shared.alone_ns, q).as_secs_f64();
    (ratio(0.5), ratio(0.99), rate(&shared.load) / rate(&shared.load_alone))
}

#[test]
fn where_flash_is_the_limit_a_modest_client_is_slowed_little() {
    let (median, p99, load) = ratios(&shared(1, "11ac", Some("nexus7-emmc"), 20));
    assert!(median < 2.5 && p99 < 3.0, "{median} and {p99}; 121 and 149 before reads could be urgent");
    assert!(load > 0.9, "{load}");
}

#[test]
fn where_the_air_is_the_limit_answers_do_not_stand_in_line_for_it() {
    let (median, p99, load) = ratios(&shared(2, "11n-2014", Some("nexus7-emmc"), 100));
    assert!(median < 10.0 && p99 < 25.0, "{median} and {p99}; 100 and 200 before what is under way was limited");
    assert!(load > 0.8, "{load}");
}

#[test]
fn where_the_gateway_is_the_limit_a_modest_client_waits_for_parts_of_turns() {
    let (median, p99, load) = ratios(&shared(8, "ideal", Some("nvme"), 2));
    assert!(median < 4.0 && p99 < 6.0, "{median} and {p99}; 8 and 66 before turns were divided");
    assert!(load > 0.85, "{load}");
}

#[test]
fn both_are_answered_as_often_as_they_ask() {
    let shared = shared(2, "ideal", None, 2);
    let asked = 4.0 / 2e-3;
    for latency_ns in [&shared.alone_ns, &shared.beside_ns] {
        let answered = latency_ns.len() as f64;
        assert!((answered / asked - 1.0).abs() < 0.15, "{answered} of {asked}");
    }
    assert_eq!((shared.load.errors, shared.load_alone.errors), (0, 0));
}
