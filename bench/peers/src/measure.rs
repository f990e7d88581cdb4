//! Measures one row once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::{Load, LoadResult, Stop, Target, run_on};
use flashmob_bench::nbd::connection::{Connection, Options};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::native::{self, Done};
use crate::pingpong;
use crate::proc::{Rss, Usage, cpu_of_ended_children, segments_sent, usage};
use crate::redis;
use crate::rows::{Kind, Row, Shape};
use crate::servers::{Server, Servers};
use crate::tools;
use crate::written::{BLOCK_BYTES, Written, check_found};

/// One answer of so many is compared with the file, where answers are large and where they are small.
const VERIFY_LARGE_ONE_OF: u32 = 64;
const VERIFY_SMALL_ONE_OF: u32 = 16;
/// A server that ends its process for a connection has then told its parent.
const SETTLE: Duration = Duration::from_millis(20);
/// How much earlier a greedy client begins.
const HEAD_START: Duration = Duration::from_millis(100);
/// The numbers of calls, or connections, that are tried to find the best.
const WIDTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What a row came to in one round.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Requests per second; of iperf3, MiB.
    pub per_second: f64,
    pub bytes_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Of requests, or of calls and pipelines.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Processor time per request; of the client where it is known.
    pub client_cpu_us: Option<f64>,
    pub front_cpu_us: f64,
    pub back_cpu_us: f64,
    /// TCP segments of the whole machine per request.
    pub segments_per_request: Option<f64>,
    pub front_rss: Memory,
    pub back_rss: Memory,
    pub verified_bytes: u64,
}

/// Resident memory of the largest process of a role, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Memory {
    pub anon_bytes: u64,
    pub file_bytes: u64,
}

impl From<Rss> for Memory {
    fn from(rss: Rss) -> Memory {
        Memory { anon_bytes: rss.anon_bytes, file_bytes: rss.file_bytes }
    }
}

/// A byte was wrong: nothing that is measured is worth anything.
#[derive(Debug)]
pub struct WrongBytes(pub String);

impl std::fmt::Display for WrongBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WRONG BYTES: {}", self.0)
    }
}

impl std::error::Error for WrongBytes {}

/// Measures rows.
pub struct Measurer {
    pub servers: Servers,
    pub dir: PathBuf,
    pub time: Duration,
    /// How many calls or connections are best, by row.
    pub widths: BTreeMap<String, usize>,
    /// Writing rounds so far, of all servers: each has a stamp of its own.
    pub write_rounds: u64,
}

/// What the processes used while something ran.
struct Watch {
    pids: (Vec<u32>, Vec<u32>),
    before: (Usage, Usage),
    peak: (Rss, Rss),
    segments: Option<u64>,
}

impl Watch {
    fn begin(pids: (Vec<u32>, Vec<u32>)) -> Watch {
        let before = (usage(&pids.0), usage(&pids.1));
        Watch { peak: (before.0.rss, before.1.rss), before, pids, segments: segments_sent() }
    }

    fn look(&mut self) -> (Usage, Usage) {
        let now = (usage(&self.pids.0), usage(&self.pids.1));
        self.peak = (self.peak.0.max(now.0.rss), self.peak.1.max(now.1.rss));
        now
    }

    fn end(mut self, sample: &mut Sample) {
        let segments = segments_sent();
        std::thread::sleep(SETTLE);
        let now = self.look();
        let requests = (sample.requests as f64).max(1.0);
        let per = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() * 1e6 / requests;
        sample.front_cpu_us = per(now.0.cpu, self.before.0.cpu);
        sample.back_cpu_us = per(now.1.cpu, self.before.1.cpu);
        sample.front_rss = self.peak.0.into();
        sample.back_rss = self.peak.1.into();
        sample.segments_per_request =
            segments.zip(self.segments).map(|(after, before)| after.saturating_sub(before) as f64 / requests);
    }
}

