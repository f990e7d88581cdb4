//! Runs the parts of a plan, one process each, and keeps what they measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use flashmob_results::{Document, read};

use super::plan::{Place, Run, Setup};
use crate::commands::own_runs;

/// What 'flashmob lab' ends with if all was well but the lab was late, and if it could not be made.
const STATUS_LATE: i32 = crate::lab::STATUS_LATE as i32;
const STATUS_NO_LAB: i32 = crate::lab::STATUS_IMPOSSIBLE as i32;
/// What 'flashmob bench cluster' ends with if some point was measured while the lab was late, and nothing else.
const STATUS_VOID: i32 = crate::commands::cluster::STATUS_VOID as i32;

/// Something that can measure a run.
pub trait Runner {
    /// What it measured; nothing if it was stopped before there was anything.
    fn run(&mut self, run: &Run, setup: &Setup) -> anyhow::Result<Option<Document>>;
}

/// This very program, as a process.
pub struct Processes<'a> {
    /// Where it may write.
    pub folder: &'a Path,
    /// Set when the user wants an end.
    pub stop: Arc<AtomicBool>,
    /// Called ten times a second.
    pub tick: &'a dyn Fn(),
}

impl Runner for Processes<'_> {
    fn run(&mut self, run: &Run, setup: &Setup) -> anyhow::Result<Option<Document>> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let file = self.folder.join("run.json");
        // What an earlier run left must not pass for this one's.
        let _ = std::fs::remove_file(&file);
        let own_runs::Ended { status, said, was_stopped } =
            own_runs::run(&run.arguments(setup, &program, &file), &self.stop, self.tick)?;
        let document = if file.exists() { Some(read::file(&file)?) } else { None };
        if document.is_some() || was_stopped {
            // Late repetitions are void and say so themselves.
            let well = [0, STATUS_LATE, STATUS_VOID].map(Some).contains(&status.code());
            if !well && !was_stopped {
                log::warn!("{}: {status}; keeping what it measured. Its output:\n       {said}", run.words());
            }
            return Ok(document);
        }
        bail!(
            "{} ended with {status} and measured nothing; {}. Its output:\n       {said}",
            run.words(),
            remedy(setup.place, status.code())
        )
    }
}

fn remedy(place: Place, status: Option<i32>) -> &'static str {
    match (place, status) {
        (Place::Lab, Some(STATUS_NO_LAB)) => {
            "the lab could not be created: it needs root, or a system that allows user namespaces; '--in simulator' needs neither"
        }
        (Place::Lab, _) => {
            "run 'flashmob lab run -- true' to test whether a lab can be created here, or '--in simulator'"
        }
        (Place::Simulator, _) => "use other profiles, or report it as a bug with its output",
    }
}
