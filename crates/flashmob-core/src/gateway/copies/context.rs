//! What a volume's copies see of the gateway during one event.

use std::collections::VecDeque;
use std::time::Duration;

use crate::gateway::state::queue::Piece;
use crate::gateway::state::{ClientId, Links, Node, Queues, RequestKey, Requests};
use crate::gateway::{Action, Event};
use crate::op::{Failure, Op};
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
    /// Pieces that were answered in another way: node, request, place in its buffer. They are out on a link.
    pub superseded: Vec<(usize, RequestKey, u32)>,
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

    /// For how long a member has answered nothing, while batches are out.
    pub(super) fn silence(&self, member: u16) -> Duration {
        self.first_sent(member).map_or(Duration::ZERO, |sent| self.now - sent.max(self.answered(member)))
    }

    /// Pieces that are out to a member.
    pub(super) fn pieces_out(&self, member: u16) -> usize {
        let Some(node) = self.nodes.get(self.node(member)) else { return 0 };
        self.links.of(node).iter().flat_map(|link| &link.sent).map(|batch| batch.left).sum()
    }

    /// Pieces that wait for a member or are out.
    pub(super) fn pieces_given(&self, member: u16) -> usize {
        self.queues[self.node(member)].ready_len() + self.pieces_out(member)
    }

    /// The shortest time that an answer took lately, without that at the node.
    pub(super) fn shortest_way(&self, member: u16) -> Duration {
        self.nodes.get(self.node(member)).map_or(Duration::ZERO, |node| node.way.shortest())
    }

    /// The reads that were sent to a member so long ago and are not answered, and when they were sent.
    pub(super) fn late_reads(&self, member: u16, late_after: Duration) -> Vec<(Piece, Time)> {
        let Some(node) = self.nodes.get(self.node(member)) else { return Vec::new() };
        let batches = self.links.of(node).iter().flat_map(|link| &link.sent);
        let late = batches.filter(|batch| self.now - batch.sent >= late_after);
        let pieces = late.flat_map(|batch| batch.pieces.iter().map(|piece| (*piece, batch.sent)));
        pieces.filter(|(piece, _)| piece.op == Op::Read && !piece.answered).collect()
    }

    /// Whether batches are out to a member that were sent later than that.
    pub(super) fn reads_out_after(&self, member: u16, late_after: Duration) -> bool {
        let Some(node) = self.nodes.get(self.node(member)) else { return false };
        self.links.of(node).iter().flat_map(|link| &link.sent).any(|batch| self.now - batch.sent < late_after)
    }

    /// Forgets a client's piece that is out to a member. False if it is not, or was answered.
    pub(super) fn supersede(&mut self, member: u16, key: RequestKey, buffer_at: u32) -> bool {
        let number = self.node(member);
        let Some(node) = self.nodes.get(number) else { return false };
        let is_it = |p: &Piece| p.request == key && p.buffer_at == buffer_at && !p.answered;
        let is_out = self.links.of(node).iter().flat_map(|link| &link.sent).any(|batch| batch.pieces.iter().any(is_it));
        if is_out {
            self.superseded.push((number, key, buffer_at));
        }
        is_out
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
