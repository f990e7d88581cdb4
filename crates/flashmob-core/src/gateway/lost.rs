//! The end of a link, from either side, and its deadlines: its pieces return to the queue, and the next attempt is scheduled.

use std::time::Duration;

use super::late::FLUSH_TIMEOUTS_MAX;
use super::state::{Alive, LinkId, State};
use super::{Action, Event, Gateway};
use crate::buffers::RxBuf;
use crate::units::Time;

impl Gateway {
    /// Disconnects a link from this side.
    pub(super) fn disconnect(&mut self, now: Time, id: LinkId, reason: &str) {
        self.break_link(now, id, reason, None);
        self.actions.push_back(Action::Disconnect(id));
    }

    /// Returns a broken link's pieces and schedules the next attempt.
    pub(super) fn break_link(&mut self, now: Time, id: LinkId, reason: &str, pause: Option<Duration>) {
        let was_ready = match self.links[id].state {
            State::Waiting(_) | State::Parked => return,
            state => state == State::Ready,
        };
        self.links.greeting -= usize::from(matches!(self.links[id].state, State::Greeting(_)));
        if self.metrics.samples.is_active() {
            self.metrics.samples.link_broken(id);
        }
        let pause = pause.unwrap_or_else(|| {
            let spec = &self.volumes[self.nodes[self.links[id].node].volume].spec;
            self.links.backoff(id, (spec.reconnect_min, spec.reconnect_max))
        });
        let link = &mut self.links[id];
        let until = now + pause;
        link.state = State::Waiting(until);
        link.alive = Alive::default();
        link.held = None;
        link.failures += 1;
        link.counters.breaks += 1;
        link.rx = RxBuf::new();
        link.out.clear();
        let node_index = link.node;
        self.nodes[node_index].links_up -= usize::from(was_ready);
        self.give_back(now, node_index, id);
        if was_ready && self.has_copies() {
            self.mirror_lost(now, id);
        }
        self.links.look_at(until);
        let node = &mut self.nodes[node_index];
        // Reported when it is lost, and then only for new reasons: an attempt fails every few seconds.
        if node.links_up == 0 && node.refusal.is_none() && (was_ready || node.trouble.as_deref() != Some(reason)) {
            node.trouble = Some(reason.to_string());
            self.actions.push_back(Action::Tell(Event::NodeDown(node.name.clone(), reason.to_string())));
        }
        if was_ready && self.nodes[node_index].links_up == 0 {
            self.release_held(now, node_index);
        }
    }

    /// Handles a link's deadlines. Call [`Links::find_due`](super::state::Links::find_due) afterwards.
    pub(super) fn link_timeout(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id];
        let spec = &self.volumes[self.nodes[link.node].volume].spec;
        match link.state {
            State::Waiting(at) if now >= at && !self.draining => {
                link.attempt += 1;
                link.begun = Some(now);
                link.state = State::Connecting(now + spec.connect_timeout);
                let node = link.node;
                self.actions.push_back(Action::Connect { link: id, node });
            }
            State::Connecting(at) if now >= at => self.disconnect(now, id, "no connection in time"),
            State::Greeting(at) if now >= at => self.disconnect(now, id, "no answer to the hello in time"),
            State::Held(at) if now >= at => self.held_timeout(now, id),
            // Half of a request's timeout, so that another attempt has the other half.
            State::Ready if !link.sent.is_empty() && now - link.progress >= spec.timeout / 2 => {
                let node = link.node;
                self.disconnect(now, id, "no answer in time");
                self.ask_others(now, node);
            }
            // It answers, but not this batch: what waits behind it must not wait for ever.
            State::Ready if link.has_waited(now, spec.timeout * 2, spec.timeout * FLUSH_TIMEOUTS_MAX) => {
                self.disconnect(now, id, "a batch was never answered");
            }
            State::Ready => self.keep_alive(now, id),
            _ => {}
        }
    }
}
