//! flashmob beside what somebody would take instead, over a modelled air: one nbdkit on each node and a client that pipelines, GlusterFS, and
//! flashmob as P1 did it. All in the same kind of lab, in turn, several rounds in one run. Prints the table of `make bench-lab` with the share of what
//! air and flash can do, and writes it as JSON and as a figure.
//!
//! - `case`: what is asked
//! - `ours`: a lab with nodes, and `flashmob bench cluster` in it
//! - `nbdkit`, `gluster`: a lab with those in the place of nodes, and this program in it as the client
//! - `looks`: the lab's counters around the measured time
//! - `rows`, `drawn`: rounds become rows, a table and a figure
//!
//! Everything runs inside labs, which leave nothing behind. What is void, because the lab was late, does not count.

mod case;
mod drawn;
mod gluster;
mod looks;
mod nbdkit;
mod ours;
mod rows;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use flashmob_peers::outcome;
use serde::{Deserialize, Serialize};

use case::Case;

/// The first case shows what the disks do where the air is no limit.
const CASES: [&str; 7] = [
    "read-1:1:ideal:wired",
    "read-1:8:11n-2014:wired",
    "read-512:4:11n:wired",
    "read-4096:8:11n-2014:wired",
    "read-4096:2:11n:wireless",
    "read-65536:2:11n:wired",
    "write-4096:4:11n-2014:wireless",
];

/// Compare flashmob with others in a lab.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; as a rule the one beside this one.
    #[arg(long)]
    flashmob: Option<PathBuf>,
    /// What is asked, as LOAD:NODES:AIR:GATEWAY, such as read-4096:8:11n:wired; may be given several times.
    #[arg(long = "case", value_name = "CASE")]
    cases: Vec<Case>,
    /// Whom to measure.
    #[arg(long, value_delimiter = ',', default_values_t = Contender::ALL)]
    contenders: Vec<Contender>,
    /// Requests outstanding for each node; a quarter of that for requests of 64 KiB and more.
    #[arg(long, default_value_t = 64)]
    outstanding: u32,
    /// Requests that a disk of nbdkit or GlusterFS serves at once. With 5 it is about as fast as the modelled flash is with sorted reads of 1 B.
    #[arg(long, default_value_t = 5)]
    disk_threads: u32,
    /// Milliseconds for each of them: nbdkit's filter takes whole ones.
    #[arg(long, default_value_t = 2)]
    disk_delay_ms: u32,
    /// Rounds; medians are shown.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Seconds of each measurement that count; half as many come before.
    #[arg(long, default_value_t = 3.0)]
    time: f64,
    /// Folder for lab.json and lab.svg.
    #[arg(long, default_value = "target/bench-lab")]
    folder: PathBuf,
    /// Rounds of earlier runs, their lab.json, count together with these: where a machine is quiet for short times only. With
    /// --rounds 0 nothing is measured.
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// Internal: be the client inside a lab, and print figures as JSON.
    #[arg(long, hide = true)]
    inside: Option<Contender>,
}

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contender {
    Flashmob,
    /// flashmob as P1 did it: at most 100 requests in a batch, one batch out, nodes that read in the order of arrival.
    P1,
    Nbdkit,
    Gluster,
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Contender::Flashmob => "flashmob",
            Contender::P1 => "p1",
            Contender::Nbdkit => "nbdkit",
            Contender::Gluster => "gluster",
        })
    }
}

impl Contender {
    const ALL: [Contender; 4] = [Contender::Flashmob, Contender::P1, Contender::Nbdkit, Contender::Gluster];

    /// Its programs.
    fn needs(self) -> &'static [&'static str] {
        match self {
            Contender::Flashmob | Contender::P1 => &[],
            Contender::Nbdkit => &["nbdkit"],
            Contender::Gluster => &["glusterfsd", "glusterfs", "fio"],
        }
    }

    /// Whether its programs are there. What is missing is named.
    fn is_installed(self) -> bool {
        let is_there = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
            std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file())
        };
        let missing: Vec<&str> = self.needs().iter().copied().filter(|program| !is_there(program)).collect();
        if !missing.is_empty() {
            eprintln!("not measured: {self}, as {} is not installed", missing.join(", "));
        }
        missing.is_empty()
    }
}

/// What one contender did in one round. Counts are of the measured time alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figures {
    case: Case,
    /// For each node.
    outstanding: u32,
    /// `flashmob`, `nbdkit`.
    server: String,
    requests_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Sent on the air, for each request; relayed and repeated ones each time.
    frames_per_request: f64,
    /// TCP packets at the gateway or client, both directions, pure acknowledgements included, for each request.
    packets_per_request: Option<f64>,
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
    let outcome = match args.inside {
        Some(Contender::Nbdkit) => inside(&args, nbdkit::inside),
        Some(Contender::Gluster) => inside(&args, gluster::inside),
        Some(other) => Err(anyhow::anyhow!("{other} has its own client")),
        None => compare(&args),
    };
    outcome::exit(outcome)
}

