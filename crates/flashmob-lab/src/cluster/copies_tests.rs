//! Volumes with copies: which copy is read, and what late answers cost.

use std::time::Duration;

use super::tests::{of, rate};
use super::*;
use crate::air::Profile;
use crate::flash;

/// Eight nodes with two copies, few outstanding reads.
fn calm(change: impl Fn(&mut Settings)) -> Measured {
    of(|settings| {
        settings.nodes = 8;
        settings.loaded_nodes = 8;
        settings.air = Profile::parse("11n").unwrap();
        settings.flash = Some(flash::Profile::named("emmc").unwrap());
        settings.copies = Some(Copies::of(2));
        settings.outstanding = 8;
        settings.block_bytes = 4096;
        settings.time = Duration::from_secs(20);
        change(settings);
    })
}

/// The time that so large a part of the reads takes at most, relative to healthy nodes.
fn times(measured: &Measured, healthy: &Measured, part: f64) -> f64 {
    measured.latency_ns.value_at_quantile(part) as f64 / healthy.latency_ns.value_at_quantile(part) as f64
}

#[test]
fn the_slowest_reads_hardly_feel_a_weak_node() {
    let healthy = calm(|_| ());
    let doze = Weakness::Dozes { every: Duration::from_secs(2), time: Duration::from_millis(400) };
    // What a choice by numbers alone makes of them, at p99 and p99.9.
    for (by, without) in [
        (doze, (1.0, 10.0)),
        (Weakness::Flash(10.0), (1.2, 1.1)),
        (Weakness::Throttled(10.0), (1.3, 1.1)),
        (Weakness::Lossy(300_000), (1.3, 1.5)),
    ] {
        let weak = Some(Weak { nodes: 1, by });
        let chosen = calm(|s| s.weak = weak);
        let fixed = calm(|s| (s.weak, s.copies) = (weak, Some(Copies { home_only: true, ..Copies::of(2) })));
        for (part, without) in [(0.99, without.0), (0.999, without.1)] {
            let (by_choice, by_home) = (times(&chosen, &healthy, part), times(&fixed, &healthy, part));
            assert!(by_choice < 1.5, "{by:?}: {part} takes {by_choice:.2} times as long");
            assert!(by_home > without, "{by:?}: it would not be slow: {part} takes {by_home:.2} times as long");
        }
        assert!(chosen.hedged_reads * 50 < chosen.requests, "{by:?}: {} of {}", chosen.hedged_reads, chosen.requests);
        assert!(chosen.hedges_first > 0 && chosen.hedges_first < chosen.hedged_reads, "{by:?}");
        assert_eq!((fixed.hedged_reads, chosen.errors, fixed.errors), (0, 0, 0));
    }
}

#[test]
fn reads_beside_writes_hardly_feel_it_either() {
    // A quarter of the writes have a copy on the weak node and wait for it: less than one request in a hundred.
    let mixed = |change: &dyn Fn(&mut Settings)| {
        calm(|s| {
            s.read_percent = 97.0;
            change(s);
        })
    };
    let healthy = mixed(&|_| ());
    for by in [Weakness::Flash(10.0), Weakness::Throttled(10.0), Weakness::Lossy(300_000)] {
        let weak = Some(Weak { nodes: 1, by });
        let chosen = mixed(&|s| s.weak = weak);
        let fixed = mixed(&|s| (s.weak, s.copies) = (weak, Some(Copies { home_only: true, ..Copies::of(2) })));
        let (by_choice, by_home) = (times(&chosen, &healthy, 0.99), times(&fixed, &healthy, 0.99));
        assert!(by_choice < 1.3, "{by:?}: {by_choice:.2} times as long");
        assert!(by_home > 1.3, "{by:?}: it would not be slow: {by_home:.2} times as long");
        assert!(chosen.hedged_reads * 50 < chosen.requests, "{by:?}: {} of {}", chosen.hedged_reads, chosen.requests);
        assert_eq!(chosen.errors, 0);
    }
}

#[test]
fn on_a_full_air_nothing_is_asked_twice() {
    for (air, outstanding) in [("11n-2014", 256), ("11n-2014", 1600), ("11n", 256), ("11n", 4000)] {
        let full = calm(|s| (s.air, s.outstanding) = (Profile::parse(air).unwrap(), outstanding));
        assert!(full.air_busy_fraction > 0.9, "{air}, {outstanding}: {:.2}", full.air_busy_fraction);
        assert_eq!(full.hedged_reads, 0, "{air}, {outstanding}");
    }
}

