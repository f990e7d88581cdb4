//! The first block of a benchmark's file, and the content after it.
//!
//! | bytes | content |
//! |---|---|
//! | 0–15 | `flashmob bench`, two zeros |
//! | 16–19 | version, little-endian |
//! | 24–31 | size of the file in bytes, little-endian |
//! | 32–39 | seed, little-endian |
//! | 64–127 | a sentence that says what the file is |
//! | 4092–4095 | CRC-32 of all before it, little-endian |
//!
//! All else is zero.

use std::fs::File;
use std::os::unix::fs::FileExt;

use flashmob_core::checksum::checksum;

/// A header's length: one block of any flash file system.
pub const HEADER_BYTES: u64 = 4096;
const LEN: usize = HEADER_BYTES as usize;
const MAGIC: &[u8; 16] = b"flashmob bench\0\0";
const VERSION: u32 = 1;
const NOTE: &[u8; 64] = b"Test data of 'flashmob bench disk'. It may be deleted any time.\n";

/// The header of a file made by the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the file with this header.
    pub size_bytes: u64,
    /// The seed of its content: that of [`PatternReference`](crate::load::reference::PatternReference).
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

    /// Decodes a first block of this version; `None` for any other, or a damaged one.
    #[must_use]
    pub fn decode(block: &[u8; HEADER_BYTES as usize]) -> Option<Header> {
        let number = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let header = Header { size_bytes: number(24), seed: number(32) };
        // Compares magic, version, checksum and every zero at once.
        (*block == header.encode()).then_some(header)
    }
}

/// The header of a file that the benchmark made and whose length is unchanged; `None` for any other.
#[must_use]
pub fn header_of(file: &File) -> Option<Header> {
    let metadata = file.metadata().ok()?;
    let header = first_block(file)?;
    (metadata.is_file() && header.size_bytes == metadata.len()).then_some(header)
}

/// A header regardless of the file's length, as in a partial file.
pub(super) fn first_block(file: &File) -> Option<Header> {
    let mut block = [0; LEN];
    file.read_exact_at(&mut block, 0).ok()?;
    Header::decode(&block)
}
