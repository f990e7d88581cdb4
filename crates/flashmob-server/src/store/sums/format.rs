//! The bytes of a sums file, as docs/sums-format.md describes them: where each part lies, the header, and the table of changes
//! under way. No I/O.
//!
//! Nothing here panics, whatever the bytes are.

use flashmob_core::checksum::{checksum, checksum_of};

/// Bytes of a block: each has a checksum.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a unit, the part of an extent that gets its checksums together if it held data before.
pub const UNIT_BYTES: u64 = 4 << 20;
/// Blocks of a unit.
pub const UNIT_BLOCKS: u64 = UNIT_BYTES / BLOCK_BYTES as u64;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Most changes under way at once.
pub const SLOTS: usize = 64;
/// Bytes of the place of one of them.
pub const SLOT_BYTES: usize = 256;
/// Most blocks of a change whose new checksums are listed.
pub const SLOT_BLOCKS_MAX: usize = 32;
/// The version of the format.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"FMsums\0\0";
/// Where the header's checksum lies. All of the header that counts is in one sector of the flash, which a power cut does not tear when the
/// nonce is renewed.
const HEADER_SUM_AT: usize = 56;
/// Where the fields are that earlier programs do not know, and the checksum of these and all that counts before, in the same sector.
const RECENT_AT: usize = 64;
const RECENT_SUM_AT: usize = 96;
/// Where the slots begin, and the bitmap behind them.
const SLOTS_AT: u64 = HEADER_BYTES as u64;
const BITMAP_AT: u64 = SLOTS_AT + (SLOTS * SLOT_BYTES) as u64;
const SLOT_SUMS_AT: usize = 24;
/// CRC-32 of a block of zeros.
const CRC_OF_ZEROS: u32 = 0xc71c_0011;
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// The checksum of a block: its CRC-32, such that zeros have 0. The last block of an extent may be shorter: zeros follow it.
#[must_use]
pub fn sum_of(block: &[u8]) -> u32 {
    if block.len() >= BLOCK_BYTES {
        return checksum(&block[..BLOCK_BYTES]) ^ CRC_OF_ZEROS;
    }
    checksum_of([block, &ZEROS[block.len()..]]) ^ CRC_OF_ZEROS
}

/// The CRC-32 of a block with this checksum, and the other way round.
#[must_use]
pub fn crc_of_sum(sum: u32) -> u32 {
    sum ^ CRC_OF_ZEROS
}

/// The checksum of a block that lies in parts.
#[must_use]
pub fn sum_of_parts(parts: [&[u8]; 3]) -> u32 {
    let len_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let [first, second, third] = parts;
    checksum_of([first, second, third, &ZEROS[len_bytes.min(BLOCK_BYTES)..]]) ^ CRC_OF_ZEROS
}

/// Where the parts of a sums file lie, by the size of its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    size_bytes: u64,
}

impl Shape {
    /// The sums file of an extent of `size_bytes`, at most 2^63 - 1.
    #[must_use]
    pub fn new(size_bytes: u64) -> Shape {
        Shape { size_bytes: size_bytes.min(i64::MAX as u64) }
    }

    /// Bytes of the extent.
    #[must_use]
    pub fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// Blocks of the extent; the last one may be shorter.
    #[must_use]
    pub fn blocks(self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_BYTES as u64)
    }

    /// Units of the extent; the last one may be shorter.
    #[must_use]
    pub fn units(self) -> u64 {
        self.size_bytes.div_ceil(UNIT_BYTES)
    }

    /// Where a slot begins.
    #[must_use]
    pub fn slot_at(self, slot: usize) -> u64 {
        SLOTS_AT + (slot * SLOT_BYTES) as u64
    }

    /// Where the bitmap of units begins.
    #[must_use]
    pub fn bitmap_at(self) -> u64 {
        BITMAP_AT
    }

    /// Bytes of the bitmap of units.
    #[must_use]
    pub fn bitmap_bytes(self) -> u64 {
        self.units().div_ceil(8).next_multiple_of(BLOCK_BYTES as u64)
    }

    /// Where the checksum of a block lies.
    #[must_use]
    pub fn sum_at(self, block: u64) -> u64 {
        BITMAP_AT + self.bitmap_bytes() + 4 * block
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(self) -> u64 {
        self.sum_at(self.blocks()).next_multiple_of(BLOCK_BYTES as u64)
    }
}

/// Whose checksums a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The extent's identity.
    pub extent_id: [u8; 16],
    /// Bytes of the extent.
    pub size_bytes: u64,
    /// The number that the extent's identity has, too, or gets next.
    pub nonce: [u8; 16],
    /// The one that the identity has until then, if it has not the number above yet.
    pub before: Option<[u8; 16]>,
    /// The age of the extent: the epoch, at least 1, and the version of the map that its mirror had durably last.
    pub age: Option<(u64, u64)>,
}

/// The checksum of the first bytes of a header, without the checksum among them: a CRC over bytes and their own CRC says nothing of these bytes.
fn recent_sum(bytes: &[u8]) -> u32 {
    checksum_of([&bytes[..HEADER_SUM_AT], &bytes[HEADER_SUM_AT + 4..]])
}

