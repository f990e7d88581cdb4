//! Some hundred clusters with faults: no wrong byte, no lost answer. `make faults` runs many more.

use std::path::Path;
use std::time::Duration;

use flashmob_lab::faults::{Change, FAULT_KINDS, Fault, Parts, Scenario, ScenarioFile, Totals, Victim, run};

/// What the first seeds did, none of which may fail.
fn totals_of(seeds: u64, scenario: fn(u64) -> Scenario) -> Totals {
    let mut totals = Totals::default();
    for seed in 0..seeds {
        let outcome = run(scenario(seed), false);
        if let Some(violation) = outcome.violation {
            panic!("seed {seed}: {violation}\n{}", outcome.last_events.join("\n"));
        }
        totals.add(&outcome.totals);
    }
    totals
}

/// The kinds of faults that only volumes with copies have.
fn faults_of_copies() -> [Fault; 33] {
    let time = Duration::ZERO;
    [
        Fault::Replace(0, time),
        Fault::Rot(0, 1),
        Fault::Restore(0, time),
        Fault::Blackout(0, time, time),
        Fault::Swap(0, time),
        Fault::MapFull(time),
        Fault::MapSlow(time),
        Fault::GatewayStall(time),
        Fault::Lie(0, time),
        Fault::SecondGateway(time),
        Fault::ColdRot(0, 1),
        Fault::Misdirect(0),
        Fault::Scrub,
        Fault::LoseMap(time),
        Fault::OldMap(time, time),
        Fault::StolenKey(time),
        Fault::Pause(0, time),
        Fault::Measure(0, true),
        Fault::Drain(0, time),
        Fault::Balance,
        Fault::Join(false),
        Fault::Remove(0),
        Fault::Grow(1),
        Fault::Shrink(1, true),
        Fault::Standby(time),
        Fault::StoreAway(time),
        Fault::RotBehind(1),
        Fault::LastCopy(0, time),
        Fault::RecordsFail(0, time),
        Fault::HotBackup(0, Parts { extent: true, identity: false, mirror: false }, time),
        Fault::MapRot(0, time, None),
        Fault::Resync(0),
        Fault::Latent(0, 1, None),
    ]
}

#[test]
fn no_seed_fails_and_every_kind_of_fault_happens() {
    let totals = totals_of(400, Scenario::from_seed);
    // Volumes with copies alone have these.
    let of_copies = faults_of_copies().map(|fault| fault.kind());
    for kind in (0..FAULT_KINDS).filter(|kind| !of_copies.contains(kind)) {
        assert!(totals.faults[kind] > 0, "no {} in all these seeds", Fault::KINDS[kind]);
    }
    assert!(totals.requests[1..].iter().all(|&count| count > 100), "{:?}", totals.requests);
    assert!(totals.hole_bytes > 100_000 && totals.mapped_data_bytes > 100_000, "{totals:?}");
    assert!(totals.together_by_choice > 1000 && totals.together > totals.together_by_choice + 100, "{totals:?}");
    assert!(totals.resent > 100 && totals.corruptions > 10, "{totals:?}");
    assert!(totals.errors * 10 < totals.answers, "most requests succeed: {} of {}", totals.errors, totals.answers);
}

#[test]
fn no_seed_with_copies_fails_and_all_that_they_are_for_happens() {
    let totals = totals_of(300, Scenario::with_copies_from_seed);
    let Totals { evicted_copies, resynced, compared, held_answers, .. } = totals;
    let time = Duration::ZERO;
    let rare = [
        Fault::OldMap(time, time),
        Fault::StolenKey(time),
        Fault::RotBehind(1),
        Fault::LastCopy(0, time),
        Fault::HotBackup(0, Parts { extent: true, identity: false, mirror: false }, time),
        Fault::MapRot(0, time, None),
    ];
    let is_rare = |fault: &Fault| rare.iter().any(|rare| rare.kind() == fault.kind());
    for fault in faults_of_copies().into_iter().filter(|fault| !is_rare(fault)) {
        assert!(totals.faults[fault.kind()] >= 5, "{}: {totals:?}", Fault::KINDS[fault.kind()]);
    }
    let of_flushes = [Fault::FailedSyncs(0, time), Fault::SlowFlush(0, time), Fault::StuckFlush(0, time)];
    let of_caches = [Fault::Remount(0, time), Fault::End(0, time)];
    for fault in of_flushes.iter().chain(&rare).chain(&of_caches) {
        assert!(totals.faults[fault.kind()] >= 3, "{}: {totals:?}", Fault::KINDS[fault.kind()]);
    }
    assert!(totals.mended > 10, "{totals:?}");
    assert!(totals.scrubs > 600 && totals.scrub_corrupt > 100 && totals.scrub_differing > 20, "{totals:?}");
    assert!(totals.rewritten > 20, "{totals:?}");
    assert!(totals.hedged > 20 && totals.hedges_first > 5, "{totals:?}");
    assert!(evicted_copies > 20 && resynced > 20 && compared > 50 && held_answers > 100, "{totals:?}");
    assert!(totals.errors * 20 < totals.answers, "{} of {}", totals.errors, totals.answers);
}

#[test]
fn changes_come_to_their_end_whoever_is_killed_in_their_middle() {
    const EACH: u64 = 8;
    let totals = totals_of(24 * EACH, Scenario::killed_from_seed);
    let kills = |fault: Fault| totals.faults[fault.kind()];
    let cells = EACH * Change::ALL.len() as u64;
    assert_eq!(kills(Fault::GatewayRestart(Duration::ZERO)), 2 * cells, "alone, and with all others");
    assert!(kills(Fault::Kill(0, Duration::ZERO)) >= cells * (2 + 3), "two nodes, and all of three or more");
    for (change, counts) in Change::ALL.into_iter().zip(totals.changes) {
        for (victim, killed) in Victim::ALL.into_iter().zip(counts) {
            assert_eq!(killed.ended + killed.forgotten, EACH, "{change:?}, {victim:?}");
        }
        // Some of the moments lie behind its record.
        assert!(counts[0].ended + counts[3].ended > 0, "{change:?}: {counts:?}");
    }
}

/// Histories that once failed, as `faults --seed N --save FILE` wrote them before the mend: what else is drawn from their seeds by now changes nothing of
/// them.
#[test]
fn histories_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 26, "{}", paths.len());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a file");
        let file = ScenarioFile::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let violation = run(file.scenario, false).violation;
        assert_eq!(violation, None, "{}: {}", path.display(), file.history);
    }
}
