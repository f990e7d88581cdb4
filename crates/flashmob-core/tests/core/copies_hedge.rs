//! Volumes with copies: reads that are late, and are asked of another copy as well.

use std::time::Duration;

use crate::testing::{CopiesBed, answer, answer_some, frames, welcome};
use flashmob_core::copies::Marks;
use flashmob_core::gateway::{CopiesSpec, GatewayConfig, LinkId};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::KIB;
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::Welcome;

const CHUNKS: u64 = 16;
/// Later than any answer here.
const LATE: Duration = Duration::from_millis(100);

struct Bed(CopiesBed);

impl Bed {
    /// After so many reads that were answered soon.
    fn after(reads: u64) -> Bed {
        Bed::begun(reads, CopiesBed::with(CHUNKS, Marks::default(), |_| ()))
    }

    fn begun(reads: u64, bed: CopiesBed) -> Bed {
        let mut bed = Bed(bed);
        // What the map has of the nodes becomes durable.
        bed.0.pass(Duration::ZERO);
        for read in 0..reads {
            bed.read(read % CHUNKS, 512);
            bed.pass(Duration::from_micros(200));
            assert_eq!(bed.0.bed.answer(0) + bed.0.bed.answer(1), 1, "only one copy is asked");
            assert_eq!(bed.0.bed.ended(), 1);
        }
        bed
    }

    fn read(&mut self, chunk: u64, len_bytes: u32) {
        self.0.bed.submit(self.0.client, Op::Read, chunk * CopiesBed::CHUNK_BYTES, len_bytes);
        self.0.bed.turn();
    }

    fn pass(&mut self, time: Duration) {
        self.0.bed.pass(time);
    }

    /// The node that a chunk is read from while nothing else is read.
    fn home(&mut self, chunk: u64) -> usize {
        self.read(chunk, 512);
        let home = usize::from(self.0.bed.answer(0) == 0);
        self.0.bed.answer(home);
        assert_eq!(self.0.bed.ended(), 1);
        home
    }

    /// A read that is not answered: the node that it went to, and what that node was sent.
    fn read_unanswered(&mut self, chunk: u64, len_bytes: u32) -> (usize, Vec<u8>) {
        self.read(chunk, len_bytes);
        let taken = [self.take(0), self.take(1)];
        let late = usize::from(taken[0].is_empty());
        assert!(taken[1 - late].is_empty(), "only one copy is asked");
        (late, taken.into_iter().nth(late).unwrap())
    }

    /// What is on the way to a node. The node has it, and does not answer.
    fn take(&mut self, node: usize) -> Vec<u8> {
        self.0.bed.gateway.link_out(LinkId(node)).take_all()
    }

    /// A node answers what was taken before.
    fn answer_taken(&mut self, node: usize, taken: &[u8]) {
        let mut bytes = Vec::new();
        let batches = frames(taken).into_iter().filter(|frame| frame.kind == FrameKind::Batch);
        for batch in batches {
            answer(&batch, &mut bytes);
        }
        self.receive(node, &bytes);
    }

    /// It answers only the reads of that.
    fn answer_reads(&mut self, node: usize, taken: &[u8]) {
        let mut bytes = Vec::new();
        for batch in frames(taken).into_iter().filter(|frame| frame.kind == FrameKind::Batch) {
            answer_some(&batch, |piece| (piece.op == Op::Read).then_some(Ok(())), &mut bytes);
        }
        self.receive(node, &bytes);
    }

    fn receive(&mut self, node: usize, bytes: &[u8]) {
        self.0.bed.gateway.link_rx(LinkId(node)).extend(bytes);
        self.0.bed.gateway.process_link(self.0.bed.now, LinkId(node));
        self.0.bed.turn();
    }

    /// A chunk that is read from this node while nothing else is read.
    fn chunk_of(&mut self, node: usize) -> u64 {
        (0..CHUNKS).find(|&chunk| self.home(chunk) == node).unwrap()
    }

