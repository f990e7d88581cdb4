//! The map of a volume with copies: where each chunk lies, and which of its copies can be trusted.
//!
//! A volume with copies is cut into *chunks* of equal size. Each chunk has one *copy* on each of a few members, every
//! one of which is a node's extent. The map is a table of these places with a few marks for each chunk. The gateway
//! holds it in memory, and every change of it is a [`Record`] that is durable in the map's log before it takes effect.
//!
//! | word | meaning |
//! |---|---|
//! | member | one of the extents that hold the volume's copies, by its number |
//! | domain | members that may fail together; no two copies of a chunk share one |
//! | slot | room for one chunk in a member's extent: slot `n` begins at byte `n * chunk_bytes` |
//! | copy | one of the places of a chunk, by its number from 0 |
//! | current / behind | a copy has everything that was shown to a client / lacks something |
//! | doubtful | a copy's device restarted, and it is not known yet whether others lost less |
//! | open / settled | changes of a chunk may be under way or unsynced / all its copies are equal and durable |
//! | leaving | a member whose copies are to be moved to others |
//! | epoch | the number of a start of the gateway; the nonce tells starts with the same number apart |
//!
//! The parts: `placement` finds a place for each copy, `linear` keeps those of a linear volume, `plan` decides which of them move; `image` is the map in
//! memory, `moved` what changes its places, `slots` which of them are taken; `record` defines its changes;
//! `history` compares it with mirrors; `load` makes an image out of records; `log` is the file: docs/map-format.md has its byte tables; `signed` is the form of
//! mirrors in a cluster with keys, `gather` gets them from nodes, `recover` makes a map of them; `chain` is the form of a map in a store that others may write to,
//! `chain_memory` what a gateway knows of it.

mod chain;
mod chain_memory;
mod error;
mod gather;
mod grow;
mod history;
mod image;
mod joined;
mod linear;
mod load;
mod log;
mod moved;
mod placement;
mod plan;
mod record;
mod recover;
mod signed;
mod slots;
mod tally;

#[cfg(test)]
pub(crate) mod testing;

pub use chain::{
    CHAIN_VOLUME_BYTES_MAX, ChainEnd, ChainError, ChainKey, ChainReader, begin_chain, continue_chain, is_chain,
};
pub use chain_memory::{CHAIN_MEMORY_BYTES_MAX, ChainMemory, ChainTrust};
pub use error::{MapError, ReplayError};
pub use gather::{TooLong, UNVERIFIED_BYTES_MAX, gather};
pub use history::{History, Lacking, Start};
pub use image::{MapImage, Marks, Member, Place};
pub use log::{BatchTooLarge, Replayed, encode_batch, encode_snapshot, identity_of, replay};
pub use placement::PlacementError;
pub use plan::{Plan, Step};
pub use record::Record;
pub use recover::{Found, RecoverError, Recovered, Terms, catch_up, mirror_state, recover, verified};
pub use signed::{Listen, SIGNATURE_BYTES, SIGNER_BYTES_MAX, Sign, Signer, Unreadable, Verify, Writer, sign_part};
pub use tally::MapCounts;

use crate::units::MIB;

/// Most copies of a chunk.
pub const COPIES_MAX: usize = 4;
/// Default size of a chunk, in bytes.
pub const CHUNK_BYTES: u64 = 4 * MIB;
/// The smallest chunk, in bytes: a block of a checksum. Tests and the simulator use small chunks.
pub const CHUNK_BYTES_MIN: u64 = 4096;
/// The largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: u64 = 64 * MIB;
/// Most chunks of a volume: 64 TiB of the default size. With 4 copies such an image takes about 600 MB of memory.
pub const CHUNKS_MAX: u32 = 1 << 24;
/// Most members of a volume.
pub const MEMBERS_MAX: usize = 4096;
/// The longest name of a domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 64;
/// Longest address of a member, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Most places in one record. Larger tables need several records, so that one of them stays far below a batch.
pub const PLACES_MAX: usize = 12_288;
/// Most starts of gateways that a map keeps, the last of them.
pub const STARTS_MAX: usize = 1024;
/// Most bytes of an encoded batch, its header included.
pub const BATCH_BYTES_MAX: usize = MIB as usize;

/// The identity of a member's extent that is not known yet: that of a new map, until the member is linked for the first time.
#[must_use]
pub fn unknown_extent(member: u16) -> [u8; 16] {
    u128::from(member).to_be_bytes()
}

/// Whether an extent's identity is not known yet.
#[must_use]
pub fn is_unknown_extent(extent_id: &[u8; 16]) -> bool {
    u128::from_be_bytes(*extent_id) <= u128::from(u16::MAX)
}

const _: () = assert!(PLACES_MAX.is_multiple_of(12), "whole chunks of 1, 2, 3 and 4 copies");
