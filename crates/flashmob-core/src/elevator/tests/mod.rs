//! The elevator by example: sweeps, constraints, merging and its limits. Properties are in `properties`.

mod properties;

use super::*;

const FUA: OpFlags = OpFlags::FUA;

fn entry(op: Op, offset_bytes: u64, len_bytes: u32, tag: u32) -> Entry<u32> {
    Entry { op, flags: OpFlags::NONE, offset_bytes, len_bytes, tag }
}

fn elevator(align_bytes: u64, merge_bytes_max: u32, merge_parts_max: usize) -> Elevator<u32> {
    Elevator::new(ElevatorConfig { align_bytes, merge_bytes_max, merge_parts_max, ..ElevatorConfig::default() })
}

/// One that merges nothing.
fn plain() -> Elevator<u32> {
    elevator(1, 0, 1)
}

/// The next issue, and the tags of its parts.
fn step(elevator: &mut Elevator<u32>) -> Option<(Issue, Vec<u32>)> {
    let mut parts = vec![entry(Op::Trim, 0, 0, 999)];
    let issue = elevator.next(&mut parts);
    assert_eq!(issue.is_none(), parts.is_empty());
    issue.map(|issue| (issue, parts.iter().map(|part| part.tag).collect()))
}

/// The tags of each issue that needs no completion before it. All of them complete afterwards.
fn drain(elevator: &mut Elevator<u32>) -> Vec<Vec<u32>> {
    let steps: Vec<(Issue, Vec<u32>)> = std::iter::from_fn(|| step(elevator)).collect();
    assert!(steps.iter().all(|(issue, _)| elevator.complete(issue.ticket)));
    steps.into_iter().map(|(_, tags)| tags).collect()
}

/// The next issue, which must consist of `tag` alone; returns its ticket.
fn expect(elevator: &mut Elevator<u32>, tag: u32) -> u64 {
    let (issue, tags) = step(elevator).expect("an issue");
    assert_eq!(tags, [tag]);
    issue.ticket
}

#[test]
fn an_empty_elevator_has_nothing_to_do() {
    let mut elevator = plain();
    assert_eq!(step(&mut elevator), None);
    assert!(elevator.is_empty() && elevator.in_flight() == 0);
    assert!(!elevator.complete(0), "no such ticket");
}

#[test]
fn in_the_order_of_arrival_nothing_is_sorted_or_merged_and_writes_still_come_first() {
    let mut elevator = Elevator::new(ElevatorConfig { order: IssueOrder::Arrival, ..ElevatorConfig::default() });
    for (tag, offset) in [50, 10, 11, 30].into_iter().enumerate() {
        elevator.push(entry(Op::Read, offset, 1, tag as u32));
    }
    elevator.push(entry(Op::Write, 20, 4, 4));
    elevator.push(entry(Op::Read, 22, 1, 5));
    let tickets = [0, 1, 2, 3, 4].map(|tag| expect(&mut elevator, tag));
    assert_eq!(step(&mut elevator), None, "the read waits for the write");
    assert!(elevator.complete(tickets[4]));
    expect(&mut elevator, 5);
}

#[test]
fn a_sweep_ascends_and_arrivals_wait_for_the_next() {
    let mut elevator = plain();
    for (tag, offset) in [50, 10, 30].into_iter().enumerate() {
        elevator.push(entry(Op::Read, offset, 1, tag as u32));
    }
    expect(&mut elevator, 1);
    elevator.push(entry(Op::Read, 40, 1, 3));
    elevator.push(entry(Op::Read, 5, 1, 4));
    assert_eq!(drain(&mut elevator), [[2], [0], [4], [3]]);
}

#[test]
fn equal_offsets_are_served_in_order_of_arrival() {
    let mut elevator = plain();
    (0..100).for_each(|tag| elevator.push(entry(Op::Read, 7, 1, tag)));
    assert_eq!(drain(&mut elevator).concat(), (0..100).collect::<Vec<_>>());
}

#[test]
fn counts_tell_what_waits_and_what_is_in_flight() {
    let mut elevator = plain();
    elevator.push(entry(Op::Read, 0, 1, 0));
    elevator.push(entry(Op::Write, 1, 1, 1));
    assert_eq!((elevator.len(), elevator.in_flight()), (2, 0));
    let read = expect(&mut elevator, 0);
    let write = expect(&mut elevator, 1);
    assert_eq!((elevator.len(), elevator.in_flight()), (0, 2));
    assert!(elevator.is_empty());
    assert!(elevator.complete(read) && elevator.complete(write));
    assert!(!elevator.complete(read), "a ticket is good once");
    assert_eq!(elevator.in_flight(), 0);
    assert!(elevator.order.is_blank());
}

