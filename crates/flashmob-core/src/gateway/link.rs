//! A gateway's end of a link: connect, hello, batches out, replies in, and what happens when it breaks.

use std::collections::VecDeque;
use std::time::Duration;

use super::alive::{Alive, TWO_DEVICES};
use super::queue::Piece;
use super::request::RequestKey;
use super::{Action, Event, Gateway};
use crate::buffers::{OutQueue, RxBuf};
use crate::clocks::Exchange;
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;
use crate::wire::frame::{self, Decoded, FrameKind, WireError};
use crate::wire::hello::{Hello, Refuse, Welcome};

/// Names a link, counted over all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// Pause before the next attempt at a node that is the wrong one: only a person can help.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// A link with batches out that says nothing for so long is stuck. More than a node holds answers back for each other
/// ([`crate::node`]), and than TCP needs to repeat what was lost three times running.
const STUCK_FOR: Duration = Duration::from_secs(2);

/// Most bytes that a node may send behind a welcome that is held: some frames that tell of its device, and no answers.
const HELD_BYTES_MAX: usize = 64 << 10;

/// Where a link is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected; the next attempt begins then.
    Waiting(Time),
    /// The shell is connecting, until then at most.
    Connecting(Time),
    /// The hello was sent, the welcome is awaited, until then at most.
    Greeting(Time),
    /// The welcome came from another start of the node than the one that its other links lead to. They show whether they live, until then
    /// at most.
    Held(Time),
    /// Batches travel.
    Ready,
}

/// A batch that is out.
#[derive(Debug)]
pub(super) struct SentBatch {
    pub seq: u32,
    pub pieces: Vec<Piece>,
    pub left: usize,
    /// When it was made, and once it is written, when that was.
    pub sent: Time,
    pub written: bool,
}

#[derive(Debug)]
pub(super) struct Link {
    pub node: usize,
    /// Which of its node's links.
    pub number: u16,
    pub state: State,
    pub rx: RxBuf,
    rx_wanted: usize,
    pub out: OutQueue,
    /// Batches out, oldest first.
    pub sent: VecDeque<SentBatch>,
    /// Changes that were out when the link broke. They wait for the next welcome, which says that they are over.
    pub unresolved: Vec<Piece>,
    /// Attempts at this link so far, which the hello carries.
    attempt: u32,
    /// Failed attempts since it was last ready.
    pub failures: u32,
    /// When the last attempt began.
    pub begun: Option<Time>,
    pub alive: Alive,
    /// The welcome that is held.
    pub held: Option<Box<Welcome>>,
    pub next_seq: u32,
    /// When something was last heard, or the first batch after silence sent.
    pub progress: Time,
    /// When pieces were last answered.
    pub answered: Time,
    /// When the hello was made.
    greeted: Time,
    pub is_dirty: bool,
    pub counters: LinkCounters,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LinkCounters {
    pub batches: u64,
    pub batches_together: u64,
    pub pieces: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub reply_frames: u64,
    pub node_nanos: u64,
    pub resent: u64,
    pub breaks: u64,
    pub failures: u64,
    pub welcomes: u64,
}

impl Link {
    pub fn new(node: usize, number: u16) -> Link {
        Link {
            node,
            number,
            state: State::Waiting(Time::default()),
            rx: RxBuf::new(),
            rx_wanted: 0,
            out: OutQueue::new(),
            sent: VecDeque::new(),
            unresolved: Vec::new(),
            attempt: 0,
            failures: 0,
            begun: None,
            alive: Alive::default(),
            held: None,
            next_seq: 0,
            progress: Time::default(),
            answered: Time::default(),
            greeted: Time::default(),
            is_dirty: false,
            counters: LinkCounters::default(),
        }
    }

    /// When it wants to be looked at again; a ready link with batches out is looked at by the caller's sweep.
    pub fn deadline(&self, draining: bool) -> Option<Time> {
        match self.state {
            State::Waiting(_) if draining => None,
            State::Waiting(at) | State::Connecting(at) | State::Greeting(at) | State::Held(at) => Some(at),
            State::Ready => self.alive.deadline(),
        }
    }

