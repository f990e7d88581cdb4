//! Runs the parts of a plan, one process each, and keeps what they measured.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use flashmob_results::{Document, read};
use rustix::process::{Pid, Signal, kill_process};

use super::plan::{Place, Run, Setup};
use crate::process;

/// Lines of what a process said that are shown if it fails.
const LINES_KEPT: usize = 12;
const LOOK_EVERY: Duration = Duration::from_millis(100);
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
        let arguments = run.arguments(setup, &program, &file);
        let mut command = process::of_this_binary(&arguments)?;
        // A group of its own: an interrupt from the terminal reaches it once, by way of this process.
        command.process_group(0).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process of this program")?;
        let said = Arc::new(Mutex::new(Vec::<String>::new()));
        let listener = child.stderr.take().map(|stderr| {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if said.len() == LINES_KEPT {
                        said.remove(0);
                    }
                    said.push(line);
                }
            })
        });
        let mut asked = false;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for a process")? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) && !asked {
                asked = true;
                // It may have ended in this moment.
                let _ = kill_process(Pid::from_child(&child), Signal::INT);
            }
            (self.tick)();
            std::thread::sleep(LOOK_EVERY);
        };
        if let Some(listener) = listener {
            // It ends with the process and those that the process started.
            let _ = listener.join();
        }
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).join("\n       ");
        let document = if file.exists() { Some(read::file(&file)?) } else { None };
        if document.is_some() || asked {
            // Late repetitions are void and say so themselves.
            let well = [0, STATUS_LATE, STATUS_VOID].map(Some).contains(&status.code());
            if !well && !asked {
                log::warn!("{}: {status}; what it measured is kept. It said:\n       {said}", run.words());
            }
            return Ok(document);
        }
        bail!(
            "{} ended with {status} and measured nothing; {}. It said:\n       {said}",
            run.words(),
            remedy(setup.place, status.code())
        )
    }
}

fn remedy(place: Place, status: Option<i32>) -> &'static str {
    match (place, status) {
        (Place::Lab, Some(STATUS_NO_LAB)) => {
            "the lab could not be made: it needs root or a system that lets users make namespaces; '--in simulator' needs neither"
        }
        (Place::Lab, _) => "try 'flashmob lab run -- true' to see whether a lab can be made here, or '--in simulator'",
        (Place::Simulator, _) => "give other profiles, or report it with what it said",
    }
}