#[test]
fn a_scrub_costs_clients_less_than_a_twentieth() {
    let slow = Some(flash::Profile::named("nexus7-emmc").unwrap());
    for (air, outstanding, block_bytes) in
        [("11n", 8, 4096), ("11n", 256, 4096), ("11n", 1600, 1), ("11n-2014", 8, 4096), ("11n-2014", 256, 1)]
    {
        let rates = [false, true].map(|scrub| {
            let measured = calm(|s| {
                s.air = Profile::parse(air).unwrap();
                s.flash = slow;
                (s.outstanding, s.block_bytes) = (outstanding, block_bytes);
                s.copies = Some(Copies { scrub, ..Copies::of(2) });
            });
            assert_eq!((measured.errors, measured.scrubbed_bytes > 0), (0, scrub), "{air}, {outstanding}");
            rate(&measured)
        });
        assert!(
            rates[1] > rates[0] * 0.95,
            "{air}, {outstanding} of {block_bytes}: {:.0} of {:.0} reads/s",
            rates[1],
            rates[0]
        );
    }
}

#[test]
fn uneven_nodes_are_used_as_they_can() {
    let uneven = |home_only| {
        calm(|s| {
            s.weak = Some(Weak { nodes: 4, by: Weakness::Flash(2.0) });
            s.copies = Some(Copies { home_only, ..Copies::of(2) });
            (s.outstanding, s.block_bytes) = (1600, 1);
            s.flash = Some(flash::Profile::named("nexus7-emmc").unwrap());
        })
    };
    let (chosen, fixed) = (uneven(false), uneven(true));
    let times = rate(&chosen) / rate(&fixed);
    assert!(times > 1.3, "{:.0} against {:.0} reads/s", rate(&chosen), rate(&fixed));
}

#[test]
fn weak_nodes_and_copies_have_limits() {
    let fits = |change: fn(&mut Settings)| {
        let mut settings = super::tests::settings();
        (settings.nodes, settings.loaded_nodes) = (4, 4);
        change(&mut settings);
        settings.check().is_ok()
    };
    fn by(s: &mut Settings, by: Weakness) {
        s.weak = Some(Weak { nodes: 1, by });
    }
    fn doze(s: &mut Settings, every: u64, time: u64) {
        by(s, Weakness::Dozes { every: Duration::from_micros(every), time: Duration::from_micros(time) });
    }
    fn copies(s: &mut Settings, copies: u32) {
        s.copies = Some(Copies::of(copies));
    }
    let good: [fn(&mut Settings); 8] = [
        |s| copies(s, 1),
        |s| copies(s, 4),
        |s| s.weak = Some(Weak { nodes: 4, by: Weakness::Flash(1.0) }),
        |s| by(s, Weakness::Flash(1000.0)),
        |s| by(s, Weakness::Throttled(1000.0)),
        |s| by(s, Weakness::Lossy(900_000)),
        |s| doze(s, 2, 1),
        |s| doze(s, 3_600_000_000, 1),
    ];
    let bad: [fn(&mut Settings); 13] = [
        |s| copies(s, 0),
        |s| copies(s, 5),
        |s| (s.nodes, s.loaded_nodes, s.copies) = (3, 3, Some(Copies::of(4))),
        |s| (s.loaded_nodes, s.copies) = (3, Some(Copies::of(2))),
        |s| s.weak = Some(Weak { nodes: 0, by: Weakness::Flash(2.0) }),
        |s| s.weak = Some(Weak { nodes: 5, by: Weakness::Flash(2.0) }),
        |s| by(s, Weakness::Flash(0.99)),
        |s| by(s, Weakness::Flash(1000.1)),
        |s| by(s, Weakness::Throttled(f64::NAN)),
        |s| by(s, Weakness::Lossy(900_001)),
        |s| doze(s, 2, 2),
        |s| doze(s, 2, 0),
        |s| doze(s, 3_601_000_000, 1),
    ];
    assert_eq!(good.map(fits), [true; 8]);
    assert_eq!(bad.map(fits), [false; 13]);
}
