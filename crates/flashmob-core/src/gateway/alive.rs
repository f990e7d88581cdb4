//! Keeping links alive: frames that keep a radio awake while a link is in use, and probes when a node is announced anew.
//!
//! An idle Wi-Fi station enters power save: Linux's mac80211 after 100 ms unless its driver says otherwise, drivers of phones after
//! about 200 ms. From then on frames for it wait at the access point for a beacon, every 102.4 ms or every few of them. So a link that
//! was used recently carries a small frame before that time is over, and the next request finds the radio awake. An unused link
//! carries none, and the device may sleep.
//!
//! Nothing here delays a request or adds to its cost: all of it is done at the deadlines of links.

use std::time::Duration;

use super::state::{LinkId, State};
use super::{Action, Event, Gateway};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::condition::{Alive, decode_alive, decode_condition, put_alive};
use crate::wire::frame::WireError;

/// How long after its last batch a link counts as used: longer than programs pause between steps, shorter than people do. Beyond it
/// the device's battery matters more than the first request's wait for a beacon.
pub const USED_FOR: Duration = Duration::from_secs(1);

/// How long a link may take to answer a probe.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(1);

impl Gateway {
    /// A batch is sent on an idle link: from now on the link is kept alive.
    #[cold]
    pub(super) fn begin_to_keep_alive(&mut self, now: Time, id: LinkId) {
        let node = &self.nodes[self.links[id].node];
        if let Some(pace) = self.volumes[node.volume].spec.keep_awake
            && self.links[id].alive.is_known
            && !node.is_local
        {
            self.links[id].alive.due = Some(now + pace);
            self.links.look_at(now + pace);
        }
    }

