//! What writes are made of, so that reading back shows that they were made: the file's own bytes, with a stamp in each block that no
//! other round had.

use std::sync::atomic::{AtomicU64, Ordering};

use flashmob_bench::load::Verifier;
use flashmob_bench::load::random::{GOLDEN, mix64};
use flashmob_bench::load::reference::Reference;

/// Bytes of a write, which begins at a multiple of it.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a stamp, at the beginning of its block.
const STAMP_BYTES: usize = 8;
/// Of the blocks that random writes touch on average, so many must have been found written.
const FOUND_MIN: f64 = 0.95;

/// What an export should hold while and after it is written to: in each block the stamp of this round, or what was there before.
#[derive(Debug)]
pub struct Written {
    image: Verifier,
    round: u64,
    /// Blocks with this round's stamp that were seen.
    found: AtomicU64,
}

impl Written {
    /// For the writes of `round`, counted from 1, to what held `image` before the first.
    pub fn new(image: Verifier, round: u64) -> Written {
        Written { image, round, found: AtomicU64::new(0) }
    }

    /// Blocks with this round's stamp that reading has met.
    pub fn found_blocks(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    fn stamp(round: u64, offset_bytes: u64) -> [u8; STAMP_BYTES] {
        mix64(offset_bytes ^ mix64(round.wrapping_mul(GOLDEN))).to_le_bytes()
    }

    /// Whether the bytes of one block are right, as far as they are at hand: answers come in pieces of any length.
    fn block_matches(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        let within = (offset_bytes % BLOCK_BYTES as u64) as usize;
        let begin = offset_bytes - within as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(STAMP_BYTES.saturating_sub(within)));
        if !self.image.matches(offset_bytes + head.len() as u64, rest) {
            return false;
        }
        let part = |round| &Written::stamp(round, begin)[within..][..head.len()] == head;
        if head.is_empty() {
            return true;
        }
        if part(self.round) {
            // Of a stamp in two pieces the second counts.
            let ends = within + head.len() == STAMP_BYTES;
            self.found.fetch_add(ends.into(), Ordering::Relaxed);
            return true;
        }
        self.image.matches(offset_bytes, head) || (1..self.round).any(part)
    }
}

impl Reference for Written {
    fn matches(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        let (mut at, mut left, mut right) = (offset_bytes, bytes, true);
        while !left.is_empty() {
            let to_next = BLOCK_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let (block, rest) = left.split_at(left.len().min(to_next));
            right &= self.block_matches(at, block);
            (at, left) = (at + block.len() as u64, rest);
        }
        right
    }

    fn fill(&self, offset_bytes: u64, bytes: &mut [u8]) {
        self.image.fill(offset_bytes, bytes);
        for (at, block) in (offset_bytes..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES)) {
            if let Some(head) = block.first_chunk_mut::<STAMP_BYTES>() {
                *head = Written::stamp(self.round, at);
            }
        }
    }

    fn len_bytes(&self) -> Option<u64> {
        self.image.len_bytes()
    }
}

/// Whether `found` of `blocks` are as many as `writes` at random places must have left.
///
/// # Errors
/// They are fewer: in words, with the figures.
pub fn check_found(found: u64, blocks: u64, writes: u64) -> anyhow::Result<()> {
    // Each of n writes misses a given block of b with probability 1 - 1/b.
    let expected = blocks as f64 * (1.0 - (-(writes as f64) / blocks.max(1) as f64).exp());
    anyhow::ensure!(
        found as f64 >= FOUND_MIN * expected,
        "{writes} writes were answered, but only {found} of {blocks} blocks were written, where {expected:.0} are to be expected"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flashmob_bench::load::reference::PatternReference;

    use super::*;

    #[test]
    fn a_server_that_writes_nothing_or_elsewhere_is_found_out() {
        let image: Verifier = Arc::new(PatternReference { seed: 1 });
        let mut disk = vec![0; 8 * BLOCK_BYTES];
        image.fill(0, &mut disk);
        let earlier = Written::new(Arc::clone(&image), 1);
        earlier.fill(0, &mut disk[..BLOCK_BYTES]);
        let now = Written::new(image, 2);
        assert!(now.matches(0, &disk) && now.found_blocks() == 0, "as it was before the round");
        let mut block = vec![0; BLOCK_BYTES];
        for at in [1usize, 5] {
            now.fill((at * BLOCK_BYTES) as u64, &mut block);
            disk[at * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
        }
        assert!(now.matches(0, &disk));
        assert_eq!(now.found_blocks(), 2);
        disk[3 * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
        assert!(!now.matches(0, &disk), "written to another place");
        now.fill(3 * BLOCK_BYTES as u64, &mut disk[3 * BLOCK_BYTES..4 * BLOCK_BYTES]);
        for cut in [1, 3, 8, 4095, 4096, 4100, 20_485] {
            assert!(now.matches(0, &disk[..cut]) && now.matches(cut as u64, &disk[cut..]), "cut at {cut}");
        }
        disk[9000] ^= 1;
        assert!(now.matches(0, &disk[..9000]) && !now.matches(9000, &disk[9000..9001]));
        assert!(check_found(950, 1_000_000, 1000).is_ok() && check_found(940, 1_000_000, 1000).is_err());
        assert!(check_found(0, 1000, 0).is_ok() && check_found(0, 1000, 1).is_err());
    }
}
