//! Where a byte of the volume lies: volume address -> extent and offset.
//!
//! A layout is arithmetic only. It does not know which node serves an extent, and has no state that changes: the same kind and sizes
//! give the same addresses for ever, because data is stored by them.
//!
//! # Linear
//!
//! Extents end to end, each used to its last byte. With extents of 10 GB, the addresses from 20 GB to 30 GB belong to the third
//! node (P1).
//!
//! ```text
//! volume   0         10         20         30 GB
//!          |--- 0 ---|--- 1 ---|--- 2 ---|        number: extent
//! ```
//!
//! # Striped
//!
//! Stripes rotate over all extents while all have room, then over those that still have, and so on. Each such part of the volume is
//! a *zone*. A row is one stripe of each member of the zone. Within a row the larger extent comes first, and the lower number among
//! equals, so the members of each zone are a prefix of one order, and the tables are as small as the list of extents.
//! The rest of an extent after its last whole stripe (`x`) is unused.
//!
//! Extents of 3.5, 5 and 2 stripes; the cells are stripes of the volume:
//!
//! ```text
//!             row 0   row 1   row 2   row 3   row 4
//! extent 1  |   0   |   3   |   6   |   8   |   9   |
//! extent 0  |   1   |   4   |   7   |xxx
//! extent 2  |   2   |   5   |
//!            '--- zone 0 --' 'zone 1' '--- zone 2 --'
//!              3 members       2          1
//! ```

use std::fmt;
use std::iter::FusedIterator;

use serde::{Deserialize, Serialize};

use crate::planted::{self, Bug};
use crate::units::GIB;

/// Most extents of a volume.
pub const EXTENTS_MAX: usize = 4096;
/// The smallest stripe, in bytes: a sector.
pub const STRIPE_BYTES_MIN: u64 = 512;
/// The largest stripe, in bytes.
pub const STRIPE_BYTES_MAX: u64 = GIB;
/// The largest volume, in bytes: what a signed 64-bit file offset can address.
pub const VOLUME_BYTES_MAX: u64 = i64::MAX as u64;

/// How extents make up a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LayoutKind {
    /// Extents end to end.
    Linear,
    /// Stripes rotating over the extents.
    Striped {
        /// Contiguous bytes on one extent: a power of two, [`STRIPE_BYTES_MIN`] to [`STRIPE_BYTES_MAX`].
        stripe_bytes: u64,
    },
    /// Chunks with copies: a table says where they are, the map ([`crate::copies`]).
    Mapped {
        /// Contiguous bytes on one extent.
        chunk_bytes: u64,
    },
}

/// The canonical text, such as `linear` or `striped:65536`. Nodes remember it, so it must not change.
impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutKind::Linear => f.write_str("linear"),
            LayoutKind::Striped { stripe_bytes } => write!(f, "striped:{stripe_bytes}"),
            LayoutKind::Mapped { chunk_bytes } => write!(f, "mapped:{chunk_bytes}"),
        }
    }
}

/// Why extents cannot form a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An empty list.
    #[error("a volume needs at least one extent")]
    NoExtents,
    /// A list longer than [`EXTENTS_MAX`].
    #[error("{0} extents are more than {EXTENTS_MAX}")]
    TooManyExtents(usize),
    /// An extent of 0 bytes: its number, from 0.
    #[error("extent {0} is empty")]
    EmptyExtent(usize),
    /// A layout of chunks with copies: sizes alone do not give their addresses.
    #[error("the addresses of chunks with copies are in their map")]
    NeedsMap,
    /// The sizes add up to more than [`VOLUME_BYTES_MAX`].
    #[error("the extents add up to more than {VOLUME_BYTES_MAX} bytes")]
    TooLarge,
    /// A stripe that is not a power of two or out of range.
    #[error("a stripe of {0} bytes is not a power of two between {STRIPE_BYTES_MIN} and {STRIPE_BYTES_MAX}")]
    StripeBytes(u64),
    /// An extent smaller than one stripe.
    #[error("extent {extent} has {size_bytes} bytes, less than one stripe of {stripe_bytes}")]
    ExtentBelowStripe {
        /// Which one, from 0.
        extent: usize,
        /// Its size.
        size_bytes: u64,
        /// The stripe asked for.
        stripe_bytes: u64,
    },
}

