//! Volumes with copies: how many chunks are open, how they settle, and ranges of which nothing was ever written.

use std::time::Duration;

use crate::testing::{CopiesBed, bytes_of, frames};
use flashmob_core::copies::Marks;
use flashmob_core::gateway::{Action, CopiesStatus, LinkId};
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::map::MapWriter;
use flashmob_core::wire::replies::RepliesEncoder;

const CHUNK_BYTES: u64 = CopiesBed::CHUNK_BYTES;
const CHUNKS: u64 = 16;
const OPEN_MAX: usize = 8;
/// Of each chunk of a new volume.
const OPEN: Marks = Marks { is_open: true, is_torn: false, behind: 0, doubtful: 0 };

/// A volume of [`CHUNKS`], and what the test knows of it.
struct Bed {
    copies: CopiesBed,
    /// What nodes were asked to do.
    asked: Vec<Op>,
    /// Nodes answer no flushes.
    is_flush_slow: bool,
    /// This node fails flushes.
    broken: Option<LinkId>,
    /// What nodes hold of a chunk that is looked at: a hole, data, and a hole.
    data: std::ops::Range<u32>,
}

impl Bed {
    fn new(marks: Marks, data: std::ops::Range<u64>) -> Bed {
        let copies = CopiesBed::with(CHUNKS, marks, |spec| spec.open_max = OPEN_MAX);
        let data = data.start as u32..data.end as u32;
        let mut bed = Bed { copies, asked: Vec::new(), is_flush_slow: false, broken: None, data };
        bed.work();
        bed
    }

    /// Writes a block of each chunk, one after the other. All are acknowledged.
    fn write(&mut self, chunks: std::ops::Range<u64>) {
        for chunk in chunks {
            self.copies.bed.submit(self.copies.client, Op::Write, chunk * CHUNK_BYTES, 512);
            self.pass(Duration::from_millis(60));
            assert_eq!(self.copies.bed.ended(), 1, "chunk {chunk}");
        }
    }

    /// Nodes answer, and decisions are durable, until nothing more happens.
    fn work(&mut self) {
        loop {
            self.copies.bed.turn();
            let mut is_over = true;
            for action in self.copies.bed.actions() {
                if let Action::Commit { volume, number, .. } = action {
                    self.copies.bed.gateway.committed(self.copies.bed.now, volume, number, Ok(()));
                    is_over = false;
                }
            }
            for link in 0..2 {
                is_over &= !self.answer(LinkId(link));
            }
            if is_over {
                return;
            }
        }
    }

    fn answer(&mut self, link: LinkId) -> bool {
        let out = self.copies.bed.gateway.link_out(link).take_all();
        let mut bytes = Vec::new();
        for batch in frames(&out).into_iter().filter(|frame| frame.kind == FrameKind::Batch) {
            let mut pieces = Vec::new();
            let seq = decode_batch(&batch.meta, batch.payload.len(), &mut pieces).unwrap();
            self.asked.extend(pieces.iter().map(|piece| piece.op));
            let is_late = |op| self.is_flush_slow && op == Op::Flush;
            let answered = (0..).zip(&pieces).filter(|(_, piece)| !is_late(piece.op));
            let indices: Vec<u16> = answered.map(|(index, _)| index).collect();
            if indices.is_empty() {
                continue;
            }
            let mut data = Vec::new();
            for &index in &indices {
                let piece = &pieces[usize::from(index)];
                let from = data.len();
                data.resize(from + piece.reply_bytes() as usize, 0);
                if piece.op == Op::Map {
                    let mut map = MapWriter::new(&mut data[from..]);
                    assert!(map.push(self.data.start, true));
                    assert!(map.push(self.data.end - self.data.start, false));
                    assert!(map.push(piece.len_bytes - self.data.end, true));
                }
            }
            let mut replies = RepliesEncoder::default();
            replies.clear();
            let is_failed = |index: &u16| self.broken == Some(link) && pieces[usize::from(*index)].op == Op::Flush;
            let (failed, done): (Vec<u16>, Vec<u16>) = indices.iter().partition(|index| is_failed(index));
            for (indices, result) in [(done, Ok(())), (failed, Err(Failure::Io))] {
                if !indices.is_empty() {
                    replies.push(seq, &indices, result, 0);
                }
            }
            let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
            bytes.extend(bytes_of(|to| encode_frame(to, FrameKind::Replies, put, |to| to.extend_from_slice(&data))));
        }
        self.copies.bed.gateway.link_rx(link).extend(&bytes);
        self.copies.bed.gateway.process_link(self.copies.bed.now, link);
        !bytes.is_empty()
    }

    fn pass(&mut self, time: Duration) {
        let end = self.copies.bed.now + time;
        while self.copies.bed.now < end {
            self.work();
            self.copies.bed.pass(Duration::from_millis(10).min(end - self.copies.bed.now));
        }
        self.work();
    }

