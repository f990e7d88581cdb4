//! Welcomes from another start of a node than its ready links lead to: they are held until it is clear whether the device has restarted
//! or a second device serves a copy of its extent.
//!
//! Boot ids have no order and name no device, and a welcome may have been delayed while its device restarted. So both sides are probed, and
//! only an answer counts: two devices are there if both answer, and the side that answers alone is the device.
//!
//! An answer shows that a start lived when its probe was sent. For two of them to show that both starts live, the probes must be sent after
//! the welcomes of both have arrived, so welcomes of one start only are held at a time: those of a third are refused meanwhile.

use std::time::Duration;

use super::alive::PROBE_PATIENCE;
use super::state::{HeldWelcome, LinkId, State};
use super::{Action, Event, Gateway};
use crate::buffers::RxBuf;
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::condition::{Alive, decode_alive, decode_condition};
use crate::wire::frame::{self, Decoded, FrameKind, WireError};
use crate::wire::hello::Welcome;
use crate::wire::service::decode_service;

/// Most bytes that a node may send behind a held welcome: some frames with its condition, and no answers.
const HELD_BYTES_MAX: usize = 64 << 10;

/// What the owner is told of a second device.
const TWO_DEVICES: &str =
    "another device shows the same extent beside the one that is linked; if that stays, one has a copy: stop that one";
/// How often at most.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Why a held welcome is dropped while the node's other links live.
const OTHERS_LIVE: &str = "the welcome is from another start of the device than its other links, and those still live";
/// Why it is dropped in the end.
const NO_ANSWER: &str = "it did not answer a probe after its welcome";
/// Why a welcome is refused while one of another start is held.
const IN_QUESTION: &str = "the welcome is from another start of the device than the one that is being probed";

impl Gateway {
    /// Whether a welcome comes from another start of the node than its ready links lead to. With links to both, reads could miss what was
    /// written.
    pub(super) fn is_of_another_start(&self, id: LinkId, welcome: &Welcome) -> bool {
        let node = &self.nodes[self.links[id].node];
        // Another extent is refused as such.
        node.links_up > 0
            && node.extent_id == Some(welcome.extent_id)
            && node.boot_id.is_some_and(|known| known != welcome.boot_id)
            && !planted::is(Bug::NewestStartWins)
    }

    /// How long ready links of a node may take to answer a probe while a welcome is held.
    fn held_patience(&self, node: usize) -> Duration {
        PROBE_PATIENCE.min(self.volumes[self.nodes[node].volume].spec.timeout / 4)
    }

    /// The boot id of the node's held welcomes.
    fn held_boot_id(&self, node: usize) -> Option<[u8; 16]> {
        let mut links = self.links.of(&self.nodes[node]).iter();
        links.find_map(|link| link.held.as_ref()).map(|held| held.welcome.boot_id)
    }

    /// Refuses a welcome for now if one of another start is held; returns whether it did. Those of the start of the ready links are never
    /// refused.
    pub(super) fn refuse_third_start(&mut self, now: Time, id: LinkId, welcome: &Welcome) -> bool {
        let node = self.links[id].node;
        let is_other = self.held_boot_id(node).is_some_and(|held| held != welcome.boot_id);
        let is_refused = is_other && (self.nodes[node].links_up == 0 || self.is_of_another_start(id, welcome));
        if is_refused {
            self.disconnect(now, id, IN_QUESTION);
        }
        is_refused
    }

    /// Holds such a welcome, and probes its link and the node's ready ones.
    pub(super) fn hold_welcome(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        let node = self.links[id].node;
        let links = self.nodes[node].links.clone();
        let patience = self.held_patience(node);
        let until = now + patience * 2;
        let is_first = self.held_boot_id(node).is_none();
        self.links.greeting -= usize::from(matches!(self.links[id].state, State::Greeting(_)));
        let link = &mut self.links[id];
        link.state = State::Held(until);
        // An old node cannot be probed, and is taken at its word.
        let is_alive = !welcome.keeps_alive || planted::is(Bug::LateWelcomeIsADevice);
        link.held = Some(Box::new(HeldWelcome { welcome: welcome.clone(), seen_bytes: 0, is_alive, has_rival: false }));
        self.links.look_at(until);
        if !is_alive {
            self.links[id].alive.unanswered += 1;
            self.send_alive(now, id, true);
        }
        for other in links.map(LinkId).filter(|&other| other != id) {
            // The end of the last of the others released this one.
            if !matches!(self.links[id].state, State::Held(_)) {
                return;
            }
            let link = &mut self.links[other];
            if link.state == State::Ready && !link.alive.is_known {
                self.disconnect(now, other, "its node seems to have started anew");
                continue;
            }
            if is_first {
                // An earlier probe may have a later deadline, or was followed by bytes from before the restart.
                link.alive.probe = None;
            }
            self.ask_link(now, other, patience);
        }
    }

