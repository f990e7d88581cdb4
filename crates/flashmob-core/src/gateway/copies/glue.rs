//! Between the gateway and the copies of a volume: events in, and what they lead to.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::accept::View;
use super::read::Verdict;
use super::{Copies, CopiesStatus, Cx, Inner, MemberStatus};
use crate::copies::{Place, Sign};
use crate::gateway::alive::PROBE_PATIENCE;
use crate::gateway::measure;
use crate::gateway::state::queue::Piece;
use crate::gateway::state::{ClientId, RequestKey};
use crate::gateway::{Action, Event, Gateway, LinkId};
use crate::layout::Layout;
use crate::op::{Failure, Op};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::frame::WireError;
use crate::wire::hello::Welcome;
use crate::wire::mirror::MirrorPut;

impl Gateway {
    /// Lets the copies of a volume handle an event, and carries out what it leads to.
    pub(super) fn with_copies<R>(
        &mut self,
        now: Time,
        volume: usize,
        event: impl FnOnce(&mut Copies, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let state = &mut self.volumes[volume];
        let copies = state.copies.as_deref_mut()?;
        let mut cx = Cx {
            now,
            volume: volume as u32,
            spec: &state.spec,
            requests: &mut self.requests,
            queues: &mut self.queues,
            nodes: &self.nodes,
            links: &self.links,
            lane: &mut self.lane,
            nodes_of: &state.nodes,
            actions: &mut self.actions,
            ended: VecDeque::new(),
            budget: &mut self.memory.budget,
            taken: Vec::new(),
            breaks: Vec::new(),
            probes: Vec::new(),
            has_dead_pieces: false,
            losses: 0,
            superseded: Vec::new(),
            mirrored: Vec::new(),
        };
        let result = event(copies, &mut cx);
        copies.end_void_jobs(&mut cx);
        let told_bytes = copies.take_size();
        let Cx { ended, taken, breaks, probes, has_dead_pieces, losses, superseded, mirrored, .. } = cx;
        state.losses += losses;
        if let Some(layout) = told_bytes.and_then(|bytes| Layout::mapped(bytes).ok()) {
            let (name, size_bytes) = (state.spec.name.clone(), layout.size_bytes());
            state.layout = Some(layout);
            self.actions.push_back(Action::Tell(Event::VolumeResized(name, size_bytes)));
        }
        self.metrics.counters.losses += losses;
        for (client, bytes) in taken {
            if let Some(client) = self.clients.get_mut(client) {
                client.held_bytes -= bytes;
            }
        }
        for (node, key, buffer_at) in superseded {
            self.forget_piece(node, key, buffer_at);
        }
        for (id, put, bytes) in mirrored {
            self.links[id].out.append(|out| put.encode(out, &bytes));
            self.links.mark(id);
        }
        if has_dead_pieces {
            self.drop_dead_pieces();
        }
        for node in probes {
            for id in self.nodes[node].links.clone().map(LinkId) {
                self.ask_link(now, id, PROBE_PATIENCE);
            }
        }
        for (node, why) in breaks {
            for id in self.nodes[node].links.clone().map(LinkId) {
                if self.links[id].is_connected() {
                    self.disconnect(now, id, why);
                }
            }
        }
        for (key, failure) in ended {
            self.part_ended(now, key, failure);
        }
        Some(result)
    }

    /// Forgets a piece that is out: its answer will lead to nothing.
    fn forget_piece(&mut self, node: usize, key: RequestKey, buffer_at: u32) {
        if planted::is(Bug::LatePartCounted) {
            return;
        }
        for id in self.nodes[node].links.clone().map(LinkId) {
            let pieces = self.links[id].sent.iter_mut().flat_map(|batch| &mut batch.pieces);
            let of_part = pieces.filter(|p| p.request == key && p.buffer_at == buffer_at && !p.answered);
            of_part.for_each(|piece| piece.request = RequestKey::default());
        }
    }

    /// Reads were answered by a node of a volume with copies.
    #[cold]
    pub(in crate::gateway) fn note_speed(&mut self, now: Time, node: usize, took: Duration) {
        let (volume, member) = (self.nodes[node].volume, self.nodes[node].extent as u16);
        self.with_copies(now, volume, |copies, cx| copies.note_speed(cx, member, took));
    }

    /// A part of a client's request has ended.
    fn part_ended(&mut self, now: Time, key: RequestKey, failure: Option<Failure>) {
        let Some(request) = self.requests.get_mut(key) else { return };
        request.failure = request.failure.or(failure.map(Failure::behind_the_gateway));
        request.pieces_left = request.pieces_left.saturating_sub(1);
        if request.pieces_left == 0 {
            self.finish_request(now, key);
        }
    }

    /// Takes in hand a request to a volume with copies. Returns how many of its parts are left.
    #[cold]
    pub(in crate::gateway) fn queue_copies(&mut self, key: RequestKey, volume: usize, spans: &[(u64, u32)]) -> u32 {
        let Some(request) = self.requests.get_mut(key) else { return 0 };
        let (op, now) = (request.op, request.received);
        request.inner = 1;
        if std::mem::take(&mut request.sample) != 0 {
            self.metrics.samples.forgotten(key);
        }
        if op == Op::Read && request.buffer.is_empty() {
            request.buffer = self.memory.buffers.take(spans.iter().map(|s| s.1 as usize).sum());
        }
        if let (Op::Map, Some(&(_, len))) = (op, spans.first()) {
            request.len_bytes = len;
        }
        self.with_copies(now, volume, |copies, cx| {
            copies.note_use(now);
            let count = if copies.deposed.is_some() {
                cx.ended.push_back((key, Some(Failure::Io)));
                1
            } else if let Some(failure) = copies.behind_end(op, spans) {
                if let Some(request) = cx.requests.get_mut(key) {
                    request.failure = Some(failure);
                }
                cx.ended.push_back((key, None));
                1
            } else {
                match op {
                    Op::Read => copies.begin_read(cx, key, spans),
                    Op::Write | Op::Trim | Op::WriteZeroes => copies.begin_changes(cx, key, spans),
                    Op::Flush => copies.begin_flush(cx, key),
                    Op::Map | Op::Digest => 0,
                }
            };
            if let Some(request) = cx.requests.get_mut(key) {
                request.pieces_left = count;
            }
        });
        self.requests.get(key).map_or(0, |request| request.pieces_left)
    }

    /// A node has answered a piece of a volume with copies. True if it needs nothing more here: that of a change, or of a read that is repeated.
    #[cold]
    #[inline(never)]
    pub(in crate::gateway) fn copy_answered(
        &mut self,
        now: Time,
        node: usize,
        piece: &Piece,
        result: Result<(), Failure>,
    ) -> bool {
        let volume = self.nodes[node].volume;
        let member = self.nodes[node].extent as u16;
        let Some(request) = self.requests.get(piece.request) else { return false };
        let place = request.inner as usize - 1;
        let copies = self.volumes[volume].copies.as_deref();
        let change = match copies.and_then(|copies| copies.inner.get(place)) {
            Some(Inner::Change(change)) => *change,
            Some(Inner::Read(_)) => {
                let Err(failure) = result else { return false };
                let event =
                    |copies: &mut Copies, cx: &mut super::Cx<'_>| copies.read_failed(cx, member, piece, failure);
                return self.with_copies(now, volume, event).unwrap_or(false);
            }
            _ => return false,
        };
        self.with_copies(now, volume, |copies, cx| {
            copies.change_answered(cx, (change, piece.request), (member, piece.offset_bytes), result);
        });
        true
    }

    /// All pieces of a request to a volume with copies have been answered. False if it does not end now.
    #[cold]
    #[inline(never)]
    pub(in crate::gateway) fn finish_inner(&mut self, now: Time, key: RequestKey) -> bool {
        let Some(request) = self.requests.get(key) else { return false };
        if request.inner == measure::INNER {
            self.measured(now, key);
            return false;
        }
        let volume = request.volume as usize;
        let is_own = request.client == ClientId::GATEWAY;
        let is_finished = self.with_copies(now, volume, |copies, cx| {
            if !is_own {
                let is_finished = copies.review_read(cx, key) == Verdict::Answer && copies.is_covered(cx, key);
                if is_finished {
                    copies.forget(cx, key);
                }
                return is_finished;
            }
            let Some((inner, mut request)) = copies.remove_inner(cx, key) else { return false };
            let result = request.failure.map_or(Ok(()), Err);
            match inner {
                Inner::Flush { flush, serial, member } => {
                    copies.flush_answered(cx, (flush, serial), member, result.is_ok());
                }
                Inner::Sync { member } => copies.synced(cx, member, result),
                Inner::Hedge(hedge) => {
                    let data = std::mem::take(&mut request.buffer);
                    copies.hedge_answered(cx, hedge, result.map(|()| data));
                }
                Inner::Job { chunk, serial, copy } => {
                    let data = std::mem::take(&mut request.buffer);
                    copies.job_answered(cx, (chunk, serial, copy), key, result.map(|()| data));
                }
                Inner::Clear { member, slot } => copies.cleared(cx, Place { member, slot }, result),
                Inner::Orphans { member } => {
                    let data = std::mem::take(&mut request.buffer);
                    copies.orphans_found(cx, member, result.map(|()| data));
                }
                Inner::Look { chunk, member } => {
                    let data = std::mem::take(&mut request.buffer);
                    copies.looked(cx, (chunk, member), key, result.map(|()| data));
                }
                Inner::Scrub { serial, copy } => {
                    let data = std::mem::take(&mut request.buffer);
                    copies.scrub_answered(cx, (serial, copy), key, result.map(|()| data));
                }
                Inner::Read(_) | Inner::Client | Inner::Change(_) => {}
            }
            false
        });
        is_finished.unwrap_or(true)
    }

    /// A client's request to a volume with copies ends before it is answered, or is dropped. Its changes go on.
    #[cold]
    pub(in crate::gateway) fn abandon(&mut self, key: RequestKey) {
        let Some(request) = self.requests.get(key).filter(|r| r.inner != 0 && r.client != ClientId::GATEWAY) else {
            return;
        };
        let (volume, client, begun) = (request.volume as usize, request.client, request.received);
        let bytes = self.with_copies(begun, volume, |copies, cx| copies.abandon(cx, key)).unwrap_or(0);
        if let Some(request) = self.requests.get_mut(key) {
            request.inner = 0;
            request.reserved_bytes -= bytes;
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.held_bytes -= bytes;
        }
    }

    /// Why a node must not be linked, though it welcomes this gateway: it knows that the map is an older state, or that was known before. What is
    /// queued for it must not be sent.
    pub(in crate::gateway) fn unwelcome(&mut self, now: Time, id: LinkId, welcome: &Welcome) -> Option<String> {
        let node = &self.nodes[self.links[id].node];
        let (volume, member) = (node.volume, node.extent as u16);
        let why = self.with_copies(now, volume, |copies, cx| copies.unwelcome(&cx.name(member), welcome.mirror))??;
        Some(self.claimed(now, id, &why))
    }

    /// A node of a volume with copies is linked.
    pub(in crate::gateway) fn copies_welcomed(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        let node = &self.nodes[self.links[id].node];
        let (volume, member) = (node.volume, node.extent as u16);
        let (charged, is_first) = (self.links[id].charged, self.links[id].number == 0);
        self.with_copies(now, volume, |copies, cx| {
            let is_older = copies.is_mirror_older(member, welcome.mirror);
            if is_first {
                copies.mirror_welcomed(cx, member, id, welcome.mirror);
            } else {
                copies.mirror_known(member, welcome.mirror.is_some());
            }
            copies.welcomed(cx, member, welcome, charged, is_older);
        });
    }

    /// A link of a volume with copies was lost, that its node's mirror of the map may be written over.
    #[cold]
    pub(in crate::gateway) fn mirror_lost(&mut self, now: Time, id: LinkId) {
        let node = &self.nodes[self.links[id].node];
        let (volume, member) = (node.volume, node.extent as u16);
        self.with_copies(now, volume, |copies, cx| copies.mirror_lost(cx, member, id));
    }

    /// A node has stored bytes of its mirror, or failed to.
    #[cold]
    pub(in crate::gateway) fn mirror_put(&mut self, now: Time, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let answer = MirrorPut::decode(meta)?;
        self.links[id].answered = now;
        let node = &self.nodes[self.links[id].node];
        let (volume, member) = (node.volume, node.extent as u16);
        let is_due = self.links[id].number == 0
            && self.with_copies(now, volume, |copies, cx| copies.mirror_put(cx, member, answer)) == Some(true);
        if is_due { Ok(()) } else { Err(WireError::Malformed("answer to a mirror")) }
    }

    /// A link was lost: reads that were out on it go to other copies, and those that wait for the node if it was the last link.
    pub(in crate::gateway) fn lost_reads(&mut self, now: Time, node: usize, reads: Vec<Piece>) {
        let (volume, member) = (self.nodes[node].volume, self.nodes[node].extent as u16);
        self.with_copies(now, volume, |copies, cx| {
            let mut reads = reads;
            if !cx.is_linked(member) {
                reads.extend(cx.queues.take_reads(node));
                copies.unlinked(cx, member);
            }
            copies.reroute_reads(cx, member, reads, false);
        });
    }

    /// A later gateway is in charge of a volume.
    pub(in crate::gateway) fn depose(&mut self, now: Time, volume: usize, reason: &str) {
        let is_followed = self.with_copies(now, volume, |copies, cx| {
            copies.depose(cx, reason);
            copies.is_followed() || copies.may_catch_up
        });
        if is_followed != Some(true) {
            self.fail_all(now, volume);
        }
    }

    /// Nodes refuse the map of a volume, and the decisions that it lacks cannot be taken from their mirrors: it stays so, and requests fail.
    pub fn stay_deposed(&mut self, now: Time, volume: usize) {
        if self.with_copies(now, volume, |copies, _| copies.stay_deposed()) == Some(true) {
            self.fail_all(now, volume);
        }
    }

    /// Fails all requests of clients to a volume.
    pub(super) fn fail_all(&mut self, now: Time, volume: usize) {
        let keys = self.requests.keys_where(|r| r.volume as usize == volume && r.client != ClientId::GATEWAY);
        for key in keys {
            self.fail_request(now, key, Failure::Io);
        }
        self.drop_dead_pieces();
    }

    /// Adds the clients' requests to volumes with copies that no copy can answer.
    pub(in crate::gateway) fn add_stuck_on_copies(&mut self, now: Time, stuck: &mut HashSet<RequestKey>) {
        for at in 0..self.with_copies.len() {
            let volume = self.with_copies[at];
            let patience = self.volumes[volume].spec.timeout;
            stuck.extend(self.with_copies(now, volume, |copies, cx| copies.stuck(cx, patience)).into_iter().flatten());
        }
    }

    /// The requests whose answers wait until the gateway's lease is renewed.
    pub(in crate::gateway) fn waiting_for_lease(&self) -> HashSet<RequestKey> {
        let copies = self.with_copies.iter().filter_map(|&volume| self.volumes[volume].copies.as_deref());
        copies.flat_map(Copies::waiting_for_lease).collect()
    }

    /// Fails a client's request, whatever its pieces do.
    pub(in crate::gateway) fn fail_request(&mut self, now: Time, key: RequestKey, failure: Failure) {
        if self.requests.get(key).is_some_and(|request| request.inner != 0) {
            self.abandon(key);
        }
        if let Some(request) = self.requests.get_mut(key) {
            request.failure = Some(failure);
        }
        self.finish_request(now, key);
    }

    /// Whether any volume has copies: the turns of the others do nothing for them.
    #[inline]
    pub(in crate::gateway) fn has_copies(&self) -> bool {
        !self.with_copies.is_empty()
    }

    /// The first time at which [`Gateway::watch_copies`] has something to do.
    #[cold]
    pub(in crate::gateway) fn copies_due(&self) -> Option<Time> {
        let copies = self.with_copies.iter().filter_map(|&volume| self.volumes[volume].copies.as_deref());
        let dues = copies.flat_map(|copies| {
            [copies.due(), copies.hedge_due(), copies.scrub_due(), copies.mirror_due(), copies.lane_due()]
        });
        dues.flatten().min()
    }

    /// Does what time demands of volumes with copies.
    #[cold]
    pub(in crate::gateway) fn watch_copies(&mut self, now: Time) {
        for at in 0..self.with_copies.len() {
            let volume = self.with_copies[at];
            if self.volumes[volume].copies.as_deref().and_then(Copies::due).is_some_and(|due| now >= due) {
                self.with_copies(now, volume, |copies, cx| copies.watch(cx));
            }
            if self.volumes[volume].copies.as_deref().and_then(Copies::hedge_due).is_some_and(|due| now >= due) {
                self.with_copies(now, volume, |copies, cx| copies.hedge(cx));
            }
            if self.volumes[volume].copies.as_deref().and_then(Copies::lane_due).is_some_and(|due| now >= due) {
                self.with_copies(now, volume, |copies, cx| copies.go_on(cx));
            }
            if self.volumes[volume].copies.as_deref().and_then(Copies::scrub_due).is_some_and(|due| now >= due) {
                self.with_copies(now, volume, |copies, cx| copies.scrub(cx));
            }
            if self.volumes[volume].copies.as_deref().and_then(Copies::mirror_due).is_some_and(|due| now >= due) {
                self.with_copies(now, volume, |copies, cx| copies.mirror(cx));
            }
        }
    }

    /// No scrub is begun any more.
    #[cold]
    pub(in crate::gateway) fn end_scrubs(&mut self) {
        for &volume in &self.with_copies {
            if let Some(copies) = self.volumes[volume].copies.as_deref_mut() {
                copies.end_scrubs();
            }
        }
    }

    /// Asks the shell to make decisions durable.
    #[cold]
    pub(in crate::gateway) fn commit(&mut self, now: Time) {
        for &volume in &self.with_copies {
            let Some(copies) = self.volumes[volume].copies.as_deref_mut().filter(|c| c.deposed.is_none()) else {
                continue;
            };
            let image = &copies.image;
            if copies.log.is_at_rest() {
                copies.mirrors.at_rest(now, image);
            }
            if let Some(batch) = copies.log.next_batch(image) {
                copies.mirrors.committing(&batch, image);
                let super::log::Batch { number, bytes, is_whole } = batch;
                self.actions.push_back(Action::Commit { volume, number, bytes, is_whole });
            }
        }
    }

    /// The shell has made the decisions of a volume up to this number durable, or failed to: see [`Action::Commit`].
    pub fn committed(&mut self, now: Time, volume: usize, number: u64, result: Result<(), Failure>) {
        self.with_copies(now, volume, |copies, cx| copies.committed(cx, number, result));
    }

    /// The shell has to have a volume's map written anew, though nothing failed: the next [`Action::Commit`] is whole.
    pub fn rewrite_map(&mut self, volume: usize) {
        if let Some(copies) = self.volumes.get_mut(volume).and_then(|volume| volume.copies.as_deref_mut()) {
            copies.log.rewrite();
        }
    }

    /// The map of a volume with copies, as it was decided.
    #[must_use]
    pub fn map(&self, volume: usize) -> Option<&crate::copies::MapImage> {
        self.volumes.get(volume)?.copies.as_deref().map(Copies::image)
    }

    /// What signs the mirrors of volumes with copies from now on, one for each; `None` without keys. Mirrors are made anew. Call it when the gateway's
    /// key was replaced, too: who had the one before may have written mirrors.
    pub fn sign_mirrors(&mut self, now: Time, mut sign: impl FnMut() -> Option<Box<dyn Sign>>) {
        for &volume in &self.with_copies {
            if let Some(copies) = self.volumes[volume].copies.as_deref_mut() {
                copies.sign_mirrors(now, sign());
            }
        }
    }

    /// The state of a volume's copies; `None` if it has none.
    #[must_use]
    pub fn copies_status(&self, now: Time, volume: usize) -> Option<CopiesStatus> {
        self.volumes.get(volume)?.copies.as_deref().map(|copies| copies.status(now))
    }

    /// The state of a volume's copies by node; `None` if it has none. It looks at all chunks.
    #[must_use]
    pub fn members_status(&self, now: Time, volume: usize) -> Option<Vec<MemberStatus>> {
        let state = self.volumes.get(volume)?;
        let offers = state.nodes.iter().map(|&node| self.nodes[node].offer_now(now).map(|offer| offer.extent_id));
        let node_of = |member: u16| state.nodes.get(usize::from(member)).and_then(|&node| self.nodes.get(node));
        let is_linked = |member: u16| node_of(member).is_some_and(|node| node.links_up > 0);
        let name = |member: u16| node_of(member).map(|node| node.name.clone()).unwrap_or_default();
        let view = View { now, is_linked: &is_linked, name: &name };
        state.copies.as_deref().map(|copies| copies.members_status(&view, offers))
    }
}
