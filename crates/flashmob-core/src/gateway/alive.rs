//! Links that stay alive: frames that keep a radio awake while a link is in use, and what is done when a node is said to be
//! elsewhere or back.
//!
//! A Wi-Fi station falls into power save when nothing moved for a while: Linux's mac80211 after 100 ms unless its driver says
//! otherwise, drivers of phones after about 200 ms. From then on whatever is sent to it waits at the access point for a beacon,
//! every 102.4 ms, or every few of them. So a link that was used a moment ago carries a small frame before that time is over,
//! and the next request finds the radio awake. A link that nobody uses carries none, and the device may sleep.
//!
//! Nothing here may delay a request, or cost one anything: it is all done by the deadlines of links.

use std::time::Duration;

use super::state::{LinkId, State};
use super::{Event, Gateway};
use crate::condition::Condition;
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::condition::{decode_alive, decode_condition, put_alive};
use crate::wire::frame::WireError;
use crate::wire::hello::Welcome;

/// How long after its last batch a link counts as used. Programs pause between their steps for less than this, and a person
/// for more; beyond it the device's battery is worth more than the first request's wait for a beacon.
pub const USED_FOR: Duration = Duration::from_secs(1);

/// How long a link whose node is said to be elsewhere may take to show that it is still here.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// Why a link is not taken beside others of its node.
pub(super) const TWO_DEVICES: &str =
    "another device shows the same extent beside the one that is linked; if that stays, one has a copy: stop that one";

impl Gateway {
    /// A batch goes on a link that rested: from now on it is kept alive.
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

