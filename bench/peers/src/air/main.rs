//! How much of what the air and the flash can do a cluster gets, in virtual time: requests of several sizes, one to 32 nodes, several airs, wired and
//! wireless gateways. Prints the table of `make bench-air`, and writes it as JSON and as a figure.

mod case;
mod drawn;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use clap::Parser;
use flashmob_lab::air::Profile;
use flashmob_peers::limit::{self, Cluster, Load};
use flashmob_peers::outcome;

use case::{Acks, Case, Row};

/// What is asked for unless others are named.
const LOADS: [Load; 5] = [Load::read(1), Load::read(512), Load::read(4096), Load::read(65_536), Load::write(4096)];

/// Simulate clusters over several airs, and say what share of the limit they reach.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 32])]
    nodes: Vec<u32>,
    /// Airs.
    #[arg(long = "air", value_delimiter = ';', default_values_t = ["11n-2014".to_string(), "11n".to_string(), "11ac".to_string()])]
    airs: Vec<String>,
    /// Loads: `read-SIZE` or `write-SIZE`, size in bytes.
    #[arg(long = "load", value_delimiter = ',', default_values_t = LOADS)]
    loads: Vec<Load>,
    /// Attachments of the gateway.
    #[arg(long = "gateway", value_delimiter = ',', default_values_t = ["wired".to_string(), "wireless".to_string()])]
    gateways: Vec<String>,
    /// When TCP acknowledges: `linux`, `late`, or a number of segments.
    #[arg(long, value_delimiter = ',', default_values_t = [Acks::Linux])]
    acks: Vec<Acks>,
    /// Requests outstanding for each node; a quarter of that for requests of 64 KiB and more.
    #[arg(long, default_value_t = 64)]
    outstanding: u32,
    /// Links of the gateway to each node.
    #[arg(long, default_value_t = 1)]
    links: u16,
    /// Virtual seconds of each measurement, at least.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Simulations at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The first random seed.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Folder for air.json and air.svg.
    #[arg(long, default_value = "target/bench-air")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    outcome::exit(compare(&Args::parse()))
}

fn compare(args: &Args) -> anyhow::Result<()> {
    ensure!(args.seconds > 0.0 && args.seconds < 3600.0, "--seconds: above 0, below 3600");
    let mut cases = Vec::new();
    for air in &args.airs {
        let profile = Profile::parse(air).with_context(|| format!("air {air}"))?;
        for gateway in &args.gateways {
            let gateway = limit::attachment(gateway)?;
            for &load in &args.loads {
                for &nodes in &args.nodes {
                    let (air_profile, outstanding) = (profile.clone(), load.outstanding(args.outstanding));
                    let cluster = Cluster { air: air_profile, gateway, load, nodes, links: args.links, outstanding };
                    cases.push(Case { air: air.clone(), cluster });
                }
            }
        }
    }
    let rows = simulate_all(args, &cases)?;
    println!("{}", case::HEADING);
    rows.iter().for_each(|row| println!("{}", row.line()));
    outcome::write(&args.folder, "air.json", &serde_json::to_string_pretty(&rows)?)?;
    outcome::write(&args.folder, "air.svg", &drawn::svg(&rows)?)?;
    eprintln!("written: {0}/air.json and {0}/air.svg", args.folder.display());
    Ok(())
}

/// All cases, several at once. The order of the result is theirs.
fn simulate_all(args: &Args, cases: &[Case]) -> anyhow::Result<Vec<Row>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                while let Some((at, case)) = cases.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                    let rows = case.simulate(&args.acks, args.seconds, args.seed);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((at, rows));
                    eprint!("\r{} of {} cases ", done.len(), cases.len());
                }
            });
        }
    });
    eprintln!();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    let rows: anyhow::Result<Vec<Vec<Row>>> = done.into_iter().map(|(_, rows)| rows).collect();
    Ok(rows?.into_iter().flatten().collect())
}
