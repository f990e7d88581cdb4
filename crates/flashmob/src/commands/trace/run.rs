//! `flashmob trace run`: a command and its I/O in every layer.

mod child;

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flashmob_core::planted::{self, Bug};
use flashmob_results::Document;
use flashmob_results::trace::{Layer, Overhead, Role, Source, System, Timeline, Workload};
use flashmob_trace::capture::sqlite::find_sqlite;
use flashmob_trace::capture::{Capture, Event, Scope, Session, Wanted};
use flashmob_trace::surroundings::{NamedFile, Surroundings};
use flashmob_trace::view::{self, RunParts};

use super::outputs::OutputArgs;
use super::surroundings::{self, Below, kernel_number};
use super::text;
use crate::commands::tell::{self, Begun, Form};
use crate::commands::{command_line, size};
use child::{Child, Ended, NotStarted};

/// Run a command and trace its I/O in every layer: system calls, file system, page cache, block layer, driver.
///
/// Traces the command and all of its children through the kernel's own events, without a patched kernel and without
/// stopping them. Work of kernel threads is attributed to the operation that waited for it; the rest is shown as
/// unattributed. An operation is one that the command marks (see below), otherwise each system call on files. Kernel
/// events need root; missing data is listed.
///
/// The command keeps its input and output, and the summary goes to stderr; with '--output json' the result goes to
/// stdout and the command's output to stderr.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo flashmob trace run -- dd if=/dev/zero of=file bs=4k count=100 conv=fsync
  sudo flashmob trace run --html page.html --perfetto insert.pftrace -- sqlite3 a.db 'insert into t values (1)'
  sudo flashmob trace run --file /data/a.db --pairs 5 -- python3 insert.py
        only I/O on one file; also measures the cost of tracing, by running with and without it in turn

Marking operations: the environment variable FLASHMOB_TRACE_MARKER of the command has the path of a file to write lines to,
each with one write: 'B|PID|NAME' begins an operation of this thread, 'E|PID' ends it, as on Android; nested marks are spans.

Devices: those below --file; without it those below the working directory and below arguments that are paths, including
'of=PATH'. '--all-devices' traces all.

Exit status: that of the command; 126 or 127 if it could not be started, 128 plus the signal's number if a signal ended it;
1 if the trace could not be made or written, 2 wrong arguments.")]
pub struct RunArgs {
    /// Trace only I/O on this file. Can be repeated.
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Trace events of every block device, not only of those below the working directory and the given files.
    #[arg(long)]
    all_devices: bool,
    /// Run it this many times untraced and traced in turn, and report the cost of tracing. Shows the last traced run.
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=100))]
    pairs: u32,
    /// Kernel buffer per CPU, such as 16MiB; use more if events are lost.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8MiB")]
    buffer_size: u64,
    /// Do not probe SQLite inside the command.
    #[arg(long)]
    no_sqlite: bool,
    #[command(flatten)]
    outputs: OutputArgs,
    /// Command to run, with its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The result of one traced run.
struct Traced {
    capture: Capture,
    ended: Ended,
    thread: u32,
}

/// Runs the command according to the arguments.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    match all(args) {
        Err(error) => match error.downcast_ref::<NotStarted>() {
            Some(refused) => {
                // If this fails, the exit status still shows the failure.
                let _ = writeln!(std::io::stderr(), "error: {refused}");
                Ok(ExitCode::from(refused.status()))
            }
            None => Err(error),
        },
        outcome => outcome,
    }
}

fn all(args: &RunArgs) -> anyhow::Result<ExitCode> {
    args.outputs.check()?;
    child::hand_on_signals()?;
    let begun = Begun::now();
    let places = places(args);
    let mut costs = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..args.pairs {
        // The memory of the previous capture is freed before the next.
        drop(last.take());
        let untraced = untraced(args)?;
        // A run ended by a signal is not repeated.
        if let Some(signal) = untraced.status.signal() {
            log::warn!("the command was ended by signal {signal} in an untraced run; there is no trace to show");
            return Ok(status(&untraced));
        }
        let traced = traced(args, &places)?;
        costs.0.push(untraced.elapsed);
        costs.1.push(traced.ended.elapsed);
        let is_well = traced.ended.status.success();
        last = Some(traced);
        if !is_well {
            break;
        }
    }
    let traced = match last {
        Some(traced) => traced,
        None => traced(args, &places)?,
    };
    let (run, timeline) = joined(args, &places, &traced, &costs);
    args.outputs.spans(1, &timeline)?;
    let document = Document {
        command: Some(command_line::recorded_before(args.command.len())),
        ..args.outputs.document(vec![run], begun, None)
    };
    args.outputs.files(&document)?;
    match args.outputs.output {
        Form::Json => tell::print(&tell::json(&document)?)?,
        // A closed output does not matter: the files have the results.
        Form::Table => drop(std::io::stderr().write_all(text::summary(&document).as_bytes())),
    }
    Ok(status(&traced.ended))
}

