//! What a thread of a load counts while it runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flashmob_core::op::Op;
use hdrhistogram::Histogram;

use super::LoadResult;
use super::random::{GOLDEN, Random};
use super::reference::{Reference, wrong_bytes};
use crate::error::{Errno, ServerError};
use crate::nbd::handshake::Export;
use crate::nbd::reply::Replies;
use crate::nbd::slots::Request;

/// Longest latency that is told apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Counts, without the time that they were gathered in.
pub(super) struct Measured {
    pub reads: u64,
    pub writes: u64,
    pub bytes: u64,
    pub latency_ns: Histogram<u64>,
    pub errors: BTreeMap<Errno, u64>,
    pub first_error: Option<String>,
    pub verified_bytes: u64,
    pub mismatched_bytes: u64,
    pub first_mismatch_offset_bytes: Option<u64>,
    pub cpu: Duration,
    pub last_reply: Option<Instant>,
}

impl Measured {
    pub fn new() -> Measured {
        // The bounds are constants, and a histogram with them exists.
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("valid bounds");
        Measured {
            reads: 0,
            writes: 0,
            bytes: 0,
            latency_ns,
            errors: BTreeMap::new(),
            first_error: None,
            verified_bytes: 0,
            mismatched_bytes: 0,
            first_mismatch_offset_bytes: None,
            cpu: Duration::ZERO,
            last_reply: None,
        }
    }

    /// Forgets what was counted so far, but not errors and wrong bytes.
    pub fn begin_again(&mut self) {
        self.reads = 0;
        self.writes = 0;
        self.bytes = 0;
        self.latency_ns.reset();
    }

    /// Requests answered, well or badly.
    pub fn answered(&self) -> u64 {
        self.reads + self.writes + self.errors.values().sum::<u64>()
    }

    /// Joins what another thread measured.
    pub fn add(&mut self, other: Measured) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        // Both have the same bounds, so nothing is left out.
        let _ = self.latency_ns.add(&other.latency_ns);
        for (errno, count) in other.errors {
            *self.errors.entry(errno).or_insert(0) += count;
        }
        self.first_error = self.first_error.take().or(other.first_error);
        self.verified_bytes += other.verified_bytes;
        self.mismatched_bytes += other.mismatched_bytes;
        self.first_mismatch_offset_bytes = self.first_mismatch_offset_bytes.or(other.first_mismatch_offset_bytes);
        self.cpu += other.cpu;
        self.last_reply = self.last_reply.max(other.last_reply);
    }

    pub fn into_result(self, begun: Instant, seed: u64, export: Export) -> LoadResult {
        LoadResult {
            reads: self.reads,
            writes: self.writes,
            bytes: self.bytes,
            elapsed: self.last_reply.map_or(Duration::ZERO, |at| at.saturating_duration_since(begun)),
            latency_ns: self.latency_ns,
            errors: self.errors,
            first_error: self.first_error,
            verified_bytes: self.verified_bytes,
            mismatched_bytes: self.mismatched_bytes,
            first_mismatch_offset_bytes: self.first_mismatch_offset_bytes,
            cpu: self.cpu,
            seed,
            export,
        }
    }
}

/// Takes a connection's answers into the counts, and compares their bytes if there is something to
/// compare with.
pub(super) struct Tally<'a> {
    pub measured: &'a mut Measured,
    pub verify: Option<&'a dyn Reference>,
    pub sample: &'a mut Sample,
}

/// Which answers are compared: one of so many, at random, so that no habit of a server can hide from it.
#[derive(Debug)]
pub(super) struct Sample {
    one_of: u64,
    random: Random,
}

impl Sample {
    pub fn new(one_of: u32, seed: u64, thread: u64) -> Sample {
        Sample { one_of: one_of.into(), random: Random::new(seed ^ GOLDEN, thread) }
    }

    #[inline]
    fn takes_next(&mut self) -> bool {
        self.one_of == 1 || self.random.below(self.one_of) == 0
    }
}

impl Replies for Tally<'_> {
    fn data(&mut self, _request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let Some(reference) = self.verify else { return };
        if !self.sample.takes_next() {
            return;
        }
        let mut wrong = 0;
        if !reference.matches(offset_bytes, bytes)
            && let Some((first, count)) = wrong_bytes(reference, offset_bytes, bytes)
        {
            self.measured.first_mismatch_offset_bytes.get_or_insert(first);
            wrong = count;
        }
        self.measured.mismatched_bytes += wrong;
        self.measured.verified_bytes += bytes.len() as u64 - wrong;
    }

    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, at: Instant) {
        let measured = &mut *self.measured;
        measured.last_reply = Some(at);
        match outcome {
            Ok(()) => {
                let count = if request.op == Op::Read { &mut measured.reads } else { &mut measured.writes };
                *count += 1;
                measured.bytes += u64::from(request.len_bytes);
                let latency = at.saturating_duration_since(request.submitted);
                measured.latency_ns.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
            }
            Err(error) => {
                *measured.errors.entry(error.errno).or_insert(0) += 1;
                measured.first_error.get_or_insert_with(|| format!("{error} to the {}", request.describe()));
            }
        }
    }
}
