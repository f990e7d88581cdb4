//! The whole cluster: invariants for any settings, and the findings of the papers and the design.

use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;

use super::*;
use crate::air::{Attachment, Profile};
use crate::flash;

pub(super) fn settings() -> Settings {
    Settings {
        nodes: 4,
        loaded_nodes: 4,
        cells: 1,
        air: Profile::parse("11n-2014").unwrap(),
        gateway: Attachment::Wired,
        flash: Some(flash::Profile::named("nexus7-emmc").unwrap()),
        order: IssueOrder::Sorted,
        extent_bytes: 10_000_000_000,
        links: 1,
        batch: BatchMode::Auto,
        block_bytes: 1,
        read_percent: 100.0,
        outstanding: 1600,
        warmup: Duration::from_secs(1),
        time: Duration::from_secs(4),
        seed: 1,
        gateway_cost: Cost::COMPUTER,
        node_cost: Cost::TABLET,
        copies: None,
        weak: None,
        every_ns: None,
        rebuild: None,
        acks: Acks::Linux,
    }
}

pub(super) fn rate(measured: &Measured) -> f64 {
    measured.requests as f64 / measured.elapsed.as_secs_f64()
}

fn frames_per_request(measured: &Measured) -> f64 {
    measured.air.frames as f64 / measured.requests as f64
}

pub(super) fn of(change: impl Fn(&mut Settings)) -> Measured {
    let mut settings = settings();
    change(&mut settings);
    run(&settings).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let figures = |m: &Measured| (m.requests, m.packets, m.air, m.events, m.latency_ns.max());
    assert_eq!(figures(&of(|_| ())), figures(&of(|_| ())));
    assert_ne!(figures(&of(|_| ())), figures(&of(|s| s.seed = 2)));
}

#[test]
fn little_s_law_holds() {
    for batch in [BatchMode::Auto, BatchMode::Fixed(1), BatchMode::Fixed(10)] {
        let measured = of(|s| (s.batch, s.time) = (batch, Duration::from_secs(20)));
        let outstanding = rate(&measured) * measured.latency_ns.mean() / 1e9;
        assert!((outstanding / 1600.0 - 1.0).abs() < 0.05, "{batch:?}: {outstanding}");
        assert_eq!(measured.errors, 0);
    }
}

#[test]
fn it_can_be_stopped_and_says_how_long_it_ran() {
    let mut told = Vec::new();
    let measured = run_watched(&settings(), Duration::from_millis(500), &mut |fraction| {
        told.push(fraction);
        told.len() < 4
    })
    .unwrap();
    let tenths: Vec<u32> = told.iter().map(|fraction| (fraction * 10.0).round() as u32).collect();
    assert_eq!(tenths, [1, 2, 3, 4]);
    assert_eq!(measured.elapsed, Duration::from_secs(1), "two seconds less the warm-up");
    assert!(measured.requests > 0 && rate(&measured) < 20_000.0);
}

#[test]
fn packets_carry_what_the_batch_protocol_writes() {
    // The figures of docs/wire-protocol.md: one read, request and reply, and a hundred of them.
    let one = of(|s| s.batch = BatchMode::Fixed(1));
    let bytes = |m: &Measured| {
        (m.packets.bytes_sent as f64 / m.batches as f64, m.packets.bytes_received as f64 / m.replies as f64)
    };
    let (out, back) = bytes(&one);
    assert!((out - 44.0).abs() < 0.1 && (back - 36.0).abs() < 0.1, "{out} {back}");
    let hundred = of(|s| s.batch = BatchMode::Fixed(100));
    let (out, back) = bytes(&hundred);
    assert!((out - 544.0).abs() < 12.0 && (back - 135.0).abs() < 12.0, "{out} {back}");
}

#[test]
fn a_lossy_air_costs_but_loses_nothing() {
    let lossy = of(|s| s.air = Profile::parse("wan,rate=20Mbit,delay=2ms,loss=1%").unwrap());
    assert!(lossy.packets.retransmitted > 0 && lossy.errors == 0);
    let clean = of(|s| s.air = Profile::parse("wan,rate=20Mbit,delay=2ms").unwrap());
    assert_eq!(clean.packets.retransmitted, 0);
    assert!(rate(&lossy) > 0.3 * rate(&clean), "{} of {}", rate(&lossy), rate(&clean));
}

#[test]
fn what_long_ways_do_to_a_window_shows_in_the_rate() {
    // One outstanding request with a delay of 20 ms each way: 40 ms plus processing.
    let far = of(|s| (s.air, s.outstanding, s.flash) = (Profile::parse("wan,delay=20ms").unwrap(), 1, None));
    let time_ms = far.latency_ns.mean() / 1e6;
    assert!((40.0..41.0).contains(&time_ms), "{time_ms}");
}

