//! A queue per submitter, served in slices, in turn.
//!
//! It stands for CFQ, the default of the papers' devices, and its heir BFQ, as far as their order goes: what several
//! threads ask for is not sorted across them. A slice ends when its submitter has nothing more waiting or has had
//! [`SLICE`] requests. CFQ counts slices in time, BFQ in sectors, and both may idle for a submitter's next request;
//! none of that is here.

use std::collections::{HashMap, VecDeque};

use super::{Sorted, Waiting};

/// Requests in a slice. Chosen: enough to show ascending order within one submitter that asks for much.
const SLICE: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Fair {
    /// Those with something waiting; the first of `turns` has the slice.
    own: HashMap<u32, Sorted>,
    turns: VecDeque<u32>,
    slice_left: u32,
    /// Where the slice has got to; none at its beginning.
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
        // A slice begins with the oldest, and goes up from there: so nothing of one submitter starves either.
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
