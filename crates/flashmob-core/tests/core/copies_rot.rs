//! Volumes with copies: changes of a part of a block that does not match its checksum.

use std::time::Duration;

use crate::testing::CopiesBed;
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::WirePiece;

const BLOCK: u64 = 4096;

/// How a node answers a piece.
type Outcome = fn(&WirePiece) -> Result<(), Failure>;

const WELL: Outcome = |_| Ok(());
/// The block at 0 is corrupt: a part of it cannot be changed.
const CORRUPT_AT_0: Outcome =
    |piece| if piece.op == Op::Write && piece.offset_bytes < BLOCK { Err(Failure::Io) } else { Ok(()) };
/// The same of the next block.
const CORRUPT_AT_1: Outcome = |piece| {
    let is_hit = piece.op == Op::Write && (BLOCK..2 * BLOCK).contains(&piece.offset_bytes);
    if is_hit { Err(Failure::Io) } else { Ok(()) }
};
const FULL: Outcome = |piece| if piece.op == Op::Write { Err(Failure::NoSpace) } else { Ok(()) };

struct Bed(CopiesBed);

impl Bed {
    fn new() -> Bed {
        Bed(CopiesBed::new(Duration::from_secs(60)))
    }

    /// Writes 100 bytes at each offset, all at once; they are sent.
    fn write(&mut self, offsets: &[u64]) {
        for &offset in offsets {
            self.0.bed.submit(self.0.client, Op::Write, offset, 100);
        }
        self.0.pass(Duration::ZERO);
    }

    /// A node answers what it was sent.
    fn answer(&mut self, node: usize, outcome: Outcome) {
        self.0.bed.answer_with(node, outcome);
        self.0.pass(Duration::ZERO);
    }

    /// Both nodes answer all that comes while time passes.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.0.pass(CopiesBed::STEP);
            self.0.bed.answer(0);
            self.0.bed.answer(1);
        }
    }

    /// How the calls that have ended since this was last asked ended, in the order of their making.
    fn results(&mut self) -> Vec<Result<(), Failure>> {
        let mut ended = std::mem::take(self.0.bed.gateway.completions());
        ended.sort_by_key(|completion| completion.cookie);
        ended.into_iter().map(|completion| completion.result.map(|_| ())).collect()
    }

    /// The nodes whose copies are behind.
    fn behind(&self) -> Vec<u16> {
        (0..2).filter(|&node| self.0.marks().behind >> self.0.copy_of(node) & 1 != 0).collect()
    }
}

#[test]
fn a_copy_that_is_corrupt_there_falls_behind_and_is_made_equal() {
    for corrupt in 0..2 {
        let mut bed = Bed::new();
        bed.write(&[10]);
        bed.answer(corrupt, CORRUPT_AT_0);
        assert!(bed.results().is_empty(), "the other copy may fail as well");
        bed.answer(1 - corrupt, WELL);
        assert_eq!((bed.results(), bed.behind()), (vec![Ok(())], vec![corrupt as u16]));
        bed.settle();
        assert_eq!(bed.behind(), [], "it was made equal");
    }
}

#[test]
fn the_last_current_copy_stays_current_and_the_change_fails() {
    for last in 0..2 {
        let mut bed = Bed::new();
        bed.write(&[BLOCK * 9]);
        bed.answer(1 - last, FULL);
        bed.answer(last, WELL);
        let behind = vec![1 - last as u16];
        assert_eq!((bed.results(), bed.behind()), (vec![Ok(())], behind.clone()));
        // The other is being made equal, and is sent what changes; it does not count.
        bed.write(&[10]);
        bed.answer(1 - last, WELL);
        assert!(bed.results().is_empty());
        bed.answer(last, CORRUPT_AT_0);
        assert_eq!((bed.results(), bed.behind()), (vec![Err(Failure::Io)], behind.clone()));
        // The rest of the chunk can be changed.
        bed.write(&[BLOCK * 9]);
        bed.answer(last, WELL);
        assert_eq!((bed.results(), bed.behind()), (vec![Ok(())], behind));
    }
}

#[test]
fn a_block_that_is_corrupt_on_all_copies_costs_no_copy() {
    let mut bed = Bed::new();
    bed.write(&[10]);
    bed.answer(0, CORRUPT_AT_0);
    bed.answer(1, CORRUPT_AT_0);
    assert_eq!((bed.results(), bed.behind()), (vec![Err(Failure::Io)], vec![]));
}

#[test]
fn each_copy_corrupt_at_another_block_leaves_one_that_is_current() {
    let mut bed = Bed::new();
    bed.write(&[10, BLOCK + 10]);
    bed.answer(0, CORRUPT_AT_0);
    bed.answer(1, CORRUPT_AT_1);
    assert_eq!((bed.results(), bed.behind()), (vec![Ok(()), Err(Failure::Io)], vec![0]));
}
