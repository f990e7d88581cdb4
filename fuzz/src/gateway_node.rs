//! The nodes' end of a gateway's links: understands what the gateway sends, and answers rightly, wrongly or never.

use flashmob_core::condition::Condition;
use flashmob_core::op::{Failure, Op};
use flashmob_core::wire::batch::{WirePiece, decode_batch};
use flashmob_core::wire::condition::{Alive, decode_alive, put_alive, put_condition};
use flashmob_core::wire::frame::{encode_error, encode_frame};
use flashmob_core::wire::hello::{Hello, Refuse, RefuseReason, Welcome};
use flashmob_core::wire::map::{MAP_BYTES, MapWriter};
use flashmob_core::wire::replies::RepliesEncoder;
use flashmob_core::wire::trace::{PieceTimes, Way, followed, put_times};
use flashmob_core::wire::{Decoded, FrameKind, decode_frame};

use crate::bytes::{Choices, mutate};

/// The byte that a node has at an address.
#[must_use]
pub fn pattern(node: usize, offset_bytes: u64) -> u8 {
    (offset_bytes ^ (offset_bytes >> 8) ^ (offset_bytes >> 16)) as u8 ^ (node as u8).wrapping_mul(0x55)
}

/// Where a link is, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No connection.
    Down,
    /// The gateway waits for one.
    Asked,
    /// There is one.
    Up,
}

/// A batch that the gateway sent.
#[derive(Debug)]
struct Asked {
    seq: u32,
    pieces: Vec<WirePiece>,
    answered: Vec<bool>,
    /// Pieces of which the gateway wants to know the times.
    followed: Vec<u16>,
}

/// One link.
#[derive(Debug)]
pub struct NodeEnd {
    /// The node, from 0.
    pub node: usize,
    /// Whether there is a connection.
    pub phase: Phase,
    size_bytes: u64,
    received: Vec<u8>,
    has_hello: bool,
    batches: Vec<Asked>,
    /// Changes that may still happen after the connection broke.
    unresolved: Vec<WirePiece>,
}

fn overlap(a: &WirePiece, b: &WirePiece) -> bool {
    let end = |p: &WirePiece| p.offset_bytes + u64::from(p.len_bytes);
    a.op.mutates() && b.op.mutates() && a.offset_bytes < end(b) && b.offset_bytes < end(a)
}

impl NodeEnd {
    /// A link to a node with an extent of that size.
    #[must_use]
    pub fn new(node: usize, size_bytes: u64) -> NodeEnd {
        NodeEnd {
            node,
            phase: Phase::Down,
            size_bytes,
            received: Vec::new(),
            has_hello: false,
            batches: Vec::new(),
            unresolved: Vec::new(),
        }
    }

    /// The connection is gone.
    pub fn down(&mut self) {
        self.unresolved.extend(self.open_changes());
        self.phase = Phase::Down;
        self.received.clear();
        self.has_hello = false;
        self.batches.clear();
    }

    fn open_changes(&self) -> Vec<WirePiece> {
        let pieces = self.batches.iter().flat_map(|b| b.pieces.iter().zip(&b.answered));
        pieces.filter(|(p, answered)| !**answered && p.op.mutates()).map(|(p, _)| *p).collect()
    }

    /// Changes that may still happen.
    #[must_use]
    pub fn changes_under_way(&self) -> Vec<WirePiece> {
        let mut changes = self.open_changes();
        changes.extend(&self.unresolved);
        changes
    }

