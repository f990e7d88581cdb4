//! The log of decisions: what is waiting to be durable, and what waits for that.
//!
//! One batch is out at a time. Its records are durable together or not at all; the order of the log is the order of decisions.

use std::collections::{BTreeMap, VecDeque};

use crate::copies::{MapImage, Record, encode_batch, encode_snapshot};
use crate::op::Failure;

/// Most records of a batch, and about how many bytes, far below those that a batch may have: one record may be long.
const BATCH_RECORDS_MAX: usize = 16_384;
const BATCH_BYTES: usize = 256 * 1024;

/// How long a record is, or a little less.
fn about_bytes(record: &Record) -> usize {
    match record {
        Record::Places { places, .. } => 9 + 6 * places.len(),
        Record::Address { address, .. } => 6 + address.len(),
        _ => 12,
    }
}

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
    /// Slots that copies have left may be free.
    Freed,
    /// The volume is as large as was decided.
    Grown,
}

/// A batch to append.
#[derive(Debug, Clone)]
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
    /// The number of the last one that the map's file has.
    filed: u64,
    /// The number of the last durable one: mirrors have it, too, if that matters.
    durable: u64,
    /// Those that mirrors must have before they are durable.
    held: VecDeque<u64>,
    /// The number of the last one in the batch that is out.
    out: Option<u64>,
    pending: Vec<Record>,
    waiters: BTreeMap<u64, Vec<Waiter>>,
    /// Why the last batch failed. The next is the whole map, in a new file.
    trouble: Option<Failure>,
    is_retry_due: bool,
    /// The next batch is the whole map, though the last one did not fail.
    wants_whole: bool,
}

impl Log {
    /// A log whose records up to this number are durable.
    pub fn new(number: u64) -> Log {
        Log {
            wanted: number,
            filed: number,
            durable: number,
            held: VecDeque::new(),
            out: None,
            pending: Vec::new(),
            waiters: BTreeMap::new(),
            trouble: None,
            is_retry_due: false,
            wants_whole: false,
        }
    }

    /// Adds a decision. If it `is_held`, mirrors must have it before it is durable.
    pub fn push(&mut self, record: Record, is_held: bool) -> u64 {
        self.pending.push(record);
        self.wanted += 1;
        self.held.extend(is_held.then_some(self.wanted));
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
        if self.out.is_some() || (self.pending.is_empty() && self.trouble.is_none() && !self.wants_whole) {
            return None;
        }
        if self.trouble.is_some() && !std::mem::take(&mut self.is_retry_due) {
            return None;
        }
        let mut bytes = Vec::new();
        let is_whole = std::mem::take(&mut self.wants_whole) || self.trouble.is_some();
        let number = if is_whole {
            self.pending.clear();
            bytes = encode_snapshot(image);
            self.wanted
        } else {
            let first = self.wanted - self.pending.len() as u64 + 1;
            let mut bytes_left = BATCH_BYTES;
            let fits = |record: &&Record| {
                let is_first = bytes_left == BATCH_BYTES;
                let fits = about_bytes(record) <= bytes_left || is_first;
                bytes_left = bytes_left.saturating_sub(about_bytes(record));
                fits
            };
            let count = self.pending.iter().take(BATCH_RECORDS_MAX).take_while(fits).count();
            let records: Vec<Record> = self.pending.drain(..count).collect();
            let is_encoded = encode_batch(&mut bytes, first, &records);
            debug_assert!(is_encoded.is_ok(), "records of marks are short");
            first + count as u64 - 1
        };
        self.out = Some(number);
        Some(Batch { number, bytes, is_whole })
    }

    /// The map's file has everything up to this number.
    pub fn committed(&mut self, number: u64) {
        self.out = None;
        self.trouble = None;
        self.filed = self.filed.max(number);
    }

