//! What a volume's copies see of the gateway during one event.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::lane::Lane;
use crate::buffers::Budget;
use crate::condition::Condition;
use crate::gateway::batch::are_links_one_way;
use crate::gateway::state::queue::Piece;
use crate::gateway::state::{ClientId, LinkId, Links, Node, Queues, RequestKey, Requests, SentBatch, State};
use crate::gateway::{Action, Event, VolumeSpec};
use crate::op::{Failure, Op};
use crate::units::Time;
use crate::wire::mirror::PutMirror;

/// What surrounds a volume's copies during one event, and what the event leads to.
pub struct Cx<'a> {
    pub now: Time,
    pub volume: u32,
    pub spec: &'a VolumeSpec,
    pub requests: &'a mut Requests,
    pub queues: &'a mut Queues,
    pub nodes: &'a [Node],
    pub links: &'a Links,
    pub lane: &'a mut Lane,
    /// The node of each member.
    pub nodes_of: &'a [usize],
    pub actions: &'a mut VecDeque<Action>,
    /// Parts of clients' requests that have ended.
    pub ended: VecDeque<(RequestKey, Option<Failure>)>,
    pub budget: &'a mut Budget,
    /// Requests whose reservation a change has taken over, and how much of it.
    pub taken: Vec<(ClientId, u64)>,
    /// Nodes whose links are to be broken, and why.
    pub breaks: Vec<(usize, &'static str)>,
    /// Nodes that are to show that they are alive.
    pub probes: Vec<usize>,
    /// Pieces whose request is gone are in the queues.
    pub has_dead_pieces: bool,
    /// Losses of acknowledged changes.
    pub losses: u64,
    /// Pieces that were answered in another way: node, request, place in its buffer. They are out on a link.
    pub superseded: Vec<(usize, RequestKey, u32)>,
    /// Bytes for nodes' mirrors of the map.
    pub mirrored: Vec<(LinkId, PutMirror, Vec<u8>)>,
}

