//! The thread that runs the INSERTs, on its own file system if requested.
//!
//! It is controlled step by step, so that only INSERTs are traced, without the creation and the end of the database.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use anyhow::Context;
use flashmob_sqlite::{Prepared, Report, Workload};
use flashmob_trace::surroundings::Extent;

use crate::commands::trace::loop_fs::{Kind, LoopFs};
use crate::commands::trace::surroundings::{self, Below};

/// The database's name, which shows its origin.
const DATABASE: &str = "flashmob-trace.db";
/// The thread's name while it runs INSERTs, for observers such as strace.
const NAME_INSERTING: &std::ffi::CStr = c"inserts";
/// Its name otherwise.
const NAME: &std::ffi::CStr = c"sqlite";

/// The place of the database.
#[derive(Clone, Debug)]
pub enum Place {
    /// In this folder.
    Folder(PathBuf),
    /// On a fresh file system, with this scheduler.
    Loop { kind: Kind, size_bytes: u64, scheduler: Option<String> },
}

/// State shared by all threads during a run.
#[derive(Debug, Default)]
pub struct Shared {
    /// Request to stop.
    pub cancel: std::sync::Arc<AtomicBool>,
    /// Completed INSERTs of this run.
    pub done: AtomicU64,
}

/// The worker is ready.
pub struct Ready {
    pub thread_id: u32,
    pub below: Below,
}

/// The result of a run.
pub struct Ran {
    pub report: Report,
    /// Locations of files, by device, inode and path, of those that exist at the end.
    pub lying: Vec<Lying>,
}

/// The location of a file.
pub struct Lying {
    pub path: String,
    pub device: u64,
    pub inode: u64,
    pub is_folder: bool,
    pub extents: Vec<Extent>,
}

enum Asked {
    /// Create a database.
    Prepare(Box<Workload>),
    /// Do the next step.
    Next,
}

enum Told {
    Ready(Box<Ready>),
    /// A step is done.
    Done,
    Ran(Box<Ran>),
    Failed(anyhow::Error),
}

/// A handle to a worker. Dropping it ends the worker, and removes its file system.
pub struct Worker {
    asks: SyncSender<Asked>,
    told: Receiver<Told>,
}

impl Worker {
    /// Starts a worker; it is ready when this returns.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        place: Place,
        shared: &'scope Shared,
    ) -> anyhow::Result<(Worker, Ready)> {
        let (asks, asked) = sync_channel(1);
        let (tells, told) = sync_channel(1);
        let work = move || {
            if let Err(error) = work(&place, shared, &asked, &tells) {
                // A receiver that has ended has reported its own error.
                let _ = tells.send(Told::Failed(error));
            }
        };
        thread::Builder::new().name("sqlite".into()).spawn_scoped(scope, work).context("cannot start a thread")?;
        let worker = Worker { asks, told };
        match worker.hear()? {
            Told::Ready(ready) => Ok((worker, *ready)),
            _ => Err(gone()),
        }
    }

    /// Runs this workload. `before` and `after` are called right before and after its INSERTs, while the worker is idle.
    pub fn run(
        &self,
        workload: Workload,
        before: impl FnOnce() -> anyhow::Result<()>,
        after: impl FnOnce(),
    ) -> anyhow::Result<Ran> {
        self.ask(Asked::Prepare(Box::new(workload)))?;
        self.hear()?;
        before()?;
        self.ask(Asked::Next)?;
        let heard = self.hear();
        after();
        heard?;
        self.ask(Asked::Next)?;
        match self.hear()? {
            Told::Ran(ran) => Ok(*ran),
            _ => Err(gone()),
        }
    }

    fn ask(&self, what: Asked) -> anyhow::Result<()> {
        self.asks.send(what).map_err(|_| gone())
    }

    fn hear(&self) -> anyhow::Result<Told> {
        match self.told.recv() {
            Ok(Told::Failed(error)) => Err(error),
            Ok(told) => Ok(told),
            Err(_) => Err(gone()),
        }
    }
}

fn gone() -> anyhow::Error {
    anyhow::anyhow!("the INSERT thread ended unexpectedly")
}

/// Runs until the handle is dropped.
fn work(place: &Place, shared: &Shared, asked: &Receiver<Asked>, tells: &SyncSender<Told>) -> anyhow::Result<()> {
    let made;
    let folder = match place {
        Place::Folder(folder) => folder.as_path(),
        Place::Loop { kind, size_bytes, scheduler } => {
            made = LoopFs::make(*kind, *size_bytes, scheduler.as_deref())?;
            made.folder()
        }
    };
    anyhow::ensure!(folder.is_dir(), "{} is not a folder; give a folder for the database", folder.display());
    let below = surroundings::below(folder);
    let thread_id = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let tell = |told: Told| tells.send(told).map_err(|_| gone());
    tell(Told::Ready(Box::new(Ready { thread_id, below })))?;
    while let Ok(Asked::Prepare(mut workload)) = asked.recv() {
        workload.path = folder.join(DATABASE);
        shared.done.store(0, Ordering::Relaxed);
        let mut prepared = Prepared::new(&workload)?;
        tell(Told::Done)?;
        // A dropped handle discards the database.
        if asked.recv().is_err() {
            break;
        }
        set_name(NAME_INSERTING);
        let outcome = prepared.insert(&shared.cancel, &mut |done| shared.done.store(done, Ordering::Relaxed));
        set_name(NAME);
        outcome?;
        tell(Told::Done)?;
        if asked.recv().is_err() {
            break;
        }
        let lying = lying(&workload.path);
        let report = prepared.finish()?;
        tell(Told::Ran(Box::new(Ran { report, lying })))?;
    }
    Ok(())
}

fn set_name(name: &std::ffi::CStr) {
    // The name is only informational.
    let _ = rustix::thread::set_name(name);
}

/// Locations of the database, the files beside it and their folder.
fn lying(database: &Path) -> Vec<Lying> {
    let beside = ["", "-journal", "-wal"].map(|end| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    });
    let folder = database.parent().map(Path::to_path_buf);
    let of = |path: PathBuf| {
        let file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        Some(Lying {
            // SQLite reports absolute paths.
            path: path.canonicalize().unwrap_or(path).to_string_lossy().into_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            is_folder: metadata.is_dir(),
            extents: surroundings::extents(&file),
        })
    };
    beside.into_iter().chain(folder).filter_map(of).collect()
}
