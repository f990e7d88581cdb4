//! `flashmob volume recover`: the map of a volume with copies is made again from its nodes, when the gateway's disk is lost.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use flashmob_server::config::Config;
use flashmob_server::gateway::from_nodes::recover::{Recovery, Sources};
use flashmob_text::{Side, Table};
use serde::Serialize;

use super::{MapArgs, confirm};
use crate::commands::status::units::printable;

/// The most chunks that are listed in a sentence.
const LISTED_MAX: usize = 10;
const SIDES: [Side; 4] = [Side::Right, Side::Left, Side::Left, Side::Left];
const WIDTH: usize = 120;

/// Recover the map of a volume from its nodes after the gateway's disk was lost.
///
/// The map records where each chunk lies and which copies are current. Each node keeps a mirror of it beside its extent.
/// This command reads the mirrors of all nodes, takes the latest, and writes the map beside the configuration file. The
/// gateway then compares all copies when it is started. Stop every gateway of the volume first.
///
/// If a node or its mirror is missing, nothing is written without --accept-loss: that another copy fell behind may be
/// recorded on the missing node only.
///
/// In a cluster with keys, only mirrors that a gateway of the cluster has signed are used: a node cannot forge one. Mirrors signed
/// with a later key take precedence.
///
/// If a stolen key was used to take charge of the volume, rotate the gateway's key first: recovery then uses epochs above
/// any that the stolen key could use. The mirrors may have been falsified: use a map that you trust, with --from-map.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: another machine replaces a gateway whose disk was lost:
  flashmob volume recover cluster.toml pool --dry-run     # show what is found and what would be lost; write nothing
  flashmob volume recover cluster.toml pool
  flashmob gateway cluster.toml

Example: a stolen key was used:
  flashmob key rotate cluster.toml
  mv cluster.toml.pool.map pool.map
  flashmob volume recover cluster.toml pool --from-map pool.map --accept-loss

The configuration file needs the volume's name and its nodes in their former order. Addresses may have changed.
The exit status of --dry-run is 1 if --accept-loss would be needed.")]
pub struct RecoverArgs {
    /// Recover although nodes or their mirrors are missing, or are of another state of the map.
    #[arg(long)]
    accept_loss: bool,
    /// Recover from this map instead of the nodes' mirrors.
    #[arg(long, value_name = "FILE")]
    from_map: Option<PathBuf>,
    /// If no mirror is signed by a gateway of the cluster, use others: those from before the cluster had keys, or signed by a
    /// former cluster whose keys are lost. A node may have forged them.
    #[arg(long)]
    accept_unsigned: bool,
    #[command(flatten)]
    map: MapArgs,
}

/// What `--output json` writes.
#[derive(Debug, Serialize)]
struct Report {
    /// The map's file.
    path: PathBuf,
    /// Whether it was written.
    is_written: bool,
    /// The node whose mirror is the latest; none with --from-map.
    from_node: Option<usize>,
    /// Epoch and version of that mirror, or map.
    epoch: u64,
    version: u64,
    chunks: u32,
    /// Nodes that were not found.
    missing_nodes: Vec<u16>,
    /// Nodes that were found without a mirror that can be used.
    nodes_without_mirror: Vec<u16>,
    /// Chunks without a current copy on the nodes that were found.
    chunks_without_copy: Vec<u32>,
    /// Other chunks with fewer copies there than the volume is to have.
    chunks_with_fewer: u32,
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    name: String,
    /// Its extent; none if it was not found.
    extent: Option<String>,
    /// Epoch and version of its mirror, if that is used.
    epoch: Option<u64>,
    version: Option<u64>,
    /// Why its mirror is not used.
    no_mirror: Option<String>,
    /// Its mirror has what the recovered map lacks: a gateway was started with an older state of the map. What was acknowledged there only is
    /// lost.
    is_branched: bool,
    /// Its mirror is not signed by a gateway of the cluster, and is used all the same.
    is_unsigned: bool,
    /// A gateway is linked to it.
    is_linked: bool,
    /// Why it was not found.
    error: Option<String>,
}

pub fn run(args: &RecoverArgs) -> anyhow::Result<()> {
    let RecoverArgs { map: args, accept_loss, from_map, accept_unsigned } = args;
    let config = Config::load(&args.config)?;
    let sources = Sources { map: from_map.as_deref(), accepts_unsigned: *accept_unsigned, stop: None };
    let recovery = Recovery::look(&config, &args.config, &args.volume, &sources)?;
    let mut report = Report::of(&recovery);
    args.tell_found(report.lines().into_iter().chain(recovery.claims()).collect())?;
    let needs_accepting = !recovery.shortcomings().is_empty() && !accept_loss;
    if !args.dry_run {
        if !accept_loss {
            recovery.check_idle(&args.volume)?;
        }
        anyhow::ensure!(
            !needs_accepting,
            "nodes or their mirrors are missing, or are of another state of the map: bring them back, or recover without what is \
             recorded there only: --accept-loss"
        );
        let question = format!("recover the map of volume {}? No gateway may use the volume meanwhile.", args.volume);
        let what = format!("this makes the map of volume '{}' again", args.volume);
        confirm(args.yes, &question, &what, "nothing was written")?;
        report.path = recovery.write()?;
        report.is_written = true;
    }
    let written = || format!("{} is written; start the gateway: it compares all copies", report.path.display());
    args.tell_end(&report, report.is_written.then(written))?;
    if args.dry_run && needs_accepting {
        bail!(
            "nodes or their mirrors are missing, or are of another state of the map; without them --accept-loss is needed"
        );
    }
    Ok(())
}

