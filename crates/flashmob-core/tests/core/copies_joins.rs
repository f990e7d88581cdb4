//! Volumes with copies: nodes that are added while they are used, and nodes that are removed.

use std::time::Duration;

use crate::testing::{BLOCK, Flash, FlashBed, welcome};
use flashmob_core::copies::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, MapImage};
use flashmob_core::gateway::{Action, Added, JoinError, LinkId, MemberStatus, MoveError, NewNode, RemoveError};
use flashmob_core::wire::hello::Welcome;

const SECOND: Duration = Duration::from_secs(1);
const CHUNK_BYTES: u64 = FlashBed::CHUNK_BYTES;

/// Two nodes that are full with three chunks of two copies.
fn bed() -> FlashBed {
    let mut bed = FlashBed::new(2, 2, 3, |_| {});
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    bed
}

fn new_node(address: &str) -> NewNode {
    NewNode { address: address.to_string(), size_bytes: None, domain: address.to_string(), overwrites: false }
}

fn add(bed: &mut FlashBed, new: &NewNode) -> Result<Added, JoinError> {
    bed.bed.gateway.add_node(bed.bed.now, 0, new)
}

/// A node with room for so many chunks, which hold these bytes, is added.
fn add_flash(bed: &mut FlashBed, new: &NewNode, bytes: Vec<u8>) -> usize {
    let added = add(bed, new).unwrap();
    assert_eq!((added.number, added.node, added.is_new), (bed.nodes.len(), bed.nodes.len(), true));
    bed.nodes.push(Flash { bytes, ..bed.nodes[0].clone() });
    added.number
}

fn map(bed: &FlashBed) -> &MapImage {
    bed.bed.gateway.map(0).expect("a map")
}

fn member(bed: &FlashBed, number: usize) -> MemberStatus {
    bed.bed.gateway.members_status(bed.bed.now, 0).expect("a volume with copies").swap_remove(number)
}

fn zeros(chunks: u64) -> Vec<u8> {
    vec![0; (chunks * CHUNK_BYTES) as usize]
}

/// All copies are equal.
fn check_copies(bed: &FlashBed) {
    for (chunk, block) in (0..map(bed).chunks()).flat_map(|chunk| (0..16).map(move |block| (chunk, block))) {
        assert_eq!(bed.block(chunk, 0, block), bed.block(chunk, 1, block), "{chunk}, {block}");
    }
}

#[test]
fn an_empty_node_gets_its_share() {
    let mut bed = bed();
    let number = add_flash(&mut bed, &new_node("c:1"), zeros(3));
    assert_eq!(["0", "1", "2"].map(|n| map(&bed).address(n.parse().unwrap()).is_some()), [true; 3], "all are named");
    bed.pass(SECOND);
    assert!(map(&bed).is_joining(2) && member(&bed, number).is_joining, "it was not linked");
    bed.link(number);
    bed.pass(SECOND * 30);
    let status = member(&bed, number);
    assert!(!status.is_joining && !status.holds_data && status.extent_id.is_some());
    assert_eq!((0..3).map(|n| map(&bed).copies_on(n)).collect::<Vec<_>>(), [2, 2, 2]);
    check_copies(&bed);
    assert!(!map(&bed).is_balancing(), "it is done");
}

#[test]
fn data_of_somebody_else_is_not_touched_unless_that_is_wanted() {
    let mut bed = bed();
    let mut bytes = zeros(3);
    bytes[2 * CHUNK_BYTES as usize + 5 * BLOCK as usize] = 7;
    let number = add_flash(&mut bed, &new_node("c:1"), bytes.clone());
    bed.link(number);
    bed.pass(SECOND * 30);
    let status = member(&bed, number);
    assert!(status.is_joining && status.holds_data);
    assert_eq!((&bed.nodes[number].bytes, map(&bed).copies_on(2)), (&bytes, 0));
    let known = add(&mut bed, &new_node("c:1")).unwrap_err();
    assert!(matches!(known, JoinError::Known { number: 2, .. }), "{known}");
    let again = add(&mut bed, &NewNode { overwrites: true, ..new_node("c:1") }).unwrap();
    assert_eq!((again.number, again.is_new), (2, false));
    bed.pass(SECOND * 30);
    assert!(!member(&bed, number).is_joining);
    assert_eq!((0..3).map(|n| map(&bed).copies_on(n)).collect::<Vec<_>>(), [2, 2, 2]);
    check_copies(&bed);
    assert!(bed.nodes[number].bytes[2 * CHUNK_BYTES as usize..].iter().all(|&byte| byte == 0), "it was given back");
}

