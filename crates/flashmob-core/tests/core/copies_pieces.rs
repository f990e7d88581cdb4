//! Volumes with copies: copies are made current piece by piece, beside changes of clients.

use std::time::Duration;

use crate::testing::{CopiesBed, FlashBed, bytes_of, frames};
use flashmob_core::copies::{Marks, Place, Record};
use flashmob_core::gateway::{CopiesSpec, CopiesStatus, LinkId};
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::{WirePiece, decode_batch};
use flashmob_core::wire::digest::DIGEST_BYTES;
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::replies::RepliesEncoder;

const BLOCK: u64 = 4096;
/// Bytes that are hashed at once: a sixteenth of a chunk.
const RANGE: u64 = CopiesBed::CHUNK_BYTES / 16;
const BEHIND: Marks = Marks { is_open: false, is_torn: false, behind: 1, doubtful: 0 };
/// How long a piece may keep changes waiting, and the time between two looks.
const PATIENCE: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_millis(50);

/// A piece that a node was sent and has not answered.
#[derive(Clone, Copy)]
struct Asked {
    seq: u32,
    index: u16,
    piece: WirePiece,
}

/// One or more chunks whose first copy is behind.
struct Bed {
    copies: CopiesBed,
    /// The link of the node whose copy of the first chunk is behind, and of the other.
    target: usize,
    source: usize,
    asked: [Vec<Asked>; 2],
    /// Offsets of blocks that differ.
    differ: Vec<u64>,
}

impl Bed {
    fn new(chunks: u64, differ: &[u64]) -> Bed {
        let copies = CopiesBed::with(chunks, BEHIND, |spec| spec.evict_after = Duration::from_secs(20));
        let target = usize::from(copies.bed.gateway.map(0).unwrap().places(0)[0].member);
        let mut bed = Bed { copies, target, source: 1 - target, asked: Default::default(), differ: differ.to_vec() };
        bed.wait_for_digest();
        bed
    }

