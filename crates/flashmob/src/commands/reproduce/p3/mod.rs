//! `flashmob reproduce p3`: effects of order and I/O schedulers on flash, and the commands of its driver.
//!
//! - `plan`: the measurements, as presets of `flashmob bench disk`

pub mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::ensure;
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::merge;

use super::page::{Outcome, OutputArgs, nothing_measured};
use super::runs::{self, Merged, Part};
use plan::{RUNS, Run, Setup, Subject};

/// Of a quick run.
pub const SCALE_QUICK: f64 = 0.05;
/// The file's name in a folder.
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
    #[command(flatten)]
    outputs: OutputArgs,
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
    let kept = args.outputs.save.as_deref().map(|folder| runs::kept_file(folder, "p3.json")).transpose()?;
    let (stop, folder) = args.outputs.begin()?;
    let one = |run: &Run, tick: &dyn Fn()| {
        let (arguments, words) = (run.arguments(&setup), run.words.to_string());
        Part { arguments, words, well: &[], remedy: &|_| "" }.measure(&folder.path().join("run.json"), &stop, tick)
    };
    let mut merged = Merged::new("p3", merge::disks, kept.clone());
    runs::each(&RUNS, &setup, &stop, false, |_| true, one, |_, outcome| merged.take(outcome))?;
    drop(lent);
    let document = merged.end(stop.load(Ordering::Relaxed))?;
    let Some(document) = document else { return Ok(nothing_measured()) };
    let interrupted = document.interrupted;
    let (how, model, file) = match &setup.subject {
        Subject::Model(profile) => (format!("on the model {profile} (modelled)"), Some(profile.clone()), None),
        Subject::File(path) => (format!("on the disk of {}", path.display()), None, Some(path.display().to_string())),
    };
    let result = kept.as_ref().map(|path| path.display().to_string());
    let path = kept.unwrap_or_else(|| PathBuf::from("p3.json"));
    args.outputs.tell(Outcome {
        paper: "P3",
        report: Report::new(vec![Input { path, document }]),
        how,
        settings: serde_json::json!({
            "setting": if model.is_some() { "model" } else { "disk" }, "model": model, "file": file,
            "seed": setup.seed, "scale": setup.scale, "quick": args.quick, "result": result,
        }),
        void: 0,
        instead: "",
        interrupted,
        results: result.into_iter().collect(),
    })
}

/// A temporary file in a user's folder, removed at the end.
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
