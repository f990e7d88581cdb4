//! The commands of the disks below nodes on this machine, and the pieces that they belong to.
//!
//! A command belongs to a piece if it was in progress between the piece's arrival at the node and the end of its store, and overlaps the
//! piece's bytes on the disk. Kernel events have the node's own clock, and are placed on the gateway's as the node's stages are.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Context;
use flashmob_results::trace::{Layer, Losses, Role, Source, System, Timeline};
use flashmob_server::net::fetch::Target;
use flashmob_trace::capture::{Event, Session, Wanted};
use flashmob_trace::join::join;
use flashmob_trace::surroundings::{Extent, NamedFile, Surroundings};

use super::gather::fetch;
use crate::commands::trace::surroundings::{self as around, Below};
use flashmob_server::net::clock::monotonic_ns;
use flashmob_server::status::trace::{NodeClockReport, PieceReport, WayReport};

/// Event groups of the block layer and of drivers.
const SYSTEMS: [&str; 5] = ["block", "mmc", "nvme", "scsi", "ufs"];
/// Reads of the page cache are whole pages.
const PAGE_BYTES: u64 = 4096;

/// A capture of the layers below nodes on this machine, if any were named.
#[derive(Debug)]
pub struct Lower {
    files: Vec<NodeFile>,
    session: Option<Session>,
    since_ns: u64,
}

/// A node's data file on this machine.
#[derive(Debug)]
struct NodeFile {
    node: usize,
    path: PathBuf,
    below: Below,
    /// Its extents on the disk of the events.
    on_disk: Vec<Extent>,
}

/// The result of a capture.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Spans of block layer and driver, in the order of their begins.
    pub timeline: Timeline,
    /// The system below the first of the files.
    pub system: Option<System>,
    /// Sources of events, with what is missing.
    pub sources: Vec<Source>,
    /// Events that are missing.
    pub losses: Losses,
    files: Vec<NodeFile>,
}

impl Lower {
    /// Prepares a capture and starts it, unless no file was named.
    pub fn open(target: &Target, extents: &[(String, PathBuf)]) -> anyhow::Result<Lower> {
        let mut lower = Lower { files: Vec::new(), session: None, since_ns: 0 };
        if extents.is_empty() {
            return Ok(lower);
        }
        let before_ns = monotonic_ns();
        let report = fetch(target)?;
        anyhow::ensure!(
            (before_ns..=monotonic_ns()).contains(&report.now_ns),
            "the gateway at {target} runs on another device; --extent works only for a gateway and nodes on this device"
        );
        for (name, path) in extents {
            lower.files.push(NodeFile::open(&report.nodes, name, path)?);
        }
        let mut events: Vec<Event> = Vec::new();
        let mut devices: Vec<u32> = Vec::new();
        for file in &lower.files {
            let wanted =
                around::events(&file.below).into_iter().filter(|event| SYSTEMS.contains(&event.system.as_str()));
            events.extend(wanted.filter(|event| !events.contains(event)).collect::<Vec<_>>());
            devices.extend(around::devices(&file.below));
        }
        devices.sort_unstable();
        devices.dedup();
        let mut session = Session::open(&Wanted { events, devices, ..Wanted::default() })?;
        session.start()?;
        lower.since_ns = monotonic_ns();
        lower.session = Some(session);
        Ok(lower)
    }

    /// Samples received before this are not used: their commands were not captured.
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Ends the capture.
    pub fn stop(self) -> Blocks {
        let Some(session) = self.session else {
            let why = "no node data file was given; for nodes on this machine use --extent NODE=FILE, as root";
            return Blocks { sources: vec![missing(why)], ..Blocks::default() };
        };
        let capture = session.stop();
        let named = self.files.iter().filter_map(NodeFile::named).collect();
        let devices = self.files.iter().filter_map(|file| file.below.device.clone()).collect();
        let surroundings =
            Surroundings { files: named, devices, thread_names: around::thread_names(), ..Surroundings::default() };
        let mut sources = capture.sources.clone();
        let nowhere = self.files.iter().filter(|file| file.on_disk.is_empty());
        sources.extend(nowhere.map(|file| {
            missing(&format!(
                "the file system does not report where {} lies, so its commands cannot be told from those of other files",
                file.path.display()
            ))
        }));
        Blocks {
            timeline: join(&capture, &surroundings),
            system: self.files.first().map(|file| file.below.system.clone()),
            sources,
            losses: capture.losses,
            files: self.files,
        }
    }
}

