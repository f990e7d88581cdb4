//! Volumes with copies: copies that move to other nodes.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::copies::MapImage;
use flashmob_core::gateway::{Action, CopiesStatus, Event, LinkId, MoveError, Outlook};
use flashmob_core::op::{Failure, Op};

const SECOND: Duration = Duration::from_secs(1);
const CHUNK_BYTES: u64 = FlashBed::CHUNK_BYTES;

/// `nodes` nodes with room for four chunks each, of which the volume has so many, with so many copies.
fn bed(nodes: usize, copies: usize, chunks: u32) -> FlashBed {
    let mut bed = FlashBed::new(nodes, copies, 4, |spec| {
        let members = spec.map.members().to_vec();
        spec.map = MapImage::with_chunks(spec.map.map_id(), CHUNK_BYTES, copies, members, chunks).unwrap();
    });
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    bed
}

fn map(bed: &FlashBed) -> &MapImage {
    bed.bed.gateway.map(0).expect("a map")
}

fn copies_on(bed: &FlashBed) -> Vec<u32> {
    (0..bed.nodes.len() as u16).map(|member| map(bed).copies_on(member)).collect()
}

fn status(bed: &FlashBed) -> CopiesStatus {
    bed.bed.gateway.copies_status(bed.bed.now, 0).expect("a volume with copies")
}

fn drain(bed: &mut FlashBed, node: usize, is_leaving: bool, is_dry: bool) -> Result<Outlook, MoveError> {
    bed.bed.gateway.drain_node(bed.bed.now, 0, node, is_leaving, is_dry)
}

/// Time goes by and nodes answer, and no decision becomes durable.
fn pass_undurable(bed: &mut FlashBed, time: Duration) {
    let end = bed.bed.now + time;
    while bed.bed.now < end {
        bed.bed.now = bed.bed.now + Duration::from_millis(50);
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.bed.turn();
        (0..bed.nodes.len()).for_each(|n| {
            bed.answer(n);
        });
    }
}

/// The first byte of each block of the volume, as all copies have it.
fn content(bed: &FlashBed) -> Vec<u8> {
    let blocks = |chunk| (0..16).map(move |block| (chunk, block));
    let mut content = Vec::new();
    for (chunk, block) in (0..map(bed).chunks()).flat_map(blocks) {
        let bytes = bed.block(chunk, 0, block);
        (1..map(bed).copies()).for_each(|copy| assert_eq!(bed.block(chunk, copy, block), bytes, "{chunk}, {block}"));
        content.push(bytes[0]);
    }
    content
}

#[test]
fn a_drained_node_has_no_copies_and_no_bytes_of_them() {
    for (copies, chunks) in [(1, 6), (2, 4)] {
        let mut bed = bed(3, copies, chunks);
        let (before, expected) = (content(&bed), copies_on(&bed)[0]);
        let dry = drain(&mut bed, 0, true, true).unwrap();
        let bytes = u64::from(expected) * CHUNK_BYTES;
        assert_eq!(dry, Outlook { copies: expected.into(), bytes, bytes_per_s: None, number: 0 });
        bed.pass(SECOND);
        assert!(copies_on(&bed)[0] == expected && map(&bed).leaving().next().is_none(), "nothing is done");
        drain(&mut bed, 0, true, false).unwrap();
        bed.pass(SECOND * 3);
        assert_eq!(copies_on(&bed)[0], 0);
        assert_eq!(content(&bed), before, "each byte is where the map says");
        let status = status(&bed);
        assert_eq!((status.moves.left, status.moves.freed, status.counters.moved), (0, 0, u64::from(expected)));
        assert_eq!(status.counters.freed, u64::from(expected));
        assert!(bed.nodes[0].bytes.iter().all(|&byte| byte == 0), "its bytes are given back");
        let members = bed.bed.gateway.members_status(bed.bed.now, 0).unwrap();
        assert!(members[0].is_leaving && members[0].is_drained && !members[1].is_leaving);
        assert!(bed.bed.gateway.is_recorded(0, map(&bed).version()));
        // It may have copies again.
        drain(&mut bed, 0, false, false).unwrap();
        bed.bed.gateway.balance(bed.bed.now, 0, true, false).unwrap();
        bed.pass(SECOND * 15);
        assert!(copies_on(&bed)[0] > 0 && !map(&bed).is_balancing(), "{:?}", copies_on(&bed));
        assert_eq!(content(&bed), before);
    }
}

