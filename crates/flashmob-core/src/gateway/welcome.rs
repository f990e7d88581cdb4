//! A node's answer to the hello: a welcome, which is checked, or a refusal.

use std::time::Duration;

use super::state::{LinkId, Node, Offer, State};
use super::{Action, Event, Gateway};
use crate::clocks::Exchange;
use crate::units::Time;
use crate::wire::frame::WireError;
use crate::wire::hello::{Refuse, RefuseReason, Welcome};

/// Pause before the next attempt at a node that is the wrong one.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// What to do if an extent of a volume without copies is another one.
pub(super) const OF_LINEAR: &str = "bring the old one back, correct `extent` in the configuration, or start the gateway with --forget to give its data up";

pub(super) fn another_extent(known: [u8; 16], found: [u8; 16], remedy: &str) -> String {
    let [known, found] = [known, found].map(u128::from_be_bytes);
    format!(
        "it serves another extent ({found:032x}) than the one that this volume knows ({known:032x}); was its data \
         replaced, its card not mounted, or its address given to another node? {remedy}"
    )
}

impl Gateway {
    /// The node accepts the link. Everything that was sent on this link before is over.
    pub(super) fn welcomed(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        if let Some(proven) = self.links[id].proven.filter(|proven| *proven != welcome.extent_id) {
            let [proven, said] = [proven, welcome.extent_id].map(u128::from_be_bytes);
            let text =
                format!("it says that it serves extent {said:032x}, and its key is that of extent {proven:032x}");
            return self.refuse_node(now, id, text);
        }
        if let Some(text) = self.beyond_keys(id, welcome) {
            return self.refuse_node(now, id, text);
        }
        if self.refuse_third_start(now, id, welcome) {
            return;
        }
        if self.is_of_another_start(id, welcome) {
            return self.hold_welcome(now, id, welcome);
        }
        let became_ready = match self.check_welcome(now, id, welcome) {
            Ok(became_ready) => became_ready,
            Err(text) => return self.refuse_node(now, id, text),
        };
        if let Some(text) = self.unwelcome(now, id, welcome) {
            return self.refuse_node(now, id, text);
        }
        let node_index = self.links[id].node;
        self.relate_clock(now, id, welcome);
        self.links.greeting -= usize::from(matches!(self.links[id].state, State::Greeting(_)));
        let link = &mut self.links[id];
        link.state = State::Ready;
        link.failures = 0;
        link.counters.welcomes += 1;
        link.alive.is_known = welcome.keeps_alive;
        self.resolve(node_index, id);
        let node = &mut self.nodes[node_index];
        node.refusal = None;
        node.offer = None;
        node.trouble = None;
        self.volumes[node.volume].refusals.remove(&(node.extent as usize));
        node.links_up += 1;
        node.no_io = welcome.no_io;
        node.modelled = welcome.modelled;
        node.knows_marks = welcome.knows_marks;
        if node.links_up == 1 {
            self.actions.push_back(Action::Tell(Event::NodeUp {
                name: node.name.clone(),
                no_io: welcome.no_io,
                modelled: welcome.modelled,
            }));
        }
        self.tell_if_ready(self.nodes[node_index].volume, became_ready);
        self.tell_if_linked(node_index);
        self.queues.feed(node_index);
        self.probe_for_held(now, id);
        self.copies_welcomed(now, id, welcome);
    }

