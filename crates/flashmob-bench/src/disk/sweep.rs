//! The measurement of all points, round after round.
//!
//! Each round measures every point once, so that changes over time (temperature, other programs, wear) affect all points equally.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_results::commands::Gatherer;
use flashmob_results::disk::{Parameters, Point, Repetition};
use flashmob_results::latency::Latency;
use flashmob_results::warning::{Code, Warning};

use super::error::DiskError;
use super::offsets::Order;
use super::subject::{FileSubject, ModelSubject, Opened};
use super::{commands, crew, doubts, page_cache, plan, schedulers};
use crate::load::random::{GOLDEN, mix64};
use flashmob_host::place;
use flashmob_host::scheduler::SchedulerGuard;
use flashmob_host::watch::Watch;

/// Interval of checks for throttling.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// A measurement plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The points.
    pub points: Vec<Parameters>,
    /// Repetitions of each point.
    pub repeat: u32,
    /// Random seed of the offsets.
    pub seed: u64,
    /// Record the commands that the device receives.
    pub commands: bool,
}

/// The subject of a measurement.
#[derive(Debug)]
pub enum Subject {
    /// A file, on this machine's disk.
    File(FileSubject),
    /// A model of a device: no disk is touched.
    Model(ModelSubject),
}

impl Subject {
    /// Size of the file, or of the modelled one.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Subject::File(file) => file.size_bytes,
            Subject::Model(model) => model.size_bytes,
        }
    }
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Swept {
    /// The points with at least one repetition.
    pub points: Vec<Point>,
    /// Doubts about all of them.
    pub warnings: Vec<Warning>,
    /// It was interrupted.
    pub interrupted: bool,
    /// The error that ended it, or prevented restoring a change.
    pub failure: Option<DiskError>,
}

/// Events during a measurement.
#[derive(Debug)]
pub enum Event<'a> {
    /// Progress.
    Progress {
        /// From 0 to 1.
        fraction: f64,
    },
    /// A repetition has ended.
    Repetition {
        /// Its point.
        parameters: &'a Parameters,
        /// Which round, from 0.
        round: u32,
        /// Its result.
        repetition: &'a Repetition,
    },
}

/// Measures all points of `plan`. `begun` is the beginning of the whole measurement; `cancel` ends it early, with the results so far.
///
/// # Errors
/// The file, a ring or a thread is not available, and nothing was measured yet; later failures are in the result, with the earlier
/// measurements. Fallbacks are warnings in the result.
pub fn run(
    subject: &Subject,
    plan: &Plan,
    begun: Instant,
    cancel: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Swept, DiskError> {
    let mut sweep = Sweep::new(subject, plan, begun);
    let mut rows: Vec<Row> = sweep.points.iter().map(|_| Row::default()).collect();
    let all = f64::from(plan.repeat) * sweep.points.len() as f64;
    let mut done = 0.0;
    let mut failure = None;
    'rounds: for round in 0..plan.repeat {
        for (at, row) in rows.iter_mut().enumerate() {
            if cancel.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let parameters = sweep.points[at].clone();
            let mut tick = |fraction: f64| observe(Event::Progress { fraction: (done + fraction) / all });
            let repetition = match sweep.repetition(&parameters, round, cancel, &mut tick, row) {
                Ok(Some(repetition)) => repetition,
                Ok(None) => break 'rounds,
                // Earlier measurements are kept.
                Err(error) if done > 0.0 => {
                    failure = Some(error);
                    break 'rounds;
                }
                Err(error) => return Err(error),
            };
            done += 1.0;
            observe(Event::Repetition { parameters: &parameters, round, repetition: &repetition });
            observe(Event::Progress { fraction: done / all });
            row.repetitions.push(repetition);
        }
    }
    Ok(sweep.finish(rows, cancel.load(Ordering::Relaxed), failure))
}

/// The measurements of one point.
#[derive(Default)]
struct Row {
    repetitions: Vec<Repetition>,
    doubts: Vec<Warning>,
    commands: Option<Box<Gatherer>>,
}

struct Sweep<'a> {
    subject: &'a Subject,
    points: Vec<Parameters>,
    seed: u64,
    begun: Instant,
    scheduler: Option<SchedulerGuard>,
    commands: Option<commands::Source>,
    warnings: Vec<Warning>,
}

