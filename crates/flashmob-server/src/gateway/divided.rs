//! Turns of the loop that are divided: a client with few requests outstanding is served between their parts, beside one with many.

use std::collections::VecDeque;
use std::time::Duration;

use flashmob_core::gateway::{ClientId, LinkId};
use flashmob_core::units::Time;
use mio::Events;

use super::server::GatewayServer;

/// Links that others use are read for so long, and to the end of the last, before modest clients have their turn.
const ATTEND_EVERY: Duration = Duration::from_micros(50);

/// Which clients are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clients {
    All,
    Modest,
}

/// What is kept for reuse.
#[derive(Debug, Default)]
pub(super) struct Between {
    events: Option<Events>,
    clients: Vec<ClientId>,
    links: Vec<LinkId>,
    unread: VecDeque<LinkId>,
}

impl GatewayServer {
    /// Reads once from every link that has bytes, and returns the time. In a divided turn those come first on which urgent reads are out, and
    /// modest clients are served in between.
    pub(super) fn read_links(&mut self) -> Time {
        let mut now = self.clock.now();
        if !self.gateway.divides_turns(now) {
            self.links.read_all(&mut self.gateway, now);
            return now;
        }
        let mut unread = std::mem::take(&mut self.between.unread);
        unread.extend(self.links.readable());
        // As long as others wait, every second part is theirs. So all of them have been read when the turn ends, however much that is
        // urgent arrives meanwhile.
        let mut parts = 2 * unread.len();
        let (mut is_turn_of_urgent, mut attended) = (true, now);
        while parts > 0 {
            let urgent = unread.iter().position(|&id| is_turn_of_urgent && self.gateway.is_link_urgent(id));
            let Some(id) = unread.remove(urgent.unwrap_or(0)) else { break };
            parts -= 1;
            is_turn_of_urgent = !is_turn_of_urgent;
            self.links.read(&mut self.gateway, now, id);
            now = self.clock.now();
            if urgent.is_none() && now - attended < ATTEND_EVERY {
                continue;
            }
            now = self.attend(now);
            attended = now;
            let gateway = &self.gateway;
            self.between.links.extend(self.links.readable().filter(|&id| gateway.is_link_urgent(id)));
            for id in self.between.links.drain(..) {
                if !unread.contains(&id) {
                    unread.push_back(id);
                }
            }
        }
        unread.clear();
        self.between.unread = unread;
        now
    }

    /// Serves modest clients: reads their requests, sends them to nodes, and writes their answers. Returns the time.
    fn attend(&mut self, now: Time) -> Time {
        let mut events = self.between.events.take().unwrap_or_else(|| Events::with_capacity(64));
        // An error shows again when the loop sleeps.
        if self.poll.poll(&mut events, Some(Duration::ZERO)).is_ok() {
            self.note_events(&events);
        }
        self.between.events = Some(events);
        self.read_clients(Clients::Modest);
        self.gateway.turn_in_part(now);
        self.do_actions();
        let (mut clients, mut links) =
            (std::mem::take(&mut self.between.clients), std::mem::take(&mut self.between.links));
        self.gateway.take_dirty(&mut clients, &mut links);
        for id in clients.drain(..) {
            if self.gateway.is_client_modest(id) {
                self.write_client(id);
            } else {
                self.dirty_clients.push(id);
            }
        }
        for id in links.drain(..) {
            self.links.write(&mut self.gateway, now, id);
        }
        (self.between.clients, self.between.links) = (clients, links);
        self.clock.now()
    }
}