#[test]
fn data_of_somebody_else_is_not_touched_though_the_extent_grows() {
    let mut bed = bed();
    let mut bytes = zeros(3);
    bytes[5 * BLOCK as usize] = 7;
    let number = add_flash(&mut bed, &new_node("c:1"), bytes.clone());
    bed.link(number);
    bed.pass(SECOND * 30);
    assert!(member(&bed, number).holds_data);
    bed.unlink(number);
    bed.until_connecting(number);
    bytes.extend(zeros(2));
    bed.nodes[number].bytes.clone_from(&bytes);
    bed.link(number);
    bed.pass(SECOND * 30);
    let status = member(&bed, number);
    assert_eq!((status.is_joining, status.holds_data, map(&bed).copies_on(2)), (true, true, 0));
    assert!(bed.nodes[number].bytes == bytes);
}

#[test]
fn a_node_that_cannot_tell_holes_has_to_be_overwritten() {
    let mut bed = bed();
    let number = add_flash(&mut bed, &new_node("c:1"), zeros(3));
    bed.nodes[number].tells_holes = false;
    bed.link(number);
    bed.pass(SECOND * 5);
    assert!(member(&bed, number).holds_data && map(&bed).is_joining(2));
}

#[test]
fn nodes_that_cannot_be_are_refused() {
    let mut bed = bed();
    for (len, most, is_address) in [(0, ADDRESS_BYTES_MAX, true), (0, DOMAIN_BYTES_MAX, false)]
        .into_iter()
        .chain([(ADDRESS_BYTES_MAX + 1, ADDRESS_BYTES_MAX, true), (DOMAIN_BYTES_MAX + 1, DOMAIN_BYTES_MAX, false)])
    {
        let mut new = new_node("c:1");
        *(if is_address { &mut new.address } else { &mut new.domain }) = "x".repeat(len);
        let error = add(&mut bed, &new).unwrap_err();
        assert!(matches!(error, JoinError::Length { most: m, .. } if m == most), "{error}");
    }
    let name = bed.bed.gateway.status().volumes[0].nodes[1].name.clone();
    let known = add(&mut bed, &new_node(&name)).unwrap_err();
    assert!(matches!(known, JoinError::Known { number: 1, .. }), "{known}");
    let remove = |bed: &mut FlashBed, number| bed.bed.gateway.remove_node(bed.bed.now, 0, number);
    assert_eq!(remove(&mut bed, 1), Err(RemoveError::InUse { number: 1, copies: 3 }));
    let unknown = Err(RemoveError::Undecided(MoveError::NoNode { number: 2, count: 2 }));
    assert_eq!(remove(&mut bed, 2), unknown);
    assert_eq!(map(&bed).members().len(), 2);

    // The extent of another node, at another address.
    add_flash(&mut bed, &NewNode { overwrites: true, ..new_node("c:1") }, zeros(3));
    bed.nodes.truncate(2);
    let (extent_id, size_bytes) = (map(&bed).members()[1].extent_id, 3 * CHUNK_BYTES);
    bed.bed.link(2, &Welcome { extent_id, remembered: None, ..welcome(size_bytes) });
    let refusal = bed.bed.gateway.status().volumes[0].nodes[2].refusal.clone().unwrap_or_default();
    assert!(refusal.contains("another node of this gateway"), "{refusal}");
}

#[test]
fn a_removed_node_is_not_linked_again_and_its_address_may_be() {
    let mut bed = bed();
    let number = add_flash(&mut bed, &new_node("c:1"), zeros(3));
    bed.link(number);
    bed.pass(SECOND * 30);
    bed.bed.gateway.drain_node(bed.bed.now, 0, number, true, false).unwrap();
    let early = bed.bed.gateway.remove_node(bed.bed.now, 0, number);
    assert_eq!(early, Err(RemoveError::InUse { number, copies: 2 }));
    bed.pass(SECOND * 30);
    assert!(member(&bed, number).is_drained);
    let record = bed.bed.gateway.remove_node(bed.bed.now, 0, number).unwrap();
    bed.pass(SECOND * 30);
    assert!(bed.bed.gateway.is_recorded(0, record) && member(&bed, number).is_gone);
    let connects = |action: &Action| matches!(action, Action::Connect { link: LinkId(2), .. });
    assert!(!std::iter::from_fn(|| bed.bed.gateway.poll_action()).any(|action| connects(&action)));
    let twice = bed.bed.gateway.remove_node(bed.bed.now, 0, number);
    assert!(matches!(twice, Err(RemoveError::Undecided(MoveError::NoNode { .. }))), "{twice:?}");
    let drained = bed.bed.gateway.drain_node(bed.bed.now, 0, number, true, false);
    assert!(matches!(drained, Err(MoveError::NoNode { .. })), "{drained:?}");
    assert_eq!(add(&mut bed, &new_node("c:1")).unwrap().number, 3, "with another number");
}
