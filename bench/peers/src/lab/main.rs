//! flashmob beside what somebody would take instead, over a modelled air: one nbdkit on each node, and a client that pipelines. Both in the
//! same lab, in turn, several rounds in one run. Prints the table of `make bench-lab`, and writes it as JSON.
//!
//! - `ours`: a lab with nodes, and `flashmob bench cluster` in it
//! - `theirs`: a lab with nbdkit in the place of nodes, and this program in it as the client
//! - `rows`: rounds become rows
//!
//! Everything runs inside labs, which leave nothing behind. What is void, because the lab was late, does not count.

mod ours;
mod rows;
mod theirs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};

/// Compare flashmob with nbdkit in a lab.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; as a rule the one beside this one.
    #[arg(long)]
    flashmob: Option<PathBuf>,
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    nodes: Vec<u32>,
    /// The modelled air.
    #[arg(long, default_value = "11n-2014")]
    air: String,
    /// How the gateway, or the client, is attached to it: wired or wireless.
    #[arg(long, default_value = "wired")]
    gateway: String,
    /// Modes of flashmob.
    #[arg(long, value_delimiter = ',', default_values_t = ["auto".to_string(), "1".to_string(), "10".to_string(), "100".to_string()])]
    batch: Vec<String>,
    /// Bytes of a read.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4096])]
    block_size: Vec<u32>,
    /// Reads outstanding for each node.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256])]
    outstanding: Vec<u32>,
    /// Reads that nbdkit serves at once. With 5 its disk is about as fast as the modelled flash is with sorted reads.
    #[arg(long, default_value_t = 5)]
    nbdkit_threads: u32,
    /// Milliseconds for each of them: nbdkit's filter takes whole ones.
    #[arg(long, default_value_t = 2)]
    nbdkit_delay_ms: u32,
    /// Rounds; medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement that count; half as many come before.
    #[arg(long, default_value_t = 3.0)]
    time: f64,
    /// Folder for lab.json.
    #[arg(long, default_value = "target/bench-lab")]
    folder: PathBuf,
    /// Rounds of earlier runs, their lab.json, count together with these: where a machine is quiet for short times only. With
    /// --rounds 0 nothing is measured.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Internal: be the client inside a lab, and print figures as JSON.
    #[arg(long, hide = true)]
    inside: bool,
}

/// What is asked, of all contenders alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Case {
    air: String,
    nodes: u32,
    block_bytes: u32,
    /// For each node.
    outstanding: u32,
}

/// What one contender did in one round. Counts are of the measured time alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figures {
    case: Case,
    /// `flashmob auto`, `nbdkit`.
    server: String,
    reads_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Sent on the air, for each read; relayed and repeated ones each time.
    frames_per_read: f64,
    /// TCP packets at the gateway or client, both directions, pure acknowledgements included, for each read.
    packets_per_read: Option<f64>,
    /// The air, as a fraction of the time.
    busy_fraction: f64,
    late_p99_us: f64,
    late_fraction: f64,
    /// Too late to count.
    is_void: bool,
}

/// What lab.json holds.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    rows: serde_json::Value,
    rounds: Vec<Figures>,
}

fn earlier(path: &Path) -> anyhow::Result<Vec<Figures>> {
    let saved: Saved = serde_json::from_slice(&std::fs::read(path)?)?;
    Ok(saved.rounds)
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = if args.inside { theirs::inside(&args) } else { compare(&args) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
    /// Time before anything counts.
    fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.time / 2.0)
    }
}

/// A lab in which all sizes of reads are measured.
#[derive(Clone, Debug)]
struct Lab<'a> {
    args: &'a Args,
    flashmob: PathBuf,
    air: &'a str,
    nodes: u32,
    outstanding: u32,
}

impl Lab<'_> {
    /// `flashmob lab run` up to what is run in it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.flashmob);
        command.args(["--quiet", "lab", "run", "--air", self.air, "--gateway", &self.args.gateway]);
        command.args(["--nodes", &self.nodes.to_string(), "--extent", "10GB"]);
        command
    }

    fn case(&self, block_bytes: u32) -> Case {
        Case { air: self.air.to_string(), nodes: self.nodes, block_bytes, outstanding: self.outstanding }
    }
}

/// Runs a lab to its end and returns what its command printed. That it was late says nothing yet: its figures say which of them are
/// void.
fn printed(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    const VOID: [i32; 2] = [flashmob::lab::STATUS_LATE as i32, 5];
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().context("flashmob cannot be run")?;
    let is_well = output.status.success() || output.status.code().is_some_and(|code| VOID.contains(&code));
    ensure!(is_well, "the lab failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

fn compare(args: &Args) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let flashmob = args.flashmob.clone().unwrap_or_else(|| own.with_file_name("flashmob"));
    ensure!(flashmob.is_file(), "{} is not there; build it first (make build)", flashmob.display());
    ensure!(args.rounds > 0 || !args.add.is_empty(), "give at least one round");
    ensure!(args.time >= 0.5, "give at least half a second");
    // What their disks do where the air is no limit; then what is compared.
    let lab = |air, nodes, outstanding| Lab { args, flashmob: flashmob.clone(), air, nodes, outstanding };
    let mut labs = vec![lab("ideal", 1, args.outstanding.first().copied().unwrap_or(64))];
    for &nodes in &args.nodes {
        labs.extend(args.outstanding.iter().map(|&outstanding| lab(args.air.as_str(), nodes, outstanding)));
    }
    let mut figures: Vec<Figures> = Vec::new();
    for path in &args.add {
        figures.extend(earlier(path).with_context(|| format!("{} is no lab.json", path.display()))?);
    }
    for round in 0..args.rounds {
        for lab in &labs {
            eprintln!(
                "round {} of {}: {} nodes, {} outstanding, {}",
                round + 1,
                args.rounds,
                lab.nodes,
                lab.outstanding,
                lab.air
            );
            // Who goes first changes from round to round.
            if round % 2 == 0 {
                figures.extend(ours::measure(lab)?);
                figures.extend(theirs::measure(lab, &own)?);
            } else {
                figures.extend(theirs::measure(lab, &own)?);
                figures.extend(ours::measure(lab)?);
            }
        }
    }
    let rows = rows::of(&figures);
    print!("{}", rows::table(&rows));
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {}", args.folder.display()))?;
    let path = args.folder.join("lab.json");
    let text = serde_json::to_string_pretty(&Saved { rows: serde_json::to_value(&rows)?, rounds: figures })?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("written: {}", path.display());
    Ok(())
}