    /// Checks a welcome against what is known of the node, and learns the rest from it, unless it is refused. True if that makes the
    /// volume ready.
    fn check_welcome(&mut self, now: Time, id: LinkId, welcome: &Welcome) -> Result<bool, String> {
        let number = self.links[id].node;
        let node = &mut self.nodes[number];
        let volume = &mut self.volumes[node.volume];
        let expected = volume.sizes_bytes[node.extent as usize];
        let is_known = volume.copies.is_some() && node.extent_id == Some(welcome.extent_id);
        if let Some(most) = volume.copies.as_ref().map(|copies| copies.image().extent_bytes_max())
            && welcome.size_bytes > most
        {
            return Err(format!(
                "it says that its extent has {} bytes, and none of this volume can have more than {most}: it lies, or is damaged",
                welcome.size_bytes
            ));
        }
        // It has grown; or it said too much before, and what is in use is there.
        let used_bytes = volume.copies.as_ref().map_or(0, |copies| copies.image().used_bytes(node.extent as u16));
        let is_less = expected.is_some_and(|expected| welcome.size_bytes < expected);
        let is_in_use =
            || volume.copies.as_ref().is_some_and(|copies| copies.has_work_beyond_copies(node.extent as u16));
        let may_be = is_known && welcome.size_bytes >= used_bytes && !(is_less && is_in_use());
        if let Some(expected) = expected.filter(|e| *e != welcome.size_bytes && !may_be) {
            return Err(format!("its extent has {} bytes, this volume expects {expected}", welcome.size_bytes));
        }
        if let Some(known) = node.extent_id.filter(|known| *known != welcome.extent_id) {
            let remedy = if volume.copies.is_some() {
                let Welcome { extent_id, size_bytes, .. } = *welcome;
                node.offer = Some(Offer { extent_id, size_bytes, seen: now });
                "bring the old one back, or give its data up with `flashmob volume replace`, which copies it from other nodes and is refused if they do not have it"
            } else {
                OF_LINEAR
            };
            return Err(another_extent(known, welcome.extent_id, remedy));
        }
        if node.extent_id.is_none() && volume.copies.is_some() {
            let is_it = |(other, of): (usize, &Node)| other != number && of.extent_id == Some(welcome.extent_id);
            if let Some(owner) = self.nodes.iter().enumerate().position(is_it) {
                let owner = &self.nodes[owner].name;
                return Err(format!("it is another node of this gateway, {owner}; correct its address"));
            }
        }
        let node = &mut self.nodes[number];
        let extent = node.extent as usize;
        let became_ready = volume.learn_size(extent, welcome.size_bytes).map_err(|error| error.to_string())?;
        let rebooted = node.boot_id.is_some_and(|known| known != welcome.boot_id);
        // The first welcome since the start confirms an extent that was named beforehand, too.
        if node.boot_id.is_none() {
            node.extent_id = Some(welcome.extent_id);
            self.actions.push_back(Action::Remember { node: number, extent_id: welcome.extent_id });
        }
        node.boot_id = Some(welcome.boot_id);
        if rebooted {
            node.failures.restarted();
        }
        if rebooted && self.queues[number].has_unflushed_changes() && volume.copies.is_none() {
            volume.losses += 1;
            self.metrics.counters.losses += 1;
            self.actions.push_back(Action::Tell(Event::ChangesLost(node.name.clone())));
        }
        Ok(became_ready)
    }

    /// Uses hello and welcome as an exchange with the node's clock.
    fn relate_clock(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        let exchange = Exchange {
            sent_ns: self.metrics.samples.clock_ns(self.links[id].greeted),
            received_there_ns: welcome.hello_received_ns,
            sent_there_ns: welcome.welcome_sent_ns,
            returned_ns: self.metrics.samples.clock_ns(now),
        };
        let node = &mut self.nodes[self.links[id].node];
        if node.links_up == 0 {
            // It may be another device, or the same after a restart.
            node.clock.reset();
        }
        node.clock.note(exchange);
    }

    fn tell_if_linked(&mut self, node: usize) {
        let volume = &mut self.volumes[self.nodes[node].volume];
        let mut nodes = volume.nodes.iter().map(|&node| &self.nodes[node]);
        if self.nodes[node].links_up == 1 && nodes.all(|n| n.links_up > 0 || n.is_gone) {
            volume.was_linked = true;
            self.actions.push_back(Action::Tell(Event::VolumeLinked(volume.spec.name.clone())));
        }
    }

    pub(super) fn refused(&mut self, now: Time, id: LinkId, refuse: &Refuse) {
        if refuse.reason == RefuseReason::Deposed {
            let text = self.claimed(now, id, &refuse.text);
            self.refuse_node(now, id, text);
        } else if refuse.reason.is_permanent() {
            self.refuse_node(now, id, refuse.text.clone());
        } else {
            self.disconnect(now, id, &format!("refused: {}", refuse.text));
        }
    }

    /// A node does not understand the hello of a volume with copies: earlier versions take what such a hello adds for damage.
    pub(super) fn not_understood(&mut self, now: Time, id: LinkId, text: &str) {
        let why = format!("the node reports: {text}");
        if text != WireError::Malformed("hello").to_string() {
            return self.disconnect(now, id, &why);
        }
        self.refuse_node(
            now,
            id,
            format!("it knows no volumes with copies, or none that was linear; update flashmob on that node ({why})"),
        );
    }

    /// Refuses a node that is the wrong one; further attempts follow from time to time.
    pub(super) fn refuse_node(&mut self, now: Time, id: LinkId, text: String) {
        let node = &mut self.nodes[self.links[id].node];
        let is_news = node.refusal.as_ref() != Some(&text);
        node.refusal = Some(text.clone());
        self.volumes[node.volume].refusals.insert(node.extent as usize, text.clone());
        let name = node.name.clone();
        self.break_link(now, id, &text, Some(REFUSED_PAUSE));
        self.actions.push_back(Action::Disconnect(id));
        if is_news {
            self.actions.push_back(Action::Tell(Event::NodeRefused(name, text)));
        }
    }
}
