//! Sequential runs: their progress, their failures, and the merged result so far in a file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use flashmob_results::merge::MergeError;
use flashmob_results::{Document, read};

use super::progress::Progress;
use crate::commands::own_runs::{self, Ended};
use crate::commands::{whole_file, words};

/// A part of a reproduction.
pub trait Run {
    /// Settings common to all runs of a paper.
    type Setup;
    /// Its description, for progress.
    fn words(&self) -> String;
    /// Its estimated duration in seconds of real time.
    fn guess_s(&self, setup: &Self::Setup) -> f64;
}

/// Measures all `runs` that are wanted when their turn comes, until `stop` is set. `measure` gets a function to call ten times a second; `take` gets its result, after the
/// progress line was removed, and may stop with an error.
pub fn each<R: Run, T>(
    runs: &[R],
    setup: &R::Setup,
    stop: &AtomicBool,
    is_virtual: bool,
    is_wanted: impl Fn(&R) -> bool,
    mut measure: impl FnMut(&R, &dyn Fn()) -> T,
    mut take: impl FnMut(&R, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let guesses_s: Vec<f64> = runs.iter().map(|run| run.guess_s(setup)).collect();
    let progress = Progress::new(&guesses_s, is_virtual);
    for (run, guess_s) in runs.iter().zip(guesses_s) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if !is_wanted(run) {
            progress.skip(guess_s);
            continue;
        }
        progress.begin(run.words(), guess_s);
        let outcome = measure(run, &|| progress.tick());
        progress.end();
        take(run, outcome)?;
    }
    Ok(())
}

/// This program as a process that measures something: its arguments, without `--save`.
pub struct Part<'a> {
    pub arguments: Vec<String>,
    /// Its description.
    pub words: String,
    /// Exit statuses besides 0 with which a result is complete.
    pub well: &'a [i32],
    /// The remedy if nothing was measured, by exit status.
    pub remedy: &'a dyn Fn(Option<i32>) -> &'static str,
}

impl Part<'_> {
    /// Runs it, and reads the result that it saved as `file`; `None` if it was interrupted before it had results.
    pub fn measure(mut self, file: &Path, stop: &AtomicBool, tick: &dyn Fn()) -> anyhow::Result<Option<Document>> {
        // A file of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(file);
        self.arguments.extend(["--save".to_string(), file.display().to_string()]);
        let Ended { status, said, was_stopped } = own_runs::run(&self.arguments, stop, tick)?;
        let (what, code) = (self.words, status.code());
        if !file.exists() {
            if was_stopped {
                return Ok(None);
            }
            bail!("{what} ended with {status} and measured nothing{}. Its output:\n       {said}", (self.remedy)(code));
        }
        if !was_stopped && !status.success() && !code.is_some_and(|code| self.well.contains(&code)) {
            log::warn!("{what}: {status}; keeping what it measured. Its output:\n       {said}");
        }
        Ok(Some(read::file(file)?))
    }
}

/// The results of runs, merged into one document, which is kept in a file after each run.
pub struct Merged {
    preset: &'static str,
    merge: fn(Vec<Document>) -> Result<Document, MergeError>,
    kept: Option<PathBuf>,
    parts: Vec<Document>,
    pub document: Option<Document>,
}

impl Merged {
    pub fn new(
        preset: &'static str,
        merge: fn(Vec<Document>) -> Result<Document, MergeError>,
        kept: Option<PathBuf>,
    ) -> Merged {
        Merged { preset, merge, kept, parts: Vec::new(), document: None }
    }

    /// Adds the result of a run; `None` if it was interrupted.
    ///
    /// # Errors
    /// The first run failed, so the others will as well; later failures are logged. The result cannot be written.
    pub fn take(&mut self, outcome: anyhow::Result<Option<Document>>) -> anyhow::Result<()> {
        match outcome {
            Ok(part) => self.parts.extend(part),
            Err(error) if self.parts.is_empty() => return Err(error),
            Err(error) => log::error!("{}", words(&error)),
        }
        if !self.parts.is_empty() {
            let mut document = (self.merge)(self.parts.clone())?;
            document.preset = Some(self.preset.into());
            self.keep(document)?;
        }
        Ok(())
    }

    /// Marks the result as interrupted if it is, and returns it.
    pub fn end(mut self, interrupted: bool) -> anyhow::Result<Option<Document>> {
        if interrupted && let Some(mut document) = self.document.take() {
            document.interrupted = true;
            self.keep(document)?;
        }
        Ok(self.document)
    }

    fn keep(&mut self, document: Document) -> anyhow::Result<()> {
        if let Some(path) = &self.kept {
            save(path, &document)?;
        }
        self.document = Some(document);
        Ok(())
    }
}

/// The file of this name to keep results in; creates the directory.
///
/// # Errors
/// The file exists: results of earlier runs are not replaced.
pub fn kept_file(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the directory {}", folder.display()))?;
    let path = folder.join(name);
    if path.exists() {
        bail!(
            "{} already exists, from an earlier run: move it away, or give another directory with --save",
            path.display()
        );
    }
    Ok(path)
}

/// Writes a result; the file is never partial.
pub fn save(path: &Path, document: &Document) -> anyhow::Result<()> {
    let text = format!("{}\n", serde_json::to_string(document)?);
    whole_file::write(path, &text).with_context(|| format!("cannot write {}", path.display()))
}