    /// A write that both nodes have, and neither answers.
    fn write(&mut self, chunk: u64) {
        self.0.bed.submit(self.0.client, Op::Write, chunk * CopiesBed::CHUNK_BYTES, 512);
        self.0.bed.turn();
        // The map says that the chunk is open.
        self.0.pass(Duration::ZERO);
    }

    /// Bytes of the gateway's memory that are reserved.
    fn used_bytes(&self) -> u64 {
        self.0.bed.gateway.status().memory_bytes.0
    }

    /// Late reads that were sent to a second copy as well, and those that it answered first.
    fn hedged(&self) -> (u64, u64) {
        let counters = self.0.bed.gateway.copies_status(self.0.bed.now, 0).unwrap().counters;
        (counters.hedged_reads, counters.hedges_first)
    }
}

#[test]
fn the_other_copy_answers_for_one_that_is_late() {
    let mut bed = Bed::after(40);
    let (late, taken) = bed.read_unanswered(3, 512);
    bed.pass(Duration::from_millis(1));
    assert_eq!(bed.hedged(), (0, 0), "it is not late yet");
    bed.pass(LATE);
    assert_eq!(bed.hedged(), (1, 0));
    assert_eq!(bed.0.bed.answer(1 - late), 1);
    assert_eq!((bed.0.bed.ended(), bed.hedged()), (1, (1, 1)));
    bed.answer_taken(late, &taken);
    assert_eq!((bed.0.bed.ended(), bed.0.bed.gateway.link_out(LinkId(late)).len()), (0, 0), "it leads to nothing");
    bed.read(3, 512);
    assert_eq!(bed.0.bed.answer(0) + bed.0.bed.answer(1), 1);
    assert_eq!(bed.0.bed.ended(), 1);
}

#[test]
fn the_second_answer_leads_to_nothing_if_the_first_copy_was_faster_after_all() {
    for second in [Ok(()), Err(Failure::Io)] {
        let mut bed = Bed::after(40);
        let (late, taken) = bed.read_unanswered(3, 512);
        bed.pass(LATE);
        bed.answer_taken(late, &taken);
        assert_eq!((bed.0.bed.ended(), bed.hedged()), (1, (1, 0)));
        assert_eq!(bed.0.bed.answer_with(1 - late, |_| second), 1);
        bed.0.bed.turn();
        assert_eq!((bed.0.bed.ended(), bed.hedged()), (0, (1, 0)));
    }
}

#[test]
fn a_second_question_that_fails_fails_no_read() {
    let mut bed = Bed::after(40);
    let (late, taken) = bed.read_unanswered(3, 512);
    bed.pass(LATE);
    bed.0.bed.answer_with(1 - late, |_| Err(Failure::Io));
    assert_eq!(bed.0.bed.ended(), 0);
    bed.answer_taken(late, &taken);
    assert_eq!(bed.0.bed.ended(), 1);
}

#[test]
fn a_part_that_two_copies_answered_counts_once() {
    let mut bed = Bed::after(40);
    // Of two chunks, each of which is read from another node.
    let first = (0..CHUNKS - 1).find(|&chunk| bed.home(chunk) != bed.home(chunk + 1)).unwrap();
    let late = bed.home(first);
    let other = 1 - late;
    // The other node's part waits until it has answered this, so that it is silent for a shorter time.
    bed.read(first + 1, 512);
    let before = bed.take(other);
    bed.0.bed.submit(bed.0.client, Op::Read, (first + 1) * CopiesBed::CHUNK_BYTES - 512, 1024);
    bed.0.bed.turn();
    let late_part = bed.take(late);
    bed.pass(Duration::from_micros(1_900));
    bed.answer_taken(other, &before);
    assert_eq!((bed.0.bed.ended(), bed.hedged()), (1, (0, 0)));
    let other_part = bed.take(other);
    assert!(!late_part.is_empty() && !other_part.is_empty());
    bed.pass(Duration::from_millis(3));
    assert_eq!(bed.0.bed.answer(other), 1, "the late part, asked of it as well");
    assert_eq!((bed.0.bed.ended(), bed.hedged()), (0, (1, 1)));
    bed.answer_taken(late, &late_part);
    assert_eq!(bed.0.bed.ended(), 0, "the other part is not there");
    bed.answer_taken(other, &other_part);
    assert_eq!(bed.0.bed.ended(), 1);
}

