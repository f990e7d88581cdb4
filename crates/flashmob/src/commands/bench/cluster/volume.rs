//! The volume that is measured: its configuration, and the facts that its nodes report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_core::gateway::{GatewayStatus, LinkPhase, NodeStatus};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::{Bytes, Time};
use flashmob_host::place;
use flashmob_results::cluster::shared_disks;

use crate::commands::cluster::Sweep;
use flashmob_server::config::{Config, NodeSource};
use flashmob_server::gateway::{GatewayServer, Inside, Resident};

/// Time limit for nodes to link.
pub const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for cancellation, and of progress.
pub const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Time limit for linked nodes to report the condition of their devices, which follows the welcome.
const CONDITIONS_TIMEOUT: Duration = Duration::from_millis(500);
/// Unallocated fraction of the extents that changes no rate by much.
const UNALLOCATED_MAX: f64 = 0.01;

/// The configuration at `path`, with only one volume: that of this name, or the first.
pub fn config(path: &Path, name: Option<&str>) -> anyhow::Result<Config> {
    let mut config = Config::load(path)?;
    let known: Vec<String> = config.volumes.iter().map(|volume| volume.name.clone()).collect();
    let place = name.map_or(Some(0), |name| known.iter().position(|known| known == name));
    let Some(volume) = place.filter(|&place| place < known.len()).map(|place| config.volumes.swap_remove(place)) else {
        anyhow::bail!("{} has no volume '{}'; it has {}", path.display(), name.unwrap_or_default(), known.join(", "));
    };
    anyhow::ensure!(
        volume.copies.is_none(),
        "volume '{}' has copies, of which only one gateway can be in charge; measure it through its gateway, with 'flashmob bench nbd'",
        volume.name
    );
    config.volumes = vec![volume];
    Ok(config)
}

/// The numbers of nodes for the load, in order: all nodes, unless `wanted` has others.
pub fn nodes(config: &Config, wanted: &[u32]) -> anyhow::Result<Vec<u32>> {
    let volume = &config.volumes[0];
    let all = u32::try_from(volume.nodes.len()).unwrap_or(u32::MAX);
    if let Some(more) = wanted.iter().find(|&&nodes| nodes > all) {
        bail_value!(
            "--nodes {more}: volume '{}' has {all}; give at most {all}, or add nodes to the volume",
            volume.name
        );
    }
    if let Some(fewer) = wanted.iter().find(|&&nodes| nodes < all)
        && volume.layout != LayoutKind::Linear
    {
        bail_value!(
            "--nodes {fewer}: volume '{}' is striped, so every address range uses all of its {all} nodes; \
             leave --nodes out, or measure a linear volume",
            volume.name
        );
    }
    Ok(if wanted.is_empty() { vec![all] } else { wanted.to_vec() })
}

/// The facts about the volume after its nodes have linked.
#[derive(Clone, Debug)]
pub struct Facts {
    nodes: Vec<NodeStatus>,
    /// The disks of the extents inside this process, which report no condition; `None` for all other nodes.
    local_disk_ids: Vec<Option<String>>,
    size_bytes: u64,
}

impl Facts {
    /// Bytes of the volume that lie on the first `nodes` nodes.
    pub fn range_bytes(&self, nodes: usize) -> u64 {
        if nodes >= self.nodes.len() {
            return self.size_bytes;
        }
        self.nodes.iter().take(nodes).filter_map(|node| node.size_bytes).sum()
    }

    /// Bytes of a node's extent; the smallest if they differ.
    pub fn extent_bytes(&self) -> u64 {
        self.nodes.iter().filter_map(|node| node.size_bytes).min().unwrap_or(0)
    }

    /// How many of the first nodes answer as slowly as a modelled flash.
    pub fn modelled(&self, nodes: usize) -> usize {
        self.nodes.iter().take(nodes).filter(|node| node.modelled).count()
    }

    /// A doubt about reads of the first `nodes` nodes: that their extents have holes. `None` if they have few, or if their size is not known.
    pub fn holes(&self, nodes: usize) -> Option<String> {
        let extents = self.nodes.iter().take(nodes).filter(|node| !node.modelled && !node.no_io);
        let known = extents.filter_map(|node| {
            let (condition, _) = node.condition.as_ref()?;
            Some((condition.unallocated_bytes?, node.size_bytes?))
        });
        let (holes, all) = known.fold((0, 0), |(holes, all), of| (holes + of.0.min(of.1), all + of.1));
        (holes as f64 > all as f64 * UNALLOCATED_MAX).then(|| {
            format!(
                "{} of the {} of the extents were never written: nodes answer these holes with zeros, without their flash; \
                 write the whole volume once (nbdcopy, dd) and measure again",
                Bytes(holes),
                Bytes(all)
            )
        })
    }

    /// The disk of the extent of each of the first `nodes` nodes; `None` if it is not known, or if the node does not wait for it.
    /// Empty if none is known.
    pub fn disk_ids(&self, nodes: usize) -> Vec<Option<String>> {
        let extents = self.nodes.iter().zip(&self.local_disk_ids).take(nodes);
        let ids: Vec<Option<String>> = extents
            .map(|(node, local)| {
                let told = node.condition.as_ref().and_then(|(condition, _)| condition.disk_id);
                told.map(place::id_text).or_else(|| local.clone()).filter(|_| !node.modelled && !node.no_io)
            })
            .collect();
        if ids.iter().any(Option::is_some) { ids } else { Vec::new() }
    }

