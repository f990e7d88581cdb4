//! Measures flashmob beside what a user would take instead, in one run on one machine.
//!
//! It starts every server itself, goes through all rows round by round, and compares within each round: a machine
//! that is slow for a while is slow for everybody. What cannot be measured is named, never left out.

mod data;
mod measure;
mod native;
mod pingpong;
mod proc;
mod process;
mod redis;
mod report;
mod rows;
mod servers;
mod stats;
mod targets;
mod tools;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use flashmob_core::units::{Bytes, GIB, MIB, parse_size};

use data::Image;
use measure::{Measurer, WrongBytes};
use report::{Header, NotMeasured, Report, Results};
use rows::{Kind, Row, Shape};
use servers::{Build, Server, Servers, Set};

/// Bytes that are written to: few, so that the system does not begin to throttle writers.
const WRITE_BYTES: u64 = 256 * MIB;
/// Redis gets a quarter of the file's bytes, and no more than this: its values lie in memory of its own.
const REDIS_BYTES_MAX: u64 = GIB;
/// The files' sizes are multiples of it.
const SIZE_UNIT_BYTES: u64 = 32 * MIB;
/// Memory that is needed for every byte of the file: the file, its eight parts, nbdkit's copy, and some.
const MEMORY_FACTOR: f64 = 3.4;

/// Measure flashmob beside other servers: nbdkit, qemu, nbd-server, relays, Redis, and the bare file.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Three short rounds over a smaller file, without counting system calls: under three minutes.
    #[arg(long)]
    quick: bool,
    /// The flashmob to measure. As a rule the one beside this program.
    #[arg(long, value_name = "PATH")]
    flashmob: Option<PathBuf>,
    /// A second flashmob, measured beside the first in rows of its own.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Only rows whose id contains this; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// List the rows and end.
    #[arg(long)]
    list: bool,
    /// Rounds over all rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Seconds for each row in each round.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Size of the file that is read, a multiple of 32 MiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Folder for the servers' files; removed at the end. No tmpfs: it is the page cache that is measured.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    output: PathBuf,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let limits = Duration::from_millis(50)..=Duration::from_secs(600);
    flashmob_text::parse_duration_in(text, &limits).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        0 => Err("give at least 32MiB".to_string()),
        bytes if !bytes.is_multiple_of(SIZE_UNIT_BYTES) => Err("give a multiple of 32MiB".to_string()),
        bytes => Ok(bytes),
    }
}

/// What follows from the arguments.
struct Plan {
    rounds: u32,
    time: Duration,
    size_bytes: u64,
    quick: bool,
    flashmob: PathBuf,
    against: Option<PathBuf>,
    rows: Vec<Row>,
}