impl Measurer {
    /// Measures a row; rows of one round share their seed, and so their offsets.
    pub fn measure(&mut self, row: &Row, seed: u64) -> anyhow::Result<Sample> {
        let width = self.widths.get(&row.id).copied().unwrap_or(1);
        self.measure_for(row, seed, self.time, width)
    }

    /// Finds out how many calls or connections are best for rows that leave it open.
    pub fn find_width(&mut self, row: &Row, time: Duration) -> anyhow::Result<()> {
        if !matches!(row.kind, Kind::Native { .. } | Kind::Redis { .. }) {
            return Ok(());
        }
        let mut best = (0.0, 1);
        for width in WIDTHS {
            let rate = self.measure_for(row, 0, time, width)?.per_second;
            if rate > best.0 {
                best = (rate, width);
            }
        }
        self.widths.insert(row.id.clone(), best.1);
        Ok(())
    }

    fn measure_for(&mut self, row: &Row, seed: u64, time: Duration, width: usize) -> anyhow::Result<Sample> {
        match row.kind {
            Kind::Pread { block_bytes } => {
                let (reads, elapsed) = tools::pread(&self.servers.image().whole, block_bytes, time, seed)?;
                let per_second = reads as f64 / elapsed.as_secs_f64();
                let bytes_per_second = per_second * f64::from(block_bytes);
                Ok(Sample { per_second, bytes_per_second, requests: reads, ..Sample::default() })
            }
            Kind::Nbd { server, shape } => self.nbd(server, &shape, time, seed),
            Kind::Fio { server, shape } => self.fio(server, &shape, time),
            Kind::Native { server, spans, block_bytes } => {
                self.native(server, &native::Asking { spans, block_bytes, calls: width, time, seed })
            }
            Kind::Redis { block_bytes } => self.redis(block_bytes, width, time, seed),
            Kind::Iperf => {
                let port = self.servers.get(Server::Iperf)?.port;
                let bytes_per_second = tools::iperf(port, time)?;
                Ok(Sample { per_second: bytes_per_second / f64::from(1 << 20), bytes_per_second, ..Sample::default() })
            }
            Kind::PingPong => Ok(done_sample(&pingpong::run(time)?, 4096, Duration::ZERO)),
            Kind::Beside { server, greedy } => self.beside(server, greedy, time, seed),
        }
    }

    fn nbd(&mut self, server: Server, shape: &Shape, time: Duration, seed: u64) -> anyhow::Result<Sample> {
        let mut targets = self.servers.targets(server)?;
        let written = if shape.write { self.stamped(&mut targets) } else { Vec::new() };
        let mut watch = Watch::begin(self.servers.get(server)?.pids());
        let load = load(shape, time, seed);
        let result = checked(run_on(&targets, &load, &mut |_| {
            watch.look();
        })?)?;
        let mut sample = sample(&result);
        watch.end(&mut sample);
        if shape.write {
            self.read_back(&targets)?;
            let blocks =
                targets.iter().filter_map(|t| t.verify.as_ref()?.len_bytes()).sum::<u64>() / BLOCK_BYTES as u64;
            check_found(written.iter().map(|w| w.found_blocks()).sum(), blocks, result.writes)?;
        }
        Ok(sample)
    }

    /// Has what is written stamped, so that it differs from what is there.
    fn stamped(&mut self, targets: &mut [Target]) -> Vec<Arc<Written>> {
        self.write_rounds += 1;
        let mut all = Vec::new();
        for verify in targets.iter_mut().filter_map(|target| target.verify.as_mut()) {
            let written = Arc::new(Written::new(verify.clone(), self.write_rounds));
            *verify = written.clone();
            all.push(written);
        }
        all
    }

    /// Reads everything that was written, and compares it.
    fn read_back(&self, targets: &[Target]) -> anyhow::Result<()> {
        let shape = Shape { connections: 1, outstanding: 8, block_bytes: 1 << 20, sequential: true, write: false };
        for target in targets {
            let size = Connection::open(&target.uri, &Options::default())?.export().size_bytes;
            let load =
                Load { stop: Stop::Requests(size >> 20), verify_one_of: 1, ..load(&shape, Duration::from_secs(1), 0) };
            checked(run_on(std::slice::from_ref(target), &load, &mut |_| ())?)?;
        }
        Ok(())
    }