/// Why bytes are no header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// Too few bytes, another magic, a wrong checksum.
    #[error("{0}")]
    Damaged(&'static str),
    /// Written by a newer program.
    #[error("it has format version {0}, and this program reads version {VERSION}")]
    Version(u32),
}

impl Header {
    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.extent_id);
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes.resize(RECENT_AT, 0);
        bytes.extend_from_slice(&self.before.unwrap_or_default());
        let (epoch, version) = self.age.unwrap_or_default();
        bytes.extend_from_slice(&epoch.to_le_bytes());
        bytes.extend_from_slice(&version.to_le_bytes());
        let sum = recent_sum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    /// The header in the first bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Header, BadHeader> {
        let bytes = bytes.get(..HEADER_BYTES).ok_or(BadHeader::Damaged("it is too short"))?;
        let mut fields = Fields(bytes);
        if fields.take::<8>() != MAGIC {
            return Err(BadHeader::Damaged("it does not begin as a file of checksums does"));
        }
        let version = fields.u32();
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let (body, recorded) = bytes.split_at(HEADER_SUM_AT);
        if checksum(body) != Fields(recorded).u32() {
            return Err(BadHeader::Damaged("the checksum of its header does not match"));
        }
        let block_bytes = fields.u32();
        let (extent_id, size_bytes, nonce) = (fields.take(), fields.u64(), fields.take());
        let (before, age) = Header::decode_recent(bytes);
        let header = Header { extent_id, size_bytes, nonce, before, age };
        if block_bytes != BLOCK_BYTES as u32 || !(1..=i64::MAX as u64).contains(&header.size_bytes) {
            return Err(BadHeader::Damaged("its header contradicts itself"));
        }
        Ok(header)
    }

    /// The part that earlier programs neither write nor check: nothing, unless all of it is there and belongs to the rest.
    fn decode_recent(bytes: &[u8]) -> (Option<[u8; 16]>, Option<(u64, u64)>) {
        let (head, recorded) = bytes.split_at(RECENT_SUM_AT);
        if recent_sum(head) != Fields(recorded).u32() {
            return (None, None);
        }
        let mut fields = Fields(&head[RECENT_AT..]);
        let before = Some(fields.take()).filter(|before| *before != [0; 16]);
        let age = Some((fields.u64(), fields.u64())).filter(|(epoch, _)| *epoch > 0);
        (before, age)
    }
}

/// A change of blocks under way. It is written before the blocks are, and removed when their bytes and their checksums agree, so that
/// a node that was killed in between finds which of the two checksums each block has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The blocks from `first` on get these checksums, 1 to [`SLOT_BLOCKS_MAX`] of them.
    Sums {
        /// The first block.
        first: u64,
        /// The checksum of each.
        sums: Vec<u32>,
    },
    /// The blocks become zeros, 1 to [`UNIT_BLOCKS`] of them.
    Zeros {
        /// The first block.
        first: u64,
        /// How many.
        count: u32,
    },
}

impl Change {
    /// The bytes of its slot.
    #[must_use]
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let (kind, first, count, sums): (u8, u64, u32, &[u32]) = match self {
            Change::Sums { first, sums } => (1, *first, sums.len() as u32, sums),
            Change::Zeros { first, count } => (2, *first, *count, &[]),
        };
        bytes[4] = kind;
        bytes[8..16].copy_from_slice(&first.to_le_bytes());
        bytes[16..20].copy_from_slice(&count.to_le_bytes());
        for (sum, place) in sums.iter().zip(bytes[SLOT_SUMS_AT..].chunks_exact_mut(4)) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        let sum = checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The change in a slot. `None` for an empty slot, and for one that a power cut left in part: its change was never acknowledged.
    #[must_use]
    pub fn decode(bytes: &[u8], shape: Shape) -> Option<Change> {
        let bytes = bytes.get(..SLOT_BYTES)?;
        let mut fields = Fields(bytes);
        if fields.u32() != checksum(&bytes[4..]) {
            return None;
        }
        let [kind, ..] = fields.take::<4>();
        let (first, count) = (fields.u64(), fields.u32());
        let end = first.checked_add(u64::from(count))?;
        if count == 0 || end > shape.blocks() {
            return None;
        }
        match kind {
            1 if count as usize <= SLOT_BLOCKS_MAX => {
                let sums = bytes[SLOT_SUMS_AT..].chunks_exact(4).take(count as usize);
                Some(Change::Sums { first, sums: sums.map(|sum| Fields(sum).u32()).collect() })
            }
            2 if u64::from(count) <= UNIT_BLOCKS => Some(Change::Zeros { first, count }),
            _ => None,
        }
    }

    /// The blocks that it changes, with the checksum that each gets.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let (first, count) = match self {
            Change::Sums { first, sums } => (*first, sums.len() as u64),
            Change::Zeros { first, count } => (*first, u64::from(*count)),
        };
        (0..count).map(move |index| match self {
            Change::Sums { sums, .. } => (first + index, sums[index as usize]),
            Change::Zeros { .. } => (first + index, 0),
        })
    }
}

/// Fixed fields, one after the other. What is missing is zeros.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        field[..head.len()].copy_from_slice(head);
        self.0 = rest;
        field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
#[path = "tests/format.rs"]
mod tests;
