//! Answers that are held for the rest of their batch, because the gateway asked for all of them together.
//!
//! Nothing is held for ever: see [`HELD_FOR_MAX`]. Held answers count towards the node's memory until they are written or their link
//! ends.

use std::time::Duration;

use super::Node;
use super::link::LinkId;
use super::reply::Done;
use super::serve::Batch;
use crate::units::{KIB, Time};

/// How long answers are held after the last of them. A piece that takes longer is a straggler. Far more than a read of flash takes.
const HELD_FOR_MAX: Duration = Duration::from_millis(100);
/// How long the first of them is held at most: a full batch may take a slow device longer than a gateway tolerates silence, and a frame
/// each second costs little.
const HELD_IN_ALL_MAX: Duration = Duration::from_secs(1);
/// Limits of the bytes of held answers of a batch. The least fill a dozen packets; the most are what one transmission of a fast Wi-Fi carries.
const HELD_MIN_BYTES: u64 = 16 * KIB;
const HELD_MAX_BYTES: u64 = 64 * KIB;

/// How many bytes of answers are held of a batch that asks for `reply_bytes`, of which some may have been answered at once: a part of it, so that the
/// gateway has answers, and sends more, while the flash still has work.
pub(super) fn held_bytes_max(reply_bytes: u64) -> usize {
    (reply_bytes / 4).clamp(HELD_MIN_BYTES, HELD_MAX_BYTES) as usize
}

impl Batch {
    /// When the held answers are sent without the rest; `None` if there are none.
    fn held_until(&self) -> Option<Time> {
        let until = (self.held_since + HELD_FOR_MAX).min(self.held_from + HELD_IN_ALL_MAX);
        (!self.held.is_empty()).then_some(until)
    }
}

impl Node {
    /// Holds an answer back; sends all held ones if they are enough for a frame.
    pub(super) fn hold(&mut self, key: usize, done: Done) {
        let Some(batch) = self.batches.get_mut(key) else { return };
        batch.held_since = self.latest.max(done.finished.unwrap_or_default());
        batch.held_bytes += done.data_bytes();
        batch.held.push(done);
        if batch.held.len() == 1 {
            batch.held_from = batch.held_since;
            self.holding += 1;
        }
        if batch.held_bytes >= batch.held_bytes_max {
            self.let_answers_go(key);
        }
    }

    /// Adds the held answers of a batch to the next frame.
    pub(super) fn let_answers_go(&mut self, batch: usize) {
        let Some(batch) = self.batches.get_mut(batch) else { return };
        if batch.held.is_empty() {
            return;
        }
        self.holding -= 1;
        if let Some(link) = self.links.get_mut(batch.link.0) {
            batch.held.drain(..).for_each(|done| link.push_answer(done));
        }
        batch.held.clear();
        batch.held_bytes = 0;
    }

    /// When held answers are due without the rest of their batch, or a report on the store; `None` if nothing is. Call [`Node::turn`] then.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.holding == 0 {
            return self.service_due();
        }
        let held = self.batches.iter().filter_map(|(_, batch)| batch.held_until());
        held.chain(self.service_due()).min()
    }

    pub(super) fn let_old_answers_go(&mut self, now: Time) {
        if self.holding == 0 {
            return;
        }
        let is_old = |batch: &Batch| batch.held_until().is_some_and(|until| now >= until);
        let old: Vec<usize> = self.batches.iter().filter(|(_, batch)| is_old(batch)).map(|(key, _)| key).collect();
        for key in old {
            self.let_answers_go(key);
        }
    }

    /// Drops the held answers of a link that ends.
    pub(super) fn drop_held(&mut self, id: LinkId) {
        let mut freed_bytes = 0;
        for (_, batch) in self.batches.iter_mut().filter(|(_, batch)| batch.link == id && !batch.held.is_empty()) {
            freed_bytes += batch.held.drain(..).map(|done| done.data_bytes() as u64).sum::<u64>();
            batch.held_bytes = 0;
            self.holding -= 1;
        }
        self.release(id, 0, freed_bytes);
    }
}