/// The command's exit status, as in shells.
fn status(ended: &Ended) -> ExitCode {
    let code = ended.status.code().or_else(|| ended.status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn untraced(args: &RunArgs) -> anyhow::Result<Ended> {
    Child::hold(&args.command, None, args.outputs.output == Form::Json)?.go()
}

fn traced(args: &RunArgs, places: &[Below]) -> anyhow::Result<Traced> {
    // The marker's path is needed to start the command, and the command's process id to follow it.
    let mut session = Session::open(&wanted(args, places)).context("cannot start the trace")?;
    let child = Child::hold(&args.command, session.marker(), args.outputs.output == Form::Json)?;
    let thread = child.id();
    session.follow(thread).context("cannot trace the command")?;
    session.start().context("cannot start the trace")?;
    let ended = child.go();
    let capture = session.stop();
    Ok(Traced { capture, ended: ended?, thread })
}

/// What lies below all files that are named.
fn places(args: &RunArgs) -> Vec<Below> {
    // Also in arguments such as `of=/mnt/file`.
    let value =
        |argument: &String| PathBuf::from(argument.split_once('=').map_or(argument.as_str(), |(_, value)| value));
    let is_path = |path: &PathBuf| path.components().count() > 1 && path.parent().is_some_and(Path::exists);
    let arguments = args.command.iter().skip(1).map(value).filter(is_path).chain([PathBuf::from(".")]);
    let named: Vec<PathBuf> = if args.file.is_empty() { arguments.collect() } else { args.file.clone() };
    let mut all: Vec<Below> = Vec::new();
    for path in named {
        // A file that does not exist yet will be on its folder's disk.
        let there = path
            .ancestors()
            .map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path })
            .find(|path| path.exists());
        let below = surroundings::below(there.unwrap_or(Path::new(".")));
        if below.device.is_some() && !all.contains(&below) {
            all.push(below);
        }
    }
    all
}

fn wanted(args: &RunArgs, places: &[Below]) -> Wanted {
    let mut seen = BTreeSet::new();
    let mut events: Vec<Event> = Vec::new();
    let all = if args.all_devices {
        flashmob_trace::layers::table().events()
    } else {
        places.iter().flat_map(surroundings::events).collect()
    };
    for event in all {
        if planted::is(Bug::RequestsUntraced) && surroundings::is_of_requests(&event) {
            continue;
        }
        if seen.insert((event.system.clone(), event.name.clone())) {
            events.push(event);
        }
    }
    if places.is_empty() && !args.all_devices {
        events = flashmob_trace::layers::table()
            .events()
            .into_iter()
            .filter(|event| event.scope == Scope::Threads)
            .collect();
    }
    let mut devices: Vec<u32> = places.iter().flat_map(surroundings::devices).collect();
    devices.sort_unstable();
    devices.dedup();
    Wanted {
        events,
        follow_children: true,
        devices: if args.all_devices { Vec::new() } else { devices },
        buffer_bytes: args.buffer_size,
        names: true,
        sqlite: if args.no_sqlite { Vec::new() } else { find_sqlite(Path::new(&args.command[0])) },
        ..Wanted::default()
    }
}

