//! A twin of a node's storage: what a reader sees now, and what would be left if the power failed.
//!
//! Operations take time and end out of order. A write reaches the live bytes when it begins or when it ends; the
//! flash it reaches for sure only by a flush that began afterwards, or at once with FUA. It must do nothing that a real disk
//! would not do.

use std::time::Duration;

use flashmob_core::node::{StoreDone, StoreOp, TryRead};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::put_digest;
use flashmob_core::wire::map::MapWriter;
use rand::Rng;
use rand::rngs::SmallRng;

/// The unit that flash writes atomically, in bytes: torn writes are torn at its boundaries.
const SECTOR_BYTES: u64 = 512;

/// How a store behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreQuality {
    /// The shortest time that an operation takes, in nanoseconds.
    pub base_ns: u64,
    /// How much longer it may take, in nanoseconds.
    pub jitter_ns: u64,
    /// How often a read is found in memory.
    pub hit_rate: f64,
    /// How often an operation fails while the store is ill.
    pub error_rate: f64,
}

/// A run of bytes that changed: where, what was there, what is there.
pub(super) type Changed = (u64, Vec<u8>, Vec<u8>);

#[derive(Debug)]
struct Unflushed {
    serial: u64,
    offset: u64,
    data: Vec<u8>,
}

#[derive(Debug)]
struct Flight {
    op: StoreOp,
    started: Time,
    /// Reaches the live bytes (or, for a read, is taken from them) when it begins, not when it ends.
    is_early: bool,
    fails: bool,
    /// A flush covers all writes below it.
    serial: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    pub quality: StoreQuality,
    /// How many times longer everything takes.
    pub slowness: u64,
    /// Operations fail now and then until this time.
    pub ill_until: Time,
    /// Nothing ends before this time.
    pub stalled_until: Time,
    live: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Vec<Unflushed>,
    next_serial: u64,
    flights: Vec<Option<Flight>>,
}

impl Store {
    pub fn new(content: Vec<u8>, quality: StoreQuality) -> Store {
        Store {
            quality,
            slowness: 1,
            ill_until: Time::default(),
            stalled_until: Time::default(),
            durable: content.clone(),
            live: content,
            unflushed: Vec::new(),
            next_serial: 0,
            flights: Vec::new(),
        }
    }

    pub fn live(&self) -> &[u8] {
        &self.live
    }