    /// A doubt about rates of several of the first `nodes` nodes: that their extents share a disk.
    pub fn shared_disks(&self, nodes: usize) -> Option<String> {
        let groups = shared_disks(self.disk_ids(nodes).iter());
        let named = groups.iter().map(|group| {
            let numbers: Vec<String> = group.iter().map(ToString::to_string).collect();
            format!("nodes {}", numbers.join(", "))
        });
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| {
            format!(
                "extents share a disk: those of {}. Together they read no faster than that disk, so more of these nodes are not more flash; \
                 give each node a disk of its own",
                named.join("; those of ")
            )
        })
    }

    /// Whether the first `nodes` nodes answer without I/O; an error if they differ, or if `said` and they do I/O.
    pub fn is_no_io(&self, nodes: usize, said: bool) -> anyhow::Result<bool> {
        let asked = &self.nodes[..nodes.min(self.nodes.len())];
        let without = asked.iter().filter(|node| node.no_io).count();
        if let Some(node) = asked.iter().find(|node| !node.no_io)
            && (said || without > 0)
        {
            let all = if said { "--no-io was given, but" } else { "some nodes run without I/O, but" };
            anyhow::bail!("{all} {} does not run with it: start all nodes with --no-io, or all without", node.name);
        }
        Ok(without > 0)
    }

    /// Checks that requests fit into the range of the load.
    pub fn check(&self, sweep: &Sweep) -> anyhow::Result<()> {
        for point in &sweep.points {
            let range_bytes = self.range_bytes(point.nodes as usize);
            ensure_value!(
                u64::from(point.block_bytes) <= range_bytes,
                "--block-size {}: {} nodes have only {} together; give a smaller size",
                Bytes(point.block_bytes.into()),
                point.nodes,
                Bytes(range_bytes)
            );
        }
        Ok(())
    }
}

/// Links with the nodes once and collects their facts; the first `asked` must answer. `None` if it was cancelled.
pub fn learn(config: &Config, asked: usize, cancel: &AtomicBool) -> anyhow::Result<Option<Facts>> {
    let local_disk_ids = config.volumes[0].nodes.iter().map(|node| local_disk_id(&node.source)).collect();
    let until = Instant::now() + READY_TIMEOUT;
    let mut learner = Learner { asked, cancel, until, local_disk_ids, linked: None, outcome: None };
    GatewayServer::open_native(config)?.run_with(&mut learner)?;
    learner.outcome.transpose()
}

fn local_disk_id(source: &NodeSource) -> Option<String> {
    match source {
        NodeSource::Local { path, .. } => place::locate(path).place.disk_id,
        NodeSource::Remote { .. } => None,
    }
}

#[derive(Debug)]
struct Learner<'a> {
    asked: usize,
    cancel: &'a AtomicBool,
    until: Instant,
    local_disk_ids: Vec<Option<String>>,
    /// Since when the nodes are linked.
    linked: Option<Instant>,
    outcome: Option<anyhow::Result<Facts>>,
}

impl Learner<'_> {
    /// Whether to wait for conditions: not for long, since a node of which nothing is known serves as well.
    fn lacks_conditions(&mut self, status: &GatewayStatus) -> bool {
        let linked = *self.linked.get_or_insert_with(Instant::now);
        let nodes = status.volumes.first().map_or(&[][..], |volume| &volume.nodes);
        linked.elapsed() < CONDITIONS_TIMEOUT && nodes.iter().take(self.asked).any(|node| node.condition.is_none())
    }
}

impl Resident for Learner<'_> {
    fn turn(&mut self, _: Time, inside: &mut Inside<'_>) {
        let status = inside.parts().0.status();
        match missing(&status, self.asked) {
            None if self.lacks_conditions(&status) => {}
            None => {
                let local_disk_ids = std::mem::take(&mut self.local_disk_ids);
                let volume = status.volumes.into_iter().next();
                self.outcome = volume.map(|volume| {
                    let size_bytes = volume.size_bytes.unwrap_or_default();
                    Ok(Facts { nodes: volume.nodes, local_disk_ids, size_bytes })
                });
            }
            Some(why) if Instant::now() >= self.until => self.outcome = Some(Err(not_ready(&why))),
            Some(_) => {}
        }
    }

    fn wakes_in(&self) -> Duration {
        LOOKS_EVERY
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some() || self.cancel.load(Ordering::Relaxed)
    }
}

/// Why the load has to wait for the first `asked` nodes of the only volume; `None` if it need not.
pub fn missing(status: &GatewayStatus, asked: usize) -> Option<String> {
    let volume = status.volumes.first()?;
    let is_unlinked = |node: &&NodeStatus| node.links.iter().any(|link| link.phase != LinkPhase::Ready);
    let told = |node: &NodeStatus| {
        let up = node.links.iter().filter(|link| link.phase == LinkPhase::Ready).count();
        let why = match &node.refusal {
            Some(refusal) => format!("refused: {refusal}"),
            None if up > 0 => {
                format!("only {up} of {} links; does the node allow that many (--links)?", node.links.len())
            }
            None => "no link".to_string(),
        };
        format!("{}: {why}", node.name)
    };
    let unlinked = volume.nodes.iter().take(asked).find(is_unlinked);
    let unknown = || volume.nodes.iter().find(|node| volume.size_bytes.is_none() && node.size_bytes.is_none());
    unlinked.map(told).or_else(|| {
        unknown()
            .map(|node| format!("{}: unknown size; start the node, or set its size in the configuration", node.name))
    })
}

/// The error if a volume did not become ready in time.
pub fn not_ready(why: &str) -> anyhow::Error {
    anyhow::anyhow!("the volume was not ready after {} s: {why}", READY_TIMEOUT.as_secs())
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
