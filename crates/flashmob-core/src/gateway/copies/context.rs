//! What a volume's copies see of the gateway during one event.

use std::collections::VecDeque;

use crate::gateway::state::{ClientId, Links, Node, Queues, RequestKey, Requests};
use crate::gateway::{Action, Event};
use crate::op::Failure;
use crate::units::Time;

/// What surrounds a volume's copies during one event, and what the event leads to.
pub struct Cx<'a> {
    pub now: Time,
    pub volume: u32,
    pub volume_name: &'a str,
    pub requests: &'a mut Requests,
    pub queues: &'a mut Queues,
    pub nodes: &'a [Node],
    pub links: &'a Links,
    pub first_node: usize,
    pub actions: &'a mut VecDeque<Action>,
    /// Parts of clients' requests that have ended.
    pub ended: VecDeque<(RequestKey, Option<Failure>)>,
    /// Bytes of the budget to release.
    pub freed_bytes: u64,
    /// Requests whose reservation a change has taken over, and how much of it.
    pub taken: Vec<(ClientId, u64)>,
    /// Nodes whose links are to be broken: they do not answer.
    pub breaks: Vec<usize>,
    /// Nodes that are to show that they are alive.
    pub probes: Vec<usize>,
    /// Pieces whose request is gone are in the queues.
    pub has_dead_pieces: bool,
    /// Losses of acknowledged changes.
    pub losses: u64,
}

impl Cx<'_> {
    pub(super) fn node(&self, member: u16) -> usize {
        self.first_node + usize::from(member)
    }

    pub(super) fn is_linked(&self, member: u16) -> bool {
        self.nodes.get(self.node(member)).is_some_and(|node| node.links_up > 0)
    }

    /// When a member last answered I/O.
    pub(super) fn answered(&self, member: u16) -> Time {
        let Some(node) = self.nodes.get(self.node(member)) else { return Time::default() };
        self.links.of(node).iter().map(|link| link.answered).max().unwrap_or_default()
    }

    /// When a member last showed that it is alive.
    pub(super) fn heard(&self, member: u16) -> Time {
        let Some(node) = self.nodes.get(self.node(member)) else { return Time::default() };
        self.links.of(node).iter().map(|link| link.heard).max().unwrap_or_default()
    }

    /// When the oldest batch was sent that a member has not answered.
    pub(super) fn first_sent(&self, member: u16) -> Option<Time> {
        let node = self.nodes.get(self.node(member))?;
        self.links.of(node).iter().filter_map(|link| link.sent.front()).map(|batch| batch.sent).min()
    }

    pub(super) fn name(&self, member: u16) -> String {
        self.nodes.get(self.node(member)).map(|node| node.name.clone()).unwrap_or_default()
    }

    /// Tells the owner something about the volume.
    pub(super) fn tell_of_volume(&mut self, text: String) {
        let name = self.volume_name.to_string();
        self.tell(Event::VolumeWarning(name, text));
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.actions.push_back(Action::Tell(event));
    }
}