    /// Sends what keeps a ready link alive, if it is due; gives up a link that was asked whether it lives and did not answer.
    #[cold]
    pub(super) fn keep_alive(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id];
        if link.alive.probe.is_some_and(|until| now >= until) && link.alive.is_heard {
            // It lives, and will answer when it is done with what came before.
            link.alive.probe = None;
            let node = link.node;
            return self.refuse_held(now, node, false);
        }
        if link.alive.probe.is_some_and(|until| now >= until) {
            self.disconnect(now, id, "it does not answer, and the node was announced anew");
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
            // The node is at work, and its answer needs no beacon: a station may always send.
            link.alive.due = Some(now + pace);
        } else if now - link.moved() >= pace {
            link.alive.due = Some(now + pace);
            self.send_alive(now, id, false);
        } else {
            link.alive.due = Some(link.moved() + pace);
        }
    }

    /// Where bytes wait for the socket already, they do as well.
    fn send_alive(&mut self, now: Time, id: LinkId, wants_answer: bool) {
        let link = &mut self.links[id];
        link.alive.sent = now;
        if link.out.is_empty() || wants_answer {
            link.out.append(|out| put_alive(out, wants_answer));
            link.counters.alive_frames += 1;
            self.links.mark(id);
        }
    }

    /// The shell was told that a node (counted over all volumes) is there now, perhaps at another address, which it knows
    /// before it calls this. Attempts begin at once; those under way to the old place are given up if it `is_elsewhere`; a link
    /// that is ready is asked whether it lives, and given up if it does not answer within a second.
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
                State::Connecting(_) | State::Greeting(_) | State::Held(_) => {}
                State::Ready => self.ask_link(now, id, PROBE_PATIENCE),
            }
        }
    }

    /// Asks a ready link whether it lives, where its node knows that question.
    fn ask_link(&mut self, now: Time, id: LinkId, patience: Duration) {
        let link = &mut self.links[id];
        if link.state == State::Ready && link.alive.is_known && link.alive.probe.is_none() {
            let until = now + patience;
            link.alive.probe = Some(until);
            link.alive.is_heard = false;
            self.send_alive(now, id, true);
            self.links.look_at(until);
        }
    }

    /// Whether a welcome comes from another start of the node than the one that its other links lead to: the device has restarted, or a
    /// second device shows a copy of the extent. With links to both, reads would miss what was written.
    pub(super) fn is_of_another_start(&self, id: LinkId, welcome: &Welcome) -> bool {
        let node = &self.nodes[self.links[id].node];
        // Another extent is refused as such.
        node.links_up > 0
            && node.extent_id == Some(welcome.extent_id)
            && node.boot_id.is_some_and(|known| known != welcome.boot_id)
            && !planted::is(Bug::NewestStartWins)
    }

    /// Holds such a welcome until the node's other links have shown whether they live. A boot id has no order, and names no device, so the
    /// later welcome says nothing about which of the two has the data. If one of the other links answers, there are two devices, and the
    /// new one is refused; if none does, the device has restarted, and the new link takes the place of those at once.
    pub(super) fn hold_welcome(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        let node = &self.nodes[self.links[id].node];
        let links = node.links.clone();
        let patience = PROBE_PATIENCE.min(self.volumes[node.volume].spec.timeout / 4);
        let until = now + patience * 2;
        let is_first = !links.clone().any(|at| matches!(self.links[LinkId(at)].state, State::Held(_)));
        self.links.greeting -= usize::from(matches!(self.links[id].state, State::Greeting(_)));
        let link = &mut self.links[id];
        link.state = State::Held(until);
        link.held = Some(Box::new(welcome.clone()));
        self.links.look_at(until);
        for other in links.map(LinkId).filter(|&other| other != id) {
            // The last of the others that goes lets this one in.
            if !matches!(self.links[id].state, State::Held(_)) {
                return;
            }
            let link = &mut self.links[other];
            if link.state == State::Ready && !link.alive.is_known {
                // An old node cannot be asked.
                self.disconnect(now, other, "its node seems to have started anew");
                continue;
            }
            if is_first {
                // What was asked before may have until later, or was followed by something from before the restart.
                link.alive.probe = None;
            }
            self.ask_link(now, other, patience);
        }
    }

    /// The node has no other link left: what was held is taken.
    pub(super) fn release_held(&mut self, now: Time, node: usize) {
        for id in self.nodes[node].links.clone().map(LinkId) {
            if let Some(welcome) = self.links[id].held.take() {
                self.welcomed(now, id, &welcome);
                if self.links[id].state == State::Ready {
                    // What came behind it.
                    self.process_link(now, id);
                }
            }
        }
    }

    /// Another link of the node lives, so a welcome that was held came from a second device. People need to read that only now and then.
    fn refuse_held(&mut self, now: Time, node: usize, is_proven: bool) {
        for id in self.nodes[node].links.clone().map(LinkId) {
            if matches!(self.links[id].state, State::Held(_)) {
                if is_proven && self.links[id].failures.is_multiple_of(8) {
                    self.outbox.tell(Event::NodeAils(self.nodes[node].name.clone(), TWO_DEVICES.to_string()));
                }
                self.disconnect(now, id, TWO_DEVICES);
            }
        }
    }

    /// A link of this node was given up because nothing was heard on it. Its other links may be as dead, and a request that is sent again on
    /// one of those would run out of time: they show now whether they live.
    pub(super) fn ask_others(&mut self, now: Time, node: usize) {
        let patience = self.volumes[self.nodes[node].volume].spec.timeout / 4;
        for id in self.nodes[node].links.clone().map(LinkId) {
            self.ask_link(now, id, patience);
        }
    }

    /// How often a link was welcomed: with that, its place is known to be the right one.
    #[must_use]
    pub fn welcomes(&self, id: LinkId) -> u64 {
        self.links[id].counters.welcomes
    }

    /// Lets a link's next attempt begin at once; not sooner after the last one than the shortest pause, whoever calls how often.
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

    /// A node tells how its device is.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_condition(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let condition = decode_condition(meta)?;
        let node = &mut self.nodes[self.links[id].node];
        let before = node.condition.replace((condition.clone(), now)).map(|(before, _)| before).unwrap_or_default();
        let name = node.name.clone();
        if condition.crossed != before.crossed {
            let event = match condition.warnings() {
                warnings if warnings.is_empty() => Event::NodeWell(name.clone()),
                warnings => Event::NodeAils(name.clone(), warnings.join("; ")),
            };
            self.outbox.tell(event);
        }
        if let Some(pause) = condition.last_pause.filter(|_| condition.pauses > before.pauses) {
            self.outbox.tell(Event::NodePaused(name, pause.sentence()));
        }
        Ok(())
    }

    /// A node shows that it lives.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_alive(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        decode_alive(meta)?;
        if self.links[id].alive.probe.take().is_some() {
            self.refuse_held(now, self.links[id].node, true);
        }
        Ok(())
    }

    /// The extent that a node (counted over all volumes) serves, once it is known.
    #[must_use]
    pub fn extent_id(&self, node: usize) -> Option<[u8; 16]> {
        self.nodes.get(node).and_then(|node| node.extent_id)
    }

    /// What a node last told of its device, and when.
    #[must_use]
    pub fn condition_of(&self, node: usize) -> Option<&(Condition, Time)> {
        self.nodes.get(node).and_then(|node| node.condition.as_ref())
    }
}
