//! A gateway with a volume of two nodes, whose clients and nodes send anything, in any order and at any time.
//!
//! Every call of a native client is answered once, every NBD request at most once (and the gateway has none in hand
//! at the end); what is read is what the nodes have, as long as none of them lied.

use std::collections::HashMap;
use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::gateway::{
    Action, BatchMode, ClientId, ExtentSpec, Gateway, GatewayConfig, LinkId, NativeCall, NoLocal, Sampling, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::nbd::client::{ClientHandshake, ReplyHeader, decode_block_status};
use flashmob_core::nbd::protocol::{
    CMD_BLOCK_STATUS, CMD_READ, REPLY_TYPE_BLOCK_STATUS, REPLY_TYPE_ERROR, REPLY_TYPE_OFFSET_DATA,
};
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;

use crate::bytes::Choices;
use crate::gateway_node::{NodeEnd, Phase, pattern};
use crate::nbd_client::request;

const NODE_BYTES: [u64; 2] = [(700 << 10) + 1, 600 << 10];
const LINKS_PER_NODE: u16 = 2;
const OUTSTANDING_BATCHES: usize = 2;
const MEMORY_BYTES: u64 = 1 << 20;
/// What the budget may hold beyond its limit: one request, alone.
const ALONE_BYTES: u64 = 34 << 20;
const TIMEOUT: Duration = Duration::from_millis(1000);

/// An NBD client whose export is open.
struct Nbd {
    id: ClientId,
    structured: bool,
    /// Requests by cookie; what is answered is taken away.
    asked: HashMap<u64, RequestHeader>,
    next_cookie: u64,
    received: Vec<u8>,
    /// It sent nothing but requests.
    makes_sense: bool,
}

struct World<'a> {
    choices: Choices<'a>,
    gateway: Gateway,
    links: Vec<NodeEnd>,
    native: ClientId,
    /// Native calls not yet answered.
    calls: HashMap<u64, (Op, Vec<(u64, u32)>)>,
    next_call: u64,
    nbd: Vec<Nbd>,
    /// A node said what is not so: what is read may be anything.
    is_lied_to: bool,
    now: Time,
}

/// One byte about the volume, then what happens, each a byte and what it needs.
pub fn run(data: &[u8]) {
    let mut choices = Choices(data);
    let control = choices.u8();
    let extent = |n: usize| ExtentSpec {
        is_gone: false,
        name: format!("node {n}"),
        size_bytes: (control >> n & 1 != 0).then_some(NODE_BYTES[n]),
        is_local: false,
    };
    let volume = VolumeSpec {
        name: "pool".to_string(),
        id: "pool".to_string(),
        description: String::new(),
        read_only: false,
        layout: if control & 4 == 0 { LayoutKind::Linear } else { LayoutKind::Striped { stripe_bytes: 4096 } },
        batch: [BatchMode::Auto, BatchMode::Auto, BatchMode::Fixed(1), BatchMode::Fixed(3)]
            [usize::from(control >> 3 & 3)],
        batch_bytes: if control & 32 == 0 { 1 << 20 } else { 4096 },
        links: LINKS_PER_NODE,
        outstanding_batches: OUTSTANDING_BATCHES,
        timeout: TIMEOUT,
        connect_timeout: Duration::from_millis(300),
        reconnect_min: Duration::from_millis(10),
        reconnect_max: Duration::from_millis(100),
        keep_awake: Some(Duration::from_millis(75)),
        copies: None,
        extents: vec![extent(0), extent(1)],
    };
    let config = GatewayConfig {
        id: [3; 16],
        session: 1,
        memory_bytes: MEMORY_BYTES,
        clients_max: 4,
        seed: u64::from(control),
        keeps_live: control & 128 != 0,
        volumes: vec![volume],
        extent_ids: Vec::new(),
        config_name: "cluster.toml".to_string(),
    };
    let mut gateway = Gateway::new(config).unwrap_or_else(|e| panic!("{e}"));
    gateway.set_sampling(Sampling { one_in: u64::from(control >> 6), clock_start_ns: u64::from(control) << 40 });
    let Some(native) = gateway.native_opened(0) else { panic!("no native client") };
    let per_node = usize::from(LINKS_PER_NODE);
    let links = (0..gateway.links_count()).map(|link| NodeEnd::new(link / per_node, NODE_BYTES[link / per_node]));
    let mut world = World {
        links: links.collect(),
        choices,
        gateway,
        native,
        calls: HashMap::new(),
        next_call: 0,
        nbd: Vec::new(),
        is_lied_to: false,
        now: Time(1),
    };
    world.gateway.handle_timeout(world.now);
    world.settle();
    while !world.choices.is_empty() {
        world.step();
        world.settle();
    }
    world.finish();
}

