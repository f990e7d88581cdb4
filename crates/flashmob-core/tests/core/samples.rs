//! A request that is followed is told of once, with every stage in order in each clock, and none is kept for ever.

use std::time::Duration;

use crate::testing::{FakeHost, Reads, gateway_config, node_config, node_with_link, volume};
use flashmob_core::gateway::{ClientId, Gateway, IN_FLIGHT_MAX, LinkId, NativeCall, NoLocal, Sample, Sampling};
use flashmob_core::node::{Node, NodeConfig, StoreDone};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::{MIB, Time};
use flashmob_core::wire::trace::Way;

const NODES: usize = 2;
/// What each node's clock says at the gateway's time zero, less the gateway's own.
const AHEAD_NS: [i64; NODES] = [7_000_000_000, -3_000_000_000];
const GATEWAY_CLOCK_NS: u64 = 10_000_000_000;

/// A node's surroundings: reading the clock takes time.
fn device(now: Time, reads: Reads) -> FakeHost {
    FakeHost { tick: Duration::from_nanos(70), ..FakeHost::new(now, reads) }
}

struct World {
    gateway: Gateway,
    nodes: Vec<(Node, flashmob_core::node::LinkId)>,
    now: Time,
    reads: Reads,
    client: ClientId,
    cookies: u64,
    /// Their bytes go nowhere.
    silent: [bool; NODES],
}

impl World {
    fn new(one_in: u64, reads: Reads) -> World {
        let mut gateway = Gateway::new(gateway_config(volume(&[MIB; NODES]))).expect("a layout");
        gateway.set_sampling(Sampling { one_in, clock_start_ns: GATEWAY_CLOCK_NS });
        let now = Time(1_000);
        gateway.handle_timeout(now);
        while gateway.poll_action().is_some() {}
        let nodes: Vec<_> = (0..NODES).map(node).collect();
        (0..NODES).for_each(|link| gateway.link_connected(now, LinkId(link)));
        let client = gateway.native_opened(0).expect("a client");
        let mut world = World { gateway, nodes, now, reads, client, cookies: 0, silent: [false; NODES] };
        world.run();
        world
    }

    fn ask(&mut self, op: Op, spans: &[(u64, u32)]) {
        let payload = if op == Op::Write { vec![1; spans.iter().map(|s| s.1 as usize).sum()] } else { Vec::new() };
        self.cookies += 1;
        let call = NativeCall { cookie: self.cookies, op, flags: OpFlags::NONE, spans: spans.to_vec(), payload };
        self.gateway.submit(self.now, self.client, call, &mut NoLocal);
    }

    fn pass(&mut self, micros: u64) {
        self.now = self.now + Duration::from_micros(micros);
    }

    /// Until nothing moves any more.
    fn run(&mut self) {
        for _ in 0..8 {
            self.gateway.turn(self.now, &mut NoLocal);
            self.pass(3);
            for index in 0..NODES {
                self.carry(index);
            }
        }
        while self.gateway.poll_action().is_some() {}
    }

    fn carry(&mut self, index: usize) {
        let link = LinkId(index);
        let bytes = self.gateway.link_out(link).take_all();
        // An end that has taken all of it is told so, though the queue is empty already.
        self.gateway.link_wrote(self.now, link, 0);
        if self.silent[index] || bytes.is_empty() {
            return;
        }
        self.pass(40);
        let (node, id) = &mut self.nodes[index];
        node.rx(*id).expect("a link").extend(&bytes);
        let mut host = device(self.now, self.reads);
        node.process(self.now, *id, &mut host);
        node.turn(self.now, &mut host);
        let ops: Vec<_> = node.store_ops().drain(..).collect();
        for op in ops {
            self.now = self.now + Duration::from_micros(500);
            let (started, finished) = (self.now, self.now + Duration::from_micros(120));
            node.store_done(StoreDone { id: op.id, result: Ok(()), data: op.data, started, finished });
            self.now = finished;
        }
        self.now = self.now + Duration::from_micros(9);
        node.turn(self.now, &mut device(self.now, self.reads));
        let answer = node.out(*id).expect("a link").take_all();
        node.wrote(*id, 0);
        self.pass(60);
        self.gateway.link_rx(link).extend(&answer);
        self.gateway.process_link(self.now, link);
    }

    fn samples(&self) -> Vec<Sample> {
        self.gateway.samples().cloned().collect()
    }
}