    fn status(&self) -> CopiesStatus {
        self.copies.bed.gateway.copies_status(self.copies.bed.now, 0).unwrap()
    }

    fn open(&self) -> Vec<u32> {
        let map = self.copies.bed.gateway.map(0).unwrap();
        (0..map.chunks()).filter(|&chunk| map.marks(chunk).is_open).collect()
    }

    fn count(&self, op: Op) -> usize {
        self.asked.iter().filter(|asked| **asked == op).count()
    }
}

#[test]
fn up_to_the_bound_chunks_stay_open_for_their_time() {
    let mut bed = Bed::new(Marks::default(), 0..0);
    bed.write(0..OPEN_MAX as u64);
    bed.pass(Duration::from_secs(10));
    assert_eq!((bed.open(), bed.count(Op::Flush)), ((0..OPEN_MAX as u32).collect(), 0));
    bed.pass(Duration::from_secs(21));
    assert_eq!((bed.open(), bed.status().counters.settled_early), (vec![], 0));
}

#[test]
fn beyond_the_bound_the_longest_idle_settle_after_one_flush_of_each_node() {
    let mut bed = Bed::new(Marks::default(), 0..0);
    bed.write(0..OPEN_MAX as u64);
    // The first is in use again.
    bed.write(0..1);
    bed.write(OPEN_MAX as u64..OPEN_MAX as u64 + 1);
    bed.pass(Duration::from_secs(1));
    assert_eq!(bed.open(), [0, 4, 5, 6, 7, 8]);
    assert_eq!((bed.status().counters.settled_early, bed.count(Op::Flush)), (3, 2));
}

#[test]
fn changes_do_not_wait_for_chunks_to_settle() {
    let mut bed = Bed::new(Marks::default(), 0..0);
    bed.is_flush_slow = true;
    bed.write(0..CHUNKS);
    assert_eq!(bed.status().open, CHUNKS as u32, "nothing is flushed");
    assert_eq!(bed.count(Op::Flush), 2, "asked once");
}

#[test]
fn copies_that_are_holes_are_equal_without_being_hashed() {
    let mut bed = Bed::new(OPEN, 0..0);
    bed.pass(Duration::from_secs(5));
    let CopiesStatus { in_doubt, counters, .. } = bed.status();
    assert_eq!((in_doubt, counters.compared, counters.blank), (0, CHUNKS, CHUNKS));
    assert_eq!((bed.count(Op::Map), bed.count(Op::Digest)), (2 * CHUNKS as usize, 0));
    assert!(bed.open().len() <= OPEN_MAX, "they are flushed before they are settled");
    assert!(bed.count(Op::Flush) >= 2);
}

#[test]
fn of_copies_with_data_the_ranges_that_hold_any_are_hashed() {
    const RANGE: u64 = CHUNK_BYTES / 16;
    for (data, ranges) in
        [(0..1, 1), (RANGE - 1..RANGE + 1, 2), (CHUNK_BYTES - 1..CHUNK_BYTES, 1), (0..CHUNK_BYTES, 16)]
    {
        let mut bed = Bed::new(OPEN, data.clone());
        bed.pass(Duration::from_secs(5));
        let CopiesStatus { in_doubt, counters, .. } = bed.status();
        assert_eq!((in_doubt, counters.compared, counters.blank), (0, CHUNKS, 0), "{data:?}");
        assert_eq!(bed.count(Op::Digest), 2 * ranges * CHUNKS as usize, "{data:?}");
    }
}

#[test]
fn a_node_whose_flash_fails_flushes_falls_behind_and_the_others_settle() {
    let mut bed = Bed::new(Marks::default(), 0..0);
    bed.broken = Some(LinkId(1));
    bed.write(0..CHUNKS);
    bed.pass(Duration::from_secs(40));
    let CopiesStatus { open, counters, behind, .. } = bed.status();
    assert_eq!((open, counters.settled), (0, CHUNKS), "without it");
    assert_eq!(u64::from(behind), CHUNKS);
    // Nothing is copied to it over and over.
    let tries = bed.count(Op::Digest);
    bed.pass(Duration::from_secs(10));
    assert!(bed.count(Op::Digest) <= tries + 2 * 16 * 4, "{tries}, {}", bed.count(Op::Digest));
}

#[test]
fn a_copy_that_fails_flushes_stays_while_no_other_is_there() {
    let mut bed = Bed::new(Marks::default(), 0..0);
    bed.write(0..CHUNKS);
    bed.broken = Some(LinkId(1));
    // It is not put out: nothing is asked of it.
    let now = bed.copies.bed.now;
    bed.copies.bed.gateway.link_closed(now, LinkId(0), "it is gone");
    bed.pass(Duration::from_secs(40));
    let CopiesStatus { open, behind, counters, .. } = bed.status();
    assert_eq!(behind, 0, "the readable copy is not given up");
    assert!(open > 0, "it cannot be settled");
    assert!(counters.failed_copies > 0, "its flush was tried");
}
