//! A gateway that numbers its batches wrongly is dropped, before its answers can be confused with each other.

use crate::testing::{NodeBed, Reads, bytes_of, node_config};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::BATCH_PIECES_MAX;
use flashmob_core::wire::batch::{WirePiece, encode_batch};

const EXTENT_BYTES: u64 = 4096;

/// A node with a link that is welcome.
fn bed() -> NodeBed {
    NodeBed::new(node_config(EXTENT_BYTES), Reads::NotTried)
}

fn receive(bed: &mut NodeBed, bytes: &[u8]) {
    bed.decode(bed.link, bytes);
}

/// A batch of pieces that the node answers at once: they lie beyond its extent.
fn batch(seq: u32, pieces: usize) -> Vec<u8> {
    let piece = WirePiece { op: Op::Trim, flags: OpFlags::NONE, offset_bytes: EXTENT_BYTES, len_bytes: 1 };
    bytes_of(|out| encode_batch(out, seq, &vec![piece; pieces], |_| ()))
}

#[test]
fn numbers_go_up_by_one_from_anywhere_and_wrap() {
    for first in [0, 1, 7, u32::MAX - 1] {
        let mut bed = bed();
        (0..4).for_each(|n| receive(&mut bed, &batch(first.wrapping_add(n), 1)));
        assert_eq!(bed.closed(), None, "from {first}");
    }
}

#[test]
fn a_number_that_does_not_follow_ends_the_link() {
    for second in [5, 4, 7, 0] {
        let mut bed = bed();
        receive(&mut bed, &batch(5, 1));
        receive(&mut bed, &batch(second, 1));
        let reason = bed.closed().expect("a closed link");
        assert!(reason.contains("sequence number"), "{reason}");
    }
}

#[test]
fn full_batches_of_one_number_do_not_keep_the_node_busy_for_ever() {
    let mut bed = bed();
    receive(&mut bed, &[batch(9, BATCH_PIECES_MAX), batch(9, BATCH_PIECES_MAX)].concat());
    bed.turn();
    bed.node.link_closed(bed.link);
    assert_eq!(bed.node.status().memory_bytes.0, 0);
}
