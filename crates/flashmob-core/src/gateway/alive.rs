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

use super::link::{Link, LinkId, State};
use super::{Event, Gateway};
use crate::condition::Condition;
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

/// What keeps one link alive.
#[derive(Debug, Default)]
pub(super) struct Alive {
    /// The node said that it knows such frames.
    pub is_known: bool,
    /// When it is looked whether a frame is due; `None` while the link is not used.
    due: Option<Time>,
    /// When the last such frame was made.
    sent: Time,
    /// An answer was asked for and is awaited until then.
    probe: Option<Time>,
    /// Frames sent.
    pub frames: u64,
}

impl Alive {
    /// When the link wants to be looked at for this.
    pub fn deadline(&self) -> Option<Time> {
        self.due.into_iter().chain(self.probe).min()
    }

    /// Bytes came: whoever sends them lives.
    pub fn heard(&mut self) {
        self.probe = None;
    }

    /// What was begun ends with the link; the next welcome says anew what the node knows.
    pub fn link_is_lost(&mut self) {
        *self = Alive { frames: self.frames, ..Alive::default() };
    }

    /// Whether nobody looks yet whether a frame is due.
    pub fn is_resting(&self) -> bool {
        self.due.is_none()
    }
}

impl Link {
    /// When it last carried what somebody asked for.
    fn used(&self) -> Time {
        self.sent.back().map_or(self.answered, |batch| batch.sent.max(self.answered))
    }

    /// When something last moved on it, in either direction.
    fn moved(&self) -> Time {
        self.used().max(self.progress).max(self.alive.sent)
    }
}

impl Gateway {
    /// A batch goes on a link that rested: from now on it is kept alive.
    #[cold]
    pub(super) fn begin_to_keep_alive(&mut self, now: Time, id: LinkId) {
        let node = &self.nodes[self.links[id.0].node];
        if let Some(pace) = self.volumes[node.volume].spec.keep_awake
            && self.links[id.0].alive.is_known
            && !node.is_local
        {
            self.links[id.0].alive.due = Some(now + pace);
            self.link_is_due(now + pace);
        }
    }

    /// Sends what keeps a ready link alive, if it is due; gives up a link that was asked whether it lives and did not answer.
    #[cold]
    pub(super) fn keep_alive(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id.0];
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
        let link = &mut self.links[id.0];
        link.alive.sent = now;
        if link.out.is_empty() || wants_answer {
            link.out.append(|out| put_alive(out, wants_answer));
            link.alive.frames += 1;
            self.mark_link(id);
        }
    }

    /// The shell was told that a node (counted over all volumes) is there now, perhaps at another address, which it knows
    /// before it calls this. Attempts begin at once; those under way to the old place are given up if it `is_elsewhere`; a link
    /// that is ready is asked whether it lives, and given up if it does not answer within a second.
    pub fn try_node(&mut self, now: Time, node: usize, is_elsewhere: bool) {
        let Some(state) = self.nodes.get(node).filter(|node| !node.is_local) else { return };
        for id in state.links.clone().map(LinkId) {
            let link = &mut self.links[id.0];
            match link.state {
                State::Waiting(_) => self.try_link(now, id),
                State::Connecting(_) | State::Greeting(_) if is_elsewhere => {
                    self.disconnect(now, id, "the node is elsewhere now");
                    self.try_link(now, id);
                }
                State::Connecting(_) | State::Greeting(_) => {}
                State::Ready => self.ask_link(now, id),
            }
        }
    }

    /// Asks a ready link whether it lives, where its node knows that question.
    fn ask_link(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id.0];
        if link.state == State::Ready && link.alive.is_known && link.alive.probe.is_none() {
            let until = now + PROBE_PATIENCE;
            link.alive.probe = Some(until);
            self.send_alive(now, id, true);
            self.link_is_due(until);
        }
    }

    /// Whether a welcome comes from another device, or another start of it, than the one that the node's other links lead to. A copy of
    /// an extent shows the same identity: with links to both, reads would miss what was written. The other links are asked whether they
    /// live; those of a start that is over are given up soon, and then the new one is taken.
    pub(super) fn is_of_two_devices(&mut self, now: Time, id: LinkId, welcome: &Welcome) -> bool {
        let node_index = self.links[id.0].node;
        let node = &self.nodes[node_index];
        // Another extent is refused as such.
        let is_same_extent = node.extent_id == Some(welcome.extent_id);
        if node.links_up == 0 || !is_same_extent || node.boot_id.is_none_or(|known| known == welcome.boot_id) {
            return false;
        }
        for other in node.links.clone().map(LinkId) {
            let link = &self.links[other.0];
            if link.state == State::Ready && !link.alive.is_known {
                // An old node cannot be asked.
                self.disconnect(now, other, "its node seems to have started anew");
            } else {
                self.ask_link(now, other);
            }
        }
        let node = &self.nodes[node_index];
        let (is_so, name) = (node.links_up > 0, node.name.clone());
        // A restart explains it for a second; and people need to read it only now and then.
        if is_so && self.links[id.0].failures % 8 == 7 {
            self.tell(Event::NodeAils(name, TWO_DEVICES.to_string()));
        }
        is_so
    }

    /// How often a link was welcomed: with that, its place is known to be the right one.
    #[must_use]
    pub fn welcomes(&self, id: LinkId) -> u64 {
        self.links[id.0].counters.welcomes
    }

    /// Lets a link's next attempt begin at once; not sooner after the last one than the shortest pause, whoever calls how often.
    fn try_link(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id.0];
        if let State::Waiting(at) = link.state {
            let shortest = self.volumes[self.nodes[link.node].volume].spec.reconnect_min;
            let soonest = link.begun.map_or(now, |begun| now.max(begun + shortest)).min(at);
            link.state = State::Waiting(soonest);
            link.failures = 0;
            self.link_is_due(soonest);
        }
    }

    /// A node tells how its device is.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_condition(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let condition = decode_condition(meta)?;
        let node = &mut self.nodes[self.links[id.0].node];
        let before = node.condition.replace((condition.clone(), now)).map(|(before, _)| before).unwrap_or_default();
        let name = node.name.clone();
        if condition.crossed != before.crossed {
            let event = match condition.warnings() {
                warnings if warnings.is_empty() => Event::NodeWell(name.clone()),
                warnings => Event::NodeAils(name.clone(), warnings.join("; ")),
            };
            self.tell(event);
        }
        if let Some(pause) = condition.last_pause.filter(|_| condition.pauses > before.pauses) {
            self.tell(Event::NodePaused(name, pause.sentence()));
        }
        Ok(())
    }

    /// A node shows that it lives, which its bytes did already.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_alive(&mut self, meta: &[u8]) -> Result<(), WireError> {
        decode_alive(meta).map(|_| ())
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
