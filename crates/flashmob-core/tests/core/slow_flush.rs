//! Flushes that take long: progress of a node's store keeps them going, and nothing else, and not for ever.

use std::time::Duration;

use crate::testing::{
    CopiesBed, FlashBed, Frame, GatewayBed, NOW, NodeBed, Reads, answer_with, bytes_of, frames, gateway_config, hello,
    node_config, volume, welcome,
};
use flashmob_core::gateway::{ClientId, FLUSH_TIMEOUTS_MAX, LinkId, LinkPhase, VolumeSpec};
use flashmob_core::node::{LinkId as NodeLink, PROGRESS_EVERY};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::MIB;
use flashmob_core::wire::batch::{WirePiece, decode_batch, encode_batch};
use flashmob_core::wire::condition::{Alive, decode_alive, put_alive};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::Hello;

const EVICT_AFTER: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(10);
const STEP: Duration = CopiesBed::STEP;

/// A node played by the test.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// It leaves batches of this operation alone unanswered.
    leaves: Option<Op>,
    leaves_flushes: bool,
    /// Its store makes progress.
    progresses: bool,
}

const GOOD: Manner = Manner { leaves: None, leaves_flushes: false, progresses: false };
const SLOW: Manner = Manner { leaves: None, leaves_flushes: true, progresses: true };
const STUCK: Manner = Manner { progresses: false, ..SLOW };

/// What a node left unanswered.
#[derive(Debug, Default)]
struct Left {
    batches: Vec<Frame>,
}

impl Left {
    /// The node does what it was asked on a link, in its manner.
    fn serve(&mut self, bed: &mut GatewayBed, link: usize, manner: Manner) {
        let id = LinkId(link);
        let mut bytes = Vec::new();
        let mut asked = std::mem::take(&mut self.batches);
        asked.extend(frames(&bed.gateway.link_out(id).take_all()));
        for frame in asked {
            match frame.kind {
                FrameKind::Alive if decode_alive(&frame.meta) == Ok(Alive::Probe) => put_alive(&mut bytes, Alive::Here),
                FrameKind::Batch => {
                    let ops = ops_of(&frame);
                    let is_left = |op: &Op| manner.leaves == Some(*op) || (manner.leaves_flushes && *op == Op::Flush);
                    if ops.iter().all(is_left) {
                        self.batches.push(frame);
                    } else {
                        answer_with(&frame, |_| Ok(()), &mut bytes);
                    }
                }
                _ => {}
            }
        }
        if manner.progresses {
            put_alive(&mut bytes, Alive::Progress);
        }
        if !bytes.is_empty() && bed.gateway.status().volumes[0].nodes[link].links[0].phase == LinkPhase::Ready {
            bed.gateway.link_rx(id).extend(&bytes);
            bed.gateway.process_link(bed.now, id);
        }
    }
}

fn ops_of(batch: &Frame) -> Vec<Op> {
    let mut pieces = Vec::new();
    decode_batch(&batch.meta, batch.payload.len(), &mut pieces).expect("a batch");
    pieces.iter().map(|piece| piece.op).collect()
}

/// A volume with copies on two nodes, the second of which has manners of its own.
struct Copies {
    copies: CopiesBed,
    left: [Left; 2],
}

impl Copies {
    fn new() -> Copies {
        Copies::settling_after(Duration::from_secs(3600))
    }

    fn settling_after(settle_after: Duration) -> Copies {
        let copies = CopiesBed::alive(1, TIMEOUT, |spec| {
            (spec.evict_after, spec.settle_after) = (EVICT_AFTER, settle_after);
        });
        let mut bed = Copies { copies, left: Default::default() };
        bed.go_on(STEP, GOOD);
        bed
    }

    fn submit(&mut self, op: Op) {
        self.copies.bed.submit(self.copies.client, op, 0, if op == Op::Flush { 0 } else { 512 });
    }