impl Report {
    fn of(recovery: &Recovery) -> Report {
        let Recovery { path, recovered, nodes, .. } = recovery;
        let (epoch, version) = recovered.of;
        let mut found = (0..).zip(nodes).filter(|(_, node)| node.extent.is_ok()).map(|(number, _)| number);
        let from_node = recovered.from.and_then(|at| found.nth(at));
        let nodes = nodes.iter().map(|node| {
            let mirror = node.mirror.ok();
            NodeReport {
                name: node.name.clone(),
                extent: node.extent.as_ref().ok().map(ToString::to_string),
                epoch: mirror.map(|(epoch, _)| epoch),
                version: mirror.map(|(_, version)| version),
                no_mirror: node.mirror.err().filter(|_| node.extent.is_ok()).map(|why| why.to_string()),
                is_branched: node.is_branched,
                is_unsigned: node.is_unsigned,
                is_linked: node.is_linked,
                error: node.extent.as_ref().err().cloned(),
            }
        });
        Report {
            path: path.clone(),
            is_written: false,
            from_node,
            epoch,
            version,
            chunks: recovered.image.chunks(),
            missing_nodes: recovered.missing.clone(),
            nodes_without_mirror: recovered.without_mirror.clone(),
            chunks_without_copy: recovered.without_copy.clone(),
            chunks_with_fewer: recovered.with_fewer,
            nodes: nodes.collect(),
        }
    }

    /// What was found, for people.
    fn lines(&self) -> Vec<String> {
        let mut table = Table::new(&SIDES);
        table.plain(["", "node", "extent", "mirror of the map"]);
        for (number, node) in self.nodes.iter().enumerate() {
            let mirror = match (&node.error, node.epoch, node.version) {
                (Some(error), ..) => format!("not found: {}", printable(error)),
                (None, Some(epoch), Some(version)) => {
                    let branch = if node.is_branched { " of another state of the map" } else { "" };
                    let unsigned = if node.is_unsigned { ", not signed" } else { "" };
                    format!("epoch {epoch}, version {version}{branch}{unsigned}")
                }
                _ => node.no_mirror.clone().unwrap_or_default(),
            };
            let extent = node.extent.clone().unwrap_or_default();
            table.plain([number.to_string(), printable(&node.name), extent, mirror]);
        }
        let mut lines = table.lines(WIDTH, false);
        let from = self
            .from_node
            .map_or("the map is the given one".to_string(), |node| format!("the latest mirror is that of node {node}"));
        let (epoch, version, chunks) = (self.epoch, self.version, self.chunks);
        lines.push(format!("{from}, of epoch {epoch} and version {version}; it has {chunks} chunks"));
        let linked = self.nodes.iter().filter(|node| node.is_linked).count();
        if linked > 0 {
            lines.push(format!(
                "in use: a gateway is linked to {linked} of the nodes. Stop it before the map is recovered"
            ));
        }
        if !self.missing_nodes.is_empty() {
            let missing: Vec<String> = self.missing_nodes.iter().map(u16::to_string).collect();
            lines.push(format!(
                "missing: the extents of nodes {}. That other copies fell behind may be recorded there only",
                missing.join(", ")
            ));
        }
        if !self.nodes_without_mirror.is_empty() {
            let without: Vec<String> = self.nodes_without_mirror.iter().map(u16::to_string).collect();
            lines.push(format!(
                "nodes {} have no mirror that can be used; what was recorded there only is lost as well",
                without.join(", ")
            ));
        }
        let without = &self.chunks_without_copy;
        if !without.is_empty() {
            let listed: Vec<String> = without.iter().take(LISTED_MAX).map(u32::to_string).collect();
            let more = if without.len() > LISTED_MAX { ", ..." } else { "" };
            lines.push(format!(
                "{} chunks have no current copy on the nodes that were found, and cannot be read before others are back, or their loss is accepted (`flashmob volume accept-loss`): {}{more}",
                without.len(),
                listed.join(", ")
            ));
        }
        if self.chunks_with_fewer > 0 {
            lines.push(format!("{} chunks have fewer current copies than they should", self.chunks_with_fewer));
        }
        lines
    }
}