impl World<'_> {
    fn step(&mut self) {
        let kind = self.choices.u8() % 20;
        let link = self.choices.u8();
        let link = LinkId(usize::from(link) % self.links.len());
        match kind {
            0 => {
                let ticks = u64::from(self.choices.u8());
                self.pass(Duration::from_millis(8 * ticks));
            }
            1 => self.pass(Duration::from_millis(20)),
            2..=4 => self.call(),
            5 => self.open_nbd(),
            6 | 7 => self.send_nbd(),
            8 => self.read_nbd(),
            9 => self.close_nbd(),
            10 => self.connect(link),
            11 => {
                self.connect(link);
                self.carry(link, usize::MAX);
                self.greet(link);
            }
            12 => self.greet(link),
            13 | 14 => self.answer(link),
            15 => {
                self.carry(link, usize::MAX);
                self.answer(link);
            }
            16 => {
                let most = usize::from(self.choices.u8());
                self.carry(link, most);
            }
            17 => self.carry(link, usize::MAX),
            18 => {
                let raw = self.choices.some().to_vec();
                self.is_lied_to |= raw.len() >= flashmob_core::wire::HEADER_BYTES;
                self.feed_gateway(link, &raw);
            }
            _ if self.choices.clone().u8() & 3 == 3 => {
                let what = self.choices.u8();
                let node = self.links[link.0].node;
                self.gateway.try_node(self.now, node, what & 4 != 0);
            }
            _ => self.break_link(link),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.gateway.handle_timeout(self.now);
    }

    fn call(&mut self) {
        let size_bytes: u64 = self.gateway.layout(0).map_or(NODE_BYTES.iter().sum(), |l| l.size_bytes());
        let choices = &mut self.choices;
        let what = choices.u8();
        let op = Op::ALL[usize::from(what) % Op::ALL.len()];
        let count = if what == 0xff { 3000 } else { usize::from(what >> 5) };
        let mut spans = Vec::new();
        for _ in 0..count {
            let len = match choices.u8() {
                n @ 0..0xe0 => u32::from(n),
                0xe0..0xf0 => u32::from(choices.u16()),
                _ => choices.u32() % (2 << 20),
            };
            // Now and then beyond the end.
            spans.push((u64::from(choices.u32()) % (size_bytes + 50), len));
        }
        let total: u64 = spans.iter().map(|s| u64::from(s.1)).sum();
        let payload = if op == Op::Write && total < 4 << 20 { vec![what; total as usize] } else { Vec::new() };
        self.next_call += 1;
        let cookie = self.next_call;
        self.calls.insert(cookie, (op, spans.clone()));
        let call = NativeCall { cookie, op, flags: OpFlags(what & 3), spans, payload };
        self.gateway.submit(self.now, self.native, call, &mut NoLocal);
    }

    fn open_nbd(&mut self) {
        let what = self.choices.u8();
        let structured = what & 1 != 0;
        let Some(id) = self.gateway.client_opened(self.now) else { return };
        let mut handshake = ClientHandshake::new("pool", structured).unwrap_or_else(|e| panic!("{e}"));
        if what & 2 != 0 {
            handshake = handshake.with_maps();
        }
        let (mut from, mut to) = (RxBuf::new(), OutQueue::new());
        loop {
            let out = self.gateway.client_out(id).map(OutQueue::take_all).unwrap_or_default();
            from.extend(&out);
            match handshake.next(&mut from, &mut to) {
                Ok(None) => {}
                Ok(Some(connected)) => {
                    let structured = connected.structured;
                    let (asked, received) = (HashMap::new(), Vec::new());
                    self.nbd.push(Nbd { id, structured, asked, next_cookie: 0, received, makes_sense: true });
                    return;
                }
                Err(error) => {
                    let is_whole = self.gateway.status().volumes[0].nodes.iter().all(|n| n.refusal.is_none());
                    let is_ready = self.gateway.layout(0).is_some() && is_whole;
                    assert!(!is_ready, "a volume that is ready is refused: {error}");
                    return self.gateway.client_closed(id);
                }
            }
            if let Some(rx) = self.gateway.client_rx(id) {
                rx.extend(&to.take_all());
            }
            self.gateway.process_client(self.now, id, &mut NoLocal);
        }
    }

    fn send_nbd(&mut self) {
        if self.nbd.is_empty() {
            return self.open_nbd();
        }
        let at = self.choices.below(self.nbd.len());
        let size_bytes = self.gateway.layout(0).map_or(0, |l| l.size_bytes());
        let client = &mut self.nbd[at];
        if !self.gateway.client_wants_bytes(client.id) {
            return;
        }
        client.next_cookie += 1;
        let (bytes, header) = request(&mut self.choices, client.next_cookie, size_bytes);
        match header {
            Some(header) => {
                client.asked.insert(client.next_cookie, header);
            }
            None => client.makes_sense = false,
        }
        let id = client.id;
        if let Some(rx) = self.gateway.client_rx(id) {
            rx.extend(&bytes);
        }
        self.gateway.process_client(self.now, id, &mut NoLocal);
    }

    fn read_nbd(&mut self) {
        if !self.nbd.is_empty() {
            let at = self.choices.below(self.nbd.len());
            self.read_nbd_at(at, 1 + usize::from(self.choices.clone().u16()));
        }
    }

    fn read_nbd_at(&mut self, at: usize, most: usize) {
        let client = &mut self.nbd[at];
        let mut left = most;
        while let Some(out) = self.gateway.client_out(client.id).filter(|out| !out.is_empty() && left > 0) {
            let n = out.front().len().min(left);
            client.received.extend_from_slice(&out.front()[..n]);
            left -= n;
            self.gateway.client_wrote(client.id, n);
        }
        let is_lied_to = self.is_lied_to;
        let gateway = &self.gateway;
        client.check_replies(|offset, data| {
            assert!(is_lied_to || is_right(gateway, offset, data), "wrong bytes at {offset}");
        });
    }

    fn close_nbd(&mut self) {
        if !self.nbd.is_empty() {
            let at = self.choices.below(self.nbd.len());
            let client = self.nbd.swap_remove(at);
            self.gateway.client_closed(client.id);
        }
    }

    fn connect(&mut self, link: LinkId) {
        let end = &mut self.links[link.0];
        if end.phase == Phase::Asked {
            end.phase = Phase::Up;
            self.gateway.link_connected(self.now, link);
        }
    }

    fn break_link(&mut self, link: LinkId) {
        if self.links[link.0].phase != Phase::Down {
            self.links[link.0].down();
            self.gateway.link_closed(self.now, link, "the node is gone");
        }
    }

    /// Brings at most `most` bytes from the gateway to a node.
    fn carry(&mut self, link: LinkId, most: usize) {
        if self.links[link.0].phase != Phase::Up {
            return;
        }
        let node = self.links[link.0].node;
        let others = self.links.iter().enumerate().filter(|(i, l)| *i != link.0 && l.node == node);
        let mut others: Vec<_> = others.flat_map(|(_, l)| l.changes_under_way()).collect();
        if self.is_lied_to {
            // Who was told that a change has ended may send the next.
            others.clear();
        }
        let mut left = most;
        while !self.gateway.link_out(link).is_empty() && left > 0 {
            let front = self.gateway.link_out(link).front();
            let n = front.len().min(left);
            let bytes = front[..n].to_vec();
            left -= n;
            self.gateway.link_wrote(self.now, link, n);
            self.links[link.0].receive(&bytes, &others, OUTSTANDING_BATCHES);
        }
    }

    fn greet(&mut self, link: LinkId) {
        if self.links[link.0].phase == Phase::Up {
            let (bytes, _) = self.links[link.0].greeting(&mut self.choices);
            self.feed_gateway(link, &bytes);
        }
    }

    fn answer(&mut self, link: LinkId) {
        if let Some((bytes, honest)) = self.links[link.0].answer(&mut self.choices) {
            self.is_lied_to |= !honest;
            self.feed_gateway(link, &bytes);
        }
    }

    fn feed_gateway(&mut self, link: LinkId, bytes: &[u8]) {
        if self.links[link.0].phase == Phase::Up {
            self.gateway.link_rx(link).extend(bytes);
            self.gateway.process_link(self.now, link);
        }
    }

    /// What a shell does after everything. Limits hold.
    fn settle(&mut self) {
        self.gateway.turn(self.now, &mut NoLocal);
        while let Some(action) = self.gateway.poll_action() {
            match action {
                Action::Connect { link, node } => {
                    let end = &mut self.links[link.0];
                    assert_eq!((end.phase, end.node), (Phase::Down, node));
                    end.phase = Phase::Asked;
                }
                Action::Disconnect(link) => {
                    if self.links[link.0].phase != Phase::Down {
                        self.links[link.0].down();
                    }
                }
                Action::CloseClient(id, _) => {
                    if let Some(at) = self.nbd.iter().position(|c| c.id == id) {
                        self.read_nbd_at(at, usize::MAX);
                        self.nbd.swap_remove(at);
                    }
                    self.gateway.client_closed(id);
                }
                Action::Remember { .. } | Action::Tell(_) => {}
                Action::SecureClient(_) => unreachable!("no client is asked for TLS"),
                Action::Commit { .. } | Action::VerifyClaim { .. } => unreachable!("the volume has no copies"),
            }
        }
        let completions = std::mem::take(self.gateway.completions());
        for completion in completions {
            assert_eq!(completion.client, self.native);
            let Some((op, spans)) = self.calls.remove(&completion.cookie) else {
                panic!("call {} is answered, but not owed", completion.cookie);
            };
            let Ok(data) = completion.result else { continue };
            let total: usize = if op == Op::Read { spans.iter().map(|s| s.1 as usize).sum() } else { 0 };
            assert_eq!(data.len(), total);
            let mut at = 0;
            for (offset, len) in spans.iter().filter(|_| op == Op::Read) {
                let part = &data[at..at + *len as usize];
                assert!(self.is_lied_to || is_right(&self.gateway, *offset, part), "wrong bytes at {offset}");
                at += part.len();
            }
        }
        let (used, _, limit) = self.gateway.status().memory_bytes;
        assert!(used <= limit.max(ALONE_BYTES), "{used} of {limit} bytes are held");
    }

    /// All nodes are gone for good: everything ends, and nothing is held.
    fn finish(mut self) {
        (0..self.links.len()).for_each(|link| self.break_link(LinkId(link)));
        for _ in 0..1000 {
            self.settle();
            (0..self.nbd.len()).for_each(|at| self.read_nbd_at(at, usize::MAX));
            if self.gateway.is_idle() && self.calls.is_empty() {
                break;
            }
            let due = self.gateway.next_timeout().unwrap_or_else(|| panic!("something is owed, and nothing is due"));
            self.now = self.now.max(due);
            self.gateway.handle_timeout(self.now);
            (0..self.links.len()).for_each(|link| self.break_link(LinkId(link)));
        }
        assert!(self.calls.is_empty(), "{} calls were never answered", self.calls.len());
        assert_eq!(self.gateway.status().in_hand, 0);
        let counters = self.gateway.sample_counters();
        assert_eq!(
            counters.begun,
            counters.finished + counters.failed + counters.abandoned + counters.untold,
            "{counters:?}"
        );
        assert_eq!(self.gateway.samples_in_flight(), 0);
        for client in self.nbd.drain(..) {
            assert!(!client.makes_sense || client.received.is_empty());
            self.gateway.client_closed(client.id);
        }
        self.gateway.client_closed(self.native);
        let status = self.gateway.status();
        assert_eq!((status.memory_bytes.0, status.clients), (0, 0), "something is held");
    }
}

