//! `flashmob bench disk` beside fio, and beside a bare loop of system calls: the same file, pattern, block size, threads and state of the
//! page cache, in turn within one run. Prints the table of `make bench-fio`.

mod bare;
mod programs;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use flashmob_results::disk::Spread;

use programs::{Cache, Figures, Order, Question};

/// Compare `flashmob bench disk` with fio and with a bare loop.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; as a rule the one beside this one.
    #[arg(long)]
    flashmob: Option<PathBuf>,
    /// Folder for the file.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Rounds; medians of the ratios within a round are shown.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3.0)]
    time: f64,
    /// Size of the file.
    #[arg(long, default_value = "4GiB", value_parser = size)]
    size: u64,
    /// Only the rows whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Internal: be the bare loop, and print reads per second.
    #[arg(long, hide = true, num_args = 4)]
    bare: Option<Vec<String>>,
}

fn size(text: &str) -> Result<u64, String> {
    flashmob_core::units::parse_size(text).map_err(|e| e.to_string())
}

/// What is compared, with whom, and how close it is to be.
struct Row {
    name: &'static str,
    question: Question,
    /// fio, or the bare loop.
    against: Against,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    Fio,
    Bare,
}

/// A file that is cached while it is measured: small enough for that.
const WARM_BYTES: u64 = 512 << 20;

fn rows(time_s: f64) -> Vec<Row> {
    let question =
        |order, cache, block_bytes, threads, reads| Question { order, cache, block_bytes, threads, reads, time_s };
    let direct = |name, threads| Row {
        name,
        question: question(Order::Random, Cache::Direct, 4096, threads, None),
        against: Against::Fio,
    };
    let warm = |name, block_bytes, threads| Row {
        name,
        question: question(Order::Random, Cache::Warm, block_bytes, threads, None),
        against: Against::Bare,
    };
    vec![
        direct("4 KiB random direct, 1 thread", 1),
        direct("4 KiB random direct, 4 threads", 4),
        direct("4 KiB random direct, 16 threads", 16),
        Row {
            name: "1 B random cold, 1 thread",
            question: question(Order::Random, Cache::Cold, 1, 1, None),
            against: Against::Fio,
        },
        Row {
            name: "1 B random cold, 4 threads",
            question: question(Order::Random, Cache::Cold, 1, 4, None),
            against: Against::Fio,
        },
        Row {
            name: "4 KiB sequential cold, 1 thread",
            question: question(Order::Sequential, Cache::Cold, 4096, 1, Some(400_000)),
            against: Against::Fio,
        },
        warm("4 KiB random cached, 1 thread", 4096, 1),
        warm("4 KiB random cached, 2 threads", 4096, 2),
        warm("1 B random cached, 1 thread", 1, 1),
        warm("1 B random cached, 2 threads", 1, 2),
    ]
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.bare {
        Some(words) => bare::main(words),
        None => compare(&args),
    };
    flashmob_peers::outcome::exit(outcome)
}

fn compare(args: &Args) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let flashmob = args.flashmob.clone().unwrap_or_else(|| own.with_file_name("flashmob"));
    anyhow::ensure!(flashmob.is_file(), "{} is not there; build it first (make build)", flashmob.display());
    let folder = tempfile::Builder::new().prefix("bench-fio.").tempdir_in(&args.folder)?;
    let (large, small) = (folder.path().join("large"), folder.path().join("small"));
    let programs = programs::Programs { flashmob, own };
    programs.make(&large, args.size)?;
    programs.make(&small, WARM_BYTES)?;
    println!("| row | flashmob, reads/s | other | ratio (range) | p99 us, flashmob | p99 us, other | p99 ratio |");
    println!("|---|---|---|---|---|---|---|");
    for row in rows(args.time).iter().filter(|row| row.name.contains(&args.only)) {
        let file = if row.question.cache == Cache::Warm { &small } else { &large };
        let mut pairs: Vec<(Figures, Figures)> = Vec::new();
        for round in 0..args.rounds {
            let ours = || programs.flashmob(file, &row.question);
            let theirs = || match row.against {
                Against::Fio => programs.fio(file, &row.question),
                Against::Bare => programs.bare(file, &row.question),
            };
            // Who goes first changes from round to round.
            let pair = if round % 2 == 0 {
                let ours = ours()?;
                (ours, theirs()?)
            } else {
                let theirs = theirs()?;
                (ours()?, theirs)
            };
            pairs.push(pair);
            progress(&format!("{}: round {} of {}", row.name, round + 1, args.rounds));
        }
        progress("");
        println!("{}", line(row, &pairs));
        std::io::stdout().flush().context("cannot write the table")?;
    }
    Ok(())
}

/// A line for people who wait; it goes when the next one comes.
fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r{text}\x1b[K").and_then(|()| stderr.flush());
    }
}

fn line(row: &Row, pairs: &[(Figures, Figures)]) -> String {
    let rate = |of: fn(&(Figures, Figures)) -> f64| Spread::of(pairs.iter().map(of)).median;
    let ratios: Vec<f64> = pairs.iter().map(|(o, t)| o.per_second / t.per_second).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let p99: Vec<(f64, f64)> = pairs.iter().filter_map(|(o, t)| Some((o.p99_us?, t.p99_us?))).collect();
    let (ours_us, theirs_us, p99_ratio) = if p99.is_empty() {
        ("-".into(), "-".into(), "-".into())
    } else {
        let of = |pick: fn(&(f64, f64)) -> f64| Spread::of(p99.iter().map(pick)).median;
        (format!("{:.1}", of(|p| p.0)), format!("{:.1}", of(|p| p.1)), format!("{:.2}", of(|p| p.0 / p.1)))
    };
    let other = if row.against == Against::Fio { "fio" } else { "bare loop" };
    format!(
        "| {} | {:.0} | {} {:.0} | {:.3} ({least:.2}-{most:.2}) | {ours_us} | {theirs_us} | {p99_ratio} |",
        row.name,
        rate(|p| p.0.per_second),
        other,
        rate(|p| p.1.per_second),
        Spread::of(ratios.iter().copied()).median,
    )
}