    /// Time goes by; what nodes are sent is noted.
    fn pass(&mut self, time: Duration) {
        self.copies.pass(time);
        for link in 0..2 {
            let out = self.copies.bed.gateway.link_out(LinkId(link)).take_all();
            for batch in frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::Batch) {
                let mut pieces = Vec::new();
                let seq = decode_batch(&batch.meta, batch.payload.len(), &mut pieces).unwrap();
                let asked = (0..).zip(pieces).map(|(index, piece)| Asked { seq, index, piece });
                self.asked[link].extend(asked);
            }
        }
    }

    /// Offsets and lengths of what a node was asked for and has not answered.
    fn open(&self, link: usize, op: Op) -> Vec<(u64, u64)> {
        let of_op = self.asked[link].iter().filter(|asked| asked.piece.op == op);
        of_op.map(|asked| (asked.piece.offset_bytes, asked.piece.len_bytes.into())).collect()
    }

    /// A node answers the pieces of some operations. Returns how many these were.
    fn answer(&mut self, link: usize, ops: &[Op]) -> usize {
        let answered: Vec<Asked> = self.asked[link].extract_if(.., |asked| ops.contains(&asked.piece.op)).collect();
        for &Asked { seq, index, piece } in &answered {
            let mut data = vec![0; piece.reply_bytes() as usize];
            if piece.op == Op::Digest && link == self.target {
                let blocks = (piece.offset_bytes..).step_by(BLOCK as usize);
                for (at, hash) in blocks.zip(data.chunks_exact_mut(DIGEST_BYTES)) {
                    hash.fill(if self.differ.contains(&at) { 7 } else { 0 });
                }
            }
            if piece.op == Op::Write && link == self.target {
                let end = piece.offset_bytes + u64::from(piece.len_bytes);
                self.differ.retain(|at| *at < piece.offset_bytes || *at >= end);
            }
            let mut replies = RepliesEncoder::default();
            replies.clear();
            replies.push(seq, &[index], Ok(()), 0);
            let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
            let bytes = bytes_of(|to| encode_frame(to, FrameKind::Replies, put, |to| to.extend_from_slice(&data)));
            self.copies.bed.gateway.link_rx(LinkId(link)).extend(&bytes);
            self.copies.bed.gateway.process_link(self.copies.bed.now, LinkId(link));
        }
        self.pass(Duration::ZERO);
        answered.len()
    }

    /// Both nodes answer, until nothing is asked, or a node is asked to hash this.
    fn work_until(&mut self, at: Option<u64>) {
        for _ in 0..10_000 {
            let is_at = self.open(self.target, Op::Digest).iter().any(|&(from, _)| Some(from) == at);
            if is_at || (0..2).map(|link| self.answer(link, &Op::ALL)).sum::<usize>() == 0 {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Both nodes answer for as long as it takes until all copies are current: work rests beside clients.
    fn finish(&mut self) {
        for _ in 0..200 {
            self.work_until(None);
            if self.status().behind_copies == 0 {
                return;
            }
            self.pass(LOOK);
        }
        panic!("{:?}", self.status());
    }

    /// Waits until the node that is behind is asked for a digest.
    fn wait_for_digest(&mut self) {
        while self.open(self.target, Op::Digest).is_empty() {
            self.pass(LOOK);
        }
    }

    fn write(&mut self, offset: u64, len: u32) {
        self.copies.bed.submit(self.copies.client, Op::Write, offset, len);
        self.pass(Duration::ZERO);
    }

    fn status(&self) -> CopiesStatus {
        self.copies.bed.gateway.copies_status(self.copies.bed.now, 0).unwrap()
    }
}

#[test]
fn what_differs_is_copied_and_all_is_hashed_once() {
    let mut bed = Bed::new(1, &[3 * BLOCK, 4 * BLOCK, 200 * BLOCK]);
    bed.finish();
    let status = bed.status();
    assert_eq!((status.behind_copies, status.counters.resynced), (0, 1));
    assert_eq!(status.counters.copied_bytes, 3 * BLOCK);
    assert_eq!(status.counters.digested_bytes, 2 * CopiesBed::CHUNK_BYTES, "on both copies");
    assert_eq!(status.counters.digest_bytes * 512, status.counters.digested_bytes);
}

#[test]
fn changes_of_a_run_go_on_as_soon_as_it_is_on_its_way() {
    let mut bed = Bed::new(1, &[3 * BLOCK]);
    bed.answer(bed.source, &[Op::Digest]);
    bed.answer(bed.target, &[Op::Digest]);
    assert_eq!(bed.open(bed.source, Op::Read), [(3 * BLOCK, BLOCK)]);
    bed.write(3 * BLOCK, 100);
    assert_eq!(bed.open(bed.source, Op::Write), [], "what is read must not change");
    bed.answer(bed.source, &[Op::Read]);
    assert_eq!(bed.open(bed.target, Op::Write), [(3 * BLOCK, BLOCK)]);
    bed.pass(LOOK);
    assert_eq!(bed.open(bed.source, Op::Write), [(3 * BLOCK, 100)]);
    bed.answer(bed.source, &[Op::Write]);
    assert_eq!(bed.copies.bed.ended(), 1, "the copy that is behind is not waited for");
    assert_eq!(bed.open(bed.target, Op::Write), [(3 * BLOCK, BLOCK)], "there it comes behind the run");
    bed.answer(bed.target, &[Op::Write]);
    assert_eq!(bed.open(bed.target, Op::Write), [(3 * BLOCK, 100)]);
    bed.finish();
}

#[test]
fn a_piece_that_gave_way_is_tried_again_and_those_before_it_are_not() {
    let mut bed = Bed::new(1, &[]);
    bed.work_until(Some(5 * RANGE));
    bed.write(5 * RANGE + 100, 100);
    bed.pass(PATIENCE - LOOK);
    assert_eq!(bed.open(bed.source, Op::Write), [], "the range is being hashed");
    bed.pass(2 * LOOK);
    assert_eq!(bed.status().counters.gave_way, 1);
    // It is in the queue behind the digest.
    bed.answer(bed.source, &[Op::Digest]);
    assert_eq!(bed.open(bed.source, Op::Write), [(5 * RANGE + 100, 100)]);
    bed.answer(bed.target, &[Op::Digest]);
    bed.answer(bed.source, &[Op::Write]);
    bed.answer(bed.target, &[Op::Write]);
    assert_eq!((bed.copies.bed.ended(), bed.status().behind_copies), (1, 1));
    bed.wait_for_digest();
    assert_eq!(bed.open(bed.target, Op::Digest), [(5 * RANGE, RANGE)], "half of 256 KiB is more than that");
    let before = bed.status().counters.digested_bytes;
    bed.finish();
    assert_eq!(bed.status().counters.digested_bytes - before, 2 * 11 * RANGE, "nothing is hashed again");
}

#[test]
fn the_smallest_piece_does_not_give_way() {
    let mut bed = Bed::new(1, &[]);
    let mut waited = Vec::new();
    for round in 0..8 {
        bed.wait_for_digest();
        bed.write(100, 100);
        let begun = bed.copies.bed.now;
        let gave_way = bed.status().counters.gave_way;
        while bed.status().counters.gave_way == gave_way && bed.copies.bed.now - begun < Duration::from_secs(15) {
            bed.pass(LOOK);
        }
        waited.push((bed.open(bed.target, Op::Digest)[0].1, (bed.copies.bed.now - begun).as_secs()));
        if bed.status().counters.gave_way == gave_way {
            assert_eq!(round, 6, "{waited:?}");
            break;
        }
        for link in 0..2 {
            bed.answer(link, &[Op::Digest]);
            bed.answer(link, &[Op::Write]);
        }
    }
    let sizes: Vec<u64> = waited.iter().map(|(bytes, _)| bytes / BLOCK).collect();
    assert_eq!(sizes, [16, 16, 16, 8, 4, 2, 1], "{waited:?}");
    let seconds: Vec<u64> = waited.iter().map(|(_, seconds)| *seconds).collect();
    assert_eq!(seconds, [0, 0, 1, 1, 1, 1, 15], "{waited:?}");
    bed.finish();
}

#[test]
fn two_copies_at_a_time_are_made_on_one_node_by_one_other() {
    let mut bed = Bed::new(16, &[]);
    bed.pass(Duration::from_secs(2));
    // All copies of the volume that are behind: some on each node.
    let digests: Vec<usize> = (0..2).map(|link| bed.open(link, Op::Digest).len()).collect();
    assert!(digests.iter().all(|count| (2..=4).contains(count)), "{digests:?}");
    assert!(bed.status().jobs <= 4, "{}", bed.status().jobs);
    bed.finish();
}

/// Clients wait for a comparison, not for a copy that is being made of the same chunk and waits for its turn.
#[test]
fn a_chunk_that_is_to_be_compared_does_not_wait_behind_a_copy_that_rests() {
    const CHUNKS: u32 = 40;
    let away = 2;
    let its_copies_are_behind = |spec: &mut CopiesSpec| {
        for chunk in 0..CHUNKS {
            let copy = spec.map.places(chunk).iter().position(|place| usize::from(place.member) == away).unwrap();
            let marks = Marks { behind: 1 << copy, ..Marks::default() };
            spec.map.apply(&Record::Marks { first_chunk: chunk, count: 1, marks }).unwrap();
        }
    };
    let mut flashes = FlashBed::without(away..away + 1, 3, 3, CHUNKS.into(), its_copies_are_behind);
    flashes.nodes[away].bytes.fill(0);
    flashes.link(away);
    // A client reads, and work rests now and then to see how long its requests usually take: nothing is sent to the node for a while.
    let (mut last, mut rounds) = (None, 0);
    for _ in 0..10_000 {
        flashes.bed.submit(flashes.client, Op::Read, 0, 4096);
        flashes.bed.pass(Duration::from_millis(40));
        flashes.serve_once();
        let seen = std::mem::take(&mut flashes.nodes[away].seen);
        match seen.iter().rfind(|piece| piece.op != Op::Flush) {
            Some(piece) => (last, rounds) = (Some(piece.offset_bytes / FlashBed::CHUNK_BYTES), 0),
            None => rounds += usize::from(last.is_some()),
        }
        if rounds == 10 {
            break;
        }
    }
    assert_eq!(rounds, 10, "nothing is sent to it");
    let slot = last.expect("a copy is being made");
    let is_there = |place: &Place| usize::from(place.member) == away && u64::from(place.slot) == slot;
    let map = flashes.bed.gateway.map(0).unwrap();
    let chunk = (0..CHUNKS).find(|&chunk| map.places(chunk).iter().any(is_there)).expect("a chunk");
    assert!(map.marks(chunk).behind != 0, "its copy is not done");
    assert!(flashes.results().iter().all(Result::is_ok));

    // A change of it fails on each of the others: they may differ.
    let at = u64::from(chunk) * FlashBed::CHUNK_BYTES;
    flashes.nodes[..away].iter_mut().for_each(|node| node.fails_writes = Some(Failure::Io));
    flashes.bed.submit(flashes.client, Op::Write, at, 4096);
    flashes.serve();
    assert_eq!(flashes.results(), [Err(Failure::Io)]);
    flashes.nodes[..away].iter_mut().for_each(|node| node.fails_writes = None);
    flashes.bed.submit(flashes.client, Op::Read, at, 4096);
    flashes.pass(2 * LOOK);
    let results = flashes.results();
    let status = flashes.bed.gateway.copies_status(flashes.bed.now, 0).unwrap();
    assert!(results.len() == 1 && results[0].is_ok(), "{results:?}, {status:?}");
    assert_eq!((status.in_doubt, status.counters.compared), (0, 1));
}