#[test]
fn one_read_in_twenty_is_asked_twice() {
    for (before, hedged) in [(18, 0), (19, 1)] {
        let mut bed = Bed::after(before);
        bed.read_unanswered(3, 512);
        bed.pass(LATE);
        assert_eq!(bed.hedged().0, hedged, "after {before} others");
    }
}

#[test]
fn long_reads_are_not_asked_twice() {
    for (len_bytes, hedged) in [(64 * KIB as u32, 1), (64 * KIB as u32 + 1, 0)] {
        let mut bed = Bed::after(40);
        bed.read_unanswered(3, len_bytes);
        bed.pass(LATE);
        assert_eq!(bed.hedged().0, hedged, "{len_bytes} bytes");
    }
}

#[test]
fn where_all_nodes_have_much_to_do_nothing_is_asked_twice() {
    for (of_each, is_hedged) in [(4, true), (5, false)] {
        let mut bed = Bed::after(200);
        let homes: Vec<usize> = (0..CHUNKS).map(|chunk| bed.home(chunk)).collect();
        for node in 0..2 {
            let chunk = (0..CHUNKS).find(|&chunk| homes[chunk as usize] == node).unwrap() * CopiesBed::CHUNK_BYTES;
            for read in 0..of_each {
                bed.0.bed.submit(bed.0.client, Op::Read, chunk + 512 * read, 512);
            }
            bed.0.bed.turn();
            // The other has had its reads for a shorter time, so it is expected to be faster.
            bed.pass(Duration::from_micros(1_500));
        }
        bed.pass(LATE);
        assert_eq!(bed.hedged().0 > 0, is_hedged, "{of_each} each");
    }
}

#[test]
fn reads_that_no_other_copy_would_answer_sooner_stay_where_they_wait() {
    let mut bed = Bed::after(10);
    let now = bed.0.bed.now;
    bed.0.bed.gateway.link_closed(now, LinkId(1), "it is gone");
    bed.read(0, 512);
    bed.0.bed.turn();
    // The one that is left has two batches, and the rest waits.
    (0..64).for_each(|read| bed.read(read % CHUNKS, 512));
    bed.pass(10 * LATE);
    let counters = bed.0.bed.gateway.copies_status(bed.0.bed.now, 0).unwrap().counters;
    assert_eq!((counters.rerouted_reads, counters.hedged_reads), (0, 0));
    let mut ended = 0;
    while bed.0.bed.answer(0) > 0 {
        bed.pass(Duration::from_millis(20));
        ended += bed.0.bed.ended();
    }
    assert_eq!(ended, 65);
}

#[test]
fn a_read_that_goes_to_the_same_node_again_went_nowhere_else() {
    let mut bed = Bed(CopiesBed::build(1, (CHUNKS, Marks::default()), |_| (), |_| ()));
    bed.0.pass(Duration::ZERO);
    let (node, _) = bed.read_unanswered(3, 512);
    let now = bed.0.bed.now;
    bed.0.bed.gateway.link_closed(now, LinkId(node), "it is gone");
    // Its device restarts, and it has the only copy.
    bed.0.pass(Duration::from_secs(1));
    let (id, size_bytes) = ([node as u8 + 1; 16], CHUNKS * CopiesBed::CHUNK_BYTES);
    let again = Welcome { extent_id: id, boot_id: [7; 16], keeps_alive: false, ..welcome(size_bytes) };
    bed.0.bed.link(node, &again);
    bed.0.pass(Duration::ZERO);
    assert_eq!((bed.0.bed.answer(node), bed.0.bed.ended()), (1, 1));
    let counters = bed.0.bed.gateway.copies_status(bed.0.bed.now, 0).unwrap().counters;
    assert_eq!((counters.reboots, counters.rerouted_reads), (1, 0));
}