    /// The last decision in the map's file that waits for mirrors; 0 if none does.
    pub fn awaited(&self) -> u64 {
        self.held.iter().rev().find(|number| **number <= self.filed).copied().unwrap_or(0)
    }

    /// The number of the last decision that the map's file has.
    pub fn filed(&self) -> u64 {
        self.filed
    }

    /// Whether the map's file has all decisions.
    pub fn is_at_rest(&self) -> bool {
        self.filed == self.wanted && self.out.is_none() && self.trouble.is_none() && !self.wants_whole
    }

    /// The mirrors that count have everything up to this number. Returns what waited for that, in order.
    pub fn release(&mut self, mirrored: u64) -> Vec<Waiter> {
        while self.held.front().is_some_and(|&held| held <= mirrored.min(self.filed)) {
            self.held.pop_front();
        }
        let held = self.held.front().map_or(u64::MAX, |held| held - 1);
        self.durable = self.durable.max(self.filed.min(held));
        let later = self.waiters.split_off(&(self.durable + 1));
        std::mem::replace(&mut self.waiters, later).into_values().flatten().collect()
    }

    /// The batch failed: nothing in it is durable. Returns the changes that waited to be sent.
    pub fn failed(&mut self, failure: Failure) -> Vec<Waiter> {
        self.out = None;
        self.trouble = Some(failure);
        let mut launches = Vec::new();
        // What the map's file has waits for mirrors only.
        for (_, waiters) in self.waiters.range_mut(self.filed + 1..) {
            launches.extend(waiters.extract_if(.., |waiter| matches!(waiter, Waiter::Launch(..))));
        }
        launches
    }

    /// The numbers of the last durable decision, and of the last.
    pub fn progress(&self) -> (u64, u64) {
        (self.durable, self.wanted)
    }

    /// Lets the next batch be the whole map.
    pub fn rewrite(&mut self) {
        self.wants_whole = true;
    }

    /// Lets the next batch be tried, after a failure.
    pub fn retry(&mut self) {
        self.is_retry_due = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::testing::image as new_image;
    use crate::copies::{Marks, replay};

    fn decide(log: &mut Log, image: &mut MapImage, chunk: u32) -> u64 {
        let marks = Marks { is_open: true, ..Marks::default() };
        let record = Record::Marks { first_chunk: chunk, count: 1, marks };
        image.apply(&record).unwrap();
        log.push(record, false)
    }

    #[test]
    fn a_map_that_is_to_be_written_anew_is_whole_once_and_fails_nobody() {
        let mut image = new_image(2, 3, 8);
        let mut log = Log::new(image.version());
        assert!(log.next_batch(&image).is_none());
        // While a batch is out, it waits.
        let first = decide(&mut log, &mut image, 0);
        let batch = log.next_batch(&image).unwrap();
        log.rewrite();
        let second = decide(&mut log, &mut image, 1);
        assert!(!batch.is_whole && log.next_batch(&image).is_none() && log.trouble().is_none());
        log.committed(batch.number);
        let whole = log.next_batch(&image).unwrap();
        assert_eq!((first, batch.number, second, whole.number, whole.is_whole), (first, first, second, second, true));
        assert_eq!(replay(&whole.bytes).unwrap().image, image);
        log.committed(whole.number);
        assert!(log.next_batch(&image).is_none() && log.is_at_rest());

        // Nothing was decided since, and it fails at first.
        log.rewrite();
        assert!(!log.is_at_rest());
        assert!(log.next_batch(&image).unwrap().is_whole);
        assert!(log.failed(Failure::Io).is_empty() && log.next_batch(&image).is_none());
        log.retry();
        let whole = log.next_batch(&image).unwrap();
        assert_eq!((whole.number, whole.is_whole), (second, true));
        log.committed(whole.number);
        let third = decide(&mut log, &mut image, 2);
        let batch = log.next_batch(&image).unwrap();
        assert_eq!((batch.number, batch.is_whole), (third, false));
    }
}
