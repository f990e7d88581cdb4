//! One nbdkit on each node, its disk as slow as flash, and one client that keeps reads outstanding at all of them.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flashmob::lab::status::{self, LabStatus};
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::{Load, LoadResult, Stop, Target, run_on};

use crate::{Args, Case, Figures, Lab, printed};

/// Where NBD servers listen.
const NBD_PORT: u16 = 10809;
/// How long servers may take to listen.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// One round: all sizes of reads.
pub fn measure(lab: &Lab, own: &Path) -> anyhow::Result<Vec<Figures>> {
    let args = lab.args;
    // `exec`, so that the lab sees it end. Its memory is never written, so it takes none.
    let line = format!(
        "exec nbdkit -f -i $ADDRESS -p {NBD_PORT} --threads {} --filter=delay memory 10G rdelay={}ms",
        args.nbdkit_threads, args.nbdkit_delay_ms
    );
    let mut command = lab.command();
    command.args(["--node-command", &line, "--"]).arg(own).args(["--inside", "--air", lab.air]);
    let sizes: Vec<String> = args.block_size.iter().map(u32::to_string).collect();
    command.args(["--block-size", &sizes.join(","), "--outstanding", &lab.outstanding.to_string()]);
    command.args(["--time", &args.time.to_string()]);
    serde_json::from_slice(&printed(&mut command)?).context("the client in the lab did not print figures")
}

/// The client inside a lab.
pub fn inside(args: &Args) -> anyhow::Result<()> {
    let socket = status::socket().context("this is not inside a lab")?;
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
    let mut all = Vec::new();
    for &block_bytes in &args.block_size {
        let outstanding = args.outstanding.first().copied().unwrap_or(1);
        let case = Case { air: args.air.clone(), nodes: nodes.len() as u32, block_bytes, outstanding };
        all.push(run(args, &socket, &targets, case)?);
    }
    println!("{}", serde_json::to_string(&all)?);
    Ok(())
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

/// What is counted, at one moment.
struct Look {
    at: Instant,
    lab: LabStatus,
    segments: Option<u64>,
}

impl Look {
    fn take(socket: &Path, begin: bool) -> anyhow::Result<Look> {
        Ok(Look { at: Instant::now(), lab: status::ask(socket, begin)?, segments: segments() })
    }
}

fn run(args: &Args, socket: &Path, targets: &[Target], case: Case) -> anyhow::Result<Figures> {
    let (warmup, time) = (args.warmup(), Duration::from_secs_f64(args.time));
    let load = Load {
        connections: case.nodes,
        threads: 1,
        outstanding: case.outstanding,
        block_bytes: case.block_bytes,
        pattern: Pattern::Random { seed: 1 },
        alignment: Alignment::Block,
        stop: Stop::After(time),
        warmup,
        ..Load::default()
    };
    let (result, looks) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| -> anyhow::Result<(Look, Look)> {
            std::thread::sleep(warmup);
            let begin = Look::take(socket, true)?;
            // A little less than the load takes, so that its end is not in it.
            std::thread::sleep(time.mul_f64(0.95));
            Ok((begin, Look::take(socket, false)?))
        });
        (run_on(targets, &load, &mut |_| {}), looking.join())
    });
    let (begin, end) = looks.map_err(|_| anyhow::anyhow!("looking at the lab failed"))??;
    let result = result?;
    ensure!(result.errors_total() == 0, "nbdkit answered with errors: {}", result.first_error.unwrap_or_default());
    Ok(figures(case, &result, &begin, &end))
}

fn figures(case: Case, result: &LoadResult, begin: &Look, end: &Look) -> Figures {
    let seconds = end.at.duration_since(begin.at).as_secs_f64();
    let reads = (result.requests_per_second() * seconds).max(1.0);
    let (before, after) = (begin.lab.counters, end.lab.counters);
    let elapsed_ns = (end.lab.elapsed_ns - begin.lab.elapsed_ns).max(1);
    let segments = begin.segments.zip(end.segments).map(|(before, after)| after.saturating_sub(before));
    Figures {
        case,
        server: "nbdkit".to_string(),
        reads_per_s: result.requests_per_second(),
        p50_ms: result.latency_ns.value_at_quantile(0.5) as f64 / 1e6,
        p99_ms: result.latency_ns.value_at_quantile(0.99) as f64 / 1e6,
        frames_per_read: (after.frames - before.frames) as f64 / reads,
        packets_per_read: segments.map(|segments| segments as f64 / reads),
        busy_fraction: (after.busy_ns - before.busy_ns) as f64 / elapsed_ns as f64,
        late_p99_us: end.lab.lateness.p99_us,
        late_fraction: end.lab.lateness.late_fraction,
        is_void: end.lab.is_late,
    }
}

/// TCP segments of this network, both directions.
fn segments() -> Option<u64> {
    let snmp = std::fs::read_to_string("/proc/self/net/snmp").ok()?;
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |name: &str| {
        let column = names.split_whitespace().position(|n| n == name)?;
        values.split_whitespace().nth(column)?.parse::<u64>().ok()
    };
    Some(value("InSegs")? + value("OutSegs")?)
}