#[test]
fn the_papers_shape_is_there() {
    // C4 to C9 in short; `flashmob reproduce p1` has them in full.
    let at = |n: u32, m: u16, k: u16, io: bool| {
        of(move |s| {
            (s.nodes, s.loaded_nodes, s.links, s.batch) = (n, n, m, BatchMode::Fixed(k));
            s.outstanding = n * 400;
            (s.gateway, s.order) = (Attachment::Wireless, IssueOrder::Arrival);
            s.flash = s.flash.filter(|_| io);
        })
    };
    let limit = limit::own_limit(&flash::Profile::named("nexus7-emmc").unwrap(), 10_000_000_000, 1, 100.0).unwrap();
    assert!(rate(&at(1, 32, 1, true)) > 0.9 * limit, "C4");
    let single = at(8, 32, 1, true);
    assert!(rate(&single) > 1.1 * rate(&at(1, 32, 1, true)) && rate(&single) < 0.5 * 8.0 * limit, "C5");
    for k in [10, 100] {
        let all = at(8, 4, k, true);
        assert!(rate(&all) > 0.95 * 8.0 * limit, "C6: k={k}: {}", rate(&all));
        assert!(frames_per_request(&all) < frames_per_request(&single) / 5.0, "C9");
    }
    let ratio = rate(&at(8, 4, 10, false)) / rate(&at(8, 4, 1, false));
    assert!((7.0..12.0).contains(&ratio), "C8: {ratio}");
}

/// Runs long enough that results vary by a few per cent only.
fn settled(n: u32, m: u16, batch: BatchMode, block_bytes: u32) -> Measured {
    of(move |s| {
        (s.nodes, s.loaded_nodes, s.links, s.batch, s.block_bytes) = (n, n, m, batch, block_bytes);
        s.outstanding = n * 800;
        (s.warmup, s.time) = (Duration::from_secs(4), Duration::from_secs(12));
    })
}

#[test]
fn auto_is_as_fast_as_the_best_k_with_fewer_frames_for_any_number_of_nodes() {
    auto_is_best([(1, 1), (1, 4), (2, 1), (4, 4), (8, 4)]);
}

#[test]
#[ignore = "takes 40 s"]
fn long_auto_is_best_with_more_nodes_and_other_links() {
    auto_is_best([(2, 4), (4, 1), (8, 1), (16, 1), (16, 4), (32, 1), (32, 4)]);
}

fn auto_is_best<const N: usize>(nodes_and_links: [(u32, u16); N]) {
    let limit = limit::own_limit(&flash::Profile::named("nexus7-emmc").unwrap(), 10_000_000_000, 1, 100.0).unwrap();
    for (n, m) in nodes_and_links {
        let auto = settled(n, m, BatchMode::Auto, 1);
        let fixed: Vec<Measured> = [1, 10, 100].map(|k| settled(n, m, BatchMode::Fixed(k), 1)).into();
        let best = fixed.iter().map(rate).fold(0.0, f64::max);
        // The rates may only differ by one batch of hundreds within the time.
        assert!(rate(&auto) > 0.97 * best, "n={n} m={m}: {} against {best}", rate(&auto));
        assert!(rate(&auto) > 0.97 * limit * f64::from(n), "n={n} m={m}: {}", rate(&auto));
        let frames = (frames_per_request(&auto), frames_per_request(&fixed[2]));
        assert!(frames.0 < frames.1, "n={n} m={m}: {frames:?}");
    }
}

#[test]
fn one_request_alone_takes_as_long_with_auto_as_with_k_1() {
    for (air, gateway) in [("11n-2014", Attachment::Wired), ("11n", Attachment::Wireless), ("ideal", Attachment::Wired)]
    {
        let p50 = |batch| {
            let alone = of(|s| {
                (s.air, s.gateway) = (Profile::parse(air).unwrap(), gateway);
                (s.batch, s.outstanding, s.time) = (batch, 1, Duration::from_secs(20));
            });
            alone.latency_ns.value_at_quantile(0.5)
        };
        assert_eq!(p50(BatchMode::Auto), p50(BatchMode::Fixed(1)), "{air}");
    }
}

#[test]
fn large_reads_fill_the_air() {
    let auto = settled(8, 1, BatchMode::Auto, 4096);
    // TCP throughput of the medium: the same nodes streaming.
    let streams = of(|s| {
        (s.nodes, s.loaded_nodes, s.block_bytes, s.outstanding, s.flash) = (8, 8, 1 << 18, 64, None);
        (s.warmup, s.time) = (Duration::from_secs(4), Duration::from_secs(12));
    });
    let carried = rate(&auto) * 4096.0 / (rate(&streams) * f64::from(1 << 18));
    assert!(carried > 0.9 && auto.air_busy_fraction > 0.85, "{carried} {}", auto.air_busy_fraction);
    for k in [1, 10, 100] {
        let fixed = settled(8, 1, BatchMode::Fixed(k), 4096);
        assert!(rate(&auto) > 0.97 * rate(&fixed), "k={k}: {} against {}", rate(&auto), rate(&fixed));
    }
}

