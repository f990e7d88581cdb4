//! Writes at the front of a batch that the host takes without waiting are answered in one frame, and go past the store; while anything else is
//! in hand none is.

use crate::testing::{Frame, NodeBed, Reads, bytes_of, hello, node_config};
use flashmob_core::node::NodeConfig;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::MIB;
use flashmob_core::wire::batch::{WirePiece, ask_together, put_groups};
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::hello::Hello;
use flashmob_core::wire::replies::RepliesDecoder;
use flashmob_core::wire::trace::{TimesDecoder, Way, mark};

const BLOCK: u32 = 4096;

struct Bed(NodeBed);

impl Bed {
    /// A node whose host takes so many writes.
    fn new(takes_writes: usize) -> Bed {
        let config = NodeConfig { store_depth: 64, ..node_config(MIB) };
        let mut bed = NodeBed::new(config, Reads::NotTried);
        bed.sent(bed.link);
        bed.takes_writes = takes_writes;
        Bed(bed)
    }

    /// A batch comes.
    fn receive(&mut self, seq: u32, pieces: &[WirePiece], followed: &[u16]) {
        let batch = self.batch(seq, pieces, followed);
        self.0.receive(self.0.link, &batch);
    }

    /// A batch whose writes carry the number of their piece.
    fn batch(&self, seq: u32, pieces: &[WirePiece], followed: &[u16]) -> Vec<u8> {
        let put = |meta: &mut Vec<u8>| {
            let mut own = Vec::new();
            put_groups(&mut own, seq, pieces, |piece| *piece);
            if !followed.is_empty() {
                mark(&mut own, followed);
            }
            meta.append(&mut own);
        };
        let put_payload = |payload: &mut Vec<u8>| {
            for (number, piece) in (0..).zip(pieces).filter(|(_, piece)| piece.op == Op::Write) {
                payload.resize(payload.len() + piece.len_bytes as usize, number);
            }
        };
        bytes_of(|out| encode_frame(out, FrameKind::Batch, put, put_payload))
    }

    fn sent(&mut self) -> Vec<Frame> {
        self.0.sent(self.0.link)
    }

    /// The pieces that each frame since answers, with success or a failure.
    fn answers(&mut self) -> Vec<(Vec<u16>, Result<(), Failure>)> {
        self.sent().iter().filter(|frame| frame.kind == FrameKind::Replies).flat_map(runs_of).collect()
    }

    /// Places and first bytes of the operations in the store.
    fn in_store(&self) -> Vec<(Op, u64, Option<u8>)> {
        self.0.ops.iter().map(|op| (op.op, op.offset_bytes, op.data.first().copied())).collect()
    }

    /// Places and first bytes of what the host took.
    fn written(&self) -> Vec<(u64, u8)> {
        self.0.written.iter().map(|(at, bytes)| (*at, bytes[0])).collect()
    }
}

fn runs_of(frame: &Frame) -> Vec<(Vec<u16>, Result<(), Failure>)> {
    let mut decoder = RepliesDecoder::new(&frame.meta).expect("replies");
    let mut runs = Vec::new();
    while let Some(run) = decoder.next_run().expect("a run") {
        runs.push((run.indices().collect(), run.outcome));
    }
    runs
}

/// The followed pieces that a frame tells of, and how they were served.
fn told_by(frame: &Frame) -> Vec<(u16, Way)> {
    let mut decoder = TimesDecoder::new(&frame.meta).expect("times");
    std::iter::from_fn(|| decoder.next_piece().expect("a piece")).map(|times| (times.index, times.way)).collect()
}

fn piece(op: Op, flags: OpFlags, offset_bytes: u64) -> WirePiece {
    WirePiece { op, flags, offset_bytes, len_bytes: if op == Op::Flush { 0 } else { BLOCK } }
}

/// Writes far from each other, with the number of each in its bytes.
fn writes(count: u64) -> Vec<WirePiece> {
    (0..count).map(|i| piece(Op::Write, OpFlags::NONE, i * 65_536)).collect()
}

#[test]
fn a_batch_of_writes_is_answered_at_once_in_one_frame() {
    let mut bed = Bed::new(usize::MAX);
    bed.receive(1, &writes(4), &[]);
    assert_eq!(bed.written(), [(0, 0), (65_536, 1), (131_072, 2), (196_608, 3)]);
    assert_eq!(bed.answers(), [(vec![0, 1, 2, 3], Ok(()))]);
    assert_eq!(bed.in_store(), []);
    let status = bed.0.node.status();
    assert_eq!((status.counters.fast_writes, status.counters.store_ops, status.counters.pieces), (4, 0, 4));
    assert_eq!(status.memory_bytes.0, 0, "nothing stays reserved");
    assert!(bed.0.node.is_idle());
}

#[test]
fn what_the_host_does_not_take_goes_to_the_store_with_its_own_bytes() {
    for taken in 0..=4_u16 {
        let mut bed = Bed::new(usize::from(taken));
        bed.receive(1, &writes(4), &[]);
        let at_once: Vec<_> = (taken > 0).then(|| ((0..taken).collect(), Ok(()))).into_iter().collect();
        assert_eq!(bed.answers(), at_once, "{taken} taken");
        let rest: Vec<_> = (taken..4).map(|i| (Op::Write, u64::from(i) * 65_536, Some(i as u8))).collect();
        assert_eq!(bed.in_store(), rest, "{taken} taken");
        (taken..4).for_each(|_| bed.0.end_one());
        let answered: usize = bed.answers().iter().map(|(pieces, _)| pieces.len()).sum();
        assert_eq!(answered, 4 - usize::from(taken));
        assert_eq!(bed.0.node.status().memory_bytes.0, 0);
    }
}

