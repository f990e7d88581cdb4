//! A node with several links, a store that answers in any order, and gateways that send anything.
//!
//! What a gateway may expect is found by decoding what was sent with the same codec, one frame after the other. On a
//! link that lives every piece of every frame is answered exactly once; what is read is what lies there, as long as
//! nobody changed anything.

use std::collections::HashMap;

use flashmob_core::condition::Condition;
use flashmob_core::node::{LinkId, Node, NodeConfig, NodeEvent, StoreOp, TELL_EVERY};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::{WirePiece, decode_batch, put_groups};
use flashmob_core::wire::condition::{Alive, decode_alive, decode_condition, put_alive};
use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, digest_of, digests};
use flashmob_core::wire::frame::encode_frame;
use flashmob_core::wire::hello::{Charge, FromLinear, Hello, Welcome};
use flashmob_core::wire::map::Map;
use flashmob_core::wire::replies::RepliesDecoder;
use flashmob_core::wire::service::decode_service;
use flashmob_core::wire::trace::{FOLLOWED_MAX, TimesDecoder, mark};
use flashmob_core::wire::{BATCH_PIECES_MAX, Decoded, FrameKind, PAYLOAD_BYTES_MAX, PIECE_BYTES_MAX, decode_frame};

use crate::bytes::{Choices, mutate};
use crate::node_host::{EXTENT_BYTES, Memory, VOLUME_ID, pattern};

const LINKS_MAX: usize = 4;
/// Most connections at once: more than the node allows links.
const CONNS_MAX: usize = 6;
const STORE_DEPTH: usize = 8;

/// A batch as the node will understand it.
struct Asked {
    pieces: Vec<WirePiece>,
    answered: Vec<bool>,
}

/// A gateway's end of a connection.
struct Conn {
    link: LinkId,
    /// Sent and not yet looked at here.
    sent: Vec<u8>,
    /// Decodable frames so far: hello first, then batches. Ended by anything else.
    hellos: usize,
    makes_sense: bool,
    asked: HashMap<u32, Asked>,
    next_seq: u32,
    received: Vec<u8>,
    is_welcome: bool,
    keeps_alive: bool,
    hears_progress: bool,
    hears_service: bool,
    is_closing: bool,
    /// The charge of its hello.
    charge: Option<Charge>,
    /// The node has said that it is linked.
    is_linked: bool,
}

struct World<'a> {
    choices: Choices<'a>,
    node: Node,
    memory: Memory,
    in_store: Vec<StoreOp>,
    conns: Vec<Conn>,
    /// Somebody may have changed the extent.
    is_changed: bool,
    now: Time,
}

/// One byte about the node, then what happens, each a byte and what it needs.
pub fn run(data: &[u8]) {
    let mut choices = Choices(data);
    let control = choices.u8();
    let node = Node::new(NodeConfig {
        extent_id: [1; 16],
        boot_id: [2; 16],
        size_bytes: EXTENT_BYTES,
        no_io: false,
        modelled: false,
        memory_bytes: 16 << 20,
        links_max: LINKS_MAX,
        align_bytes: if control & 1 == 0 { 1 } else { 4096 },
        store_depth: STORE_DEPTH,
        order: flashmob_core::elevator::IssueOrder::Sorted,
        keeps_mirror: false,
    });
    let memory = Memory::new(control & 2 != 0, usize::from(control >> 2 & 3));
    let now = Time::default();
    let mut world = World { choices, node, memory, in_store: Vec::new(), conns: Vec::new(), is_changed: false, now };
    world.open();
    while !world.choices.is_empty() {
        world.step();
        world.settle();
    }
    world.finish();
}