    fn fio(&mut self, server: Server, shape: &Shape, time: Duration) -> anyhow::Result<Sample> {
        let running = self.servers.get(server)?;
        let uri = running.exports.first().context("no export")?.uri.clone();
        let watch = Watch::begin(running.pids());
        let cpu_before = cpu_of_ended_children();
        let result = tools::fio(&self.dir, &uri, shape, time)?;
        // Its start, which takes a few hundredths of a second, is in it.
        let cpu = cpu_of_ended_children().saturating_sub(cpu_before);
        let mut sample = Sample {
            per_second: result.per_second,
            bytes_per_second: result.per_second * f64::from(shape.block_bytes),
            requests: result.requests,
            client_cpu_us: Some(cpu.as_secs_f64() * 1e6 / (result.requests as f64).max(1.0)),
            p50_us: Some(result.p50_ns / 1000.0),
            p99_us: Some(result.p99_ns / 1000.0),
            ..Sample::default()
        };
        watch.end(&mut sample);
        Ok(sample)
    }

    fn native(&mut self, server: Server, asking: &native::Asking) -> anyhow::Result<Sample> {
        let running = self.servers.get(server)?;
        let config = running.config.clone().context("no configuration")?;
        let (_, nodes) = running.pids();
        let whole = self.servers.image().whole.clone();
        let reference = self.servers.reference(&whole)?;
        let volume = native::open(&config)?;
        // The gateway is part of the client here, and no process of its own.
        let watch = Watch::begin((Vec::new(), nodes));
        let cpu_before = process_cpu();
        let done = native::run(&volume, asking, &reference)?;
        let cpu = process_cpu().saturating_sub(cpu_before);
        let mut sample = done_sample(&done, asking.block_bytes, cpu);
        watch.end(&mut sample);
        Ok(sample)
    }

    fn redis(&mut self, block_bytes: u32, connections: usize, time: Duration, seed: u64) -> anyhow::Result<Sample> {
        let running = self.servers.get(Server::Redis)?;
        let (port, pids) = (running.port, running.pids());
        let whole = self.servers.image().whole.clone();
        let reference = self.servers.reference(&whole)?;
        let asking =
            redis::Asking { port, len_bytes: self.servers.redis_bytes(), block_bytes, connections, time, seed };
        let watch = Watch::begin(pids);
        let cpu_before = process_cpu();
        let done = redis::run(&asking, &reference)?;
        let cpu = process_cpu().saturating_sub(cpu_before);
        let mut sample = done_sample(&done, block_bytes, cpu);
        watch.end(&mut sample);
        Ok(sample)
    }