/// A copy is made in a slot that the map does not have yet: the node must not say meanwhile that its extent ends before that.
#[test]
fn an_extent_does_not_shrink_below_a_copy_that_is_made_there() {
    let mut bed = bed(3, 2, 3);
    let sizes = |bed: &FlashBed| Vec::from_iter(map(bed).members().iter().map(|member| member.size_bytes));
    let (before, whole) = (content(&bed), sizes(&bed));
    drain(&mut bed, 0, true, false).unwrap();
    // Steps are begun, and nobody answers.
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    bed.bed.pass(Duration::from_millis(100));
    assert!(status(&bed).jobs > 0, "{:?}", status(&bed));
    for (n, whole_bytes) in whole.into_iter().enumerate().skip(1) {
        let used = map(&bed).used_bytes(n as u16);
        assert!(used < whole_bytes);
        bed.unlink(n);
        bed.until_connecting(n);
        bed.link_of_size(n, used);
    }
    let is_ready = |bed: &FlashBed, n: usize| {
        let node = &bed.bed.gateway.status().volumes[0].nodes[n];
        node.links[0].phase == flashmob_core::gateway::LinkPhase::Ready
    };
    assert!(!(1..3).all(|n| is_ready(&bed, n)), "the one where a copy is made is refused");
    bed.nodes.iter_mut().for_each(|node| node.is_silent = false);
    for n in (1..3).filter(|n| !is_ready(&bed, *n)).collect::<Vec<_>>() {
        bed.until_connecting(n);
        bed.link(n);
    }
    bed.pass(SECOND * 10);
    assert_eq!(content(&bed), before, "each byte is where the map says");
}

#[test]
fn who_drained_it_is_told_when_it_can_be_switched_off() {
    let mut bed = bed(3, 2, 3);
    drain(&mut bed, 1, true, false).unwrap();
    let mut told = Vec::new();
    for _ in 0..100 {
        bed.bed.now = bed.bed.now + Duration::from_millis(50);
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.bed.turn();
        for action in bed.bed.actions() {
            match action {
                Action::Commit { volume, number, .. } => {
                    bed.bed.gateway.committed(bed.bed.now, volume, number, Ok(()));
                }
                Action::Tell(Event::NodeWarning(_, text)) => told.push(text),
                _ => {}
            }
        }
        (0..3).for_each(|n| {
            bed.answer(n);
        });
    }
    assert_eq!(told, ["it has no copies any more: it can be switched off"]);
}

#[test]
fn changes_go_to_both_places_until_the_new_one_is_durable() {
    let mut bed = bed(2, 1, 1);
    let old = bed.place_of(0, 0);
    let new = 1 - old;
    drain(&mut bed, old, true, false).unwrap();
    // The node that it moves to does not answer.
    bed.nodes[new].is_silent = true;
    bed.pass(Duration::from_millis(100));
    // A block that is not being hashed.
    bed.bed.submit(bed.client, Op::Write, 9 * BLOCK, BLOCK as u32);
    bed.pass(Duration::from_millis(100));
    assert_eq!(bed.results(), [Ok(Vec::new())], "nobody waits for it");
    assert_eq!((copies_on(&bed)[old], map(&bed).places(0)[0].member), (1, old as u16));
    bed.nodes[new].is_silent = false;
    bed.nodes.iter_mut().for_each(|node| node.seen.clear());
    // Nothing is durable from now on.
    pass_undurable(&mut bed, SECOND * 10);
    assert_eq!(map(&bed).places(0)[0].member, new as u16, "it is decided");
    let wrote = |bed: &FlashBed, node: usize| bed.nodes[node].seen.iter().filter(|piece| piece.op == Op::Write).count();
    let before = wrote(&bed, new);
    bed.bed.submit(bed.client, Op::Write, BLOCK, 512);
    pass_undurable(&mut bed, SECOND);
    assert_eq!((wrote(&bed, new), bed.results()), (before, Vec::new()), "the old place would lack it");
    let is_zeroed = |bed: &FlashBed| bed.nodes[old].seen.iter().any(|piece| piece.op == Op::WriteZeroes);
    assert!(!is_zeroed(&bed), "nor is the old place given up");
    bed.pass(SECOND * 3);
    assert_eq!((bed.results().len(), is_zeroed(&bed)), (1, true));
}

