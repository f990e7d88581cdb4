//! A node's disk: every extent holds the same 64 KiB again and again.

use flashmob_core::node::{Host, StoreOp, TryRead};
use flashmob_core::op::Op;
use flashmob_core::units::Time;
use flashmob_core::wire::PIECE_BYTES_MAX;
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};

use crate::count_off;

/// After so many bytes the content repeats: the stripe of the worlds here, so that an address of the volume and its address in the
/// extent hold the same.
pub const PERIOD_BYTES: usize = 64 * 1024;

/// What the volume holds at an address.
pub fn byte_at(offset_bytes: u64) -> u8 {
    let at = offset_bytes % PERIOD_BYTES as u64;
    (at ^ (at >> 8).wrapping_mul(31)) as u8
}

/// A disk that is all in memory, or never.
pub struct MemoryHost {
    content: Vec<u8>,
    is_cached: bool,
    now: Time,
}

impl MemoryHost {
    /// With `is_cached` every read is answered at once, as from the page cache; without, all go to the store.
    pub fn new(is_cached: bool) -> MemoryHost {
        let content = (0..PERIOD_BYTES as u64 + u64::from(PIECE_BYTES_MAX)).map(byte_at).collect();
        MemoryHost { content, is_cached, now: Time(0) }
    }

    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// What a store does with an operation. Writes are taken for done.
    pub fn serve(&self, op: &mut StoreOp) {
        if op.op == Op::Read {
            self.copy(op.offset_bytes, &mut op.data);
        }
    }

    fn copy(&self, offset_bytes: u64, into: &mut [u8]) {
        let at = (offset_bytes % PERIOD_BYTES as u64) as usize;
        into.copy_from_slice(&self.content[at..at + into.len()]);
    }
}

impl Host for MemoryHost {
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        count_off(|| {
            if !self.is_cached {
                return TryRead::Miss;
            }
            self.copy(offset_bytes, into);
            TryRead::Hit
        })
    }

    fn charge(&self) -> Option<Charge> {
        None
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn age(&self) -> Option<(u64, u64)> {
        None
    }

    fn adopt(&mut self, _: &Hello) -> Result<(), (RefuseReason, String)> {
        Ok(())
    }

    fn has_fast_reads(&self) -> bool {
        true
    }

    fn now(&mut self) -> Time {
        self.now
    }
}
