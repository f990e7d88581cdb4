//! What a node finds around it: a store in memory, and an identity.

use flashmob_core::node::{Host, StoreDone, StoreOp, TryRead, accept};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, is_whole_blocks, put_digest};
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};
use flashmob_core::wire::map::{MAP_BYTES, put_all_data};

/// Bytes of the extent: no multiple of anything, larger than the longest piece.
pub const EXTENT_BYTES: u64 = (300 << 10) + 7;
/// The only volume that the extent agrees to serve.
pub const VOLUME_ID: &str = "v";

/// The byte that lies at an address as long as nothing was changed.
#[must_use]
pub fn pattern(offset_bytes: u64) -> u8 {
    (offset_bytes ^ (offset_bytes >> 8) ^ (offset_bytes >> 16)) as u8
}

/// The store's bytes.
#[derive(Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    /// Every how manyth read that must not block misses, and write goes to the store: 0 none, 1 all.
    pub miss_every: usize,
    tries: usize,
    now: Time,
    has_fast_reads: bool,
    /// The charge that the extent remembers.
    pub charge: Option<Charge>,
    /// Those that it accepted.
    pub accepted: Vec<(u64, u64)>,
}

impl Memory {
    /// An extent that holds the pattern.
    #[must_use]
    pub fn new(has_fast_reads: bool, miss_every: usize) -> Memory {
        let bytes = (0..EXTENT_BYTES).map(pattern).collect();
        Memory { bytes, miss_every, tries: 0, now: Time::default(), has_fast_reads, charge: None, accepted: Vec::new() }
    }

    fn range(&mut self, offset_bytes: u64, len_bytes: usize) -> &mut [u8] {
        let at = offset_bytes as usize;
        assert!(at + len_bytes <= self.bytes.len(), "the store is asked for {at}+{len_bytes}");
        &mut self.bytes[at..at + len_bytes]
    }

    /// Carries out an operation, or fails it.
    pub fn execute(&mut self, mut op: StoreOp, failure: Option<Failure>) -> StoreDone {
        let len_bytes = op.len_bytes as usize;
        match op.op {
            Op::Read | Op::Write => assert_eq!(op.data.len(), len_bytes, "{:?} of {len_bytes} bytes", op.op),
            Op::Flush => assert_eq!((len_bytes, op.data.len()), (0, 0)),
            Op::Trim | Op::WriteZeroes => assert!(op.data.is_empty() && len_bytes > 0),
            Op::Map => assert!(op.data.len() == MAP_BYTES && len_bytes > 0),
            Op::Digest => {
                assert!(is_whole_blocks(op.offset_bytes, op.len_bytes) && len_bytes > 0);
                assert_eq!(op.data.len(), 8 * (len_bytes / DIGEST_BLOCK_BYTES as usize));
            }
        }
        let range = self.range(op.offset_bytes, len_bytes);
        match op.op {
            _ if failure.is_some() => {}
            Op::Read => op.data.copy_from_slice(range),
            Op::Write => range.copy_from_slice(&op.data),
            Op::Trim | Op::WriteZeroes => range.fill(0),
            Op::Map => put_all_data(&mut op.data, op.len_bytes),
            Op::Digest => put_digest(range, &mut op.data),
            Op::Flush => {}
        }
        StoreDone {
            id: op.id,
            result: failure.map_or(Ok(()), Err),
            data: op.data,
            started: self.now,
            finished: self.now,
        }
    }
}

impl Host for Memory {
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        let range = self.range(offset_bytes, into.len());
        into.copy_from_slice(range);
        self.tries += 1;
        if self.miss_every > 0 && self.tries.is_multiple_of(self.miss_every) { TryRead::Miss } else { TryRead::Hit }
    }

    fn try_writes<'a>(&mut self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        let mut count = 0;
        for (offset_bytes, bytes) in writes {
            self.tries += 1;
            if !self.has_fast_reads || self.miss_every > 0 && self.tries.is_multiple_of(self.miss_every) {
                break;
            }
            self.range(offset_bytes, bytes.len()).copy_from_slice(bytes);
            count += 1;
        }
        count
    }

    fn charge(&self) -> Option<Charge> {
        self.charge
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        self.accepted.clone()
    }

    fn age(&self) -> Option<(u64, u64)> {
        None
    }

    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        if hello.volume_id != VOLUME_ID {
            return Err((RefuseReason::Identity, "another volume".to_string()));
        }
        if let Some(known) = self.charge {
            let Some(next) = hello.charge else { panic!("a hello without a charge comes through") };
            let is_later = known.epoch < next.epoch || (known.epoch, known.nonce) == (next.epoch, next.nonce);
            assert!(known.map_id == next.map_id && known.version <= next.version && is_later, "{known:?} {next:?}");
        }
        hello.charge.iter().for_each(|charge| accept(&mut self.accepted, charge));
        self.charge = hello.charge;
        Ok(())
    }

    fn has_fast_reads(&self) -> bool {
        self.has_fast_reads
    }

    fn now(&mut self) -> Time {
        self.now = Time(self.now.0 + 1);
        self.now
    }
}