#[test]
fn an_old_ticket_does_not_complete_a_later_issue() {
    let mut elevator = plain();
    elevator.push(entry(Op::Read, 0, 1, 0));
    let old = expect(&mut elevator, 0);
    assert!(elevator.complete(old));
    elevator.push(entry(Op::Read, 0, 1, 1));
    let new = expect(&mut elevator, 1);
    assert!(!elevator.complete(old));
    assert!(elevator.complete(new));
}

#[test]
fn overlapping_mutations_and_later_reads_follow_one_another() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 10, 10, 0));
    elevator.push(entry(Op::Trim, 19, 1, 1));
    elevator.push(entry(Op::Read, 0, 20, 2));
    elevator.push(entry(Op::WriteZeroes, 20, 5, 3));
    elevator.push(entry(Op::Read, 0, 10, 4));
    expect(&mut elevator, 4);
    let write = expect(&mut elevator, 0);
    expect(&mut elevator, 3);
    assert_eq!(step(&mut elevator), None, "trim and read wait");
    assert!(elevator.complete(write));
    let trim = expect(&mut elevator, 1);
    assert_eq!(step(&mut elevator), None, "the read waits for the trim");
    assert!(elevator.complete(trim));
    expect(&mut elevator, 2);
}

#[test]
fn a_chain_of_writes_to_one_place_keeps_its_order() {
    let mut elevator = elevator(1, 1 << 20, 64);
    (0..10).for_each(|tag| elevator.push(entry(Op::Write, 4096, 4096, tag)));
    for tag in 0..10 {
        let ticket = expect(&mut elevator, tag);
        assert_eq!(step(&mut elevator), None, "one at a time");
        assert!(elevator.complete(ticket));
    }
    assert!(elevator.order.is_blank());
}

#[test]
fn a_write_may_overtake_a_read_that_waits() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 4, 0));
    elevator.push(entry(Op::Read, 0, 8, 1));
    elevator.push(entry(Op::Write, 4, 4, 2));
    let first = expect(&mut elevator, 0);
    expect(&mut elevator, 2);
    assert_eq!(step(&mut elevator), None);
    assert!(elevator.complete(first));
    expect(&mut elevator, 1);
}

#[test]
fn overlap_is_judged_in_whole_blocks() {
    for (align, second_offset, waits) in
        [(1, 100, false), (1, 99, true), (4096, 100, true), (4096, 4095, true), (4096, 4096, false), (0, 100, false)]
    {
        let mut elevator = elevator(align, 0, 1);
        elevator.push(entry(Op::Write, 0, 100, 0));
        elevator.push(entry(Op::Write, second_offset, 10, 1));
        let first = expect(&mut elevator, 0);
        assert_eq!(step(&mut elevator).is_none(), waits, "align {align}, second at {second_offset}");
        assert!(elevator.complete(first));
        assert_eq!(step(&mut elevator).is_some(), waits);
    }
}

#[test]
fn a_flush_waits_for_earlier_mutations_only_and_holds_up_nothing() {
    let mut elevator = plain();
    elevator.push(entry(Op::Flush, 0, 0, 0));
    elevator.push(entry(Op::Read, 0, 1, 1));
    elevator.push(entry(Op::Write, 10, 1, 2));
    elevator.push(entry(Op::Write, 20, 1, 3));
    elevator.push(entry(Op::Flush, 0, 0, 4));
    elevator.push(entry(Op::Write, 30, 1, 5));
    elevator.push(entry(Op::Flush, 0, 0, 6));
    elevator.push(entry(Op::Flush, 0, 0, 7));
    expect(&mut elevator, 0);
    expect(&mut elevator, 1);
    let (a, b, c) = (expect(&mut elevator, 2), expect(&mut elevator, 3), expect(&mut elevator, 5));
    assert!(elevator.complete(c));
    assert!(elevator.complete(b));
    assert_eq!(step(&mut elevator), None, "the first write is not done");
    assert!(elevator.complete(a));
    assert_eq!(drain(&mut elevator), [[4], [6], [7]]);
    assert!(elevator.order.is_blank());
}

#[test]
fn a_flush_goes_at_the_foot_of_its_sweep_whatever_offset_it_bears() {
    let mut elevator = elevator(1, 1 << 20, 64);
    elevator.push(entry(Op::Read, 5, 1, 0));
    elevator.push(entry(Op::Flush, u64::MAX, u32::MAX, 1));
    assert_eq!(drain(&mut elevator), [[1], [0]]);
}