/// A part of a request that is contiguous on one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The extent, from 0.
    pub extent: u32,
    /// Where the part begins in the extent.
    pub extent_offset_bytes: u64,
    /// How long it is; never 0.
    pub len_bytes: u64,
    /// Where it begins in the request.
    pub request_offset_bytes: u64,
}

/// The map from a volume's addresses to its extents.
#[derive(Clone, Debug)]
pub struct Layout {
    extent_sizes_bytes: Vec<u64>,
    size_bytes: u64,
    map: Map,
}

#[derive(Clone, Debug)]
enum Map {
    /// Extents of one size: a division finds the extent.
    LinearEqual { extent_bytes: u64 },
    /// `starts_bytes[i]` is the volume address of extent `i`.
    LinearUnequal { starts_bytes: Vec<u64> },
    /// See the module's drawing.
    Striped(Stripes),
    /// The addresses are elsewhere: in the map of copies.
    Elsewhere,
}

#[derive(Clone, Debug)]
struct Stripes {
    /// log2 of the stripe's bytes.
    shift: u32,
    zones: Vec<Zone>,
    /// The extents, larger ones first; the members of a zone are a prefix of it.
    order: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Zone {
    start_bytes: u64,
    end_bytes: u64,
    first_row: u64,
    end_row: u64,
    members: u64,
}

/// Where a byte lies, and for how many bytes from there volume and extent are both contiguous.
struct Run {
    extent: u32,
    extent_offset_bytes: u64,
    left_bytes: u64,
}

impl Layout {
    /// A volume of this size whose addresses are in the map of its copies. [`Layout::split`] knows none of them.
    pub fn mapped(size_bytes: u64) -> Result<Layout, LayoutError> {
        if size_bytes > VOLUME_BYTES_MAX {
            return Err(LayoutError::TooLarge);
        }
        Ok(Layout { extent_sizes_bytes: Vec::new(), size_bytes, map: Map::Elsewhere })
    }

    /// Whether the addresses are in the map of copies.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.map, Map::Elsewhere)
    }

    /// A volume of `extent_sizes_bytes.len()` extents with these sizes.
    pub fn new(kind: LayoutKind, extent_sizes_bytes: &[u64]) -> Result<Layout, LayoutError> {
        let total_bytes = check_extents(extent_sizes_bytes)?;
        let (size_bytes, map) = match kind {
            LayoutKind::Linear => (total_bytes, linear(extent_sizes_bytes)),
            LayoutKind::Striped { stripe_bytes } => {
                let stripes = Stripes::new(stripe_bytes, extent_sizes_bytes)?;
                (stripes.zones.last().map_or(0, |z| z.end_bytes), Map::Striped(stripes))
            }
            LayoutKind::Mapped { .. } => return Err(LayoutError::NeedsMap),
        };
        Ok(Layout { extent_sizes_bytes: extent_sizes_bytes.to_vec(), size_bytes, map })
    }

    /// Size of the volume: the used bytes of all extents.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The extent and the offset in it, if all of `[offset_bytes, offset_bytes + len_bytes)` lies in one piece on one
    /// extent: what [`Layout::split`] says in one span. `None` otherwise, and beyond the end.
    #[must_use]
    #[inline]
    pub fn locate_whole(&self, offset_bytes: u64, len_bytes: u64) -> Option<(u32, u64)> {
        let run = self.run_at(offset_bytes)?;
        (len_bytes <= run.left_bytes && len_bytes <= self.size_bytes - offset_bytes)
            .then_some((run.extent, run.extent_offset_bytes))
    }

