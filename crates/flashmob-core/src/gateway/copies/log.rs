//! The log of decisions: what is waiting to be durable, and what waits for that.
//!
//! One batch is out at a time. Its records are durable together or not at all; the order of the log is the order of decisions.

use std::collections::BTreeMap;

use crate::copies::{MapImage, Record, encode_batch, encode_snapshot};
use crate::op::Failure;

/// Most records of a batch.
const BATCH_RECORDS_MAX: usize = 16_384;

/// What waits for a decision to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiter {
    /// The changes of a chunk are sent then.
    Launch(u32),
    /// The changes of a chunk are looked at again.
    Review(u32),
    /// A member may be used.
    Member(u16),
    /// Clients' flushes are looked at again.
    Flushes,
    /// The job on a chunk ends.
    Job(u32),
}

/// A batch to append.
#[derive(Debug)]
pub struct Batch {
    /// The number of its last record.
    pub number: u64,
    pub bytes: Vec<u8>,
    /// The records make the whole map, for a new file.
    pub is_whole: bool,
}

#[derive(Debug)]
pub struct Log {
    /// The number of the last decision.
    wanted: u64,
    /// The number of the last durable one.
    durable: u64,
    /// The number of the last one in the batch that is out.
    out: Option<u64>,
    pending: Vec<Record>,
    waiters: BTreeMap<u64, Vec<Waiter>>,
    /// Why the last batch failed. The next is the whole map, in a new file.
    trouble: Option<Failure>,
    is_retry_due: bool,
}

impl Log {
    /// A log whose records up to this number are durable.
    pub fn new(number: u64) -> Log {
        Log {
            wanted: number,
            durable: number,
            out: None,
            pending: Vec::new(),
            waiters: BTreeMap::new(),
            trouble: None,
            is_retry_due: false,
        }
    }

    pub fn push(&mut self, record: Record) -> u64 {
        self.pending.push(record);
        self.wanted += 1;
        self.wanted
    }

    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    pub fn is_durable(&self, number: u64) -> bool {
        number <= self.durable
    }

    /// Why it cannot be written, while it cannot.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble
    }

    /// Whether decisions are not durable yet.
    pub fn is_busy(&self) -> bool {
        self.wanted > self.durable
    }

    pub fn wait(&mut self, number: u64, waiter: Waiter) {
        let waiters = self.waiters.entry(number).or_default();
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
        }
    }

    /// The next batch to append, if none is out. `image` is what was decided.
    pub fn next_batch(&mut self, image: &MapImage) -> Option<Batch> {
        if self.out.is_some() || (self.pending.is_empty() && self.trouble.is_none()) {
            return None;
        }
        if self.trouble.is_some() && !std::mem::take(&mut self.is_retry_due) {
            return None;
        }
        let mut bytes = Vec::new();
        let is_whole = self.trouble.is_some();
        let number = if is_whole {
            self.pending.clear();
            bytes = encode_snapshot(image);
            self.wanted
        } else {
            let first = self.wanted - self.pending.len() as u64 + 1;
            let count = self.pending.len().min(BATCH_RECORDS_MAX);
            let records: Vec<Record> = self.pending.drain(..count).collect();
            let is_encoded = encode_batch(&mut bytes, first, &records);
            debug_assert!(is_encoded.is_ok(), "records of marks are short");
            first + count as u64 - 1
        };
        self.out = Some(number);
        Some(Batch { number, bytes, is_whole })
    }

    /// Everything up to this number is durable. Returns what waited for it, in order.
    pub fn committed(&mut self, number: u64) -> Vec<Waiter> {
        self.out = None;
        self.trouble = None;
        self.durable = self.durable.max(number);
        let later = self.waiters.split_off(&(self.durable + 1));
        std::mem::replace(&mut self.waiters, later).into_values().flatten().collect()
    }

    /// The batch failed: nothing in it is durable. Returns the changes that waited to be sent.
    pub fn failed(&mut self, failure: Failure) -> Vec<Waiter> {
        self.out = None;
        self.trouble = Some(failure);
        let mut launches = Vec::new();
        for waiters in self.waiters.values_mut() {
            launches.extend(waiters.extract_if(.., |waiter| matches!(waiter, Waiter::Launch(..))));
        }
        launches
    }

    /// The numbers of the last durable decision, and of the last.
    pub fn progress(&self) -> (u64, u64) {
        (self.durable, self.wanted)
    }

    /// Lets the next batch be tried, after a failure.
    pub fn retry(&mut self) {
        self.is_retry_due = true;
    }
}
