//! Runs of this program as processes that measure something and write it to a file, and a folder for those files.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::command_line;
use crate::process;

/// Lines of a process's output that are shown if it fails.
const LINES_KEPT: usize = 12;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The outcome of a process.
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// The end of its output.
    pub said: String,
    /// It was interrupted on request.
    pub was_stopped: bool,
}

/// Runs this program with these arguments to its end. Once `stop` is set it is interrupted, as from a terminal, and awaited; `tick` is
/// called ten times a second.
pub fn run(arguments: &[String], stop: &AtomicBool, tick: &dyn Fn()) -> anyhow::Result<Ended> {
    let mut command = process::of_this_binary(arguments)?;
    // Its own process group: an interrupt from the terminal reaches it once, through this process.
    command.process_group(0).stderr(Stdio::piped()).env(command_line::VARIABLE, command_line::recorded());
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
    let mut was_stopped = false;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for a process")? {
            break status;
        }
        if stop.load(Ordering::Relaxed) && !was_stopped {
            was_stopped = true;
            // It may have exited already.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
        }
        tick();
        std::thread::sleep(LOOK_EVERY);
    };
    if let Some(listener) = listener {
        // It ends with the process and its children.
        let _ = listener.join();
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).join("\n       ");
    Ok(Ended { status, said, was_stopped })
}

/// A directory for the files of processes, removed when it is dropped.
pub fn scratch(command: &str) -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("flashmob-{command}-")).tempdir().with_context(|| {
        let folder = std::env::temp_dir();
        format!("cannot create a directory in {}; set TMPDIR to a writable directory", folder.display())
    })
}
