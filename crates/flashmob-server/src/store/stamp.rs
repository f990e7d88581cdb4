//! The stamp in the sidecar of an extent with checksums: which start of the node used both last.

use serde::{Deserialize, Serialize};

use super::extent_id::ExtentId;

/// Numbers drawn at random at each start of the node, which the file of checksums has, too. If it has another one, then it, the extent
/// or the sidecar was restored from an older copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumsStamp {
    /// The number of this start.
    pub nonce: ExtentId,
    /// That of the start before, until the file of checksums is known to have the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ExtentId>,
}

impl SumsStamp {
    /// The numbers that the file of checksums may have.
    #[must_use]
    pub fn nonces(&self) -> Vec<ExtentId> {
        [self.nonce].into_iter().chain(self.before).collect()
    }
}
