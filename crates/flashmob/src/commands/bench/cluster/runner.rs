//! One repetition: its own gateway, the load inside it, and the difference of the counters.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use flashmob_lab::load::Plan;
use flashmob_results::cluster::{AirUse, Batch, Batches, Packets, Parameters, Repetition};
use flashmob_results::latency::{Latency, histogram};

use super::load::{Load, Look, Seen};
use super::volume::Facts;
use crate::commands::cluster::Runner;
use crate::commands::cluster::sweep::mode_of;
use crate::commands::cluster_args::Times;
use crate::lab::status::LabStatus;
use flashmob_server::config::Config;
use flashmob_server::gateway::GatewayServer;

/// Runs each repetition with its own gateway, so that none profits from earlier connections.
#[derive(Debug)]
pub struct GatewayRunner {
    config: Config,
    facts: Facts,
    lab: Option<PathBuf>,
}

impl GatewayRunner {
    /// `config` has one volume.
    pub fn new(config: Config, facts: Facts, lab: Option<PathBuf>) -> GatewayRunner {
        GatewayRunner { config, facts, lab }
    }

    fn config_for(&self, parameters: &Parameters) -> Config {
        let mut config = self.config.clone();
        // The load has at most one client per request.
        config.connections = config.connections.max(parameters.outstanding as usize);
        for volume in &mut config.volumes {
            volume.links = parameters.links as usize;
            volume.batch = mode_of(parameters.batch);
            if let Batch::Fixed(_) = parameters.batch {
                // P1's transfer thread waits for the answers before it sends again.
                volume.outstanding_batches = 1;
            }
        }
        config
    }
}

impl Runner for GatewayRunner {
    fn run(
        &mut self,
        parameters: &Parameters,
        times: Times,
        seed: u64,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Repetition> {
        let nodes = parameters.nodes as usize;
        let plan = Plan {
            range_bytes: self.facts.range_bytes(nodes),
            block_bytes: parameters.block_bytes,
            read_percent: parameters.read_percent,
            outstanding: parameters.outstanding,
            every_ns: None,
            seed,
        };
        let mut load = Load::new(plan, nodes, times, self.lab.as_deref(), cancel, progress);
        GatewayServer::open_native(&self.config_for(parameters))?.run_with(&mut load)?;
        let seen = load.outcome()?;
        let is_cancelled = cancel.load(Ordering::Relaxed);
        Ok(seen.map_or_else(nothing, |seen| repetition(&seen, parameters, is_cancelled)))
    }
}

/// The difference of the counters as a repetition.
fn repetition(seen: &Seen, parameters: &Parameters, is_cancelled: bool) -> Repetition {
    let Seen { begin, end, tally } = seen;
    let elapsed_s = end.at.saturating_duration_since(begin.at).as_secs_f64();
    let is_late = end.lab.as_ref().is_some_and(|lab| lab.is_late);
    Repetition {
        begin_s: 0.0,
        elapsed_s,
        requests: tally.requests,
        bytes: tally.requests * u64::from(parameters.block_bytes),
        errors: tally.errors,
        requests_per_second: if elapsed_s > 0.0 { tally.requests as f64 / elapsed_s } else { 0.0 },
        latency_ns: Latency::new(&tally.latency_ns),
        batches: batches(begin.batches, end.batches),
        packets: packets(begin, end),
        air: begin.lab.as_ref().zip(end.lab.as_ref()).map(|(begin, end)| air(begin, end)),
        flash_busy_fraction: None,
        gateway_cpu_s: end.cpu.saturating_sub(begin.cpu).as_secs_f64(),
        hedged: None,
        rebuild: None,
        lateness: end.lab.as_ref().map(|lab| lab.lateness),
        is_void: is_cancelled || is_late,
    }
}

/// A repetition that was stopped before anything counted.
fn nothing() -> Repetition {
    Repetition {
        begin_s: 0.0,
        elapsed_s: 0.0,
        requests: 0,
        bytes: 0,
        errors: 0,
        requests_per_second: 0.0,
        latency_ns: Latency::new(&histogram()),
        batches: Batches::default(),
        packets: None,
        air: None,
        flash_busy_fraction: None,
        gateway_cpu_s: 0.0,
        hedged: None,
        rebuild: None,
        lateness: None,
        is_void: true,
    }
}

fn batches(begin: Batches, end: Batches) -> Batches {
    Batches {
        sent: end.sent.saturating_sub(begin.sent),
        pieces: end.pieces.saturating_sub(begin.pieces),
        replies: end.replies.saturating_sub(begin.replies),
    }
}

/// `None` also if a link broke meanwhile: a new connection counts from zero.
fn packets(begin: &Look, end: &Look) -> Option<Packets> {
    let (b, e) = (begin.packets?, end.packets?);
    (begin.breaks == end.breaks).then(|| Packets {
        sent: e.sent.saturating_sub(b.sent),
        received: e.received.saturating_sub(b.received),
        data_sent: e.data_sent.saturating_sub(b.data_sent),
        data_received: e.data_received.saturating_sub(b.data_received),
        bytes_sent: e.bytes_sent.saturating_sub(b.bytes_sent),
        bytes_received: e.bytes_received.saturating_sub(b.bytes_received),
        retransmitted: e.retransmitted.saturating_sub(b.retransmitted),
    })
}

fn air(begin: &LabStatus, end: &LabStatus) -> AirUse {
    let (b, e) = (begin.counters, end.counters);
    let busy_ns = e.busy_ns.saturating_sub(b.busy_ns) as f64 / f64::from(end.air.cells.max(1));
    let elapsed_ns = end.elapsed_ns.saturating_sub(begin.elapsed_ns);
    AirUse {
        transmissions: e.transmissions.saturating_sub(b.transmissions),
        frames: e.frames.saturating_sub(b.frames),
        frame_bytes: e.frame_bytes.saturating_sub(b.frame_bytes),
        collisions: e.collisions.saturating_sub(b.collisions),
        retries: e.retries.saturating_sub(b.retries),
        dropped: e.dropped.saturating_sub(b.dropped),
        busy_fraction: if elapsed_ns > 0 { busy_ns / elapsed_ns as f64 } else { 0.0 },
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
