//! A queue per submitter, served round-robin in slices.
//!
//! It represents CFQ, the default of the papers' devices, and its successor BFQ, in terms of order: requests of
//! different threads are not sorted together. A slice ends when its submitter has no waiting requests or has had
//! [`SLICE`] requests. CFQ counts slices in time, BFQ in sectors, and both may idle for a submitter's next request;
//! neither is modelled.

use std::collections::{HashMap, VecDeque};

use super::{Sorted, Waiting};

/// Requests per slice. Chosen: enough to show ascending order within one busy submitter.
const SLICE: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Fair {
    /// Submitters with waiting requests; the first of `turns` has the slice.
    own: HashMap<u32, Sorted>,
    turns: VecDeque<u32>,
    slice_left: u32,
    /// The end of the slice's last request; `None` at the begin of a slice.
    position: Option<u64>,
}

impl Fair {
    pub(super) fn push(&mut self, waiting: Waiting) {
        let submitter = waiting.request.submitter;
        let own = self.own.entry(submitter).or_default();
        if own.is_empty() {
            self.turns.push_back(submitter);
        }
        own.push(waiting);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let submitter = *self.turns.front()?;
        let own = self.own.get_mut(&submitter)?;
        // A slice begins with the submitter's oldest request, so none of its requests starves, and ascends from there.
        let oldest = own.oldest().map(Waiting::place);
        let ahead = self.position.and_then(|at| own.ahead(at));
        if self.position.is_none() {
            self.slice_left = SLICE;
        }
        let waiting = own.take(ahead.or(oldest)?)?;
        self.position = Some(waiting.end_bytes());
        self.slice_left = self.slice_left.saturating_sub(1);
        let empty = own.is_empty();
        if empty {
            self.own.remove(&submitter);
        }
        if empty || self.slice_left == 0 {
            self.turns.pop_front();
            if !empty {
                self.turns.push_back(submitter);
            }
            self.position = None;
        }
        Some(waiting)
    }
}
