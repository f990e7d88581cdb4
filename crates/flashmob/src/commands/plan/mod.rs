//! `flashmob plan`: what its arguments mean.
//!
//! - [`record`]: the answer in its published form
//! - [`text`]: the answer for people

mod record;
mod text;

use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::{Bytes, MIB};
use flashmob_lab::air::{Attachment, Medium};
use flashmob_lab::cluster::{Cost, Settings};
use flashmob_lab::plan;

use super::cluster_args::{self, LoadArgs, ModelArgs};

/// Simulated requests have real bytes, in several simulations at once: so many may be outstanding.
const BYTES_MAX: u64 = 256 * MIB;

/// Say how fast a cluster will be, what holds it back, and what would move that; before anything is bought or wired.
///
/// Everything is modelled: the devices' flash, the air, TCP and processors, as 'flashmob simulate' does; where there is a formula it is used
/// instead, and named. What holds the cluster back is found by giving it twice as much of one thing after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob plan --nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B
  flashmob plan --nodes 8 --gateway wired --batch 1 --links 8        # P1's master without aggregation
  flashmob plan --nodes 4 --flash sdcard --wifi 11ac --write 4KiB --outstanding-total 16
  flashmob plan --nodes 16 --cells 2 --output json | jq .remedies

Profiles and where their numbers come from: docs/models.md. How to read the answer: docs/planning.md.")]
pub struct PlanArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Cells, each with an access point and a channel of its own; the nodes are divided among them. Several need a wired gateway.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    cells: u32,
    /// Random reads of this size: 1 byte, unless given.
    #[arg(long, value_name = "SIZE", value_parser = cluster_args::block_size, conflicts_with = "write")]
    read: Option<u32>,
    /// Random writes of this size.
    #[arg(long, value_name = "SIZE", value_parser = cluster_args::block_size)]
    write: Option<u32>,
    /// Links to each node (P1's m).
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u16).range(1..=256))]
    links: u16,
    /// Pieces that travel together: auto, or at most so many with one batch out for each link (P1's k).
    #[arg(long, visible_alias = "aggregate", default_value = "auto", value_name = "K", value_parser = cluster_args::batch)]
    batch: BatchMode,
    /// Requests outstanding for each node: 256, or what links and batches can hold if that is more.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    outstanding: Option<u32>,
    /// Requests outstanding in all.
    #[arg(long, value_name = "N", conflicts_with = "outstanding", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    outstanding_total: Option<u32>,
    /// A text for people, or JSON (described by schema/plan-1.json).
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

/// The forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl PlanArgs {
    /// The cluster with its load; the planner chooses how long it is simulated.
    fn settings(&self) -> anyhow::Result<Settings> {
        let model = &self.model;
        let attachment = Attachment::from(model.parts.gateway);
        if self.cells > 1 {
            anyhow::ensure!(
                matches!(model.parts.air.medium, Medium::Cell(_)),
                "--cells {}: '{}' has no cells; leave --cells out, or choose Wi-Fi with --air",
                self.cells,
                model.parts.air.name
            );
            anyhow::ensure!(
                attachment == Attachment::Wired,
                "--cells {} with a wireless gateway, which is a station of one cell; add --gateway wired",
                self.cells
            );
            anyhow::ensure!(
                self.cells <= model.nodes,
                "--cells {} for {} nodes: each cell needs one; take fewer cells or more nodes",
                self.cells,
                model.nodes
            );
        }
        let (block_bytes, read_percent) = match self.write {
            Some(bytes) => (bytes, 0.0),
            None => (self.read.unwrap_or(1), 100.0),
        };
        anyhow::ensure!(
            u64::from(block_bytes) <= model.parts.extent,
            "requests of {} to extents of {}: make --extent larger",
            Bytes(block_bytes.into()),
            Bytes(model.parts.extent)
        );
        let outstanding = self.outstanding_in_all(block_bytes, read_percent);
        anyhow::ensure!(
            u64::from(outstanding) * u64::from(block_bytes) <= BYTES_MAX,
            "{outstanding} requests of {} outstanding are too many bytes to simulate; take fewer with --outstanding-total, or smaller ones",
            Bytes(block_bytes.into())
        );
        Ok(Settings {
            nodes: model.nodes,
            loaded_nodes: model.nodes,
            cells: self.cells,
            air: model.parts.air.clone(),
            gateway: attachment,
            flash: (!model.parts.no_io).then_some(model.parts.flash),
            extent_bytes: model.parts.extent,
            links: self.links,
            batch: self.batch,
            block_bytes,
            read_percent,
            outstanding,
            warmup: Duration::ZERO,
            time: Duration::from_secs(1),
            seed: model.parts.seed,
            gateway_cost: Cost::COMPUTER,
            node_cost: Cost::TABLET,
        })
    }

    /// As the other commands count it.
    fn outstanding_in_all(&self, block_bytes: u32, read_percent: f64) -> u32 {
        let load = LoadArgs {
            links: vec![self.links],
            batch: vec![self.batch],
            block_size: vec![block_bytes],
            read_percent: vec![read_percent],
            outstanding: self.outstanding,
            outstanding_total: self.outstanding_total,
            time: Duration::from_secs(1),
            warmup: None,
            repeat: 1,
        };
        load.outstanding_for(self.model.nodes, self.links, self.batch)
    }
}

/// Plans as the arguments say.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let settings = args.settings()?;
    let mut line = ProgressLine::new("simulating");
    let answer = plan::plan(&settings, &mut |done, all| {
        line.show(&Progress { done: done as u64, total: all as u64, unit: Unit::Parts });
    })?;
    drop(line);
    anyhow::ensure!(
        answer.forecast.simulated.rate > 0.0,
        "nothing was answered in {:.0} s of virtual time: so much cannot be outstanding; take fewer with --outstanding-total, \
         or smaller requests",
        answer.forecast.simulated.elapsed.as_secs_f64()
    );
    let record = record::of(&settings, &answer)?;
    let text = match args.output {
        Output::Table => text::render(&record),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(&record)?),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // Who reads it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        said => Ok(said?),
    }
}

#[cfg(test)]
mod tests;