fn inside(args: &Args, run: fn(&Args, &Case) -> anyhow::Result<Figures>) -> anyhow::Result<()> {
    let case = args.cases.first().context("which case?")?;
    println!("{}", serde_json::to_string(&run(args, case)?)?);
    Ok(())
}

impl Args {
    /// Time before anything counts.
    fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.time / 2.0)
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.time)
    }

    /// For each node.
    fn outstanding(&self, case: &Case) -> u32 {
        case.load.outstanding(self.outstanding)
    }
}

/// A lab in which one case is measured.
#[derive(Clone, Debug)]
struct Lab<'a> {
    args: &'a Args,
    own: &'a Path,
    flashmob: &'a Path,
    case: &'a Case,
}

impl Lab<'_> {
    /// `flashmob lab run` up to what is run in it.
    fn command(&self) -> Command {
        let mut command = Command::new(self.flashmob);
        command.args(["--quiet", "lab", "run", "--air", &self.case.air, "--gateway", &self.case.gateway]);
        command.args(["--nodes", &self.case.nodes.to_string(), "--extent", "10GB"]);
        command
    }

    /// A lab in which this shell command is run in each node's place, and this program as the client.
    fn with_others(&self, who: Contender, node: &str) -> anyhow::Result<Figures> {
        let args = self.args;
        let mut command = self.command();
        command.args(["--node-command", node, "--"]).arg(self.own).args(["--inside", &who.to_string()]);
        command.args(["--case", &self.case.to_string(), "--outstanding", &args.outstanding.to_string()]);
        command.args(["--time", &args.time.to_string()]);
        serde_json::from_slice(&printed(&mut command)?).context("the client in the lab did not print figures")
    }

    fn measure(&self, who: Contender) -> anyhow::Result<Figures> {
        match who {
            Contender::Flashmob => ours::measure(self, "flashmob", &["--order", "sorted"], "auto"),
            Contender::P1 => ours::measure(self, "flashmob as P1, k = 100", &["--order", "arrival"], "100"),
            Contender::Nbdkit => nbdkit::measure(self),
            Contender::Gluster => gluster::measure(self),
        }
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
    let cases = match args.cases.is_empty() {
        true => CASES.iter().map(|case| case.parse()).collect::<Result<Vec<Case>, _>>().map_err(anyhow::Error::msg)?,
        false => args.cases.clone(),
    };
    let present: Vec<Contender> = args.contenders.iter().copied().filter(|who| who.is_installed()).collect();
    ensure!(!present.is_empty(), "nobody is left to measure");
    let mut figures: Vec<Figures> = Vec::new();
    for path in &args.add {
        figures.extend(earlier(path).with_context(|| format!("{} is no lab.json", path.display()))?);
    }
    let (mut failed, mut known) = (0, rows::Known::default());
    for round in 0..args.rounds {
        for case in &cases {
            eprintln!("round {} of {}: {case}", round + 1, args.rounds);
            let lab = Lab { args, own: &own, flashmob: &flashmob, case };
            // Who goes first changes from round to round.
            let mut contenders = present.clone();
            contenders.rotate_left(round as usize % present.len().max(1));
            for who in contenders {
                // What cannot run costs its own row only.
                match lab.measure(who) {
                    Ok(measured) => figures.push(measured),
                    Err(error) => {
                        failed += 1;
                        eprintln!("not measured: {who}, {case}: {error:#}");
                    }
                }
            }
        }
        write_json(&args.folder, &rows::of(&figures, &mut known)?, &figures)?;
    }
    ensure!(!figures.is_empty(), "nothing was measured");
    let rows = rows::of(&figures, &mut known)?;
    print!("{}", rows::table(&rows));
    write_json(&args.folder, &rows, &figures)?;
    outcome::write(&args.folder, "lab.svg", &drawn::svg(&rows)?)?;
    eprintln!("written: {0}/lab.json and {0}/lab.svg", args.folder.display());
    ensure!(failed == 0, "{failed} measurements failed, see above");
    Ok(())
}

/// Writes lab.json: after each round, as a run takes long.
fn write_json(folder: &Path, rows: &[rows::Row], figures: &[Figures]) -> anyhow::Result<()> {
    let saved = Saved { rows: serde_json::to_value(rows)?, rounds: figures.to_vec() };
    outcome::write(folder, "lab.json", &serde_json::to_string_pretty(&saved)?)
}
