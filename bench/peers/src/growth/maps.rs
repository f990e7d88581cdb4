//! Volumes with copies, of several sizes over several numbers of nodes: their table.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use flashmob_results::disk::Spread;
use serde::Serialize;

use super::map::Figures;

/// Numbers of nodes.
const NODES: [u32; 3] = [10, 100, 1000];
/// Sizes of volumes, in TiB; the last is the largest that there is.
const SIZES_TIB: [u32; 3] = [1, 10, 64];

/// What the volumes of one size came to.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    nodes: u32,
    volume_tib: u32,
    chunks: u32,
    file_bytes: u64,
    map_bytes: u64,
    gateway_bytes: u64,
    placed_s: Spread,
    read_s: Spread,
    started_s: Spread,
    read_request_ns: Spread,
    first_write_ns: Spread,
    write_ns: Spread,
    /// Of one processor.
    idle_percent: Spread,
}

impl Row {
    fn of(volume_tib: u32, rounds: &[Figures]) -> Row {
        let spread = |of: fn(&Figures) -> f64| Spread::of(rounds.iter().map(of));
        // Of memory the least: other rounds have more of what was not given back.
        let least = |of: fn(&Figures) -> u64| rounds.iter().map(of).min().unwrap_or_default();
        let one = &rounds[0];
        Row {
            nodes: one.nodes,
            volume_tib,
            chunks: one.chunks,
            file_bytes: one.file_bytes,
            map_bytes: least(|f| f.map_bytes),
            gateway_bytes: least(|f| f.gateway_bytes),
            placed_s: spread(|f| f.placed_ns as f64 / 1e9),
            read_s: spread(|f| f.read_ns as f64 / 1e9),
            started_s: spread(|f| f.started_ns as f64 / 1e9),
            read_request_ns: spread(|f| f.read_request_ns),
            first_write_ns: spread(|f| f.first_write_ns),
            write_ns: spread(|f| f.write_ns),
            idle_percent: spread(|f| f.idle_ns_per_s / 1e7),
        }
    }

    fn line(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        format!(
            "| {} | {} | {:.1} | {:.0} | {:.1} | {:.2} | {:.2} | {:.3} | {} | {} | {} | {:.3} |",
            self.volume_tib,
            self.nodes,
            mib(self.file_bytes),
            mib(self.map_bytes),
            mib(self.gateway_bytes),
            self.placed_s.median,
            self.read_s.median,
            self.started_s.median,
            range(&self.read_request_ns),
            range(&self.first_write_ns),
            range(&self.write_ns),
            self.idle_percent.median,
        )
    }
}

fn range(of: &Spread) -> String {
    format!("{:.0} ({:.0} to {:.0})", of.median, of.min, of.max)
}

const HEADING: &str = "| volume, TiB | nodes | map's file, MiB | memory of the map, MiB | of the gateway beside it, MiB | making it, s | reading it, s | \
    start, s | read, ns | first write to a chunk, ns | write, ns | idle, % of a processor |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// Measures them, each in a process of its own, and prints the table.
pub fn compare(rounds: u32) -> anyhow::Result<Vec<Row>> {
    let cases: Vec<(u32, u32)> =
        SIZES_TIB.iter().flat_map(|&tib| NODES.iter().map(move |&nodes| (tib, nodes))).collect();
    let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); cases.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            figures[at].push(in_own_process(cases[at])?);
        }
    }
    let rows: Vec<Row> = cases.iter().zip(&figures).map(|(&(tib, _), rounds)| Row::of(tib, rounds)).collect();
    println!("\nvolumes with two copies of each chunk of 4 MiB:\n\n{HEADING}");
    for row in &rows {
        println!("{}", row.line());
    }
    Ok(rows)
}

fn in_own_process((volume_tib, nodes): (u32, u32)) -> anyhow::Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--only", &nodes.to_string(), "--map-tib", &volume_tib.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "a map of {volume_tib} TiB over {nodes} nodes failed");
    serde_json::from_slice(&output.stdout).context("the process for one map did not print figures")
}
