//! A node in a slot of the ring, small.

use std::time::Duration;

use super::recorded::{Counts, NodeSlot};
use super::{CAUSES, Current};
use crate::buckets::{BUCKETS, Buckets};

/// A node in a slot of the ring.
#[derive(Debug, Clone)]
pub struct Packed {
    counts: [[u16; BUCKETS]; CAUSES],
    shifts: [u8; CAUSES],
    pub node: u16,
    running_permille: Option<u16>,
    starved_permille: Option<u16>,
    /// 0: none.
    p50_us: u32,
    p99_us: u32,
    timed: u32,
    batches: u32,
    pieces: u32,
    reply_frames: u32,
    kib_in: u32,
    failures: u32,
    read_here: u32,
    at_once: u32,
    store_operations: u32,
}

/// What the ring takes for a node that does something in a slot.
pub const NODE_BYTES: u64 = size_of::<Packed>() as u64;

impl Packed {
    /// `None` if it did nothing: links are kept alive without requests too.
    pub fn of(node: usize, current: &Current, counted: Counts) -> Option<Packed> {
        let is_idle = Counts { bytes_in: 0, ..counted } == Counts::default() && current.total.is_empty();
        if is_idle && current.causes.iter().all(Buckets::is_empty) && current.at_once + current.store_operations == 0 {
            return None;
        }
        let packed = [0, 1, 2, 3].map(|cause: usize| current.causes[cause].pack());
        let us = |q| {
            let time: Option<Duration> = current.total.quantile(q);
            time.map_or(0, |time| u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1))
        };
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Some(Packed {
            counts: packed.map(|(_, counts)| counts),
            shifts: packed.map(|(shift, _)| shift),
            node: u16::try_from(node).unwrap_or(u16::MAX),
            running_permille: current.running_permille,
            starved_permille: current.starved_permille,
            p50_us: us(0.5),
            p99_us: us(0.99),
            timed: small(current.total.total()),
            batches: small(counted.batches),
            pieces: small(counted.pieces),
            reply_frames: small(counted.reply_frames),
            kib_in: small(counted.bytes_in.div_ceil(1024)),
            failures: small(counted.failures),
            read_here: small(counted.read_here),
            at_once: small(current.at_once),
            store_operations: small(current.store_operations),
        })
    }

    pub fn unpack(&self) -> NodeSlot {
        let time = |us: u32| (us > 0).then(|| Duration::from_micros(us.into()));
        NodeSlot {
            causes: [0, 1, 2, 3].map(|cause: usize| Buckets::unpack((self.shifts[cause], &self.counts[cause]))),
            timed: self.timed.into(),
            p50: time(self.p50_us),
            p99: time(self.p99_us),
            counts: Counts {
                batches: self.batches.into(),
                pieces: self.pieces.into(),
                reply_frames: self.reply_frames.into(),
                bytes_in: u64::from(self.kib_in) * 1024,
                failures: self.failures.into(),
                read_here: self.read_here.into(),
            },
            at_once: self.at_once.into(),
            store_operations: self.store_operations.into(),
            running_permille: self.running_permille,
            starved_permille: self.starved_permille,
        }
    }
}
