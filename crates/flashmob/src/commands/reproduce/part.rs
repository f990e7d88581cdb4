//! A part of a reproduction: this very program as a process that measures something and saves it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use flashmob_results::{Document, read};

use crate::commands::own_runs::{self, Ended};

/// Runs the program with these arguments and `--save FILE`, and reads what it saved; nothing if it was stopped before there was anything. `what` is the part in
/// words.
pub fn measured(
    arguments: &[String],
    file: &Path,
    what: &str,
    stop: &AtomicBool,
    tick: &dyn Fn(),
) -> anyhow::Result<Option<Document>> {
    // What an earlier run left must not pass for this one's.
    let _ = std::fs::remove_file(file);
    let mut arguments = arguments.to_vec();
    arguments.extend(["--save".to_string(), file.display().to_string()]);
    let Ended { status, said, was_stopped } = own_runs::run(&arguments, stop, tick)?;
    if !file.exists() {
        if was_stopped {
            return Ok(None);
        }
        bail!("{what} ended with {status} and measured nothing. Its output:\n       {said}");
    }
    if !status.success() && !was_stopped {
        log::warn!("{what}: {status}; keeping what it measured. Its output:\n       {said}");
    }
    Ok(Some(read::file(file)?))
}
