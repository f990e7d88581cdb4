//! `flashmob bench net` beside iperf3: the same time and streams, in turn within one run, on loopback and between two network namespaces.
//! Each program measures to its own server. Prints the table of `make bench-net`, or the same as JSON.

mod path;
mod programs;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use flashmob_results::disk::Spread;
use serde::Serialize;

use path::Path;
use programs::{Figures, Programs};

/// Compare `flashmob bench net` with iperf3.
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; as a rule the one beside this one.
    #[arg(long)]
    flashmob: Option<PathBuf>,
    /// Rounds; medians of the ratios within a round are shown.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2.0)]
    time: f64,
    /// Only the rows whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// What one row came to.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    streams: u32,
    rounds: Vec<Round>,
    /// Median of the ratios within a round, flashmob by iperf3, with the least and the greatest.
    ratio: Spread,
}

/// Both, one after the other.
#[derive(Debug, Serialize)]
struct Round {
    flashmob: Figures,
    iperf3: Figures,
}

fn main() -> ExitCode {
    flashmob_peers::outcome::exit(compare(&Args::parse()))
}

fn compare(args: &Args) -> anyhow::Result<()> {
    let flashmob =
        args.flashmob.clone().map_or_else(|| Ok(std::env::current_exe()?.with_file_name("flashmob")), anyhow::Ok)?;
    anyhow::ensure!(flashmob.is_file(), "{} is not there; build it first (make build)", flashmob.display());
    let programs = Programs { flashmob, time_s: args.time };
    let mut rows = Vec::new();
    if !args.json {
        println!(
            "| row | flashmob, Gbit/s | iperf3, Gbit/s | ratio (range) | processor s by Gbit, flashmob | iperf3 |"
        );
        println!("|---|---|---|---|---|---|");
    }
    for path in [Path::loopback(), Path::veth()] {
        let path = match path {
            Ok(path) => path,
            Err(error) => {
                eprintln!("not measured: {error:#}");
                continue;
            }
        };
        for streams in [1, 4] {
            let name =
                format!("TCP over {}, {streams} {}", path.name(), if streams == 1 { "stream" } else { "streams" });
            if !name.contains(&args.only) {
                continue;
            }
            let row = measure(args, &programs, &path, streams, name)?;
            if !args.json {
                println!("{}", line(&row));
                std::io::stdout().flush().context("cannot write the table")?;
            }
            rows.push(row);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    }
    Ok(())
}

fn measure(args: &Args, programs: &Programs, path: &Path, streams: u32, name: String) -> anyhow::Result<Row> {
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        // Who goes first changes from round to round.
        let pair = if round % 2 == 0 {
            let flashmob = programs.flashmob(path, streams)?;
            Round { flashmob, iperf3: programs.iperf3(path, streams)? }
        } else {
            let iperf3 = programs.iperf3(path, streams)?;
            Round { flashmob: programs.flashmob(path, streams)?, iperf3 }
        };
        rounds.push(pair);
        progress(&format!("{name}: round {} of {}", round + 1, args.rounds));
    }
    progress("");
    let ratio = Spread::of(rounds.iter().map(|r| r.flashmob.bits_per_second / r.iperf3.bits_per_second));
    Ok(Row { name, streams, rounds, ratio })
}

/// A line for people who wait; it goes when the next one comes.
fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r{text}\x1b[K").and_then(|()| stderr.flush());
    }
}

fn line(row: &Row) -> String {
    let median = |of: fn(&Round) -> f64| Spread::of(row.rounds.iter().map(of)).median;
    format!(
        "| {} | {:.2} | {:.2} | {:.3} ({:.2}-{:.2}) | {:.4} | {:.4} |",
        row.name,
        median(|r| r.flashmob.bits_per_second / 1e9),
        median(|r| r.iperf3.bits_per_second / 1e9),
        row.ratio.median,
        row.ratio.min,
        row.ratio.max,
        median(|r| r.flashmob.cpu_s_by_gigabit()),
        median(|r| r.iperf3.cpu_s_by_gigabit()),
    )
}