fn joined(
    args: &RunArgs,
    places: &[Below],
    traced: &Traced,
    costs: &(Vec<Duration>, Vec<Duration>),
) -> (flashmob_results::trace::Run, Timeline) {
    let mut thread_names = surroundings::thread_names();
    thread_names.retain(|(id, _)| *id != traced.thread);
    let mut known = Surroundings {
        threads: vec![traced.thread],
        files: args.file.iter().filter_map(|path| named_file(path)).collect(),
        devices: places.iter().filter_map(|below| below.device.clone()).collect(),
        thread_names,
        ..Surroundings::default()
    };
    let mut timeline = flashmob_trace::join::join(&traced.capture, &known);
    let unnamed = unnamed_files(&timeline);
    if !unnamed.is_empty() {
        known.files.extend(unnamed);
        timeline = flashmob_trace::join::join(&traced.capture, &known);
    }
    if !args.file.is_empty() {
        keep(&mut timeline, &args.file);
    }
    let status = traced.ended.status;
    let is_marked = timeline.spans.iter().any(|span| span.layer == Layer::Application);
    let parts = RunParts {
        name: args.command.join(" "),
        workload: Workload::Command { command: args.command.clone(), status: status.code() },
        system: places.first().map_or_else(System::default, |below| below.system.clone()),
        sources: sources(&traced.capture, places, args),
        losses: traced.capture.losses.clone(),
        overhead: Overhead::of_pairs(rates(&costs.0), rates(&costs.1)),
        elapsed_s: traced.ended.elapsed.as_secs_f64(),
        operation: if is_marked { "operation" } else { "system call" }.into(),
        warnings: Vec::new(),
    };
    let chosen = args.outputs.choice(&timeline);
    (view::run(&timeline, parts, &chosen, &[]), timeline)
}

fn sources(capture: &Capture, places: &[Below], args: &RunArgs) -> Vec<Source> {
    let mut sources = capture.sources.clone();
    if places.is_empty() && !args.all_devices {
        sources.push(Source {
            name: "devices".into(),
            layers: vec![Layer::FileSystem, Layer::PageCache, Layer::Block, Layer::Driver],
            is_used: false,
            why: Some("the given files are not on a block device: give --file or --all-devices".into()),
        });
    }
    sources
}

fn named_file(path: &Path) -> Option<NamedFile> {
    let file = std::fs::File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    // The first bytes of SQLite's file format.
    let mut head = [0; 16];
    let is_database = file.read_exact_at(&mut head, 0).is_ok() && head == *b"SQLite format 3\0";
    let role = match (metadata.is_dir(), is_database) {
        (true, _) => Role::Directory,
        (_, true) => Role::Database,
        _ => Role::Other,
    };
    Some(NamedFile {
        path: path.canonicalize().unwrap_or(path.into()).display().to_string(),
        role,
        device: kernel_number(metadata.dev()),
        inode: metadata.ino(),
        from_ns: 0,
        until_ns: u64::MAX,
        extents: surroundings::extents(&file),
    })
}

/// Files that were opened by a path, and whose inodes have no name in the timeline: the events of page faults, as those of mapped files, tell
/// the inode alone.
fn unnamed_files(timeline: &Timeline) -> Vec<NamedFile> {
    let inode = |name: &str| name.strip_prefix("inode ")?.split(' ').next()?.parse::<u64>().ok();
    let unnamed: BTreeSet<u64> = timeline.files.iter().filter_map(|file| inode(&file.name)).collect();
    let paths = timeline.files.iter().map(|file| Path::new(&file.name)).filter(|path| path.is_absolute());
    let is_unnamed =
        |path: &&Path| path.metadata().is_ok_and(|metadata| metadata.is_file() && unnamed.contains(&metadata.ino()));
    paths.filter(is_unnamed).filter_map(named_file).collect()
}

/// Keeps operations that touch one of these files, and spans of those or about the files.
fn keep(timeline: &mut Timeline, wanted: &[PathBuf]) {
    let is_wanted = |name: &str| {
        wanted
            .iter()
            .any(|path| Path::new(name) == path || path.canonicalize().is_ok_and(|real| Path::new(name) == real))
    };
    let files: Vec<bool> = timeline.files.iter().map(|file| is_wanted(&file.name)).collect();
    let about = |file: Option<u32>| file.is_some_and(|file| files.get(file as usize).copied().unwrap_or(false));
    let touched: BTreeSet<u64> =
        timeline.spans.iter().filter(|span| about(span.file)).filter_map(|span| span.operation).collect();
    timeline.operations.retain(|operation| touched.contains(&operation.number));
    timeline.spans.retain(|span| about(span.file) || span.operation.is_some_and(|number| touched.contains(&number)));
}

/// Runs per second.
fn rates(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| 1.0 / time.as_secs_f64().max(1e-9)).collect()
}
