//! One planted trouble at a time, at and below its limits, and what all nodes have in common.

use std::time::Duration;

use super::*;
use crate::buckets::Buckets;
use crate::gateway::{CAUSES, Cause, Counts, NodeSlot};

const NODES: usize = 4;
const SICK: usize = 2;

/// Times around a middle, in microseconds.
fn around(middle_us: u64, count: u32) -> Buckets {
    let mut buckets = Buckets::default();
    for (tenths, share) in [(5, 20), (10, 60), (20, 20)] {
        buckets.record_n(middle_us * 100 * tenths, count * share / 100);
    }
    buckets
}

/// A second of a node that is well: 1,000 pieces, nine of ten from the page cache.
fn well() -> NodeSlot {
    let mut flash = around(2, 900);
    flash.add(&around(300, 100));
    NodeSlot {
        causes: [around(200, 1000), around(800, 1000), around(250, 1000), flash],
        timed: 1000,
        p50: Some(Duration::from_micros(1_200)),
        p99: Some(Duration::from_millis(4)),
        counts: Counts { batches: 100, pieces: 1000, reply_frames: 100, bytes_in: 1000 * 4120, ..Counts::default() },
        at_once: 900,
        store_operations: 90,
        running_permille: Some(200),
        starved_permille: Some(30),
    }
}

struct Cluster {
    /// By slot, then by node.
    slots: Vec<Vec<NodeSlot>>,
    facts: Vec<Facts>,
    demands: Demands,
}

fn cluster() -> Cluster {
    let facts = Facts { is_ready: true, segments: 1000, ..Facts::default() };
    let slots = vec![vec![well(); NODES]; SLOTS_OF_PAUSES as usize];
    Cluster { slots, facts: vec![facts; NODES], demands: Demands { most: 64, others: 0 } }
}

impl Cluster {
    /// Changes one node in the last `count` slots.
    fn sick(mut self, count: usize, change: impl Fn(&mut NodeSlot)) -> Cluster {
        self.slots.iter_mut().rev().take(count).for_each(|slot| change(&mut slot[SICK]));
        self
    }

    fn all(mut self, change: impl Fn(&mut NodeSlot)) -> Cluster {
        self.slots.iter_mut().flatten().for_each(change);
        self
    }

    fn facts(mut self, change: impl Fn(&mut Facts)) -> Cluster {
        change(&mut self.facts[SICK]);
        self
    }

    fn troubles(&self) -> Vec<(usize, Kind)> {
        let slot = |(second, nodes): (usize, &Vec<NodeSlot>)| Slot {
            first_second: 100 + second as u64,
            seconds: 1,
            nodes: nodes.iter().copied().enumerate().collect(),
        };
        let slots: Vec<Slot> = self.slots.iter().enumerate().map(slot).collect();
        let next = 100 + slots.len() as u64;
        let troubles = troubles(&slots, next, 1, &self.facts, self.demands);
        troubles.into_iter().map(|trouble| (trouble.node, trouble.kind)).collect()
    }
}

fn set(cause: Cause, middle_us: u64) -> impl Fn(&mut NodeSlot) {
    move |slot| slot.causes[cause as usize] = around(middle_us, 1000)
}

fn slow_flash(slot: &mut NodeSlot) {
    let mut flash = around(2, 900);
    flash.add(&around(6_000, 100));
    slot.causes[Cause::Flash as usize] = flash;
    slot.causes[Cause::Node as usize] = around(900, 1000);
}

fn small_cache(slot: &mut NodeSlot) {
    let mut flash = around(2, 200);
    flash.add(&around(300, 800));
    (slot.causes[Cause::Flash as usize], slot.at_once, slot.store_operations) = (flash, 200, 750);
    slot.causes[Cause::Node as usize] = around(600, 1000);
}

fn flooded(slot: &mut NodeSlot) {
    slot.timed = 3_000;
    slot.causes[Cause::Way as usize] = around(6_000, 3000);
    slot.running_permille = Some(950);
}

fn lossy(facts: &mut Facts) {
    (facts.lost_segments, facts.lossy_seconds) = (50, LOSSY_SECONDS_MIN);
}

fn paused(slot: &mut NodeSlot) {
    slot.causes[Cause::Way as usize].record_n(1_500_000_000, 20);
    slot.timed += 20;
}

const NONE: [(usize, Kind); 0] = [];

#[test]
fn a_cluster_that_is_well_has_no_troubles() {
    assert_eq!(cluster().troubles(), NONE);
    assert_eq!(cluster().all(|slot| *slot = NodeSlot::default()).troubles(), NONE, "idle");
    let alone = Cluster { slots: vec![vec![well()]; 5], facts: cluster().facts[..1].to_vec(), ..cluster() };
    assert_eq!(alone.all(slow_flash).troubles(), NONE, "there is nothing to compare it with");
}