    /// Whether it has answered nothing for so long.
    pub fn is_unanswering(&self, now: Time, patience: Duration) -> bool {
        now - self.answered >= patience
    }

    /// Whether it was lost so long ago, or nothing was heard for so long although batches are out.
    pub fn is_silent(&self, now: Time, lost_for: Duration, unheard_for: Duration) -> bool {
        match self.state {
            State::Ready => !self.sent.is_empty() && now - self.progress >= unheard_for,
            _ => now - self.progress >= lost_for,
        }
    }

    /// From when on it counts as stuck if nothing is heard until then; `None` while no batch is out.
    pub fn stuck_from(&self) -> Option<Time> {
        (!self.sent.is_empty()).then(|| self.progress + STUCK_FOR)
    }

    /// The requests whose pieces were out when it broke and wait for its return.
    pub fn unresolved_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.unresolved.iter().map(|piece| piece.request)
    }

    /// The requests whose pieces are out and not answered.
    pub fn sent_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.sent.iter().flat_map(|batch| &batch.pieces).filter(|piece| !piece.answered).map(|piece| piece.request)
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Greeting(_) | State::Held(_) | State::Ready)
    }
}

impl Gateway {
    /// How many links there are, over all nodes: [`LinkId`]s run from 0.
    #[must_use]
    pub fn links_count(&self) -> usize {
        self.links.len()
    }

    /// The node, counted over all volumes, that a link leads to.
    #[must_use]
    pub fn node_of(&self, id: LinkId) -> usize {
        self.links[id.0].node
    }

    /// How many more bytes make up the frame that a link is in the middle of: a hint for reading.
    #[must_use]
    pub fn link_wanted(&self, id: LinkId) -> usize {
        self.links[id.0].rx_wanted
    }

    /// The shell has connected a link.
    pub fn link_connected(&mut self, now: Time, id: LinkId) {
        if !matches!(self.links[id.0].state, State::Connecting(_)) {
            return;
        }
        let node = &self.nodes[self.links[id.0].node];
        let volume = &self.volumes[node.volume];
        let link = &mut self.links[id.0];
        let hello = Hello {
            gateway_id: self.config.id,
            session: self.config.session,
            link: link.number,
            keeps_alive: true,
            attempt: link.attempt,
            volume_id: volume.spec.id.clone(),
            extent: node.extent,
            extents: volume.spec.extents.len() as u32,
            layout: volume.spec.layout.to_string(),
            size_bytes: volume.sizes_bytes[node.extent as usize].unwrap_or(0),
        };
        let until = now + volume.spec.connect_timeout;
        link.state = State::Greeting(until);
        link.greeted = now;
        self.greeting += 1;
        link.out.append(|out| hello.encode(out));
        self.link_is_due(until);
        self.mark_link(id);
    }

    /// A link's connection has ended or could not be made.
    pub fn link_closed(&mut self, now: Time, id: LinkId, reason: &str) {
        self.break_link(now, id, reason, None);
    }

    /// Where bytes received on a link go. Follow it with [`Gateway::process_link`].
    pub fn link_rx(&mut self, id: LinkId) -> &mut RxBuf {
        &mut self.links[id.0].rx
    }

    /// What a link's socket is to take.
    pub fn link_out(&mut self, id: LinkId) -> &mut OutQueue {
        &mut self.links[id.0].out
    }

    /// Whether a link has something to send.
    #[must_use]
    pub fn link_has_out(&self, id: LinkId) -> bool {
        !self.links[id.0].out.is_empty()
    }

    /// The socket took `n` bytes of [`Gateway::link_out`].
    pub fn link_wrote(&mut self, now: Time, id: LinkId, n: usize) {
        let link = &mut self.links[id.0];
        link.out.advance(n);
        link.counters.bytes_out += n as u64;
        if link.out.is_empty() {
            for batch in link.sent.iter_mut().rev().take_while(|b| !b.written) {
                self.stages.record_n(GatewayInterval::Sent, now.nanos_since(batch.sent), batch.pieces.len() as u64);
                (batch.written, batch.sent) = (true, now);
            }
            if self.samples.is_active() {
                self.samples.written(now, id);
            }
        }
    }

