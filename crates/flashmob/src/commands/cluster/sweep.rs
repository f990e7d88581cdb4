//! The points of a measurement, their order, and their runner.
//!
//! Each round measures every point once, so that changes over time affect all points equally.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flashmob_core::gateway::BatchMode;
use flashmob_results::cluster::{Batch, Order, Parameters, Repetition};

use super::super::cluster_args::{LoadArgs, Times};

/// Measures one point once.
pub trait Runner {
    /// Runs with these parameters for these times, with this random seed.
    ///
    /// `cancel` ends it early: then the repetition has the measurements so far, and is void. `progress` is called periodically
    /// with the completed fraction, from 0 to 1. The caller fills in the repetition's `begin_s`.
    ///
    /// # Errors
    /// It cannot be measured; the error names a remedy. Failed requests are counted, and are no error.
    fn run(
        &mut self,
        parameters: &Parameters,
        times: Times,
        seed: u64,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Repetition>;
}

/// The measurement to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The points, in the order in which they are measured.
    pub points: Vec<Parameters>,
    /// Repetitions of each.
    pub repeat: u32,
    /// Times of each repetition.
    pub times: Times,
    /// Random seed; each round has its own, equal for all of its points.
    pub seed: u64,
}

/// Events during the measurement.
#[derive(Debug)]
pub enum Told<'a> {
    /// The completed fraction, from 0 to 1.
    Progress(f64),
    /// One repetition is over.
    Repetition {
        /// Its point.
        parameters: &'a Parameters,
        /// Which round, from 0.
        round: u32,
        /// Its result.
        repetition: &'a Repetition,
    },
}

/// The results.
#[derive(Debug)]
pub struct Swept {
    /// The points that have at least one repetition.
    pub points: Vec<(Parameters, Vec<Repetition>)>,
    /// It was interrupted.
    pub interrupted: bool,
    /// The error that ended it.
    pub failure: Option<anyhow::Error>,
}

impl Sweep {
    /// All combinations: nodes change slowest, then links, batch, block size and the share of reads.
    #[must_use]
    pub fn new(load: &LoadArgs, nodes: &[u32], no_io: bool, seed: u64) -> Sweep {
        let mut points = Vec::new();
        for &nodes in nodes {
            for &links in &load.links {
                for &mode in &load.batch {
                    for &block_bytes in &load.block_size {
                        points.extend(load.read_percent.iter().map(|&read_percent| Parameters {
                            nodes,
                            links: u32::from(links),
                            batch: batch_of(mode),
                            block_bytes,
                            read_percent,
                            outstanding: load.outstanding_for(nodes, links, mode),
                            no_io,
                            order: None,
                            air_load_percent: None,
                        }));
                    }
                }
            }
        }
        Sweep { points, repeat: load.repeat, times: load.times(), seed }
    }

    /// States the order in which the nodes read and write, if they do.
    pub fn set_order(&mut self, order: Order) {
        for point in self.points.iter_mut().filter(|point| !point.no_io) {
            point.order = Some(order);
        }
    }
}

/// In the format of results.
#[must_use]
pub fn batch_of(mode: BatchMode) -> Batch {
    match mode {
        BatchMode::Auto => Batch::Auto,
        BatchMode::Fixed(k) => Batch::Fixed(k),
    }
}

/// In the format of the gateway's configuration.
#[must_use]
pub fn mode_of(batch: Batch) -> BatchMode {
    match batch {
        Batch::Auto => BatchMode::Auto,
        Batch::Fixed(k) => BatchMode::Fixed(k),
    }
}

/// Measures all points, round after round. `begun` is the start of the whole measurement.
///
/// # Errors
/// The runner failed before anything was measured; later failures are in the result, with the earlier measurements.
pub fn run_sweep(
    runner: &mut dyn Runner,
    sweep: &Sweep,
    begun: Instant,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(Told<'_>),
) -> anyhow::Result<Swept> {
    let mut rows: Vec<(Parameters, Vec<Repetition>)> = sweep.points.iter().map(|p| (p.clone(), Vec::new())).collect();
    let all = f64::from(sweep.repeat) * rows.len() as f64;
    let (mut done, mut failure) = (0.0, None);
    'rounds: for round in 0..sweep.repeat {
        for (parameters, repetitions) in &mut rows {
            if cancel.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let begin_s = begun.elapsed().as_secs_f64();
            let seed = sweep.seed.wrapping_add(u64::from(round));
            let mut progress = |fraction: f64| tell(Told::Progress((done + fraction.clamp(0.0, 1.0)) / all));
            let repetition = match runner.run(parameters, sweep.times, seed, cancel, &mut progress) {
                Ok(repetition) => Repetition { begin_s, ..repetition },
                // Earlier measurements are kept.
                Err(error) if done > 0.0 => {
                    failure = Some(error);
                    break 'rounds;
                }
                Err(error) => return Err(error),
            };
            if cancel.load(Ordering::Relaxed) && repetition.requests == 0 {
                break 'rounds;
            }
            done += 1.0;
            tell(Told::Repetition { parameters, round, repetition: &repetition });
            tell(Told::Progress(done / all));
            repetitions.push(repetition);
        }
    }
    rows.retain(|(_, repetitions)| !repetitions.is_empty());
    Ok(Swept { points: rows, interrupted: cancel.load(Ordering::Relaxed), failure })
}