impl World<'_> {
    fn open(&mut self) {
        if self.conns.len() < CONNS_MAX {
            self.conns.push(Conn {
                link: self.node.link_opened(),
                sent: Vec::new(),
                hellos: 0,
                makes_sense: true,
                asked: HashMap::new(),
                next_seq: 0,
                received: Vec::new(),
                is_welcome: false,
                keeps_alive: false,
                hears_progress: false,
                hears_service: false,
                is_closing: false,
                charge: None,
                is_linked: false,
            });
        }
    }

    fn step(&mut self) {
        self.now = Time(self.now.0 + 1000);
        let kind = self.choices.u8() % 16;
        if self.conns.is_empty() || kind == 0 {
            return self.open();
        }
        let conn = self.choices.below(self.conns.len());
        match kind {
            1 => self.close(conn),
            2 => {
                let raw = self.choices.some().to_vec();
                self.send(conn, &raw);
            }
            3 | 4 => self.hello(conn),
            5..=9 => self.batch(conn),
            10 | 11 => self.complete_some(),
            12 => self.read_answers(conn, usize::from(self.choices.clone().u8())),
            13 => self.read_answers(conn, usize::MAX),
            14 => self.node.turn(self.now, &mut self.memory),
            _ => self.care(conn),
        }
    }

    /// The device's condition changes, its store makes progress with flushes, or the gateway keeps its link alive.
    fn care(&mut self, conn: usize) {
        match self.choices.u8() {
            what @ 0..0x80 => {
                self.now = self.now + TELL_EVERY;
                let condition = Condition { battery_percent: Some(what % 101), ..Condition::default() };
                let _ = self.node.set_condition(self.now, condition);
            }
            0x80..0xa0 => self.node.store_progressed(self.now),
            what => {
                let mut bytes = Vec::new();
                put_alive(&mut bytes, Alive::ALL[usize::from(what) % 3]);
                mutate(&mut self.choices, &mut bytes);
                self.send(conn, &bytes);
            }
        }
    }

    fn hello(&mut self, conn: usize) {
        let choices = &mut self.choices;
        let (what, more) = (choices.u8(), choices.u8());
        let hello = Hello {
            gateway_id: [what & 1; 16],
            session: u64::from(what >> 1 & 1),
            link: u16::from(what >> 2 & 1),
            keeps_alive: what & 8 == 0,
            hears_progress: what & 16 == 0,
            keeps_mirror: false,
            knows_marks: more & 16 != 0,
            asks_age: more & 32 != 0,
            hears_service: more & 8 != 0,
            attempt: u32::from(more & 7),
            volume_id: if what & 0xf8 == 0xf8 { "w" } else { VOLUME_ID }.to_string(),
            extent: 0,
            extents: 1,
            layout: "linear".to_string(),
            size_bytes: if what & 0xf8 == 0xf0 { 5 } else { 0 },
            // A few gateways that fight for a volume with copies.
            charge: (what & 0xe0 == 0x40).then(|| {
                let (which, numbers) = (choices.u8(), choices.u8());
                let (epoch, version) = (u64::from(numbers & 7), u64::from(numbers >> 4 & 3));
                Charge { map_id: [u8::from(which == 0xff); 16], epoch, nonce: u64::from(which & 1), version }
            }),
            seen: (what & 0xf0 == 0x50).then(|| (u64::from(choices.u8() & 7) + 1, 2)),
            from_linear: (what & 0xe1 == 0x41).then_some(FromLinear { extent_id: [7; 16], extents: 1 }),
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        mutate(choices, &mut bytes);
        self.send(conn, &bytes);
    }

    /// Pieces within the rules of the codec; now and then some beyond the extent, or a sequence number again.
    fn batch(&mut self, conn: usize) {
        let choices = &mut self.choices;
        let what = choices.u8();
        let pieces =
            if what >= 0xf0 { full_batch(choices, what) } else { mixed_batch(choices, 1 + usize::from(what % 24)) };
        let payload_bytes: usize = pieces.iter().map(|p| p.payload_bytes() as usize).sum();
        let fill = choices.u8();
        if fill != 0xff {
            self.conns[conn].next_seq += 1;
        }
        let mut bytes = Vec::new();
        let put = |meta: &mut Vec<u8>| {
            // A frame's meta begins behind what is there already.
            let mut own = Vec::new();
            put_groups(&mut own, self.conns[conn].next_seq, &pieces, |piece| *piece);
            if fill & 3 == 1 {
                mark(&mut own, &(0..pieces.len().min(FOLLOWED_MAX) as u16).collect::<Vec<u16>>());
            }
            meta.extend_from_slice(&own);
        };
        encode_frame(&mut bytes, FrameKind::Batch, put, |out| out.resize(out.len() + payload_bytes, fill));
        mutate(&mut self.choices, &mut bytes);
        self.send(conn, &bytes);
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) {
        let Conn { link, is_closing, .. } = self.conns[conn];
        // A shell leaves in the socket what the node does not take now; here it is lost with the rest.
        if is_closing || !self.node.wants_bytes(link) {
            return;
        }
        self.note_sent(conn, bytes);
        if let Some(rx) = self.node.rx(link) {
            rx.extend(bytes);
        }
        self.node.process(self.now, link, &mut self.memory);
    }

    /// Understands what was sent as the node will.
    fn note_sent(&mut self, conn: usize, bytes: &[u8]) {
        let conn = &mut self.conns[conn];
        if !conn.makes_sense {
            return;
        }
        conn.sent.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let Ok(decoded) = decode_frame(&conn.sent[at..]) else {
                conn.makes_sense = false;
                break;
            };
            let Decoded::Frame(frame, taken) = decoded else { break };
            let mut pieces = Vec::new();
            match frame.kind {
                FrameKind::Hello if conn.hellos == 0 && Hello::decode(frame.meta).is_ok() => {
                    conn.hellos += 1;
                    let hello = Hello::decode(frame.meta);
                    conn.keeps_alive = hello.as_ref().is_ok_and(|hello| hello.keeps_alive);
                    conn.hears_progress = hello.as_ref().is_ok_and(|hello| hello.hears_progress);
                    conn.hears_service = hello.as_ref().is_ok_and(|hello| hello.hears_service);
                    conn.charge = hello.ok().and_then(|hello| hello.charge);
                }
                FrameKind::Alive
                    if conn.hellos == 1
                        && conn.keeps_alive
                        && matches!(decode_alive(frame.meta), Ok(Alive::Here | Alive::Probe)) => {}
                FrameKind::Batch if conn.hellos == 1 => {
                    match decode_batch(frame.meta, frame.payload.len(), &mut pieces) {
                        Ok(seq) if conn.asked.get(&seq).is_none_or(|a| a.answered.iter().all(|&a| a)) => {
                            self.is_changed |= pieces.iter().any(|p| p.op.mutates());
                            let answered = vec![false; pieces.len()];
                            conn.asked.insert(seq, Asked { pieces, answered });
                        }
                        // A number that is in use: the node may take it for what it likes, but must live.
                        Ok(_) => {
                            self.is_changed |= pieces.iter().any(|p| p.op.mutates());
                            conn.makes_sense = false;
                        }
                        Err(_) => conn.makes_sense = false,
                    }
                }
                _ => conn.makes_sense = false,
            }
            at += taken;
        }
        conn.sent.drain(..at);
    }

    /// The store ends some operations, from the front or the back.
    fn complete_some(&mut self) {
        let how = self.choices.u8();
        let failure = if how < 0xe0 { None } else { Some(Failure::ALL[usize::from(how & 7)]) };
        for _ in 0..=how & 3 {
            if self.in_store.is_empty() {
                return;
            }
            let at = if how & 4 == 0 { 0 } else { self.in_store.len() - 1 };
            let op = self.in_store.remove(at);
            let done = self.memory.execute(op, failure);
            self.node.store_done(done);
        }
    }

    /// What a shell does after everything: hands over operations, closes what is to be closed. Limits hold.
    fn settle(&mut self) {
        self.in_store.append(self.node.store_ops());
        // Small plain writes count less, so that many of them go together.
        let is_light = |op: &&StoreOp| op.op == Op::Write && !op.flags.has(OpFlags::FUA) && op.len_bytes <= 64 * 1024;
        assert!(self.in_store.len() - self.in_store.iter().filter(is_light).count() <= STORE_DEPTH);
        assert!(self.in_store.len() <= 16 * STORE_DEPTH);
        while let Some(event) = self.node.poll_event() {
            match event {
                NodeEvent::Linked { link, volume_id, .. } => {
                    assert_eq!(volume_id, VOLUME_ID);
                    let Some(conn) = self.conns.iter_mut().find(|c| c.link == link && !c.is_closing) else {
                        panic!("a link that is not open is linked");
                    };
                    conn.is_linked = true;
                }
                NodeEvent::Close { link, reason } => {
                    assert!(!reason.is_empty());
                    self.conns.iter_mut().filter(|c| c.link == link).for_each(|c| c.is_closing = true);
                }
            }
        }
        if let Some(known) = self.memory.charge {
            let epoch = |conn: &Conn| conn.charge.map(|charge| (charge.map_id, charge.epoch, charge.nonce));
            let is_served = |conn: &&Conn| conn.is_linked && !conn.is_closing && conn.makes_sense;
            for conn in self.conns.iter().filter(is_served) {
                assert_eq!(epoch(conn), Some((known.map_id, known.epoch, known.nonce)), "it is not in charge");
            }
        }
        let (used, _, limit) = self.node.status().memory_bytes;
        assert!(used <= limit, "{used} of {limit} bytes are held");
    }

    /// The gateway reads at most `most` of the answers and checks the frames that are whole.
    fn read_answers(&mut self, conn: usize, most: usize) {
        let link = self.conns[conn].link;
        let mut left = most;
        while let Some(out) = self.node.out(link).filter(|out| !out.is_empty() && left > 0) {
            let n = out.front().len().min(left);
            if n == 0 {
                // An empty segment in front of others.
                self.node.wrote(link, 0);
                continue;
            }
            self.conns[conn].received.extend_from_slice(&out.front()[..n]);
            left -= n;
            self.node.wrote(link, n);
        }
        self.check_answers(conn);
    }

    fn check_answers(&mut self, conn: usize) {
        let is_changed = self.is_changed;
        let conn = &mut self.conns[conn];
        let received = std::mem::take(&mut conn.received);
        let mut rest = &received[..];
        while let Decoded::Frame(frame, taken) = decode_frame(rest).unwrap_or_else(|e| panic!("a node sent: {e}")) {
            match frame.kind {
                FrameKind::Welcome => {
                    assert!(!conn.is_welcome && conn.hellos == 1);
                    assert_eq!(Welcome::decode(frame.meta).map(|w| w.size_bytes), Ok(EXTENT_BYTES));
                    conn.is_welcome = true;
                }
                FrameKind::Replies => conn.check_replies(frame.meta, frame.payload, is_changed),
                FrameKind::Refuse => assert!(!conn.is_welcome && rest.len() == taken, "words after the last"),
                FrameKind::Error => assert!(!frame.meta.is_empty()),
                FrameKind::Times => conn.check_times(frame.meta),
                FrameKind::Condition => {
                    assert!(conn.is_welcome && conn.keeps_alive && decode_condition(frame.meta).is_ok())
                }
                FrameKind::Service => {
                    assert!(conn.is_welcome && conn.hears_service && decode_service(frame.meta).is_ok())
                }
                FrameKind::Alive => {
                    let is_known = match decode_alive(frame.meta) {
                        Ok(Alive::Here) => true,
                        Ok(Alive::Progress) => conn.hears_progress,
                        _ => false,
                    };
                    assert!(conn.is_welcome && conn.keeps_alive && is_known)
                }
                // It keeps no mirror.
                FrameKind::MirrorPut | FrameKind::Recalled => panic!("a node sent {:?}", frame.kind),
                FrameKind::Hello | FrameKind::Batch | FrameKind::PutMirror | FrameKind::Recall => {
                    panic!("a node sent {:?}", frame.kind)
                }
            }
            rest = &rest[taken..];
        }
        conn.received = rest.to_vec();
    }

    fn close(&mut self, conn: usize) {
        let conn = self.conns.swap_remove(conn);
        self.node.link_closed(conn.link);
    }

    /// Everything that was begun ends; then nothing is held any more.
    fn finish(mut self) {
        for _ in 0..100_000 {
            while !self.in_store.is_empty() {
                let op = self.in_store.remove(0);
                let done = self.memory.execute(op, None);
                self.node.store_done(done);
            }
            self.node.turn(self.now, &mut self.memory);
            self.settle();
            (0..self.conns.len()).for_each(|conn| self.read_answers(conn, usize::MAX));
            let status = self.node.status();
            if self.in_store.is_empty() && status.waiting == 0 && self.node.is_idle() && self.none_blocked() {
                break;
            }
        }
        assert!(self.node.is_idle() && self.none_blocked(), "it does not come to an end: {:?}", self.node.status());
        for conn in &self.conns {
            let is_served = conn.is_welcome && !conn.is_closing && conn.makes_sense;
            let unanswered = conn.asked.values().flat_map(|a| &a.answered).filter(|&&a| !a).count();
            assert!(!is_served || unanswered == 0, "{unanswered} pieces were never answered");
        }
        while !self.conns.is_empty() {
            self.close(0);
        }
        self.settle();
        let status = self.node.status();
        assert_eq!((status.memory_bytes.0, status.waiting, status.in_store), (0, 0, 0), "something is held");
        assert_eq!(status.links, 0);
    }

    fn none_blocked(&self) -> bool {
        self.conns.iter().all(|c| c.is_closing || self.node.wants_bytes(c.link))
    }
}

