//! `flashmob bench nbd`: its arguments and its exit status.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::reference::ImageReference;
use flashmob_bench::load::{CONNECTIONS_MAX, OUTSTANDING_MAX};
use flashmob_bench::nbd::connection::{Connection, Options};
use flashmob_bench::progress::ProgressLine;
use flashmob_bench::{Load, LoadResult, Uri, load};

use super::record::record;
use super::table;
use crate::commands::tell::{self, Form, STATUS_ERRORS, STATUS_INTERRUPTED};

/// Wrong bytes were read.
const STATUS_WRONG_BYTES: u8 = 4;

/// Measure an export of any NBD server.
///
/// Requests are pipelined: all pending requests go out in one send, and all available replies are read in one
/// receive. The result includes the benchmark's own CPU time, to tell a client limit from a server limit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob bench nbd nbd://127.0.0.1/pool --connections 4
  flashmob bench nbd 'nbd+unix:///?socket=/tmp/nbd.sock' --block-size 1 --time 10 --output json
  flashmob bench nbd nbd://127.0.0.1/pool --verify disk.img --verify-sample 1/64
  flashmob bench nbd nbd://127.0.0.1/pool --write --allow-writes --range 0..256MiB   # DESTROYS data

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 the server answered errors, 4 WRONG BYTES,
130 stopped by Ctrl-C (the figures so far are printed).")]
pub struct NbdArgs {
    /// Export to measure: nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH.
    uri: Uri,
    /// Number of connections.
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u32,
    /// Requests that each connection keeps outstanding (fio: iodepth).
    #[arg(short, long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(OUTSTANDING_MAX)))]
    outstanding: u32,
    /// Request size in bytes.
    #[arg(short, long, default_value = "4KiB", value_name = "SIZE", value_parser = block_size)]
    block_size: u32,
    /// Percentage of reads; the rest are writes.
    #[arg(long, default_value_t = 100.0, value_name = "P", value_parser = flashmob_text::parse_percent)]
    read_percent: f64,
    /// Only write: same as --read-percent 0.
    #[arg(long, conflicts_with = "read_percent")]
    write: bool,
    /// Allow overwriting the export's data.
    #[arg(long)]
    allow_writes: bool,
    /// Order of offsets.
    #[arg(long, value_enum, default_value = "random")]
    pattern: PatternArg,
    /// Alignment of random offsets; 1 for any byte [default: the block size].
    #[arg(long, value_name = "SIZE", value_parser = align)]
    align: Option<u64>,
    /// Byte range to use, such as 1GiB..2GiB or ..256MiB [default: all].
    #[arg(long, value_name = "BEGIN..END", value_parser = range)]
    range: Option<ByteRange>,
    /// Time to run; a bare number means seconds.
    #[arg(short, long, default_value = "5", value_name = "TIME", value_parser = super::super::time, conflicts_with = "requests")]
    time: Duration,
    /// Number of requests to issue, instead of a time.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Time to run before measuring. Errors and wrong bytes count here too.
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = super::super::time_or_none)]
    warmup: Duration,
    /// Random seed for offsets; equal seeds give equal offsets.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads to divide the connections among.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    threads: u32,
    /// Compare every byte read with this file; writes take their data from it.
    #[arg(long, value_name = "FILE")]
    verify: Option<PathBuf>,
    /// Compare only a random sample of the replies, which costs less.
    #[arg(long, default_value = "1/1", value_name = "1/N", value_parser = sample, requires = "verify")]
    verify_sample: u32,
    /// Ask for structured replies. Simple replies cost less on both sides.
    #[arg(long)]
    structured_replies: bool,
    /// Microseconds that a thread sleeps after a wake-up with few replies. Costs latency; raises the throughput of
    /// servers that send replies one by one.
    #[arg(long, default_value_t = 0, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    rest_us: u32,
    /// Time without a reply before giving up.
    #[arg(long, default_value = "30", value_name = "TIME", value_parser = super::super::time)]
    timeout: Duration,
    /// Output format: a table, or JSON (schema/bench-nbd-1.json).
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatternArg {
    /// Random offsets.
    Random,
    /// One block after the other; each connection has its own part of the range.
    Sequential,
}

/// A range of an export; without an end, up to the export's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    begin: u64,
    end: Option<u64>,
}

