//! First come, first served.

use std::collections::VecDeque;

use super::Waiting;

#[derive(Clone, Debug, Default)]
pub(super) struct Fifo(VecDeque<Waiting>);

impl Fifo {
    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.0.pop_front()
    }
}