/// As many short pieces as a batch may have, evenly spread, some of them perhaps beyond the extent.
fn full_batch(choices: &mut Choices<'_>, what: u8) -> Vec<WirePiece> {
    let op = [Op::Read, Op::Write, Op::Trim, Op::WriteZeroes][usize::from(what & 3)];
    let (start, step) = (u64::from(choices.u32()) % (EXTENT_BYTES + 100), u64::from(choices.u8()));
    let piece = |n| WirePiece { op, flags: OpFlags::NONE, offset_bytes: start + n * step, len_bytes: 1 };
    (0..BATCH_PIECES_MAX as u64).map(piece).collect()
}

/// Pieces of any kind and length.
fn mixed_batch(choices: &mut Choices<'_>, count: usize) -> Vec<WirePiece> {
    let mut pieces = Vec::new();
    let (mut payload_bytes, mut reply_bytes) = (0, 0);
    for _ in 0..count {
        let what = choices.u8();
        let op = match [Op::Read, Op::Map, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush][usize::from(what % 6)] {
            Op::Map if what >> 6 == 3 => Op::Digest,
            op => op,
        };
        let len_bytes = match (op, what >> 6) {
            (Op::Flush, _) => 0,
            (Op::Digest, _) => DIGEST_BLOCK_BYTES * (1 + u32::from(choices.u16()) % 64),
            (_, 0) => PIECE_BYTES_MAX,
            (_, 1) => 1,
            _ => 1 + u32::from(choices.u16()),
        };
        let mut piece = WirePiece { op, flags: OpFlags(what >> 4 & 3), offset_bytes: 0, len_bytes };
        piece.offset_bytes = u64::from(choices.u32()) % (EXTENT_BYTES + 100);
        if piece.offset_bytes + u64::from(len_bytes) > EXTENT_BYTES && what & 8 == 0 {
            piece.offset_bytes = EXTENT_BYTES - u64::from(len_bytes).min(EXTENT_BYTES);
        }
        if op == Op::Digest {
            piece.offset_bytes -= piece.offset_bytes % u64::from(DIGEST_BLOCK_BYTES);
        }
        payload_bytes += piece.payload_bytes() as usize;
        reply_bytes += piece.reply_bytes() as usize;
        if payload_bytes.max(reply_bytes) > PAYLOAD_BYTES_MAX {
            break;
        }
        pieces.push(piece);
    }
    pieces
}

