//! Volumes with copies: which nodes are put out when some fall silent, or all of them.

use std::time::Duration;

use crate::testing::CopiesBed;
use flashmob_core::op::Op;

const EVICT_AFTER: Duration = Duration::from_secs(3);
const STEP: Duration = CopiesBed::STEP;

struct Bed {
    copies: CopiesBed,
    written: u64,
}

impl Bed {
    fn new() -> Bed {
        Bed { copies: CopiesBed::new(EVICT_AFTER), written: 0 }
    }

    fn write(&mut self) {
        self.copies.bed.submit(self.copies.client, Op::Write, self.written * 512, 512);
        self.written += 1;
        self.copies.pass(Duration::ZERO);
    }

    /// Writes, which the first node alone answers.
    fn first_answers_for(&mut self, time: Duration) {
        let end = self.copies.bed.now + time;
        while self.copies.bed.now < end {
            self.write();
            self.copies.bed.answer(0);
            self.copies.pass(STEP);
        }
    }

    fn evictions(&self) -> u64 {
        self.copies.bed.gateway.copies_status(self.copies.bed.now, 0).unwrap().counters.evictions
    }
}

#[test]
fn a_node_that_is_silent_while_the_other_answers_is_put_out() {
    let mut bed = Bed::new();
    bed.first_answers_for(EVICT_AFTER - STEP);
    assert_eq!(bed.evictions(), 0);
    bed.first_answers_for(STEP * 4);
    assert_eq!(bed.evictions(), 1);
    bed.first_answers_for(STEP);
    assert!(bed.copies.bed.ended() > 0, "writes are acknowledged without it");
}

#[test]
fn when_all_were_silent_the_first_to_answer_has_nobody_put_out_at_once() {
    let mut bed = Bed::new();
    bed.write();
    bed.copies.pass(Duration::from_secs(10));
    assert_eq!(bed.evictions(), 0, "it may be the network");
    bed.first_answers_for(EVICT_AFTER - STEP * 2);
    assert_eq!(bed.evictions(), 0, "the other has just as long as ever, from when the first was heard");
    bed.first_answers_for(STEP * 5);
    assert_eq!(bed.evictions(), 1);
    assert!(bed.copies.bed.ended() > 0);
}