/// Whether `data` is what the nodes have at that place of the volume.
fn is_right(gateway: &Gateway, offset_bytes: u64, data: &[u8]) -> bool {
    let Some(layout) = gateway.layout(0) else { return false };
    layout.split(offset_bytes, data.len() as u64).all(|span| {
        let part = &data[span.request_offset_bytes as usize..][..span.len_bytes as usize];
        part.iter().zip(span.extent_offset_bytes..).all(|(&byte, at)| byte == pattern(span.extent as usize, at))
    })
}

impl Nbd {
    /// Takes whole replies from what was received.
    fn check_replies(&mut self, mut check_data: impl FnMut(u64, &[u8])) {
        let received = std::mem::take(&mut self.received);
        if !self.makes_sense {
            // Which of its bytes were taken for a request, nobody knows.
            return;
        }
        let mut rest = &received[..];
        while let Some((header, header_len)) =
            ReplyHeader::decode(rest).unwrap_or_else(|e| panic!("a gateway sent: {e}"))
        {
            let body = &rest[header_len..];
            let cookie = match header {
                ReplyHeader::Simple { cookie, .. } | ReplyHeader::Chunk { cookie, .. } => cookie,
            };
            let Some(asked) = self.asked.get(&cookie).copied() else { panic!("{cookie} is answered twice") };
            let is_read = asked.command == CMD_READ;
            let len = match header {
                ReplyHeader::Simple { errno: 0, .. } if is_read => {
                    assert!(!self.structured);
                    asked.len_bytes as usize
                }
                ReplyHeader::Simple { errno, .. } => {
                    assert!(errno == 0 || !self.structured);
                    0
                }
                ReplyHeader::Chunk { kind, len_bytes, .. } => {
                    let is_data = is_read && kind == REPLY_TYPE_OFFSET_DATA && len_bytes == asked.len_bytes + 8;
                    let is_map = asked.command == CMD_BLOCK_STATUS && kind == REPLY_TYPE_BLOCK_STATUS;
                    assert!(self.structured && (is_data || is_map || kind == REPLY_TYPE_ERROR), "{header:?}");
                    len_bytes as usize
                }
            };
            if body.len() < len {
                break;
            }
            match header {
                ReplyHeader::Simple { .. } if len > 0 => check_data(asked.offset_bytes, &body[..len]),
                ReplyHeader::Chunk { kind: REPLY_TYPE_OFFSET_DATA, .. } => {
                    assert_eq!(body[..8], asked.offset_bytes.to_be_bytes());
                    check_data(asked.offset_bytes, &body[8..len]);
                }
                ReplyHeader::Chunk { kind: REPLY_TYPE_BLOCK_STATUS, .. } => {
                    let (_, extents) =
                        decode_block_status(&body[..len]).unwrap_or_else(|e| panic!("a gateway sent: {e}"));
                    let covered: u64 = extents.iter().map(|(len, _)| u64::from(*len)).sum();
                    assert!(covered > 0 && covered <= u64::from(asked.len_bytes), "{extents:?}");
                }
                _ => {}
            }
            self.asked.remove(&cookie);
            rest = &body[len..];
        }
        self.received = rest.to_vec();
    }
}