impl NbdArgs {
    fn load(&self, cancel: &Arc<AtomicBool>) -> anyhow::Result<Load> {
        let read_fraction = if self.write { 0.0 } else { self.read_percent / 100.0 };
        anyhow::ensure!(
            read_fraction >= 1.0 || self.allow_writes,
            "this load would overwrite the data of {}; if that data can be lost, add --allow-writes",
            self.uri
        );
        let verify = match &self.verify {
            Some(path) => Some(Arc::new(ImageReference::open(path)?) as load::Verifier),
            None => None,
        };
        let pattern = match self.pattern {
            PatternArg::Random => Pattern::Random { seed: self.seed },
            PatternArg::Sequential => Pattern::Sequential,
        };
        Ok(Load {
            connections: self.connections,
            threads: self.threads,
            outstanding: self.outstanding,
            block_bytes: self.block_size,
            pattern,
            alignment: self.align.map_or(Alignment::Block, Alignment::Bytes),
            range_bytes: self.range_bytes()?,
            read_fraction,
            stop: self.requests.map_or(load::Stop::After(self.time), load::Stop::Requests),
            warmup: self.warmup,
            verify,
            verify_one_of: self.verify_sample,
            structured_replies: self.structured_replies,
            rest: Duration::from_micros(self.rest_us.into()),
            timeout: self.timeout,
            cancel: Some(Arc::clone(cancel)),
        })
    }

    /// The range; a missing end is asked of the server.
    fn range_bytes(&self) -> anyhow::Result<Option<Range<u64>>> {
        Ok(match self.range {
            None => None,
            Some(ByteRange { begin, end: Some(end) }) => Some(begin..end),
            Some(ByteRange { begin, end: None }) => {
                let connection = Connection::open(&self.uri, &Options::default())?;
                let end = connection.export().size_bytes;
                connection.disconnect();
                Some(begin..end)
            }
        })
    }
}

/// Runs the load and prints the result.
pub fn run(args: &NbdArgs) -> anyhow::Result<ExitCode> {
    let cancel = Arc::new(AtomicBool::new(false));
    let load = args.load(&cancel)?;
    let on_signal = Arc::clone(&cancel);
    super::super::on_signal(move || on_signal.store(true, Ordering::Relaxed))?;
    let mut line = ProgressLine::new(if load.read_fraction >= 1.0 { "reading" } else { "reading and writing" });
    let result = flashmob_bench::run(&args.uri, &load, &mut |progress| line.show(progress))?;
    drop(line);
    let interrupted = cancel.load(Ordering::Relaxed);
    let text = match args.output {
        Form::Table => table::render(&args.uri, &load, &result, interrupted),
        Form::Json => tell::json(&record(&args.uri, &load, &result, interrupted))?,
    };
    // A closed pipe (`| head`) is an error to report, not a panic.
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
    Ok(ExitCode::from(status(&result, interrupted)))
}

/// The exit status: the worst outcome.
fn status(result: &LoadResult, interrupted: bool) -> u8 {
    match () {
        () if result.mismatched_bytes > 0 => STATUS_WRONG_BYTES,
        () if result.errors_total() > 0 => STATUS_ERRORS,
        () if interrupted => STATUS_INTERRUPTED,
        () => 0,
    }
}

fn block_size(text: &str) -> Result<u32, String> {
    match u32::try_from(super::super::size(text)?) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("give a size from 1 to 4294967295 bytes, such as 512 or 4KiB".to_string()),
    }
}

fn align(text: &str) -> Result<u64, String> {
    match super::super::size(text)? {
        0 => Err("give at least 1".to_string()),
        bytes => Ok(bytes),
    }
}

fn range(text: &str) -> Result<ByteRange, String> {
    let (begin, end) = text.split_once("..").ok_or("write BEGIN..END, such as 1GiB..2GiB or ..256MiB")?;
    let size = |text: &str| if text.is_empty() { Ok(None) } else { super::super::size(text).map(Some) };
    let (begin, end) = (size(begin)?.unwrap_or(0), size(end)?);
    match end {
        Some(end) if end <= begin => Err(format!("the range ends at {end}, at or before its start")),
        _ => Ok(ByteRange { begin, end }),
    }
}

fn sample(text: &str) -> Result<u32, String> {
    match text.strip_prefix("1/").map(str::parse) {
        Some(Ok(one_of)) if one_of > 0 => Ok(one_of),
        _ => Err("write 1/N, such as 1/64 to check one reply in 64".to_string()),
    }
}

#[cfg(test)]
#[path = "nbd_tests.rs"]
mod tests;