#[test]
fn cells_add_up() {
    // Without I/O, so that the air alone limits them.
    let cells = |count: u32| {
        of(|s| {
            (s.nodes, s.loaded_nodes, s.outstanding, s.batch, s.links) = (8, 8, 3200, BatchMode::Fixed(1), 8);
            (s.cells, s.flash) = (count, None);
        })
    };
    let (one, two) = (cells(1), cells(2));
    let ratio = rate(&two) / rate(&one);
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

#[test]
fn a_link_that_was_given_up_is_made_anew() {
    // Half of all packets are lost each way: TCP occasionally stalls for so long that the gateway gives the link up.
    let air = Profile::parse("wan,rate=1Mbit,delay=5ms,loss=50%").unwrap();
    let lossy = Settings { nodes: 1, loaded_nodes: 1, air, outstanding: 1, ..settings() };
    let mut running = Running::new(&lossy).unwrap();
    let hours: Vec<Measured> = (0..6).map(|_| running.measure(Duration::from_secs(3600))).collect();
    let last = &hours[5];
    assert!(last.requests > 100, "{} requests in the last hour, {} failed", last.requests, last.errors);
    assert!(running.links_broken() > 0, "nothing was given up");
}

#[test]
fn numbers_are_held_below_at_and_above_their_limits() {
    let is_ok = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.check().is_ok()
    };
    let nodes = |n: u32| is_ok(&|s| (s.nodes, s.loaded_nodes) = (n, n.min(1)));
    assert!(!nodes(0) && nodes(1) && nodes(1000) && !nodes(1001));
    let loaded = |n: u32| is_ok(&|s| s.loaded_nodes = n);
    assert!(!loaded(0) && loaded(4) && !loaded(5));
    let links = |m: u16| is_ok(&|s| s.links = m);
    assert!(!links(0) && links(1) && links(256) && !links(257));
    let cells = |cells: u32, nodes: u32| is_ok(&|s| (s.cells, s.nodes) = (cells, nodes));
    assert!(!cells(0, 4) && cells(4, 4) && !cells(5, 4) && cells(100, 1000) && !cells(101, 1000));
    assert!(!is_ok(&|s| (s.cells, s.gateway) = (2, Attachment::Wireless)));
    let block =
        |block: u32, extent: u64| is_ok(&|s| (s.block_bytes, s.extent_bytes, s.outstanding) = (block, extent, 1));
    assert!(!block(0, 1) && block(1, 1) && !block(2, 1));
    assert!(block(32 << 20, 1 << 30) && !block((32 << 20) + 1, 1 << 30));
    let outstanding = |outstanding: u32, block: u32| is_ok(&|s| (s.outstanding, s.block_bytes) = (outstanding, block));
    assert!(!outstanding(0, 1) && outstanding(1 << 20, 1) && !outstanding((1 << 20) + 1, 1));
    assert!(outstanding(1 << 20, 1024) && !outstanding(1 << 20, 1025), "what they hold together");
    let extents = |bytes: u64| is_ok(&|s| s.extent_bytes = bytes);
    assert!(extents((1 << 61) - 1) && !extents(1 << 61) && !extents(u64::MAX));
    let reads = |percent: f64| is_ok(&|s| s.read_percent = percent);
    assert!(reads(0.0) && reads(100.0) && !reads(-0.1) && !reads(100.1) && !reads(f64::NAN));
    assert!(!is_ok(&|s| s.time = Duration::ZERO) && is_ok(&|s| s.warmup = Duration::ZERO));
}

#[test]
fn clusters_at_the_limits_run() {
    let short = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings { warmup: Duration::ZERO, time: Duration::from_millis(300), ..settings() };
        change(&mut settings);
        run(&settings).unwrap()
    };
    let tiny = short(&|s| (s.extent_bytes, s.outstanding) = (1, 1));
    assert!(tiny.requests > 0 && tiny.errors == 0);
    let free = Cost { turn_ns: 0, packet_ns: 0, request_ns: 0, kib_ns: 0 };
    let costless = short(&|s| (s.gateway_cost, s.node_cost, s.flash) = (free, free, None));
    assert!(costless.requests > 0);
    let many = short(&|s| {
        (s.nodes, s.links, s.air) = (1000, 4, Profile::parse("ideal").unwrap());
        s.read_percent = 50.0;
    });
    assert!(many.requests > 0 && many.errors == 0);
}