#[test]
fn a_slot_is_not_used_again_before_a_read_from_there_is_answered() {
    let mut bed = bed(2, 1, 1);
    let old = bed.place_of(0, 0);
    let expected = bed.block(0, 0, 3);
    // The read is under way to the old place, and is answered last.
    bed.bed.submit(bed.client, Op::Read, 3 * BLOCK, BLOCK as u32);
    bed.bed.turn();
    let late = bed.bed.gateway.link_out(LinkId(old)).take_all();
    drain(&mut bed, old, true, false).unwrap();
    for _ in 0..200 {
        bed.bed.now = bed.bed.now + Duration::from_millis(10);
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.turn();
        (0..2).for_each(|n| {
            bed.answer(n);
        });
    }
    assert_eq!(copies_on(&bed)[old], 0, "it has moved");
    assert_eq!((status(&bed).moves.freed, bed.results()), (1, Vec::new()));
    assert_eq!(bed.nodes[old].bytes[3 * BLOCK as usize..][..BLOCK as usize], expected[..], "it is as it was");
    bed.answer_bytes(old, &late);
    assert_eq!(bed.results(), [Ok(expected)]);
    bed.pass(SECOND);
    assert_eq!(status(&bed).moves.freed, 0);
}

#[test]
fn what_cannot_be_moved_is_refused_with_what_is_missing() {
    let mut full = bed(3, 2, 6);
    let refused = drain(&mut full, 1, true, false).unwrap_err();
    assert_eq!(refused, MoveError::NoRoom { copies: 4, free: 0, chunk_bytes: CHUNK_BYTES });
    assert_eq!(drain(&mut full, 1, true, true), Err(refused), "a dry run says the same");
    assert_eq!(drain(&mut full, 3, true, false), Err(MoveError::NoNode { number: 3, count: 3 }));
    assert!(map(&full).leaving().next().is_none());
    full.unlink(2);
    let refused = drain(&mut full, 1, true, false).unwrap_err();
    assert!(matches!(&refused, MoveError::NoRoomYet { copies: 4, .. }), "{refused}");
    // Members with the other copies have room, but no two copies of a chunk may be on one.
    let mut two = bed(2, 2, 2);
    let refused = drain(&mut two, 0, true, false);
    assert_eq!(refused, Err(MoveError::NoRoom { copies: 2, free: 2, chunk_bytes: CHUNK_BYTES }));
    two.bed.gateway.balance(two.bed.now, 0, true, false).unwrap();
    two.pass(SECOND * 2);
    assert!(!map(&two).is_balancing(), "nothing is to be done");
}

#[test]
fn the_copies_of_a_dead_node_are_made_elsewhere_of_the_others() {
    let mut bed = bed(4, 2, 6);
    let before = content(&bed);
    bed.unlink(2);
    bed.nodes[2].is_silent = true;
    drain(&mut bed, 2, true, false).unwrap();
    bed.pass(SECOND * 5);
    assert_eq!(copies_on(&bed)[2], 0);
    assert_eq!(content(&bed), before);
    assert_eq!(status(&bed).counters.freed, 0, "it is not there to be told");
    let members = bed.bed.gateway.members_status(bed.bed.now, 0).unwrap();
    assert!(members[2].is_drained);
}

