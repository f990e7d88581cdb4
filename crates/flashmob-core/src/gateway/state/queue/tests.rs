use super::*;

const LIMITS: BatchLimits = BatchLimits { pieces: 100, bytes: 1 << 20 };

fn piece(op: Op, offset_bytes: u64, len_bytes: u32) -> Piece {
    let request = RequestKey::default();
    Piece {
        request,
        client: 0,
        serial: 0,
        op,
        flags: OpFlags::NONE,
        offset_bytes,
        len_bytes,
        buffer_at: 0,
        received: Time::default(),
        answered: false,
        sample: 0,
    }
}

fn take(queue: &mut NodeQueue, limits: BatchLimits) -> Vec<Piece> {
    let mut batch = Vec::new();
    queue.take_batch(limits, BatchLimits { pieces: 8, bytes: 32 * 1024 }, &mut batch);
    batch
}

fn offsets(batch: &[Piece]) -> Vec<u64> {
    batch.iter().map(|p| p.offset_bytes).collect()
}

#[test]
fn batches_keep_to_count_and_bytes() {
    let mut queue = NodeQueue::default();
    (0..10).for_each(|i| queue.push(piece(Op::Read, i, 100)));
    assert_eq!(take(&mut queue, BatchLimits { pieces: 3, bytes: 10_000 }).len(), 3, "at the count");
    assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 299 }).len(), 2, "below the bytes");
    assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 300 }).len(), 3, "at the bytes");
    assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 1 }).len(), 1, "one always goes");
}

