//! The limits of settings.

use flashmob_core::copies::COPIES_MAX;

use super::{Settings, SettingsError, Weakness};
use crate::air::Medium;

/// Maximum nodes.
pub const NODES_MAX: u32 = 1000;
/// Maximum links per node.
pub const LINKS_MAX: u16 = 256;
/// Maximum cells.
pub const CELLS_MAX: u32 = 100;
/// Maximum bytes of all outstanding requests together: they are held in memory.
pub const OUTSTANDING_BYTES_MAX: u64 = 1 << 30;
/// Maximum outstanding requests.
pub const OUTSTANDING_MAX: u32 = 1 << 20;

impl Settings {
    /// Checks all limits.
    ///
    /// # Errors
    /// The first number that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |field, range| Err(SettingsError::OutOfRange(field, range));
        if !(1..=NODES_MAX).contains(&self.nodes) {
            return wrong("the number of nodes", "1 to 1000");
        }
        if !(1..=self.nodes).contains(&self.loaded_nodes) {
            return wrong("the number of loaded nodes", "1 to the number of nodes");
        }
        if !(1..=CELLS_MAX.min(self.nodes)).contains(&self.cells) {
            return wrong("the number of cells", "1 to 100, and no more than nodes");
        }
        if self.cells > 1 && self.gateway == crate::air::Attachment::Wireless {
            return wrong("the number of cells", "1 with a wireless gateway: it is a station of one cell");
        }
        if !(1..=LINKS_MAX).contains(&self.links) {
            return wrong("the number of links", "1 to 256");
        }
        if self.block_bytes == 0 || u64::from(self.block_bytes) > self.extent_bytes {
            return wrong("the size of a request", "1 byte to the size of an extent");
        }
        if self.block_bytes > flashmob_core::request::REQUEST_BYTES_MAX {
            return wrong("the size of a request", "at most 32 MiB");
        }
        if !(1..=OUTSTANDING_MAX).contains(&self.outstanding) {
            return wrong("the number of outstanding requests", "1 to 1,048,576");
        }
        if u64::from(self.outstanding) * u64::from(self.block_bytes) > OUTSTANDING_BYTES_MAX {
            return wrong("the size of all outstanding requests together", "at most 1 GiB");
        }
        let volume_bytes = self.extent_bytes.checked_mul(u64::from(self.nodes));
        if volume_bytes.is_none_or(|bytes| bytes > flashmob_core::layout::VOLUME_BYTES_MAX) {
            return wrong("the size of all extents together", "less than 8 EiB");
        }
        if let Some(copies) = self.copies
            && !(1..=self.nodes.min(COPIES_MAX as u32)).contains(&copies.copies)
        {
            return wrong("the number of copies", "1 to 4, and no more than nodes");
        }
        if self.copies.is_some() && self.loaded_nodes < self.nodes {
            return wrong("the number of loaded nodes", "all nodes, for a volume with copies");
        }
        if let Some(rebuild) = self.rebuild {
            if self.copies.is_none_or(|copies| copies.copies < 2) {
                return wrong("the number of copies", "2 or more where one of them is made again");
            }
            if rebuild.node >= self.nodes || rebuild.differing_ppm > 1_000_000 {
                return wrong("what is rebuilt", "one of the nodes, and at most all of its blocks");
            }
        }
        if let Some(weak) = self.weak {
            weak.check(self.nodes)?;
            if matches!(weak.by, Weakness::Far(_)) && !matches!(self.air.medium, Medium::Lines(_)) {
                return wrong("the air of a node with a delay", "one with lines, such as wan");
            }
        }
        if !(0.0..=100.0).contains(&self.read_percent) {
            return wrong("the share of reads", "0 to 100 %");
        }
        if self.time.is_zero() || self.time.as_secs() > 86_400 || self.warmup.as_secs() > 86_400 {
            return wrong("the time", "above 0, and at most a day");
        }
        Ok(())
    }
}
