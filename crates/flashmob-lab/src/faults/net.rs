//! Connections: two pipes of bytes each, with latency, bandwidth, bounded buffers, and bad luck.
//!
//! Side 0 of a connection called, side 1 was called. A pipe keeps the order of its bytes, as TCP does; between
//! connections there is no order. A side that closes does not take back what it wrote: that may arrive much later.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::units::Time;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::{Ctx, Event};

/// How a connection behaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkQuality {
    /// One way, in nanoseconds.
    pub latency_ns: u64,
    /// How much longer a write may be under way, in nanoseconds.
    pub jitter_ns: u64,
    /// Bytes per second; 0 for no limit.
    pub bytes_per_second: u64,
    /// Most bytes under way and not yet read, per direction.
    pub buffer_bytes: usize,
    /// How often a write is cut short, and a read too.
    pub cut_rate: f64,
}

pub(super) type ConnId = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnKind {
    Client(usize),
    Link { link: usize, node: usize },
}

/// A chance that bytes are damaged until some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Damage {
    pub until: Time,
    pub rate: f64,
}

#[derive(Debug, Default)]
struct Pipe {
    flight: VecDeque<(Time, Vec<u8>)>,
    inbox: Vec<u8>,
    held_bytes: usize,
    /// When the last byte written will arrive.
    tail: Time,
    /// Nothing arrives before this time.
    stalled_until: Time,
    /// Everything written from now on is lost.
    is_cut: bool,
    is_full: bool,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub kind: ConnKind,
    quality: LinkQuality,
    /// Whether each side has its end open.
    pub open: [bool; 2],
    /// It has carried damaged bytes.
    pub is_damaged: bool,
    pipes: [Pipe; 2],
}

/// All connections that ever were.
#[derive(Debug, Default)]
pub(super) struct Net {
    pub conns: Vec<Conn>,
    /// Per node: damage to what its links carry.
    pub damage: Vec<Damage>,
    /// Per node: its next link to carry something longer is closed for the gateway just then, and the node gets
    /// that, and learns of the end, so much later.
    pub traps: Vec<Option<Duration>>,
    /// Per node: nothing that it sends on its next new link arrives before this time.
    pub late: Vec<Time>,
}

/// Bytes that spring a trap: more than a frame without payload and a piece or two.
const TRAP_BYTES: usize = 48;

impl Net {
    pub fn connect(&mut self, kind: ConnKind, quality: &LinkQuality) -> ConnId {
        let mut pipes = [Pipe::default(), Pipe::default()];
        if let ConnKind::Link { node, .. } = kind {
            pipes[1].stalled_until = std::mem::take(&mut self.late[node]);
        }
        let conn = Conn { kind, quality: quality.clone(), open: [true; 2], is_damaged: false, pipes };
        self.conns.push(conn);
        self.conns.len() - 1
    }

    /// Writes what fits of `from`, which the caller then has to advance. Returns how much that is.
    pub fn write(&mut self, ctx: &mut Ctx, id: ConnId, side: usize, from: &OutQueue) -> usize {
        let conn = &mut self.conns[id];
        if !conn.open[side] || from.is_empty() {
            return 0;
        }
        if let (ConnKind::Link { node, .. }, 0) = (conn.kind, side)
            && from.len() >= TRAP_BYTES
            && let Some(lasts) = self.traps[node].take()
        {
            ctx.after(0, Event::HalfOpen { conn: id, until: ctx.now + lasts });
        }
        let (quality, pipe) = (&conn.quality, &mut conn.pipes[side]);
        let room = quality.buffer_bytes.saturating_sub(pipe.held_bytes);
        let mut n = room.min(from.len());
        if n == 0 {
            pipe.is_full = true;
            return 0;
        }
        if n > 1 && quality.cut_rate > 0.0 && ctx.rng.random_bool(quality.cut_rate) {
            n = ctx.rng.random_range(1..n);
        }
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = from.fill_slices(&mut slices);
        let mut bytes = Vec::with_capacity(n);
        for slice in &slices[..filled] {
            bytes.extend_from_slice(&slice[..slice.len().min(n - bytes.len())]);
        }
        let n = bytes.len();
        pipe.is_full = n == room;
        if n < from.len() && !pipe.is_full {
            let delay = ctx.rng.random_range(1_000..50_000);
            ctx.after(delay, Event::Ready { conn: id, side });
        }
        let jitter = if quality.jitter_ns == 0 { 0 } else { ctx.rng.random_range(0..quality.jitter_ns) };
        let wire_ns = (n as u64 * 1_000_000_000).checked_div(quality.bytes_per_second).unwrap_or(0);
        let due = (ctx.now + Duration::from_nanos(quality.latency_ns + jitter)).max(pipe.tail).max(pipe.stalled_until)
            + Duration::from_nanos(wire_ns);
        if pipe.is_cut {
            return n;
        }
        pipe.tail = due;
        pipe.held_bytes += n;
        pipe.flight.push_back((due, bytes));
        ctx.at(due, Event::Arrive { conn: id, from: side });
        n
    }