    /// Takes bytes from the gateway; whatever it sends must make sense, and no change may overlap one of `others`.
    pub fn receive(&mut self, bytes: &[u8], others: &[WirePiece], outstanding_max: usize) {
        self.received.extend_from_slice(bytes);
        let mut at = 0;
        while let Decoded::Frame(frame, taken) =
            decode_frame(&self.received[at..]).unwrap_or_else(|e| panic!("a gateway sent: {e}"))
        {
            at += taken;
            if !self.has_hello {
                assert_eq!(frame.kind, FrameKind::Hello);
                assert!(Hello::decode(frame.meta).is_ok_and(|h| h.extent as usize == self.node));
                self.has_hello = true;
                continue;
            }
            if frame.kind == FrameKind::Alive {
                assert!(decode_alive(frame.meta).is_ok_and(|alive| alive != Alive::Progress));
                continue;
            }
            assert_eq!(frame.kind, FrameKind::Batch);
            let mut pieces = Vec::new();
            let seq = decode_batch(frame.meta, frame.payload.len(), &mut pieces)
                .unwrap_or_else(|e| panic!("a gateway sent: {e}"));
            for (i, piece) in pieces.iter().enumerate() {
                assert!(piece.offset_bytes + u64::from(piece.len_bytes) <= self.size_bytes, "{piece:?}");
                let mine = self.open_changes();
                let mut earlier = others.iter().chain(&mine).chain(&pieces[..i]);
                assert!(!earlier.any(|p| overlap(p, piece)), "two changes under way overlap: {piece:?}");
            }
            assert!(self.batches.iter().all(|b| b.seq != seq));
            let answered = vec![false; pieces.len()];
            let followed: Vec<u16> = followed(frame.meta).collect();
            assert!(followed.iter().all(|&index| usize::from(index) < pieces.len()));
            self.batches.push(Asked { seq, pieces, answered, followed });
            self.batches.retain(|b| b.answered.contains(&false));
            assert!(self.batches.len() <= outstanding_max);
        }
        self.received.drain(..at);
    }

    /// What a node says to a hello. The flag: nothing in it was false.
    pub fn greeting(&mut self, choices: &mut Choices<'_>) -> (Vec<u8>, bool) {
        let what = choices.u8();
        let mut bytes = Vec::new();
        match what {
            0xf0..=0xf8 => {
                let reason = RefuseReason::ALL[usize::from(what) % RefuseReason::ALL.len()];
                Refuse { reason, text: "not today".to_string() }.encode(&mut bytes);
            }
            0xf9..=0xff => encode_error(&mut bytes, "no"),
            _ => {
                let size_bytes = if what & 0xe0 == 0xe0 { u64::from(what & 3) } else { self.size_bytes };
                let welcome = Welcome {
                    extent_id: [if what & 0xe0 == 0xc0 { 9 } else { self.node as u8 }; 16],
                    boot_id: [what & 1; 16],
                    size_bytes,
                    no_io: what & 2 != 0,
                    modelled: what & 4 != 0,
                    keeps_alive: true,
                    hello_received_ns: u64::from(what),
                    welcome_sent_ns: u64::from(what) << (what & 31),
                    remembered: None,
                    mirror: None,
                    knows_marks: what & 8 != 0,
                    keeps_age: what & 16 != 0,
                };
                welcome.encode(&mut bytes);
                self.unresolved.clear();
            }
        }
        let is_whole = mutate(choices, &mut bytes);
        (bytes, is_whole)
    }

    /// Answers some pieces that are out; the flag: nothing in it was false. `None` if nothing is out.
    pub fn answer(&mut self, choices: &mut Choices<'_>) -> Option<(Vec<u8>, bool)> {
        if self.batches.is_empty() {
            return None;
        }
        let mut encoder = RepliesEncoder::default();
        encoder.clear();
        let (mut payload, mut times) = (Vec::new(), Vec::new());
        let mut honest = true;
        let what_else = choices.u8();
        for _ in 0..=choices.below(3) {
            let at = choices.below(self.batches.len());
            honest &= self.answer_batch(at, choices, &mut encoder, &mut payload);
            self.times(at, choices, &mut times);
        }
        let mut bytes = Vec::new();
        if encoder.is_empty() {
            return None;
        }
        if payload.len() > flashmob_core::wire::PAYLOAD_BYTES_MAX {
            payload.clear();
            honest = false;
        }
        encode_frame(
            &mut bytes,
            FrameKind::Replies,
            |meta| meta.extend_from_slice(encoder.finish()),
            |out| out.extend_from_slice(&payload),
        );
        if !times.is_empty() {
            put_times(&mut bytes, &times);
        }
        if what_else & 3 == 3 {
            put_condition(&mut bytes, &Condition { battery_percent: Some(what_else % 101), ..Condition::default() });
        }
        if what_else & 12 == 12 {
            put_alive(&mut bytes, Alive::ALL[usize::from(what_else >> 4) % 3]);
        }
        mutate(choices, &mut bytes);
        Some((bytes, honest))
    }