impl Args {
    fn plan(&self) -> anyhow::Result<Plan> {
        let (rounds, time, size_bytes) =
            if self.quick { (3, Duration::from_millis(400), GIB) } else { (5, Duration::from_millis(2200), 4 * GIB) };
        let mut rows = rows::all(self.against.is_some());
        rows.retain(|row| self.only.is_empty() || self.only.iter().any(|pattern| row.id.contains(pattern)));
        anyhow::ensure!(!rows.is_empty(), "no row's id contains {:?}; --list shows all", self.only);
        let flashmob = match &self.flashmob {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("flashmob"),
        };
        Ok(Plan {
            rounds: self.rounds.unwrap_or(rounds),
            time: self.seconds.unwrap_or(time),
            size_bytes: self.size.unwrap_or(size_bytes),
            quick: self.quick,
            flashmob,
            against: self.against.clone(),
            rows,
        })
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    flashmob_peers::outcome::exit(run(&args))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    if args.list {
        for row in &plan.rows {
            println!("{:<34} {}", row.id, row.name);
        }
        return Ok(());
    }
    let found = |path: &Path| {
        std::fs::canonicalize(path).with_context(|| format!("{} is not there; run: make build", path.display()))
    };
    let flashmob = [Some(found(&plan.flashmob)?), plan.against.as_deref().map(found).transpose()?];
    std::fs::create_dir_all(&args.output).with_context(|| format!("cannot make {}", args.output.display()))?;
    let parent = args.dir.clone().unwrap_or_else(|| args.output.clone());
    let scratch = Scratch::new(&parent)?;
    let begun = Instant::now();

    let available = proc::memory_available_bytes().unwrap_or(u64::MAX);
    let needed = (plan.size_bytes as f64 * MEMORY_FACTOR) as u64;
    anyhow::ensure!(
        needed <= available,
        "a file of {} needs {} of memory, {} are available; choose a smaller one with --size",
        Bytes(plan.size_bytes),
        Bytes(needed),
        Bytes(available)
    );
    eprintln!(
        "{} rows, {} rounds of {} s each; making {} of files",
        plan.rows.len(),
        plan.rounds,
        plan.time.as_secs_f64(),
        Bytes(2 * plan.size_bytes)
    );
    let mut image = Image::make(&scratch.path, "reads", plan.size_bytes, data::CHUNK_BYTES)?;
    let locked = image.lock()?;
    let redis_bytes = (plan.size_bytes / 4).min(REDIS_BYTES_MAX);
    let servers = Servers::new(&scratch.path, flashmob, image, WRITE_BYTES, redis_bytes);
    let mut measurer =
        Measurer { servers, dir: scratch.path.clone(), time: plan.time, widths: BTreeMap::new(), write_rounds: 0 };

    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    let results = measure(&plan, &mut measurer, &mut failures, begun)?;
    let header = header(&plan, available, redis_bytes, locked);
    let report = report(header, &results, &failures, &plan);
    drop(measurer);
    write(&args.output, &report)?;
    eprintln!("{:.0} s; written to {}", begun.elapsed().as_secs_f64(), args.output.display());
    // A peer that is not there is named in the report; flashmob's own rows must be there.
    let own: Vec<&str> =
        report.not_measured.iter().filter(|m| m.id.contains("flashmob")).map(|m| m.id.as_str()).collect();
    anyhow::ensure!(own.is_empty(), "not measured: {}; see the report", own.join(", "));
    Ok(())
}

/// Goes through all rows, round by round.
fn measure(
    plan: &Plan,
    measurer: &mut Measurer,
    failures: &mut BTreeMap<String, String>,
    begun: Instant,
) -> anyhow::Result<Results> {
    measurer.servers.image().warm()?;
    // Everything is started, and what is open is found out, before the first round: nothing then waits for it.
    for row in &plan.rows {
        let started = row.server().map_or(Ok(()), |server| measurer.servers.get(server).map(|_| ()));
        let outcome = started.and_then(|()| measurer.find_width(row, plan.time.min(Duration::from_millis(250))));
        note_failure(row, outcome, failures)?;
    }
    let mut samples: BTreeMap<String, Vec<Option<measure::Sample>>> = BTreeMap::new();
    for round in 0..plan.rounds {
        eprintln!("round {} of {} ({:.0} s)", round + 1, plan.rounds, begun.elapsed().as_secs_f64());
        measurer.servers.image().warm()?;
        let mut rows: Vec<&Row> = plan.rows.iter().collect();
        // There and back: nobody is always measured after the same neighbour.
        if round % 2 == 1 {
            rows.reverse();
        }
        for row in rows {
            let outcome = measurer.measure(row, u64::from(round) + 1);
            let sample = note_failure(row, outcome, failures)?;
            samples.entry(row.id.clone()).or_default().push(sample);
        }
    }
    let mut system_calls = BTreeMap::new();
    if !plan.quick {
        for row in &plan.rows {
            if let Some((server, shape)) = traced(row) {
                match measurer.system_calls(server, &shape, Duration::from_millis(500)) {
                    Ok(calls) => drop(system_calls.insert(row.id.clone(), calls)),
                    Err(error) if error.is::<WrongBytes>() => return Err(error),
                    Err(error) => drop(failures.insert(format!("{}/syscalls", row.id), format!("{error:#}"))),
                }
            }
        }
    }
    Ok(Results { rows: plan.rows.clone(), samples, widths: measurer.widths.clone(), system_calls })
}

/// Remembers why a row failed. Wrong bytes end everything.
fn note_failure<T>(
    row: &Row,
    outcome: anyhow::Result<T>,
    failures: &mut BTreeMap<String, String>,
) -> anyhow::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is::<WrongBytes>() => Err(error.context(format!("row {}", row.id))),
        Err(error) => {
            let reason = format!("{error:#}");
            eprintln!("  {}: {reason}", row.id);
            failures.entry(row.id.clone()).or_insert(reason);
            Ok(None)
        }
    }
}

/// Whose system calls are counted: ours and nbdkit's.
fn traced(row: &Row) -> Option<(Server, Shape)> {
    match row.kind {
        Kind::Nbd { server, shape } if !shape.write && !shape.sequential => {
            let is_traced = matches!(
                server,
                Server::FlashmobOne(Build::A)
                    | Server::FlashmobTwo(Build::A, Set::Reads)
                    | Server::NbdkitFile
                    | Server::RelayNbdkit(Set::Reads)
            );
            is_traced.then_some((server, shape))
        }
        _ => None,
    }
}

fn header(plan: &Plan, memory_available_bytes: u64, redis_bytes: u64, pages_locked: bool) -> Header {
    let programs = [
        ("nbdkit", "--version"),
        ("nbd-server", "-V"),
        ("qemu-nbd", "--version"),
        ("qemu-storage-daemon", "--version"),
        ("nbdfuse", "--version"),
        ("redis-server", "--version"),
        ("fio", "--version"),
        ("iperf3", "--version"),
    ];
    let versions = programs
        .iter()
        .map(|(program, arg)| {
            (program.to_string(), process::version(program, arg).unwrap_or_else(|| "not installed".to_string()))
        })
        .collect();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
    Header {
        cpu: proc::cpu_model(),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        kernel,
        memory_available_bytes,
        file_bytes: plan.size_bytes,
        write_bytes: WRITE_BYTES,
        redis_bytes,
        pages_locked,
        rounds: plan.rounds,
        seconds_per_row: plan.time.as_secs_f64(),
        quick: plan.quick,
        flashmob: plan.flashmob.display().to_string(),
        against: plan.against.as_ref().map(|path| path.display().to_string()),
        versions,
    }
}

