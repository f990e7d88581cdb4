//! `flashmob trace sqlite`: P5's workload, and the work of its INSERTs in every layer.

mod measure;
mod progress;
mod told;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use flashmob_sqlite::{JournalMode, Synchronous};
use flashmob_text::{Bytes, MIB};

use super::loop_fs::Kind;
use super::outputs::OutputArgs;
use super::text;
use crate::commands::tell::{self, Begun, Form, STATUS_INTERRUPTED};
use measure::{Measure, Setting};
use progress::Progress;
use worker::{Place, Shared};

/// Default on a loop device: its events show the effect of an elevator.
const SCHEDULER: &str = "mq-deadline";
/// Smaller file systems have no room for a journal.
const LOOP_BYTES_MIN: u64 = 8 * MIB;

/// Trace INSERTs into SQLite, each in its own transaction, in every layer.
///
/// Each INSERT has an integer and a string of 100 bytes. SQLite reports its own work, so the application and SQLite
/// layers need no privileges; the kernel's layers need root. Missing data is listed. The database and all changes to
/// the kernel's tracing are removed at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob trace sqlite /data                                      # on the file system of /data
  sudo flashmob trace sqlite --loop ext4 --perfetto insert.perfetto-trace
  sudo flashmob trace sqlite --loop ext4 --journal DELETE,TRUNCATE,PERSIST,WAL --synchronous OFF,NORMAL,FULL --save ext4.json
  sudo flashmob trace sqlite --loop xfs --save xfs.json && flashmob trace compare ext4.json xfs.json

docs/tracing.md describes the layers and their counts.

Exit status: 0 done, 1 failed, 2 wrong arguments, 130 stopped by Ctrl-C (the result so far is printed and saved).")]
pub struct SqliteArgs {
    /// Folder for the database, which is removed at the end.
    #[arg(value_name = "FOLDER", default_value = ".", conflicts_with = "loop_fs")]
    folder: PathBuf,
    /// INSERTs of each setting.
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    inserts: u64,
    /// Journal modes: DELETE, TRUNCATE, PERSIST, WAL, MEMORY, OFF. Each is measured with each synchronous level.
    #[arg(long, value_name = "MODES", default_value = "DELETE", value_delimiter = ',')]
    journal: Vec<JournalMode>,
    /// Synchronous levels: OFF, NORMAL, FULL, EXTRA.
    #[arg(long, value_name = "LEVELS", default_value = "FULL", value_delimiter = ',')]
    synchronous: Vec<Synchronous>,
    /// Bytes of the string in each INSERT.
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = crate::commands::size_in(0..=1_000_000))]
    string_bytes: u64,
    /// Pairs of traced and untraced runs, to measure the cost of tracing; 0 to skip.
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u64).range(0..=1000))]
    pairs: u64,
    /// Begin with the traced run of the first pair: for programs that run this one in turns.
    #[arg(long, hide = true)]
    traced_first: bool,
    /// Measure on a new file system of this kind on a loop device, removed at the end. Needs root.
    #[arg(long = "loop", value_name = "KIND", value_enum)]
    loop_fs: Option<Kind>,
    /// Size of that file system [default: 256 MiB].
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::size, requires = "loop_fs")]
    loop_size: Option<u64>,
    /// I/O scheduler of the loop device [default: mq-deadline].
    #[arg(long, value_name = "NAME", requires = "loop_fs")]
    scheduler: Option<String>,
    /// Kernel buffer per CPU. A larger one loses fewer events; losses are reported.
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::size)]
    buffer_size: Option<u64>,
    #[command(flatten)]
    outputs: OutputArgs,
}

impl SqliteArgs {
    fn settings(&self) -> Vec<Setting> {
        let levels =
            |&journal_mode| self.synchronous.iter().map(move |&synchronous| Setting { journal_mode, synchronous });
        self.journal.iter().flat_map(levels).collect()
    }

    fn place(&self) -> Place {
        match self.loop_fs {
            Some(kind) => Place::Loop {
                kind,
                size_bytes: self.loop_size.unwrap_or(kind.size_bytes_default()),
                scheduler: Some(self.scheduler.clone().unwrap_or_else(|| SCHEDULER.into())),
            },
            None => Place::Folder(self.folder.clone()),
        }
    }
}

/// Measures according to the arguments.
pub fn run(args: &SqliteArgs) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    let settings = args.settings();
    let loop_bytes = args.loop_size.unwrap_or(LOOP_BYTES_MIN);
    ensure_value!(loop_bytes >= LOOP_BYTES_MIN, "--loop-size {} is too small; give at least 8MiB", Bytes(loop_bytes));
    args.outputs.check()?;
    let shared = Shared { cancel: tell::on_signal()?, ..Shared::default() };
    let progress = Progress::new(settings.len() as u64 * (1 + 2 * args.pairs), args.inserts);
    let measure = Measure {
        place: args.place(),
        inserts: args.inserts,
        string_bytes: args.string_bytes as usize,
        pairs: args.pairs,
        traced_first: args.traced_first,
        buffer_bytes: args.buffer_size.unwrap_or(0),
        outputs: &args.outputs,
        shared: &shared,
        progress: &progress,
    };
    let is_stopped = || shared.cancel.load(Ordering::Relaxed);
    let mut runs = Vec::new();
    progress.shown_while(&shared, || {
        for (number, setting) in (1..).zip(&settings) {
            if is_stopped() {
                break;
            }
            runs.extend(measure.run(number, setting)?);
        }
        anyhow::Ok(())
    })?;
    if runs.is_empty() {
        log::info!("stopped before anything was measured; all files were removed");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    }
    let missing = is_stopped().then_some("stopped early: settings or INSERTs are missing");
    let document = args.outputs.document(runs, begun, missing);
    args.outputs.files(&document)?;
    tell::print(&match args.outputs.output {
        Form::Table => text::summary(&document),
        Form::Json => tell::json(&document)?,
    })?;
    Ok(if is_stopped() { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}