/// A node has just taken long for a read of this chunk, whose home it is.
fn after_a_slow_read() -> (Bed, usize, u64) {
    let mut bed = Bed::after(40);
    let slow = 1;
    let chunk = bed.chunk_of(slow);
    bed.read(chunk, 512);
    let taken = bed.take(slow);
    bed.pass(Duration::from_millis(3));
    assert_eq!(bed.0.bed.answer(1 - slow), 1, "it is late");
    bed.pass(4 * LATE);
    bed.answer_taken(slow, &taken);
    assert_eq!(bed.0.bed.ended(), 1);
    (bed, slow, chunk)
}

#[test]
fn whether_a_slow_node_is_fast_again_is_found_out_by_one_read() {
    let (mut bed, slow, chunk) = after_a_slow_read();
    bed.pass(Duration::from_millis(900));
    assert_eq!(bed.home(chunk), 1 - slow, "it was slow just now");
    bed.pass(Duration::from_millis(200));
    bed.read(chunk, 512);
    let taken = bed.take(slow);
    assert!(!taken.is_empty(), "who knows");
    assert_eq!(bed.home(chunk), 1 - slow, "one read is enough to know");
    bed.answer_taken(slow, &taken);
    assert_eq!(bed.0.bed.ended(), 1);
    assert_eq!(bed.home(chunk), slow, "it is fast");
}

#[test]
fn a_slow_node_is_read_again_though_it_has_changes_all_the_time() {
    let (mut bed, slow, chunk) = after_a_slow_read();
    // A write that it does not answer, and the other does.
    bed.write((chunk + 1) % CHUNKS);
    bed.take(slow);
    bed.0.bed.answer(1 - slow);
    bed.pass(Duration::from_millis(900));
    assert_eq!(bed.home(chunk), 1 - slow, "it was slow just now");
    bed.pass(Duration::from_millis(200));
    assert_eq!(bed.home(chunk), slow, "who knows");
    assert_eq!(bed.home(chunk), slow, "it is fast");
}

#[test]
fn a_node_that_takes_long_for_a_change_is_not_late_with_reads() {
    let mut bed = Bed::after(40);
    let (busy, chunk) = (1, bed.chunk_of(1));
    bed.write((chunk + 1) % CHUNKS);
    let before = bed.take(busy);
    bed.0.bed.answer(1 - busy);
    bed.pass(4 * LATE);
    bed.read(chunk, 512);
    assert_eq!(bed.0.bed.answer(1 - busy), 0, "it is asked");
    bed.pass(Duration::from_millis(1));
    assert_eq!(bed.hedged(), (0, 0), "and is not late after a millisecond");
    assert_eq!(bed.0.bed.answer(busy), 1);
    assert_eq!(bed.0.bed.ended(), 1);
    bed.answer_taken(busy, &before);
    assert_eq!(bed.0.bed.ended(), 1, "the write");
    // The same if a read was sent together with a change, and is answered before it.
    bed.0.bed.submit(bed.0.client, Op::Write, (chunk + 1) % CHUNKS * CopiesBed::CHUNK_BYTES, 512);
    bed.read(chunk, 512);
    let both = bed.take(busy);
    bed.answer_reads(busy, &both);
    assert_eq!(bed.0.bed.ended(), 1, "the read");
    bed.0.bed.answer(1 - busy);
    bed.pass(4 * LATE);
    bed.read(chunk, 512);
    assert_eq!((bed.0.bed.answer(1 - busy), bed.0.bed.answer(busy)), (0, 1));
}

