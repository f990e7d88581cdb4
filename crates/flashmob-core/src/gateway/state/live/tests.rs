use super::*;
use crate::buckets::bucket_of;

fn second(second: u64) -> Time {
    Time::default() + Duration::from_secs(second)
}

fn counts(batches: u64) -> Counts {
    Counts { batches, pieces: 2 * batches, reply_frames: batches, bytes_in: 5000 * batches, ..Counts::default() }
}

/// One answer of each of `nodes` nodes in every second up to `end`.
fn busy(live: &mut Live, nodes: usize, end: u64) {
    for at in 0..end {
        if live.is_due(second(at)) {
            live.advance(second(at), |_| counts(at));
        }
        (0..nodes).for_each(|node| {
            live.answered_n(node, [1_000_000, 50_000], 1);
            live.ended_n(node, 2_000_000, 1);
        });
    }
    live.advance(second(end), |_| counts(end));
}

#[test]
fn a_second_has_what_happened_in_it_and_nothing_else() {
    let mut live = Live::new(3, 128 * MIB);
    assert!(!live.is_due(Time(999_999_999)) && live.is_due(second(1)));
    live.record_n(1, Cause::Queue, 7_000, 3);
    live.answered_n(1, [100_000, 30_000], 3);
    live.ended_n(1, 137_000, 3);
    live.advance(second(4), |node| counts(node as u64));
    live.answered_n(1, [100_000, 30_000], 1);
    live.ended_n(1, 137_000, 1);
    assert_eq!(live.recorded(0).next_second(), 4);
    let slots = live.recorded(0).slots(100);
    let [slot] = &slots[..] else { panic!("{slots:?}") };
    assert_eq!((slot.first_second, slot.seconds), (0, 1));
    // Node 0 has done nothing; node 2 has sent and is not answered.
    let [(1, node), (2, other)] = &slot.nodes[..] else { panic!("{slot:?}") };
    assert_eq!(node.causes[Cause::Queue as usize].0[bucket_of(7_000)], 3);
    assert_eq!(node.causes[Cause::Way as usize].0[bucket_of(100_000)], 3);
    assert_eq!(node.causes[Cause::Node as usize].0[bucket_of(30_000)], 3);
    assert!(node.causes[Cause::Flash as usize].is_empty());
    assert_eq!((node.answered(), node.counts.batches, node.counts.bytes_in), (3, 1, 5120), "whole KiB");
    assert_eq!(node.p50, Some(Duration::from_micros(130)), "within (100, 160] us");
    assert_eq!((other.answered(), other.p50, other.counts.pieces), (0, None, 4));
    live.advance(second(5), |node| counts(node as u64));
    assert_eq!(live.recorded(1).slots(100).len(), 1);
    assert_eq!(live.recorded(1).slots(100)[0].nodes.len(), 1, "counters since the last slot, not since the start");
    assert_eq!(live.recorded(5).slots(100), []);
}

#[test]
fn what_a_node_reports_is_added_to_the_second_of_its_arrival() {
    let mut live = Live::new(2, 128 * MIB);
    let mut flash = Buckets::default();
    flash.record_n(90_000, 4);
    let service = Service { at_once: 3, store_operations: 1, starved_permille: Some(700), flash, ..Service::default() };
    live.served(1, &service);
    live.served(1, &Service { running_permille: Some(20), starved_permille: Some(3), ..service });
    live.served(9, &service);
    live.advance(second(1), |_| Counts::default());
    let [slot] = &live.recorded(0).slots(10)[..] else { panic!() };
    let [(1, node)] = &slot.nodes[..] else { panic!("{slot:?}") };
    assert_eq!((node.at_once, node.store_operations), (6, 2));
    assert_eq!(node.causes[Cause::Flash as usize].0[bucket_of(90_000)], 8);
    assert_eq!((node.running_permille, node.starved_permille), (Some(20), Some(700)), "the worst of them");
}

#[test]
fn ten_minutes_are_kept() {
    let mut live = Live::new(1, 128 * MIB);
    busy(&mut live, 1, 605);
    let slots = live.recorded(0).slots(usize::MAX);
    assert_eq!((slots.len(), slots[0].first_second), (600, 5));
    live.advance(second(2_000), |_| counts(605));
    assert_eq!(live.recorded(0).slots(usize::MAX), [], "also when nothing followed");
}