fn report(header: Header, results: &Results, failures: &BTreeMap<String, String>, plan: &Plan) -> Report {
    let name =
        |id: &str| plan.rows.iter().find(|row| row.id == id).map_or_else(|| id.to_string(), |row| row.name.clone());
    let not_measured = failures
        .iter()
        .map(|(id, reason)| NotMeasured { id: id.clone(), name: name(id), reason: reason.clone() })
        .collect();
    let notes = vec![
        format!(
            "Reads are compared with the file in a sample (1 of 64 answers of 4 KiB and more, 1 of 16 below); one wrong byte ends \
             the run. {} were compared.",
            Bytes(results.samples.values().flatten().flatten().map(|sample| sample.verified_bytes).sum())
        ),
        format!(
            "Offsets are multiples of the block. Writes go to {} of their own, so that the system does not throttle writers; all \
             of it is read back and compared after each row.",
            Bytes(header.write_bytes)
        ),
        format!("Redis has {} of values of 4 KiB; the others serve {}.", Bytes(header.redis_bytes), Bytes(header.file_bytes)),
        "Rows of the native client use the library that this program was built with, over the nodes of the flashmob named \
         above; its gateway's processor time is the client's. Latencies are those of calls, with Redis of pipelines."
            .to_string(),
        "TCP segments are those of the whole machine, each counted once. CPU of what stands behind is all nodes' together; \
         memory is the largest process's, as it stood during the row: what earlier rows left behind is in it."
            .to_string(),
        "The goal of latency counts p50, so \"to best peer\" there is below 1 where flashmob is faster.".to_string(),
    ];
    Report {
        format: report::FORMAT,
        format_version: report::FORMAT_VERSION,
        rows: results.row_reports(),
        targets: results.target_reports(),
        header,
        not_measured,
        notes,
    }
}

fn write(output: &Path, report: &Report) -> anyhow::Result<()> {
    let markdown = report::markdown::full(report);
    let save = |name: &str, text: &str| {
        let path = output.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    save("peers.md", &markdown)?;
    save("readme-table.md", &report::markdown::readme(report))?;
    save("peers.json", &(serde_json::to_string_pretty(report)? + "\n"))?;
    if let Some(svg) = report::figure::svg(report)? {
        save("peers.svg", &svg)?;
    }
    // A reader that has seen enough is none of our concern.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), markdown.as_bytes());
    Ok(())
}

/// A folder that is removed however the program ends.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(parent: &Path) -> anyhow::Result<Scratch> {
        let path = parent.join(format!("work-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}; --dir names another place", path.display()))?;
        let scratch = Scratch { path: std::fs::canonicalize(&path)? };
        let path = scratch.path.clone();
        use signal_hook::consts::{SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                // Servers that are children end with this process.
                servers::clean_up();
                let _ = std::fs::remove_dir_all(&path);
                std::process::exit(130);
            }
        });
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{} is left: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let words = ["bench-peers"].iter().chain(arguments);
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        args.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn quick_is_short_and_small_unless_told_otherwise() {
        let full = plan(&[]).unwrap();
        let quick = plan(&["--quick"]).unwrap();
        assert_eq!((full.rounds, full.size_bytes), (5, 4 * GIB));
        assert_eq!((quick.rounds, quick.size_bytes), (3, GIB));
        let seconds = |plan: &Plan| f64::from(plan.rounds) * plan.rows.len() as f64 * plan.time.as_secs_f64();
        assert!(seconds(&full) < 1000.0 && seconds(&quick) < 120.0, "{} {}", seconds(&full), seconds(&quick));
        let own = plan(&["--quick", "--rounds", "7", "--seconds", "0.1", "--size", "64MiB"]).unwrap();
        assert_eq!((own.rounds, own.time, own.size_bytes), (7, Duration::from_millis(100), 64 * MIB));
    }

    #[test]
    fn rows_are_chosen_by_any_part_of_their_ids() {
        let ids = |arguments: &[&str]| plan(arguments).map(|plan| plan.rows.len());
        assert_eq!(ids(&["--only", "latency/nbdkit-file", "--only", "writes/"]), Ok(4));
        assert!(ids(&["--only", "nonsense"]).unwrap_err().contains("--list"));
        assert!(plan(&["--against", "other"]).unwrap().rows.iter().any(|row| row.id.contains("against-two")));
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        for (arguments, remedy) in [
            (["--size", "33MiB"], "multiple of 32MiB"),
            (["--seconds", "0"], "give 50ms to 10m"),
            (["--rounds", "0"], "1..=1000"),
        ] {
            assert!(plan(&arguments).err().unwrap().contains(remedy));
        }
    }
}