    /// Sends a frame that keeps a ready link alive, if one is due; disconnects a link that did not answer a probe.
    #[cold]
    pub(super) fn keep_alive(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id];
        if link.alive.probe.is_some_and(|until| now >= until) && link.alive.is_heard {
            // It is alive, and will answer the probe after what it received before.
            link.alive.probe = None;
            let node = link.node;
            return self.refuse_held(now, node);
        }
        if link.alive.probe.is_some_and(|until| now >= until) {
            self.disconnect(now, id, "it did not answer a probe in time");
            return self.try_link(now, id);
        }
        if link.alive.due.is_none_or(|due| now < due) {
            return;
        }
        let Some(pace) = self.volumes[self.nodes[link.node].volume].spec.keep_awake else {
            link.alive.due = None;
            return;
        };
        if now - link.used() >= USED_FOR {
            link.alive.due = None;
        } else if !link.sent.is_empty() {
            // The node is working, and a station may send its answer without waiting for a beacon.
            link.alive.due = Some(now + pace);
        } else if now - link.moved() >= pace {
            link.alive.due = Some(now + pace);
            self.send_alive(now, id, false);
        } else {
            link.alive.due = Some(link.moved() + pace);
        }
    }

    /// Sends such a frame, unless bytes to write serve as well.
    pub(super) fn send_alive(&mut self, now: Time, id: LinkId, wants_answer: bool) {
        let link = &mut self.links[id];
        link.alive.sent = now;
        if link.out.is_empty() || wants_answer {
            link.out.append(|out| put_alive(out, if wants_answer { Alive::Probe } else { Alive::Here }));
            link.counters.alive_frames += 1;
            self.links.mark(id);
        }
    }

    /// The shell has learnt that a node (counted over all volumes) is available, and its new address if it `is_elsewhere`. Attempts begin
    /// at once; those to the old address are given up; a ready link is probed, and disconnected if it does not answer within a second.
    pub fn try_node(&mut self, now: Time, node: usize, is_elsewhere: bool) {
        let Some(state) = self.nodes.get(node).filter(|node| !node.is_local) else { return };
        for id in state.links.clone().map(LinkId) {
            let link = &mut self.links[id];
            match link.state {
                State::Waiting(_) => self.try_link(now, id),
                State::Connecting(_) | State::Greeting(_) | State::Held(_) if is_elsewhere => {
                    self.disconnect(now, id, "the node is elsewhere now");
                    self.try_link(now, id);
                }
                State::Connecting(_) | State::Greeting(_) | State::Held(_) | State::Parked => {}
                State::Ready => self.ask_link(now, id, PROBE_PATIENCE),
            }
        }
    }

    /// What kept links away may be over: those that wait for their next attempt begin it.
    pub fn retry_links(&mut self, now: Time) {
        for index in 0..self.links.len() {
            self.try_link(now, LinkId(index));
        }
    }

    /// Probes a ready link, if its node knows such frames.
    pub(super) fn ask_link(&mut self, now: Time, id: LinkId, patience: Duration) {
        let link = &mut self.links[id];
        if link.state == State::Ready && link.alive.is_known && link.alive.probe.is_none() {
            let until = now + patience;
            link.alive.probe = Some(until);
            link.alive.is_heard = false;
            link.alive.unanswered += 1;
            self.send_alive(now, id, true);
            self.links.look_at(until);
        }
    }

    /// A silent link of this node was disconnected. Its other links may be as dead, and a request resent on one of those would time out,
    /// so they are probed.
    pub(super) fn ask_others(&mut self, now: Time, node: usize) {
        let patience = self.volumes[self.nodes[node].volume].spec.timeout / 4;
        for id in self.nodes[node].links.clone().map(LinkId) {
            self.ask_link(now, id, patience);
        }
    }

    /// How often a link was welcomed, which proves that its address is right.
    #[must_use]
    pub fn welcomes(&self, id: LinkId) -> u64 {
        self.links[id].counters.welcomes
    }

    /// Lets a link's next attempt begin at once, but not before the shortest pause after the last one is over.
    fn try_link(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id];
        if let State::Waiting(at) = link.state {
            let shortest = self.volumes[self.nodes[link.node].volume].spec.reconnect_min;
            let soonest = link.begun.map_or(now, |begun| now.max(begun + shortest)).min(at);
            link.state = State::Waiting(soonest);
            link.failures = 0;
            self.links.look_at(soonest);
        }
    }

    /// A node reports the condition of its device.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_condition(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let condition = decode_condition(meta)?;
        let node = &mut self.nodes[self.links[id].node];
        let was_heard = node.condition.is_some();
        let before = node.condition.replace((condition.clone(), now)).map(|(before, _)| before).unwrap_or_default();
        let name = node.name.clone();
        // The first report since the gateway's start may tell of a pause of long ago.
        if was_heard && condition.pauses > 0 && condition.pauses != before.pauses {
            node.paused = Some(now);
        }
        if condition.crossed != before.crossed {
            let event = match condition.warnings() {
                warnings if warnings.is_empty() => Event::NodeRecovered(name.clone()),
                warnings => Event::NodeWarning(name.clone(), warnings.join("; ")),
            };
            self.actions.push_back(Action::Tell(event));
        }
        if let Some(pause) = condition.last_pause.filter(|_| condition.pauses > before.pauses) {
            self.actions.push_back(Action::Tell(Event::NodePaused(name, pause.sentence())));
        }
        Ok(())
    }

    /// A node shows that it is alive, or that its store makes progress with a flush.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_alive(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        if decode_alive(meta)? == Alive::Progress {
            if !planted::is(Bug::SlowFlushEvicts) {
                self.links[id].store_progressed = Some(now);
            }
            // Others find room beside the flush from now on.
            self.queues.feed_if_ready(self.links[id].node);
            return Ok(());
        }
        let alive = &mut self.links[id].alive;
        // The answer to an earlier probe may be from before a restart.
        alive.unanswered = alive.unanswered.saturating_sub(1);
        if alive.unanswered == 0 && alive.probe.take().is_some() {
            self.rival_answers(now, self.links[id].node);
        }
        Ok(())
    }

    /// The extent that a node (counted over all volumes) serves, once it is known.
    #[must_use]
    pub fn extent_id(&self, node: usize) -> Option<[u8; 16]> {
        self.nodes.get(node).and_then(|node| node.extent_id)
    }
}
