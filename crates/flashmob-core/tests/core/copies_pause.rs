//! Volumes with copies: nodes that are paused.

use std::time::Duration;

use crate::testing::{CopiesBed, welcome as welcome_of};
use flashmob_core::copies::Marks;
use flashmob_core::gateway::{Action, Event, LinkId, PauseError};
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::hello::Welcome;

const SECOND: Duration = Duration::from_secs(1);

fn bed() -> CopiesBed {
    begun(CopiesBed::with(4, Marks::default(), |_| ()))
}

/// What the welcomes led to is durable.
fn begun(mut copies: CopiesBed) -> CopiesBed {
    copies.pass(Duration::ZERO);
    copies.pass(Duration::ZERO);
    copies
}

fn pause(copies: &mut CopiesBed, node: usize, is_paused: bool) -> Result<(), PauseError> {
    let done = copies.bed.gateway.pause_node(copies.bed.now, 0, node, is_paused);
    // Its links were broken, and come back.
    copies.pass(Duration::ZERO);
    done
}

/// The second node's link was broken, and is back.
fn linked_again(mut copies: CopiesBed) -> CopiesBed {
    copies.pass(SECOND * 5);
    let size_bytes = 4 * CopiesBed::CHUNK_BYTES;
    // As one that remembers its gateway: it is no backup.
    let remembered = Some((1 << 40, 0));
    copies.bed.link(1, &Welcome { extent_id: [2; 16], boot_id: [2; 16], remembered, ..welcome_of(size_bytes) });
    begun(copies)
}

/// The client's calls that ended within a second, in which these nodes answer.
fn ended(copies: &mut CopiesBed, answering: &[usize]) -> usize {
    for _ in 0..5 {
        copies.pass(CopiesBed::STEP);
        answering.iter().for_each(|&link| {
            copies.bed.answer(link);
        });
    }
    copies.pass(Duration::ZERO);
    copies.bed.ended()
}

#[test]
fn nothing_waits_for_a_paused_node() {
    let mut copies = bed();
    assert_eq!(pause(&mut copies, 1, true), Ok(()));
    assert!(copies.bed.gateway.is_paused(1) && !copies.bed.gateway.is_paused(0));
    for chunk in 0..4 {
        copies.bed.submit(copies.client, Op::Write, chunk * CopiesBed::CHUNK_BYTES, 512);
        copies.bed.submit(copies.client, Op::Read, chunk * CopiesBed::CHUNK_BYTES + 4096, 512);
    }
    assert_eq!(ended(&mut copies, &[0]), 8, "the other node has answered all of them");
    assert_eq!(copies.marks().behind, 1 << copies.copy_of(1), "what has changed is behind there");
    let members = copies.bed.gateway.members_status(copies.bed.now, 0).unwrap();
    assert!(members[1].is_paused && members[1].behind == 4 && !members[0].is_paused);
    assert_eq!(copies.bed.gateway.copies_status(copies.bed.now, 0).unwrap().counters.evictions, 0);
}

#[test]
fn it_is_paused_although_its_link_comes_and_goes_until_it_is_used_again() {
    let mut copies = bed();
    pause(&mut copies, 1, true).unwrap();
    let mut copies = linked_again(copies);
    copies.bed.submit(copies.client, Op::Write, 0, 512);
    assert_eq!(ended(&mut copies, &[0]), 1);
    assert_eq!(copies.marks().behind, 1 << copies.copy_of(1), "it is linked, and not used");
    pause(&mut copies, 1, false).unwrap();
    assert!(!copies.bed.gateway.is_paused(1));
    for _ in 0..50 {
        ended(&mut copies, &[0, 1]);
    }
    assert_eq!(copies.marks().behind, 0, "it is made equal");
}