    /// What would be left if the power failed now and took all that is not flushed.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Puts bytes there, before anything happens.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) {
        let range = offset as usize..offset as usize + bytes.len();
        self.live[range.clone()].copy_from_slice(bytes);
        self.durable[range].copy_from_slice(bytes);
    }

    pub fn try_read(&self, rng: &mut SmallRng, offset: u64, into: &mut [u8]) -> TryRead {
        if !rng.random_bool(self.quality.hit_rate) {
            return TryRead::Miss;
        }
        match self.live.get(offset as usize..offset as usize + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                TryRead::Hit
            }
            None => TryRead::Failed(Failure::Io),
        }
    }

    /// Begins an operation. Returns what [`Store::finish`] needs, and when to call it.
    pub fn start(&mut self, now: Time, rng: &mut SmallRng, mut op: StoreOp) -> (usize, Time) {
        let fails = now < self.ill_until && rng.random_bool(self.quality.error_rate);
        let is_early = rng.random_bool(0.5);
        let is_flush = op.op == Op::Flush;
        let jitter = if self.quality.jitter_ns == 0 { 0 } else { rng.random_range(0..self.quality.jitter_ns) };
        let took = (self.quality.base_ns + jitter) * self.slowness * if is_flush { 4 } else { 1 };
        let serial = self.next_serial;
        if is_early && !fails {
            self.apply(rng, &mut op);
        }
        let flight = Flight { op, started: now, is_early, fails, serial };
        let slot = self.flights.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[slot] = Some(flight);
        (slot, (now + Duration::from_nanos(took)).max(self.stalled_until))
    }

    pub fn finish(&mut self, now: Time, rng: &mut SmallRng, slot: usize) -> Option<StoreDone> {
        let Flight { mut op, started, is_early, fails, serial } = self.flights.get_mut(slot)?.take()?;
        if fails {
            self.apply_partly(rng, &op);
        } else {
            if !is_early {
                self.apply(rng, &mut op);
            }
            if op.op == Op::Flush {
                self.flush_below(serial);
            } else if op.flags.has(OpFlags::FUA) {
                self.flush_range(op.offset_bytes, u64::from(op.len_bytes));
            }
        }
        let failure = if op.op.mutates() && rng.random_bool(0.3) { Failure::NoSpace } else { Failure::Io };
        let result = if fails { Err(failure) } else { Ok(()) };
        Some(StoreDone { id: op.id, result, data: op.data, started, finished: now })
    }

    fn apply(&mut self, rng: &mut SmallRng, op: &mut StoreOp) {
        let at = op.offset_bytes as usize;
        let range = at..at + op.len_bytes as usize;
        match op.op {
            Op::Read => op.data.copy_from_slice(&self.live[range]),
            Op::Write => self.write(op.offset_bytes, op.data.clone()),
            Op::WriteZeroes => self.write(op.offset_bytes, vec![0; op.len_bytes as usize]),
            Op::Trim if rng.random_bool(0.7) => self.write(op.offset_bytes, vec![0; op.len_bytes as usize]),
            Op::Trim | Op::Flush => {}
            Op::Digest => put_digest(&self.live[range], &mut op.data),
            Op::Map => {
                let mut map = MapWriter::new(&mut op.data);
                let runs = self.live[range].chunk_by(|a, b| (*a == 0) == (*b == 0));
                for run in runs {
                    if !map.push(run.len() as u32, run[0] == 0) {
                        break;
                    }
                }
            }
        }
    }

    /// Applies a failed or interrupted change: not at all, in part, or as a whole.
    fn apply_partly(&mut self, rng: &mut SmallRng, op: &StoreOp) {
        let bytes = match op.op {
            Op::Write => op.data.clone(),
            Op::WriteZeroes | Op::Trim => vec![0; op.len_bytes as usize],
            Op::Read | Op::Flush | Op::Map | Op::Digest => return,
        };
        for (offset, sector) in sectors(op.offset_bytes, &bytes) {
            if rng.random_bool(0.5) {
                self.write(offset, sector.to_vec());
            }
        }
    }

    fn write(&mut self, offset: u64, data: Vec<u8>) {
        let at = offset as usize;
        self.live[at..at + data.len()].copy_from_slice(&data);
        self.unflushed.push(Unflushed { serial: self.next_serial, offset, data });
        self.next_serial += 1;
    }

    fn flush_below(&mut self, serial: u64) {
        let durable = &mut self.durable;
        self.unflushed.retain(|u| {
            let flushed = u.serial < serial;
            if flushed {
                durable[u.offset as usize..u.offset as usize + u.data.len()].copy_from_slice(&u.data);
            }
            !flushed
        });
    }

    fn flush_range(&mut self, start: u64, len: u64) {
        let end = start + len;
        self.durable[start as usize..end as usize].copy_from_slice(&self.live[start as usize..end as usize]);
        for u in std::mem::take(&mut self.unflushed) {
            let u_end = u.offset + u.data.len() as u64;
            if u_end <= start || u.offset >= end {
                self.unflushed.push(u);
                continue;
            }
            if u.offset < start {
                let data = u.data[..(start - u.offset) as usize].to_vec();
                self.unflushed.push(Unflushed { data, ..u });
            }
            if u_end > end {
                let data = u.data[(end - u.offset) as usize..].to_vec();
                self.unflushed.push(Unflushed { serial: u.serial, offset: end, data });
            }
        }
    }

    /// The process dies; operations in flight end somewhere.
    pub fn kill(&mut self, rng: &mut SmallRng) {
        for flight in std::mem::take(&mut self.flights).into_iter().flatten() {
            if !flight.is_early {
                self.apply_partly(rng, &flight.op);
            }
        }
    }

    /// The power fails: each sector of each unflushed write has reached the flash or not.
    pub fn lose_power(&mut self, rng: &mut SmallRng) -> Vec<Changed> {
        self.kill(rng);
        let keep = [0.0, 0.5, 0.9][rng.random_range(0..3)];
        for u in std::mem::take(&mut self.unflushed) {
            for (offset, sector) in sectors(u.offset, &u.data) {
                if rng.random_bool(keep) {
                    self.durable[offset as usize..offset as usize + sector.len()].copy_from_slice(sector);
                }
            }
        }
        let changed = differences(&self.live, &self.durable);
        self.live.clone_from(&self.durable);
        changed
    }
}

/// Cuts bytes at `offset` where sectors end.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let position = offset + at as u64;
        let len = ((SECTOR_BYTES - position % SECTOR_BYTES) as usize).min(bytes.len() - at);
        let sector = bytes.get(at..at + len).filter(|s| !s.is_empty())?;
        at += len;
        Some((position, sector))
    })
}

fn differences(before: &[u8], after: &[u8]) -> Vec<Changed> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(skip) = before[at..].iter().zip(&after[at..]).position(|(a, b)| a != b) {
        let start = at + skip;
        let len = before[start..].iter().zip(&after[start..]).take_while(|(a, b)| a != b).count();
        at = start + len;
        runs.push((start as u64, before[start..at].to_vec(), after[start..at].to_vec()));
    }
    runs
}