#[test]
fn what_cannot_be_sent_for_changes_that_take_long_goes_to_another_copy() {
    let mut bed = Bed::after(40);
    let (busy, chunk) = (1, bed.chunk_of(1));
    // As many batches as may be out.
    for other in [1, 2] {
        bed.write((chunk + other) % CHUNKS);
        bed.take(busy);
        bed.0.bed.answer(1 - busy);
    }
    bed.read(chunk, 512);
    bed.pass(Duration::from_millis(1));
    assert_eq!((bed.take(busy).len(), bed.0.bed.ended()), (0, 0), "it waits");
    bed.pass(LATE);
    assert_eq!(bed.0.bed.answer(1 - busy), 1);
    assert_eq!((bed.0.bed.ended(), bed.hedged()), (1, (0, 0)), "and is asked once");
    let counters = bed.0.bed.gateway.copies_status(bed.0.bed.now, 0).unwrap().counters;
    assert_eq!(counters.rerouted_reads, 1);
    bed.read(chunk, 512);
    assert_eq!(bed.0.bed.answer(1 - busy), 1, "at once, as long as that lasts");
}

#[test]
fn a_read_that_begins_anew_earns_nothing() {
    for (before, hedged) in [(17, 0), (18, 1)] {
        let mut bed = Bed::after(before);
        let (chunk, late) = (3, 5);
        let (home, taken) = bed.read_unanswered(chunk, 512);
        // A write of the same chunk fails on the copy that is read: what that shows may be nowhere else.
        bed.write(chunk);
        assert_eq!(bed.0.bed.answer_with(home, |_| Err(Failure::NoSpace)), 1);
        assert_eq!(bed.0.bed.answer(1 - home), 1);
        bed.0.pass(Duration::ZERO);
        assert_eq!(bed.0.bed.ended(), 1, "the write");
        bed.answer_taken(home, &taken);
        assert_eq!((bed.0.bed.answer(1 - home), bed.0.bed.ended()), (1, 1), "it is read anew from the other");
        bed.read_unanswered(late, 512);
        bed.pass(LATE);
        assert_eq!(bed.hedged().0, hedged, "after {before} others");
    }
}

#[test]
fn nothing_is_looked_for_where_no_read_can_be_asked_twice() {
    let wakes_in = |copies, is_home_only| {
        let set = |spec: &mut CopiesSpec| spec.home_only = is_home_only;
        let mut bed = Bed(CopiesBed::build(copies, (CHUNKS, Marks::default()), set, |_| ()));
        bed.0.pass(Duration::ZERO);
        bed.0.bed.submit(bed.0.client, Op::Read, 0, 512);
        bed.pass(Duration::ZERO);
        bed.0.bed.gateway.next_timeout().unwrap() - bed.0.bed.now
    };
    let late = Duration::from_millis(2);
    assert_eq!(wakes_in(2, false), late);
    assert!(wakes_in(2, true) > late);
    assert!(wakes_in(1, false) > late);
}

#[test]
fn a_second_question_needs_memory() {
    let len_bytes = 4096;
    let bed = |memory_bytes| {
        let configure = |config: &mut GatewayConfig| config.memory_bytes = memory_bytes;
        Bed::begun(40, CopiesBed::build(2, (CHUNKS, Marks::default()), |_| (), configure))
    };
    let mut roomy = bed(1 << 20);
    roomy.read_unanswered(3, len_bytes);
    let of_read = roomy.used_bytes();
    roomy.pass(LATE);
    assert_eq!(roomy.hedged(), (1, 0));
    let of_both = roomy.used_bytes();
    assert!(of_both >= of_read + u64::from(len_bytes));
    for (memory_bytes, hedged) in [(of_both - 1, 0), (of_both, 1), (of_both + 1, 1)] {
        let mut bed = bed(memory_bytes);
        let (late, taken) = bed.read_unanswered(3, len_bytes);
        bed.pass(LATE);
        assert_eq!(bed.hedged().0, hedged, "{memory_bytes} of {of_both} bytes");
        bed.answer_taken(late, &taken);
        bed.0.bed.answer(1 - late);
        assert_eq!((bed.0.bed.ended(), bed.used_bytes()), (1, 0), "all is given back");
    }
}
