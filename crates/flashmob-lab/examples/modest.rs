//! A client with few requests beside a load with many, in virtual time: a table of what each takes from the other.
//!
//! `cargo run --release -p flashmob-lab --example modest [MILLISECONDS]`: how far apart the modest client's reads are, 20 by default.

use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_lab::cluster::fairness::{Modest, quantile, run};
use flashmob_lab::cluster::{Acks, Cost, Settings};
use flashmob_lab::{air, flash};

/// Air, flash, bytes of each read, and numbers of nodes.
const CASES: [(&str, Option<&str>, u32, [u32; 3]); 5] = [
    ("11ac", Some("nexus7-emmc"), 4096, [1, 2, 8]),
    ("11n-2014", Some("nexus7-emmc"), 4096, [1, 2, 8]),
    ("ideal", Some("nvme"), 4096, [1, 2, 8]),
    ("ideal", None, 4096, [1, 2, 8]),
    ("ideal", None, 1, [1, 2, 8]),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let every_ms: u64 = std::env::args().nth(1).map_or(Ok(20), |word| word.parse())?;
    println!("A read every {every_ms} ms beside 1,024 outstanding; latencies in microseconds.\n");
    println!("| air | flash | bytes | nodes | alone p50 | p99 | beside p50 | p99 | p50 x | p99 x | the load keeps |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (air, flash, block_bytes, counts) in CASES {
        for nodes in counts {
            let settings = settings(nodes, air, flash, block_bytes)?;
            let shared = run(&settings, Modest { block_bytes, every_ns: every_ms * 1_000_000 })?;
            let us = |alone, q| {
                quantile(if alone { &shared.alone_ns } else { &shared.beside_ns }, q).as_nanos() as f64 / 1e3
            };
            let (alone, beside) = ((us(true, 0.5), us(true, 0.99)), (us(false, 0.5), us(false, 0.99)));
            println!(
                "| `{air}` | {} | {block_bytes} | {nodes} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.2} |",
                flash.unwrap_or("none"),
                alone.0,
                alone.1,
                beside.0,
                beside.1,
                beside.0 / alone.0,
                beside.1 / alone.1,
                shared.load.requests as f64 / shared.load_alone.requests as f64
            );
        }
    }
    Ok(())
}

fn settings(
    nodes: u32,
    air: &str,
    flash: Option<&str>,
    block_bytes: u32,
) -> Result<Settings, Box<dyn std::error::Error>> {
    Ok(Settings {
        nodes,
        loaded_nodes: nodes,
        cells: 1,
        air: air::Profile::parse(air)?,
        gateway: air::Attachment::Wired,
        flash: flash.map(flash::Profile::named).transpose()?,
        order: IssueOrder::Sorted,
        extent_bytes: 10_000_000_000,
        links: 1,
        batch: BatchMode::Auto,
        block_bytes,
        read_percent: 100.0,
        outstanding: 1024,
        every_ns: None,
        warmup: Duration::from_secs(15),
        time: Duration::from_secs(10),
        seed: 1,
        gateway_cost: Cost::COMPUTER,
        node_cost: Cost::COMPUTER,
        copies: None,
        weak: None,
        rebuild: None,
        acks: Acks::Linux,
    })
}