    /// Decodes what was received on a link, and completes the pieces that are answered.
    pub fn process_link(&mut self, now: Time, id: LinkId) {
        let mut rx = std::mem::take(&mut self.links[id.0].rx);
        self.links[id.0].progress = now;
        self.links[id.0].alive.heard();
        let result = self.decode_link(now, id, &mut rx);
        if self.links[id.0].is_connected() {
            self.links[id.0].rx = rx;
        }
        if let Err(error) = result {
            self.counters.link_errors += 1;
            self.disconnect(now, id, &error.to_string());
        }
    }

    fn decode_link(&mut self, now: Time, id: LinkId, rx: &mut RxBuf) -> Result<(), WireError> {
        while matches!(self.links[id.0].state, State::Greeting(_) | State::Ready) {
            let (frame, taken) = match frame::decode_frame(rx.data())? {
                Decoded::NeedMore(total) => {
                    self.links[id.0].rx_wanted = total - rx.len();
                    return Ok(());
                }
                Decoded::Frame(frame, taken) => (frame, taken),
            };
            self.links[id.0].counters.bytes_in += taken as u64;
            match (self.links[id.0].state, frame.kind) {
                (State::Greeting(_), FrameKind::Welcome) => self.welcomed(now, id, &Welcome::decode(frame.meta)?),
                (State::Greeting(_), FrameKind::Refuse) => self.refused(now, id, &Refuse::decode(frame.meta)?),
                (State::Ready, FrameKind::Replies) => self.handle_replies(now, id, frame.meta, frame.payload)?,
                (State::Ready, FrameKind::Times) => self.handle_times(id, frame.meta)?,
                (State::Ready, FrameKind::Condition) if self.links[id.0].alive.is_known => {
                    self.handle_condition(now, id, frame.meta)?;
                }
                (State::Ready, FrameKind::Alive) if self.links[id.0].alive.is_known => {
                    self.handle_alive(now, id, frame.meta)?
                }
                (_, FrameKind::Error) => {
                    let text = frame::error_text(frame.meta);
                    self.disconnect(now, id, &format!("the node reports: {text}"));
                }
                _ => return Err(WireError::Malformed("order of frames")),
            }
            rx.consume(taken);
        }
        if matches!(self.links[id.0].state, State::Held(_)) && rx.len() > HELD_BYTES_MAX {
            return Err(WireError::Malformed("more than a node says before it is asked"));
        }
        Ok(())
    }

    /// The node agrees. Everything that was sent on this link before is over.
    pub(super) fn welcomed(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        if self.is_of_another_start(id, welcome) {
            return self.hold_welcome(now, id, welcome);
        }
        let became_ready = match self.check_welcome(id, welcome) {
            Ok(became_ready) => became_ready,
            Err(text) => return self.refuse_node(now, id, text),
        };
        let node_index = self.links[id.0].node;
        self.relate_clock(now, id, welcome);
        let link = &mut self.links[id.0];
        self.greeting -= usize::from(matches!(link.state, State::Greeting(_)));
        link.state = State::Ready;
        link.failures = 0;
        link.counters.welcomes += 1;
        link.alive.is_known = welcome.keeps_alive;
        let unresolved = std::mem::take(&mut link.unresolved);
        link.counters.resent += unresolved.len() as u64;
        let (live, gone): (Vec<Piece>, Vec<Piece>) =
            unresolved.into_iter().partition(|p| self.requests.get(p.request).is_some());
        let node = &mut self.nodes[node_index];
        for piece in &gone {
            node.queue.change_ended(piece);
        }
        node.queue.requeue(live);
        node.refusal = None;
        node.trouble = None;
        self.volumes[node.volume].refusals.remove(&(node.extent as usize));
        node.links_up += 1;
        node.no_io = welcome.no_io;
        node.modelled = welcome.modelled;
        if node.links_up == 1 {
            let event = Event::NodeUp { name: node.name.clone(), no_io: welcome.no_io, modelled: welcome.modelled };
            self.tell(event);
        }
        self.tell_if_ready(self.nodes[node_index].volume, became_ready);
        self.tell_if_linked(node_index);
        self.feed(node_index);
    }