fn missing(why: &str) -> Source {
    let layers = vec![Layer::Block, Layer::Driver];
    Source { name: "disks of nodes".into(), layers, is_used: false, why: Some(why.to_string()) }
}

impl NodeFile {
    fn open(nodes: &[NodeClockReport], name: &str, path: &PathBuf) -> anyhow::Result<NodeFile> {
        let Some(node) = nodes.iter().position(|node| node.name == name) else {
            let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
            anyhow::bail!("the gateway has no node '{name}'; its nodes are {}", names.join(", "));
        };
        let file = File::open(path).with_context(|| format!("--extent {name}: cannot open {}", path.display()))?;
        let below = around::below(path);
        let begin_bytes = below.device.as_ref().map_or(0, |device| device.begin_bytes);
        let mut on_disk = around::extents(&file);
        on_disk.iter_mut().for_each(|extent| extent.physical_bytes += begin_bytes);
        if below.device.is_none() {
            on_disk.clear();
        }
        Ok(NodeFile { node, path: path.clone(), below, on_disk })
    }

    fn named(&self) -> Option<NamedFile> {
        use std::os::unix::fs::MetadataExt;
        let device = self.below.device.as_ref()?;
        let begin_bytes = device.begin_bytes;
        let extents = self.on_disk.iter().map(|e| Extent { physical_bytes: e.physical_bytes - begin_bytes, ..*e });
        Some(NamedFile {
            path: self.path.display().to_string(),
            role: Role::Extent,
            device: device.number,
            inode: self.path.metadata().ok()?.ino(),
            from_ns: 0,
            until_ns: u64::MAX,
            extents: extents.collect(),
        })
    }

    /// The ranges of the disk with these bytes of the file.
    fn places(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let end_bytes = bytes.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let pages = bytes.start / PAGE_BYTES * PAGE_BYTES..end_bytes;
        let overlap = |extent: &Extent| {
            let (from, to) =
                (extent.logical_bytes.max(pages.start), (extent.logical_bytes + extent.bytes).min(pages.end));
            let physical = |logical: u64| extent.physical_bytes + (logical - extent.logical_bytes);
            (from < to).then(|| physical(from)..physical(to))
        };
        self.on_disk.iter().filter_map(overlap).collect()
    }
}

impl Blocks {
    /// Spans for this piece, as indices: those at its bytes, between its arrival and the end of its store.
    pub fn of_piece(&self, piece: &PieceReport, way: &WayReport) -> Vec<usize> {
        let Some(file) = self.files.iter().find(|file| file.node == piece.node) else { return Vec::new() };
        let end_bytes = way.store_offset_bytes.saturating_add(u64::from(way.store_bytes));
        let places = file.places(way.store_offset_bytes..end_bytes);
        let own = |ns: u64| way.node_clock_ns.saturating_add(ns.saturating_sub(way.node_received_ns));
        // The attempt to read without blocking precedes the store, and starts to fetch missing pages.
        let (begin_ns, end_ns) = (way.node_clock_ns, own(way.flash_done_ns));
        let is_for_it = |at: &usize| {
            let span = &self.timeline.spans[*at];
            let is_there = span.address_bytes.is_some_and(|address| {
                places.iter().any(|place| address < place.end && place.start < address + span.bytes)
            });
            matches!(span.layer, Layer::Block | Layer::Driver)
                && is_there
                && span.begin_ns < end_ns
                && span.end_ns > begin_ns
        };
        (0..self.timeline.spans.len()).filter(is_for_it).collect()
    }

    /// The path of a node's file, if it was named.
    pub fn path_of(&self, node: usize) -> Option<String> {
        self.files.iter().find(|file| file.node == node).map(|file| file.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_piece_lie_where_the_extents_say() {
        let extent = |logical_bytes, physical_bytes, bytes| Extent { logical_bytes, physical_bytes, bytes };
        let on_disk = vec![extent(0, 1 << 20, 8192), extent(8192, 5 << 20, 65_536)];
        let file = NodeFile { node: 0, path: PathBuf::new(), below: Below::default(), on_disk };
        let first = 1 << 20..(1 << 20) + 4096;
        assert_eq!(file.places(100..200), vec![first]);
        assert_eq!(file.places(5000..9000), [(1 << 20) + 4096..(1 << 20) + 8192, 5 << 20..(5 << 20) + 4096]);
        assert_eq!(file.places(1 << 30..(1 << 30) + 1), []);
        assert_eq!(file.places(u64::MAX - 1..u64::MAX), [], "as a gateway may tell");
    }
}
