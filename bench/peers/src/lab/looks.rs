//! The lab's counters around the measured time, for clients that know nothing of it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob::lab::status::{self, LabStatus};

use crate::case::Case;
use crate::{Args, Figures};

/// What is counted, at one moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    lab: LabStatus,
    segments: Option<u64>,
}

/// The begin and the end of what counts.
#[derive(Debug)]
pub struct Looks {
    begin: Look,
    end: Look,
}

/// What the client saw.
pub struct Seen {
    pub requests_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

fn look(socket: &Path, begin: bool) -> anyhow::Result<Look> {
    Ok(Look { at: Instant::now(), lab: status::ask(socket, begin)?, segments: segments() })
}

/// Runs a load that counts for `time` after `warmup`, and looks meanwhile.
pub fn during<T>(warmup: Duration, time: Duration, load: impl FnOnce() -> T) -> anyhow::Result<(T, Looks)> {
    let socket = status::socket().context("this is not inside a lab")?;
    let (result, looks) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| -> anyhow::Result<Looks> {
            std::thread::sleep(warmup);
            let begin = look(&socket, true)?;
            // A little less than the load takes, so that its end is not in it.
            std::thread::sleep(time.mul_f64(0.95));
            Ok(Looks { begin, end: look(&socket, false)? })
        });
        (load(), looking.join())
    });
    Ok((result, looks.map_err(|_| anyhow::anyhow!("looking at the lab failed"))??))
}

impl Looks {
    pub fn figures(&self, args: &Args, case: &Case, server: &str, seen: &Seen) -> Figures {
        let (begin, end) = (&self.begin, &self.end);
        let seconds = end.at.duration_since(begin.at).as_secs_f64();
        let requests = (seen.requests_per_s * seconds).max(1.0);
        let (before, after) = (begin.lab.counters, end.lab.counters);
        let elapsed_ns = (end.lab.elapsed_ns - begin.lab.elapsed_ns).max(1);
        let segments = begin.segments.zip(end.segments).map(|(before, after)| after.saturating_sub(before));
        Figures {
            case: case.clone(),
            outstanding: args.outstanding(case),
            server: server.to_string(),
            requests_per_s: seen.requests_per_s,
            p50_ms: seen.p50_ms,
            p99_ms: seen.p99_ms,
            frames_per_request: (after.frames - before.frames) as f64 / requests,
            packets_per_request: segments.map(|segments| segments as f64 / requests),
            busy_fraction: (after.busy_ns - before.busy_ns) as f64 / elapsed_ns as f64,
            late_p99_us: end.lab.lateness.p99_us,
            late_fraction: end.lab.lateness.late_fraction,
            is_void: end.lab.is_late,
        }
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
