//! The first block of a benchmark's file, and the content after it.
//!
//! | bytes | content |
//! |---|---|
//! | 0–15 | `flashmob bench`, two zeros |
//! | 16–19 | version, little-endian |
//! | 24–31 | size of the file in bytes, little-endian |
//! | 32–39 | seed, little-endian |
//! | 64–127 | a sentence for people who wonder what the file is |
//! | 4092–4095 | CRC-32 of all before it, little-endian |
//!
//! All else is zero.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::load::random::{GOLDEN, mix64};
use flashmob_core::checksum::checksum;

use super::open;

/// A header's length: one block of any flash file system.
pub const HEADER_BYTES: u64 = 4096;
const LEN: usize = HEADER_BYTES as usize;
const MAGIC: &[u8; 16] = b"flashmob bench\0\0";
const VERSION: u32 = 1;
const NOTE: &[u8; 64] = b"Test data of 'flashmob bench disk'. It may be deleted any time.\n";

/// What a file made by the benchmark says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the file with this header.
    pub size_bytes: u64,
    /// What its content follows from; see [`fill`].
    pub seed: u64,
}

impl Header {
    /// The first block.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut block = [0; LEN];
        block[..16].copy_from_slice(MAGIC);
        block[16..20].copy_from_slice(&VERSION.to_le_bytes());
        block[24..32].copy_from_slice(&self.size_bytes.to_le_bytes());
        block[32..40].copy_from_slice(&self.seed.to_le_bytes());
        block[64..128].copy_from_slice(NOTE);
        let sum = checksum(&block[..LEN - 4]);
        block[LEN - 4..].copy_from_slice(&sum.to_le_bytes());
        block
    }

    /// What a first block says, if it is one of this version, undamaged.
    #[must_use]
    pub fn decode(block: &[u8; HEADER_BYTES as usize]) -> Option<Header> {
        let number = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let header = Header { size_bytes: number(24), seed: number(32) };
        // What is encoded the same is the same: magic, version, checksum and every zero at once.
        (*block == header.encode()).then_some(header)
    }
}

/// The header of a file that the benchmark made and nobody changed the length of; `None` for any other.
#[must_use]
pub fn recognise(path: &Path) -> Option<Header> {
    let file = open::regular(path).ok()?;
    header_of(&file)
}

/// As [`recognise`], of an open file.
#[must_use]
pub fn header_of(file: &File) -> Option<Header> {
    let metadata = file.metadata().ok()?;
    let header = first_block(file)?;
    (metadata.is_file() && header.size_bytes == metadata.len()).then_some(header)
}

/// A header whatever the file's length, as half-made ones have it.
pub(super) fn first_block(file: &File) -> Option<Header> {
    let mut block = [0; LEN];
    file.read_exact_at(&mut block, 0).ok()?;
    Header::decode(&block)
}

/// Writes into `out` what a file of this seed has at `offset_bytes`: words of splitmix64, little-endian, each of which
/// follows from its place alone. Below [`HEADER_BYTES`] a file has its header instead.
pub fn fill(seed: u64, offset_bytes: u64, out: &mut [u8]) {
    let word = |index: u64| mix64(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN))).to_le_bytes();
    let mut index = offset_bytes / 8;
    let within = (offset_bytes % 8) as usize;
    let head = if within == 0 { 0 } else { (8 - within).min(out.len()) };
    let (first, rest) = out.split_at_mut(head);
    if head > 0 {
        first.copy_from_slice(&word(index)[within..within + head]);
        index += 1;
    }
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(index));
        index = index.wrapping_add(1);
    }
    let last = words.into_remainder();
    let len = last.len();
    last.copy_from_slice(&word(index)[..len]);
}
