//! The simulation of one point.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flashmob_lab::cluster::{self, Acks, Copies, Cost, Measured, Settings, rebuild};
use flashmob_results::cluster::{AirUse, Batches, Packets, Parameters, Repetition};
use flashmob_results::latency::Latency;

use super::super::cluster::Runner;
use super::super::cluster::sweep::mode_of;
use super::super::cluster_args::{PartsArgs, Times};
use super::{CopiesArgs, rebuild as lacking};

/// Virtual time between checks for cancellation.
const STEP: Duration = Duration::from_millis(250);
/// A rebuild is watched for so many times the measured time before it.
const WATCHED_TIMES: u32 = 20;

/// A runner that simulates.
#[derive(Debug)]
pub struct Simulator<'a> {
    parts: &'a PartsArgs,
    copies: CopiesArgs,
    cells: u32,
}

impl<'a> Simulator<'a> {
    pub fn new(parts: &'a PartsArgs, copies: CopiesArgs, cells: u32) -> Simulator<'a> {
        Simulator { parts, copies, cells }
    }

    /// The cluster and its load for one point.
    pub fn settings(&self, point: &Parameters, times: Times, seed: u64) -> Settings {
        Settings {
            nodes: point.nodes,
            loaded_nodes: point.nodes,
            cells: self.cells,
            air: self.parts.air.clone(),
            gateway: self.parts.gateway.into(),
            flash: (!point.no_io).then_some(self.parts.flash),
            order: self.parts.order.into(),
            extent_bytes: self.parts.extent,
            links: u16::try_from(point.links).unwrap_or(u16::MAX),
            batch: mode_of(point.batch),
            block_bytes: point.block_bytes,
            read_percent: point.read_percent,
            outstanding: point.outstanding,
            warmup: times.warmup,
            time: times.time,
            seed,
            gateway_cost: Cost::COMPUTER,
            node_cost: Cost::TABLET,
            copies: self.copies.model.map(|copies| Copies {
                copies,
                home_only: self.copies.home_only,
                scrub: self.copies.scrub,
            }),
            weak: self.copies.weak,
            every_ns: None,
            acks: Acks::Linux,
            rebuild: self.copies.rebuild.map(|lacking| rebuild::Rebuild {
                node: lacking.node,
                differing_ppm: lacking.differing_ppm,
                at_most: times.time * WATCHED_TIMES,
            }),
        }
    }
}

impl Runner for Simulator<'_> {
    fn run(
        &mut self,
        parameters: &Parameters,
        times: Times,
        seed: u64,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Repetition> {
        let settings = self.settings(parameters, times, seed);
        let mut go_on = |fraction: f64| {
            progress(fraction);
            !cancel.load(Ordering::Relaxed)
        };
        if settings.rebuild.is_some() {
            let load = parameters.air_load_percent.map(|percent| percent / 100.0);
            let rebuilt = rebuild::run(&settings, load, &mut go_on)?;
            let repetition = repetition(&rebuilt.during, parameters, cancel.load(Ordering::Relaxed));
            let result = Some(Box::new(lacking::result(&rebuilt)));
            return Ok(Repetition { hedged: Some(rebuilt.during.hedged_reads), rebuild: result, ..repetition });
        }
        let measured = cluster::run_watched(&settings, STEP, &mut go_on)?;
        let repetition = repetition(&measured, parameters, cancel.load(Ordering::Relaxed));
        let hedged = settings.copies.map(|_| measured.hedged_reads);
        Ok(Repetition { hedged, ..repetition })
    }
}

fn repetition(measured: &Measured, parameters: &Parameters, is_void: bool) -> Repetition {
    let elapsed_s = measured.elapsed.as_secs_f64();
    let (p, air) = (measured.packets, measured.air);
    Repetition {
        begin_s: 0.0,
        elapsed_s,
        requests: measured.requests,
        bytes: measured.requests * u64::from(parameters.block_bytes),
        errors: measured.errors,
        requests_per_second: if elapsed_s > 0.0 { measured.requests as f64 / elapsed_s } else { 0.0 },
        latency_ns: Latency::new(&measured.latency_ns),
        batches: Batches { sent: measured.batches, pieces: measured.pieces, replies: measured.replies },
        packets: Some(Packets {
            sent: p.sent,
            received: p.received,
            data_sent: p.data_sent,
            data_received: p.data_received,
            bytes_sent: p.bytes_sent,
            bytes_received: p.bytes_received,
            retransmitted: p.retransmitted,
        }),
        air: Some(AirUse {
            transmissions: air.transmissions,
            frames: air.frames,
            frame_bytes: air.frame_bytes,
            collisions: air.collisions,
            retries: air.retries,
            dropped: air.dropped,
            busy_fraction: measured.air_busy_fraction,
        }),
        flash_busy_fraction: measured.flash_busy_fraction,
        gateway_cpu_s: measured.gateway_busy.as_secs_f64(),
        hedged: None,
        rebuild: None,
        lateness: None,
        is_void,
    }
}
