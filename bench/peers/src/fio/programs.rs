//! How each of the programs is asked the same thing, and what it answers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use flashmob_results::Document;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub order: Order,
    pub cache: Cache,
    pub block_bytes: u64,
    pub threads: u32,
    /// So many reads, or else so much time.
    pub reads: Option<u64>,
    pub time_s: f64,
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Random,
    Sequential,
}

/// State of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    Cold,
    Warm,
    Direct,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub per_second: f64,
    pub p99_us: Option<f64>,
}

/// The programs.
pub struct Programs {
    pub flashmob: PathBuf,
    pub own: PathBuf,
}

impl Programs {
    /// Makes the file that all of them read.
    pub fn make(&self, path: &Path, size_bytes: u64) -> anyhow::Result<()> {
        let mut command = Command::new(&self.flashmob);
        command.args(["bench", "disk", "--reads", "1", "--repeat", "1", "--size", &size_bytes.to_string()]).arg(path);
        output(&mut command).map(|_| ())
    }

    /// `flashmob bench disk`.
    pub fn flashmob(&self, path: &Path, question: &Question) -> anyhow::Result<Figures> {
        let mut command = Command::new(&self.flashmob);
        command.args(["--quiet", "bench", "disk", "--repeat", "1", "--output", "json"]).arg(path);
        command.args(["--pattern", if question.order == Order::Random { "random" } else { "sequential" }]);
        let cache = match question.cache {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
            Cache::Direct => "direct",
        };
        command.args(["--cache", cache, "--block-size", &question.block_bytes.to_string()]);
        command.args(["--threads", &question.threads.to_string(), "--seed", &seed()]);
        match question.reads {
            Some(count) => command.args(["--reads", &count.to_string()]),
            None => command.args(["--time", &question.time_s.to_string()]),
        };
        let text = output(&mut command)?;
        let document: Document = serde_json::from_str(&text).context("the result of flashmob cannot be read")?;
        let summary =
            &document.disk().and_then(|disk| disk.points.first()).context("flashmob measured nothing")?.summary;
        let p99_us = summary.latency_ns.percentile_ns(99.0).map(|ns| ns as f64 / 1000.0);
        Ok(Figures { per_second: summary.requests_per_second.median, p99_us })
    }

    /// fio, with system calls one after the other in threads, and no hints to the kernel.
    pub fn fio(&self, path: &Path, question: &Question) -> anyhow::Result<Figures> {
        let mut command = Command::new("fio");
        command.args(["--name=read", "--ioengine=psync", "--thread", "--group_reporting", "--output-format=json"]);
        command.args(["--randrepeat=0", "--norandommap", "--fadvise_hint=0", "--lat_percentiles=1"]);
        command.arg(format!("--filename={}", path.display()));
        command.arg(if question.order == Order::Random { "--rw=randread" } else { "--rw=read" });
        command.arg(format!("--bs={}", question.block_bytes));
        command.arg(format!("--numjobs={}", question.threads));
        command.arg(if question.cache == Cache::Direct { "--direct=1" } else { "--direct=0" });
        command.arg(if question.cache == Cache::Cold { "--invalidate=1" } else { "--invalidate=0" });
        match question.reads {
            Some(count) => command.arg(format!("--number_ios={}", count / u64::from(question.threads))),
            None => command.args(["--time_based".to_string(), format!("--runtime={}", question.time_s)]),
        };
        let text = output(&mut command)?;
        // What fio has to complain about comes first, in words.
        let json = text.find("{\n").map_or("", |at| &text[at..]);
        let json: serde_json::Value = serde_json::from_str(json)
            .with_context(|| format!("fio's result cannot be read: {}", &text[..text.len().min(200)]))?;
        let read = &json["jobs"][0]["read"];
        let per_second = read["iops"].as_f64().context("fio's result has no iops")?;
        let p99_us = read["lat_ns"]["percentile"]["99.000000"].as_f64().map(|ns| ns / 1000.0);
        Ok(Figures { per_second, p99_us })
    }

    /// The bare loop, in a process of its own like the others.
    pub fn bare(&self, path: &Path, question: &Question) -> anyhow::Result<Figures> {
        // Both read what is in memory: whoever comes first must not pay for the other.
        output(Command::new("cat").arg(path).stdout(Stdio::null()))?;
        let mut command = Command::new(&self.own);
        command.arg("--bare").arg(path).args([question.block_bytes.to_string(), question.threads.to_string()]);
        command.arg(question.time_s.to_string());
        let per_second = output(&mut command)?.trim().parse().context("the bare loop's figure cannot be read")?;
        Ok(Figures { per_second, p99_us: None })
    }
}

/// Another seed each time: what one run fetched must not serve the next.
fn seed() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64).to_string()
}

/// What a program prints, if it succeeds.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let stdout = if name == "cat" { Stdio::null() } else { Stdio::piped() };
    let done =
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().and_then(|c| c.wait_with_output());
    let done = done.with_context(|| format!("{name} cannot be run; is it installed?"))?;
    let complaint = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{name} failed ({}): {}", done.status, complaint.trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