    /// What the node says of followed pieces of a batch, answered or not: any times in order.
    fn times(&self, at: usize, choices: &mut Choices<'_>, times: &mut Vec<PieceTimes>) {
        let Asked { seq, followed, .. } = &self.batches[at];
        for &index in followed {
            let mut stages = [(); 5].map(|()| u64::from(choices.u32()) << (choices.u8() & 31));
            stages.sort_unstable();
            let [received_ns, scheduled_ns, started_ns, finished_ns, replied_ns] = stages;
            times.push(PieceTimes {
                seq: *seq,
                index,
                way: Way::Store,
                received_ns,
                scheduled_ns,
                started_ns,
                finished_ns,
                replied_ns,
                op_offset_bytes: 0,
                op_bytes: 1,
            });
        }
    }

    fn answer_batch(
        &mut self,
        at: usize,
        choices: &mut Choices<'_>,
        encoder: &mut RepliesEncoder,
        payload: &mut Vec<u8>,
    ) -> bool {
        let (which, how) = (choices.u8(), choices.u8());
        let node = self.node;
        let batch = &mut self.batches[at];
        let open: Vec<u16> = (0..batch.pieces.len() as u16).filter(|&i| !batch.answered[usize::from(i)]).collect();
        let indices: Vec<u16> = match which & 3 {
            0 | 1 => open,
            2 => open.into_iter().step_by(2).collect(),
            _ => open.into_iter().take(usize::from(which >> 2)).collect(),
        };
        if indices.is_empty() || !encoder.has_room_for(indices.len()) {
            return true;
        }
        let outcome = if which & 0x38 == 0x38 { Err(Failure::ALL[usize::from(which >> 6)]) } else { Ok(()) };
        for &index in &indices {
            let piece = batch.pieces[usize::from(index)];
            batch.answered[usize::from(index)] = true;
            let end = piece.offset_bytes + u64::from(piece.len_bytes);
            match piece.op {
                Op::Read if outcome.is_ok() => payload.extend((piece.offset_bytes..end).map(|at| pattern(node, at))),
                Op::Map if outcome.is_ok() => {
                    // A hole in the first half, or of everything, or nothing but data.
                    let holes = piece.len_bytes / (1 + u32::from(how) % 3);
                    let mut map = [0; MAP_BYTES];
                    let mut writer = MapWriter::new(&mut map);
                    writer.push(holes, how & 4 == 0);
                    writer.push(piece.len_bytes - holes, false);
                    payload.extend_from_slice(&map);
                }
                _ => {}
            }
        }
        let seq = batch.seq;
        match how {
            0xf0 => {
                // Twice the same.
                encoder.push(seq, &indices, outcome, 1);
                encoder.push(seq, &indices, outcome, 1);
            }
            0xf1 => encoder.push(seq.wrapping_add(1 + u32::from(which)), &indices, outcome, 1),
            0xf2 => encoder.push(seq, &(0..indices.len() as u16 + 7).collect::<Vec<u16>>(), outcome, 1),
            0xf3 => {
                encoder.push(seq, &indices, outcome, 1);
                payload.push(0);
            }
            0xf4 => {
                encoder.push(seq, &indices, outcome, 1);
                payload.pop();
            }
            _ => {
                encoder.push(seq, &indices, outcome, u32::from(how));
                return true;
            }
        }
        false
    }
}
