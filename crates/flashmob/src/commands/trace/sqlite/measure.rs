//! One setting: a traced run that is reported in full, and pairs of runs that measure the cost of tracing.

use std::sync::atomic::Ordering;
use std::thread;

use flashmob_results::trace::{self, Layer, Overhead, Run, Source};
use flashmob_results::warning::{Code, Warning};
use flashmob_sqlite::{JournalMode, Report, Synchronous, Workload};
use flashmob_trace::capture::{Capture, Session, Wanted};
use flashmob_trace::join::join;
use flashmob_trace::view::{self, RunParts};

use super::progress::Progress;
use super::told;
use super::worker::{Place, Ran, Ready, Shared, Worker};
use crate::commands::trace::outputs::OutputArgs;
use crate::commands::trace::surroundings;

/// Neighbouring INSERTs in full: for as long as P5's figures 2 to 4 show, but not thousands where nothing waits for the disk.
const WINDOW: (u64, usize) = (80_000_000, 40);
/// With P5's own settings: for its figure 5, wide enough for dense and sparse phases.
const WIDE: (u64, usize) = (1_000_000_000, 200);

/// The parameters in which settings differ.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub journal_mode: JournalMode,
    pub synchronous: Synchronous,
}

impl Setting {
    fn name(self) -> String {
        format!("{}, {}", self.journal_mode, self.synchronous)
    }
}

/// The parameters common to all settings.
pub struct Measure<'a> {
    pub place: Place,
    pub inserts: u64,
    pub string_bytes: usize,
    pub pairs: u64,
    pub traced_first: bool,
    pub buffer_bytes: u64,
    pub outputs: &'a OutputArgs,
    pub shared: &'a Shared,
    pub progress: &'a Progress,
}

