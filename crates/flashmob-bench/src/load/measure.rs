//! Counts of one thread of a load.

use std::time::{Duration, Instant};

use flashmob_core::op::Op;
use flashmob_results::latency::histogram;

use super::LoadResult;
use super::random::{GOLDEN, Random};
use super::reference::{Reference, wrong_bytes};
use crate::error::ServerError;
use crate::nbd::handshake::Export;
use crate::nbd::reply::Replies;
use crate::nbd::slots::Request;

pub(super) struct Measured {
    pub result: LoadResult,
    pub last_reply: Option<Instant>,
}

impl Measured {
    pub fn new(seed: u64, export: &Export) -> Measured {
        let result = LoadResult {
            reads: 0,
            writes: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            latency_ns: histogram(),
            errors: Default::default(),
            first_error: None,
            verified_bytes: 0,
            mismatched_bytes: 0,
            first_mismatch_offset_bytes: None,
            cpu: Duration::ZERO,
            seed,
            export: export.clone(),
        };
        Measured { result, last_reply: None }
    }

    /// Resets the counts, except those of errors and wrong bytes.
    pub fn begin_again(&mut self) {
        let result = &mut self.result;
        (result.reads, result.writes, result.bytes) = (0, 0, 0);
        result.latency_ns.reset();
    }

    /// Requests answered, including errors.
    pub fn answered(&self) -> u64 {
        self.result.reads + self.result.writes + self.result.errors_total()
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Measured) {
        self.last_reply = self.last_reply.max(other.last_reply);
        let (result, other) = (&mut self.result, other.result);
        result.reads += other.reads;
        result.writes += other.writes;
        result.bytes += other.bytes;
        // Both have the same bounds, so nothing is left out.
        let _ = result.latency_ns.add(&other.latency_ns);
        for (errno, count) in other.errors {
            *result.errors.entry(errno).or_insert(0) += count;
        }
        result.first_error = result.first_error.take().or(other.first_error);
        result.verified_bytes += other.verified_bytes;
        result.mismatched_bytes += other.mismatched_bytes;
        result.first_mismatch_offset_bytes = result.first_mismatch_offset_bytes.or(other.first_mismatch_offset_bytes);
        result.cpu += other.cpu;
    }

    /// The result of a load that began at `begun`.
    pub fn into_result(self, begun: Instant) -> LoadResult {
        let elapsed = self.last_reply.map_or(Duration::ZERO, |at| at.saturating_duration_since(begun));
        LoadResult { elapsed, ..self.result }
    }
}

/// Counts the answers of a connection, and compares their bytes with a reference if there is one.
pub(super) struct Tally<'a> {
    pub measured: &'a mut Measured,
    pub verify: Option<&'a dyn Reference>,
    pub sample: &'a mut Sample,
}

/// Selects which answers are compared: one in this many, at random, so that periodic errors of a server are not missed.
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
            self.measured.result.first_mismatch_offset_bytes.get_or_insert(first);
            wrong = count;
        }
        self.measured.result.mismatched_bytes += wrong;
        self.measured.result.verified_bytes += bytes.len() as u64 - wrong;
    }

    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, at: Instant) {
        self.measured.last_reply = Some(at);
        let measured = &mut self.measured.result;
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