#[test]
fn slots_are_longer_where_seconds_would_not_fit() {
    for (nodes, memory_mib, length_s) in [
        (8, 128, 1),
        (64, 128, 1),
        (67, 1024, 2),
        (66, 1024, 1),
        (128, 128, 2),
        (8, 16, 1),
        (64, 16, 10),
        (4096, 128, 120),
    ] {
        let live = Live::new(nodes, memory_mib * MIB);
        assert_eq!(live.length_s, length_s, "{nodes} nodes, {memory_mib} MiB");
        assert!(
            live.bytes_max() <= (memory_mib * MIB / 10).min(12 * MIB),
            "{nodes}, {memory_mib}: {}",
            live.bytes_max()
        );
    }
    let live = Live::new(64, 128 * MIB);
    assert!(live.bytes_max() > 11 * MIB && NODE_BYTES < 320, "{} {NODE_BYTES}", live.bytes_max());
    assert_eq!(Live::default().bytes_max(), 0);
    let mut live = Live::new(128, 128 * MIB);
    busy(&mut live, 128, 10);
    let seconds: Vec<(u64, u64)> =
        live.recorded(0).slots(usize::MAX).iter().map(|slot| (slot.first_second, slot.seconds)).collect();
    assert_eq!(seconds, [(0, 2), (2, 2), (4, 2), (6, 2), (8, 2)]);
    assert_eq!(live.recorded(0).slots(usize::MAX)[0].nodes[127].1.answered(), 2);
}

#[test]
fn older_slots_are_merged_until_all_fit() {
    for (nodes, end, entries_max) in [(8, 600, 2_000), (64, 600, 2_000), (1, 600, 10), (7, 100, 99), (40, 20, 100)] {
        let mut live = Live::new(nodes, 1024 * MIB);
        busy(&mut live, nodes, end);
        let slots = live.recorded(0).slots(entries_max);
        let entries: usize = slots.iter().map(|slot| slot.nodes.len()).sum();
        // A slot that does not divide the time evenly may be one more.
        assert!(entries <= entries_max + nodes, "{nodes} {end} {entries_max}: {entries}");
        let mut at = 0;
        for slot in &slots {
            assert_eq!(slot.first_second, at, "{nodes} {end} {entries_max}");
            at += slot.seconds;
            for (_, node) in &slot.nodes {
                assert_eq!((node.answered(), node.counts.batches), (slot.seconds, slot.seconds));
                assert_eq!(node.p99, Some(Duration::from_micros(2_500)), "equal in all");
            }
        }
        assert_eq!(at, end, "all of the time, without gaps");
        let newest = slots.last().map(|slot| slot.seconds);
        assert_eq!(newest, Some(1), "the newest are seconds");
    }
}

#[test]
fn quantiles_of_merged_slots_are_weighted_and_the_worst() {
    let ms = Duration::from_millis;
    let slot =
        |answers: u64, p50, p99| NodeSlot { p50: Some(p50), p99: Some(p99), timed: answers, ..NodeSlot::default() };
    let mut merged = slot(3, ms(10), ms(40));
    merged.merge(&slot(1, ms(50), ms(60)));
    assert_eq!((merged.p50, merged.p99), (Some(ms(20)), Some(ms(60))));
    merged.merge(&NodeSlot::default());
    assert_eq!((merged.p50, merged.p99, merged.answered()), (Some(ms(20)), Some(ms(60)), 4));
    let mut idle = NodeSlot::default();
    idle.merge(&merged);
    assert_eq!((idle.p50, idle.p99), (Some(ms(20)), Some(ms(60))));
}

#[test]
fn nothing_is_recorded_unless_it_is_wanted() {
    let mut live = Live::default();
    live.record_n(0, Cause::Queue, 1, 1);
    live.answered_n(0, [1; 2], 1);
    live.ended_n(0, 1, 1);
    assert!(!live.is_due(second(100)));
    assert_eq!(live.recorded(0).slots(10), []);
}