    /// Cuts `[offset_bytes, offset_bytes + len_bytes)` into spans, in ascending order, without allocating. There is no span beyond the
    /// end of the volume.
    #[must_use]
    pub fn split(&self, offset_bytes: u64, len_bytes: u64) -> Split<'_> {
        let left_bytes = len_bytes.min(self.size_bytes.saturating_sub(offset_bytes));
        Split { layout: self, offset_bytes, left_bytes, request_offset_bytes: 0 }
    }

    /// The part of each extent that `[offset_bytes, offset_bytes + len_bytes)` covers: extent, first byte, length. There is at most one
    /// for each, as ascending volume addresses ascend on each extent. The time depends on the number of extents, not of stripes.
    #[must_use]
    pub fn ranges(&self, offset_bytes: u64, len_bytes: u64) -> Vec<(u32, u64, u64)> {
        let end_bytes = offset_bytes.saturating_add(len_bytes).min(self.size_bytes);
        let Map::Striped(stripes) = &self.map else {
            return self
                .split(offset_bytes, len_bytes)
                .map(|s| (s.extent, s.extent_offset_bytes, s.len_bytes))
                .collect();
        };
        stripes.ranges(offset_bytes, end_bytes)
    }

    #[inline(always)]
    fn run_at(&self, offset_bytes: u64) -> Option<Run> {
        if offset_bytes >= self.size_bytes {
            return None;
        }
        Some(match &self.map {
            Map::LinearEqual { extent_bytes } => {
                let extent_offset_bytes = offset_bytes % extent_bytes;
                Run {
                    extent: (offset_bytes / extent_bytes) as u32,
                    extent_offset_bytes,
                    left_bytes: extent_bytes - extent_offset_bytes + u64::from(planted::is(Bug::ExtentEndOffByOne)),
                }
            }
            Map::LinearUnequal { starts_bytes } => {
                let extent = starts_bytes.partition_point(|&start| start <= offset_bytes) - 1;
                let extent_offset_bytes = offset_bytes - starts_bytes[extent];
                let left_bytes = self.extent_sizes_bytes[extent] - extent_offset_bytes
                    + u64::from(planted::is(Bug::ExtentEndOffByOne));
                Run { extent: extent as u32, extent_offset_bytes, left_bytes }
            }
            Map::Striped(stripes) => stripes.run_at(offset_bytes),
            Map::Elsewhere => return None,
        })
    }
}

/// Checks the conditions of every kind of layout; returns the sum of the sizes.
fn check_extents(sizes_bytes: &[u64]) -> Result<u64, LayoutError> {
    if sizes_bytes.is_empty() {
        return Err(LayoutError::NoExtents);
    }
    if sizes_bytes.len() > EXTENTS_MAX {
        return Err(LayoutError::TooManyExtents(sizes_bytes.len()));
    }
    if let Some(extent) = sizes_bytes.iter().position(|&size| size == 0) {
        return Err(LayoutError::EmptyExtent(extent));
    }
    let total = sizes_bytes.iter().try_fold(0u64, |sum, &size| sum.checked_add(size));
    total.filter(|&total| total <= VOLUME_BYTES_MAX).ok_or(LayoutError::TooLarge)
}

fn linear(sizes_bytes: &[u64]) -> Map {
    match sizes_bytes {
        [first, rest @ ..] if rest.iter().all(|size| size == first) => Map::LinearEqual { extent_bytes: *first },
        _ => {
            let starts = sizes_bytes.iter().scan(0, |end, &size| {
                let start = *end;
                *end += size;
                Some(start)
            });
            Map::LinearUnequal { starts_bytes: starts.collect() }
        }
    }
}

impl Stripes {
    fn new(stripe_bytes: u64, sizes_bytes: &[u64]) -> Result<Stripes, LayoutError> {
        if !stripe_bytes.is_power_of_two() || !(STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&stripe_bytes) {
            return Err(LayoutError::StripeBytes(stripe_bytes));
        }
        if let Some(extent) = sizes_bytes.iter().position(|&size| size < stripe_bytes) {
            let size_bytes = sizes_bytes[extent];
            return Err(LayoutError::ExtentBelowStripe { extent, size_bytes, stripe_bytes });
        }
        let shift = stripe_bytes.trailing_zeros();
        let rows = |extent: u32| sizes_bytes[extent as usize] >> shift;
        let mut order: Vec<u32> = (0..sizes_bytes.len() as u32).collect();
        // By rows, not bytes: the rest after the last stripe must not change the order.
        order.sort_by_key(|&extent| std::cmp::Reverse(rows(extent)));
        let mut zones: Vec<Zone> = Vec::new();
        for (rank, &extent) in order.iter().enumerate().rev() {
            let (start_bytes, first_row) = zones.last().map_or((0, 0), |z| (z.end_bytes, z.end_row));
            let end_row = rows(extent);
            if end_row > first_row {
                let members = rank as u64 + 1;
                let end_bytes = start_bytes + (((end_row - first_row) * members) << shift);
                zones.push(Zone { start_bytes, end_bytes, first_row, end_row, members });
            }
        }
        Ok(Stripes { shift, zones, order })
    }

