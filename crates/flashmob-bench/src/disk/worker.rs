//! The loop of one thread with one request at a time. Its own cost must be negligible.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use flashmob_results::disk::{Operation, Sync};
use flashmob_results::latency::histogram;
use hdrhistogram::Histogram;

use super::buffer::Buffer;
use super::limit::Turnstile;
use super::offsets::Offsets;
use crate::load::random::GOLDEN;
use crate::modelled::ModelledDisk;

/// The target of requests.
pub(super) trait Medium: std::marker::Sync {
    /// Reads or writes all of `buffer` at `offset_bytes`, blocking.
    fn transfer(&self, thread: u32, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// The counts of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    latency_ns: Histogram<u64>,
    /// Short latencies, by nanosecond: they are frequent, and an array is cheaper than a histogram.
    short: Vec<u64>,
    pub bytes: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    /// Before its first request, and after its last answer.
    pub begun_ns: u64,
    pub ended_ns: u64,
}

/// Latencies below this are counted by nanosecond.
const SHORT_NS: usize = 4096;

/// Nanoseconds of the monotonic clock: one number, where [`std::time::Instant`] has two.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

impl Tally {
    pub fn new() -> Tally {
        let now_ns = now_ns();
        Tally {
            latency_ns: histogram(),
            short: vec![0; SHORT_NS],
            bytes: 0,
            errors: 0,
            first_error: None,
            begun_ns: now_ns,
            ended_ns: now_ns,
        }
    }

    /// Counts a successful request.
    #[inline]
    pub fn answered(&mut self, latency_ns: u64, len_bytes: u64) {
        match self.short.get_mut(latency_ns as usize) {
            Some(count) => *count += 1,
            None => self.latency_ns.saturating_record(latency_ns),
        }
        self.bytes += len_bytes;
    }

    pub fn failed(&mut self, verb: &str, offset_bytes: u64, error: &io::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{verb} at {offset_bytes}: {error}"));
    }

    /// All latencies.
    pub fn latencies(&self) -> Histogram<u64> {
        let mut all = self.latency_ns.clone();
        for (ns, &count) in self.short.iter().enumerate().filter(|(_, count)| **count > 0) {
            // A latency of 0 is below the resolution of the clock.
            let _ = all.record_n(ns.max(1) as u64, count);
        }
        all
    }

    pub fn add(&mut self, other: &Tally) {
        // Both have the same bounds.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.short.iter_mut().zip(&other.short).for_each(|(count, more)| *count += more);
        // Threads that made no request, because all were taken, do not extend the time.
        match (self.is_idle(), other.is_idle()) {
            (_, true) => {}
            (true, false) => (self.begun_ns, self.ended_ns) = (other.begun_ns, other.ended_ns),
            (false, false) => {
                self.begun_ns = self.begun_ns.min(other.begun_ns);
                self.ended_ns = self.ended_ns.max(other.ended_ns);
            }
        }
        self.bytes += other.bytes;
        self.errors += other.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }

    fn is_idle(&self) -> bool {
        self.bytes == 0 && self.errors == 0
    }
}

/// Issues requests until the turnstile closes. The clock is read once per request: the end of one is the start of the next.
pub(super) fn run<M: Medium>(
    medium: &M,
    thread: u32,
    verb: &str,
    offsets: &mut Offsets,
    buffer: &mut Buffer,
    turnstile: &mut Turnstile<'_>,
) -> Tally {
    let mut tally = Tally::new();
    let buffer = buffer.bytes();
    let mut begun_ns = now_ns();
    tally.begun_ns = begun_ns;
    while turnstile.lets_through(begun_ns) {
        let offset_bytes = offsets.next_offset();
        let outcome = medium.transfer(thread, offset_bytes, buffer);
        let ended_ns = now_ns();
        match outcome {
            Ok(()) => tally.answered(ended_ns - begun_ns, buffer.len() as u64),
            Err(error) => tally.failed(verb, offset_bytes, &error),
        }
        begun_ns = ended_ns;
    }
    tally.ended_ns = begun_ns;
    tally
}

#[derive(Debug)]
pub(super) struct Reads<'a>(pub &'a File);

impl Medium for Reads<'_> {
    #[inline]
    fn transfer(&self, _thread: u32, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        // The usual case, without std's loop.
        match rustix::io::pread(self.0.as_fd(), &mut *buffer, offset_bytes) {
            Ok(count) if count == buffer.len() => Ok(()),
            _ => self.0.read_exact_at(buffer, offset_bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the file has become shorter"),
                _ => error,
            }),
        }
    }
}

/// Writes of a file, each with different bytes.
#[derive(Debug)]
pub(super) struct Writes<'a> {
    pub file: &'a File,
    pub sync: Sync,
}

impl Medium for Writes<'_> {
    fn transfer(&self, _thread: u32, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        stamp(buffer);
        self.file.write_all_at(buffer, offset_bytes)?;
        if self.sync == Sync::Fdatasync {
            rustix::fs::fdatasync(self.file.as_fd())?;
        }
        Ok(())
    }
}

/// Changes the first bytes, so that no layer can elide the write.
pub(super) fn stamp(buffer: &mut [u8]) {
    let len_bytes = buffer.len().min(8);
    let mut word = [0; 8];
    word[..len_bytes].copy_from_slice(&buffer[..len_bytes]);
    // Adding an odd number cycles through all values.
    let next = u64::from_le_bytes(word).wrapping_add(GOLDEN).to_le_bytes();
    buffer[..len_bytes].copy_from_slice(&next[..len_bytes]);
}

#[derive(Debug)]
pub(super) struct Model<'a> {
    pub disk: &'a ModelledDisk,
    pub operation: Operation,
    pub sync: Option<Sync>,
    pub direct: bool,
}

impl Medium for Model<'_> {
    fn transfer(&self, thread: u32, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len_bytes = buffer.len() as u64;
        let served = match self.operation {
            Operation::Read => self.disk.read(thread, offset_bytes, len_bytes, self.direct),
            Operation::Write => self.disk.write(thread, offset_bytes, len_bytes).and_then(|served| {
                let waits = matches!(self.sync, Some(Sync::Fdatasync | Sync::Dsync));
                if waits { self.disk.flush(thread) } else { Ok(served) }
            }),
        };
        served.map(|_| ()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_came_too_late_do_not_make_it_longer() {
        let tally = |begun_ns, ended_ns, requests: u64| {
            let mut tally = Tally::new();
            (tally.begun_ns, tally.ended_ns) = (begun_ns, ended_ns);
            (0..requests).for_each(|_| tally.answered(10, 1));
            tally
        };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let all = [tally(50, 50, 0), tally(100, 200, 3), tally(120, 210, 4), tally(9000, 9000, 0)];
            let mut sum = tally(9000, 9000, 0);
            order.into_iter().for_each(|at: usize| sum.add(&all[at]));
            assert_eq!((sum.begun_ns, sum.ended_ns, sum.latencies().len()), (100, 210, 7), "{order:?}");
        }
    }

    #[test]
    fn stamps_differ_from_write_to_write() {
        for len_bytes in [1, 7, 8, 4096] {
            let mut buffer = vec![0; len_bytes];
            let mut seen = std::collections::HashSet::new();
            (0..50).for_each(|_| {
                stamp(&mut buffer);
                seen.insert(buffer.clone());
            });
            assert_eq!(seen.len(), 50, "{len_bytes} bytes");
        }
        stamp(&mut []);
    }
}
