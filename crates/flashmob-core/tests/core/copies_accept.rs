//! Volumes with copies: the node with the only current copies does not come back, and somebody accepts the loss.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed, welcome};
use flashmob_core::copies::{MapImage, Marks, Record};
use flashmob_core::gateway::{AcceptLossError, AcceptedLoss, Action, CopiesSpec, MoveError, ReplaceError, Replaced};
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::hello::Welcome;

const SECOND: Duration = Duration::from_secs(1);
/// A node that was linked so lately may come back: ten times as long as it may leave changes unanswered.
const MAY_COME_BACK: Duration = Duration::from_secs(30);
const DEAD: usize = 1;

/// Two nodes with a copy of each of two chunks. Node 0 was away while the first block of each was written; then node 1 died, and node 0 is back.
fn dead() -> FlashBed {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    lack(&mut bed, 0, &[0, 1]);
    bed.unlink(DEAD);
    back(&mut bed, 0);
    bed
}

/// A node is away while the first blocks of chunks are written.
fn lack(bed: &mut FlashBed, node: usize, chunks: &[u32]) {
    bed.unlink(node);
    for &chunk in chunks {
        bed.bed.submit(bed.client, Op::Write, u64::from(chunk) * FlashBed::CHUNK_BYTES, BLOCK as u32);
    }
    bed.pass(SECOND * 10);
    assert!(bed.results().iter().all(Result::is_ok));
    for &chunk in chunks {
        assert!(marks(bed, chunk).behind & 1 << copy_on(bed, chunk, node) != 0, "it fell behind");
    }
}

fn back(bed: &mut FlashBed, node: usize) {
    bed.until_connecting(node);
    bed.link(node);
    bed.pass(SECOND);
}

fn map(bed: &FlashBed) -> &MapImage {
    bed.bed.gateway.map(0).expect("a map")
}

fn marks(bed: &FlashBed, chunk: u32) -> Marks {
    map(bed).marks(chunk)
}

fn copy_on(bed: &FlashBed, chunk: u32, node: usize) -> usize {
    map(bed).places(chunk).iter().position(|place| usize::from(place.member) == node).expect("a copy")
}

fn accept(bed: &mut FlashBed, nodes: &[usize]) -> Result<AcceptedLoss, AcceptLossError> {
    bed.bed.gateway.accept_loss(bed.bed.now, 0, nodes, false)
}

/// The loss that would be accepted.
fn look(bed: &mut FlashBed, nodes: &[usize]) -> Result<AcceptedLoss, AcceptLossError> {
    bed.bed.gateway.accept_loss(bed.bed.now, 0, nodes, true)
}

/// The result of a call, if there is one within some seconds.
fn call(bed: &mut FlashBed, op: Op, at: u64, len: u32) -> Option<Result<Vec<u8>, Failure>> {
    bed.bed.submit(bed.client, op, at, len);
    bed.pass(SECOND * 5);
    bed.results().pop()
}

#[test]
fn the_copy_behind_becomes_current_and_the_chunk_is_used_again() {
    let mut bed = dead();
    let old = bed.block(0, copy_on(&bed, 0, 0), 0);
    assert_eq!(call(&mut bed, Op::Read, 0, 4096), None, "no current copy is there");
    bed.pass(MAY_COME_BACK);
    let accepted = accept(&mut bed, &[DEAD]).unwrap();
    assert_eq!((accepted.chunks, accepted.without_copy), (vec![(0, 0), (1, 0)], vec![]));
    bed.pass(SECOND);
    assert!(bed.bed.gateway.is_recorded(0, accepted.number));
    assert_eq!(bed.results(), [Ok(old)], "what waited is answered");
    for chunk in 0..2 {
        let behind = 1 << copy_on(&bed, chunk, DEAD);
        assert_eq!(marks(&bed, chunk), Marks { is_open: true, is_torn: false, behind, doubtful: 0 }, "it was compared");
    }
    assert_eq!(call(&mut bed, Op::Write, 0, 4096), Some(Ok(vec![])));
    assert_eq!(call(&mut bed, Op::Write, FlashBed::CHUNK_BYTES, FlashBed::CHUNK_BYTES as u32), Some(Ok(vec![])));
    assert_eq!(accept(&mut bed, &[DEAD]), Err(AcceptLossError::Nothing), "it was accepted");
}