    /// One outstanding read, beside a greedy client if there is one.
    fn beside(&mut self, server: Server, greedy: u32, time: Duration, seed: u64) -> anyhow::Result<Sample> {
        let targets = self.servers.targets(server)?;
        let watch = Watch::begin(self.servers.get(server)?.pids());
        let single = Shape { connections: 1, outstanding: 1, block_bytes: 4096, sequential: false, write: false };
        let stop = Arc::new(AtomicBool::new(false));
        let limit = time + Duration::from_secs(60);
        let result = std::thread::scope(|scope| {
            let other = (greedy > 0).then(|| {
                let shape = Shape { outstanding: greedy, ..single };
                let load = Load { cancel: Some(stop.clone()), ..load(&shape, limit, seed + 1) };
                let targets = &targets;
                scope.spawn(move || run_on(targets, &load, &mut |_| ()))
            });
            if other.is_some() {
                std::thread::sleep(HEAD_START);
            }
            let result = run_on(&targets, &load(&single, time, seed), &mut |_| ());
            stop.store(true, Ordering::Relaxed);
            let other = match other.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(other)) => Some(checked(other?)?),
                Some(Err(_)) => anyhow::bail!("the greedy client panicked"),
                None => None,
            };
            anyhow::Ok((checked(result?)?, other))
        })?;
        let (result, other) = result;
        let mut sample = sample(&result);
        // Costs are those of both clients' requests; latency and rate those of the one alone.
        if let Some(other) = other {
            sample.requests += other.reads;
            sample.verified_bytes += other.verified_bytes;
            let cpu = result.cpu + other.cpu;
            sample.client_cpu_us = Some(cpu.as_secs_f64() * 1e6 / (sample.requests as f64).max(1.0));
        }
        watch.end(&mut sample);
        Ok(sample)
    }

    /// System calls per request of a server's front and of what is behind it, in a short run of its own.
    pub fn system_calls(
        &mut self,
        server: Server,
        shape: &Shape,
        time: Duration,
    ) -> anyhow::Result<(f64, Option<f64>)> {
        let targets = self.servers.targets(server)?;
        let (front, back) = self.servers.get(server)?.pids();
        let traced = tools::Strace::attach(&self.dir, "front", &front)?;
        let behind = if back.is_empty() { None } else { Some(tools::Strace::attach(&self.dir, "back", &back)?) };
        let result = checked(run_on(&targets, &load(shape, time, 0), &mut |_| ())?)?;
        let requests = ((result.reads + result.writes) as f64).max(1.0);
        let behind = behind.map(tools::Strace::count).transpose()?;
        Ok((traced.count()? as f64 / requests, behind.map(|count| count as f64 / requests)))
    }
}

fn load(shape: &Shape, time: Duration, seed: u64) -> Load {
    Load {
        connections: shape.connections,
        outstanding: shape.outstanding,
        block_bytes: shape.block_bytes,
        pattern: if shape.sequential { Pattern::Sequential } else { Pattern::Random { seed } },
        alignment: Alignment::Block,
        read_fraction: if shape.write { 0.0 } else { 1.0 },
        stop: Stop::After(time),
        verify_one_of: if shape.block_bytes >= 4096 { VERIFY_LARGE_ONE_OF } else { VERIFY_SMALL_ONE_OF },
        ..Load::default()
    }
}

/// Refuses a result with wrong bytes or errors.
fn checked(result: LoadResult) -> anyhow::Result<LoadResult> {
    if result.mismatched_bytes > 0 {
        let first = result.first_mismatch_offset_bytes.unwrap_or(0);
        return Err(WrongBytes(format!("{} of them, the first at offset {first}", result.mismatched_bytes)).into());
    }
    if result.errors_total() > 0 {
        anyhow::bail!(
            "{} requests failed, the first: {}",
            result.errors_total(),
            result.first_error.unwrap_or_default()
        );
    }
    anyhow::ensure!(result.reads + result.writes > 0, "not one request was answered");
    anyhow::ensure!(result.reads < 1000 || result.verified_bytes > 0, "nothing was verified");
    Ok(result)
}

fn sample(result: &LoadResult) -> Sample {
    let quantile = |q| Some(result.latency_ns.value_at_quantile(q) as f64 / 1000.0);
    Sample {
        per_second: result.requests_per_second(),
        bytes_per_second: result.bytes as f64 / result.elapsed.as_secs_f64().max(1e-9),
        requests: result.reads + result.writes,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        client_cpu_us: Some(result.cpu_ns_per_request() / 1000.0),
        verified_bytes: result.verified_bytes,
        ..Sample::default()
    }
}

fn done_sample(done: &Done, block_bytes: u32, cpu: Duration) -> Sample {
    let per_second = done.requests as f64 / done.elapsed.as_secs_f64().max(1e-9);
    let quantile = |q| Some(done.latency_ns.value_at_quantile(q) as f64 / 1000.0);
    Sample {
        per_second,
        bytes_per_second: per_second * f64::from(block_bytes),
        requests: done.requests,
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        client_cpu_us: Some(cpu.as_secs_f64() * 1e6 / (done.requests as f64).max(1.0)),
        verified_bytes: done.verified_bytes,
        ..Sample::default()
    }
}

/// Processor time of this process so far.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
