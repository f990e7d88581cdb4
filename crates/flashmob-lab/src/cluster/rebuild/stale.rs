//! The blocks of a node's extent that differ from the other copies. Nothing is stored in this simulator: they are known by their numbers.

use flashmob_core::wire::digest::{DIGEST_BLOCK_BYTES, DIGEST_BYTES, put_digest_of_zeros};

use super::Settings;
use crate::random::Random;

/// What nodes hash to where they differ.
const OTHER_HASH: u8 = 0x5a;

#[derive(Clone, Debug, Default)]
pub(in super::super) struct Stale {
    /// A bit for each block.
    blocks: Vec<u64>,
}

impl Stale {
    /// The blocks of a node, drawn at random if it is the one that was away.
    pub(in super::super) fn new(settings: &Settings, node: u32) -> Stale {
        let Some(rebuild) = settings.rebuild.filter(|rebuild| rebuild.node == node) else { return Stale::default() };
        let mut random = Random::new(settings.seed ^ 0x57a1e);
        let count = settings.extent_bytes.div_ceil(u64::from(DIGEST_BLOCK_BYTES));
        let mut stale = Stale { blocks: vec![0; count.div_ceil(64) as usize] };
        for block in 0..count {
            if random.next() % 1_000_000 < u64::from(rebuild.differing_ppm) {
                stale.blocks[(block / 64) as usize] |= 1 << (block % 64);
            }
        }
        stale
    }

    /// Bytes of those in a range.
    pub(super) fn differing_bytes(&self, offset_bytes: u64, len_bytes: u64) -> u64 {
        let block_bytes = u64::from(DIGEST_BLOCK_BYTES);
        let blocks = offset_bytes / block_bytes..(offset_bytes + len_bytes) / block_bytes;
        blocks.filter(|&block| self.has(block)).count() as u64 * block_bytes
    }

    fn has(&self, block: u64) -> bool {
        let word = self.blocks.get((block / 64) as usize).copied().unwrap_or_default();
        word & (1 << (block % 64)) != 0
    }

    /// Bytes were written: whole blocks of them are equal now.
    pub(in super::super) fn written(&mut self, offset_bytes: u64, len_bytes: u64) {
        let block_bytes = u64::from(DIGEST_BLOCK_BYTES);
        for block in offset_bytes.div_ceil(block_bytes)..(offset_bytes + len_bytes) / block_bytes {
            if let Some(word) = self.blocks.get_mut((block / 64) as usize) {
                *word &= !(1 << (block % 64));
            }
        }
    }

    /// The digest of a range.
    pub(in super::super) fn put_digest(&self, offset_bytes: u64, digest: &mut [u8]) {
        put_digest_of_zeros(digest);
        let first = offset_bytes / u64::from(DIGEST_BLOCK_BYTES);
        for (block, hash) in (first..).zip(digest.chunks_exact_mut(DIGEST_BYTES)) {
            if self.has(block) {
                hash.fill(OTHER_HASH);
            }
        }
    }
}
