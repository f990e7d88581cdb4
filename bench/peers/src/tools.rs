//! Other people's programs that measure: fio, iperf3, strace; and the loop that only reads the file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::Uri;
use flashmob_bench::load::random::Random;
use serde_json::Value;

use crate::process::{Process, end_with_us, require};
use crate::rows::Shape;

/// Threads of the bare loop, as many as the peers' figures were taken with.
const PREAD_THREADS: u64 = 2;

/// Reads per second of threads that do nothing else than `pread` at random: what the machine can do at all.
pub fn pread(file: &Path, block_bytes: u32, time: Duration, seed: u64) -> anyhow::Result<(u64, Duration)> {
    let file = File::open(file)?;
    let count = file.metadata()?.len() / u64::from(block_bytes);
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let total = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PREAD_THREADS)
            .map(|thread| {
                let (file, stop) = (&file, &stop);
                scope.spawn(move || -> std::io::Result<u64> {
                    let mut random = Random::new(seed, thread);
                    let mut buffer = vec![0; block_bytes as usize];
                    let mut reads = 0;
                    while !stop.load(Ordering::Relaxed) {
                        file.read_exact_at(&mut buffer, random.below(count) * u64::from(block_bytes))?;
                        reads += 1;
                    }
                    Ok(reads)
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let mut total = 0;
        for thread in threads {
            total += thread.join().map_err(|_| anyhow::anyhow!("a thread of the pread loop panicked"))??;
        }
        anyhow::Ok(total)
    })?;
    Ok((total, begun.elapsed()))
}

/// Bytes per second of one stream of iperf3; it takes whole seconds only.
pub fn iperf(port: u16, time: Duration) -> anyhow::Result<f64> {
    let seconds = time.as_secs().max(1).to_string();
    let output = run("iperf3", &["-c", "127.0.0.1", "-p", &port.to_string(), "-t", &seconds, "-J"], Path::new("/"))?;
    iperf_bytes_per_second(&serde_json::from_str(&output).context("iperf3 printed no JSON")?)
}

fn iperf_bytes_per_second(json: &Value) -> anyhow::Result<f64> {
    let bits = json["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits.with_context(|| format!("iperf3 gave no result: {}", json["error"]))? / 8.0)
}

/// What fio found.
#[derive(Debug, PartialEq)]
pub struct FioResult {
    pub requests: u64,
    pub per_second: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
}

/// Random reads by fio's nbd engine, which uses libnbd; a job per connection.
pub fn fio(dir: &Path, uri: &Uri, shape: &Shape, time: Duration) -> anyhow::Result<FioResult> {
    let args = [
        "--name=bench".to_string(),
        // It must stand before --uri, which is an option of the engine.
        "--ioengine=nbd".to_string(),
        format!("--uri={uri}"),
        "--rw=randread".to_string(),
        format!("--bs={}", shape.block_bytes),
        format!("--iodepth={}", shape.outstanding),
        format!("--numjobs={}", shape.connections),
        "--thread".to_string(),
        "--group_reporting".to_string(),
        "--time_based".to_string(),
        format!("--runtime={}ms", time.as_millis()),
        "--output-format=json".to_string(),
    ];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = run("fio", &args, dir)?;
    // The engine prints lines of its own before the JSON.
    let json = output.find('{').map_or("", |begin| &output[begin..]);
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    fio_result(&values.next().context("fio printed no JSON")??)
}

fn fio_result(json: &Value) -> anyhow::Result<FioResult> {
    let job = &json["jobs"][0];
    anyhow::ensure!(job["error"] == 0, "fio reports error {}", job["error"]);
    let read = &job["read"];
    let number = |value: &Value| value.as_f64().with_context(|| format!("fio's result lacks a figure: {read}"));
    Ok(FioResult {
        requests: number(&read["total_ios"])? as u64,
        per_second: number(&read["iops"])?,
        p50_ns: number(&read["clat_ns"]["percentile"]["50.000000"])?,
        p99_ns: number(&read["clat_ns"]["percentile"]["99.000000"])?,
    })
}

fn run(program: &str, args: &[&str], dir: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(require(program)?);
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_us(&mut command);
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("{program} failed ({}): {}", output.status, said.lines().next().unwrap_or("it said nothing"));
    }
    Ok(text)
}

/// Counts the system calls of processes from [`Strace::attach`] to [`Strace::count`].
pub struct Strace {
    process: Process,
    summary: std::path::PathBuf,
}

impl Strace {
    /// Attaches to the processes with all their threads; whoever may not trace them gets an error.
    pub fn attach(dir: &Path, name: &str, pids: &[u32]) -> anyhow::Result<Strace> {
        let summary = dir.join(format!("strace-{name}.txt"));
        let mut args = vec!["-c".to_string(), "-f".to_string(), "-o".to_string(), summary.display().to_string()];
        for pid in pids {
            args.extend(["-p".to_string(), pid.to_string()]);
        }
        let mut process = Process::start(dir, &format!("strace-{name}"), &require("strace")?, &args)?;
        let count = pids.len();
        process.await_ready("it is attached to all", |log| log.matches(" attached").count() >= count)?;
        Ok(Strace { process, summary })
    }

    /// Detaches; how many calls there were.
    pub fn count(mut self) -> anyhow::Result<u64> {
        self.process.stop(rustix::process::Signal::INT);
        let mut text = String::new();
        File::open(&self.summary).context("strace left no summary")?.read_to_string(&mut text)?;
        strace_total(&text).context("strace's summary has no total")
    }
}

/// The calls in the last line of `strace -c`.
fn strace_total(summary: &str) -> Option<u64> {
    let line = summary.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    // % time, seconds, usecs/call, calls, errors (perhaps), "total".
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strace_total_is_the_number_of_calls() {
        let with_errors = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            \x20 7.00    0.100000          10      9000       100 epoll_wait\n\
            100.00    0.123456           5     12345       100 total\n";
        assert_eq!(strace_total(with_errors), Some(12345));
        assert_eq!(strace_total("100.00    0.123456           5     678           total\n"), Some(678));
        assert_eq!(strace_total(""), None);
    }

    #[test]
    fn iperf_reports_bits_and_we_bytes() {
        let json = serde_json::json!({"end": {"sum_received": {"bits_per_second": 8e9}}});
        assert_eq!(iperf_bytes_per_second(&json).unwrap(), 1e9);
        let json = serde_json::json!({"error": "unable to connect"});
        assert!(iperf_bytes_per_second(&json).unwrap_err().to_string().contains("unable to connect"));
    }

    #[test]
    fn fio_gives_rate_and_percentiles_or_its_error() {
        let read = serde_json::json!({"total_ios": 500, "iops": 250.5, "clat_ns": {"percentile": {"50.000000": 7, "99.000000": 9}}});
        let json = serde_json::json!({"jobs": [{"error": 0, "read": read}]});
        assert_eq!(
            fio_result(&json).unwrap(),
            FioResult { requests: 500, per_second: 250.5, p50_ns: 7.0, p99_ns: 9.0 }
        );
        assert!(fio_result(&serde_json::json!({"jobs": [{"error": 5}]})).is_err());
    }

    #[test]
    fn the_bare_loop_reads() {
        let path = std::env::temp_dir().join(format!("flashmob-peers-pread-{}", std::process::id()));
        std::fs::write(&path, vec![1; 65536]).unwrap();
        let outcome = pread(&path, 4096, Duration::from_millis(20), 1);
        std::fs::remove_file(&path).unwrap();
        let (reads, elapsed) = outcome.unwrap();
        assert!(reads > 0 && elapsed >= Duration::from_millis(20));
    }
}