    /// Time goes by.
    fn go_on(&mut self, time: Duration, second: Manner) {
        let end = self.copies.bed.now + time;
        while self.copies.bed.now < end {
            self.copies.pass(STEP.min(end - self.copies.bed.now));
            for (node, manner) in [GOOD, second].into_iter().enumerate() {
                self.left[node].serve(&mut self.copies.bed, node, manner);
            }
            self.copies.pass(Duration::ZERO);
        }
    }

    /// A write that is done, and a flush that is not.
    fn begin_flush(&mut self) {
        self.submit(Op::Write);
        self.go_on(STEP * 5, GOOD);
        assert_eq!(self.copies.bed.ended(), 1);
        self.submit(Op::Flush);
        self.copies.pass(Duration::ZERO);
    }

    fn evictions(&self) -> u64 {
        self.copies.bed.gateway.copies_status(self.copies.bed.now, 0).expect("copies").counters.evictions
    }
}

#[test]
fn a_flush_with_which_the_store_makes_progress_puts_nobody_out_and_is_answered() {
    let mut bed = Copies::new();
    bed.begin_flush();
    bed.go_on(TIMEOUT * 4, SLOW);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (0, 0));
    bed.go_on(STEP, GOOD);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (0, 1));
}

#[test]
fn a_flush_without_progress_puts_its_node_out_and_goes_on_without_it() {
    let mut bed = Copies::new();
    bed.begin_flush();
    bed.go_on(EVICT_AFTER - STEP, STUCK);
    assert_eq!(bed.evictions(), 0);
    bed.go_on(STEP * 3, STUCK);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (1, 1));
}

#[test]
fn a_store_that_makes_no_progress_any_more_is_given_as_long_as_any() {
    let mut bed = Copies::new();
    bed.begin_flush();
    bed.go_on(TIMEOUT, SLOW);
    bed.go_on(EVICT_AFTER - STEP * 2, STUCK);
    assert_eq!(bed.evictions(), 0);
    bed.go_on(STEP * 4, STUCK);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (1, 1));
}

#[test]
fn progress_is_no_answer_to_changes_or_reads() {
    for op in [Op::Write, Op::WriteZeroes] {
        let mut bed = Copies::new();
        bed.begin_flush();
        bed.go_on(EVICT_AFTER * 2, SLOW);
        bed.submit(op);
        bed.go_on(EVICT_AFTER * 2, Manner { leaves: Some(op), ..SLOW });
        assert_eq!((bed.evictions(), bed.copies.bed.ended()), (1, 2), "{op:?}: done without it, and so is the flush");
    }
    // A read goes to one of the nodes.
    for node in 0..2 {
        let mut bed = Copies::new();
        bed.begin_flush();
        bed.submit(Op::Read);
        let end = bed.copies.bed.now + EVICT_AFTER * 2;
        while bed.copies.bed.now < end {
            bed.copies.pass(STEP);
            for at in 0..2 {
                let manner = if at == node { Manner { leaves: Some(Op::Read), ..SLOW } } else { GOOD };
                bed.left[at].serve(&mut bed.copies.bed, at, manner);
            }
        }
        let was_asked = bed.left[node].batches.iter().any(|batch| ops_of(batch) == [Op::Read]);
        assert_eq!(bed.evictions(), u64::from(was_asked), "node {node}");
    }
}

#[test]
fn changes_go_on_beside_slow_flushes_though_these_fill_the_link() {
    let mut bed = Copies::new();
    bed.begin_flush();
    // As many batches out as a link takes.
    bed.go_on(STEP, SLOW);
    for _ in 0..4 {
        bed.submit(Op::Flush);
        bed.go_on(STEP * 2, SLOW);
    }
    assert_eq!(bed.copies.bed.ended(), 0);
    for write in 0..20 {
        bed.submit(Op::Write);
        bed.go_on(EVICT_AFTER / 2, SLOW);
        assert_eq!((bed.evictions(), bed.copies.bed.ended()), (0, 1), "write {write}");
    }
}