#[test]
fn nothing_is_read_or_changed_before_the_decision_is_durable() {
    let mut bed = dead();
    bed.bed.submit(bed.client, Op::Read, 0, 4096);
    bed.pass(MAY_COME_BACK);
    let accepted = accept(&mut bed, &[DEAD]).unwrap();
    bed.bed.submit(bed.client, Op::Write, 8192, 4096);
    for _ in 0..20 {
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.bed.turn();
        bed.answer(0);
    }
    assert!(!bed.bed.gateway.is_recorded(0, accepted.number));
    assert!(bed.results().is_empty());
    // The map cannot be written for now.
    let mut batches = bed.bed.actions().into_iter();
    let number = batches.find_map(|action| match action {
        Action::Commit { number, .. } => Some(number),
        _ => None,
    });
    bed.bed.gateway.committed(bed.bed.now, 0, number.expect("a batch"), Err(Failure::NoSpace));
    bed.bed.turn();
    assert!(bed.results().is_empty());
    bed.pass(SECOND * 5);
    assert!(bed.bed.gateway.is_recorded(0, accepted.number));
    let ended = bed.results();
    assert!(ended.len() == 2 && ended[0].is_ok(), "{ended:?}");
}

#[test]
fn a_change_that_only_the_lost_node_was_sent_fails() {
    let mut bed = dead();
    bed.bed.submit(bed.client, Op::Write, 0, 4096);
    bed.pass(MAY_COME_BACK);
    assert!(bed.results().is_empty());
    accept(&mut bed, &[DEAD]).unwrap();
    bed.pass(SECOND);
    assert_eq!(bed.results(), [Err(Failure::Io)]);
}

#[test]
fn the_loss_is_told_once_to_each_client() {
    let mut bed = dead();
    let other = bed.bed.gateway.native_opened(0).unwrap();
    bed.pass(MAY_COME_BACK);
    accept(&mut bed, &[DEAD]).unwrap();
    bed.pass(SECOND);
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Err(Failure::Io)));
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Ok(vec![])));
    let first = std::mem::replace(&mut bed.client, other);
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Err(Failure::Io)), "the other client");
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Ok(vec![])));
    bed.client = bed.bed.gateway.native_opened(0).unwrap();
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Ok(vec![])), "it was told before this client came");
    bed.client = first;
    assert_eq!((map(&bed).losses(), map(&bed).losses_told()), (1, 1));
}

#[test]
fn a_loss_that_nobody_was_told_of_is_told_to_who_comes_later() {
    let mut bed = dead();
    bed.pass(MAY_COME_BACK);
    accept(&mut bed, &[DEAD]).unwrap();
    bed.pass(SECOND);
    bed.client = bed.bed.gateway.native_opened(0).unwrap();
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Err(Failure::Io)));
    assert_eq!((map(&bed).losses(), map(&bed).losses_told()), (1, 1));
}

#[test]
fn a_node_that_is_back_after_all_is_made_equal_and_never_read() {
    let mut bed = dead();
    let old = bed.block(1, copy_on(&bed, 1, 0), 0);
    let lost = bed.block(1, copy_on(&bed, 1, DEAD), 0);
    assert!(old != lost);
    bed.pass(MAY_COME_BACK);
    accept(&mut bed, &[DEAD]).unwrap();
    back(&mut bed, DEAD);
    bed.pass(SECOND * 40);
    assert_eq!(bed.block(1, copy_on(&bed, 1, DEAD), 0), old);
    assert_eq!([marks(&bed, 0), marks(&bed, 1)], [Marks::default(); 2], "all copies are equal and settled");
    assert_eq!(call(&mut bed, Op::Read, FlashBed::CHUNK_BYTES, 4096), Some(Ok(old)));
}

