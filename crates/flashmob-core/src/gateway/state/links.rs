//! All links: where each is in its life, what is out on it, which of them have bytes to write, and which wants to be looked at
//! first.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::node::Node;
use super::queue::Piece;
use super::requests::RequestKey;
use crate::buffers::{OutQueue, RxBuf};
use crate::counters::counters;
use crate::units::{KIB, MIB, Time};
use crate::wire::hello::Welcome;

/// Names a link, counted over all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// A link with batches out that says nothing for so long is stuck. More than a node holds answers back for each other
/// ([`crate::node`]), and than TCP needs to repeat what was lost three times running.
const STUCK_FOR: Duration = Duration::from_secs(2);

/// Bytes of sent frames that all links together keep for the next ones, and the least that each may keep.
const LINK_SPARES_BYTES: usize = 8 * MIB as usize;
const LINK_SPARES_BYTES_MIN: usize = 256 * KIB as usize;

/// Where a link is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
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

impl Default for State {
    fn default() -> State {
        State::Waiting(Time::default())
    }
}

/// A batch that is out.
#[derive(Debug)]
pub struct SentBatch {
    pub seq: u32,
    pub pieces: Vec<Piece>,
    pub left: usize,
    /// When it was made, and once it is written, when that was.
    pub sent: Time,
    pub written: bool,
}

/// What keeps one link alive; `gateway/alive.rs` decides when frames go. A lost link forgets it: the next welcome says what its node knows.
#[derive(Debug, Default)]
pub struct Alive {
    /// The node knows such frames.
    pub is_known: bool,
    /// When to check whether a frame is due; `None` while the link is not in use.
    pub due: Option<Time>,
    /// When the last such frame was made.
    pub sent: Time,
    /// The deadline for the answer that was asked for.
    pub probe: Option<Time>,
    /// Bytes were received since the question.
    pub is_heard: bool,
}

/// Shared by the batches of all links.
#[derive(Debug, Default)]
pub struct Batches {
    /// Batches out on all links together.
    pub out: usize,
    /// Buffer in which a batch's meta is encoded.
    pub meta: Vec<u8>,
    /// Lists of pieces, reused by later batches.
    pub pool: Vec<Vec<Piece>>,
}

#[derive(Debug, Default)]
pub struct Link {
    pub node: usize,
    /// Which of its node's links.
    pub number: u16,
    pub state: State,
    pub rx: RxBuf,
    pub rx_wanted: usize,
    pub out: OutQueue,
    /// Batches out, oldest first.
    pub sent: VecDeque<SentBatch>,
    /// Changes that were out when the link broke. They wait for the next welcome, which says that they are over.
    pub unresolved: Vec<Piece>,
    /// Attempts at this link so far, which the hello carries.
    pub attempt: u32,
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
    pub greeted: Time,
    pub is_dirty: bool,
    pub counters: LinkCounters,
}

counters! {
    /// What a link has carried since the gateway's start.
    pub struct LinkCounters {
        batches: "Batches sent",
        batches_together: "Batches sent to be answered together",
        pieces: "Pieces sent",
        reply_frames: "Reply frames received",
        bytes_out as "bytes/out": "Bytes sent and received, framing included",
        bytes_in as "bytes/in": "Bytes sent and received, framing included",
        // Reports show it in seconds.
        #[serde(skip)]
        node_nanos as "": "Time that completed pieces spent at the node, in nanoseconds",
        resent as "resent_pieces": "Pieces resent after a break",
        breaks: "Times that the link broke or could not be established",
        failures as "failed_pieces": "Pieces that failed at the node",
        alive_frames: "Frames that kept the link's radio awake",
        welcomes: "Times that the node welcomed the link",
    }
}

impl Link {
    pub fn new(node: usize, number: u16) -> Link {
        Link { node, number, ..Link::default() }
    }

    /// When it wants to be looked at again; a ready link with batches out is looked at by the caller's sweep.
    pub fn deadline(&self, draining: bool) -> Option<Time> {
        match self.state {
            State::Waiting(_) if draining => None,
            State::Waiting(at) | State::Connecting(at) | State::Greeting(at) | State::Held(at) => Some(at),
            State::Ready => self.alive.due.into_iter().chain(self.alive.probe).min(),
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

    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Greeting(_) | State::Held(_) | State::Ready)
    }

    /// When it last carried what somebody asked for.
    pub fn used(&self) -> Time {
        self.sent.back().map_or(self.answered, |batch| batch.sent.max(self.answered))
    }

    /// When something last moved on it, in either direction.
    pub fn moved(&self) -> Time {
        self.used().max(self.progress).max(self.alive.sent)
    }
}

/// All links, counted over all nodes.
#[derive(Debug)]
pub struct Links {
    all: Vec<Link>,
    /// Those on which a welcome is awaited.
    pub greeting: usize,
    /// No link that is not ready wants to be looked at before: a turn must not cost more for every link that there is.
    due: Option<Time>,
    /// Those that have bytes to write since they were last asked for.
    dirty: Vec<LinkId>,
    /// Where the jitter of reconnects comes from.
    random: u64,
}

impl Links {
    pub fn new(mut all: Vec<Link>, seed: u64) -> Links {
        let spares_bytes = (LINK_SPARES_BYTES / all.len().max(1)).max(LINK_SPARES_BYTES_MIN);
        all.iter_mut().for_each(|link| link.out.keep_spares(spares_bytes));
        Links { all, greeting: 0, due: Some(Time::default()), dirty: Vec::new(), random: seed | 1 }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Those of a node.
    #[inline]
    pub fn of(&self, node: &Node) -> &[Link] {
        &self.all[node.links.clone()]
    }

    /// Something is to be written on it.
    #[inline]
    pub fn mark(&mut self, id: LinkId) {
        let link = &mut self.all[id.0];
        if !link.is_dirty {
            link.is_dirty = true;
            self.dirty.push(id);
        }
    }

    /// Those that were marked since this was last asked.
    pub fn take_dirty(&mut self, into: &mut Vec<LinkId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            self.all[id.0].is_dirty = false;
        }
    }

    /// A link wants to be looked at then.
    pub fn look_at(&mut self, at: Time) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When the first of them wants to be looked at, or before.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Finds out which wants to be looked at first. While draining no link is connected anew, so its turn to do so never comes.
    pub fn find_due(&mut self, draining: bool) {
        self.due = self.all.iter().filter_map(|link| link.deadline(draining)).min();
    }

    /// The pause before the next attempt: doubling from the shortest to the longest, less up to a half at
    /// random, so that the links of many nodes do not all come at once.
    pub fn backoff(&mut self, id: LinkId, (min, max): (Duration, Duration)) -> Duration {
        let doubled = min.saturating_mul(1 << self[id].failures.min(16)).min(max);
        let part = 512 + self.next_random() % 512;
        doubled.mul_f64(part as f64 / 1024.0)
    }

    /// A pseudo-random number: xorshift64, Marsaglia 2003.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Index<LinkId> for Links {
    type Output = Link;

    #[inline]
    fn index(&self, id: LinkId) -> &Link {
        &self.all[id.0]
    }
}

impl IndexMut<LinkId> for Links {
    #[inline]
    fn index_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.all[id.0]
    }
}
