//! Plans agree with longer simulations of other seeds, and name what really holds a cluster back.

use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::air::{Attachment, Profile};
use crate::cluster::{Acks, Cost, Running};
use crate::flash;

fn settings() -> Settings {
    Settings {
        nodes: 8,
        loaded_nodes: 8,
        cells: 1,
        air: Profile::parse("11n").unwrap(),
        gateway: Attachment::Wired,
        flash: Some(flash::Profile::named("emmc").unwrap()),
        order: IssueOrder::Sorted,
        extent_bytes: 10_000_000_000,
        links: 1,
        batch: BatchMode::Auto,
        block_bytes: 1,
        read_percent: 100.0,
        outstanding: 2048,
        warmup: Duration::from_secs(1),
        time: Duration::from_secs(1),
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

/// Clusters as people may have them, the same ones each time.
fn clusters(count: usize) -> Vec<Settings> {
    let airs = ["11a", "11g", "11n-2014", "11n", "11n,ampdu=8", "11ac", "11ax", "wan,rate=50Mbit,delay=5ms"];
    let flashes = vec![Some("nexus7-emmc"), Some("emmc"), Some("ufs"), Some("sdcard"), None];
    let [k1, k10, k100] = [1, 10, 100].map(BatchMode::Fixed);
    let batches = prop::sample::select(vec![BatchMode::Auto, BatchMode::Auto, k1, k10, k100]);
    let strategy = (
        1u32..=16,
        prop::sample::select(airs.to_vec()),
        prop::sample::select(vec![(true, 1), (true, 1), (true, 2), (false, 1), (false, 1)]),
        prop::sample::select(flashes),
        1u16..=4,
        batches,
        prop::sample::select(vec![
            (1, 100.0),
            (1, 100.0),
            (512, 100.0),
            (4096, 100.0),
            (16384, 100.0),
            (4096, 0.0),
            (1, 50.0),
        ]),
        prop::sample::select(vec![0, 1, 4, 16, 64, 256]),
        any::<u64>(),
    )
        .prop_map(
            |(nodes, air, (is_wired, cells), flash, links, batch, (block_bytes, read_percent), per_node, seed)| {
                Settings {
                    nodes,
                    loaded_nodes: nodes,
                    cells: cells.min(nodes),
                    air: Profile::parse(air).unwrap(),
                    gateway: if is_wired { Attachment::Wired } else { Attachment::Wireless },
                    flash: flash.map(|name| flash::Profile::named(name).unwrap()),
                    links,
                    batch,
                    block_bytes,
                    read_percent,
                    outstanding: (nodes * per_node).max(1),
                    seed,
                    ..settings()
                }
            },
        );
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// In a line, for a message.
fn told(s: &Settings) -> String {
    let (flash, attached) = (s.flash.map_or("no I/O", |f| f.name), s.gateway);
    format!(
        "{} nodes, {} cells of {}, {attached:?}, {flash}, {} links, {:?}, {} B, {} % reads, {} outstanding, seed {}",
        s.nodes, s.cells, s.air.name, s.links, s.batch, s.block_bytes, s.read_percent, s.outstanding, s.seed
    )
}

/// What `check` says of clusters, on two threads: a complaint or nothing.
fn complaints(clusters: &[Settings], check: impl Fn(&Settings) -> Option<String> + Sync) -> Vec<String> {
    let half = clusters.len() / 2;
    let all = |part: &[Settings]| -> Vec<String> {
        part.iter().filter_map(|s| check(s).map(|complaint| format!("{complaint}: {}", told(s)))).collect()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| all(&clusters[..half]));
        let mut found = all(&clusters[half..]);
        found.extend(other.join().unwrap());
        found
    })
}

/// Another seed, and three times as long as the forecast took.
fn longer(settings: &Settings, forecast: &Forecast) -> f64 {
    let other = Settings { seed: settings.seed ^ 0x00ff_00ff, ..settings.clone() };
    let time = forecast.simulated.elapsed.max(Duration::from_secs(1));
    let mut running = Running::new(&other).unwrap();
    running.measure(time);
    let measured = running.measure(2 * time);
    measured.requests as f64 / measured.elapsed.as_secs_f64()
}

#[test]
fn forecasts_are_within_a_tenth_of_a_longer_simulation() {
    forecasts_are_right(40);
}

#[test]
#[ignore = "takes a minute: make test-slow"]
fn long_forecasts_of_200_clusters_are_within_a_tenth_of_a_longer_simulation() {
    forecasts_are_right(200);
}

fn forecasts_are_right(count: usize) {
    let counted = Mutex::new((0, 0.0_f64, Vec::new()));
    let wrong = complaints(&clusters(count), |settings| {
        let forecast = forecast(settings).unwrap();
        let simulated = longer(settings, &forecast);
        let rate = forecast.requests_per_second;
        let off = (rate / simulated - 1.0).abs();
        let mut counted = counted.lock().unwrap();
        counted.0 += usize::from(forecast.method != Method::Simulated);
        counted.1 = counted.1.max(off);
        counted.2.push(off);
        let Settled { spread, elapsed, .. } = forecast.simulated;
        let how = format!("{:?}, spread {spread:.3} over {elapsed:?}", forecast.method);
        (off >= 0.1).then(|| format!("{rate:.0} ({how}) for {simulated:.0}"))
    });
    let (closed, worst, mut offs) = counted.into_inner().unwrap();
    offs.sort_by(f64::total_cmp);
    println!(
        "{closed} by closed form; off by {:.1} % at most, {:.1} % in the median",
        worst * 100.0,
        offs[count / 2] * 100.0
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(closed * 20 >= count, "only {closed} of {count} by closed form");
}

#[test]
fn relieving_what_is_to_blame_helps_and_relieving_anything_else_does_not() {
    let (none, one) = relieved_one_by_one(&clusters(20));
    assert!(one >= 5 && none <= 4, "{one} with one bottleneck, {none} without");
}

#[test]
#[ignore = "takes 20 s"]
fn long_relieving_what_is_to_blame_of_more_clusters() {
    let (none, one) = relieved_one_by_one(&clusters(40)[20..]);
    assert!(one >= 5 && none <= 4, "{one} with one bottleneck, {none} without");
}

/// How many of `clusters` had no bottleneck, and how many had one.
fn relieved_one_by_one(clusters: &[Settings]) -> (u32, u32) {
    let counted = Mutex::new((0, 0, 0));
    let wrong = complaints(clusters, |settings| {
        let forecast = forecast(settings).unwrap();
        let blame = blame(&forecast, relieved(settings), &mut |_| ()).unwrap();
        let blamed = &blame.bottleneck;
        {
            let mut counted = counted.lock().unwrap();
            match blamed.len() {
                0 => counted.0 += 1,
                1 => counted.1 += 1,
                _ => counted.2 += 1,
            }
        }
        // Other seeds, and longer.
        let effort = Effort { seeds: 1, tolerance: 0.02, events_max: 1_000_000 };
        let rate = |s: &Settings| settle(&Settings { seed: s.seed ^ 0x00ff_00ff, ..s.clone() }, &effort).unwrap().rate;
        let base = rate(settings);
        let gain = |resource: Resource| resource.doubled(settings).map_or(1.0, |s| rate(&s) / base);
        let gains: Vec<(Resource, f64)> = Resource::ALL.into_iter().map(|r| (r, gain(r))).collect();
        let most = blame.gains[0].1;
        let is_right = gains.iter().all(|(resource, gain)| {
            if blamed.first() == Some(resource) {
                *gain >= 1.05 && gains.iter().all(|(_, other)| *other < gain * 1.05)
            } else if blamed.contains(resource) {
                *gain >= 1.02
            } else {
                *gain < 0.04 + shares_from(most).min(NAMED_MIN)
            }
        });
        (!is_right).then(|| format!("{blamed:?} of {:.3?}, but {gains:.3?}", blame.gains))
    });
    let (none, one, shared) = counted.into_inner().unwrap();
    println!("{one} with one bottleneck, {shared} with several, {none} without");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    (none, one)
}

#[test]
fn the_papers_cluster_is_held_back_by_its_flash_and_without_batches_by_its_air() {
    let paper = Settings {
        air: Profile::parse("11n-2014").unwrap(),
        flash: Some(flash::Profile::named("nexus7-emmc").unwrap()),
        ..settings()
    };
    let auto = plan(&paper, &mut |_, _| ()).unwrap();
    assert_eq!(auto.blame.bottleneck, [Resource::Flash]);
    assert_eq!(auto.forecast.method, Method::ClosedForm("flash alone, sorted"));
    assert!(auto.forecast.requests_per_second > 0.97 * auto.flash_limit.unwrap(), "{auto:?}");
    let single = plan(&Settings { batch: BatchMode::Fixed(1), links: 8, ..paper }, &mut |_, _| ()).unwrap();
    assert_eq!(single.blame.bottleneck.first(), Some(&Resource::Air));
    assert!(single.remedies.iter().any(|r| r.what.contains("clock themselves") && r.factor > 1.5), "{single:?}");
}

#[test]
fn one_outstanding_request_is_the_sum_of_its_parts() {
    for (air, gateway) in [("11n", Attachment::Wired), ("11n-2014", Attachment::Wireless), ("wan", Attachment::Wired)] {
        for flash in [Some("emmc"), Some("nexus7-emmc"), None] {
            let flash = flash.map(|name| flash::Profile::named(name).unwrap());
            let one = Settings { outstanding: 1, air: Profile::parse(air).unwrap(), gateway, flash, ..settings() };
            let Some((rate, name)) = closed::estimate(&one) else { continue };
            assert!(name.starts_with("Little"), "{name}");
            let off = rate / settle(&one, &OF_FORECAST).unwrap().rate - 1.0;
            assert!(off.abs() < 0.05, "{air} {flash:?}: {off:.3}");
        }
    }
}

#[test]
fn a_cell_full_of_single_frames_is_bianchis() {
    for (air, gateway) in [("11g", Attachment::Wired), ("11a", Attachment::Wireless), ("11n", Attachment::Wired)] {
        for block_bytes in [1, 1024] {
            let air = Profile::parse(air).unwrap();
            let full = Settings { air, gateway, batch: BatchMode::Fixed(1), flash: None, block_bytes, ..settings() };
            let (rate, name) = closed::estimate(&full).unwrap();
            assert!(name.starts_with("Bianchi"), "{name}");
            let off = rate / settle(&full, &OF_FORECAST).unwrap().rate - 1.0;
            assert!(off.abs() < 0.07, "{}: {off:.3}", told(&full));
        }
    }
}

#[test]
fn more_outstanding_is_what_helps_where_there_are_few() {
    let few = Settings { outstanding: 4, flash: Some(flash::Profile::named("nexus7-emmc").unwrap()), ..settings() };
    let plan = plan(&few, &mut |_, _| ()).unwrap();
    assert_eq!(plan.blame.bottleneck.first(), Some(&Resource::Outstanding));
    assert!(plan.remedies.first().is_some_and(|r| r.what.contains("outstanding")), "{:?}", plan.remedies);
}

#[test]
fn the_work_has_an_end_and_is_told() {
    let mut told = Vec::new();
    plan(&Settings { nodes: 1, loaded_nodes: 1, outstanding: 16, ..settings() }, &mut |done, all| {
        told.push((done, all))
    })
    .unwrap();
    assert_eq!(told.first().map(|t| t.0), Some(1));
    assert!(told.len() > 3, "{told:?}");
    assert!(told.is_sorted() && told.iter().all(|(done, all)| done <= all && *all == told[0].1), "{told:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    for wrong in [
        Settings { nodes: 0, ..settings() },
        Settings { nodes: 1001, loaded_nodes: 1, ..settings() },
        Settings { loaded_nodes: 9, ..settings() },
        Settings { cells: 2, gateway: Attachment::Wireless, ..settings() },
        Settings { block_bytes: 0, ..settings() },
        Settings { outstanding: 0, ..settings() },
        Settings { read_percent: 101.0, ..settings() },
        Settings { extent_bytes: 0, ..settings() },
    ] {
        assert!(plan(&wrong, &mut |_, _| ()).is_err(), "{wrong:?}");
    }
}

#[test]
fn nothing_is_proposed_that_cannot_be() {
    // More cells, nodes, links, requests or bytes than there can be, and products beyond 32 bits.
    let large = Settings {
        nodes: 300,
        loaded_nodes: 300,
        cells: 60,
        links: 256,
        batch: BatchMode::Fixed(u16::MAX),
        outstanding: 1 << 19,
        block_bytes: 2048,
        extent_bytes: (1 << 63) / 400,
        time: Duration::ZERO,
        ..settings()
    };
    for (what, changed) in relief::remedies(&large) {
        let changed = Settings { time: Duration::from_secs(1), ..changed };
        assert_eq!(changed.check(), Ok(()), "{what}");
    }
    assert!(relief::remedies(&large).iter().any(|(what, _)| what.contains("batch = auto")), "times do not matter");
    assert_eq!(Resource::Outstanding.doubled(&large), None);
    assert!(Resource::Air.doubled(&large).is_some());
}

#[test]
fn where_nothing_is_answered_nothing_is_said_to_help() {
    assert_eq!((factor(10.0, 0.0), factor(0.0, 0.0), factor(3.0, 2.0)), (1.0, 1.0, 1.5));
}