fn node(number: usize) -> (Node, flashmob_core::node::LinkId) {
    let (mut node, link) = node_with_link(NodeConfig { extent_id: [number as u8; 16], ..node_config(MIB) });
    node.set_clock_start(GATEWAY_CLOCK_NS.saturating_add_signed(AHEAD_NS[number]));
    (node, link)
}

/// Every stage in order in each clock, and the node's clock within what is said of it.
fn check(sample: &Sample) {
    assert!(sample.received <= sample.queued && sample.queued <= sample.replied, "{sample:?}");
    for piece in &sample.pieces {
        let (sent, returned) = (piece.sent.expect("sent"), piece.returned.expect("returned"));
        let stages = [sample.queued, piece.batched, sent, returned, sample.replied];
        assert!(stages.is_sorted(), "{stages:?}");
        let times = piece.times.expect("times");
        assert!(times.stages_ns().is_sorted());
        let clock = piece.clock.expect("the clock");
        let off = clock.offset_ns.abs_diff(AHEAD_NS[piece.node]);
        assert!(off <= clock.error_ns, "off by {off} ns, said at most {}", clock.error_ns);
        assert!(clock.error_ns < 200_000, "{} ns", clock.error_ns);
        // What the node did lies between the two ways.
        let node_ns = times.replied_ns - times.received_ns;
        assert!(node_ns <= returned.nanos_since(piece.batched));
    }
}

#[test]
fn one_in_so_many_is_followed_and_the_first_is_one() {
    let mut world = World::new(10, Reads::Hit);
    for n in 0..35 {
        world.ask(Op::Read, &[(n * 4096, 4096)]);
        world.run();
    }
    let samples = world.samples();
    let offsets: Vec<u64> = samples.iter().map(|sample| sample.offset_bytes / 4096).collect();
    assert_eq!(offsets, [0, 10, 20, 30]);
    samples.iter().for_each(check);
    assert!(samples.iter().all(|s| s.pieces[0].times.is_some_and(|t| t.way == Way::AtOnce)));
    assert_eq!((world.gateway.samples_in_flight(), world.gateway.sample_counters().finished), (0, 4));
}

#[test]
fn none_is_followed_if_none_is_wanted() {
    let mut world = World::new(0, Reads::Hit);
    for n in 0..20 {
        world.ask(Op::Read, &[(n * 4096, 4096)]);
        world.run();
    }
    assert_eq!((world.samples().len(), world.gateway.sample_counters().begun), (0, 0));
    assert!(!world.gateway.wants_exact_time());
}

#[test]
fn a_read_that_misses_is_told_with_the_time_of_its_store() {
    let mut world = World::new(1, Reads::Miss);
    world.ask(Op::Read, &[(MIB + 8192, 4096)]);
    world.run();
    let samples = world.samples();
    check(&samples[0]);
    let times = samples[0].pieces[0].times.expect("times");
    assert_eq!((samples[0].pieces[0].node, times.way), (1, Way::Store));
    assert_eq!((times.op_offset_bytes, times.op_bytes), (8192, 4096));
    assert_eq!(times.finished_ns - times.started_ns, 120_000);
    assert!(times.started_ns - times.scheduled_ns >= 499_000, "it waited in the elevator");
}

#[test]
fn writes_flushes_and_requests_over_several_nodes_are_followed_too() {
    let mut world = World::new(1, Reads::Hit);
    world.ask(Op::Write, &[(MIB - 4096, 8192)]);
    world.run();
    world.ask(Op::Flush, &[]);
    world.run();
    world.ask(Op::Read, &[(MIB - 4096, 8192)]);
    world.run();
    let samples = world.samples();
    samples.iter().for_each(check);
    let ops: Vec<_> = samples.iter().map(|s| (s.op, s.pieces.len(), s.pieces_in_all)).collect();
    assert_eq!(ops, [(Op::Write, 2, 2), (Op::Flush, 2, 2), (Op::Read, 2, 2)]);
}

#[test]
fn of_a_call_with_many_parts_the_first_are_followed() {
    let mut world = World::new(1, Reads::Hit);
    let spans: Vec<(u64, u32)> = (0..500).map(|n| (n * 4096, 512)).collect();
    world.ask(Op::Read, &spans);
    world.run();
    let samples = world.samples();
    check(&samples[0]);
    assert_eq!((samples[0].pieces.len(), samples[0].pieces_in_all), (16, 500));
    assert_eq!(samples[0].pieces[0].batch_pieces, 256, "all of the node's travelled together");
}