#[test]
fn a_block_that_matches_nowhere_is_adopted() {
    let mut bed = dead();
    bed.rot(0, copy_on(&bed, 0, 0), 3);
    bed.pass(MAY_COME_BACK);
    accept(&mut bed, &[DEAD]).unwrap();
    bed.pass(SECOND);
    assert!(bed.is_clean(), "it has a checksum that matches");
    assert_eq!(bed.bed.gateway.copies_status(bed.bed.now, 0).unwrap().counters.adopted, 1);
}

#[test]
fn a_node_that_may_come_back_is_not_given_up() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    lack(&mut bed, 0, &[0]);
    back(&mut bed, 0);
    let name = |bed: &FlashBed, node: usize| bed.bed.gateway.status().volumes[0].nodes[node].name.clone();
    assert_eq!(accept(&mut bed, &[DEAD]), Err(AcceptLossError::Linked { name: name(&bed, DEAD) }));

    let mut bed = dead();
    let left_at = bed.bed.now;
    bed.pass(MAY_COME_BACK - SECOND * 3);
    let silent = |bed: &mut FlashBed| match accept(bed, &[DEAD]) {
        Err(AcceptLossError::HeardLately { silent, left, .. }) => Some(silent + left),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    };
    while let Some(all) = silent(&mut bed) {
        assert_eq!(all, MAY_COME_BACK);
        assert!(bed.bed.now - left_at < MAY_COME_BACK);
        let text = accept(&mut bed, &[DEAD]).unwrap_err().to_string();
        assert!(text.contains("may come back") && text.contains("try again in"), "{text}");
        bed.bed.pass(Duration::from_millis(100));
    }
    let since = bed.bed.now - left_at;
    assert!(since < MAY_COME_BACK, "the lost link was noticed before: {since:?}");
}

#[test]
fn a_gateway_that_has_just_started_gives_nobody_up() {
    let bed = dead();
    let spec = CopiesSpec::new(map(&bed).clone());
    let mut bed = FlashBed::without(DEAD..DEAD + 1, 2, 2, 2, |of| *of = spec);
    let behind = marks(&bed, 0).behind;
    assert!(behind != 0);
    assert!(matches!(look(&mut bed, &[DEAD]), Err(AcceptLossError::HeardLately { .. })));
    bed.pass(MAY_COME_BACK - SECOND);
    assert!(matches!(look(&mut bed, &[DEAD]), Err(AcceptLossError::HeardLately { .. })));
    bed.pass(SECOND * 2);
    assert_eq!(look(&mut bed, &[DEAD]).map(|loss| (loss.chunks, loss.number)), Ok((vec![(0, 0), (1, 0)], 0)));
    assert_eq!(marks(&bed, 0).behind, behind, "it was only looked");
    accept(&mut bed, &[DEAD]).unwrap();
}

#[test]
fn a_paused_node_is_not_given_up() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    bed.bed.gateway.pause_node(bed.bed.now, 0, DEAD, true).unwrap();
    bed.pass(MAY_COME_BACK * 2);
    let error = accept(&mut bed, &[DEAD]).unwrap_err();
    assert!(matches!(error, AcceptLossError::Paused { .. }) && error.to_string().contains("volume resume"), "{error}");
}

#[test]
fn what_cannot_be_given_up_is_named() {
    let mut bed = dead();
    bed.pass(MAY_COME_BACK);
    let no_node = AcceptLossError::Undecided(MoveError::NoNode { number: 2, count: 2 });
    assert_eq!(accept(&mut bed, &[DEAD, 2]), Err(no_node));
    bed.unlink(0);
    assert!(matches!(accept(&mut bed, &[DEAD]), Err(AcceptLossError::Away { chunks: 2, first: 0, .. })));
    bed.pass(MAY_COME_BACK + SECOND);
    assert_eq!(
        accept(&mut bed, &[0]),
        Err(AcceptLossError::Elsewhere {
            name: bed.bed.gateway.status().volumes[0].nodes[DEAD].name.clone(),
            chunks: 2,
            first: 0
        })
    );
    assert_eq!(accept(&mut bed, &[0, DEAD]), Err(AcceptLossError::NoOtherCopy { chunks: 2, first: 0 }));
    back(&mut bed, 0);
    assert!(accept(&mut bed, &[DEAD]).is_ok());
}