#[test]
fn a_node_that_others_cannot_answer_for_is_not_paused() {
    let mut copies = begun(CopiesBed::with(4, Marks { behind: 1, ..Marks::default() }, |_| ()));
    // The first copies are behind: of the chunks whose first copy is on the first node, the second has the only one.
    let refused = pause(&mut copies, 1, true);
    assert!(matches!(refused, Err(PauseError::Needed { chunks: 1.., .. })), "{refused:?}");
    assert!(!copies.bed.gateway.is_paused(1));
    let mut copies = bed();
    pause(&mut copies, 0, true).unwrap();
    assert_eq!(pause(&mut copies, 1, true), Err(PauseError::Needed { chunks: 4, first: 0 }));
    assert_eq!(pause(&mut copies, 0, true), Ok(()), "it is paused already");
    assert_eq!(pause(&mut copies, 2, true), Err(PauseError::NoNode { number: 2, count: 2 }));
    // With two copies that every change needs.
    let mut copies = begun(CopiesBed::with(4, Marks::default(), |spec| spec.min_current = 2));
    assert_eq!(pause(&mut copies, 1, true), Err(PauseError::Needed { chunks: 4, first: 0 }));
}

#[test]
fn a_paused_node_is_used_again_once_the_other_fails() {
    let mut copies = bed();
    pause(&mut copies, 1, true).unwrap();
    let mut copies = linked_again(copies);
    copies.bed.submit(copies.client, Op::Read, 4096, 512);
    copies.bed.gateway.link_closed(copies.bed.now, LinkId(0), "gone");
    let mut told = Vec::new();
    for _ in 0..10 {
        copies.bed.pass(CopiesBed::STEP);
        for action in copies.bed.actions() {
            if let Action::Tell(Event::NodeWarning(_, text)) = action {
                told.push(text);
            }
        }
        copies.bed.answer(1);
    }
    assert!(copies.bed.gateway.is_paused(1), "and is still to be paused");
    assert!(told.iter().any(|text| text.contains("used all the same")), "{told:?}");
    assert_eq!(copies.bed.ended(), 1, "the read was answered by it");
}

#[test]
fn a_node_is_not_paused_on_the_word_of_a_connection() {
    let mut copies = bed();
    copies.pass(SECOND * 2);
    assert!(matches!(pause(&mut copies, 1, true), Err(PauseError::NotHeard(_))), "the other may be dead");
    assert!(!copies.bed.gateway.is_paused(1));
    copies.bed.submit(copies.client, Op::Write, 0, 512);
    assert_eq!(ended(&mut copies, &[0, 1]), 1);
    assert_eq!(pause(&mut copies, 1, true), Ok(()), "it has answered");
    assert_eq!(copies.marks().behind, 1 << copies.copy_of(1), "what may not be permanent there is not counted on");
}

#[test]
fn a_paused_node_is_used_all_the_same_when_another_fails_and_paused_again_later() {
    let mut copies = linked_again_paused();
    let is_behind = |copies: &CopiesBed| copies.marks().behind & (1 << copies.copy_of(1)) != 0;
    copies.bed.submit(copies.client, Op::Read, 4096, 512);
    copies.pass(CopiesBed::STEP);
    copies.bed.answer_with(0, |_| Err(Failure::Io));
    assert_eq!(ended(&mut copies, &[1]), 1, "the paused node has answered");
    // It is needed no longer.
    for _ in 0..29 {
        copies.bed.submit(copies.client, Op::Write, 0, 512);
        assert_eq!(ended(&mut copies, &[0, 1]), 1);
    }
    assert!(!is_behind(&copies), "changes went to both");
    // It is looked at every ten seconds.
    for _ in 0..12 {
        copies.bed.submit(copies.client, Op::Write, 0, 512);
        ended(&mut copies, &[0, 1]);
    }
    assert!(is_behind(&copies) && copies.bed.gateway.is_paused(1), "it is set aside again");
}

/// The second node is paused, and linked.
fn linked_again_paused() -> CopiesBed {
    let mut copies = bed();
    pause(&mut copies, 1, true).unwrap();
    linked_again(copies)
}
