//! Where a volume's map is kept, whatever that is.

use flashmob_core::op::Failure;
use flashmob_core::units::KIB;

use super::etcd_map::MapKeys;

/// How many times its snapshot a map may have before it is compacted.
const COMPACTION_FACTOR: u64 = 4;
/// A map of this size or less is not compacted, however small its snapshot is.
pub const COMPACTION_BYTES_MIN: u64 = 64 * KIB;

/// Why a map was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFailure {
    /// [`Failure::NoSpace`] if there is no room for it.
    pub failure: Failure,
    /// The reason with the place and a remedy.
    pub text: String,
}

/// Keeps a map: its bytes are those of [`flashmob_core::copies`]. All of it blocks.
pub trait MapStore: Send {
    /// Appends a batch, whose last record has this number. It is durable when this returns `Ok`. After an error the map has to be written anew.
    fn append(&mut self, number: u64, batch: &[u8]) -> Result<(), MapFailure>;
    /// Replaces the map by one that begins with `snapshot`. It is durable when this returns `Ok`. After an error it is the old one, or the new
    /// one, and either is whole.
    fn rewrite(&mut self, snapshot: &[u8]) -> Result<(), MapFailure>;
    /// Whether it has grown so much that it should be written anew.
    fn wants_compaction(&self) -> bool;
    /// It is not known what is there: nothing can be appended before it is written anew.
    fn give_up(&mut self);
    /// The gateway's keys are others from now on: the next snapshot is signed with them, where a map is signed. Whether that should come soon.
    fn sign_with(&mut self, _keys: MapKeys) -> bool {
        false
    }
    /// Tries again what failed beside the map, which is as durable as it was told. What still fails, with a remedy.
    fn look(&mut self) -> Option<String> {
        None
    }
    /// Where it is, for people.
    fn name(&self) -> String;
}

/// The size from which on a map with such a snapshot is compacted, in bytes.
pub fn compaction_bytes(snapshot_bytes: u64) -> u64 {
    snapshot_bytes.saturating_mul(COMPACTION_FACTOR).max(COMPACTION_BYTES_MIN)
}

/// Whether a map has grown so much.
pub fn is_large(bytes: u64, snapshot_bytes: u64) -> bool {
    bytes > compaction_bytes(snapshot_bytes)
}