impl Conn {
    fn check_replies(&mut self, meta: &[u8], payload: &[u8], is_changed: bool) {
        assert!(self.is_welcome);
        let mut runs = RepliesDecoder::new(meta).unwrap_or_else(|e| panic!("a node sent: {e}"));
        let mut rest = payload;
        while let Some(run) = runs.next_run().unwrap_or_else(|e| panic!("a node sent: {e}")) {
            if !self.makes_sense {
                continue;
            }
            let Some(asked) = self.asked.get_mut(&run.seq) else { panic!("an answer to batch {}", run.seq) };
            for index in run.indices().map(usize::from) {
                assert!(!std::mem::replace(&mut asked.answered[index], true), "piece {index} is answered twice");
                let piece = asked.pieces[index];
                let lies_within = piece.offset_bytes + u64::from(piece.len_bytes) <= EXTENT_BYTES;
                assert!(lies_within || run.outcome == Err(Failure::Invalid));
                if run.outcome.is_ok() {
                    let (data, later) = rest.split_at(piece.reply_bytes() as usize);
                    rest = later;
                    if piece.op == Op::Map {
                        let map = Map::decode(data, piece.len_bytes).unwrap_or_else(|e| panic!("a node sent: {e}"));
                        assert_eq!(map.runs().collect::<Vec<_>>(), [(piece.len_bytes, false)]);
                        continue;
                    }
                    if piece.op == Op::Digest {
                        let end = piece.offset_bytes + u64::from(piece.len_bytes);
                        let bytes: Vec<u8> = (piece.offset_bytes..end).map(pattern).collect();
                        let expected = bytes.chunks(DIGEST_BLOCK_BYTES as usize).map(digest_of);
                        assert!(is_changed || digests(data).eq(expected), "a wrong digest of {piece:?}");
                        continue;
                    }
                    let wrong = data.iter().zip(piece.offset_bytes..).find(|&(&byte, at)| byte != pattern(at));
                    assert!(is_changed || wrong.is_none(), "wrong byte at {wrong:?}");
                }
            }
        }
        assert!(!self.makes_sense || rest.is_empty(), "bytes that belong to no piece");
    }

    /// What is told of followed pieces comes behind their answers.
    fn check_times(&mut self, meta: &[u8]) {
        assert!(self.is_welcome);
        let mut pieces = TimesDecoder::new(meta).unwrap_or_else(|e| panic!("a node sent: {e}"));
        while let Some(piece) = pieces.next_piece().unwrap_or_else(|e| panic!("a node sent: {e}")) {
            let asked = self.asked.get(&piece.seq).filter(|_| self.makes_sense);
            assert!(asked.is_none_or(|asked| asked.answered[usize::from(piece.index)]), "{piece:?} is not answered");
        }
    }
}