    /// Checks a welcome against what is known of the node, and learns from it what was not. True if that makes the
    /// volume ready. Nothing is learnt from a welcome that is refused: another extent may come in its place.
    fn check_welcome(&mut self, id: LinkId, welcome: &Welcome) -> Result<bool, String> {
        let node = &mut self.nodes[self.links[id.0].node];
        let volume = &mut self.volumes[node.volume];
        let expected = volume.sizes_bytes[node.extent as usize];
        if let Some(expected) = expected.filter(|&e| e != welcome.size_bytes) {
            return Err(format!("its extent has {} bytes, this volume expects {expected}", welcome.size_bytes));
        }
        if let Some(known) = node.extent_id.filter(|known| *known != welcome.extent_id) {
            let [known, found] = [known, welcome.extent_id].map(u128::from_be_bytes);
            return Err(format!(
                "it serves another extent ({found:032x}) than the one that this volume knows ({known:032x}); was its data \
                 replaced, its card not mounted, or its address given to another node? bring the old one back, correct \
                 `extent` in the configuration, or start the gateway with --forget to give its data up"
            ));
        }
        let extent = node.extent as usize;
        let became_ready = volume.learn_size(extent, welcome.size_bytes).map_err(|error| error.to_string())?;
        let rebooted = node.boot_id.is_some_and(|known| known != welcome.boot_id);
        // The first welcome of this start: also an extent that was named beforehand is known to be the right one only now.
        if node.boot_id.is_none() {
            node.extent_id = Some(welcome.extent_id);
            let node = self.links[id.0].node;
            self.actions.push_back(Action::Remember { node, extent_id: welcome.extent_id });
        }
        node.boot_id = Some(welcome.boot_id);
        if rebooted && node.queue.has_unflushed_changes() {
            volume.losses += 1;
            self.counters.losses += 1;
            let event = Event::ChangesLost(node.name.clone());
            self.actions.push_back(Action::Tell(event));
        }
        Ok(became_ready)
    }

    /// Hello and welcome were an exchange with the node's clock.
    fn relate_clock(&mut self, now: Time, id: LinkId, welcome: &Welcome) {
        let exchange = Exchange {
            sent_ns: self.clock_ns(self.links[id.0].greeted),
            received_there_ns: welcome.hello_received_ns,
            sent_there_ns: welcome.welcome_sent_ns,
            returned_ns: self.clock_ns(now),
        };
        let node = &mut self.nodes[self.links[id.0].node];
        if node.links_up == 0 {
            // It may be another device, or the same after a restart.
            node.clock.reset();
        }
        node.clock.note(exchange);
    }

    fn tell_if_linked(&mut self, node: usize) {
        let volume = &mut self.volumes[self.nodes[node].volume];
        let nodes = &self.nodes[volume.first_node..volume.first_node + volume.spec.extents.len()];
        if self.nodes[node].links_up == 1 && nodes.iter().all(|n| n.links_up > 0) {
            volume.was_linked = true;
            let event = Event::VolumeLinked(volume.spec.name.clone());
            self.tell(event);
        }
    }

    fn refused(&mut self, now: Time, id: LinkId, refuse: &Refuse) {
        if refuse.reason.is_permanent() {
            self.refuse_node(now, id, refuse.text.clone());
        } else {
            self.disconnect(now, id, &format!("refused: {}", refuse.text));
        }
    }

    /// Gives up on a node that is the wrong one, until a person has helped; looks again from time to time.
    fn refuse_node(&mut self, now: Time, id: LinkId, text: String) {
        let node = &mut self.nodes[self.links[id.0].node];
        let is_news = node.refusal.as_ref() != Some(&text);
        node.refusal = Some(text.clone());
        self.volumes[node.volume].refusals.insert(node.extent as usize, text.clone());
        let name = node.name.clone();
        self.break_link(now, id, &text, Some(REFUSED_PAUSE));
        self.actions.push_back(Action::Disconnect(id));
        if is_news {
            self.tell(Event::NodeRefused(name, text));
        }
    }

    /// Ends a link from this side.
    pub(super) fn disconnect(&mut self, now: Time, id: LinkId, reason: &str) {
        self.break_link(now, id, reason, None);
        self.actions.push_back(Action::Disconnect(id));
    }