#[test]
fn neighbours_merge_if_they_touch() {
    for (op, second_offset, second_len, merged) in [
        (Op::Read, 14, 4, Some(8)),
        (Op::Read, 12, 4, Some(6)),
        (Op::Read, 10, 4, Some(4)),
        (Op::Read, 11, 2, Some(4)),
        (Op::Read, 15, 4, None),
        (Op::Write, 14, 4, Some(8)),
        (Op::Write, 15, 4, None),
        (Op::Trim, 14, 4, None),
        (Op::WriteZeroes, 14, 4, None),
    ] {
        let mut elevator = elevator(1, 1 << 20, 64);
        elevator.push(entry(op, second_offset, second_len, 1));
        elevator.push(entry(op, 10, 4, 0));
        let (issue, tags) = step(&mut elevator).expect("an issue");
        assert_eq!((issue.op, issue.offset_bytes), (op, 10));
        assert_eq!(issue.len_bytes, merged.unwrap_or(4), "{op:?} at {second_offset}");
        // Equal offsets keep their order of arrival.
        let expected: &[u32] = match merged {
            Some(_) if second_offset == 10 => &[1, 0],
            Some(_) => &[0, 1],
            None => &[0],
        };
        assert_eq!(tags, expected);
    }
}

#[test]
fn entries_of_another_kind_do_not_merge() {
    let mut elevator = elevator(1, 1 << 20, 64);
    elevator.push(entry(Op::Read, 0, 4, 0));
    elevator.push(Entry { flags: FUA, ..entry(Op::Read, 4, 4, 1) });
    elevator.push(entry(Op::Write, 8, 4, 2));
    elevator.push(Entry { flags: FUA, ..entry(Op::Write, 12, 4, 3) });
    elevator.push(Entry { flags: FUA, ..entry(Op::Write, 16, 4, 4) });
    assert_eq!(drain(&mut elevator), [vec![0], vec![1], vec![2], vec![3, 4]]);
}

#[test]
fn merging_stops_at_its_limit_in_bytes() {
    for (bytes_max, expected) in [(11, vec![2, 1]), (12, vec![3]), (13, vec![3]), (7, vec![1, 1, 1]), (3, vec![1; 3])] {
        let mut elevator = elevator(1, bytes_max, 64);
        (0..3).for_each(|tag| elevator.push(entry(Op::Read, u64::from(tag) * 4, 4, tag)));
        let parts: Vec<usize> = drain(&mut elevator).iter().map(Vec::len).collect();
        assert_eq!(parts, expected, "{bytes_max} bytes at most");
    }
}

#[test]
fn merging_stops_at_its_limit_in_parts() {
    for (parts_max, expected) in [(0, vec![1, 1, 1]), (1, vec![1, 1, 1]), (2, vec![2, 1]), (3, vec![3]), (4, vec![3])] {
        let mut elevator = elevator(1, 1 << 20, parts_max);
        (0..3).for_each(|tag| elevator.push(entry(Op::Write, u64::from(tag) * 4, 4, tag)));
        let parts: Vec<usize> = drain(&mut elevator).iter().map(Vec::len).collect();
        assert_eq!(parts, expected, "{parts_max} parts at most");
    }
}

#[test]
fn everything_in_a_merged_write_completes_with_it() {
    let mut elevator = elevator(1, 1 << 20, 64);
    (0..3).for_each(|tag| elevator.push(entry(Op::Write, u64::from(tag) * 4, 4, tag)));
    (0..3).for_each(|tag| elevator.push(entry(Op::Read, u64::from(tag) * 100 % 12, 1, 10 + tag)));
    elevator.push(entry(Op::Flush, 0, 0, 20));
    let (issue, tags) = step(&mut elevator).expect("an issue");
    assert_eq!((issue.len_bytes, tags), (12, vec![0, 1, 2]));
    assert_eq!(step(&mut elevator), None);
    assert!(elevator.complete(issue.ticket));
    assert_eq!(drain(&mut elevator).concat().len(), 4);
    assert!(elevator.order.is_blank());
}

#[test]
fn what_is_taken_back_hands_its_constraints_on() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 10, 0));
    let first = expect(&mut elevator, 0);
    elevator.push(entry(Op::Write, 0, 10, 1));
    elevator.push(entry(Op::Read, 0, 10, 2));
    elevator.push(entry(Op::Flush, 0, 0, 3));
    let removed = elevator.remove_where(|&tag| tag == 1);
    assert_eq!(removed, [entry(Op::Write, 0, 10, 1)]);
    assert_eq!(step(&mut elevator), None, "the read still has to see the first write");
    assert!(elevator.complete(first));
    assert_eq!(drain(&mut elevator), [[2], [3]]);
    assert!(elevator.order.is_blank());
}