#[test]
fn the_speed_of_moves_outlives_the_gateway() {
    let of_move = |move_time| {
        let mut bed = FlashBed::new(3, 1, 4, |spec| {
            let members = spec.map.members().to_vec();
            spec.map = MapImage::with_chunks(spec.map.map_id(), CHUNK_BYTES, 1, members, 6).unwrap();
            spec.scrub.kept.move_time = move_time;
        });
        bed.pass(SECOND);
        let outlook = drain(&mut bed, 2, true, true).unwrap();
        let kept = bed.bed.gateway.scrub_kept(bed.bed.now, 0).unwrap();
        (outlook.bytes_per_s, kept.move_time)
    };
    assert_eq!(of_move(None), (None, None));
    let quarter = Some(Duration::from_millis(250));
    assert_eq!(of_move(quarter), (Some(4.0 * CHUNK_BYTES as f64), quarter));
}

#[test]
fn what_a_killed_gateway_left_in_free_slots_is_given_back() {
    let with_data = |tells_holes: bool| {
        let mut bed = bed(2, 1, 2);
        bed.nodes.iter_mut().for_each(|node| node.tells_holes = tells_holes);
        let node = 1;
        bed.unlink(node);
        bed.pass(SECOND);
        bed
    };
    for tells_holes in [true, false] {
        let mut bed = with_data(tells_holes);
        // As after a start of the gateway: nobody has looked.
        let free = CHUNK_BYTES as usize * 3;
        let mut fresh = FlashBed::new(2, 1, 4, |spec| spec.map = map(&bed).clone());
        bed.nodes[1].bytes[free..free + 100].fill(7);
        fresh.nodes.clone_from(&bed.nodes);
        fresh.nodes.iter_mut().for_each(|node| node.seen.clear());
        fresh.pass(SECOND * 10);
        let zeroed = fresh.nodes[1].seen.iter().filter(|piece| piece.op == Op::WriteZeroes).count();
        if tells_holes {
            assert_eq!((zeroed, status(&fresh).counters.orphans), (1, 1));
            assert!(fresh.nodes[1].bytes[free..].iter().all(|&byte| byte == 0));
        } else {
            assert!(zeroed <= 1, "it does not help: {zeroed}");
        }
        assert!(status(&fresh).moves.is_searched);
    }
}

