//! A batch that is to be answered together is: in one frame, unless one of its pieces takes much longer than the others.

use std::time::Duration;

use flashmob_core::node::{Host, LinkId, Node, NodeConfig, StoreDone, TryRead};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::{WirePiece, ask_together, put_groups};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::hello::{Hello, RefuseReason};
use flashmob_core::wire::replies::RepliesDecoder;

const BEGIN: Time = Time(1_000_000_000);

struct SlowStore(Time);

impl Host for SlowStore {
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
        self.0
    }
}

struct Bed {
    node: Node,
    link: LinkId,
    now: Time,
    ops: Vec<flashmob_core::node::StoreOp>,
}

impl Bed {
    fn new() -> Bed {
        let mut node = Node::new(NodeConfig {
            extent_id: [1; 16],
            boot_id: [2; 16],
            size_bytes: 1 << 20,
            no_io: false,
            modelled: false,
            memory_bytes: 16 << 20,
            links_max: 2,
            align_bytes: 1,
            store_depth: 64,
        });
        let link = node.link_opened();
        let mut bed = Bed { node, link, now: BEGIN, ops: Vec::new() };
        let hello = Hello {
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
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        bed.receive(&bytes);
        bed.frames();
        bed
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.node.rx(self.link).expect("a link").extend(bytes);
        self.node.process(self.now, self.link, &mut SlowStore(self.now));
        self.turn();
    }

    fn turn(&mut self) {
        self.node.turn(self.now, &mut SlowStore(self.now));
        self.ops.append(self.node.store_ops());
    }

    /// Four reads of 16 bytes, far from each other.
    fn batch(&mut self, seq: u32, together: bool) {
        self.batch_of(seq, together, 4, 16);
    }

    fn batch_of(&mut self, seq: u32, together: bool, count: u64, len_bytes: u32) {
        let read = |i: u64| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: i * 50_000, len_bytes };
        let pieces: Vec<WirePiece> = (0..count).map(read).collect();
        let mut bytes = Vec::new();
        let put = |meta: &mut Vec<u8>| {
            let at = meta.len();
            put_groups(meta, seq, &pieces, |piece| *piece);
            if together {
                ask_together(&mut meta[at..]);
            }
        };
        encode_frame(&mut bytes, FrameKind::Batch, put, |_| ());
        self.receive(&bytes);
    }

    /// The store ends the operation that it was given first.
    fn end_one(&mut self) {
        let op = self.ops.remove(0);
        let done = StoreDone { id: op.id, result: Ok(()), data: op.data, started: self.now, finished: self.now };
        self.node.store_done(done);
        self.turn();
    }

    /// How many pieces each frame that was made since answers.
    fn frames(&mut self) -> Vec<usize> {
        let bytes = self.node.out(self.link).expect("a link").take_all();
        self.node.wrote(self.link, 0);
        let (mut rest, mut counts) = (&bytes[..], Vec::new());
        while let Ok(Decoded::Frame(frame, taken)) = decode_frame(rest) {
            if frame.kind == FrameKind::Replies {
                let mut runs = RepliesDecoder::new(frame.meta).expect("replies");
                let mut count = 0;
                while let Some(run) = runs.next_run().expect("a run") {
                    count += run.indices().count();
                }
                counts.push(count);
            }
            rest = &rest[taken..];
        }
        counts
    }
}

#[test]
fn without_the_wish_each_answer_goes_when_it_is_there() {
    let mut bed = Bed::new();
    bed.batch(1, false);
    for _ in 0..4 {
        bed.end_one();
        assert_eq!(bed.frames(), [1]);
    }
    assert_eq!(bed.node.next_timeout(), None);
}

#[test]
fn with_it_all_go_in_one_frame_with_the_last() {
    let mut bed = Bed::new();
    bed.batch(1, true);
    for _ in 0..3 {
        bed.end_one();
        assert_eq!(bed.frames(), []);
    }
    bed.end_one();
    assert_eq!(bed.frames(), [4]);
    assert_eq!(bed.node.next_timeout(), None);
}

#[test]
fn what_fills_a_dozen_packets_goes_before_the_rest() {
    for (len_bytes, frames) in [(8191, [0, 0, 3, 1]), (8192, [0, 2, 0, 2])] {
        let mut bed = Bed::new();
        bed.batch_of(1, true, 4, len_bytes);
        for expected in frames {
            bed.end_one();
            assert_eq!(bed.frames().iter().sum::<usize>(), expected, "{len_bytes}");
        }
    }
}

#[test]
fn a_straggler_is_not_waited_for_longer_than_a_tenth_of_a_second() {
    let mut bed = Bed::new();
    bed.batch(1, true);
    bed.end_one();
    bed.now = bed.now + Duration::from_millis(60);
    bed.end_one();
    let due = bed.now + Duration::from_millis(100);
    assert_eq!(bed.node.next_timeout(), Some(due), "from the last answer on");
    bed.now = Time(due.as_nanos() - 1);
    bed.turn();
    assert_eq!(bed.frames(), []);
    bed.now = due;
    bed.turn();
    assert_eq!(bed.frames(), [2]);
    assert_eq!(bed.node.next_timeout(), None);
    bed.end_one();
    bed.end_one();
    assert_eq!(bed.frames(), [2], "the others together again");
}

#[test]
fn answers_that_follow_each_other_for_long_do_not_keep_the_first_for_ever() {
    // 20 reads of 60 ms each: never a straggler, and yet a second after the first one a gateway shall hear of them.
    let mut bed = Bed::new();
    bed.batch_of(1, true, 20, 16);
    let mut frames = Vec::new();
    for _ in 0..20 {
        bed.now = bed.now + Duration::from_millis(60);
        bed.end_one();
        frames.extend(bed.frames());
    }
    assert_eq!(frames, [18, 2]);
    assert_eq!(bed.node.next_timeout(), None);
}

#[test]
fn a_link_that_ends_leaves_nothing_of_what_was_held() {
    for waiting in [0, 2] {
        let mut bed = Bed::new();
        bed.batch(1, true);
        bed.end_one();
        bed.end_one();
        bed.node.link_closed(bed.link);
        assert_eq!(bed.node.next_timeout(), None);
        for _ in waiting..2 {
            bed.end_one();
        }
        while !bed.ops.is_empty() {
            bed.end_one();
        }
        assert_eq!(bed.node.status().memory_bytes.0, 0);
    }
}