#[test]
fn taking_back_a_mutation_frees_who_waited_for_it_alone() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 10, 0));
    elevator.push(entry(Op::Write, 5, 10, 1));
    elevator.push(entry(Op::Read, 5, 10, 2));
    elevator.push(entry(Op::Flush, 0, 0, 3));
    assert_eq!(elevator.remove_where(|&tag| tag < 2).len(), 2);
    assert_eq!(drain(&mut elevator), [[3], [2]]);
    assert!(elevator.order.is_blank());
}

#[test]
fn flushes_are_taken_back_waiting_ready_and_in_the_sweep() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 1, 0));
    elevator.push(entry(Op::Flush, 0, 0, 1));
    elevator.push(entry(Op::Flush, 0, 0, 2));
    elevator.push(entry(Op::Write, 8, 1, 3));
    elevator.push(entry(Op::Flush, 0, 0, 4));
    assert_eq!(elevator.remove_where(|&tag| tag == 1).len(), 1, "waiting");
    let first = expect(&mut elevator, 0);
    let second = expect(&mut elevator, 3);
    assert!(elevator.complete(first));
    assert_eq!(elevator.remove_where(|&tag| tag == 2).len(), 1, "ready");
    elevator.push(entry(Op::Read, 0, 1, 5));
    elevator.push(entry(Op::Read, 1, 1, 6));
    assert!(elevator.complete(second));
    expect(&mut elevator, 4);
    assert_eq!(elevator.remove_where(|&tag| tag == 5).len(), 1, "in the sweep");
    assert_eq!(drain(&mut elevator), [[6]]);
    assert!(elevator.order.is_blank());
}

#[test]
fn flushes_that_come_and_go_behind_a_stuck_write_leave_nothing_behind() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 1, 0));
    let stuck = expect(&mut elevator, 0);
    for _ in 0..1000 {
        (1..5).for_each(|tag| elevator.push(entry(Op::Flush, 0, 0, tag)));
        elevator.push(entry(Op::Write, 0, 1, 6));
        elevator.push(entry(Op::Flush, 0, 0, 7));
        assert_eq!(elevator.remove_where(|_| true).len(), 6);
    }
    assert!(elevator.complete(stuck));
    assert!(elevator.order.is_blank());
}

#[test]
fn many_large_reads_over_many_small_writes_cost_few_constraints() {
    let (writes, reads) = (2000u32, 2000u32);
    let mut elevator = plain();
    (0..writes).for_each(|tag| elevator.push(entry(Op::Write, u64::from(tag) * 2, 1, tag)));
    (0..reads).for_each(|tag| elevator.push(entry(Op::Read, 0, writes * 2, writes + tag)));
    assert!(elevator.order.constraints() < 4 * (writes + reads) as usize, "{}", elevator.order.constraints());
    let mut served = Vec::new();
    while let Some((issue, tags)) = step(&mut elevator) {
        served.extend(tags);
        assert!(elevator.complete(issue.ticket));
    }
    assert_eq!(served, (0..writes + reads).collect::<Vec<_>>());
    assert!(elevator.order.is_blank());
}

#[test]
fn senseless_offsets_are_ordered_like_any_other() {
    let mut elevator = elevator(4096, u32::MAX, usize::MAX);
    for (tag, op) in Op::ALL.into_iter().cycle().take(40).enumerate() {
        elevator.push(entry(op, u64::MAX - tag as u64 % 7 * 1000, u32::MAX - tag as u32 % 3, tag as u32));
    }
    let mut served = 0;
    while let Some((issue, tags)) = step(&mut elevator) {
        served += tags.len();
        assert!(elevator.complete(issue.ticket));
    }
    assert_eq!(served, 40);
}

/// A digest in the background.
fn background(offset_bytes: u64, tag: u32) -> Entry<u32> {
    Entry { flags: OpFlags::BACKGROUND, ..entry(Op::Digest, offset_bytes, 8, tag) }
}

#[test]
fn background_comes_last_and_one_at_a_time() {
    let mut elevator = plain();
    elevator.push(background(50, 0));
    elevator.push(background(0, 1));
    elevator.push(entry(Op::Read, 70, 1, 2));
    elevator.push(entry(Op::Write, 10, 1, 3));
    let others = [3, 2].map(|tag| expect(&mut elevator, tag));
    let first = expect(&mut elevator, 0);
    assert_eq!(step(&mut elevator), None, "one is in flight");
    elevator.push(entry(Op::Read, 60, 1, 4));
    expect(&mut elevator, 4);
    assert!(elevator.complete(first));
    expect(&mut elevator, 1);
    assert!(others.into_iter().all(|ticket| elevator.complete(ticket)) && elevator.is_empty());
}

