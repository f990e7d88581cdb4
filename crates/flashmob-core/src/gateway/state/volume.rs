//! A volume: its layout over extents, and whether it is ready.

use std::collections::BTreeMap;

use super::clients::Right;
use super::queue::BatchLimits;
use crate::gateway::copies::Copies;
use crate::gateway::{BatchMode, VolumeSpec};
use crate::layout::{Layout, LayoutError};
use crate::nbd::{ExportInfo, Exports, FindError};

/// A volume.
#[derive(Debug)]
pub struct Volume {
    pub spec: VolumeSpec,
    /// The node of each extent, counted over all volumes.
    pub nodes: Vec<usize>,
    /// Known once the sizes of all extents are.
    pub layout: Option<Layout>,
    /// Sizes of the extents, where known.
    pub sizes_bytes: Vec<Option<u64>>,
    /// Some of its extents are in this process.
    pub has_local: bool,
    /// Every node has had a link since the start.
    pub was_linked: bool,
    /// Nodes that are refused: extent and reason.
    pub refusals: BTreeMap<usize, String>,
    /// How often a device lost changes that were acknowledged and not flushed.
    pub losses: u64,
    /// The last of these losses for which a client has got an error.
    pub losses_told: u64,
    /// Its copies, if it has them.
    pub copies: Option<Box<Copies>>,
}

impl Volume {
    /// Its first node has this number. `copies` were made of what the specification had of them.
    pub fn new(spec: VolumeSpec, copies: Option<Box<Copies>>, first_node: usize) -> Result<Volume, LayoutError> {
        let sizes_bytes = spec.extents.iter().map(|e| e.size_bytes).collect();
        let nodes = first_node..first_node + spec.extents.len();
        let (losses, losses_told) = copies.as_deref().map_or((0, 0), Copies::losses);
        let mut volume = Volume {
            // Reads of a volume with copies take the long way, which knows what is under way.
            has_local: copies.is_none() && spec.extents.iter().any(|e| e.is_local),
            spec,
            nodes: nodes.collect(),
            layout: None,
            sizes_bytes,
            was_linked: false,
            refusals: BTreeMap::new(),
            losses,
            losses_told,
            copies,
        };
        volume.settle_layout()?;
        Ok(volume)
    }

    /// Sets an extent's size, unless no layout can have it. True if the layout became known.
    pub fn learn_size(&mut self, extent: usize, size_bytes: u64) -> Result<bool, LayoutError> {
        if self.copies.is_some() {
            self.sizes_bytes[extent] = Some(size_bytes);
            return Ok(false);
        }
        // A layout of this extent alone shows whether it is the invalid one.
        Layout::new(self.spec.layout, &[size_bytes]).map_err(|error| match error {
            LayoutError::ExtentBelowStripe { size_bytes, stripe_bytes, .. } => {
                LayoutError::ExtentBelowStripe { extent, size_bytes, stripe_bytes }
            }
            other => other,
        })?;
        let before = self.sizes_bytes[extent].replace(size_bytes);
        self.settle_layout().inspect_err(|_| self.sizes_bytes[extent] = before)
    }

    /// Computes the layout if every size is known. True if it became known.
    fn settle_layout(&mut self) -> Result<bool, LayoutError> {
        if let Some(copies) = self.copies.as_deref() {
            let is_news = self.layout.is_none();
            self.layout.get_or_insert(Layout::mapped(copies.image().size_bytes())?);
            return Ok(is_news);
        }
        let known: Option<Vec<u64>> = self.sizes_bytes.iter().copied().collect();
        match known {
            Some(sizes) if self.layout.is_none() => {
                self.layout = Some(Layout::new(self.spec.layout, &sizes)?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// How much one batch may hold.
    pub fn batch_limits(&self) -> BatchLimits {
        let most = crate::wire::BATCH_PIECES_MAX;
        let pieces = match self.spec.batch {
            BatchMode::Auto => most,
            BatchMode::Fixed(k) => usize::from(k).clamp(1, most),
        };
        BatchLimits { pieces, bytes: self.spec.batch_bytes.clamp(1, crate::wire::PAYLOAD_BYTES_MAX as u64) }
    }

    /// The node, counted over all volumes, that has this extent.
    #[inline]
    pub fn node_of(&self, extent: u32) -> usize {
        self.nodes[extent as usize]
    }

    /// Why it cannot be opened; `None` if it can. A volume that was complete once stays open to new clients when it loses a node.
    fn obstacle(&self) -> Option<String> {
        match self.refusals.iter().next() {
            // Other copies answer in its place.
            Some((&extent, why)) if !self.was_linked && self.copies.is_none() => {
                let node = &self.spec.extents[extent].name;
                Some(format!("volume '{}' is not ready: node {node} is refused: {why}", self.spec.name))
            }
            _ => self.layout.is_none().then(|| self.missing()),
        }
    }

    fn missing(&self) -> String {
        let names: Vec<&str> = self
            .spec
            .extents
            .iter()
            .zip(&self.sizes_bytes)
            .filter(|(_, size)| size.is_none())
            .map(|(extent, _)| extent.name.as_str())
            .collect();
        format!(
            "volume '{}' is not ready: it waits for node{} {}",
            self.spec.name,
            if names.len() == 1 { "" } else { "s" },
            names.join(", ")
        )
    }
}

/// The volumes as NBD exports.
pub struct ExportTable<'a> {
    pub volumes: &'a [Volume],
    /// Those that the client may use; `None`: all.
    pub rights: &'a Option<Vec<Right>>,
}

impl ExportTable<'_> {
    /// Whether the client may use a volume, and may only read it.
    fn right_to(&self, volume: usize) -> Option<bool> {
        match self.rights {
            None => Some(false),
            Some(rights) => rights.iter().find(|right| right.volume == volume).map(|right| right.read_only),
        }
    }

    fn allowed(&self) -> impl Iterator<Item = (usize, &Volume, bool)> {
        let right = |(index, volume)| self.right_to(index).map(|read_only| (index, volume, read_only));
        self.volumes.iter().enumerate().filter_map(right)
    }
}

impl Exports for ExportTable<'_> {
    fn names(&self) -> Vec<String> {
        self.allowed().map(|(_, volume, _)| volume.spec.name.clone()).collect()
    }

    /// The empty name is the only volume, or the first of several. One that the client may not use is as if there were none.
    fn find(&self, name: &str) -> Result<(usize, ExportInfo), FindError> {
        let is_it = |(_, volume, _): &(usize, &Volume, bool)| name.is_empty() || volume.spec.name == name;
        let (index, volume, may_only_read) = self.allowed().find(is_it).ok_or(FindError::Unknown)?;
        if let Some(obstacle) = volume.obstacle() {
            return Err(FindError::NotReady(obstacle));
        }
        let info = ExportInfo {
            name: volume.spec.name.clone(),
            description: volume.spec.description.clone(),
            size_bytes: volume.layout.as_ref().map_or(0, Layout::size_bytes),
            read_only: volume.spec.read_only || may_only_read,
        };
        Ok((index, info))
    }
}