#[test]
fn what_is_told_of_a_node_is_what_would_be_accepted() {
    let mut bed = dead();
    let told = |bed: &FlashBed, node: usize| bed.bed.gateway.members_status(bed.bed.now, 0).unwrap()[node].loss.clone();
    assert!(told(&bed, DEAD).unwrap().unwrap_err().contains("may come back"));
    bed.pass(MAY_COME_BACK);
    assert_eq!((told(&bed, 0), told(&bed, DEAD)), (None, Some(Ok(2))));
    accept(&mut bed, &[DEAD]).unwrap();
    assert_eq!(told(&bed, DEAD), None);
}

#[test]
fn the_best_copy_is_the_one_that_fell_behind_last() {
    for later in [0, 1] {
        let mut bed = FlashBed::new(3, 3, 2, |_| ());
        bed.pass(SECOND);
        let (first, dead) = (1 - later, 2);
        lack(&mut bed, first, &[0]);
        lack(&mut bed, later, &[0]);
        bed.unlink(dead);
        back(&mut bed, first);
        bed.pass(MAY_COME_BACK);
        let away = accept(&mut bed, &[dead]);
        assert!(matches!(away, Err(AcceptLossError::Away { .. })), "the better one is not there: {away:?}");
        assert_eq!(look(&mut bed, &[dead, later]).map(|loss| loss.chunks), Ok(vec![(0, first as u16)]));
        back(&mut bed, later);
        assert_eq!(accept(&mut bed, &[dead]).map(|loss| loss.chunks), Ok(vec![(0, later as u16)]));
        bed.pass(SECOND * 30);
        let blocks = [first, later].map(|node| bed.block(0, copy_on(&bed, 0, node), 0));
        assert!(blocks[0] == blocks[1], "the other one is made equal to it");
    }
}

#[test]
fn a_copy_on_a_fresh_extent_is_the_last_choice_until_it_was_made_equal() {
    for fresh in [0, 1] {
        let mut bed = FlashBed::new(3, 3, 2, |_| ());
        bed.pass(SECOND);
        let (other, dead) = (1 - fresh, 2);
        lack(&mut bed, other, &[0]);
        lack(&mut bed, fresh, &[0]);
        let size_bytes = bed.nodes[fresh].bytes.len() as u64;
        offer_at(&mut bed, fresh, size_bytes);
        bed.bed.gateway.replace_extent(bed.bed.now, 0, fresh, None, false).expect("an extent with nothing current");
        bed.unlink(dead);
        back(&mut bed, other);
        bed.pass(MAY_COME_BACK);
        assert_eq!(accept(&mut bed, &[dead]).map(|loss| loss.chunks), Ok(vec![(0, other as u16)]));
    }
}

#[test]
fn after_a_start_the_best_copy_is_on_the_node_that_lacks_the_least() {
    for (lacks_more, promoted) in [(0, 1), (1, 0)] {
        let bed = FlashBed::new(3, 3, 2, |_| ());
        let mut then = map(&bed).clone();
        let lacks = |nodes: &[usize]| nodes.iter().fold(0, |mask, &node| mask | 1 << copy_on(&bed, 0, node));
        for (chunk, behind) in [(0, lacks(&[0, 1])), (1, 1 << copy_on(&bed, 1, lacks_more))] {
            then.apply(&Record::Marks { first_chunk: chunk, count: 1, marks: Marks { behind, ..Marks::default() } })
                .unwrap();
        }
        let mut bed = FlashBed::without(0..3, 3, 3, 2, |spec| spec.map = then);
        bed.link(1 - lacks_more);
        bed.pass(MAY_COME_BACK * 2);
        // It is linked, and nothing is made equal yet.
        bed.until_connecting(lacks_more);
        bed.link(lacks_more);
        bed.turn();
        let accepted = accept(&mut bed, &[2]).map(|loss| loss.chunks);
        assert_eq!(accepted, Ok(vec![(0, promoted)]), "node {lacks_more} lacks more");
    }
}