#[test]
fn a_node_that_is_drained_gets_none_that_was_under_way_to_it() {
    let mut bed = bed(3, 1, 6);
    drain(&mut bed, 0, true, false).unwrap();
    bed.pass(SECOND * 3);
    drain(&mut bed, 0, false, false).unwrap();
    // Copies are on the way back when it is drained again.
    bed.bed.gateway.balance(bed.bed.now, 0, true, false).unwrap();
    bed.nodes[0].is_silent = true;
    bed.pass(Duration::from_millis(100));
    assert!(status(&bed).jobs > 0 && copies_on(&bed)[0] == 0);
    drain(&mut bed, 0, true, false).unwrap();
    let is_drained = |bed: &FlashBed| bed.bed.gateway.is_drained(0);
    assert!(!is_drained(&bed), "what was sent there is not answered");
    bed.nodes[0].is_silent = false;
    bed.pass(SECOND * 3);
    assert!(is_drained(&bed) && copies_on(&bed)[0] == 0, "{:?}", copies_on(&bed));
    assert!(bed.nodes[0].bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn copies_go_elsewhere_if_a_node_fails_to_take_them() {
    let mut bed = bed(3, 1, 4);
    let from = bed.place_of(0, 0);
    let moved = copies_on(&bed)[from];
    let others: Vec<usize> = (0..3).filter(|&node| node != from).collect();
    // The emptier of the others is full in truth.
    let full = *others.iter().min_by_key(|&&node| copies_on(&bed)[node]).unwrap();
    bed.nodes[full].fails_writes = Some(Failure::NoSpace);
    let before = copies_on(&bed)[full];
    drain(&mut bed, from, true, false).unwrap();
    bed.pass(SECOND * 30);
    assert_eq!((copies_on(&bed)[from], copies_on(&bed)[full]), (0, before), "{moved} copies have moved");
}

#[test]
fn where_bytes_cannot_be_given_back_that_is_tried_once() {
    let mut bed = bed(2, 1, 2);
    let from = bed.place_of(0, 0);
    bed.nodes[from].fails_zeroes = Some(Failure::Io);
    drain(&mut bed, from, true, false).unwrap();
    bed.pass(SECOND * 20);
    let zeroed = bed.nodes[from].seen.iter().filter(|piece| piece.op == Op::WriteZeroes).count();
    assert_eq!((zeroed, bed.bed.gateway.is_drained(from)), (1, true));
}

#[test]
fn a_chunk_that_cannot_be_read_stays_and_is_told_where_nodes_know_no_marks() {
    let mut bed = bed(2, 1, 2);
    for node in 0..2 {
        bed.nodes[node].knows_marks = false;
        bed.unlink(node);
        bed.until_connecting(node);
        bed.link(node);
        bed.pass(SECOND);
    }
    let from = bed.place_of(0, 0);
    bed.rot(0, 0, 3);
    let others = copies_on(&bed)[from] - 1;
    drain(&mut bed, from, true, false).unwrap();
    bed.pass(SECOND * 5);
    assert_eq!((copies_on(&bed)[from], status(&bed).counters.moved), (1, u64::from(others)));
    assert_eq!(status(&bed).moves.unreadable, 1);
    // It is written again.
    bed.bed.submit(bed.client, Op::Write, 3 * BLOCK, BLOCK as u32);
    bed.pass(SECOND * 120);
    assert_eq!((copies_on(&bed)[from], status(&bed).moves.unreadable), (0, 0));
}

#[test]
fn a_balance_waits_for_a_node_that_is_away_and_says_so() {
    let mut bed = bed(3, 1, 6);
    drain(&mut bed, 0, true, false).unwrap();
    bed.pass(SECOND * 3);
    drain(&mut bed, 0, false, false).unwrap();
    bed.unlink(0);
    bed.nodes[0].is_silent = true;
    bed.bed.gateway.balance(bed.bed.now, 0, true, false).unwrap();
    bed.pass(SECOND * 15);
    let moves = status(&bed).moves;
    assert_eq!((moves.is_balancing, moves.waits_for, moves.was_cancelled), (true, Some(0), false));
    bed.bed.gateway.balance(bed.bed.now, 0, false, false).unwrap();
    let moves = status(&bed).moves;
    assert_eq!((moves.is_balancing, moves.waits_for, moves.was_cancelled), (false, None, true));
}

#[test]
fn a_drain_that_would_take_the_room_of_another_is_refused() {
    // Each of four nodes with four slots has two copies; two nodes can be emptied, no three.
    for (first, second, third) in [(3, 2, 0), (0, 1, 3)] {
        let mut bed = bed(4, 1, 8);
        bed.nodes.iter_mut().for_each(|node| node.fails_writes = Some(Failure::NoSpace));
        drain(&mut bed, first, true, false).unwrap();
        drain(&mut bed, second, true, false).unwrap();
        let refused = drain(&mut bed, third, true, false).unwrap_err();
        assert_eq!(refused, MoveError::NoRoom { copies: 4, free: 2, chunk_bytes: CHUNK_BYTES });
    }
}

#[test]
fn that_no_current_copy_is_there_is_told() {
    let mut bed = bed(2, 1, 2);
    let from = bed.place_of(0, 0);
    let copies = copies_on(&bed)[from];
    bed.unlink(from);
    bed.nodes[from].is_silent = true;
    drain(&mut bed, from, true, false).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!((copies_on(&bed)[from], status(&bed).moves.without_source), (copies, copies as usize));
}
