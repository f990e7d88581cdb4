//! Who goes on when: clients that a limit held back, and those that had their part of a turn.

use std::time::Duration;

use super::Gateway;
use super::client::{Client, ClientId};
use super::local::LocalExtents;
use crate::units::Time;

/// How long a client that finds too little memory keeps others from taking any.
const FIRST_IN_LINE_FOR: Duration = Duration::from_secs(1);

impl Gateway {
    /// Goes on with clients that a limit held back.
    pub(super) fn resume_clients(&mut self, now: Time, local: &mut impl LocalExtents) {
        let mut blocked: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, c)| c.blocked)
            .map(|(index, c)| ClientId { index, serial: c.serial })
            .collect();
        let Some(last) = blocked.last() else { return };
        // Begin behind the client that came first last time. Who is first and still finds too little memory keeps its
        // turn for a while, and nobody else takes any: else a large request would wait for ever beside small ones.
        if self.first_in_line.is_none_or(|(id, until)| now >= until || !self.client(id).is_some_and(|c| c.blocked)) {
            let first = if last.index <= self.turn_first { 0 } else { self.turn_first + 1 };
            let split = blocked.partition_point(|id| id.index < first);
            blocked.rotate_left(split);
            self.turn_first = blocked[0].index;
            self.first_in_line = Some((blocked[0], now + FIRST_IN_LINE_FOR));
        } else if let Some(at) = blocked.iter().position(|id| self.first_in_line.is_some_and(|(first, _)| first == *id))
        {
            blocked.swap(0, at);
        }
        for id in blocked {
            if self.client(id).is_some_and(Client::is_native) {
                self.start_native(now, id, local);
            } else {
                self.process_client(now, id, local);
            }
        }
        if !self.draining && self.clients.iter().any(|(_, c)| c.blocked) {
            self.shed_unanswered(now);
        }
    }

    /// Whether another client is first in line for memory.
    pub(super) fn is_turn_of_another(&self, id: ClientId) -> bool {
        self.first_in_line
            .is_some_and(|(first, _)| first != id && self.client(first).is_some_and(|c| c.blocked && c.is_short))
    }

    /// What one client may hold of the memory: one that does not read its answers must not hold all of it.
    pub(super) fn share_bytes(&self) -> u64 {
        self.budget.limit_bytes() / (self.clients.len() as u64).clamp(2, 16)
    }

    /// Whether another turn may let something go on: a queue got something since the last (what a link had out that broke
    /// while it was written to), or clients had their part of it, or a limit held them back and memory was freed since, or one
    /// of them has read what it owed to read.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.paused_clients > 0
            || !self.fed.is_empty()
            || (self.retry_blocked || self.budget.used_bytes() < self.used_bytes_at_turn)
                && self.clients.iter().any(|(_, c)| c.blocked)
    }
}