    /// Moves what is due into the reader's inbox. Returns whether the reader has something new.
    pub fn arrive(&mut self, ctx: &mut Ctx, id: ConnId, from: usize) -> bool {
        let damage = match self.conns[id].kind {
            ConnKind::Link { node, .. } => self.damage[node],
            ConnKind::Client(_) => Damage::default(),
        };
        let conn = &mut self.conns[id];
        let (pipe, is_read) = (&mut conn.pipes[from], conn.open[1 - from]);
        let mut has_news = false;
        while let Some((_, mut bytes)) = pipe.flight.pop_front_if(|(due, _)| *due <= ctx.now) {
            if !is_read {
                pipe.held_bytes -= bytes.len();
                continue;
            }
            if ctx.now < damage.until && ctx.rng.random_bool(damage.rate) {
                let at = ctx.rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << ctx.rng.random_range(0..8);
                ctx.totals.corruptions += 1;
                conn.is_damaged = true;
            }
            pipe.inbox.extend_from_slice(&bytes);
            has_news = true;
        }
        has_news
    }

    /// Reads into `rx`, perhaps not all. Returns whether something is left to read.
    pub fn read(&mut self, ctx: &mut Ctx, id: ConnId, side: usize, rx: &mut RxBuf) -> bool {
        let conn = &mut self.conns[id];
        let pipe = &mut conn.pipes[1 - side];
        let mut n = pipe.inbox.len();
        if n > 1 && conn.quality.cut_rate > 0.0 && ctx.rng.random_bool(conn.quality.cut_rate) {
            n = ctx.rng.random_range(1..n);
        }
        rx.extend(&pipe.inbox[..n]);
        pipe.inbox.drain(..n);
        pipe.held_bytes -= n;
        if pipe.is_full && n > 0 {
            pipe.is_full = false;
            ctx.after(conn.quality.latency_ns, Event::Ready { conn: id, side: 1 - side });
        }
        !pipe.inbox.is_empty()
    }

    /// Whether something arrived that `side` has not read.
    pub fn has_unread(&self, id: ConnId, side: usize) -> bool {
        !self.conns[id].pipes[1 - side].inbox.is_empty()
    }

    /// A side closes its end; the other learns of it after what was written before, and `late` after that.
    pub fn close(&mut self, ctx: &mut Ctx, id: ConnId, side: usize, late: Duration) {
        let conn = &mut self.conns[id];
        if !std::mem::replace(&mut conn.open[side], false) {
            return;
        }
        let pipe = &mut conn.pipes[1 - side];
        pipe.held_bytes -= std::mem::take(&mut pipe.inbox).len();
        let pipe = &conn.pipes[side];
        let due = (ctx.now + Duration::from_nanos(conn.quality.latency_ns)).max(pipe.tail).max(pipe.stalled_until);
        ctx.at(due + late, Event::SeeClose { conn: id, side: 1 - side });
    }

    /// The connection breaks: what is under way arrives up to a random byte. Each side sees it soon after.
    pub fn cut(&mut self, ctx: &mut Ctx, id: ConnId) {
        for from in 0..2 {
            let pipe = &mut self.conns[id].pipes[from];
            let under_way: usize = pipe.flight.iter().map(|(_, b)| b.len()).sum();
            let mut keep = ctx.rng.random_range(0..=under_way);
            for (_, bytes) in &mut pipe.flight {
                let n = keep.min(bytes.len());
                pipe.held_bytes -= bytes.len() - n;
                bytes.truncate(n);
                keep -= n;
            }
            pipe.flight.retain(|(_, bytes)| !bytes.is_empty());
            pipe.is_cut = true;
            let due = pipe.flight.back().map_or(ctx.now, |(due, _)| *due);
            let late = Duration::from_micros(ctx.rng.random_range(0..2_000));
            ctx.at(due.max(ctx.now) + late, Event::SeeClose { conn: id, side: 1 - from });
        }
    }

    /// The caller's side sees a close at once; what it wrote is under way until `until`, and only then does the
    /// other side see it.
    pub fn half_open(&mut self, ctx: &mut Ctx, id: ConnId, until: Time) {
        self.stall(ctx, id, 0, until);
        ctx.at(ctx.now, Event::SeeClose { conn: id, side: 0 });
        ctx.at(until + Duration::from_millis(1), Event::SeeClose { conn: id, side: 1 });
    }

    /// Nothing from that side arrives before `until`.
    pub fn stall(&mut self, ctx: &mut Ctx, id: ConnId, from: usize, until: Time) {
        let pipe = &mut self.conns[id].pipes[from];
        pipe.stalled_until = pipe.stalled_until.max(until);
        pipe.tail = pipe.tail.max(until);
        for (due, _) in &mut pipe.flight {
            *due = (*due).max(until);
        }
        ctx.at(until, Event::Arrive { conn: id, from });
    }

    /// Connections that both sides still have open.
    pub fn open_links(&self, node: usize) -> impl Iterator<Item = ConnId> + '_ {
        self.conns
            .iter()
            .enumerate()
            .filter(move |(_, c)| {
                matches!(c.kind, ConnKind::Link { node: n, .. } if n == node) && c.open[0] && c.open[1]
            })
            .map(|(id, _)| id)
    }
}