#[test]
fn without_progress_flushes_fill_a_link_as_anything_does() {
    let mut bed = Copies::new();
    bed.begin_flush();
    for _ in 0..4 {
        bed.submit(Op::Flush);
        bed.go_on(STEP, STUCK);
    }
    bed.submit(Op::Write);
    bed.go_on(STEP, STUCK);
    assert_eq!(bed.copies.bed.ended(), 0);
}

#[test]
fn after_nine_timeouts_others_go_on_without_a_store_that_makes_progress() {
    let mut bed = Copies::new();
    bed.begin_flush();
    bed.go_on(TIMEOUT * (FLUSH_TIMEOUTS_MAX - 1) - STEP * 2, SLOW);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (0, 0));
    bed.go_on(STEP * 4, SLOW);
    assert_eq!((bed.evictions(), bed.copies.bed.ended()), (1, 1), "the other has what was flushed");
}

#[test]
fn flushes_of_the_gateways_own_may_be_as_slow() {
    for (manner, evictions) in [(SLOW, 0), (STUCK, 1)] {
        let mut bed = Copies::settling_after(Duration::from_secs(1));
        bed.submit(Op::Write);
        bed.go_on(EVICT_AFTER * 4, manner);
        assert_eq!(bed.copies.bed.ended(), 1);
        assert!(!bed.left[1].batches.is_empty() || evictions > 0, "it was asked to flush before the chunk settles");
        assert_eq!(bed.evictions(), evictions, "{manner:?}");
    }
}

/// A linear volume on one node.
struct Linear {
    bed: GatewayBed,
    client: ClientId,
    left: Left,
}

impl Linear {
    /// A flush is out on the first of its links.
    fn new(links: u16) -> Linear {
        let spec = VolumeSpec { links, timeout: TIMEOUT, ..volume(&[MIB]) };
        let mut bed = GatewayBed::new(gateway_config(spec));
        (0..usize::from(links)).for_each(|link| bed.link(link, &welcome(MIB)));
        let client = bed.gateway.native_opened(0).expect("a volume");
        let mut linear = Linear { bed, client, left: Left::default() };
        linear.bed.submit(client, Op::Write, 0, 512);
        linear.go_on(STEP, GOOD);
        assert_eq!(linear.bed.ended(), 1);
        linear.bed.submit(client, Op::Flush, 0, 0);
        linear.bed.turn();
        linear
    }

    fn go_on(&mut self, time: Duration, manner: Manner) {
        let end = self.bed.now + time;
        while self.bed.now < end {
            self.bed.pass(STEP.min(end - self.bed.now));
            self.left.serve(&mut self.bed, 0, manner);
            self.bed.turn();
        }
    }

    /// How its requests ended since this was last asked.
    fn results(&mut self) -> Vec<Option<Failure>> {
        std::mem::take(self.bed.gateway.completions()).into_iter().map(|c| c.result.err()).collect()
    }
}

#[test]
fn a_clients_flush_may_take_longer_than_the_timeout_while_the_store_makes_progress() {
    let mut linear = Linear::new(1);
    linear.go_on(TIMEOUT * 5, SLOW);
    assert_eq!((linear.results(), linear.bed.phase(0)), (vec![], LinkPhase::Ready));
    linear.go_on(STEP, GOOD);
    assert_eq!(linear.results(), [None]);
}

#[test]
fn a_clients_flush_without_progress_fails_as_any_request() {
    let mut linear = Linear::new(1);
    linear.go_on(TIMEOUT - STEP, STUCK);
    assert_eq!(linear.results(), []);
    linear.go_on(STEP * 2, STUCK);
    assert_eq!(linear.results(), [Some(Failure::Io)]);
}

#[test]
fn a_clients_flush_fails_after_ten_timeouts_whatever_the_store_does() {
    assert_eq!(FLUSH_TIMEOUTS_MAX, 10);
    let mut linear = Linear::new(1);
    linear.go_on(TIMEOUT * FLUSH_TIMEOUTS_MAX - STEP * 2, SLOW);
    assert_eq!((linear.results(), linear.bed.phase(0)), (vec![], LinkPhase::Ready));
    linear.go_on(STEP * 4, SLOW);
    assert_eq!(linear.results(), [Some(Failure::Io)]);
}

