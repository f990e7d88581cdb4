//! A gateway, its nodes and one client in one process: bytes are carried from one to the other as sockets would.
//!
//! What stands for a kernel, a disk or the client's own work happens within [`count_off`]: copies from socket to
//! socket, the page cache, the making of requests and the check of answers. The rest is what gateway and nodes execute.

use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::gateway::{
    Action, ClientId, ExtentSpec, Gateway, GatewayConfig, LinkId, NativeCall, NoLocal, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::nbd::client::{ClientHandshake, ReplyHeader};
use flashmob_core::nbd::protocol::{CMD_READ, CMD_WRITE};
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::node::{Node, NodeConfig, StoreDone};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::{GIB, Time};

use crate::count_off;
use crate::host::{MemoryHost, PERIOD_BYTES, byte_at};

/// Size of each extent.
const EXTENT_BYTES: u64 = GIB;

/// A node, and its end of the one link to it.
struct Place {
    node: Node,
    link: flashmob_core::node::LinkId,
    host: MemoryHost,
}

/// Numbers that look random and are the same each time.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// The next one, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 24) % limit
    }
}

/// A gateway with nodes and a client of it.
pub struct World {
    gateway: Gateway,
    places: Vec<Place>,
    now: Time,
    client: ClientId,
    /// What the client has received and not looked at.
    received: RxBuf,
    /// What it sends.
    request_bytes: Vec<u8>,
    /// The offsets that are asked for in a turn; a request's cookie is its place here.
    asked: Vec<u64>,
    answered: usize,
    numbers: Numbers,
    dirty_clients: Vec<ClientId>,
    dirty_links: Vec<LinkId>,
}

impl World {
    /// A gateway over `nodes` nodes, striped, all links up; with an NBD client that has opened the volume, or a native
    /// client. `is_cached` says whether reads are answered from the page cache.
    pub fn new(nodes: usize, is_native: bool, is_cached: bool) -> World {
        let mut gateway = Gateway::new(gateway_config(nodes)).expect("a layout");
        let places = (0..nodes).map(|n| place(n, is_cached)).collect();
        let now = Time(1_000_000);
        gateway.handle_timeout(now);
        let mut links = Vec::new();
        while let Some(action) = gateway.poll_action() {
            if let Action::Connect { link, .. } = action {
                links.push(link);
            }
        }
        assert_eq!(links.len(), nodes);
        links.into_iter().for_each(|link| gateway.link_connected(now, link));
        let client = if is_native { gateway.native_opened(0) } else { gateway.client_opened(now) };
        let mut world = World {
            gateway,
            places,
            now,
            client: client.expect("a client"),
            received: RxBuf::new(),
            request_bytes: Vec::new(),
            asked: Vec::new(),
            answered: 0,
            numbers: Numbers::new(7),
            dirty_clients: Vec::new(),
            dirty_links: Vec::new(),
        };
        world.settle();
        while world.gateway.poll_action().is_some() {}
        assert!(world.gateway.layout(0).is_some(), "all nodes are known");
        if !is_native {
            world.open_export();
        }
        world
    }

    fn open_export(&mut self) {
        let mut handshake = ClientHandshake::new("v", true).expect("a short name");
        let mut out = OutQueue::new();
        for _ in 0..8 {
            self.settle();
            if handshake.next(&mut self.received, &mut out).expect("a handshake").is_some() {
                return;
            }
            let bytes = out.take_all();
            self.gateway.client_rx(self.client).expect("a client").extend(&bytes);
            self.gateway.process_client(self.now, self.client, &mut NoLocal);
        }
        panic!("the export was not opened");
    }

    /// `requests` reads or writes come in together over NBD, and are answered.
    pub fn nbd_turn(&mut self, op: Op, requests: usize, len_bytes: u32) {
        count_off(|| self.make_requests(op, requests, len_bytes));
        carry_slice(&self.request_bytes, self.gateway.client_rx(self.client).expect("a client"));
        self.gateway.process_client(self.now, self.client, &mut NoLocal);
        while self.gateway.is_client_paused(self.client) {
            self.gateway.process_client(self.now, self.client, &mut NoLocal);
        }
        self.settle();
        count_off(|| self.check_replies(op, requests, len_bytes));
    }

    /// One native call reads `spans` places, and is answered.
    pub fn native_turn(&mut self, spans: usize, len_bytes: u32) {
        let call = count_off(|| {
            self.choose_offsets(spans, len_bytes);
            let spans = self.asked.iter().map(|&offset| (offset, len_bytes)).collect();
            NativeCall { cookie: 1, op: Op::Read, flags: OpFlags::NONE, spans, payload: Vec::new() }
        });
        self.gateway.submit(self.now, self.client, call, &mut NoLocal);
        self.settle();
        let completion = self.gateway.completions().pop().expect("an answer");
        count_off(|| {
            let data = completion.result.expect("a success");
            let parts = data.chunks(len_bytes as usize).zip(&self.asked);
            assert_eq!(parts.len(), spans);
            parts.for_each(|(part, &offset)| check(part, offset));
        });
    }

    fn choose_offsets(&mut self, count: usize, len_bytes: u32) {
        let blocks = EXTENT_BYTES * self.places.len() as u64 / u64::from(len_bytes);
        self.asked.clear();
        self.asked.extend((0..count).map(|_| self.numbers.below(blocks) * u64::from(len_bytes)));
    }