impl Cx<'_> {
    pub(super) fn node(&self, member: u16) -> usize {
        self.nodes_of.get(usize::from(member)).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn is_linked(&self, member: u16) -> bool {
        self.nodes.get(self.node(member)).is_some_and(|node| node.links_up > 0)
    }

    /// Whether a member's node knows blocks that are marked as unreadable.
    pub(super) fn knows_marks(&self, member: u16) -> bool {
        self.nodes.get(self.node(member)).is_some_and(|node| node.knows_marks)
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

    fn sent_to<'b>(&'b self, node: &'b Node) -> impl Iterator<Item = &'b SentBatch> + 'b {
        self.links.of(node).iter().flat_map(|link| &link.sent)
    }

    /// Whether something is queued or out for a range of a member's extent.
    pub(super) fn is_addressed(&self, member: u16, range: Range<u64>) -> bool {
        let number = self.node(member);
        let Some(node) = self.nodes.get(number) else { return false };
        let overlaps = |piece: &Piece| {
            let end = piece.offset_bytes + u64::from(piece.len_bytes);
            piece.op != Op::Flush && piece.offset_bytes < range.end && range.start < end
        };
        // A change whose request is gone is not sent again.
        let is_sent_again = |piece: &Piece| overlaps(piece) && self.requests.get(piece.request).is_some();
        self.queues[number].waiting().any(overlaps)
            || self.links.of(node).iter().flat_map(|link| &link.unresolved).any(is_sent_again)
            || self.sent_to(node).flat_map(|batch| &batch.pieces).any(|piece| !piece.answered && overlaps(piece))
    }

    /// When a member's store last made progress with a flush.
    pub(super) fn store_progressed(&self, member: u16) -> Option<Time> {
        let node = self.nodes.get(self.node(member))?;
        self.links.of(node).iter().filter_map(|link| link.store_progressed).max()
    }

    /// Since when the batch has waited that a member has let wait longest. A flush waits since the member's store made no progress with it; that
    /// counts for `most`.
    pub(super) fn waits_since(&self, member: u16, most: Duration) -> Option<Time> {
        let node = self.nodes.get(self.node(member))?;
        let links = self.links.of(node).iter();
        links.flat_map(|link| link.sent.iter().map(|batch| link.waits_since(self.now, batch, most))).min()
    }

    /// When the oldest batch was sent that a member has not answered.
    pub(super) fn first_sent(&self, member: u16) -> Option<Time> {
        self.sent_to(self.nodes.get(self.node(member))?).map(|batch| batch.sent).min()
    }

    /// When the oldest batch was sent that a read waits for which the member is given now: one with reads; any, if no more may be out. A flush or
    /// a change that takes long says nothing about reads beside it.
    fn read_waits_since(&self, member: u16) -> Option<Time> {
        let node = self.nodes.get(self.node(member))?;
        let is_full = self.is_window_full(node);
        self.sent_to(node).filter(|batch| batch.reads_left > 0 || is_full).map(|batch| batch.sent).min()
    }

    /// The same for the reads that it has been given; `None` without any.
    pub(super) fn reads_wait_since(&self, member: u16) -> Option<Time> {
        self.has_reads_after(member, Duration::MAX).then(|| self.read_waits_since(member))?
    }

    /// For how long a member has answered nothing, while a read would wait for what it has.
    pub(super) fn silence(&self, member: u16) -> Duration {
        self.read_waits_since(member).map_or(Duration::ZERO, |since| self.now - since.max(self.answered(member)))
    }

    /// Whether as many batches are out to a node as may be.
    fn is_window_full(&self, node: &Node) -> bool {
        let window = self.spec.outstanding_batches.max(1);
        let ready = self.links.of(node).iter().filter(|link| link.state == State::Ready);
        let mut out = ready.map(|link| link.sent.len());
        if are_links_one_way(self.spec, node) { out.sum::<usize>() >= window } else { out.all(|out| out >= window) }
    }

    /// Pieces that are out to a member.
    pub(super) fn pieces_out(&self, member: u16) -> usize {
        let Some(node) = self.nodes.get(self.node(member)) else { return 0 };
        self.sent_to(node).map(|batch| batch.left).sum()
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
        let late = self.sent_to(node).filter(|batch| self.now - batch.sent >= late_after);
        let pieces = late.flat_map(|batch| batch.pieces.iter().map(|piece| (*piece, batch.sent)));
        pieces.filter(|(piece, _)| piece.op == Op::Read && !piece.answered).collect()
    }

    /// Whether reads wait for a member, or were sent to it later than that.
    pub(super) fn has_reads_after(&self, member: u16, late_after: Duration) -> bool {
        let Some(node) = self.nodes.get(self.node(member)) else { return false };
        let is_recent = |batch: &SentBatch| self.now - batch.sent < late_after && batch.reads_left > 0;
        self.queues[self.node(member)].reads_len() > 0 || self.sent_to(node).any(is_recent)
    }

    /// Forgets a client's piece that is out to a member. False if it is not, or was answered.
    pub(super) fn supersede(&mut self, member: u16, key: RequestKey, buffer_at: u32) -> bool {
        let number = self.node(member);
        let Some(node) = self.nodes.get(number) else { return false };
        let is_it = |p: &Piece| p.request == key && p.buffer_at == buffer_at && !p.answered;
        let is_out = self.sent_to(node).any(|batch| batch.pieces.iter().any(is_it));
        if is_out {
            self.superseded.push((number, key, buffer_at));
        }
        is_out
    }

    /// The condition of a member's device, as it was last reported.
    pub(super) fn condition(&self, member: u16) -> Option<&Condition> {
        self.nodes.get(self.node(member))?.condition.as_ref().map(|(condition, _)| condition)
    }

    /// Whether a member is in the gateway's process.
    pub(super) fn is_local(&self, member: u16) -> bool {
        self.nodes.get(self.node(member)).is_some_and(|node| node.is_local)
    }

    pub(super) fn name(&self, member: u16) -> String {
        self.nodes.get(self.node(member)).map(|node| node.name.clone()).unwrap_or_default()
    }

    /// Names of members, for a sentence.
    pub(super) fn names(&self, members: &[u16]) -> String {
        members.iter().map(|&member| self.name(member)).collect::<Vec<_>>().join(", ")
    }

    /// Tells the owner something about the volume.
    pub(super) fn tell_of_volume(&mut self, text: String) {
        let name = self.spec.name.clone();
        self.tell(Event::VolumeWarning(name, text));
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.actions.push_back(Action::Tell(event));
    }
}
