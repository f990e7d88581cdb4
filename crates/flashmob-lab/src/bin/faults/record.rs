//! The record of a run of many seeds, so that the run can be interrupted.

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use flashmob_core::checksum::checksum;
use flashmob_lab::campaign::{Campaign, Seeds};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Args;

/// The record of this run. Nothing is recorded if there is no file.
#[derive(Default)]
pub struct Record {
    /// How many of the seeds that are asked for had passed before.
    pub passed_before: u64,
    /// How many of them had failed before, under this build.
    pub failed_before: u64,
    campaign: Option<Mutex<Campaign>>,
    /// Seeds that are not in the file yet: those that passed, and those that failed with what was wrong.
    fresh: Mutex<(Seeds, Vec<(u64, String)>)>,
    /// Set by a signal.
    is_interrupted: Arc<AtomicBool>,
    is_terminated: Arc<AtomicBool>,
    /// The file cannot be written.
    is_broken: AtomicBool,
}

impl Record {
    /// Opens the record in a file. Returns it and the seeds to run.
    pub fn open(path: &Path, args: &Args, all: Range<u64>) -> anyhow::Result<(Record, Vec<Range<u64>>)> {
        let family = match (args.killed, args.copies) {
            (true, _) => "killed",
            (_, true) => "copies",
            _ => "without copies",
        };
        let campaign = Campaign::open(path, family, &program(args)?, args.keep_passed)?;
        let todo = campaign.left(all.clone());
        let (passed, elsewhere) = campaign.passed(&all);
        let record = Record {
            passed_before: passed,
            failed_before: campaign.failed(all.clone()).count() as u64,
            ..Record::default()
        };
        if passed > 0 {
            let by = if elsewhere > 0 { format!(", {elsewhere} of them under another build") } else { String::new() };
            println!("{}: {passed} seeds have passed before{by}", path.display());
        }
        if campaign.failed_elsewhere() > 0 {
            println!("{}: {} seeds failed under another build", path.display(), campaign.failed_elsewhere());
        }
        for (seed, text) in campaign.failed(all) {
            println!("seed {seed} failed before: {text}");
        }
        // A second one ends the process at once.
        for (signal, is_set) in [(SIGINT, &record.is_interrupted), (SIGTERM, &record.is_terminated)] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(is_set))?;
            signal_hook::flag::register(signal, Arc::clone(is_set))?;
        }
        Ok((Record { campaign: Some(Mutex::new(campaign)), ..record }, todo))
    }

    /// Notes that a seed has passed.
    pub fn passed(&self, seed: u64) {
        if self.campaign.is_some()
            && let Ok(mut fresh) = self.fresh.lock()
        {
            fresh.0.insert(seed..seed.saturating_add(1));
        }
    }

    /// Notes that a seed has failed.
    pub fn failed(&self, seed: u64, violation: &str) {
        if self.campaign.is_some()
            && let Ok(mut fresh) = self.fresh.lock()
        {
            fresh.1.push((seed, violation.to_string()));
        }
    }

    /// Whether the run is to end: somebody has asked for it, or what it finds cannot be recorded.
    pub fn is_stopped(&self) -> bool {
        [&*self.is_interrupted, &*self.is_terminated, &self.is_broken].iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Writes what is not in the file yet.
    pub fn save(&self) {
        let Some(Ok(mut campaign)) = self.campaign.as_ref().map(Mutex::lock) else { return };
        let (passed, failed) = self.fresh.lock().map(|mut fresh| std::mem::take(&mut *fresh)).unwrap_or_default();
        if let Err(error) = campaign.add(&passed, &failed) {
            self.is_broken.store(true, Ordering::Relaxed);
            eprintln!("{:#}", anyhow::Error::from(error));
        }
    }

    /// Writes the rest. Returns the exit status if the run did not come to its end.
    pub fn end(&self) -> Option<ExitCode> {
        self.save();
        if self.is_broken.load(Ordering::Relaxed) {
            return Some(ExitCode::from(2));
        }
        // As a shell tells a process that a signal ended.
        let signal = match (self.is_interrupted.load(Ordering::Relaxed), self.is_terminated.load(Ordering::Relaxed)) {
            (true, _) => SIGINT,
            (_, true) => SIGTERM,
            _ => return None,
        };
        Some(ExitCode::from(128 + signal as u8))
    }
}

/// A name of this build of the program: its version, a checksum of its file, and the bug that is planted in it.
fn program(args: &Args) -> anyhow::Result<String> {
    let path = std::env::current_exe().context("this program's file is not known")?;
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let name = format!("{}-{:08x}", env!("CARGO_PKG_VERSION"), checksum(&bytes));
    #[cfg(feature = "planted")]
    let name = args.plant.iter().fold(name, |name, bug| format!("{name}+{bug}"));
    let _ = args;
    Ok(name)
}
