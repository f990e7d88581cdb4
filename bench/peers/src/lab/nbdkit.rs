//! One nbdkit on each node, its disk as slow as flash, and one client that keeps requests outstanding at all of them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::{Load, Stop, Target, run_on};

use crate::case::Case;
use crate::looks::{Seen, during};
use crate::{Args, Contender, Figures, Lab};

/// Where NBD servers listen.
const NBD_PORT: u16 = 10809;
/// How long servers may take to listen.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// One round.
pub fn measure(lab: &Lab) -> anyhow::Result<Figures> {
    let (threads, delay_ms) = (lab.args.disk_threads, lab.args.disk_delay_ms);
    // `exec`, so that the lab sees it end. What is not written of its memory takes none.
    let line = format!(
        "exec nbdkit -f -i $ADDRESS -p {NBD_PORT} --threads {threads} --filter=delay memory 10G rdelay={delay_ms}ms wdelay={delay_ms}ms"
    );
    lab.with_others(Contender::Nbdkit, &line)
}

/// The client inside a lab.
pub fn inside(args: &Args, case: &Case) -> anyhow::Result<Figures> {
    let nodes = std::env::var("FLASHMOB_NODES").context("the lab does not say where its nodes are")?;
    let nodes: Vec<Ipv4Addr> = nodes.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    for &node in &nodes {
        await_server(SocketAddr::from((node, NBD_PORT)))?;
    }
    let targets: Result<Vec<Target>, _> = nodes
        .iter()
        .map(|node| format!("nbd://{node}:{NBD_PORT}").parse().map(|uri| Target { uri, verify: None }))
        .collect();
    let targets = targets.map_err(|error| anyhow::anyhow!("{error}"))?;
    let load = Load {
        connections: case.nodes,
        threads: 1,
        outstanding: args.outstanding(case),
        block_bytes: case.load.block_bytes,
        pattern: Pattern::Random { seed: 1 },
        alignment: Alignment::Block,
        read_fraction: if case.load.is_read { 1.0 } else { 0.0 },
        stop: Stop::After(args.time()),
        warmup: args.warmup(),
        ..Load::default()
    };
    let (result, looks) = during(args.warmup(), args.time(), || run_on(&targets, &load, &mut |_| {}))?;
    let result = result?;
    ensure!(result.errors_total() == 0, "nbdkit answered with errors: {}", result.first_error.unwrap_or_default());
    let ms = |quantile| result.latency_ns.value_at_quantile(quantile) as f64 / 1e6;
    let seen = Seen { requests_per_s: result.requests_per_second(), p50_ms: ms(0.5), p99_ms: ms(0.99) };
    Ok(looks.figures(args, case, "nbdkit", &seen))
}

fn await_server(address: SocketAddr) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > READY_TIMEOUT => {
                return Err(error).with_context(|| format!("nbdkit at {address} does not listen; is it installed?"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