    /// Looks for the answer to a held link's probe in the bytes behind its welcome; all of them stay for when it is accepted.
    pub(super) fn look_behind_welcome(&mut self, now: Time, id: LinkId, rx: &RxBuf) -> Result<(), WireError> {
        let node = self.links[id].node;
        let Some(held) = &mut self.links[id].held else { return Ok(()) };
        while let Decoded::Frame(frame, taken) = frame::decode_frame(&rx.data()[held.seen_bytes..])? {
            match frame.kind {
                FrameKind::Condition => drop(decode_condition(frame.meta)?),
                // Of what it did for others.
                FrameKind::Service if self.config.keeps_live => drop(decode_service(frame.meta)?),
                // No flush came on this link yet.
                FrameKind::Alive if decode_alive(frame.meta)? != Alive::Progress => held.is_alive = true,
                FrameKind::Error => {
                    let text = frame::error_text(frame.meta);
                    self.disconnect(now, id, &format!("the node reports: {text}"));
                    return Ok(());
                }
                _ => return Err(WireError::Malformed("order of frames")),
            }
            held.seen_bytes += taken;
        }
        if rx.len() > HELD_BYTES_MAX {
            return Err(WireError::Malformed("more than a node says before it is asked"));
        }
        if held.is_alive {
            self.settle_held(now, node);
        }
        Ok(())
    }

    /// A link became ready: if a welcome of another start is held, it has to answer a probe as well.
    pub(super) fn probe_for_held(&mut self, now: Time, id: LinkId) {
        let node = self.links[id].node;
        let is_other = self.held_boot_id(node).is_some() && self.held_boot_id(node) != self.nodes[node].boot_id;
        if is_other {
            self.ask_link(now, id, self.held_patience(node));
        }
    }

    /// A ready link of the node has answered a probe.
    pub(super) fn rival_answers(&mut self, now: Time, node: usize) {
        for at in self.nodes[node].links.clone() {
            if let Some(held) = &mut self.links[LinkId(at)].held {
                held.has_rival = true;
            }
        }
        self.settle_held(now, node);
    }

    /// The node has no ready link left: nothing contradicts held welcomes.
    pub(super) fn release_held(&mut self, now: Time, node: usize) {
        for at in self.nodes[node].links.clone() {
            if let Some(held) = &mut self.links[LinkId(at)].held {
                held.has_rival = false;
            }
        }
        self.settle_held(now, node);
    }

    /// Accepts held welcomes that nothing contradicts, and refuses those whose link and whose rival have both answered.
    fn settle_held(&mut self, now: Time, node: usize) {
        let links = self.nodes[node].links.clone().map(LinkId);
        while let Some(id) = links.clone().find(|&id| self.may_accept_held(id)) {
            let Some(held) = self.links[id].held.take() else { return };
            self.welcomed(now, id, &held.welcome);
            if self.links[id].state == State::Ready {
                // The bytes behind it.
                self.process_link(now, id);
            }
        }
        for id in links {
            if self.links[id].held.as_ref().is_some_and(|held| held.is_alive && held.has_rival) {
                self.disconnect(now, id, OTHERS_LIVE);
                let node = &mut self.nodes[node];
                if node.copy_told.is_none_or(|told| now - told >= TELL_EVERY) {
                    node.copy_told = Some(now);
                    let event = Event::NodeWarning(node.name.clone(), TWO_DEVICES.to_string());
                    self.actions.push_back(Action::Tell(event));
                }
            }
        }
    }

    /// Whether a link's welcome is held and can be accepted: a ready link shows the same start, or none is left and this one is alive.
    fn may_accept_held(&self, id: LinkId) -> bool {
        let is_alone = self.nodes[self.links[id].node].links_up == 0;
        let held = self.links[id].held.as_ref();
        held.is_some_and(|held| !self.is_of_another_start(id, &held.welcome) && (!is_alone || held.is_alive))
    }

    /// A ready link of the node was heard but has not answered a probe in time: a held welcome cannot be accepted, and it is not proven that
    /// there are two devices.
    pub(super) fn refuse_held(&mut self, now: Time, node: usize) {
        for id in self.nodes[node].links.clone().map(LinkId) {
            if matches!(self.links[id].state, State::Held(_)) {
                self.disconnect(now, id, OTHERS_LIVE);
            }
        }
    }

    /// A held link's time is over.
    pub(super) fn held_timeout(&mut self, now: Time, id: LinkId) {
        let is_alive = self.links[id].held.as_ref().is_some_and(|held| held.is_alive);
        self.disconnect(now, id, if is_alive { OTHERS_LIVE } else { NO_ANSWER });
    }
}