#[test]
fn each_cause_is_named_with_its_node() {
    for (kind, sick) in [
        (Kind::HasSlowFlash, cluster().sick(3, slow_flash)),
        (Kind::HasSmallCache, cluster().sick(3, small_cache)),
        (Kind::IsFar, cluster().sick(3, set(Cause::Way, 20_000))),
        (Kind::Pauses, cluster().sick(1, paused)),
        (Kind::IsSilent, cluster().facts(|facts| facts.silent = Some(SILENCE_MIN))),
        (Kind::Loses, cluster().facts(lossy)),
        (
            Kind::LacksProcessor,
            cluster().sick(3, |slot| {
                set(Cause::Node, 4_000)(slot);
                slot.starved_permille = Some(600);
            }),
        ),
        (
            Kind::HasSlowProcessor,
            cluster().sick(3, |slot| {
                set(Cause::Node, 4_000)(slot);
                slot.running_permille = Some(950);
            }),
        ),
        (Kind::IsFlooded, {
            let flooded = cluster().sick(3, flooded);
            Cluster { demands: Demands { most: 250, others: 8 }, ..flooded }
        }),
    ] {
        assert_eq!(sick.troubles(), [(SICK, kind)]);
    }
}

#[test]
fn what_lasted_too_short_is_none() {
    for sick in [
        cluster().sick(2, slow_flash),
        cluster().sick(1, small_cache),
        cluster().sick(2, set(Cause::Way, 20_000)),
        cluster().facts(|facts| facts.silent = Some(SILENCE_MIN - Duration::from_millis(1))),
    ] {
        assert_eq!(sick.troubles(), NONE);
    }
}

#[test]
fn what_all_have_in_common_is_the_fault_of_none() {
    for cause in 0..CAUSES {
        for middle_us in [3_000, 50_000, 900_000] {
            let all = cluster().all(|slot| slot.causes[cause] = around(middle_us, 1000));
            assert_eq!(all.troubles(), NONE, "{cause} {middle_us}");
        }
    }
    assert_eq!(cluster().all(slow_flash).troubles(), NONE);
    assert_eq!(cluster().all(small_cache).troubles(), NONE);
    assert_eq!(cluster().all(paused).troubles(), NONE);
    assert_eq!(cluster().all(|slot| slot.starved_permille = Some(700)).troubles(), NONE, "a busy machine");
    let mut all = cluster();
    all.facts.iter_mut().for_each(lossy);
    assert_eq!(all.troubles(), NONE, "a full air");
    let mut silent = cluster();
    silent.facts.iter_mut().for_each(|facts| facts.silent = Some(Duration::from_secs(3)));
    assert_eq!(silent.troubles(), NONE);
}

#[test]
fn a_greedy_client_is_one_of_several_that_holds_most_and_whose_wait_is_seen() {
    let with =
        |most: u64, others: u64| Cluster { demands: Demands { most, others }, ..cluster().sick(4, flooded) }.troubles();
    assert_eq!(with(250, 0), NONE, "alone");
    assert_eq!(with(FLOOD_REQUESTS_MIN - 1, 1), NONE);
    assert_eq!(with(FLOOD_REQUESTS_MIN, 1), [(SICK, Kind::IsFlooded)]);
    assert_eq!(with(300, 100), [(SICK, Kind::IsFlooded)], "three quarters");
    assert_eq!(with(300, 101), NONE);
    let everywhere = cluster().all(flooded);
    let everywhere = Cluster { demands: Demands { most: 250, others: 8 }, ..everywhere };
    assert_eq!(everywhere.troubles(), NONE, "no node gets more than others");
}

#[test]
fn a_lost_share_has_limits() {
    let lost = |lost_segments: u64, segments: u64, others: u64, lossy_seconds: u64| {
        let mut cluster = cluster();
        cluster.facts.iter_mut().for_each(|facts| (facts.segments, facts.lost_segments) = (1000, others));
        cluster.facts(|facts| *facts = Facts { lost_segments, segments, lossy_seconds, ..*facts }).troubles()
    };
    let (is, seconds) = ([(SICK, Kind::Loses)], LOSSY_SECONDS_MIN);
    assert_eq!(lost(LOST_MIN - 1, 20, 0, seconds), NONE);
    assert_eq!(lost(LOST_MIN, 20, 0, seconds), is);
    assert_eq!(lost(19, 1000, 0, seconds), NONE, "below 2 %");
    assert_eq!(lost(20, 1000, 0, seconds), is);
    assert_eq!(lost(900, 1000, 0, seconds - 1), NONE, "one that was lost makes all behind it late");
    assert_eq!(lost(59, 1000, 20, seconds), NONE, "less than three times as much as the others");
    assert_eq!(lost(60, 1000, 20, seconds), is);
}

