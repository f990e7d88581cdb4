//! Output during and after a measurement: a progress line and a table for people, JSON for programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::ValueEnum;
use flashmob_bench::bench_file;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
pub use flashmob_node::form::Form;
use flashmob_results::device::Device;
use flashmob_results::event::Event;
use flashmob_results::warning::Warning;
use flashmob_results::{Document, FORMAT, FORMAT_VERSION, Measurement, clock};
pub use flashmob_text::harmless;
use serde::Serialize;

use super::cluster::sweep::Told;
use super::whole_file;

/// Requests failed.
pub const STATUS_ERRORS: u8 = 3;
/// Stopped by a signal before its end.
pub const STATUS_INTERRUPTED: u8 = 130;

/// A signal within this time of the first is taken for the same one: a job's end signals all of its processes, and 'flashmob lab' forwards
/// its signals as well. A user's second signal comes later.
const SAME_SIGNAL: Duration = Duration::from_millis(250);
/// Interval of progress events for programs.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Warnings: those of the whole result, and those of points, each kind once, with the number of points.
pub fn doubts<'a>(whole: &[Warning], points: impl Iterator<Item = &'a Warning>) -> String {
    let mut text: String = whole.iter().map(|warning| format!("  note: {}\n", harmless(&warning.message))).collect();
    let mut seen: Vec<(&Warning, usize)> = Vec::new();
    for warning in points {
        match seen.iter_mut().find(|(other, _)| other.code == warning.code) {
            Some((_, count)) => *count += 1,
            None => seen.push((warning, 1)),
        }
    }
    for (warning, count) in seen {
        let more = if count > 1 { format!(" (and {} more rows)", count - 1) } else { String::new() };
        text.push_str(&format!("  ! {}{more}\n", harmless(&warning.message)));
    }
    text
}

/// A table with a row for each of `points`: the columns' titles, then each column's text. The first `words` columns are flush left.
pub fn table<P>(points: &[P], columns: &[(&'static str, impl Fn(&P) -> String)], words: usize) -> String {
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|(title, _)| (*title).to_string()).collect()];
    rows.extend(points.iter().map(|point| columns.iter().map(|(_, text)| text(point)).collect()));
    flashmob_text::aligned(&rows, words, "  ", 80)
}

/// The forms of a result that takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    Table,
    /// The result.
    Json,
    /// A JSON line per event.
    Ndjson,
}

/// Reports events in the chosen format. After its reader closes the output, it stays silent.
pub struct Teller {
    output: Output,
    /// Renders the table.
    render: fn(&Document) -> String,
    line: Option<ProgressLine>,
    begun: Instant,
    told: Option<Instant>,
    /// Why the output ended.
    gone: Option<io::Error>,
}

impl Teller {
    pub fn new(output: Output, render: fn(&Document) -> String) -> Teller {
        Teller { output, render, line: None, begun: Instant::now(), told: None, gone: None }
    }

    /// Progress of making the file.
    pub fn making(&mut self, done_bytes: u64, size_bytes: u64) {
        let line = self.line.get_or_insert_with(|| ProgressLine::new("creating the file"));
        line.show(&Progress { done: done_bytes, total: size_bytes, unit: Unit::Bytes });
        if self.is_time() {
            self.tell(&Event::Making { done_bytes, size_bytes });
        }
    }

    /// The measurement of this many points begins.
    pub fn begin(&mut self, points: usize, repeat: u32, seed: u64) {
        self.line = Some(ProgressLine::new("measuring"));
        self.begun = Instant::now();
        self.told = None;
        self.tell(&Event::Begin {
            format_version: FORMAT_VERSION,
            program_version: env!("CARGO_PKG_VERSION").into(),
            points: points as u64,
            repeat,
            seed,
        });
    }

    /// The completed fraction of everything, from 0 to 1.
    pub fn progress(&mut self, fraction: f64) {
        let done = (fraction * 1000.0) as u64;
        if let Some(line) = &mut self.line {
            line.show(&Progress { done, total: 1000, unit: Unit::Parts });
        }
        if self.is_time() {
            let elapsed_s = self.begun.elapsed().as_secs_f64();
            let left_s = (fraction > 0.0).then(|| elapsed_s * (1.0 - fraction) / fraction);
            self.tell(&Event::Progress { fraction, elapsed_s, left_s });
        }
    }

    /// An event of a cluster's measurement.
    pub fn cluster(&mut self, told: Told<'_>) {
        match told {
            Told::Progress(fraction) => self.progress(fraction),
            Told::Repetition { parameters, round, repetition } => self.tell(&Event::ClusterRepetition {
                round,
                parameters: Box::new(parameters.clone()),
                repetition: Box::new(repetition.clone()),
            }),
        }
    }

    /// The measurement is over.
    pub fn end(&mut self, document: &Document) -> anyhow::Result<()> {
        self.line = None;
        let text = match self.output {
            Output::Table => (self.render)(document),
            Output::Json => json(document)?,
            Output::Ndjson => {
                self.tell(&Event::End { result: Box::new(document.clone()) });
                return said(self.gone.take().map_or(Ok(()), Err));
            }
        };
        print(&text)
    }

    fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let due = self.output == Output::Ndjson && self.told.is_none_or(|told| now - told >= TOLD_AFTER);
        if due {
            self.told = Some(now);
        }
        due
    }

    /// An event for programs, if they asked for events.
    pub fn tell(&mut self, event: &Event) {
        if self.output != Output::Ndjson || self.gone.is_some() {
            return;
        }
        // Serializing these types cannot fail.
        let mut line = serde_json::to_string(event).unwrap_or_default();
        line.push('\n');
        let mut out = io::stdout();
        self.gone = out.write_all(line.as_bytes()).and_then(|()| out.flush()).err();
    }
}

/// Writes `text` to standard output. A closed pipe is not an error; a full disk is.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    said(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn said(outcome: io::Result<()>) -> anyhow::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("cannot write the result to stdout"),
    }
}

/// `value` as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// The start of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    pub at: Instant,
    started: SystemTime,
}

impl Begun {
    pub fn now() -> Begun {
        Begun { at: Instant::now(), started: SystemTime::now() }
    }

    /// The document of a measurement on `device` that ends now. It has no label and no preset, seed 0, and is not interrupted.
    pub fn document(self, device: Device, measurement: Measurement, warnings: Vec<Warning>) -> Document {
        let started_unix_s = clock::unix_s(self.started);
        Document {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            program_version: env!("CARGO_PKG_VERSION").into(),
            started_unix_s,
            elapsed_s: self.at.elapsed().as_secs_f64(),
            interrupted: false,
            label: None,
            command: Some(super::command_line::recorded()),
            device,
            preset: None,
            scale: 1.0,
            seed: 0,
            measurement,
            warnings: clock::with_doubt(started_unix_s, warnings),
        }
    }
}

/// Fails before the measurement if the file cannot be written.
pub fn check_writable(path: &Path, measured: Option<&Path>) -> anyhow::Result<()> {
    let refused = || format!("cannot save the result as {}", path.display());
    anyhow::ensure!(!path.is_dir(), "{}: it is a folder; give a file in it", refused());
    if let Some(measured) = measured {
        // Neither file needs to exist.
        let real = |path: &Path| {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            path.canonicalize().or_else(|_| Ok(folder.canonicalize()?.join(path.file_name().unwrap_or_default())))
        };
        let same = |a: io::Result<PathBuf>, b: io::Result<PathBuf>| a.is_ok_and(|a| b.is_ok_and(|b| a == b));
        anyhow::ensure!(
            !same(real(path), real(measured)),
            "{}: it is the file to measure; give another one",
            refused()
        );
    }
    if whole_file::is_special(path) {
        return rustix::fs::access(path, rustix::fs::Access::WRITE_OK).with_context(refused);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).with_context(refused)
}

/// Writes the result; the file is never partial.
pub fn save(document: &Document, path: &Path) -> anyhow::Result<()> {
    whole_file::write(path, &json(document)?).with_context(|| format!("cannot save the result as {}", path.display()))
}

/// Sets a flag on SIGINT, SIGTERM and, unless it is ignored as under `nohup`, SIGHUP: closing a terminal should not lose the
/// results so far. On a second signal it exits at once, without partial files.
///
/// Returns the flag.
pub fn on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    if !is_ignored(SIGHUP, &std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        signals.add_signal(SIGHUP)?;
    }
    let flag = Arc::new(AtomicBool::new(false));
    let cancel = Arc::clone(&flag);
    let listen = move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    cancel.store(true, Ordering::Relaxed);
                    log::info!("stopping: completing requests in progress; signal again to stop at once");
                }
                Some(at) if at.elapsed() < SAME_SIGNAL => {}
                Some(_) => {
                    bench_file::abandon();
                    std::process::exit(STATUS_INTERRUPTED.into());
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".to_string()).stack_size(128 * 1024).spawn(listen)?;
    Ok(flag)
}

/// From the text of `/proc/self/status`.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n";
        assert!(is_ignored(1, status) && is_ignored(13, status) && !is_ignored(2, status) && !is_ignored(15, status));
        assert!(!is_ignored(1, "") && !is_ignored(1, "SigIgn:\tx"));
    }

    #[test]
    fn a_result_never_takes_the_place_of_what_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("bench"), folder.path().join("link"));
        let message = |path: &Path, measured: &Path| check_writable(path, Some(measured)).unwrap_err().to_string();
        assert!(message(&file, &file).contains("it is the file to measure"), "before it is made");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(message(&link, &file).contains("give another one"));
        assert!(
            message(&folder.path().join("../").join(folder.path().file_name().unwrap()).join("bench"), &link)
                .contains("to measure")
        );
        check_writable(&folder.path().join("result.json"), Some(&file)).unwrap();
        check_writable(&folder.path().join("result.json"), None).unwrap();
    }
}