impl Measure<'_> {
    /// Measures one setting, the `number`th from 1, on its own file system if requested; `None` if it was stopped before its first INSERT.
    pub fn run(&self, number: usize, setting: &Setting) -> anyhow::Result<Option<Run>> {
        thread::scope(|scope| {
            let (worker, ready) = Worker::start(scope, self.place.clone(), self.shared)?;
            let (ran, capture) = self.traced(&worker, &ready, setting)?;
            if ran.report.inserts.is_empty() {
                return Ok(None);
            }
            let overhead = self.overhead(&worker, &ready, setting)?;
            // It is done, and its file system is removed with it.
            let system = ready.below.system.clone();
            let sources = sources(&ready, &capture);
            let timeline = join(&capture, &told::surroundings(&ready, &ran));
            self.outputs.spans(number, &timeline)?;
            let parts = RunParts {
                name: setting.name(),
                workload: trace::Workload::Sqlite {
                    version: ran.report.version.clone(),
                    inserts: ran.report.inserts.len() as u64,
                    string_bytes: self.string_bytes as u64,
                    journal_mode: setting.journal_mode.to_string(),
                    synchronous: setting.synchronous.to_string(),
                },
                system,
                sources,
                losses: capture.losses.clone(),
                overhead,
                elapsed_s: elapsed_s(&ran.report),
                operation: told::INSERT.into(),
                warnings: warnings(&ran.report),
            };
            // Beside single INSERTs as many in turn as P5's figures show.
            let is_p5s = setting.journal_mode == JournalMode::Delete && setting.synchronous == Synchronous::Full;
            let (time_ns, most) = if is_p5s { WIDE } else { WINDOW };
            let (chosen, beside) = (self.outputs.choice(&timeline), view::neighbours(&timeline, time_ns, most));
            Ok(Some(view::run(&timeline, parts, &chosen, &beside)))
        })
    }

    fn workload(&self, setting: &Setting, is_watched: bool) -> Workload {
        Workload {
            string_bytes: self.string_bytes,
            journal_mode: setting.journal_mode,
            synchronous: setting.synchronous,
            is_watched,
            // The worker sets the path.
            ..Workload::new("", self.inserts)
        }
    }

    fn wanted(&self, ready: &Ready) -> Wanted {
        Wanted {
            events: surroundings::events(&ready.below),
            threads: vec![ready.thread_id],
            devices: surroundings::devices(&ready.below),
            buffer_bytes: self.buffer_bytes,
            ..Wanted::default()
        }
    }

    /// A run with all tracing, and the kernel's events.
    fn traced(&self, worker: &Worker, ready: &Ready, setting: &Setting) -> anyhow::Result<(Ran, Capture)> {
        let mut session = Some(Session::open(&self.wanted(ready))?);
        let session = std::cell::RefCell::new(&mut session);
        let mut capture = None;
        let begin = || match session.borrow_mut().as_mut() {
            Some(session) => Ok(session.start()?),
            None => Ok(()),
        };
        let ran = worker.run(self.workload(setting, true), begin, || {
            capture = session.borrow_mut().take().map(Session::stop);
        })?;
        self.progress.ran(self.shared);
        Ok((ran, capture.unwrap_or_default()))
    }

    fn untraced(&self, worker: &Worker, setting: &Setting) -> anyhow::Result<Ran> {
        let ran = worker.run(self.workload(setting, false), || Ok(()), || ())?;
        self.progress.ran(self.shared);
        Ok(ran)
    }

    /// Traced against untraced. The order within a pair alternates, against drift; with `traced_first` it begins with the traced one.
    fn overhead(&self, worker: &Worker, ready: &Ready, setting: &Setting) -> anyhow::Result<Option<Overhead>> {
        let (mut untraced, mut traced) = (Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            let one = |is_traced: bool| {
                let report = match is_traced {
                    true => self.traced(worker, ready, setting)?.0.report,
                    false => self.untraced(worker, setting)?.report,
                };
                anyhow::Ok((!report.is_stopped).then(|| report.inserts_per_second()))
            };
            let first_is_traced = (pair % 2 == 1) != self.traced_first;
            let (first, second) = (one(first_is_traced)?, one(!first_is_traced)?);
            let (Some(first), Some(second)) = (first, second) else { break };
            let (with, without) = if first_is_traced { (first, second) } else { (second, first) };
            untraced.push(without);
            traced.push(with);
            if self.shared.cancel.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(Overhead::of_pairs(untraced, traced))
    }
}

/// The sources of the trace: SQLite and the application report for themselves.
fn sources(ready: &Ready, capture: &Capture) -> Vec<Source> {
    let own = |name: &str, layer| Source { name: name.into(), layers: vec![layer], is_used: true, why: None };
    let mut sources = vec![own("application", Layer::Application), own("SQLite", Layer::Sqlite)];
    sources.extend(capture.sources.iter().cloned());
    if ready.below.device.is_none() {
        let filesystem = ready.below.system.filesystem.as_deref().unwrap_or("an unknown file system");
        sources.push(Source {
            name: "block device".into(),
            layers: vec![Layer::FileSystem, Layer::PageCache, Layer::Block, Layer::Driver],
            is_used: false,
            why: Some(format!(
                "the folder lies on {filesystem}, which has no block device; give a folder on a disk, or use --loop"
            )),
        });
    }
    sources
}

fn warnings(report: &Report) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if report.is_stopped {
        let message = format!("stopped after {} INSERTs", report.inserts.len());
        warnings.push(Warning::new(Code::Interrupted, message));
    }
    if report.missed_calls > 0 {
        let message = format!("{} calls of SQLite are missing: out of memory to record them", report.missed_calls);
        warnings.push(Warning::new(Code::Incomplete, message));
    }
    warnings
}

fn elapsed_s(report: &Report) -> f64 {
    match (report.inserts.first(), report.inserts.last()) {
        (Some(first), Some(last)) => last.1.saturating_sub(first.0) as f64 / 1e9,
        _ => 0.0,
    }
}
