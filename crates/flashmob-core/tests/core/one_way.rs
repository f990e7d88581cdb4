//! Where frames are dear all links of a node count as one; but a link that says nothing holds up nobody for long.

use std::time::Duration;

use crate::testing::{Frame, GatewayBed, frames, gateway_config, volume, welcome};
use flashmob_core::gateway::{ClientId, LinkId, VolumeSpec};
use flashmob_core::op::Op;
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::frame::FrameKind;

const SIZE_BYTES: u64 = 1 << 30;
/// There and back: longer than where frames are cheap.
const WAY: Duration = Duration::from_millis(2);

struct Bed {
    bed: GatewayBed,
    client: ClientId,
    reads: u64,
}

impl Bed {
    fn new(links: u16) -> Bed {
        Bed::with(VolumeSpec { links, timeout: Duration::from_secs(30), ..volume(&[SIZE_BYTES]) })
    }

    fn with(spec: VolumeSpec) -> Bed {
        let links = spec.links;
        let mut bed = GatewayBed::new(gateway_config(spec));
        (0..usize::from(links)).for_each(|link| bed.link(link, &welcome(SIZE_BYTES)));
        let client = bed.gateway.native_opened(0).unwrap();
        let mut bed = Bed { bed, client, reads: 0 };
        // The first answer tells how long the way is.
        bed.read();
        bed.answer(0);
        assert_eq!(bed.bed.ended(), 1);
        bed
    }

    fn read(&mut self) {
        self.reads += 1;
        self.bed.submit(self.client, Op::Read, self.reads * 4096, 1);
        self.bed.turn();
    }

    /// So many requests of this size arrive at once. The link takes what it may, and loses it: how many pieces are in each batch.
    fn batches_of(&mut self, op: Op, count: u64, len_bytes: u32) -> Vec<usize> {
        for at in 0..count {
            self.bed.submit(self.client, op, at << 20, len_bytes);
        }
        self.bed.turn();
        let sent = frames(&self.bed.gateway.link_out(LinkId(0)).take_all());
        let pieces = |frame: Frame| {
            let mut pieces = Vec::new();
            decode_batch(&frame.meta, frame.payload.len(), &mut pieces).unwrap();
            pieces.len()
        };
        sent.into_iter().filter(|frame| frame.kind == FrameKind::Batch).map(pieces).collect()
    }

    fn has_out(&self, link: usize) -> bool {
        self.bed.gateway.link_has_out(LinkId(link))
    }

    /// Answers all batches on a link, as far away as it is.
    fn answer(&mut self, link: usize) {
        self.bed.pass(WAY);
        self.bed.answer(link);
        self.bed.turn();
    }
}

#[test]
fn the_first_link_carries_everything_within_one_window() {
    let mut bed = Bed::new(3);
    for _ in 0..4 {
        (0..5).for_each(|_| bed.read());
        assert!(bed.has_out(0) && !bed.has_out(1) && !bed.has_out(2));
        for _ in 0..3 {
            bed.answer(0);
        }
        assert_eq!(bed.bed.ended(), 5);
    }
}

#[test]
fn behind_a_link_that_says_nothing_others_go_on_after_two_seconds() {
    let mut bed = Bed::new(2);
    (0..5).for_each(|_| bed.read());
    bed.bed.pass(Duration::from_millis(1_999));
    assert!(bed.has_out(0) && !bed.has_out(1), "the window is full");
    bed.bed.pass(Duration::from_millis(1));
    assert!(bed.has_out(1), "what waits goes another way");
    bed.answer(1);
    assert_eq!(bed.bed.ended(), 3);
    // More goes there too, for as long as it lasts.
    bed.read();
    bed.answer(1);
    assert_eq!(bed.bed.ended(), 1);
    // It is heard again: what it had out is answered, once, and it is the first again.
    bed.answer(0);
    assert_eq!(bed.bed.ended(), 2);
    bed.read();
    assert!(bed.has_out(0) && !bed.has_out(1));
    bed.answer(0);
    assert_eq!(bed.bed.ended(), 1);
}

#[test]
fn where_no_link_is_heard_the_first_is_as_good_as_any_and_nothing_spins() {
    for links in [1, 2] {
        let mut bed = Bed::new(links);
        (0..9).for_each(|_| bed.read());
        bed.bed.pass(Duration::from_secs(10));
        for _ in 0..5 {
            (0..links).for_each(|link| bed.answer(usize::from(link)));
        }
        assert_eq!(bed.bed.ended(), 9);
    }
}

#[test]
fn writes_go_in_halves_so_that_the_node_and_the_way_to_it_work_at_the_same_time() {
    let batches = |op, count, len_bytes| Bed::new(1).batches_of(op, count, len_bytes);
    for (count, len_bytes, halves) in [(64, 4096, [32, 32]), (65, 4096, [32, 33]), (9, 65_536, [4, 5])] {
        assert_eq!(batches(Op::Write, count, len_bytes), halves, "{count} writes of {len_bytes} B");
    }
    // 32 KiB are worth a second frame, and no less; reads are answered by parts as it is.
    assert_eq!(batches(Op::Write, 16, 2048), [8, 8]);
    assert_eq!(batches(Op::Write, 16, 2047), [16]);
    assert_eq!(batches(Op::Read, 64, 4096), [64]);
    // A client with few requests gets each answer at once.
    assert_eq!(batches(Op::Write, 8, 4096), [8]);
    // With one batch at a time nothing is gained.
    let spec = VolumeSpec { outstanding_batches: 1, ..volume(&[SIZE_BYTES]) };
    assert_eq!(Bed::with(spec).batches_of(Op::Write, 64, 4096), [64]);
}
