//! How cost grows with the number of nodes: simulated clusters of 10 to 1,000 nodes, each in a process of its own. Prints the table of
//! `make bench-growth`, and writes it as JSON and as a figure. The same of volumes with copies: nodes and the size of the map.
//!
//! All clusters are made of the same cells under the same load for each node, so that whatever is not in proportion to the nodes
//! is the program's doing.

mod drawn;
mod map;
mod maps;
mod size;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use flashmob_peers::outcome;
use flashmob_results::disk::Spread;
use serde::Serialize;

use size::{Figures, Load};

/// Simulate ever larger clusters, and say what each node costs.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 30, 100, 300, 1000])]
    nodes: Vec<u32>,
    /// Rounds; medians are shown.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Virtual seconds of all nodes together, in each round.
    #[arg(long, default_value_t = 500.0)]
    node_seconds: f64,
    /// Which tables: of clusters, of maps.
    #[arg(long, value_delimiter = ',', default_values_t = ["clusters".to_string(), "maps".to_string()])]
    of: Vec<String>,
    /// Folder for growth.json, growth.svg and maps.json.
    #[arg(long, default_value = "target/bench-growth")]
    folder: PathBuf,
    /// Internal: simulate this number of nodes, and print figures as JSON.
    #[arg(long, hide = true)]
    only: Option<u32>,
    /// Internal: under this load.
    #[arg(long, hide = true, default_value = "busy")]
    load: Load,
    /// Internal: a volume with copies of so many TiB.
    #[arg(long, hide = true)]
    map_tib: Option<u32>,
}

/// What the clusters of one size came to under one load.
#[derive(Clone, Debug, Serialize)]
struct Row {
    load: Load,
    nodes: u32,
    cells: u32,
    /// Modelled reads each second.
    reads_per_s: Spread,
    /// Events that the simulator does in a second of processor time.
    events_per_s: Spread,
    /// Events for each read.
    events_per_read: Spread,
    /// Processor time in the gateway for each read.
    gateway_ns_per_read: Spread,
    /// Time of one of the gateway's turns.
    gateway_us_per_turn: Spread,
    /// Reads in one of its turns.
    reads_per_turn: Spread,
    /// Memory of all for each node.
    kib_per_node: Spread,
}

impl Row {
    fn of((nodes, load): (u32, Load), rounds: &[Figures]) -> Row {
        let spread = |of: fn(&Figures) -> f64| Spread::of(rounds.iter().map(of));
        Row {
            load,
            nodes,
            cells: size::cells(nodes),
            reads_per_s: spread(|f| f.reads as f64 / f.virtual_s),
            events_per_s: spread(|f| f.events as f64 / f.processor_s),
            events_per_read: spread(|f| f.events as f64 / f.virtual_s_in_all * f.virtual_s / f.reads.max(1) as f64),
            gateway_ns_per_read: spread(|f| f.gateway_ns as f64 / f.reads.max(1) as f64),
            gateway_us_per_turn: spread(|f| f.gateway_ns as f64 / 1e3 / f.turns.max(1) as f64),
            reads_per_turn: spread(|f| f.reads as f64 / f.turns.max(1) as f64),
            kib_per_node: spread(|f| f.memory_bytes as f64 / 1024.0 / f64::from(f.nodes)),
        }
    }

    fn line(&self) -> String {
        let with_range =
            |s: &Spread, digits: usize| format!("{:.digits$} ({:.digits$} to {:.digits$})", s.median, s.min, s.max);
        format!(
            "| {} | {} | {:.0} | {} | {:.2} | {} | {:.1} | {:.1} | {} |",
            self.nodes,
            self.cells,
            self.reads_per_s.median,
            with_range(&self.events_per_s, 0),
            self.events_per_read.median,
            with_range(&self.gateway_ns_per_read, 0),
            self.gateway_us_per_turn.median,
            self.reads_per_turn.median,
            with_range(&self.kib_per_node, 0),
        )
    }
}

const HEADING: &str = "| nodes | cells | reads/s, modelled | events/s of the simulator | events per read | gateway, ns per read | us per turn | \
    reads per turn | KiB per node |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match (args.only, args.map_tib) {
        (Some(nodes), Some(volume_tib)) => map::print(nodes, volume_tib),
        (Some(nodes), None) => size::print(nodes, args.load, args.node_seconds),
        (None, _) => tables(&args),
    };
    outcome::exit(outcome)
}

fn tables(args: &Args) -> anyhow::Result<()> {
    let known = ["clusters", "maps"];
    if let Some(other) = args.of.iter().find(|of| !known.contains(&of.as_str())) {
        bail!("--of {other}: there is {}", known.join(" and "));
    }
    if args.of.iter().any(|of| of == "clusters") {
        compare(args)?;
    }
    if args.of.iter().any(|of| of == "maps") {
        ensure!(args.rounds > 0, "give at least one round");
        let rows = maps::compare(args.rounds)?;
        outcome::write(&args.folder, "maps.json", &serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

fn compare(args: &Args) -> anyhow::Result<()> {
    ensure!(!args.nodes.is_empty() && args.rounds > 0, "give at least one number of nodes and one round");
    let cases: Vec<(u32, Load)> =
        [Load::Busy, Load::Quiet].iter().flat_map(|&load| args.nodes.iter().map(move |&nodes| (nodes, load))).collect();
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); cases.len()];
    for round in 0..args.rounds {
        // There and back in turns: a machine that grows slower must not be taken for nodes that cost more.
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            figures[at].push(in_own_process(cases[at], args.node_seconds)?);
        }
    }
    let rows: Vec<Row> = cases.iter().zip(&figures).map(|(&case, rounds)| Row::of(case, rounds)).collect();
    for (load, words) in
        [(Load::Busy, "64 reads outstanding for each node"), (Load::Quiet, "10 reads outstanding in all")]
    {
        println!("\n{words}:\n\n{HEADING}");
        for row in rows.iter().filter(|row| row.load == load) {
            println!("{}", row.line());
        }
    }
    outcome::write(&args.folder, "growth.json", &serde_json::to_string_pretty(&rows)?)?;
    outcome::write(&args.folder, "growth.svg", &drawn::svg(&rows)?)?;
    eprintln!("written: {0}/growth.json and {0}/growth.svg", args.folder.display());
    Ok(())
}

/// A process of its own, so that nothing of the sizes before is in its memory.
fn in_own_process((nodes, load): (u32, Load), node_seconds: f64) -> anyhow::Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--only", &nodes.to_string(), "--node-seconds", &node_seconds.to_string()]);
    command.args(["--load", if load == Load::Busy { "busy" } else { "quiet" }]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "simulating {nodes} nodes failed");
    serde_json::from_slice(&output.stdout).context("the process for one size did not print figures")
}
