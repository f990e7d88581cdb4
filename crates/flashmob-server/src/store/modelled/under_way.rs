//! The operations in progress: completed by the model, by the file, or by both.

use flashmob_core::device_model::{Counters, DeviceModel, Done, RunningModel};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;
use hdrhistogram::Histogram;
use slab::Slab;

use super::super::error::StoreError;
use super::super::medium::is_durable;
use super::super::{StoreDone, StoreOp};

/// Lateness is recorded up to this, in nanoseconds; what is later counts as this late: a minute.
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// One operation.
#[derive(Debug)]
struct Entry {
    /// The caller's id.
    id: u64,
    /// It must leave the device's cache: a flush follows it.
    flush_follows: bool,
    /// When the device began with it.
    started: Option<Time>,
    /// When the model was done with it.
    due: Option<Time>,
    /// The file's result.
    result: Option<(Result<(), Failure>, Vec<u8>)>,
}

/// All operations, and the model.
#[derive(Debug)]
pub(super) struct UnderWay {
    model: Box<dyn RunningModel>,
    entries: Slab<Entry>,
    /// Done by both.
    finished: Vec<usize>,
    /// Done by the model and not by the file.
    behind: usize,
    lateness_ns: Histogram<u64>,
    // Used again and again, so that nothing is allocated for them.
    completions: Vec<Done>,
}

impl UnderWay {
    /// Nothing is under way. Operations reach the device in the order in which they are submitted: sorting is the node's part.
    pub fn new(model: &dyn DeviceModel, size_bytes: u64) -> Result<UnderWay, StoreError> {
        Ok(UnderWay {
            model: model.start(size_bytes).map_err(StoreError::Model)?,
            entries: Slab::new(),
            finished: Vec::new(),
            behind: 0,
            // The bounds are constants, and a histogram with them exists.
            lateness_ns: Histogram::new_with_bounds(1, LATENESS_MAX_NS, 3).expect("valid bounds"),
            completions: Vec::new(),
        })
    }

    /// Tells the model of an operation, and gives the key to name it by from now on.
    pub fn begin(&mut self, now: Time, op: &StoreOp) -> usize {
        let entry = Entry { id: op.id, flush_follows: is_durable(op), started: None, due: None, result: None };
        let key = self.entries.insert(entry);
        if !self.model.submit(now, key as u64, op.op, op.offset_bytes, op.len_bytes.into()) {
            // It does not reach a device: it is beyond the end, or empty. The file's engine reports the error.
            self.model_done(key, now, now);
        }
        key
    }

    /// Moves the model on.
    pub fn advance(&mut self, now: Time) {
        let mut completions = std::mem::take(&mut self.completions);
        self.model.advance(now, &mut completions);
        for Done { id, started, at } in completions.drain(..) {
            self.model_done(usize::try_from(id).unwrap_or(usize::MAX), started, at);
        }
        self.completions = completions;
    }

    fn model_done(&mut self, key: usize, started: Time, at: Time) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let started = *entry.started.get_or_insert(started);
        if std::mem::take(&mut entry.flush_follows) && self.model.submit(at, key as u64, Op::Flush, 0, 0) {
            return;
        }
        debug_assert!(started <= at);
        entry.due = Some(at);
        match entry.result {
            Some(_) => self.finished.push(key),
            None => self.behind += 1,
        }
    }

    /// Records the file's result of an operation, with its bytes.
    pub fn file_done(&mut self, key: usize, result: Result<(), Failure>, data: Vec<u8>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.result = Some((result, data));
        if entry.due.is_some() {
            self.behind -= 1;
            self.finished.push(key);
        }
    }

    /// Whether the model is done with something that the file is not done with.
    pub fn awaits_file(&self) -> bool {
        self.behind > 0
    }

    /// Moves operations that both have completed to the end of `finished`, to be answered at `now`.
    pub fn take_finished(&mut self, now: Time, finished: &mut Vec<StoreDone>) {
        for key in self.finished.drain(..) {
            let Some(Entry { id, started, due: Some(due), result: Some((result, data)), .. }) =
                self.entries.try_remove(key)
            else {
                continue;
            };
            self.lateness_ns.saturating_record(now.nanos_since(due).max(1));
            let started = started.unwrap_or(due).min(now);
            finished.push(StoreDone { id, result, data, started, finished: now });
        }
    }

    /// When something will next be due, or finished by both; `None` if nothing is in the model.
    pub fn next_due_at(&self, now: Time) -> Option<Time> {
        if !self.finished.is_empty() {
            return Some(now);
        }
        self.model.next_event_in(now).map(|pause| now + pause)
    }

    /// The model's counters up to the last operation.
    pub fn counters(&self) -> Counters {
        self.model.counters()
    }

    /// How late operations were handed back.
    pub fn lateness_ns(&self) -> &Histogram<u64> {
        &self.lateness_ns
    }
}