    fn make_requests(&mut self, op: Op, count: usize, len_bytes: u32) {
        self.choose_offsets(count, len_bytes);
        self.request_bytes.clear();
        let command = if op == Op::Write { CMD_WRITE } else { CMD_READ };
        for (cookie, &offset_bytes) in (0..).zip(&self.asked) {
            let header = RequestHeader { flags: 0, command, cookie, offset_bytes, len_bytes };
            self.request_bytes.extend_from_slice(&header.encode());
            if op == Op::Write {
                self.request_bytes.resize(self.request_bytes.len() + len_bytes as usize, 7);
            }
        }
        self.answered = 0;
    }

    /// Takes the answers apart: all there, and the right bytes in each.
    fn check_replies(&mut self, op: Op, requests: usize, len_bytes: u32) {
        while let Some((header, header_bytes)) = ReplyHeader::decode(self.received.data()).expect("a reply") {
            let (cookie, data_at, data_bytes) = match header {
                ReplyHeader::Simple { errno, cookie } => {
                    (cookie, header_bytes, if errno == 0 { 0 } else { usize::MAX })
                }
                ReplyHeader::Chunk { cookie, len_bytes, .. } => (cookie, header_bytes + 8, len_bytes as usize - 8),
            };
            let expected = if op == Op::Read { len_bytes as usize } else { 0 };
            assert_eq!(data_bytes, expected, "bytes of an answer");
            check(&self.received.data()[data_at..data_at + data_bytes], self.asked[cookie as usize]);
            self.received.consume(data_at + data_bytes);
            self.answered += 1;
        }
        assert_eq!(self.answered, requests, "each request is answered once");
    }

    /// Lets gateway and nodes work until nothing moves any more.
    fn settle(&mut self) {
        loop {
            self.now = self.now + Duration::from_micros(10);
            self.gateway.turn(self.now, &mut NoLocal);
            let (mut clients, mut links) =
                (std::mem::take(&mut self.dirty_clients), std::mem::take(&mut self.dirty_links));
            self.gateway.take_dirty(&mut clients, &mut links);
            let moves = !clients.is_empty() || !links.is_empty();
            for &id in &clients {
                self.carry_to_client(id);
            }
            for &id in &links {
                self.carry_to_node(id);
            }
            for &id in &links {
                self.carry_from_node(id);
            }
            (self.dirty_clients, self.dirty_links) = (clients, links);
            if !moves {
                return;
            }
        }
    }

    fn carry_to_client(&mut self, id: ClientId) {
        while let Some(out) = self.gateway.client_out(id).filter(|out| !out.is_empty()) {
            let front = out.front();
            let n = front.len();
            count_off(|| self.received.extend(front));
            self.gateway.client_wrote(id, n);
        }
    }

    fn carry_to_node(&mut self, id: LinkId) {
        let place = &mut self.places[id.0];
        place.host.set_now(self.now);
        while !self.gateway.link_out(id).is_empty() {
            let front = self.gateway.link_out(id).front();
            let n = front.len();
            carry_slice(front, place.node.rx(place.link).expect("a link"));
            self.gateway.link_wrote(self.now, id, n);
        }
        place.node.process(self.now, place.link, &mut place.host);
        place.node.turn(self.now, &mut place.host);
        while !place.node.store_ops().is_empty() {
            let mut ops = std::mem::take(place.node.store_ops());
            for mut op in ops.drain(..) {
                count_off(|| place.host.serve(&mut op));
                let (started, finished) = (self.now, self.now + Duration::from_micros(1));
                place.node.store_done(StoreDone { id: op.id, result: Ok(()), data: op.data, started, finished });
            }
            *place.node.store_ops() = ops;
            place.node.turn(self.now, &mut place.host);
        }
    }

    fn carry_from_node(&mut self, id: LinkId) {
        let place = &mut self.places[id.0];
        while let Some(front @ [_, ..]) = place.node.out(place.link).map(|out| out.front()) {
            let n = front.len();
            carry_slice(front, self.gateway.link_rx(id));
            place.node.wrote(place.link, n);
        }
        self.gateway.process_link(self.now, id);
    }
}

/// What a socket gives: room is made by who receives, the bytes are the kernel's to copy.
fn carry_slice(from: &[u8], to: &mut RxBuf) {
    let space = to.space(from.len());
    count_off(|| space[..from.len()].copy_from_slice(from));
    to.filled(from.len());
}

fn check(data: &[u8], offset_bytes: u64) {
    for at in [0, data.len() / 2, data.len().saturating_sub(1)] {
        if let Some(&byte) = data.get(at) {
            assert_eq!(byte, byte_at(offset_bytes + at as u64), "the byte at {offset_bytes} + {at}");
        }
    }
}

fn place(number: usize, is_cached: bool) -> Place {
    let mut node = Node::new(NodeConfig::new([number as u8; 16], [1; 16], EXTENT_BYTES));
    let link = node.link_opened();
    Place { node, link, host: MemoryHost::new(is_cached) }
}

fn gateway_config(nodes: usize) -> GatewayConfig {
    let extent = |n| ExtentSpec { size_bytes: Some(EXTENT_BYTES), ..ExtentSpec::new(format!("node{n}")) };
    let layout = LayoutKind::Striped { stripe_bytes: PERIOD_BYTES as u64 };
    let volume = VolumeSpec { layout, ..VolumeSpec::new("v", (0..nodes).map(extent).collect()) };
    GatewayConfig { keeps_live: true, ..GatewayConfig::new([1; 16], 1, vec![volume]) }
}
