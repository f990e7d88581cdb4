//! Why a record does not fit an image, and a file is not a map.

use super::log::VERSION;
use super::{
    ADDRESS_BYTES_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNKS_MAX, COPIES_MAX, DOMAIN_BYTES_MAX, MEMBERS_MAX,
    PLACES_MAX,
};

/// Why a record is refused. The image is as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum MapError {
    /// The records before it are not the beginning of a map, or it belongs to the beginning and comes later.
    #[error("a record of kind {0} is out of place")]
    Order(&'static str),
    /// The records end before every chunk has its places.
    #[error("only {placed} of {chunks} chunks have places")]
    Incomplete { placed: u64, chunks: u32 },
    /// The size of a chunk.
    #[error("chunks of {0} bytes are not a power of two between {CHUNK_BYTES_MIN} and {CHUNK_BYTES_MAX}")]
    ChunkBytes(u64),
    /// The number of copies.
    #[error("{0} copies are not between 1 and {COPIES_MAX}")]
    Copies(usize),
    /// The number of chunks.
    #[error("{0} chunks are not between 1 and {CHUNKS_MAX}")]
    Chunks(u32),
    /// More changes than a version can count.
    #[error("the map has too many records")]
    Version,
    /// Members are numbered from 0, in order.
    #[error("member {number} where number {expected} is due")]
    MemberNumber { number: u16, expected: usize },
    /// More than [`MEMBERS_MAX`].
    #[error("more than {MEMBERS_MAX} members")]
    TooManyMembers,
    /// No domain, or one with a long name.
    #[error("the domain of member {member} has {len_bytes} bytes; it needs 1 to {DOMAIN_BYTES_MAX}")]
    Domain { member: usize, len_bytes: usize },
    /// Two members with the same extent, or a fresh extent that is a member already.
    #[error("members {first} and {second} have the same extent")]
    ExtentTwice { first: usize, second: usize },
    /// No such member.
    #[error("there is no member {0}")]
    UnknownMember(u16),
    /// No such chunks, or none.
    #[error("{count} chunks from {first_chunk} are not in a volume of {chunks} chunks")]
    UnknownChunks { first_chunk: u32, count: u64, chunks: u32 },
    /// No address, or a long one.
    #[error("the address of member {member} has {len_bytes} bytes; it needs 1 to {ADDRESS_BYTES_MAX}")]
    Address { member: u16, len_bytes: usize },
    /// Only members without copies are removed, or join.
    #[error("member {member} has {copies} copies")]
    HasCopies { member: u16, copies: u32 },
    /// No such copy.
    #[error("chunk {chunk} has no copy {copy}; it has {copies}, counted from 0")]
    UnknownCopy { chunk: u32, copy: u8, copies: usize },
    /// Chunks get their places in order.
    #[error("the places of chunk {first_chunk} where those of chunk {expected} are due")]
    PlacesOrder { first_chunk: u32, expected: u32 },
    /// No places, too many, or not those of whole chunks.
    #[error("{count} places are not those of whole chunks with {copies} copies each, or more than {PLACES_MAX}")]
    PlacesCount { count: usize, copies: usize },
    /// Two copies on one member.
    #[error("two copies of chunk {chunk} are on member {member}")]
    SameMember { chunk: u32, member: u16 },
    /// Two copies in one domain.
    #[error("copies of chunk {chunk} are on members {first} and {second}, which share a domain")]
    SameDomain { chunk: u32, first: u16, second: u16 },
    /// Two chunks in one slot.
    #[error("slot {slot} of member {member}, where chunk {chunk} is to be, has another chunk")]
    SlotTaken { chunk: u32, member: u16, slot: u32 },
    /// Beyond the end of the member's extent.
    #[error("slot {slot} of chunk {chunk} is beyond the {size_bytes} bytes of member {member}")]
    SlotBeyond { chunk: u32, member: u16, slot: u32, size_bytes: u64 },
    /// The epoch does not grow.
    #[error("epoch {given} does not follow epoch {current}")]
    Epoch { given: u64, current: u64 },
    /// A start of a gateway that is not in its order, or later than the map.
    #[error("a start with version {given} after version {earlier}, in a map of version {version}")]
    Start { given: u64, earlier: u64, version: u64 },
    /// The number of losses shrinks.
    #[error("{given} losses are fewer than the {current} that were counted")]
    Losses { given: u64, current: u64 },
    /// More losses told than there were, or fewer than before.
    #[error("{given} losses told, after {current}, of {losses}")]
    Told { given: u64, current: u64, losses: u64 },
    /// A mask names a copy that does not exist.
    #[error("marks name a copy that does not exist (behind {behind:#06b}, doubtful {doubtful:#06b}, {copies} copies)")]
    Masks { behind: u8, doubtful: u8, copies: usize },
    /// Every copy would be behind.
    #[error("chunk {chunk} would have no copy left that is not behind")]
    LastCopy { chunk: u32 },
    /// A fresh extent that is too small.
    #[error("the fresh extent of member {member} has {given_bytes} bytes, fewer than {current_bytes}")]
    ExtentShrinks { member: u16, given_bytes: u64, current_bytes: u64 },
    /// The bytes of a record have no meaning.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

/// The remedy of all damage.
const REMEDY: &str = "move the file away, and recover the map from the nodes with `flashmob volume recover`";

/// Why bytes are not a map. All of them mean damage that no rule repairs, except for another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// No bytes at all.
    #[error("the map is empty; {REMEDY}")]
    Empty,
    /// The first bytes are something else.
    #[error("it does not begin as a map does; is it another file? If not, {REMEDY}")]
    NotAMap,
    /// Written by another release.
    #[error("the map has format version {0}, and this program reads version {VERSION}; use the release that wrote it")]
    Version(u8),
    /// A part of the snapshot is damaged or missing.
    #[error("the map's snapshot is damaged at its record {record} (byte {offset_bytes}); {REMEDY}")]
    Snapshot {
        /// The first record that cannot be read, counted in the snapshot from 0.
        record: u64,
        /// Where its batch begins.
        offset_bytes: u64,
    },
    /// A batch is damaged that is not the last.
    #[error("record {record} of the map (byte {offset_bytes}) is damaged; {REMEDY}")]
    Damaged {
        /// The number of the first record that cannot be read.
        record: u64,
        /// Where its batch begins.
        offset_bytes: u64,
    },
    /// A batch is missing, or there twice.
    #[error("record {found} of the map (byte {offset_bytes}) follows where record {expected} is due; {REMEDY}")]
    Gap {
        /// The number that is due.
        expected: u64,
        /// The number that is there.
        found: u64,
        /// Where the batch begins.
        offset_bytes: u64,
    },
    /// A record is undamaged, but makes no sense.
    #[error("record {record} of the map (byte {offset_bytes}) does not fit: {source}; {REMEDY}")]
    Record {
        /// Its number, or in a snapshot its place, counted from 0.
        record: u64,
        /// Where it begins.
        offset_bytes: u64,
        /// What is wrong with it.
        source: MapError,
    },
}
