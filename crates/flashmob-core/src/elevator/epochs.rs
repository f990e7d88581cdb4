//! Which flush waits for which mutations.
//!
//! Flushes that have to wait divide time into epochs: a mutation belongs to the epoch of its arrival, and a flush ends its epoch. A
//! flush is ready once no mutation of its epoch or an earlier one is unfinished. So it costs one counter, however many it waits for.

use std::collections::VecDeque;

/// The number of an epoch.
pub(super) type Epoch = u64;

/// The epochs that are not over: unfinished mutations, and the flushes behind them.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The epochs that a flush has ended, oldest first; the first of them has an unfinished mutation.
    ended: VecDeque<Ended>,
    /// The number of `ended[0]`.
    first: Epoch,
    /// Unfinished mutations of the current epoch.
    mutations: usize,
}

#[derive(Debug)]
struct Ended {
    mutations: usize,
    /// The flush that ended it.
    flush: u32,
}

impl Epochs {
    fn running(&self) -> Epoch {
        self.first + self.ended.len() as u64
    }

    /// The entry of `epoch` in `ended`; `None` if it is the current one or over.
    fn ended_at(&mut self, epoch: Epoch) -> Option<&mut Ended> {
        let index = epoch.checked_sub(self.first)?;
        self.ended.get_mut(usize::try_from(index).ok()?)
    }

    /// A mutation has arrived. Returns its epoch.
    pub(super) fn enter(&mut self) -> Epoch {
        self.mutations += 1;
        self.running()
    }

    /// A mutation of `epoch` has ended; adds the flushes that waited only for it to `ready`.
    pub(super) fn leave(&mut self, epoch: Epoch, ready: &mut Vec<u32>) {
        match self.ended_at(epoch) {
            Some(ended) => ended.mutations -= 1,
            // An epoch with an unfinished mutation is never over, so it is the current one.
            None => self.mutations -= 1,
        }
        while let Some(front) = self.ended.front()
            && front.mutations == 0
        {
            ready.push(front.flush);
            self.ended.pop_front();
            self.first += 1;
        }
    }

    /// A flush has arrived. Returns whether it may go at once.
    pub(super) fn end(&mut self, flush: u32) -> bool {
        let at_once = self.ended.is_empty() && self.mutations == 0;
        if !at_once {
            self.ended.push_back(Ended { mutations: self.mutations, flush });
            self.mutations = 0;
        }
        at_once
    }

    /// Whether no mutation is unfinished and no flush waits.
    #[cfg(test)]
    pub(super) fn is_blank(&self) -> bool {
        self.ended.is_empty() && self.mutations == 0
    }
}
