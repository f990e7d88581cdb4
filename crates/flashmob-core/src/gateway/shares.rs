//! Who goes on when: clients that a limit held back, and those that had their part of a turn.

use super::Gateway;
use super::local::LocalExtents;
use super::state::Client;
use crate::units::Time;

impl Gateway {
    /// Goes on with clients that a limit held back.
    pub(super) fn resume_clients(&mut self, now: Time, local: &mut impl LocalExtents) {
        if !self.clients.has_blocked() {
            return;
        }
        for id in self.memory.line_up(now, &self.clients) {
            if self.clients.get(id).is_some_and(Client::is_native) {
                self.start_native(now, id, local);
            } else {
                self.process_client(now, id, local);
            }
        }
        if !self.draining && self.clients.has_blocked() {
            self.shed_unanswered(now);
        }
    }

    /// Whether another turn may let something go on: a queue got something since the last (what a link had out that broke
    /// while it was written to), or clients had their part of it, or a limit held them back and memory was freed since, or one
    /// of them has read what it owed to read.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.clients.has_paused() || self.queues.is_any_fed() || self.memory.may_go_on() && self.clients.has_blocked()
    }
}