#[test]
fn a_read_beside_a_slow_flush_fails_as_ever_and_the_flush_goes_on() {
    let mut linear = Linear::new(1);
    linear.go_on(STEP, SLOW);
    linear.bed.submit(linear.client, Op::Read, 0, 512);
    let leaves_reads = Manner { leaves: Some(Op::Read), ..SLOW };
    linear.go_on(TIMEOUT - STEP, leaves_reads);
    assert_eq!(linear.results(), []);
    linear.go_on(STEP * 2, leaves_reads);
    assert_eq!(linear.results(), [Some(Failure::Io)], "the read");
    assert_eq!(linear.bed.phase(0), LinkPhase::Ready);
    linear.go_on(TIMEOUT * 2, leaves_reads);
    assert_ne!(linear.bed.phase(0), LinkPhase::Ready, "a batch with something else was never answered");
}

#[test]
fn what_waits_behind_a_slow_flush_goes_on_whatever_other_links_are_silent_for() {
    let mut linear = Linear::new(2);
    let is_idle = |linear: &mut Linear| linear.bed.gateway.link_out(LinkId(1)).take_all().is_empty();
    assert!(is_idle(&mut linear));
    linear.go_on(STEP, SLOW);
    let leaves_writes = Manner { leaves: Some(Op::Write), ..SLOW };
    linear.bed.submit(linear.client, Op::Write, 0, 512);
    linear.go_on(STEP, leaves_writes);
    linear.bed.submit(linear.client, Op::Write, 0, 512);
    // The node answers others, so that the first write only waits for its turn, and the second for the first.
    for _ in 0..12 {
        linear.bed.submit(linear.client, Op::Read, 512, 512);
        linear.go_on(TIMEOUT / 10, leaves_writes);
    }
    assert_eq!((linear.results(), is_idle(&mut linear)), (vec![None; 12], true));
    linear.go_on(STEP * 2, GOOD);
    assert_eq!(linear.results(), [None; 3]);
}

/// A node that was asked to flush on a link.
fn flushing(hello: &Hello) -> NodeBed {
    let mut bed = NodeBed::greeted(node_config(4096), Reads::NotTried, hello);
    let link = bed.link;
    let _ = bed.sent(link);
    flush(&mut bed, link, 1);
    assert_eq!(bed.ops.len(), 1);
    bed
}

fn flush(bed: &mut NodeBed, link: NodeLink, seq: u32) {
    let piece = WirePiece { op: Op::Flush, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 0 };
    bed.receive(link, &bytes_of(|out| encode_batch(out, seq, &[piece], |_| ())));
}

/// How often a link was told of progress since the last look.
fn told(bed: &mut NodeBed, link: NodeLink) -> usize {
    let is_progress =
        |frame: &Frame| frame.kind == FrameKind::Alive && decode_alive(&frame.meta) == Ok(Alive::Progress);
    bed.sent(link).iter().filter(|frame| is_progress(frame)).count()
}

#[test]
fn a_node_tells_of_progress_on_the_links_of_flushes_that_it_has() {
    let mut bed = flushing(&hello());
    let (link, other) = (bed.link, bed.open_link(&Hello { link: 1, ..hello() }));
    bed.node.store_progressed(NOW);
    assert_eq!((told(&mut bed, link), told(&mut bed, other)), (1, 0));
    flush(&mut bed, other, 1);
    bed.node.store_progressed(NOW + PROGRESS_EVERY);
    assert_eq!((told(&mut bed, link), told(&mut bed, other)), (1, 1));
    bed.end_one();
    bed.node.store_progressed(NOW + PROGRESS_EVERY * 2);
    assert_eq!((told(&mut bed, link), told(&mut bed, other)), (0, 1), "what is answered needs no progress");
}

#[test]
fn progress_is_told_ten_times_a_second_at_most() {
    let mut bed = flushing(&hello());
    let link = bed.link;
    for (ms, expected) in [(0, 1), (1, 0), (99, 0), (100, 1), (199, 0), (201, 1)] {
        bed.node.store_progressed(NOW + Duration::from_millis(ms));
        assert_eq!(told(&mut bed, link), expected, "after {ms} ms");
    }
}