#[test]
fn writes_and_large_reads_are_not_compared_with_small_reads() {
    let writes = |slot: &mut NodeSlot| {
        slow_flash(slot);
        slot.counts.bytes_in = slot.timed * 40;
    };
    assert_eq!(cluster().sick(5, writes).troubles(), NONE, "a node that is being rebuilt");
    let large = |slot: &mut NodeSlot| {
        slow_flash(slot);
        slot.counts.bytes_in = slot.timed * 262_144;
    };
    assert_eq!(cluster().sick(5, large).troubles(), NONE, "a node that others are rebuilt from");
}

#[test]
fn a_node_that_gets_far_more_than_the_others_is_neither_far_nor_slow_for_that() {
    assert_eq!(cluster().sick(5, flooded).troubles(), NONE, "one client alone, and most of its data are there");
    let large = |slot: &mut NodeSlot| {
        set(Cause::Way, 20_000)(slot);
        slot.counts.bytes_in = slot.timed * 262_144;
    };
    assert_eq!(cluster().sick(5, large).troubles(), NONE, "so much takes longer on the way");
}

#[test]
fn a_store_that_stands_still_is_no_pause_of_its_node() {
    let stalled = |slot: &mut NodeSlot| {
        slot.causes[Cause::Node as usize].record_n(700_000_000, 16);
        slot.causes[Cause::Flash as usize].record_n(700_000_000, 4);
    };
    assert_eq!(cluster().sick(1, stalled).troubles(), NONE);
    let told_later = |slot: &mut NodeSlot| slot.causes[Cause::Node as usize].record_n(700_000_000, 16);
    assert_eq!(cluster().sick(1, told_later).troubles(), NONE);
}

#[test]
fn of_many_nodes_some_are_compared_and_all_are_judged() {
    let many = 100;
    for sick in [0, 1, 50, 99] {
        let mut cluster = cluster();
        cluster.slots = vec![vec![well(); many]; 5];
        cluster.facts = vec![cluster.facts[0]; many];
        cluster.slots.iter_mut().for_each(|slot| slow_flash(&mut slot[sick]));
        assert_eq!(cluster.troubles(), [(sick, Kind::HasSlowFlash)]);
    }
}

#[test]
fn nodes_are_compared_within_their_volume() {
    let mut cluster = cluster();
    cluster.facts[2].volume = 1;
    cluster.facts[3].volume = 1;
    cluster.slots.iter_mut().for_each(|slot| {
        slow_flash(&mut slot[2]);
        slow_flash(&mut slot[3]);
    });
    assert_eq!(cluster.troubles(), NONE, "all of that volume are as slow");
    cluster.slots.iter_mut().for_each(|slot| slot[3] = well());
    assert_eq!(cluster.troubles(), [(2, Kind::HasSlowFlash)]);
}

#[test]
fn one_cause_explains_those_behind_it() {
    let many = |slot: &mut NodeSlot| {
        slow_flash(slot);
        set(Cause::Way, 20_000)(slot);
        slot.starved_permille = Some(600);
    };
    assert_eq!(cluster().sick(5, many).troubles(), [(SICK, Kind::LacksProcessor)]);
    let soon = |facts: &mut Facts| {
        lossy(facts);
        facts.lossy_seconds -= 1;
    };
    let far = || cluster().sick(5, set(Cause::Way, 20_000));
    assert_eq!(far().troubles(), [(SICK, Kind::IsFar)]);
    assert_eq!(far().facts(soon).troubles(), NONE, "it may be by what it loses");
    assert_eq!(cluster().sick(1, paused).facts(soon).troubles(), NONE);
    let lossy = cluster().sick(5, many).sick(1, paused).facts(lossy);
    assert_eq!(lossy.troubles(), [(SICK, Kind::Loses)]);
}

#[test]
fn nodes_of_other_volumes_and_those_without_links_are_not_judged() {
    let mut cluster = cluster().sick(5, slow_flash);
    cluster.facts.truncate(SICK + 1);
    cluster.facts[SICK].volume = 1;
    assert_eq!(cluster.troubles(), NONE, "it is alone in its volume");
    cluster.facts[SICK].volume = 0;
    cluster.facts[SICK].is_ready = false;
    assert_eq!(cluster.troubles(), NONE);
}

#[test]
fn counters_without_sense_are_no_panic() {
    let mad = |slot: &mut NodeSlot| {
        slot.causes = [Buckets([u32::MAX; crate::buckets::BUCKETS]); CAUSES];
        (slot.at_once, slot.store_operations, slot.timed) = (1 << 40, 1 << 40, u64::MAX);
        slot.counts.bytes_in = u64::MAX;
    };
    let _ = cluster().sick(5, mad).troubles();
    let facts = Facts { lost_segments: u64::MAX, segments: 1, is_ready: true, ..Facts::default() };
    let slots = [Slot { first_second: u64::MAX, seconds: u64::MAX, nodes: vec![(99, well())] }];
    assert_eq!(troubles(&slots, 0, u64::MAX, &[facts], Demands { most: u64::MAX, others: u64::MAX }), []);
}