impl<'a> Sweep<'a> {
    fn new(subject: &'a Subject, plan: &Plan, begun: Instant) -> Sweep<'a> {
        let mut sweep = Sweep {
            subject,
            points: plan.points.clone(),
            seed: plan.seed,
            begun,
            scheduler: None,
            commands: None,
            warnings: Vec::new(),
        };
        if plan.commands {
            match commands::Source::of(subject) {
                Ok(source) => sweep.commands = Some(source),
                Err(why) => sweep.without_commands(&why),
            }
        }
        let refused = schedulers::refused(subject, &sweep.points);
        sweep.warnings.extend(schedulers::go_on_without(&refused, subject, &mut sweep.points));
        sweep
    }

    /// Sets the scheduler of a point, unless it is set already. The original one is restored first, so that it is the one restored at the
    /// end.
    fn set_scheduler(&mut self, name: &str) -> Result<(), DiskError> {
        let Subject::File(file) = self.subject else { return Ok(()) };
        if self.scheduler.as_ref().is_some_and(|guard| guard.current() == name) {
            return Ok(());
        }
        if let Some(guard) = self.scheduler.take() {
            guard.restore()?;
        }
        let guard = SchedulerGuard::set(file.disk.as_ref(), name)?;
        if let Some(warning) = guard.warning() {
            self.warn_once(warning.clone());
        }
        self.scheduler = Some(guard);
        Ok(())
    }

    /// One repetition; `None` if it was cancelled before its first answer.
    fn repetition(
        &mut self,
        parameters: &Parameters,
        round: u32,
        cancel: &AtomicBool,
        tick: &mut dyn FnMut(f64),
        row: &mut Row,
    ) -> Result<Option<Repetition>, DiskError> {
        let order = Order {
            pattern: parameters.pattern,
            block_bytes: parameters.block_bytes,
            range: plan::range(parameters),
            threads: parameters.threads,
            requests: parameters.requests,
            // The same for all points of a round, which differ only in their parameters.
            seed: mix64(self.seed.wrapping_add(GOLDEN.wrapping_mul(u64::from(round) + 1))),
        };
        if let Some(name) = &parameters.scheduler {
            self.set_scheduler(name)?;
        }
        let opened = match self.subject {
            Subject::File(file) => Opened::File(file.open(parameters)?),
            Subject::Model(model) => Opened::Model(model.disk(parameters.scheduler.as_deref())),
        };
        for warning in page_cache::prepare(self.subject, &opened, parameters)? {
            self.warn_once(warning);
        }
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let cached_before_bytes = page_cache::cached_bytes(&opened, &order.range);
        let disk = match self.subject {
            Subject::File(file) => file.disk.clone().filter(|_| place::is_accounted(file.place.filesystem.as_deref())),
            Subject::Model(_) => None,
        };
        let begin_s = self.begun.elapsed().as_secs_f64();
        let mut watch = Watch::begin(&disk);
        let mut looked = Instant::now();
        let mut tick = |fraction: f64| {
            tick(fraction);
            if looked.elapsed() >= LOOKS_EVERY {
                watch.sample();
                looked = Instant::now();
            }
        };
        let watching = self.watch_commands(&opened, &mut row.commands);
        let tally = crew::run(&opened, parameters, &order, plan::stop(parameters), cancel, &mut tick);
        let observed = watch.end();
        if let Some(watching) = watching {
            let (commands, warning) = watching.end(&opened);
            row.commands = commands;
            row.doubts.extend(warning);
        }
        let tally = tally?;
        let interrupted = cancel.load(Ordering::Relaxed);
        let latencies = tally.latencies();
        let requests = latencies.len();
        if interrupted && requests == 0 {
            return Ok(None);
        }
        let elapsed_s = tally.ended_ns.saturating_sub(tally.begun_ns) as f64 / 1e9;
        let per_second = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        match &opened {
            Opened::Model(disk) => row.doubts.extend(doubts::of_lateness(disk, &latencies)),
            Opened::File(_) => row.doubts.extend(observed.warnings()),
        }
        Ok(Some(Repetition {
            begin_s,
            elapsed_s,
            requests,
            bytes: tally.bytes,
            errors: tally.errors,
            first_error: tally.first_error,
            requests_per_second: per_second(requests),
            bytes_per_second: per_second(tally.bytes),
            latency_ns: Latency::new(&latencies),
            cpu_user_s: observed.cpu_user.as_secs_f64(),
            cpu_system_s: observed.cpu_system.as_secs_f64(),
            cached_before_bytes,
            cached_after_bytes: page_cache::cached_bytes(&opened, &order.range),
            fetched_bytes: if disk.is_some() { observed.fetched_bytes } else { None },
            foreign_bytes: observed.foreign_bytes,
            upward_fraction: match &opened {
                Opened::Model(disk) => Some(disk.upward_fraction()),
                Opened::File(_) => None,
            },
            interrupted,
        }))
    }

    /// Begins to record the device's commands, if that is wanted and possible.
    fn watch_commands(
        &mut self,
        opened: &Opened<'_>,
        gathered: &mut Option<Box<Gatherer>>,
    ) -> Option<commands::Watching> {
        match self.commands.as_ref()?.begin(opened, gathered.take().unwrap_or_default()) {
            Ok(watching) => Some(watching),
            Err(why) => {
                // If it fails once, it is not tried again.
                self.commands = None;
                self.without_commands(&why);
                None
            }
        }
    }

    fn without_commands(&mut self, why: &str) {
        let text = format!("the device's commands are not shown: {why}");
        self.warnings.push(Warning::new(Code::Incomplete, text));
    }

    fn warn_once(&mut self, warning: Warning) {
        if !self.warnings.iter().any(|w| w.code == warning.code) {
            self.warnings.push(warning);
        }
    }

    fn finish(mut self, rows: Vec<Row>, interrupted: bool, mut failure: Option<DiskError>) -> Swept {
        if let Some(Err(error)) = self.scheduler.take().map(SchedulerGuard::restore) {
            failure = failure.or(Some(error.into()));
        }
        if let Some(error) = &failure {
            self.warn_once(Warning::new(Code::Interrupted, format!("ended by an error: {error}")));
        }
        let measured = self.points.into_iter().zip(rows).filter(|(_, row)| !row.repetitions.is_empty());
        let points = measured
            .map(|(parameters, row)| {
                let mut point = Point::new(parameters, row.repetitions);
                point.warnings = doubts::of_point(&point);
                point.warnings.extend(doubts::once_each(row.doubts));
                point.commands = row.commands.and_then(|gathered| gathered.commands());
                point
            })
            .collect();
        Swept { points, warnings: self.warnings, interrupted: interrupted || failure.is_some(), failure }
    }
}
