//! One cluster, simulated in this process, and what it took.

use std::time::Duration;

use anyhow::Context;
use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::GIB;
use flashmob_lab::cluster::{self, Acks, Cost, Settings};
use flashmob_lab::{air, flash};
use serde::{Deserialize, Serialize};

/// Nodes of a cell, in all sizes.
const CELL_NODES: u32 = 10;
/// The load, in reads outstanding at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// 64 for each node.
    Busy,
    /// 10 in all, however many nodes there are: what a turn costs that has next to nothing to do.
    Quiet,
}

impl Load {
    fn outstanding(self, nodes: u32) -> u32 {
        match self {
            Load::Busy => nodes * 64,
            Load::Quiet => 10,
        }
    }

    /// How much virtual time counts: in all sizes about as many reads.
    fn time(self, nodes: u32, node_seconds: f64) -> Duration {
        let seconds = match self {
            Load::Busy => node_seconds / f64::from(nodes.max(1)),
            Load::Quiet => node_seconds / 50.0,
        };
        // Not less than a few of the largest gateway's turns.
        Duration::from_secs_f64(seconds.clamp(2.0, 3600.0))
    }
}

/// Virtual time before anything counts.
const WARMUP: Duration = Duration::from_millis(500);

/// What it took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub nodes: u32,
    /// Virtual time that counts, and that with what comes before.
    pub virtual_s: f64,
    pub virtual_s_in_all: f64,
    /// In the virtual time that counts.
    pub reads: u64,
    /// In all virtual time.
    pub events: u64,
    /// Processor time for all of it.
    pub processor_s: f64,
    /// The gateway's turns in the virtual time that counts, and the processor time they took.
    pub turns: u64,
    pub gateway_ns: u64,
    /// The most that the process had at once, less what it had before.
    pub memory_bytes: u64,
}

/// Cells of a cluster.
pub fn cells(nodes: u32) -> u32 {
    nodes.div_ceil(CELL_NODES)
}

/// Simulates so many nodes, and prints [`Figures`].
pub fn print(nodes: u32, load: Load, node_seconds: f64) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&simulate(nodes, load, node_seconds)?)?);
    Ok(())
}

fn simulate(nodes: u32, load: Load, node_seconds: f64) -> anyhow::Result<Figures> {
    let time = load.time(nodes, node_seconds);
    let settings = Settings {
        nodes,
        loaded_nodes: nodes,
        cells: cells(nodes),
        air: air::Profile::parse("11ac")?,
        gateway: air::Attachment::Wired,
        order: IssueOrder::Sorted,
        flash: Some(flash::Profile::named("nexus7-emmc")?),
        extent_bytes: 10 * GIB,
        links: 1,
        batch: BatchMode::Auto,
        block_bytes: 1,
        read_percent: 100.0,
        outstanding: load.outstanding(nodes),
        warmup: WARMUP,
        time,
        seed: 1,
        gateway_cost: Cost::COMPUTER,
        node_cost: Cost::TABLET,
        copies: None,
        weak: None,
        every_ns: None,
        rebuild: None,
        acks: Acks::Linux,
    };
    let before_bytes = memory_bytes("VmRSS:")?;
    let begun_ns = processor_ns();
    let (measured, timed) = cluster::run_timed(&settings, &mut processor_ns)?;
    let processor_s = (processor_ns() - begun_ns) as f64 / 1e9;
    anyhow::ensure!(measured.errors == 0, "{} reads failed", measured.errors);
    Ok(Figures {
        nodes,
        virtual_s: time.as_secs_f64(),
        virtual_s_in_all: (time + WARMUP).as_secs_f64(),
        reads: measured.requests,
        events: measured.events,
        processor_s,
        turns: timed.turns,
        gateway_ns: timed.turns_ns,
        memory_bytes: memory_bytes("VmHWM:")?.saturating_sub(before_bytes),
    })
}

/// Processor time of this thread, which does all the work: others on the machine do not count in it.
pub fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn memory_bytes(field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read this process's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("the kernel does not say it")?;
    let kib: u64 = line.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(kib * 1024)
}