    /// `offset_bytes` must lie in the volume.
    #[inline]
    fn run_at(&self, offset_bytes: u64) -> Run {
        // Usually there is one zone, or the first is by far the largest.
        let zone = match &self.zones[0] {
            first if offset_bytes < first.end_bytes => first,
            _ => &self.zones[self.zones.partition_point(|z| z.end_bytes <= offset_bytes)],
        };
        let in_zone_bytes = offset_bytes - zone.start_bytes;
        let stripe_bytes = 1 << self.shift;
        let in_stripe_bytes = in_zone_bytes & (stripe_bytes - 1);
        let stripe = in_zone_bytes >> self.shift;
        let row = zone.first_row + stripe / zone.members;
        Run {
            extent: self.order[(stripe % zone.members) as usize],
            extent_offset_bytes: (row << self.shift) + in_stripe_bytes,
            // With one member its stripes are contiguous.
            left_bytes: if zone.members == 1 {
                zone.end_bytes - offset_bytes
            } else {
                stripe_bytes - in_stripe_bytes + u64::from(planted::is(Bug::StripeEndOffByOne))
            },
        }
    }

    fn ranges(&self, start_bytes: u64, end_bytes: u64) -> Vec<(u32, u64, u64)> {
        let mut by_rank: Vec<Option<(u64, u64)>> = vec![None; self.order.len()];
        let stripe_bytes = 1u64 << self.shift;
        for zone in self.zones.iter().filter(|z| z.start_bytes < end_bytes && z.end_bytes > start_bytes) {
            let from = start_bytes.max(zone.start_bytes) - zone.start_bytes;
            let to = end_bytes.min(zone.end_bytes) - zone.start_bytes;
            let (first, last, members) = (from >> self.shift, (to - 1) >> self.shift, zone.members);
            for rank in 0..members {
                // The first and the last stripe of this member among `first..=last`.
                let begin = first + (rank + members - first % members) % members;
                if begin > last {
                    continue;
                }
                let end = last - (last % members + members - rank) % members;
                let byte = |stripe: u64| (zone.first_row + stripe / members) << self.shift;
                let start = byte(begin) + if begin == first { from & (stripe_bytes - 1) } else { 0 };
                let stop = byte(end) + if end == last { ((to - 1) & (stripe_bytes - 1)) + 1 } else { stripe_bytes };
                let slot = &mut by_rank[rank as usize];
                *slot = Some(slot.map_or((start, stop), |(known, _)| (known, stop)));
            }
        }
        let ranges = by_rank.iter().zip(&self.order);
        ranges.filter_map(|(range, &extent)| range.map(|(start, stop)| (extent, start, stop - start))).collect()
    }
}

/// The spans of a request: see [`Layout::split`].
#[derive(Clone, Debug)]
pub struct Split<'a> {
    layout: &'a Layout,
    offset_bytes: u64,
    left_bytes: u64,
    request_offset_bytes: u64,
}

impl Iterator for Split<'_> {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        if self.left_bytes == 0 {
            return None;
        }
        let run = self.layout.run_at(self.offset_bytes)?;
        let len_bytes = run.left_bytes.min(self.left_bytes);
        let span = Span {
            extent: run.extent,
            extent_offset_bytes: run.extent_offset_bytes,
            len_bytes,
            request_offset_bytes: self.request_offset_bytes,
        };
        self.offset_bytes += len_bytes;
        self.left_bytes -= len_bytes;
        self.request_offset_bytes += len_bytes;
        Some(span)
    }
}

impl FusedIterator for Split<'_> {}

#[cfg(test)]
mod tests;