#[test]
fn overlapping_changes_go_one_after_the_other_and_reads_pass() {
    let mut queue = NodeQueue::default();
    queue.push(piece(Op::Write, 0, 10));
    queue.push(piece(Op::Write, 5, 10));
    queue.push(piece(Op::Trim, 12, 10));
    queue.push(piece(Op::Write, 40, 10));
    queue.push(piece(Op::Read, 6, 1));
    let first = take(&mut queue, LIMITS);
    assert_eq!(offsets(&first), [0, 40, 6]);
    assert!(take(&mut queue, LIMITS).is_empty());
    queue.change_ended(&first[0]);
    let second = take(&mut queue, LIMITS);
    assert_eq!(offsets(&second), [5], "the trim overlaps it and came later");
    queue.change_ended(&second[0]);
    assert_eq!(offsets(&take(&mut queue, LIMITS)), [12]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn changes_that_waited_for_different_ones_keep_their_order() {
    let mut queue = NodeQueue::default();
    for (offset, len) in [(0, 4), (4, 4), (0, 4), (0, 8)] {
        queue.push(piece(Op::Write, offset, len));
    }
    let first = take(&mut queue, LIMITS);
    assert_eq!(first.iter().map(|p| p.serial).collect::<Vec<_>>(), [1, 2]);
    // Both ends come before a batch is made: the third is free first, the fourth overlaps it and came later.
    first.iter().for_each(|piece| queue.change_ended(piece));
    let second = take(&mut queue, LIMITS);
    assert_eq!(second.iter().map(|p| p.serial).collect::<Vec<_>>(), [3]);
    queue.change_ended(&second[0]);
    assert_eq!(take(&mut queue, LIMITS).iter().map(|p| p.serial).collect::<Vec<_>>(), [4]);
}

#[test]
fn a_flush_waits_for_earlier_changes_only() {
    let mut queue = NodeQueue::default();
    queue.push(piece(Op::Write, 0, 10));
    queue.push(piece(Op::Write, 0, 10));
    queue.push(piece(Op::Flush, 0, 0));
    queue.push(piece(Op::Write, 50, 10));
    let first = take(&mut queue, LIMITS);
    assert_eq!(offsets(&first), [0, 50]);
    queue.change_ended(&first[0]);
    let second = take(&mut queue, LIMITS);
    assert_eq!(offsets(&second), [0]);
    queue.change_ended(&second[0]);
    let third = take(&mut queue, LIMITS);
    assert_eq!(third.iter().map(|p| p.op).collect::<Vec<_>>(), [Op::Flush], "the later write is still open");
    assert!(queue.is_dirty());
    queue.flushed(&third[0]);
    assert!(queue.is_dirty(), "the later write is not covered");
}

#[test]
fn a_node_is_dirty_until_a_flush_covers_every_change() {
    let mut queue = NodeQueue::default();
    assert!(queue.is_dirty() && !queue.has_unflushed_changes(), "what an earlier session left is not known");
    queue.push(piece(Op::Flush, 0, 0));
    let flush = take(&mut queue, LIMITS)[0];
    queue.flushed(&flush);
    assert!(!queue.is_dirty());
    queue.push(piece(Op::Trim, 0, 1));
    assert!(queue.is_dirty() && queue.has_unflushed_changes());
}

#[test]
fn what_is_sent_again_keeps_its_place() {
    let mut queue = NodeQueue::default();
    for offset in [0, 0, 20] {
        queue.push(piece(Op::Write, offset, 10));
    }
    let lost = take(&mut queue, LIMITS);
    assert_eq!(offsets(&lost), [0, 20]);
    queue.requeue(lost.into_iter().rev().collect());
    let again = take(&mut queue, LIMITS);
    assert_eq!(again.iter().map(|p| p.serial).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn what_is_gone_leaves_the_queue_without_a_batch_and_holds_up_nobody() {
    let mut queue = NodeQueue::default();
    for (offset, len) in [(0, 10), (5, 10), (12, 10), (40, 10)] {
        queue.push(piece(Op::Write, offset, len));
    }
    let first = take(&mut queue, BatchLimits { pieces: 1, bytes: 1 << 20 });
    assert_eq!(offsets(&first), [0]);
    assert_eq!(offsets(&take(&mut queue, LIMITS)), [40]);
    queue.drop_dead(|p| p.offset_bytes != 5);
    assert_eq!(queue.len(), 1);
    assert_eq!(offsets(&take(&mut queue, LIMITS)), [12], "it waited only for what is gone");
}

#[test]
fn pieces_of_requests_that_are_gone_are_dropped() {
    let mut queue = NodeQueue::default();
    (0..4).for_each(|i| queue.push(piece(Op::Write, i * 10, 10)));
    queue.drop_dead(|p| p.offset_bytes != 10);
    assert_eq!(offsets(&take(&mut queue, LIMITS)), [0, 20, 30]);
}

fn read_of(client: u32, offset_bytes: u64) -> Piece {
    Piece { client, ..piece(Op::Read, offset_bytes, 4096) }
}

fn clients(batch: &[Piece]) -> Vec<u32> {
    batch.iter().map(|p| p.client).collect()
}

#[test]
fn a_client_waits_for_a_turn_of_another_and_not_for_all_that_it_has() {
    let mut queue = NodeQueue::default();
    (0..1000).for_each(|i| queue.push(read_of(7, i)));
    queue.push(read_of(3, 0));
    let batch = take(&mut queue, BatchLimits { pieces: 64, bytes: 1 << 20 });
    assert_eq!(clients(&batch).iter().position(|&client| client == 3), Some(8));
    assert_eq!(batch.len(), 64, "whoever is left alone has the rest of the batch");
    assert_eq!(queue.len(), 1001 - 64);
}

#[test]
fn turns_go_round_from_batch_to_batch() {
    let mut queue = NodeQueue::default();
    for client in 0..3 {
        (0..100).for_each(|i| queue.push(read_of(client, i)));
    }
    let mut taken = [0; 3];
    for _ in 0..30 {
        take(&mut queue, BatchLimits { pieces: 5, bytes: 1 << 20 }).iter().for_each(|p| taken[p.client as usize] += 1);
    }
    assert_eq!(taken, [50, 50, 50]);
    (0..1000).for_each(|i| assert!(!queue.has_ready() || !take(&mut queue, LIMITS).is_empty(), "batch {i}"));
    assert!(queue.len() == 0 && queue.ready_len() == 0);
}

#[test]
fn a_client_with_few_bytes_a_read_is_not_behind_many_of_large_ones() {
    let mut queue = NodeQueue::default();
    (0..50).for_each(|i| queue.push(Piece { client: 1, ..piece(Op::Read, i, 1 << 20) }));
    (0..50).for_each(|i| queue.push(read_of(2, i)));
    assert_eq!(clients(&take(&mut queue, LIMITS)), [1], "it fills a batch");
    assert_eq!(clients(&take(&mut queue, LIMITS)), [2; 8], "and then there is no room for another");
    assert_eq!(clients(&take(&mut queue, LIMITS)), [1], "whose turn it stays");
}

#[test]
fn changes_have_turns_beside_reads_and_keep_their_order() {
    let mut queue = NodeQueue::default();
    for i in 0..40 {
        queue.push(Piece { client: 1 + i as u32 % 2, ..piece(Op::Write, i * 10, 10) });
        queue.push(read_of(1, i));
        queue.push(read_of(2, i));
    }
    queue.push(piece(Op::Flush, 0, 0));
    let (mut writes, mut per_batch) = (Vec::new(), Vec::new());
    while queue.has_ready() {
        let batch = take(&mut queue, BatchLimits { pieces: 48, bytes: 1 << 20 });
        let changes: Vec<Piece> = batch.into_iter().filter(|p| p.op == Op::Write).collect();
        per_batch.push(changes.len());
        writes.extend(changes);
    }
    assert_eq!(per_batch, [16, 16, 8]);
    assert_eq!(offsets(&writes), (0..40).map(|i| i * 10).collect::<Vec<_>>());
    assert_eq!(queue.len(), 1, "the flush waits for them");
    writes.iter().for_each(|piece| queue.change_ended(piece));
    assert_eq!(take(&mut queue, LIMITS)[0].op, Op::Flush);
}

#[test]
fn neither_reads_nor_changes_keep_each_other_out_of_batches_of_one() {
    let mut queue = NodeQueue::default();
    for i in 0..20 {
        queue.push(piece(Op::Write, i * 10, 10));
        queue.push(read_of(1, i));
    }
    let one = BatchLimits { pieces: 1, bytes: 1 << 20 };
    let ops: Vec<Op> = (0..40).map(|_| take(&mut queue, one)[0].op).collect();
    assert!(ops.chunks(2).all(|two| two[0] != two[1]), "{ops:?}");
}

#[test]
fn reads_that_are_sent_again_come_first_in_their_own_lane() {
    let mut queue = NodeQueue::default();
    for i in 0..40 {
        queue.push(read_of(1, i));
        queue.push(read_of(2, i));
    }
    let lost = take(&mut queue, BatchLimits { pieces: 12, bytes: 1 << 20 });
    assert_eq!(clients(&lost), [vec![1; 8], vec![2; 4]].concat());
    queue.requeue(lost);
    assert_eq!(queue.len(), 80);
    let again = take(&mut queue, LIMITS);
    for client in [1, 2] {
        let own: Vec<Piece> = again.iter().filter(|p| p.client == client).copied().collect();
        assert_eq!(offsets(&own), (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn all_lanes_are_seen_and_cleared() {
    let mut queue = NodeQueue::default();
    for client in 0..4 {
        let request = RequestKey { index: client, serial: 1 };
        queue.push(Piece { request, ..read_of(client, 0) });
        queue.push(Piece { request, client, ..piece(Op::Write, 0, 10) });
    }
    assert_eq!(take(&mut queue, LIMITS).len(), 5, "of the writes one goes");
    for client in 0..4 {
        let request = RequestKey { index: client, serial: 2 };
        queue.push(Piece { request, ..read_of(client, 0) });
    }
    let waiting: Vec<(u32, u32)> = queue.waiting_requests().map(|key| (key.serial, key.index)).collect();
    assert_eq!(waiting, [(2, 0), (2, 1), (2, 2), (2, 3), (1, 1), (1, 2), (1, 3)]);
    queue.drop_dead(|p| p.request.index % 2 == 1);
    assert_eq!(clients(&take(&mut queue, LIMITS)), [1, 3]);
    assert_eq!(queue.held_requests().map(|key| key.index).collect::<Vec<_>>(), [1, 3]);
    queue.drop_dead(|_| false);
    assert!(!queue.has_ready() && queue.len() == 0);
}

#[test]
fn changes_are_not_starved_by_readers_that_ask_again_at_once() {
    for (clients, limits) in [
        (3u32, BatchLimits { pieces: 1, bytes: 1 << 20 }),
        (2, BatchLimits { pieces: 100, bytes: 1 << 20 }),
        (40, BatchLimits { pieces: 32, bytes: 128 * 1024 }),
    ] {
        let len = if limits.pieces == 100 { 1 << 20 } else { 4096 };
        let mut queue = NodeQueue::default();
        let ask = |queue: &mut NodeQueue, client: u32| {
            queue.push(Piece { client, ..piece(Op::Read, u64::from(client) << 20, len) });
        };
        (0..clients).for_each(|client| ask(&mut queue, client));
        queue.push(piece(Op::Write, 0, 10));
        let batches_until_written = (1..=100)
            .find(|_| {
                let batch = take(&mut queue, limits);
                batch.iter().for_each(|p| ask(&mut queue, p.client));
                batch.iter().any(|p| p.op == Op::Write)
            })
            .expect("the write goes");
        assert!(batches_until_written <= 2, "{clients} clients, {limits:?}: only in batch {batches_until_written}");
    }
}

#[test]
fn a_map_waits_for_earlier_changes_of_its_range_and_holds_later_ones_back() {
    let mut queue = NodeQueue::default();
    queue.push(piece(Op::Write, 0, 10));
    queue.push(piece(Op::Map, 5, 100));
    queue.push(piece(Op::Write, 50, 10));
    queue.push(piece(Op::Write, 200, 10));
    queue.push(piece(Op::Read, 6, 1));
    let first = take(&mut queue, LIMITS);
    assert_eq!(offsets(&first), [0, 200, 6]);
    queue.change_ended(&first[0]);
    let map = take(&mut queue, LIMITS);
    assert_eq!(offsets(&map), [5]);
    queue.push(piece(Op::Flush, 0, 0));
    assert!(take(&mut queue, LIMITS).is_empty(), "the flush waits for the write behind the map");
    // Its link is lost: it is sent again, before the write still.
    queue.requeue(map.clone());
    assert_eq!(offsets(&take(&mut queue, LIMITS)), [5]);
    queue.change_ended(&map[0]);
    let last = take(&mut queue, LIMITS);
    assert_eq!(offsets(&last), [50]);
    queue.change_ended(&last[0]);
    queue.change_ended(&first[1]);
    assert_eq!(take(&mut queue, LIMITS).len(), 1, "the flush");
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_map_makes_nothing_dirty_and_no_flush_waits_for_it() {
    let mut queue = NodeQueue::default();
    queue.push(piece(Op::Flush, 0, 0));
    let flush = take(&mut queue, LIMITS);
    queue.flushed(&flush[0]);
    queue.push(piece(Op::Map, 0, 100));
    assert!(!queue.is_dirty() && !queue.has_unflushed_changes());
    queue.push(piece(Op::Flush, 0, 0));
    assert_eq!(take(&mut queue, LIMITS).len(), 2, "both at once");
}

#[test]
fn a_digest_in_the_background_is_kept_from_nothing_and_keeps_nothing() {
    let digest = |flags| Piece { flags, ..piece(Op::Digest, 0, 8192) };
    for (flags, with_write) in [(OpFlags::NONE, vec![4096]), (OpFlags::BACKGROUND, vec![4096, 0])] {
        let mut queue = NodeQueue::default();
        queue.push(piece(Op::Write, 4096, 10));
        queue.push(digest(flags));
        assert_eq!(offsets(&take(&mut queue, LIMITS)), with_write);
    }
    let mut queue = NodeQueue::default();
    queue.push(digest(OpFlags::BACKGROUND));
    queue.push(piece(Op::Write, 4096, 10));
    queue.push(piece(Op::Flush, 0, 0));
    let batch = take(&mut queue, LIMITS);
    assert_eq!(offsets(&batch), [0, 4096]);
    queue.change_ended(&batch[1]);
    assert_eq!(take(&mut queue, LIMITS).len(), 1, "a flush does not wait for it either");
    // Sent again after a lost link, it is still in nobody's way.
    queue.requeue(vec![batch[0]]);
    queue.push(piece(Op::Write, 0, 10));
    assert_eq!(take(&mut queue, LIMITS).len(), 2);
}