#[test]
fn a_write_overtakes_nothing_that_is_in_hand() {
    let earlier = [
        piece(Op::Flush, OpFlags::NONE, 0),
        piece(Op::Read, OpFlags::NONE, 0),
        piece(Op::Write, OpFlags::FUA, 0),
        piece(Op::Trim, OpFlags::NONE, 0),
    ];
    for (earlier, is_in_store) in earlier.into_iter().flat_map(|piece| [(piece, true), (piece, false)]) {
        let mut bed = Bed::new(usize::MAX);
        if is_in_store {
            bed.receive(1, &[earlier], &[]);
            bed.receive(2, &writes(1), &[]);
        } else {
            // Both arrive in one turn: the first is in the elevator.
            let both = [bed.batch(1, &[earlier], &[]), bed.batch(2, &writes(1), &[])].concat();
            bed.0.receive(bed.0.link, &both);
        }
        assert_eq!(bed.written(), [], "behind {earlier:?}, in the store: {is_in_store}");
        while !bed.0.ops.is_empty() {
            bed.0.end_one();
        }
        bed.answers();
        bed.receive(3, &writes(1), &[]);
        assert_eq!(bed.written(), [(0, 0)], "when it has ended");
    }
}

#[test]
fn nor_what_another_link_has_in_hand() {
    let mut bed = Bed::new(usize::MAX);
    let other = bed.0.open_link(&Hello { link: 1, ..hello() });
    bed.0.sent(other);
    let flush = bed.batch(1, &[piece(Op::Flush, OpFlags::NONE, 0)], &[]);
    bed.0.decode(other, &flush);
    bed.receive(1, &writes(1), &[]);
    assert_eq!(bed.written(), []);
}

#[test]
fn what_is_held_together_and_partly_taken_is_answered_in_two_frames() {
    let mut bed = Bed::new(2);
    let mut together = Vec::new();
    let put = |meta: &mut Vec<u8>| {
        let at = meta.len();
        put_groups(meta, 1, &writes(4), |piece| *piece);
        ask_together(&mut meta[at..]);
    };
    let payload = |out: &mut Vec<u8>| (0..4).for_each(|number| out.resize(out.len() + BLOCK as usize, number));
    encode_frame(&mut together, FrameKind::Batch, put, payload);
    bed.0.receive(bed.0.link, &together);
    assert_eq!(bed.answers(), [(vec![0, 1], Ok(()))]);
    bed.0.end_one();
    assert_eq!(bed.answers(), [], "the others are held until all of them are there");
    bed.0.end_one();
    assert_eq!(bed.answers(), [(vec![2, 3], Ok(()))]);
}

#[test]
fn only_plain_writes_at_the_front_of_a_batch_are_taken() {
    let plain = piece(Op::Write, OpFlags::NONE, 0);
    for (second, is_taken) in [
        (plain, true),
        (piece(Op::Write, OpFlags::NONE, MIB - u64::from(BLOCK)), true),
        (piece(Op::Write, OpFlags::NONE, MIB - u64::from(BLOCK) + 1), false),
        (piece(Op::Write, OpFlags::FUA, 65_536), false),
        (piece(Op::Trim, OpFlags::NONE, 65_536), false),
        (piece(Op::Read, OpFlags::NONE, 65_536), false),
        (piece(Op::Flush, OpFlags::NONE, 0), false),
    ] {
        for (pieces, when_taken, when_not) in [(vec![plain, second, plain], 3, 1), (vec![second, plain], 2, 0)] {
            let mut bed = Bed::new(usize::MAX);
            bed.receive(1, &pieces, &[]);
            assert_eq!(bed.written().len(), if is_taken { when_taken } else { when_not }, "{pieces:?}");
        }
    }
}

#[test]
fn the_times_of_a_followed_write_are_told_behind_its_answer() {
    let mut bed = Bed::new(3);
    bed.receive(1, &writes(4), &[1, 2, 3]);
    assert_eq!(bed.written(), [(0, 0), (65_536, 1), (131_072, 2)], "each once, in their order");
    let frames = bed.sent();
    assert_eq!(runs_of(&frames[0]), [(vec![0, 1, 2], Ok(()))]);
    assert_eq!(told_by(&frames[1]), [(1, Way::AtOnce), (2, Way::AtOnce)]);
    bed.0.end_one();
    let frames = bed.sent();
    assert_eq!(told_by(&frames[1]), [(3, Way::Store)]);
}

#[test]
fn a_followed_write_behind_one_that_is_not_taken_is_not_written_twice() {
    let mut bed = Bed::new(1);
    bed.receive(1, &writes(4), &[0, 3]);
    assert_eq!(bed.written(), [(0, 0)]);
    assert_eq!(told_by(&bed.sent()[1]), [(0, Way::AtOnce)]);
    assert_eq!(bed.in_store().len(), 3);
}
