//! Points in rounds: each round measures every point once, so that changes over time affect all points equally.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_bench::net::{NetError, Run, Target, check_congestion, run as run_once};
use flashmob_results::cluster::Setting;
use flashmob_results::event::Event;
use flashmob_results::net::{Interval, Parameters, Path, Point, Repetition};

use super::args::{NetArgs, host_and_port};
use super::record::{self, Subject};
use super::{lines, table};
use crate::commands::cluster::STATUS_VOID;
use crate::commands::tell::{self, Begun, Output, STATUS_INTERRUPTED, Teller};
use crate::lab::status as lab;

/// Interval of attempts to reach a server that is not up yet.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Measures all points in the arguments.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    let (host, port) = host_and_port(args.connect.as_deref().unwrap_or_default(), args.port)?;
    for name in &args.load.congestion {
        check_congestion(name)?;
    }
    args.result.check(None)?;
    let lab = lab::socket();
    let path = lab
        .as_deref()
        .map(|socket| lab::ask(socket, false))
        .transpose()?
        .and_then(|status| path_of(&status.air.profile));
    let points = args.load.points(path.as_ref())?;
    let cancel = tell::on_signal()?;
    let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let target = Target { host, port, bind: args.bind, connect_timeout: args.connect_timeout };
    let mut sweep = Sweep {
        begun: begun.at,
        args,
        target,
        lab: lab.clone(),
        rows: points.into_iter().map(|p| (p, Vec::new())).collect(),
    };
    let mut teller = args.result.teller(table::render);
    teller.begin(sweep.rows.len(), args.repeat, 0);
    let failure = sweep.run(begun.at, &cancel, &mut teller)?;
    let interrupted = cancel.load(Ordering::Relaxed);
    let is_single = sweep.is_single();
    let subject = Subject {
        setting: if lab.is_some() { Setting::Lab } else { Setting::Network },
        server,
        label: args.result.label.clone(),
        repeat: args.repeat,
        omit: args.load.omit,
        begun,
        interrupted,
    };
    sweep.rows.retain(|(_, repetitions)| !repetitions.is_empty());
    let document = record::document(subject, sweep.rows, failure.as_ref());
    args.result.save(&document)?;
    if is_single && args.result.output == Output::Table {
        // The lines have shown everything but the warnings.
        say(&table::doubts(&document));
    } else {
        teller.end(&document)?;
    }
    match failure {
        Some(failure) => Err(failure.into()),
        None => Ok(status(document.net().map_or(&[], |net| &net.points), interrupted)),
    }
}

/// The exit status.
pub fn status(points: &[Point], interrupted: bool) -> ExitCode {
    if interrupted {
        ExitCode::from(STATUS_INTERRUPTED)
    } else if points.iter().any(|p| p.repetitions.iter().all(|r| r.is_void)) {
        ExitCode::from(STATUS_VOID)
    } else {
        ExitCode::SUCCESS
    }
}

/// A line for people; a closed output is ignored.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

struct Sweep<'a> {
    begun: Instant,
    args: &'a NetArgs,
    target: Target,
    lab: Option<PathBuf>,
    rows: Vec<(Parameters, Vec<Repetition>)>,
}

impl Sweep<'_> {
    /// A single run is shown line by line.
    fn is_single(&self) -> bool {
        self.rows.len() == 1 && self.args.repeat == 1 && self.args.replace_void == 0
    }

    /// Measures every point in every round, then again where repetitions are void. An error after the first measurement is
    /// returned with the results.
    fn run(&mut self, begun: Instant, cancel: &AtomicBool, teller: &mut Teller) -> anyhow::Result<Option<NetError>> {
        let tells_lines = self.is_single() && self.args.result.output == Output::Table;
        let mut all = self.args.repeat as usize * self.rows.len();
        let mut done = 0;
        for round in 0..self.args.repeat + self.args.replace_void {
            let turn: Vec<usize> = (0..self.rows.len()).filter(|at| self.is_due(*at, round)).collect();
            all = all.max(done + turn.len());
            for at in turn {
                if cancel.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let begin_s = begun.elapsed().as_secs_f64();
                let parameters = self.rows[at].0.clone();
                let expected_s = self.args.load.expected_s();
                let mut is_headed = false;
                let mut watch = |intervals: &[Interval]| {
                    if tells_lines {
                        if !is_headed {
                            say(&format!("{}\n", lines::heading(&parameters)));
                            is_headed = true;
                        }
                        say(&lines::intervals(intervals, &parameters));
                    }
                    for interval in intervals {
                        teller.tell(&Event::NetInterval { round, interval: Box::new(interval.clone()) });
                    }
                    if let (Some(expected_s), Some(last)) = (expected_s, intervals.last())
                        && !tells_lines
                    {
                        teller.progress((done as f64 + (last.end_s / expected_s).min(1.0)) / all as f64);
                    }
                };
                let run = match self.once(&parameters, cancel, &mut watch) {
                    Ok(run) => run,
                    Err(Failure::Net(NetError::Cancelled)) => {
                        log::info!("stopped{}", if done > 0 { "" } else { "; nothing was measured" });
                        return Ok(None);
                    }
                    // Earlier measurements are kept.
                    Err(Failure::Net(error)) if done > 0 => return Ok(Some(error)),
                    Err(Failure::Net(error)) => return Err(error.into()),
                    Err(Failure::Lab(error)) => return Err(error),
                };
                done += 1;
                let repetition = Repetition { begin_s, ..run.repetition };
                if tells_lines {
                    say(&lines::sums(&repetition, &parameters));
                }
                let (parameters, repetitions) = &mut self.rows[at];
                // The connection has determined the size of a datagram.
                parameters.block_bytes = run.block_bytes;
                teller.tell(&Event::NetRepetition {
                    round,
                    parameters: Box::new(parameters.clone()),
                    repetition: Box::new(repetition.clone()),
                });
                repetitions.push(repetition);
            }
        }
        Ok(None)
    }

    /// Whether the point is measured in this round. The rounds after the repetitions replace void ones.
    fn is_due(&self, at: usize, round: u32) -> bool {
        round < self.args.repeat || record::is_short(&self.rows[at].1, self.args.repeat)
    }

    /// Whether to wait for the server.
    fn may_wait(&self) -> bool {
        self.args.wait.is_some_and(|wait| self.begun.elapsed() < wait)
    }

    fn once(
        &self,
        parameters: &Parameters,
        cancel: &AtomicBool,
        watch: &mut dyn FnMut(&[Interval]),
    ) -> Result<Run, Failure> {
        let ask = |begin| self.lab.as_deref().map(|socket| lab::ask(socket, begin)).transpose();
        ask(true).map_err(Failure::Lab)?;
        let plan = self.args.load.plan(parameters);
        let mut run = loop {
            match run_once(&self.target, &plan, cancel, watch) {
                // If both ends are started at once, either may be up first.
                Err(NetError::Refused { .. }) if self.may_wait() && !cancel.load(Ordering::Relaxed) => {
                    std::thread::sleep(TRY_EVERY);
                }
                outcome => break outcome.map_err(Failure::Net)?,
            }
        };
        if let Some(status) = ask(false).map_err(Failure::Lab)? {
            run.repetition.is_void |= status.is_late;
            run.repetition.lateness = Some(status.lateness);
        }
        Ok(run)
    }
}

/// A failure of a repetition.
enum Failure {
    Net(NetError),
    Lab(anyhow::Error),
}

/// The modelled path, if the lab's air consists of lines.
fn path_of(profile: &str) -> Option<Path> {
    let air = flashmob_lab::air::Profile::parse(profile).ok()?;
    record::path(profile, &air)
}
