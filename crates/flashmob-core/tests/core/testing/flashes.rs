//! A gateway with a volume with copies whose nodes have bytes, some of which do not match their checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::{GatewayBed, bytes_of, frames, gateway_config, volume, welcome};
use flashmob_core::checksum::checksum;
use flashmob_core::condition::Condition;
use flashmob_core::copies::{MapImage, Member};
use flashmob_core::gateway::{Action, ClientId, CopiesSpec, LinkId, LinkPhase, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::wire::batch::{WirePiece, decode_batch};
use flashmob_core::wire::condition::put_condition;
use flashmob_core::wire::digest::{
    Corrupt, DIGEST_BLOCK_BYTES, expected_of, is_mark, mark_of, put_corrupt, put_digest, put_expected,
};
use flashmob_core::wire::frame::{FrameKind, encode_frame};
use flashmob_core::wire::hello::Welcome;
use flashmob_core::wire::map::MapWriter;
use flashmob_core::wire::replies::RepliesEncoder;

/// Bytes of a block.
pub const BLOCK: u64 = DIGEST_BLOCK_BYTES as u64;

/// What a node has.
#[derive(Debug, Clone)]
pub struct Flash {
    /// Its extent.
    pub bytes: Vec<u8>,
    /// Blocks that do not match their checksums.
    pub corrupt: BTreeSet<u64>,
    /// CRC-32 that these should have, where it is known.
    pub expected: BTreeMap<u64, u32>,
    /// The node knows blocks that are marked as unreadable.
    pub knows_marks: bool,
    /// Writes of whole blocks of it are answered, and do not take.
    pub loses_writes: bool,
    /// How it fails digests.
    pub fails: Option<Failure>,
    /// How it fails maps of holes.
    pub fails_maps: Option<Failure>,
    /// How it fails writes.
    pub fails_writes: Option<Failure>,
    /// How it fails zeros that are to be written.
    pub fails_zeroes: Option<Failure>,
    /// The node fails flushes.
    pub fails_flushes: bool,
    /// It answers nothing.
    pub is_silent: bool,
    /// Its maps tell where it has zeros.
    pub tells_holes: bool,
    /// What it was sent.
    pub seen: Vec<WirePiece>,
}

impl Flash {
    fn blocks(piece: &WirePiece) -> std::ops::Range<u64> {
        piece.offset_bytes / BLOCK..(piece.offset_bytes + u64::from(piece.len_bytes)).div_ceil(BLOCK)
    }

    /// Does what a piece asks for. Returns the data of the answer.
    fn serve(&mut self, piece: &WirePiece, payload: &[u8]) -> Result<Vec<u8>, Failure> {
        let (at, blocks) = (piece.offset_bytes as usize, Flash::blocks(piece));
        let range = at..at + piece.len_bytes as usize;
        let mut data = vec![0; piece.reply_bytes() as usize];
        if piece.op == Op::Read && piece.flags.has(OpFlags::UNVERIFIED) {
            // They get checksums that match.
            self.corrupt.retain(|block| !blocks.contains(block));
        }
        match piece.op {
            Op::Read if self.corrupt.range(blocks.clone()).next().is_some() => return Err(Failure::Corrupt),
            Op::Read => data.copy_from_slice(&self.bytes[range]),
            Op::Write if self.loses_writes && self.corrupt.range(blocks.clone()).next().is_some() => {}
            Op::Write if self.fails_writes.is_some() => return Err(self.fails_writes.unwrap_or(Failure::Io)),
            Op::WriteZeroes if self.fails_zeroes.is_some() => return Err(self.fails_zeroes.unwrap_or(Failure::Io)),
            Op::Write | Op::WriteZeroes => {
                let is_whole = (piece.offset_bytes | u64::from(piece.len_bytes)).is_multiple_of(BLOCK);
                if !is_whole && self.corrupt.range(blocks.clone()).next().is_some() {
                    return Err(Failure::Corrupt);
                }
                assert!(self.knows_marks || !piece.flags.has(OpFlags::UNREADABLE), "it would not understand that");
                self.corrupt.retain(|block| !blocks.contains(block));
                match piece.op {
                    Op::Write if piece.flags.has(OpFlags::UNREADABLE) => {
                        for (block, expected) in blocks.zip(expected_of(payload)) {
                            let at = (block * BLOCK) as usize;
                            let bytes = &mut self.bytes[at..at + BLOCK as usize];
                            if checksum(bytes) != expected {
                                bytes.copy_from_slice(&mark_of(expected));
                                self.corrupt.insert(block);
                                self.expected.insert(block, expected);
                            }
                        }
                    }
                    Op::Write => self.bytes[range].copy_from_slice(payload),
                    _ => self.bytes[range].fill(0),
                }
            }
            Op::Digest => {
                self.fails.map_or(Ok(()), Err)?;
                put_digest(&self.bytes[range], &mut data);
                let corrupt = self.corrupt.range(blocks.clone());
                for &block in corrupt {
                    let (index, at) = ((block - blocks.start) as usize, (block * BLOCK) as usize);
                    if piece.flags.has(OpFlags::EXPECTED) {
                        assert!(self.knows_marks, "it would not understand that");
                        let expected = self.expected.get(&block).copied().unwrap_or(7);
                        let is_marked = is_mark(&self.bytes[at..at + BLOCK as usize], expected);
                        put_expected(&mut data, index, Corrupt { expected, is_marked });
                    } else {
                        put_corrupt(&mut data, index);
                    }
                }
            }
            Op::Map => {
                self.fails_maps.map_or(Ok(()), Err)?;
                let mut map = MapWriter::new(&mut data);
                for at in range.step_by(BLOCK as usize) {
                    let is_hole = self.tells_holes && self.bytes[at..at + BLOCK as usize].iter().all(|&byte| byte == 0);
                    map.push(BLOCK as u32, is_hole);
                }
            }
            Op::Flush if self.fails_flushes => return Err(Failure::Io),
            Op::Flush => {}
            Op::Trim => return Err(Failure::NotSupported),
        }
        Ok(data)
    }
}

/// A volume with copies on such nodes, which are linked, and a client. Node n is behind link n.
#[derive(Debug)]
pub struct FlashBed {
    /// The gateway.
    pub bed: GatewayBed,
    /// The client.
    pub client: ClientId,
    /// The nodes.
    pub nodes: Vec<Flash>,
}

impl FlashBed {
    /// Bytes of a chunk: it is scrubbed in 16 ranges of a block.
    pub const CHUNK_BYTES: u64 = 16 * BLOCK;

    /// All copies are equal, and no two blocks of the volume.
    #[must_use]
    pub fn new(nodes: usize, copies: usize, chunks_of_node: u64, set: impl FnOnce(&mut CopiesSpec)) -> FlashBed {
        FlashBed::without(nodes..nodes, nodes, copies, chunks_of_node, set)
    }

    /// The same, but that some nodes have no link yet.
    #[must_use]
    pub fn without(
        away: Range<usize>,
        nodes: usize,
        copies: usize,
        chunks_of_node: u64,
        set: impl FnOnce(&mut CopiesSpec),
    ) -> FlashBed {
        let size_bytes = chunks_of_node * FlashBed::CHUNK_BYTES;
        let member = |n| Member {
            extent_id: FlashBed::id_of(n),
            boot_id: Some(FlashBed::id_of(n)),
            seen: None,
            size_bytes,
            domain: format!("node{n}"),
        };
        let map = MapImage::new([9; 16], FlashBed::CHUNK_BYTES, copies, (0..nodes).map(member).collect()).unwrap();
        let mut spec = CopiesSpec::new(map);
        set(&mut spec);
        let config = gateway_config(VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes: FlashBed::CHUNK_BYTES },
            links: 1,
            timeout: Duration::from_secs(120),
            copies: Some(Box::new(spec)),
            ..volume(&vec![size_bytes; nodes])
        });
        let mut bed = GatewayBed::new(config);
        let client = bed.gateway.native_opened(0).unwrap();
        let flash = Flash {
            bytes: vec![0; size_bytes as usize],
            corrupt: BTreeSet::new(),
            expected: BTreeMap::new(),
            knows_marks: true,
            loses_writes: false,
            fails: None,
            fails_maps: None,
            fails_writes: None,
            fails_zeroes: None,
            fails_flushes: false,
            is_silent: false,
            tells_holes: false,
            seen: Vec::new(),
        };
        let mut bed = FlashBed { bed, client, nodes: vec![flash; nodes] };
        (0..nodes).filter(|n| !away.contains(n)).for_each(|n| bed.link(n));
        for chunk in 0..bed.bed.gateway.map(0).expect("a map").chunks() {
            for block in 0..16 {
                let number = u64::from(chunk) * 16 + block;
                let content: Vec<u8> = (0..BLOCK).map(|at| (number * 7 + at / 8 + 1) as u8).collect();
                (0..copies).for_each(|copy| bed.put(chunk, copy, block, &content));
            }
        }
        bed.serve();
        bed
    }

    fn id_of(n: usize) -> [u8; 16] {
        [n as u8 + 1; 16]
    }

    /// Node n is linked, and has the extent that it had.
    pub fn link(&mut self, n: usize) {
        self.link_after(n, FlashBed::id_of(n));
    }

    /// The same after a start of its device.
    pub fn link_after(&mut self, n: usize, boot_id: [u8; 16]) {
        let (extent_id, size_bytes) = (FlashBed::id_of(n), self.nodes[n].bytes.len() as u64);
        let remembered = self.bed.gateway.map(0).expect("a map").members()[n].seen;
        let knows_marks = self.nodes[n].knows_marks;
        self.bed.link(n, &Welcome { extent_id, boot_id, remembered, knows_marks, ..welcome(size_bytes) });
    }

    /// Node n is linked, and says that its extent has so many bytes.
    pub fn link_of_size(&mut self, n: usize, size_bytes: u64) {
        let id = FlashBed::id_of(n);
        let remembered = self.bed.gateway.map(0).expect("a map").members()[n].seen;
        let knows_marks = self.nodes[n].knows_marks;
        self.bed.link(n, &Welcome { extent_id: id, boot_id: id, remembered, knows_marks, ..welcome(size_bytes) });
    }

    /// Its link is closed, and the gateway will try again.
    pub fn unlink(&mut self, n: usize) {
        self.bed.gateway.link_closed(self.bed.now, LinkId(n), "reset");
        self.bed.gateway.link_out(LinkId(n)).take_all();
    }

    /// Time goes by until the gateway connects to node n.
    pub fn until_connecting(&mut self, n: usize) {
        let phase = |bed: &FlashBed| bed.bed.gateway.status().volumes[0].nodes[n].links[0].phase;
        while phase(self) != LinkPhase::Connecting {
            self.pass(Duration::from_millis(100));
        }
    }

    /// The node that has a copy.
    #[must_use]
    pub fn place_of(&self, chunk: u32, copy: usize) -> usize {
        self.place(chunk, copy, 0).0
    }

    fn place(&self, chunk: u32, copy: usize, block: u64) -> (usize, usize) {
        let place = self.bed.gateway.map(0).expect("a map").places(chunk)[copy];
        (place.member.into(), (u64::from(place.slot) * FlashBed::CHUNK_BYTES + block * BLOCK) as usize)
    }

    /// Puts bytes in the place of a block of a copy, and a checksum that matches.
    pub fn put(&mut self, chunk: u32, copy: usize, block: u64, bytes: &[u8]) {
        let (node, at) = self.place(chunk, copy, block);
        self.nodes[node].bytes[at..at + BLOCK as usize].copy_from_slice(bytes);
    }

    /// The bytes of a block of a copy.
    #[must_use]
    pub fn block(&self, chunk: u32, copy: usize, block: u64) -> Vec<u8> {
        let (node, at) = self.place(chunk, copy, block);
        self.nodes[node].bytes[at..at + BLOCK as usize].to_vec()
    }

    /// A bit of a block of a copy flips.
    pub fn rot(&mut self, chunk: u32, copy: usize, block: u64) {
        let (node, at) = self.place(chunk, copy, block);
        let expected = checksum(&self.nodes[node].bytes[at..at + BLOCK as usize]);
        self.nodes[node].bytes[at] ^= 1;
        if self.nodes[node].corrupt.insert(at as u64 / BLOCK) {
            self.nodes[node].expected.insert(at as u64 / BLOCK, expected);
        }
    }

    /// Whether no block of any node fails to match.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.nodes.iter().all(|node| node.corrupt.is_empty())
    }

    /// Node n reports its device's condition.
    pub fn report(&mut self, n: usize, condition: &Condition) {
        self.bed.gateway.link_rx(LinkId(n)).extend(&bytes_of(|out| put_condition(out, condition)));
        self.bed.gateway.process_link(self.bed.now, LinkId(n));
    }

    /// Node n does what it was sent, and answers. False if there was nothing.
    pub fn answer(&mut self, n: usize) -> bool {
        if self.nodes[n].is_silent {
            return false;
        }
        let out = self.bed.gateway.link_out(LinkId(n)).take_all();
        self.answer_bytes(n, &out)
    }

    /// The same for what it was sent earlier.
    pub fn answer_bytes(&mut self, n: usize, out: &[u8]) -> bool {
        let mut bytes = Vec::new();
        for frame in frames(out).into_iter().filter(|frame| frame.kind == FrameKind::Batch) {
            let mut pieces = Vec::new();
            let seq = decode_batch(&frame.meta, frame.payload.len(), &mut pieces).expect("a batch");
            let mut replies = RepliesEncoder::default();
            replies.clear();
            let (mut at, mut data) = (0, Vec::new());
            for (index, piece) in (0..).zip(&pieces) {
                let payload = &frame.payload[at..at + piece.payload_bytes() as usize];
                at += payload.len();
                self.nodes[n].seen.push(*piece);
                let served = self.nodes[n].serve(piece, payload);
                replies.push(seq, &[index], served.as_ref().map(|_| ()).map_err(|failure| *failure), 0);
                data.extend(served.unwrap_or_default());
            }
            let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
            encode_frame(&mut bytes, FrameKind::Replies, put, |out| out.extend_from_slice(&data));
        }
        self.bed.gateway.link_rx(LinkId(n)).extend(&bytes);
        self.bed.gateway.process_link(self.bed.now, LinkId(n));
        !bytes.is_empty()
    }

    /// A turn of the loop, after which decisions are durable.
    pub fn turn(&mut self) {
        self.bed.turn();
        for action in self.bed.actions() {
            if let Action::Commit { volume, number, .. } = action {
                self.bed.gateway.committed(self.bed.now, volume, number, Ok(()));
                self.bed.turn();
            }
        }
    }

    /// All nodes answer what they were sent so far. Returns how many had something to answer.
    pub fn serve_once(&mut self) -> usize {
        self.turn();
        (0..self.nodes.len()).filter(|&n| self.answer(n)).count()
    }

    /// All nodes answer at once until nothing is left to answer.
    pub fn serve(&mut self) {
        for _ in 0..100_000 {
            if self.serve_once() == 0 {
                return;
            }
        }
        panic!("it spins");
    }

    /// Time goes by, and nodes answer at once.
    pub fn pass(&mut self, time: Duration) {
        let end = self.bed.now + time;
        while self.bed.now < end {
            let due = self.bed.gateway.next_timeout().unwrap_or(end).min(end).max(self.bed.now);
            self.bed.now = due;
            self.bed.gateway.handle_timeout(due);
            self.serve();
            if due == self.bed.now && self.bed.gateway.next_timeout().is_some_and(|next| next <= due) {
                self.bed.now = due + Duration::from_millis(1);
            }
        }
    }

    /// How the calls of the client ended, in the order of their making.
    pub fn results(&mut self) -> Vec<Result<Vec<u8>, Failure>> {
        let mut ended = std::mem::take(self.bed.gateway.completions());
        ended.sort_by_key(|completion| completion.cookie);
        ended.into_iter().map(|completion| completion.result).collect()
    }
}