#[test]
fn a_gateway_from_before_hears_nothing_of_progress() {
    for (keeps_alive, hears_progress) in [(true, false), (false, false), (false, true)] {
        let mut bed = flushing(&Hello { keeps_alive, hears_progress, ..hello() });
        let link = bed.link;
        bed.node.store_progressed(NOW);
        assert_eq!(bed.sent(link), [], "{keeps_alive} {hears_progress}");
    }
}

#[test]
fn a_gateway_that_reads_nothing_does_not_fill_the_memory_with_progress() {
    let mut bed = flushing(&hello());
    for n in 0..100_000 {
        bed.node.store_progressed(NOW + PROGRESS_EVERY * n);
    }
    assert!(bed.node.out(bed.link).expect("a link").len() < 80 * 1024);
}

#[test]
fn a_gateway_that_tells_of_progress_is_not_understood() {
    let mut bed = flushing(&hello());
    let link = bed.link;
    bed.receive(link, &bytes_of(|out| put_alive(out, Alive::Progress)));
    assert!(bed.closed().is_some());
}

#[test]
fn slow_flushes_leave_others_room_in_the_store() {
    let mut bed =
        NodeBed::new(flashmob_core::node::NodeConfig { store_depth: 2, ..node_config(4096) }, Reads::NotTried);
    let link = bed.link;
    (1..=2).for_each(|seq| flush(&mut bed, link, seq));
    let read = WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 1 };
    bed.receive(link, &bytes_of(|out| encode_batch(out, 3, &[read], |_| ())));
    assert_eq!(bed.ops.len(), 2, "the store is full");
    bed.node.store_progressed(NOW);
    bed.turn();
    assert_eq!(bed.ops.len(), 3, "flushes that take long do not keep it so");
    (0..3).for_each(|_| bed.end_one());
    assert_eq!(bed.node.status().in_store, 0);
}

/// Two of three nodes do not flush, and are linked again as often as they are put out, one while the other is there.
#[test]
fn a_flush_goes_on_without_nodes_that_are_put_out_in_turn() {
    let mut bed = FlashBed::new(3, 3, 1, |spec| {
        (spec.evict_after, spec.settle_after) = (EVICT_AFTER, Duration::from_secs(3600));
    });
    bed.bed.submit(bed.client, Op::Write, 0, 512);
    bed.serve();
    bed.bed.submit(bed.client, Op::Flush, 0, 0);
    (1..3).for_each(|n| bed.nodes[n].is_silent = true);
    bed.serve();
    assert_eq!(bed.results(), [Ok(vec![])], "the write");
    let evictions = |bed: &FlashBed| bed.bed.gateway.copies_status(bed.bed.now, 0).expect("copies").counters.evictions;
    let until_evicted = |bed: &mut FlashBed, number: u64| {
        let from = bed.bed.now;
        while evictions(bed) < number && bed.bed.now - from < EVICT_AFTER * 2 {
            bed.pass(STEP);
            tell(bed, 0, Alive::Here);
            if number == 1 && bed.bed.now - from < EVICT_AFTER / 2 {
                tell(bed, 2, Alive::Progress);
            }
        }
    };
    until_evicted(&mut bed, 1);
    assert_eq!((evictions(&bed), bed.results()), (1, vec![]), "the third node may still do it");
    bed.until_connecting(1);
    bed.link(1);
    until_evicted(&mut bed, 2);
    assert_eq!((evictions(&bed), bed.results()), (2, vec![Ok(vec![])]));
}

/// A node says something of itself.
fn tell(bed: &mut FlashBed, node: usize, what: Alive) {
    let mut bytes = Vec::new();
    put_alive(&mut bytes, what);
    bed.bed.gateway.link_rx(LinkId(node)).extend(&bytes);
    bed.bed.gateway.process_link(bed.bed.now, LinkId(node));
}