    /// Puts a broken link's pieces where they belong and plans the next attempt.
    fn break_link(&mut self, now: Time, id: LinkId, reason: &str, pause: Option<Duration>) {
        let was_ready = match self.links[id.0].state {
            State::Waiting(_) => return,
            state => state == State::Ready,
        };
        self.greeting -= usize::from(matches!(self.links[id.0].state, State::Greeting(_)));
        if self.samples.is_active() {
            self.samples.link_broken(id);
        }
        let pause = pause.unwrap_or_else(|| self.backoff(id));
        let link = &mut self.links[id.0];
        let until = now + pause;
        link.state = State::Waiting(until);
        link.alive.link_is_lost();
        link.held = None;
        link.failures += 1;
        link.counters.breaks += 1;
        link.rx = RxBuf::new();
        link.out.clear();
        let node_index = link.node;
        self.batches_out -= link.sent.len();
        let open: Vec<Piece> = link.sent.drain(..).flat_map(|b| b.pieces).filter(|p| !p.answered).collect();
        // Reads and flushes may go again at once, on any link; changes only when this one is welcomed anew.
        let (changes, mut others): (Vec<Piece>, Vec<Piece>) =
            open.into_iter().partition(|p| p.op.mutates() && !planted::is(Bug::ChangesResentAtOnce));
        others.retain(|p| self.requests.get(p.request).is_some());
        link.unresolved.extend(changes);
        link.counters.resent += others.len() as u64;
        self.nodes[node_index].queue.requeue(others);
        self.feed(node_index);
        self.link_is_due(until);
        let node = &mut self.nodes[node_index];
        node.links_up -= usize::from(was_ready);
        // Once when it is lost, and then only what is new: an attempt fails every few seconds.
        if node.links_up == 0 && node.refusal.is_none() && (was_ready || node.trouble.as_deref() != Some(reason)) {
            node.trouble = Some(reason.to_string());
            let event = Event::NodeDown(node.name.clone(), reason.to_string());
            self.tell(event);
        }
        if was_ready && self.nodes[node_index].links_up == 0 {
            self.release_held(now, node_index);
        }
    }

    /// The pause before the next attempt: doubling from the shortest to the longest, less up to a half at
    /// random, so that the links of many nodes do not all come at once.
    fn backoff(&mut self, id: LinkId) -> Duration {
        let spec = &self.volumes[self.nodes[self.links[id.0].node].volume].spec;
        let (min, max) = (spec.reconnect_min, spec.reconnect_max);
        let doubled = min.saturating_mul(1 << self.links[id.0].failures.min(16)).min(max);
        let part = 512 + self.next_random() % 512;
        doubled.mul_f64(part as f64 / 1024.0)
    }

    /// A link wants to be looked at then.
    pub(super) fn link_is_due(&mut self, at: Time) {
        self.links_due = Some(self.links_due.map_or(at, |due| due.min(at)));
    }

    /// Looks at a link's deadlines. What it makes of them, [`Gateway::find_links_due`] takes note of.
    pub(super) fn link_timeout(&mut self, now: Time, id: LinkId) {
        let link = &mut self.links[id.0];
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
            State::Held(at) if now >= at => self.disconnect(now, id, TWO_DEVICES),
            // Half of what a request may take, so that another attempt has the other half.
            State::Ready if !link.sent.is_empty() && now - link.progress >= spec.timeout / 2 => {
                let node = link.node;
                self.disconnect(now, id, "no answer in time");
                self.ask_others(now, node);
            }
            // It answers, but not this: whoever waits behind it must not wait for ever.
            State::Ready if link.sent.front().is_some_and(|b| now - b.sent >= spec.timeout * 2) => {
                self.disconnect(now, id, "a batch was never answered");
            }
            State::Ready => self.keep_alive(now, id),
            _ => {}
        }
    }

    pub(super) fn mark_link(&mut self, id: LinkId) {
        let link = &mut self.links[id.0];
        if !link.is_dirty {
            link.is_dirty = true;
            self.dirty_links.push(id);
        }
    }
}
