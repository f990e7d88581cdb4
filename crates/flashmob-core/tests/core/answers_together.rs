//! A batch that is to be answered together is: in one frame, or in as few as hold a large one, unless one of its pieces takes much longer than the
//! others.

use std::time::Duration;

use crate::testing::{NodeBed, Reads, bytes_of, node_config};
use flashmob_core::node::NodeConfig;
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::{WirePiece, ask_together, put_groups};
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::replies::RepliesDecoder;

struct Bed(NodeBed);

impl Bed {
    fn new() -> Bed {
        let config = NodeConfig { store_depth: 64, ..node_config(64 << 20) };
        let mut bed = Bed(NodeBed::new(config, Reads::NotTried));
        assert_eq!(bed.frames(), []);
        bed
    }

    /// Four reads of 16 bytes, far from each other.
    fn batch(&mut self, seq: u32, together: bool) {
        self.batch_of(seq, together, 4, 16);
    }

    fn batch_of(&mut self, seq: u32, together: bool, count: u64, len_bytes: u32) {
        let read = |i: u64| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: i * 100_000, len_bytes };
        let pieces: Vec<WirePiece> = (0..count).map(read).collect();
        let put = |meta: &mut Vec<u8>| {
            let at = meta.len();
            put_groups(meta, seq, &pieces, |piece| *piece);
            if together {
                ask_together(&mut meta[at..]);
            }
        };
        self.0.receive(self.0.link, &bytes_of(|out| encode_frame(out, FrameKind::Batch, put, |_| ())));
    }

    /// How many pieces each frame that was made since answers.
    fn frames(&mut self) -> Vec<usize> {
        let mut counts = Vec::new();
        for frame in self.0.sent(self.0.link).iter().filter(|frame| frame.kind == FrameKind::Replies) {
            let mut runs = RepliesDecoder::new(&frame.meta).expect("replies");
            let mut count = 0;
            while let Some(run) = runs.next_run().expect("a run") {
                count += run.indices().count();
            }
            counts.push(count);
        }
        counts
    }
}

#[test]
fn without_the_wish_each_answer_goes_when_it_is_there() {
    let mut bed = Bed::new();
    bed.batch(1, false);
    for _ in 0..4 {
        bed.0.end_one();
        assert_eq!(bed.frames(), [1]);
    }
    assert_eq!(bed.0.node.next_timeout(), None);
}

#[test]
fn with_it_all_go_in_one_frame_with_the_last() {
    let mut bed = Bed::new();
    bed.batch(1, true);
    for _ in 0..3 {
        bed.0.end_one();
        assert_eq!(bed.frames(), []);
    }
    bed.0.end_one();
    assert_eq!(bed.frames(), [4]);
    assert_eq!(bed.0.node.next_timeout(), None);
}

#[test]
fn what_fills_a_dozen_packets_goes_before_the_rest_of_a_small_batch() {
    for (len_bytes, frames) in [(8191, [0, 0, 3, 1]), (8192, [0, 2, 0, 2])] {
        let mut bed = Bed::new();
        bed.batch_of(1, true, 4, len_bytes);
        for expected in frames {
            bed.0.end_one();
            assert_eq!(bed.frames().iter().sum::<usize>(), expected, "{len_bytes}");
        }
    }
}

/// A quarter of what the batch asks for is sent at a time, 16 KiB at least and 64 KiB at most.
#[test]
fn of_a_large_batch_more_is_held_so_that_frames_are_larger() {
    const KIB: u32 = 1024;
    for (count, len_bytes, at_a_time) in [
        (16, 4 * KIB, 4),
        (17, 4 * KIB, 5),
        (32, 4 * KIB, 8),
        (64, 4 * KIB, 16),
        (128, 4 * KIB, 16),
        (512, 512, 128),
        (4, 64 * KIB, 1),
    ] {
        let mut bed = Bed::new();
        bed.batch_of(1, true, count, len_bytes);
        let mut frames = Vec::new();
        for _ in 0..count {
            bed.0.end_one();
            frames.extend(bed.frames());
        }
        let (whole, rest) = (count as usize / at_a_time, count as usize % at_a_time);
        let expected: Vec<usize> = std::iter::repeat_n(at_a_time, whole).chain((rest > 0).then_some(rest)).collect();
        assert_eq!(frames, expected, "{count} reads of {len_bytes} B");
    }
}

#[test]
fn a_straggler_is_not_waited_for_longer_than_a_tenth_of_a_second() {
    let mut bed = Bed::new();
    bed.batch(1, true);
    bed.0.end_one();
    bed.0.now = bed.0.now + Duration::from_millis(60);
    bed.0.end_one();
    let due = bed.0.now + Duration::from_millis(100);
    assert_eq!(bed.0.node.next_timeout(), Some(due), "from the last answer on");
    bed.0.now = Time(due.as_nanos() - 1);
    bed.0.turn();
    assert_eq!(bed.frames(), []);
    bed.0.now = due;
    bed.0.turn();
    assert_eq!(bed.frames(), [2]);
    assert_eq!(bed.0.node.next_timeout(), None);
    bed.0.end_one();
    bed.0.end_one();
    assert_eq!(bed.frames(), [2], "the others together again");
}

#[test]
fn answers_that_follow_each_other_for_long_do_not_keep_the_first_for_ever() {
    // 20 reads of 60 ms each: never a straggler, and yet a second after the first one a gateway shall hear of them.
    let mut bed = Bed::new();
    bed.batch_of(1, true, 20, 16);
    let mut frames = Vec::new();
    for _ in 0..20 {
        bed.0.now = bed.0.now + Duration::from_millis(60);
        bed.0.end_one();
        frames.extend(bed.frames());
    }
    assert_eq!(frames, [18, 2]);
    assert_eq!(bed.0.node.next_timeout(), None);
}

#[test]
fn a_link_that_ends_leaves_nothing_of_what_was_held() {
    for waiting in [0, 2] {
        let mut bed = Bed::new();
        bed.batch(1, true);
        bed.0.end_one();
        bed.0.end_one();
        bed.0.node.link_closed(bed.0.link);
        assert_eq!(bed.0.node.next_timeout(), None);
        for _ in waiting..2 {
            bed.0.end_one();
        }
        while !bed.0.ops.is_empty() {
            bed.0.end_one();
        }
        assert_eq!(bed.0.node.status().memory_bytes.0, 0);
    }
}
