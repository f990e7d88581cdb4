//! A modest client is served beside a greedy one, however much that one asks for.
//!
//! Counted, not timed: how many answers the greedy client is given between the moment at which the modest client's request
//! lies in the gateway's receive buffer and that at which its answer lies ready to be written. Each step is one turn of a shell's loop.

use std::time::Duration;

use crate::testing::{FakeHost, Reads, gateway_config, node_config, node_with_link, volume};
use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::gateway::{Action, ClientId, Gateway, LinkId, NoLocal, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::nbd::client::{ClientHandshake, ReplyHeader};
use flashmob_core::nbd::protocol::{CMD_READ, CMD_WRITE};
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::node::{Node, NodeConfig, StoreDone};
use flashmob_core::units::{GIB, KIB, Time};
use flashmob_core::wire::batch::decode_batch;
use flashmob_core::wire::frame::{Decoded, decode_frame};

const READ_BYTES: u32 = 4096;
/// What the greedy client keeps outstanding.
const OUTSTANDING: u64 = 1024;
/// At most so many of its answers may come before the modest client's: a quarter of what it has outstanding.
const AHEAD_MAX: u64 = OUTSTANDING / 4;
/// Each turn of the gateway. The way to nodes and back, some of them, is not one of expensive frames.
const TURN: Duration = Duration::from_micros(10);
/// Turns of the gateway for each frame that a node takes: so many turns' requests gather in the queues.
const TURNS_PER_FRAME: usize = 4;

/// One NBD client: what it has received, and how many requests it has made and seen answered.
struct Peer {
    id: ClientId,
    received: RxBuf,
    asked: u64,
    answered: u64,
}

struct World {
    gateway: Gateway,
    nodes: Vec<(Node, flashmob_core::node::LinkId)>,
    /// Bytes on their way to each node: it takes one frame every few steps.
    to_node: Vec<RxBuf>,
    steps: usize,
    now: Time,
    numbers: u64,
}

impl World {
    fn new(nodes: usize) -> World {
        let mut gateway = Gateway::new(gateway_config(striped(nodes))).expect("a layout");
        let now = Time(1);
        gateway.handle_timeout(now);
        let is_connect = |action: &Action| matches!(action, Action::Connect { .. });
        assert_eq!(std::iter::from_fn(|| gateway.poll_action()).filter(is_connect).count(), nodes);
        (0..nodes).for_each(|link| gateway.link_connected(now, LinkId(link)));
        let nodes: Vec<_> = (0..nodes).map(node).collect();
        let to_node = nodes.iter().map(|_| RxBuf::new()).collect();
        let mut world = World { gateway, nodes, to_node, steps: 0, now, numbers: 1 };
        (0..8 * TURNS_PER_FRAME).for_each(|_| world.step());
        world
    }

    fn client(&mut self) -> Peer {
        let id = self.gateway.client_opened(self.now).expect("a client");
        let mut peer = Peer { id, received: RxBuf::new(), asked: 0, answered: 0 };
        let mut handshake = ClientHandshake::new("v", false).expect("a name");
        let mut out = OutQueue::new();
        for _ in 0..8 {
            self.carry_to_client(&mut peer);
            if handshake.next(&mut peer.received, &mut out).expect("a handshake").is_some() {
                return peer;
            }
            let bytes = out.take_all();
            self.gateway.client_rx(id).expect("a client").extend(&bytes);
            self.gateway.process_client(self.now, id, &mut NoLocal);
        }
        panic!("the export was not opened");
    }

    /// Requests reach the gateway's receive buffer, as far as it takes them.
    fn ask(&mut self, peer: &mut Peer, outstanding: u64) {
        if !self.gateway.client_wants_bytes(peer.id) {
            return;
        }
        while peer.asked - peer.answered < outstanding {
            self.numbers = self.numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let blocks = GIB * self.nodes.len() as u64 / u64::from(READ_BYTES);
            let offset_bytes = (self.numbers >> 24) % blocks * u64::from(READ_BYTES);
            let header =
                RequestHeader { flags: 0, command: CMD_READ, cookie: peer.asked, offset_bytes, len_bytes: READ_BYTES };
            self.gateway.client_rx(peer.id).expect("a client").extend(&header.encode());
            peer.asked += 1;
        }
    }

    /// One turn of a gateway's loop and of each node's.
    fn step(&mut self) {
        self.now = self.now + TURN;
        self.gateway.turn(self.now, &mut NoLocal);
        let (mut clients, mut links) = (Vec::new(), Vec::new());
        self.gateway.take_dirty(&mut clients, &mut links);
        self.steps += 1;
        for index in 0..self.nodes.len() {
            let bytes = self.gateway.link_out(LinkId(index)).take_all();
            self.to_node[index].extend(&bytes);
            if self.steps.is_multiple_of(TURNS_PER_FRAME) {
                self.serve(index);
            }
        }
    }

    /// A node takes one frame, and its answer comes back.
    fn serve(&mut self, index: usize) {
        let waiting = &mut self.to_node[index];
        let Ok(Decoded::Frame(_, taken)) = decode_frame(waiting.data()) else { return };
        let (node, link) = &mut self.nodes[index];
        node.rx(*link).expect("a link").extend(&waiting.data()[..taken]);
        waiting.consume(taken);
        let mut host = FakeHost::new(self.now, Reads::Hit);
        node.process(self.now, *link, &mut host);
        node.turn(self.now, &mut host);
        let ops: Vec<_> = node.store_ops().drain(..).collect();
        for op in ops {
            let (started, finished) = (self.now, self.now);
            node.store_done(StoreDone { id: op.id, result: Ok(()), data: op.data, started, finished });
        }
        node.turn(self.now, &mut host);
        let answer = node.out(*link).expect("a link").take_all();
        node.wrote(*link, 0);
        self.gateway.link_rx(LinkId(index)).extend(&answer);
        self.gateway.process_link(self.now, LinkId(index));
    }

    /// The client receives what is ready and counts the answers.
    fn carry_to_client(&mut self, peer: &mut Peer) {
        while let Some(out) = self.gateway.client_out(peer.id).filter(|out| !out.is_empty()) {
            let n = out.front().len();
            peer.received.extend(out.front());
            self.gateway.client_wrote(peer.id, n);
        }
    }
}

impl Peer {
    fn count_answers(&mut self) {
        while let Ok(Some((ReplyHeader::Simple { errno: 0, .. }, header_bytes))) =
            ReplyHeader::decode(self.received.data())
        {
            let bytes = header_bytes + READ_BYTES as usize;
            if self.received.len() < bytes {
                return;
            }
            self.received.consume(bytes);
            self.answered += 1;
        }
    }
}

fn node(number: usize) -> (Node, flashmob_core::node::LinkId) {
    node_with_link(NodeConfig { extent_id: [number as u8; 16], ..node_config(GIB) })
}

fn striped(nodes: usize) -> VolumeSpec {
    VolumeSpec { layout: LayoutKind::Striped { stripe_bytes: 64 * KIB }, ..volume(&vec![GIB; nodes]) }
}

/// The most answers of the greedy client that came before one of the modest client's, and how many both got.
fn most_ahead(nodes: usize, steps: usize) -> (u64, u64, u64) {
    let mut world = World::new(nodes);
    let (mut greedy, mut modest) = (world.client(), world.client());
    let (mut most, mut begun_at) = (0, 0);
    for step in 0..steps {
        world.ask(&mut greedy, OUTSTANDING);
        // The modest client comes when the greedy one's queues are full.
        if step >= 32 && modest.asked == modest.answered {
            world.ask(&mut modest, 1);
            begun_at = greedy.answered;
        }
        for peer in [&greedy, &modest] {
            world.gateway.process_client(world.now, peer.id, &mut NoLocal);
        }
        world.step();
        let (waits, before) = (modest.asked > modest.answered, modest.answered);
        for peer in [&mut greedy, &mut modest] {
            world.carry_to_client(peer);
            peer.count_answers();
        }
        // The first finds large batches on their way: nobody knew of this client before.
        if waits && modest.answered > before && modest.answered > 1 {
            most = most.max(greedy.answered - begun_at);
        }
    }
    (most, greedy.answered, modest.answered)
}

#[test]
fn a_greedy_client_is_not_served_long_before_a_modest_one() {
    let mut found = Vec::new();
    for nodes in [1, 2, 8] {
        let (most, greedy, modest) = most_ahead(nodes, 2000);
        println!("{nodes} nodes: at most {most} answers ahead; {greedy} and {modest} answers in all");
        assert!(modest > 100, "{nodes} nodes: the modest client was answered {modest} times in 2,000 turns");
        found.push((nodes, most));
    }
    // Nodes work side by side: what matters is how much each does first.
    let is_too_much = |&(nodes, most): &(usize, u64)| most > AHEAD_MAX.max(AHEAD_MAX / 2 * nodes as u64);
    let too_much: Vec<_> = found.into_iter().filter(is_too_much).collect();
    assert!(too_much.is_empty(), "(nodes, answers of the greedy client before one of the modest one's): {too_much:?}");
}

impl World {
    /// The batches that lie ready for the first node: the reads of each, and whether they are urgent.
    fn batches(&mut self) -> Vec<(usize, bool)> {
        self.now = self.now + TURN;
        self.gateway.turn(self.now, &mut NoLocal);
        let mut bytes = self.gateway.link_out(LinkId(0)).take_all();
        let mut found = Vec::new();
        while let Ok(Decoded::Frame(frame, taken)) = decode_frame(&bytes) {
            let mut pieces = Vec::new();
            decode_batch(frame.meta, frame.payload.len(), &mut pieces).expect("a batch");
            let urgent = pieces.iter().filter(|piece| piece.op.is_urgent(piece.flags)).count();
            assert!(urgent == 0 || urgent == pieces.len(), "urgent reads have batches of their own");
            found.push((pieces.len(), urgent > 0));
            bytes.drain(..taken);
        }
        found
    }

    fn asks(&mut self, peer: &mut Peer, outstanding: u64) {
        self.ask(peer, outstanding);
        self.gateway.process_client(self.now, peer.id, &mut NoLocal);
    }
}

#[test]
fn a_modest_client_s_reads_are_urgent_beside_a_greedy_one_only() {
    let mut world = World::new(1);
    let (mut greedy, mut modest) = (world.client(), world.client());
    world.asks(&mut modest, 1);
    assert_eq!(world.batches(), [(1, false)], "nobody else is there");
    world.asks(&mut greedy, OUTSTANDING);
    assert!(world.batches().iter().all(|&(_, is_urgent)| !is_urgent));
    assert!(world.gateway.divides_turns(world.now) && !world.gateway.is_link_urgent(LinkId(0)));
    assert!(world.gateway.is_client_modest(modest.id) && !world.gateway.is_client_modest(greedy.id));
    // As many batches are out as may be, and nothing comes back; urgent ones go all the same, up to a limit.
    for outstanding in 2..=5 {
        world.asks(&mut modest, outstanding);
        assert_eq!(world.batches(), [(1, true)]);
    }
    assert!(world.gateway.is_link_urgent(LinkId(0)));
    world.asks(&mut modest, 8);
    assert!(world.batches().is_empty(), "four urgent batches are out");
    // Who asks for much is not modest from then on.
    world.asks(&mut modest, 9);
    assert!(!world.gateway.is_client_modest(modest.id));
}

#[test]
fn nobody_is_urgent_when_the_greedy_client_has_gone() {
    let mut world = World::new(1);
    let (mut greedy, mut modest) = (world.client(), world.client());
    world.asks(&mut greedy, OUTSTANDING);
    world.batches();
    world.now = world.now + Duration::from_millis(999);
    world.asks(&mut modest, 1);
    assert_eq!(world.batches(), [(1, true)]);
    world.now = world.now + Duration::from_millis(1);
    world.asks(&mut modest, 2);
    assert!(!world.gateway.divides_turns(world.now));
    assert!(world.batches().iter().all(|&(_, is_urgent)| !is_urgent));
}

const LARGE_BYTES: u32 = 32 << 20;

impl World {
    /// The client sends the header of a write, and so much of its data.
    fn write(&mut self, peer: &Peer, len_bytes: u32, sent_bytes: u32) {
        let header = RequestHeader { flags: 0, command: CMD_WRITE, cookie: 9, offset_bytes: 0, len_bytes };
        let id = peer.id;
        self.gateway.client_rx(id).expect("a client").extend(&header.encode());
        self.send(peer, sent_bytes);
    }

    /// The client sends more of it, as a socket would give it to the gateway.
    fn send(&mut self, peer: &Peer, mut bytes: u32) {
        self.gateway.process_client(self.now, peer.id, &mut NoLocal);
        while bytes > 0 && self.gateway.client_wants_bytes(peer.id) {
            let part = bytes.min(256 << 10);
            self.gateway.client_rx(peer.id).expect("a client").extend(&vec![7; part as usize]);
            self.gateway.process_client(self.now, peer.id, &mut NoLocal);
            bytes -= part;
        }
    }

    /// Whether the client has an answer after a few turns, 10 µs each.
    fn is_answered_soon(&mut self, peer: &mut Peer) -> bool {
        for _ in 0..400 {
            self.step();
            self.carry_to_client(peer);
            if !peer.received.is_empty() {
                let len = peer.received.len();
                peer.received.consume(len);
                return true;
            }
        }
        false
    }

    /// Time passes, and the shell closes the clients that the gateway drops. How many those are.
    fn dropped(&mut self, time: Duration) -> usize {
        let (end, mut dropped) = (self.now + time, 0);
        while self.now < end {
            self.now = self.now + Duration::from_millis(50);
            self.gateway.handle_timeout(self.now);
            while let Some(action) = self.gateway.poll_action() {
                if let Action::CloseClient(id, Some(_)) = action {
                    self.gateway.client_closed(id);
                    dropped += 1;
                }
            }
            self.step();
        }
        dropped
    }
}

/// Thirty clients that send the header of a write of 32 MiB, and a few bytes; each is a user's, if users are known.
fn with_half_sent(user: Option<u64>) -> (World, Vec<Peer>) {
    let mut world = World::new(1);
    let peers: Vec<Peer> = (0..30).map(|_| world.client()).collect();
    for peer in &peers {
        user.into_iter().for_each(|user| world.gateway.client_is_of(peer.id, user));
        world.write(peer, LARGE_BYTES, 100);
    }
    (world, peers)
}

#[test]
fn writes_that_have_not_arrived_hold_up_no_small_request() {
    let (mut world, _half_sent) = with_half_sent(None);
    for _ in 0..3 {
        let mut other = world.client();
        world.ask(&mut other, 1);
        world.gateway.process_client(world.now, other.id, &mut NoLocal);
        assert!(world.is_answered_soon(&mut other), "a read of 4 KiB");
        for len_bytes in [4096, 64 << 10] {
            world.write(&other, len_bytes, len_bytes);
            assert!(world.is_answered_soon(&mut other), "a write of {len_bytes} bytes");
        }
    }
}

#[test]
fn the_large_writes_of_another_user_do_not_wait_for_those_that_have_not_arrived() {
    let (mut world, _half_sent) = with_half_sent(Some(1));
    let mut other = world.client();
    world.gateway.client_is_of(other.id, 2);
    for _ in 0..3 {
        world.write(&other, LARGE_BYTES, LARGE_BYTES);
        assert!(world.is_answered_soon(&mut other));
    }
}

#[test]
fn a_write_that_does_not_come_on_gives_way_to_one_that_waits() {
    let (mut world, half_sent) = with_half_sent(None);
    // Those that hold memory give way to the next ones in turn.
    let mut other = world.client();
    world.write(&other, LARGE_BYTES, LARGE_BYTES);
    assert!(!world.gateway.client_wants_bytes(other.id), "it waits");
    assert_eq!(world.dropped(Duration::from_millis(4800)), 0);
    assert!(world.dropped(Duration::from_millis(400)) > 0);
    let mut is_answered = false;
    for _ in 0..200 {
        world.send(&other, LARGE_BYTES);
        is_answered = world.is_answered_soon(&mut other);
        if is_answered {
            break;
        }
        world.dropped(Duration::from_secs(1));
    }
    assert!(is_answered, "at the latest when all of them were dropped");
    assert!(half_sent.len() == 30);
}

/// One client that sends slowly, where nobody waits, is not dropped.
#[test]
fn a_slow_write_may_take_long_where_nobody_waits_for_it() {
    let mut world = World::new(1);
    let mut slow = world.client();
    world.write(&slow, LARGE_BYTES, 100);
    assert_eq!(world.dropped(Duration::from_secs(300)), 0);
    world.send(&slow, LARGE_BYTES - 100);
    assert!(world.is_answered_soon(&mut slow));
}
