//! All links: the state of each, the batches out on it, which of them have bytes to write, and the next deadline.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::node::Node;
use super::queue::Piece;
use super::requests::RequestKey;
use crate::buffers::{OutQueue, RxBuf};
use crate::counters::counters;
use crate::op::Op;
use crate::units::{KIB, MIB, Time, bring_forward};
use crate::wire::hello::Welcome;

/// The number of a link, counted over all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// A link with batches out that is silent for this long is stuck. Longer than a node holds answers back ([`crate::node`]), and than
/// TCP takes for three retransmissions.
const STUCK_FOR: Duration = Duration::from_secs(2);

/// Bytes of drained segments that all links together keep, and the least for each.
const LINK_SPARES_BYTES: usize = 8 * MIB as usize;
const LINK_SPARES_BYTES_MIN: usize = 256 * KIB as usize;

/// The state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not connected; when the next attempt begins.
    Waiting(Time),
    /// The shell is connecting; the deadline.
    Connecting(Time),
    /// The hello was sent; the deadline of the welcome.
    Greeting(Time),
    /// The welcome came from another start of the node than its ready links lead to, and all are being probed; the deadline.
    Held(Time),
    /// Carrying batches.
    Ready,
    /// Its node was removed from the volume: it is never connected again.
    Parked,
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
    /// Pieces that are not answered, and the reads among them.
    pub left: usize,
    pub reads_left: usize,
    /// When it was made, or, once it is written, when that was.
    pub sent: Time,
    pub written: bool,
    /// It has urgent reads only: no other batch waits for it.
    pub is_urgent: bool,
}

impl SentBatch {
    /// Whether only flushes of it are left to be answered.
    fn has_only_flushes(&self) -> bool {
        self.pieces.iter().all(|piece| piece.answered || piece.op == Op::Flush)
    }
}

/// The state of keeping one link alive, for `gateway/alive.rs`. A lost link drops it: the next welcome says whether its node knows such
/// frames.
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
    /// Probes without an answer so far, those whose deadline has passed included.
    pub unanswered: u32,
}

/// A welcome that waits, for `gateway/held.rs`.
#[derive(Debug)]
pub struct HeldWelcome {
    pub welcome: Welcome,
    /// How many of the bytes behind it were looked at.
    pub seen_bytes: usize,
    /// Its link has answered a probe, or cannot be probed.
    pub is_alive: bool,
    /// A ready link of the node has answered a probe since.
    pub has_rival: bool,
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

/// What a hello and an extent have to do with the gateway in charge: epochs and versions of its map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charged {
    pub offered: (u64, u64),
    /// What was known when the hello was sent: answers to hellos of other links may overtake this one's.
    pub seen: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
pub struct Link {
    pub node: usize,
    /// Its number among its node's links.
    pub number: u16,
    pub state: State,
    pub rx: RxBuf,
    pub rx_wanted: usize,
    pub out: OutQueue,
    /// Batches out, oldest first.
    pub sent: VecDeque<SentBatch>,
    /// Changes that were out when the link broke. They wait for the next welcome, which confirms that they are over.
    pub unresolved: Vec<Piece>,
    /// Attempts at this link so far, for the hello.
    pub attempt: u32,
    /// Failed attempts since it was last ready.
    pub failures: u32,
    /// When the last attempt began.
    pub begun: Option<Time>,
    pub alive: Alive,
    /// The held welcome.
    pub held: Option<Box<HeldWelcome>>,
    pub next_seq: u32,
    /// When bytes were last received, or the first batch was sent on an idle link.
    pub progress: Time,
    /// When pieces were last answered.
    pub answered: Time,
    /// When bytes were last received.
    pub heard: Time,
    /// When the node last reported that its store makes progress with a flush.
    pub store_progressed: Option<Time>,
    /// When the hello was made.
    pub greeted: Time,
    /// Of a volume with copies: what the hello asks the extent to remember, and what it is known to remember already.
    pub charged: Option<Charged>,
    /// The extent that the other end has proven to serve, where there are keys.
    pub proven: Option<[u8; 16]>,
    pub is_dirty: bool,
    pub counters: LinkCounters,
}

counters! {
    /// Counters of a link since the gateway's start.
    pub struct LinkCounters {
        batches: "Batches sent",
        #[serde(default)]
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
        #[serde(default)]
        failures as "failed_pieces": "Pieces that failed at the node",
        #[serde(default)]
        alive_frames: "Frames that kept the link's radio awake",
        #[serde(default)]
        welcomes: "Times that the node welcomed the link",
    }
}

impl Link {
    pub fn new(node: usize, number: u16) -> Link {
        Link { node, number, ..Link::default() }
    }

    /// Its next deadline; that of the batches of a ready link is checked by the caller's sweep.
    pub fn deadline(&self, draining: bool) -> Option<Time> {
        match self.state {
            State::Waiting(_) if draining => None,
            State::Parked => None,
            State::Waiting(at) | State::Connecting(at) | State::Greeting(at) | State::Held(at) => Some(at),
            State::Ready => self.alive.due.into_iter().chain(self.alive.probe).min(),
        }
    }

    /// Whether it has answered nothing for `patience`.
    pub fn is_unanswering(&self, now: Time, patience: Duration) -> bool {
        now - self.answered >= patience
    }

    /// Whether it was lost `lost_for` ago, or has batches out and was silent `unheard_for`.
    pub fn is_silent(&self, now: Time, lost_for: Duration, unheard_for: Duration) -> bool {
        match self.state {
            State::Ready => !self.sent.is_empty() && now - self.progress >= unheard_for,
            _ => now - self.progress >= lost_for,
        }
    }

