//! `flashmob reproduce p3`: how flash answers to order and to I/O schedulers, and what its driver sees.
//!
//! - `plan`: what is to be measured, as presets of `flashmob bench disk`

mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::{Document, merge};

use super::progress::Progress;
use super::{Output, kept, page, part};
use crate::commands::own_runs;
use crate::commands::tell::{self, STATUS_INTERRUPTED};
use crate::commands::words;
use plan::{RUNS, Run, Setup, Subject};

const SCALE_QUICK: f64 = 0.05;
/// What a file in a folder is called.
const FILE: &str = "flashmob-p3.bin";

/// P3's device: sequential and random reads, their order, I/O schedulers, and the commands that the device receives
/// (claims C10 to C13).
///
/// Without --file or --folder it uses a model of the kind of tablet in P1 and P3 and no disk of this machine; the
/// page says so. Prints a table of the claims and writes a page with all figures. Commands and schedulers of a disk
/// need root.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob reproduce p3 --quick
        a quick run on the modelled tablet, half a minute
  flashmob reproduce p3 --save results
        everything, some ten minutes; results are kept in a file
  flashmob reproduce p3 --folder /data -o disk.html
        a disk of this machine: creates a file of 1 GiB there, and removes it at the end
  flashmob reproduce p3 --quick --output json | jq '.claims[] | {claim, verdict}'

Exit status: 0 measured, whatever the claims' verdicts; 130 stopped early; 1 error, see stderr; 2 wrong arguments.")]
pub struct P3Args {
    /// Device model: a profile, as for 'bench disk --model'.
    #[arg(long, default_value = "nexus7-emmc", value_name = "PROFILE", value_parser = model_text, conflicts_with_all = ["file", "folder"])]
    model: String,
    /// Measure the disk of this file instead; creates and keeps the file if it does not exist.
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    file: Option<PathBuf>,
    /// Measure the disk of this directory instead, with a file that is removed at the end.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Quick run: a twentieth of the paper's size, reads and repetitions.
    #[arg(long)]
    quick: bool,
    /// Fraction of the paper's size, reads and repetitions [default: 1, with --quick 0.05].
    #[arg(long, value_name = "PART", value_parser = crate::commands::bench::disk::scale)]
    scale: Option<f64>,
    /// Name of the device on the page.
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Keep the results in a file in this directory, updated after each run.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Page to write; replaces an existing file.
    #[arg(short, value_name = "FILE", default_value = "report.html")]
    o: PathBuf,
    /// Output format of the claims: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
}

fn model_text(text: &str) -> Result<String, String> {
    crate::commands::flash_profile(text).map(|_| text.to_string())
}

/// Measures, judges, and writes the page.
pub fn run(args: &P3Args) -> anyhow::Result<ExitCode> {
    let lent = args.folder.as_deref().map(Lent::new).transpose()?;
    let setup = Setup {
        subject: match (&args.file, &lent) {
            (Some(file), _) => Subject::File(std::path::absolute(file)?),
            (None, Some(lent)) => Subject::File(lent.0.clone()),
            (None, None) => Subject::Model(args.model.clone()),
        },
        scale: args.scale.unwrap_or(if args.quick { SCALE_QUICK } else { 1.0 }),
        seed: args.seed,
        label: args.label.clone(),
    };
    page::check(&args.o)?;
    let kept = args.save.as_deref().map(|folder| kept::file(folder, "p3.json")).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    tell::on_signal(Arc::clone(&stop))?;
    let folder = own_runs::Folder::make("reproduce")?;
    let measured = measure(&setup, folder.path(), &stop, kept.as_deref())?;
    drop(lent);
    let Some(document) = measured else {
        log::info!("stopped before anything was measured");
        return Ok(ExitCode::from(STATUS_INTERRUPTED));
    };
    let interrupted = document.interrupted;
    tell_all(args, &setup, document, kept.as_deref())?;
    Ok(if interrupted { ExitCode::from(STATUS_INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// A file in somebody's folder, gone in the end.
struct Lent(PathBuf);

impl Lent {
    fn new(folder: &Path) -> anyhow::Result<Lent> {
        ensure!(folder.is_dir(), "directory {} does not exist; create it, or give another --folder", folder.display());
        let path = std::path::absolute(folder)?.join(FILE);
        ensure!(
            path.symlink_metadata().is_err(),
            "{} already exists: remove it, or measure with it (--file)",
            path.display()
        );
        Ok(Lent(path))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        match std::fs::remove_file(&self.0) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("{} cannot be removed: {error}", self.0.display()),
        }
    }
}

/// Runs one preset after the other; what was measured before a stop or a failure is kept.
fn measure(setup: &Setup, folder: &Path, stop: &AtomicBool, kept: Option<&Path>) -> anyhow::Result<Option<Document>> {
    let guesses_s: Vec<f64> = RUNS.iter().map(|run| run.guess_s(setup)).collect();
    let progress = Progress::new(&guesses_s, false);
    let mut parts: Vec<Document> = Vec::new();
    let mut whole = None;
    for run in &RUNS {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        progress.begin(run.words.to_string(), run.guess_s(setup));
        let outcome = one(run, setup, folder, stop, &|| progress.tick());
        // Before anything is said, so that it has a line of its own.
        progress.end();
        match outcome {
            Ok(Some(part)) => parts.push(part),
            Ok(None) => {}
            // The first failure will be that of all runs; later ones may be this run's alone.
            Err(error) if parts.is_empty() => return Err(error),
            Err(error) => log::error!("{}", words(&error)),
        }
        if !parts.is_empty() {
            let mut document = merge::disks(parts.clone())?;
            document.preset = Some("p3".into());
            document.interrupted |= stop.load(Ordering::Relaxed);
            if let Some(path) = kept {
                kept::save(path, &document)?;
            }
            whole = Some(document);
        }
    }
    Ok(whole)
}

fn one(
    run: &Run,
    setup: &Setup,
    folder: &Path,
    stop: &AtomicBool,
    tick: &dyn Fn(),
) -> anyhow::Result<Option<Document>> {
    part::measured(&run.arguments(setup), &folder.join("run.json"), run.words, stop, tick)
}

/// Writes the page and prints the claims.
fn tell_all(args: &P3Args, setup: &Setup, document: Document, kept: Option<&Path>) -> anyhow::Result<()> {
    let interrupted = document.interrupted;
    let name = kept.map_or_else(|| PathBuf::from("p3.json"), Path::to_path_buf);
    let (how, model, file) = match &setup.subject {
        Subject::Model(profile) => (format!("on the model {profile} (modelled)"), Some(profile.clone()), None),
        Subject::File(path) => (format!("on the disk of {}", path.display()), None, Some(path.display().to_string())),
    };
    let report = Report::new(vec![Input { path: name, document }]);
    let settings = serde_json::json!({
        "paper": "p3", "setting": if model.is_some() { "model" } else { "disk" }, "model": model, "file": file,
        "seed": setup.seed, "scale": setup.scale, "quick": args.quick, "interrupted": interrupted,
        "report": args.o.display().to_string(), "result": kept.map(|path| path.display().to_string()),
    });
    page::tell(&report, &args.o, "P3", &how, settings, args.output)?;
    page::conclude(&args.o, 0, interrupted, "");
    if let Some(path) = kept {
        log::info!("result: {}", path.display());
    }
    Ok(())
}