#[test]
fn what_a_broken_link_takes_with_it_is_sent_again_and_told() {
    let mut world = World::new(1, Reads::Hit);
    world.silent[0] = true;
    world.ask(Op::Read, &[(0, 4096)]);
    world.run();
    assert_eq!(world.gateway.samples_in_flight(), 1);
    world.gateway.link_closed(world.now, LinkId(0), "cut");
    world.silent[0] = false;
    let (fresh, link) = node(0);
    world.nodes[0] = (fresh, link);
    world.pass(3_000_000);
    world.gateway.handle_timeout(world.now);
    world.gateway.link_connected(world.now, LinkId(0));
    world.run();
    let samples = world.samples();
    check(&samples[0]);
    assert_eq!((samples.len(), samples[0].pieces[0].retries), (1, 1));
    assert_eq!(world.gateway.samples_in_flight(), 0);
}

#[test]
fn a_request_that_fails_ends_its_sample_as_failed() {
    let mut world = World::new(1, Reads::Hit);
    world.silent = [true; NODES];
    world.ask(Op::Read, &[(MIB - 4096, 8192)]);
    world.run();
    for _ in 0..400 {
        world.pass(100_000);
        world.gateway.handle_timeout(world.now);
        while world.gateway.poll_action().is_some() {}
    }
    let samples = world.samples();
    assert_eq!((samples.len(), samples[0].failure), (1, Some(Failure::Io)));
    assert_eq!((world.gateway.samples_in_flight(), world.gateway.sample_counters().failed), (0, 1));
}

#[test]
fn clients_that_go_and_nodes_that_do_not_tell_leave_nothing() {
    let mut world = World::new(1, Reads::Hit);
    world.silent[0] = true;
    world.ask(Op::Read, &[(0, 4096)]);
    world.run();
    world.gateway.client_closed(world.client);
    let counters = world.gateway.sample_counters();
    assert_eq!((world.gateway.samples_in_flight(), counters.abandoned), (0, 1));

    // The answer comes, but not what is told behind it: the frame of times is cut off.
    let mut world = World::new(1, Reads::Hit);
    world.ask(Op::Read, &[(0, 4096)]);
    world.gateway.turn(world.now, &mut NoLocal);
    let bytes = world.gateway.link_out(LinkId(0)).take_all();
    let (node, id) = &mut world.nodes[0];
    node.rx(*id).expect("a link").extend(&bytes);
    node.process(world.now, *id, &mut device(world.now, Reads::Hit));
    let answer = node.out(*id).expect("a link").take_all();
    world.gateway.link_rx(LinkId(0)).extend(&answer[..answer.len() - 10]);
    world.gateway.process_link(world.now, LinkId(0));
    assert_eq!((world.gateway.completions().len(), world.gateway.samples_in_flight()), (1, 1));
    assert!(world.gateway.next_timeout().is_some(), "it is looked at again");
    world.pass(6_000_000);
    world.gateway.handle_timeout(world.now);
    assert_eq!((world.gateway.samples_in_flight(), world.gateway.sample_counters().untold), (0, 1));
    assert_eq!(world.samples().len(), 0);
}

#[test]
fn no_more_are_in_flight_than_there_is_room_for() {
    let mut world = World::new(1, Reads::Hit);
    world.silent[0] = true;
    for n in 0..200 {
        world.ask(Op::Read, &[(n * 512, 512)]);
    }
    world.run();
    let counters = world.gateway.sample_counters();
    assert_eq!((world.gateway.samples_in_flight(), counters.crowded_out), (IN_FLIGHT_MAX, 200 - IN_FLIGHT_MAX as u64));
    world.gateway.link_closed(world.now, LinkId(0), "cut");
    world.gateway.client_closed(world.client);
    assert_eq!(world.gateway.samples_in_flight(), 0);
}

#[test]
fn the_nodes_clock_is_known_from_the_welcome_on_and_ever_better() {
    let mut world = World::new(1, Reads::Hit);
    for (node, &ahead_ns) in AHEAD_NS.iter().enumerate() {
        let clock = world.gateway.clock_of(node, world.now).expect("from the welcome");
        assert!(clock.offset_ns.abs_diff(ahead_ns) <= clock.error_ns, "{clock:?}");
    }
    let before = world.gateway.clock_of(0, world.now).expect("known").error_ns;
    for n in 0..10 {
        world.ask(Op::Read, &[(n * 4096, 4096)]);
        world.run();
    }
    let after = world.gateway.clock_of(0, world.now).expect("known");
    assert!(after.error_ns <= before && after.offset_ns.abs_diff(AHEAD_NS[0]) <= after.error_ns, "{after:?}");
}