#[test]
fn background_neither_waits_for_changes_nor_delays_them() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 8, 0));
    let write = expect(&mut elevator, 0);
    elevator.push(background(0, 1));
    expect(&mut elevator, 1);
    elevator.push(entry(Op::Write, 0, 8, 2));
    assert_eq!(step(&mut elevator), None, "it waits for the first write");
    assert!(elevator.complete(write));
    expect(&mut elevator, 2);
}

#[test]
fn a_busy_node_gets_to_its_background_now_and_then() {
    for passed in [BACKGROUND_AFTER - 1, BACKGROUND_AFTER, BACKGROUND_AFTER + 1] {
        let mut elevator = plain();
        elevator.push(background(0, 0));
        for n in 0..passed {
            elevator.push(entry(Op::Read, 1, 1, n + 1));
            elevator.push(entry(Op::Read, 2, 1, n + 1));
            let (issue, tags) = step(&mut elevator).expect("an issue");
            assert!(elevator.complete(issue.ticket));
            assert_eq!(tags == [0], n == BACKGROUND_AFTER, "after {n} others");
        }
        let (_, tags) = step(&mut elevator).expect("an issue");
        assert_eq!(tags == [0], passed == BACKGROUND_AFTER, "after {passed} others");
    }
}

#[test]
fn background_that_is_removed_leaves_no_trace() {
    let mut elevator = plain();
    for tag in 0..4 {
        elevator.push(background(u64::from(tag), tag));
    }
    expect(&mut elevator, 0);
    assert_eq!(elevator.remove_where(|tag| tag % 2 == 1).len(), 2);
    assert_eq!((elevator.len(), step(&mut elevator)), (1, None));
}

/// An urgent read of one byte.
fn urgent(offset_bytes: u64, tag: u32) -> Entry<u32> {
    Entry { flags: OpFlags::URGENT, ..entry(Op::Read, offset_bytes, 1, tag) }
}

#[test]
fn urgent_reads_pass_the_sweep_and_the_background() {
    let mut elevator = elevator(1, 64, 8);
    elevator.push(background(0, 0));
    elevator.push(entry(Op::Read, 1, 1, 1));
    elevator.push(entry(Op::Read, 9, 1, 2));
    expect(&mut elevator, 1);
    elevator.push(urgent(6, 3));
    elevator.push(urgent(5, 4));
    assert_eq!(drain(&mut elevator), [[3], [4], [2], [0]], "in the order of arrival, and each by itself");
}

#[test]
fn others_have_their_turn_after_some_urgent_reads() {
    for count in [URGENT_RUN - 1, URGENT_RUN, URGENT_RUN + 1] {
        let mut elevator = plain();
        elevator.push(entry(Op::Read, 0, 1, 99));
        (0..count).for_each(|tag| elevator.push(urgent(5, tag)));
        let tags: Vec<u32> = drain(&mut elevator).concat();
        assert_eq!(tags.iter().position(|&tag| tag == 99), Some(count.min(URGENT_RUN) as usize), "{count}");
        assert_eq!(tags.len(), count as usize + 1);
    }
}

#[test]
fn background_has_its_turn_beside_urgent_reads() {
    for count in [BACKGROUND_AFTER - 1, BACKGROUND_AFTER, BACKGROUND_AFTER + 1] {
        let mut elevator = plain();
        elevator.push(background(0, 9999));
        (0..count).for_each(|tag| elevator.push(urgent(5, tag)));
        let tags: Vec<u32> = drain(&mut elevator).concat();
        assert_eq!(tags.iter().position(|&tag| tag == 9999), Some(count.min(BACKGROUND_AFTER) as usize), "{count}");
    }
}

#[test]
fn an_urgent_read_waits_for_an_earlier_change_of_its_bytes() {
    let mut elevator = plain();
    elevator.push(entry(Op::Write, 0, 8, 0));
    elevator.push(urgent(4, 1));
    elevator.push(urgent(8, 2));
    expect(&mut elevator, 2);
    let write = expect(&mut elevator, 0);
    elevator.push(entry(Op::Read, 20, 1, 3));
    elevator.push(urgent(30, 4));
    assert!(elevator.complete(write));
    // It is ready now, and came first.
    [1, 4, 3].into_iter().for_each(|tag| assert_ne!(expect(&mut elevator, tag), write));
    elevator.push(urgent(40, 5));
    assert_eq!(
        (elevator.remove_where(|&tag| tag == 5).len(), elevator.is_empty(), step(&mut elevator)),
        (1, true, None)
    );
}