#[test]
fn a_doubtful_copy_is_better_than_one_behind() {
    let bed = FlashBed::new(3, 3, 1, |_| ());
    let mut then = map(&bed).clone();
    let (behind, doubtful) = (1 << copy_on(&bed, 0, 0), 1 << copy_on(&bed, 0, 1));
    let marks = Marks { is_open: true, is_torn: false, behind, doubtful };
    then.apply(&Record::Marks { first_chunk: 0, count: 1, marks }).unwrap();
    let mut bed = FlashBed::without(2..3, 3, 3, 1, |spec| spec.map = then);
    bed.pass(MAY_COME_BACK * 2);
    assert_eq!(accept(&mut bed, &[2]).map(|loss| loss.chunks), Ok(vec![(0, 1)]));
    bed.pass(SECOND * 5);
    assert_eq!(bed.bed.gateway.map(0).unwrap().marks(0).doubtful, 0);
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Err(Failure::Io)));
    assert_eq!(call(&mut bed, Op::Flush, 0, 0), Some(Ok(vec![])));
}

/// A node with an empty extent is where the dead one was.
fn offer(bed: &mut FlashBed, size_bytes: u64) {
    offer_at(bed, DEAD, size_bytes);
}

fn offer_at(bed: &mut FlashBed, node: usize, size_bytes: u64) {
    bed.until_connecting(node);
    bed.bed.link(node, &Welcome { extent_id: [0x77; 16], boot_id: [0x77; 16], ..welcome(size_bytes) });
}

fn replace(bed: &mut FlashBed, accepts_loss: bool) -> Result<Replaced, ReplaceError> {
    bed.bed.gateway.replace_extent(bed.bed.now, 0, DEAD, None, accepts_loss)
}

#[test]
fn the_extent_of_a_dead_node_is_replaced_with_the_loss_of_what_it_had_alone() {
    let mut bed = dead();
    let size_bytes = bed.nodes[DEAD].bytes.len() as u64;
    offer(&mut bed, size_bytes);
    let text = replace(&mut bed, false).unwrap_err().to_string();
    assert!(text.contains("only current copy of 2 chunks") && text.contains("--accept-loss"), "{text}");
    assert!(matches!(replace(&mut bed, true), Err(ReplaceError::Loss(AcceptLossError::HeardLately { .. }))));
    bed.pass(MAY_COME_BACK);
    offer(&mut bed, size_bytes - FlashBed::CHUNK_BYTES);
    let before = [marks(&bed, 0), marks(&bed, 1)];
    assert!(replace(&mut bed, true).is_err(), "it is too small");
    assert_eq!([marks(&bed, 0), marks(&bed, 1)], before, "nothing has changed");
    offer(&mut bed, size_bytes);
    let replaced = replace(&mut bed, true).unwrap();
    assert_eq!((replaced.copies, replaced.accepted.chunks), (2, vec![(0, 0), (1, 0)]));
    assert!(replaced.accepted.number < replaced.number);
    bed.pass(SECOND);
    assert_eq!(map(&bed).members()[DEAD].extent_id, [0x77; 16]);
    assert!(matches!(call(&mut bed, Op::Read, 0, 4096), Some(Ok(_))));
}

#[test]
fn an_extent_without_an_only_copy_is_replaced_as_before() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    let size_bytes = bed.nodes[DEAD].bytes.len() as u64;
    bed.unlink(DEAD);
    offer(&mut bed, size_bytes);
    let replaced = replace(&mut bed, true).unwrap();
    assert_eq!(replaced.accepted, AcceptedLoss::default());
    assert_eq!(map(&bed).losses(), 0);
}
