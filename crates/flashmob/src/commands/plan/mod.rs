//! `flashmob plan`: its arguments.
//!
//! - [`record`]: the answer in its published format
//! - [`text`]: the answer as text

mod record;
mod text;

use std::time::Duration;

use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::{Bytes, MIB};
use flashmob_lab::air::{Attachment, Medium};
use flashmob_lab::cluster::{Acks, Cost, Settings};
use flashmob_lab::plan;

use super::cluster_args::{self, LoadArgs, ModelArgs};
use super::tell::{self, Form};

/// Simulated requests have real bytes, in several simulations at once: the limit of outstanding bytes.
const BYTES_MAX: u64 = 256 * MIB;

/// Predict a cluster's speed, its bottleneck, and what would improve it (modelled).
///
/// For use before buying or setting up anything. Everything is modelled as in 'flashmob simulate': the devices' flash, the air, TCP and CPUs; where a closed
/// formula exists it is used instead, and named. The bottleneck is found by doubling one resource after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob plan --nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B
  flashmob plan --nodes 8 --gateway wired --batch 1 --links 8        # P1's master without aggregation
  flashmob plan --nodes 4 --flash sdcard --wifi 11ac --write 4KiB --outstanding-total 16
  flashmob plan --nodes 16 --cells 2 --output json | jq .remedies

docs/models.md has the profiles and their sources; docs/planning.md explains the output.")]
pub struct PlanArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Cells, each with its own access point and channel; the nodes are divided among them. More than one needs a wired gateway.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    cells: u32,
    /// Random reads of this size [default: 1 byte].
    #[arg(long, value_name = "SIZE", value_parser = cluster_args::block_size, conflicts_with = "write")]
    read: Option<u32>,
    /// Random writes of this size.
    #[arg(long, value_name = "SIZE", value_parser = cluster_args::block_size)]
    write: Option<u32>,
    /// Links per node (P1's m).
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u16).range(1..=256))]
    links: u16,
    /// Batch size: auto (self-clocked), or a fixed maximum with one batch in flight per link (P1's k).
    #[arg(long, visible_alias = "aggregate", default_value = "auto", value_name = "K", value_parser = cluster_args::batch)]
    batch: BatchMode,
    /// Outstanding requests per node [default: 256, or what links and batches can hold if that is more].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    outstanding: Option<u32>,
    /// Outstanding requests in total.
    #[arg(long, value_name = "N", conflicts_with = "outstanding", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    outstanding_total: Option<u32>,
    /// Output format: text, or JSON (schema/plan-1.json).
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

impl PlanArgs {
    /// The cluster with its load; the planner chooses the duration of the simulation.
    fn settings(&self) -> anyhow::Result<Settings> {
        let model = &self.model;
        let attachment = Attachment::from(model.parts.gateway);
        if self.cells > 1 {
            ensure_value!(
                matches!(model.parts.air.medium, Medium::Cell(_)),
                "--cells {}: '{}' has no cells; leave out --cells, or select a Wi-Fi profile with --air",
                self.cells,
                model.parts.air.name
            );
            ensure_value!(
                attachment == Attachment::Wired,
                "--cells {} needs a wired gateway, because a wireless one is a station of a single cell; add --gateway wired",
                self.cells
            );
            ensure_value!(
                self.cells <= model.nodes,
                "--cells {} for {} nodes: each cell needs a node; use fewer cells or more nodes",
                self.cells,
                model.nodes
            );
        }
        let (block_bytes, read_percent) = match self.write {
            Some(bytes) => (bytes, 0.0),
            None => (self.read.unwrap_or(1), 100.0),
        };
        ensure_value!(
            u64::from(block_bytes) <= model.parts.extent,
            "requests of {} do not fit extents of {}: use a larger --extent",
            Bytes(block_bytes.into()),
            Bytes(model.parts.extent)
        );
        let outstanding = self.outstanding_in_all(block_bytes, read_percent);
        ensure_value!(
            u64::from(outstanding) * u64::from(block_bytes) <= BYTES_MAX,
            "{outstanding} outstanding requests of {} are too many bytes to simulate; reduce --outstanding-total or the request size",
            Bytes(block_bytes.into())
        );
        Ok(Settings {
            nodes: model.nodes,
            loaded_nodes: model.nodes,
            cells: self.cells,
            air: model.parts.air.clone(),
            gateway: attachment,
            flash: (!model.parts.no_io).then_some(model.parts.flash),
            order: model.parts.order.into(),
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
            copies: None,
            weak: None,
            every_ns: None,
            rebuild: None,
            acks: Acks::Linux,
        })
    }

    /// Counted as in the other commands.
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

/// Plans according to the arguments.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let settings = args.settings()?;
    let mut line = ProgressLine::new("simulating");
    let answer = plan::plan(&settings, &mut |done, all| {
        line.show(&Progress { done: done as u64, total: all as u64, unit: Unit::Parts });
    })?;
    drop(line);
    anyhow::ensure!(
        answer.forecast.simulated.rate > 0.0,
        "no request completed in {:.0} s of virtual time: too many are outstanding; reduce --outstanding-total or the request \
        size",
        answer.forecast.simulated.elapsed.as_secs_f64()
    );
    let record = record::of(&settings, &answer)?;
    let text = match args.output {
        Form::Table => text::render(&record),
        Form::Json => tell::json(&record)?,
    };
    tell::print(&text)
}

#[cfg(test)]
mod tests;
