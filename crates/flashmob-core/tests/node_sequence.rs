//! A gateway that numbers its batches wrongly is dropped, before its answers can be confused with each other.

use flashmob_core::node::{Host, LinkId, Node, NodeConfig, NodeEvent, TryRead};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::BATCH_PIECES_MAX;
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::hello::{Hello, RefuseReason};

const EXTENT_BYTES: u64 = 4096;
const NOW: Time = Time(1);

struct NoStore;

impl Host for NoStore {
    fn try_read(&mut self, _: u64, _: &mut [u8]) -> TryRead {
        TryRead::Miss
    }
    fn adopt(&mut self, _: &Hello) -> Result<(), (RefuseReason, String)> {
        Ok(())
    }
    fn has_fast_reads(&self) -> bool {
        false
    }
    fn now(&mut self) -> Time {
        NOW
    }
}

/// A node with a link that is welcome.
fn linked() -> (Node, LinkId) {
    let mut node = Node::new(NodeConfig {
        extent_id: [1; 16],
        boot_id: [2; 16],
        size_bytes: EXTENT_BYTES,
        no_io: false,
        modelled: false,
        memory_bytes: 16 << 20,
        links_max: 2,
        align_bytes: 1,
        store_depth: 8,
    });
    let link = node.link_opened();
    let mut hello = Vec::new();
    Hello {
        gateway_id: [3; 16],
        session: 1,
        link: 0,
        keeps_alive: true,
        attempt: 1,
        volume_id: "v".to_string(),
        extent: 0,
        extents: 1,
        layout: "linear".to_string(),
        size_bytes: 0,
    }
    .encode(&mut hello);
    receive(&mut node, link, &hello);
    (node, link)
}

fn receive(node: &mut Node, link: LinkId, bytes: &[u8]) {
    node.rx(link).expect("a link").extend(bytes);
    node.process(NOW, link, &mut NoStore);
}

/// A batch of pieces that the node answers at once: they lie beyond its extent.
fn batch(seq: u32, pieces: usize) -> Vec<u8> {
    let piece = WirePiece { op: Op::Trim, flags: OpFlags::NONE, offset_bytes: EXTENT_BYTES, len_bytes: 1 };
    let mut bytes = Vec::new();
    encode_batch(&mut bytes, seq, &vec![piece; pieces], |_| ());
    bytes
}

/// Why the node closes the link, if it does.
fn closed(node: &mut Node) -> Option<String> {
    std::iter::from_fn(|| node.poll_event()).find_map(|event| match event {
        NodeEvent::Close { reason, .. } => Some(reason),
        NodeEvent::Linked { .. } => None,
    })
}

#[test]
fn numbers_go_up_by_one_from_anywhere_and_wrap() {
    for first in [0, 1, 7, u32::MAX - 1] {
        let (mut node, link) = linked();
        (0..4).for_each(|n| receive(&mut node, link, &batch(first.wrapping_add(n), 1)));
        assert_eq!(closed(&mut node), None, "from {first}");
    }
}

#[test]
fn a_number_that_does_not_follow_ends_the_link() {
    for second in [5, 4, 7, 0] {
        let (mut node, link) = linked();
        receive(&mut node, link, &batch(5, 1));
        receive(&mut node, link, &batch(second, 1));
        let reason = closed(&mut node).expect("a closed link");
        assert!(reason.contains("sequence number"), "{reason}");
    }
}

#[test]
fn full_batches_of_one_number_do_not_keep_the_node_busy_for_ever() {
    let (mut node, link) = linked();
    receive(&mut node, link, &[batch(9, BATCH_PIECES_MAX), batch(9, BATCH_PIECES_MAX)].concat());
    node.turn(NOW, &mut NoStore);
    node.link_closed(link);
    assert_eq!(node.status().memory_bytes.0, 0);
}