    /// Whether the node's store has made progress with a batch of which only flushes are left.
    fn is_flushing(&self, batch: &SentBatch) -> bool {
        self.store_progressed.is_some_and(|at| at >= batch.sent) && batch.has_only_flushes()
    }

    /// Batches out, without those that a slow flush alone keeps: others are sent beside them, for as long as it may take.
    pub fn in_the_way(&self) -> impl DoubleEndedIterator<Item = &SentBatch> {
        self.sent.iter().filter(|batch| !batch.is_urgent && !self.is_flushing(batch))
    }

    /// Urgent batches out.
    pub fn urgent_len(&self) -> usize {
        self.sent.iter().filter(|batch| batch.is_urgent).count()
    }

    /// Since when a batch has waited: since it was sent, or, if only flushes of it are left, since the node's store last made progress. That
    /// counts for `most` from when it was sent.
    pub fn waits_since(&self, now: Time, batch: &SentBatch, most: Duration) -> Time {
        let is_flushing = now - batch.sent < most && self.is_flushing(batch);
        self.store_progressed.filter(|_| is_flushing).unwrap_or(batch.sent)
    }

    /// Whether a batch has waited for `patience`.
    pub fn has_waited(&self, now: Time, patience: Duration, most: Duration) -> bool {
        self.sent.iter().any(|batch| now - self.waits_since(now, batch, most) >= patience)
    }

    /// Whether it has left requests unanswered for `patience`, and its node's store makes no progress with a flush. While it does, other batches
    /// have `patience` from when they were sent. Without it that does not count, as a batch is sent anew each time that a link is lost.
    pub fn is_stuck(&self, now: Time, patience: Duration, most: Duration) -> bool {
        let is_recent = |batch: &SentBatch| now - self.waits_since(now, batch, most) < patience;
        let is_only_slow = self.unresolved.is_empty()
            && self.sent.iter().any(|batch| self.is_flushing(batch))
            && self.sent.iter().all(is_recent);
        self.is_unanswering(now, patience) && !is_only_slow
    }

    /// Whether pieces that are held may wait for a change that is out on it.
    pub fn may_hold(&self) -> bool {
        !self.sent.is_empty() || !self.unresolved.is_empty()
    }

    /// The requests with unanswered pieces on it, without flushes with which the node's store made progress within `patience`. That counts for
    /// `most` from when they were sent.
    pub fn stuck_requests(&self, now: Time, patience: Duration, most: Duration) -> impl Iterator<Item = RequestKey> {
        let progressed = self.store_progressed.filter(|&at| now - at < patience);
        self.sent.iter().flat_map(move |batch| {
            let is_slow = progressed.is_some_and(|at| at >= batch.sent) && now - batch.sent < most;
            let is_waiting = move |piece: &&Piece| !(piece.answered || is_slow && piece.op == Op::Flush);
            batch.pieces.iter().filter(is_waiting).map(|piece| piece.request)
        })
    }

    /// When it will count as stuck if it stays silent; `None` while no batch is out.
    pub fn stuck_from(&self) -> Option<Time> {
        (!self.sent.is_empty()).then(|| self.progress + STUCK_FOR)
    }

    /// The requests of [`Link::unresolved`].
    pub fn unresolved_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.unresolved.iter().map(|piece| piece.request)
    }

    /// The requests with unanswered pieces on it.
    pub fn sent_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.sent.iter().flat_map(|batch| &batch.pieces).filter(|piece| !piece.answered).map(|piece| piece.request)
    }

    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Greeting(_) | State::Held(_) | State::Ready)
    }

    /// When it last carried a batch or an answer.
    pub fn used(&self) -> Time {
        self.sent.back().map_or(self.answered, |batch| batch.sent.max(self.answered))
    }

    /// When it last carried anything, in either direction.
    pub fn moved(&self) -> Time {
        self.used().max(self.progress).max(self.alive.sent)
    }
}

/// All links, counted over all nodes.
#[derive(Debug)]
pub struct Links {
    all: Vec<Link>,
    /// How many wait for a welcome.
    pub greeting: usize,
    /// No deadline is earlier than this, so that a turn need not check every link.
    due: Option<Time>,
    /// Those that got bytes to write since the last [`Links::take_dirty`].
    dirty: Vec<LinkId>,
    /// State of the generator of jitter.
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

    /// One more link, which is connected at once.
    pub fn add(&mut self, now: Time, mut link: Link) {
        link.state = State::Waiting(now);
        link.out.keep_spares(LINK_SPARES_BYTES_MIN);
        self.all.push(link);
        self.look_at(now);
    }

    /// A link is never connected again.
    pub fn park(&mut self, id: LinkId) {
        self.all[id.0].state = State::Parked;
    }

    /// The links of a node.
    #[inline]
    pub fn of(&self, node: &Node) -> &[Link] {
        &self.all[node.links.clone()]
    }

    /// The link has bytes to write.
    #[inline]
    pub fn mark(&mut self, id: LinkId) {
        let link = &mut self.all[id.0];
        if !link.is_dirty {
            link.is_dirty = true;
            self.dirty.push(id);
        }
    }

    /// The links that were marked since the last call.
    pub fn take_dirty(&mut self, into: &mut Vec<LinkId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            self.all[id.0].is_dirty = false;
        }
    }

    /// A link has a deadline at `at`.
    pub fn look_at(&mut self, at: Time) {
        bring_forward(&mut self.due, at);
    }

    /// The first deadline, or an earlier time.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Finds the first deadline. While draining, links do not reconnect, so they have none for that.
    pub fn find_due(&mut self, draining: bool) {
        self.due = self.all.iter().filter_map(|link| link.deadline(draining)).min();
    }

    /// The pause before the next attempt: doubling from the shortest to the longest, less up to a half at random, so that the links of
    /// many nodes do not all reconnect at once.
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
