//! The gateway: presents volumes, cuts requests into pieces, and sends them to nodes in batches.
//!
//! P1's queues are here by name: requests come in one way ([`client`], `request.rs`), every node has a
//! queue (`queue.rs`), and links drain it (`link.rs`). Batching clocks itself: a link has a few batches
//! out, and while they are, pieces gather; when one returns, everything gathered goes. No timer ever
//! delays a piece.
//!
//! The shell's turn: feed received bytes ([`Gateway::process_client`], [`Gateway::process_link`]); then
//! [`Gateway::turn`]; write what [`Gateway::client_out`] and [`Gateway::link_out`] have for each of
//! [`Gateway::take_dirty`], and report it; do what [`Gateway::poll_action`] says; call
//! [`Gateway::handle_timeout`] no later than [`Gateway::next_timeout`].
//!
//! Invariants: every request of a client that lives is answered exactly once; a write is sent again only
//! after the node has confirmed that the earlier attempt is over (see [`crate::wire::hello`]); two changes that
//! overlap are never on their way together; what is held in memory stays within the budget.

mod alive;
mod batch;
mod client;
mod complete;
mod config;
mod fairness;
mod link;
mod local;
mod native;
mod queue;
mod request;
mod samples;
mod shares;
mod status;
mod volume;

use std::collections::VecDeque;
use std::time::Duration;

use slab::Slab;

use crate::buffers::{Budget, BufferPool};
use crate::clocks::ClockRelation;
use crate::condition::Condition;
use crate::layout::{Layout, LayoutError};
use crate::op::Failure;
use crate::stages::{GatewayInterval, StageRecorder};
use crate::units::{KIB, MIB, Time};

pub use alive::USED_FOR;
use client::Client;
pub use client::ClientId;
pub use config::{BatchMode, ExtentSpec, GatewayConfig, VolumeSpec};
use link::Link;
pub use link::LinkId;
pub use local::{LocalExtents, NoLocal};
pub use native::{NativeCall, SPANS_MAX};
use queue::{BatchLimits, NodeQueue, Piece};
pub use request::LATENESS_MAX;
use request::Requests;
use samples::Samples;
pub use samples::{
    AtOnce, FINISHED_MAX, IN_FLIGHT_MAX, Placed, SAMPLED_PIECES_MAX, Sample, SampleCounters, SampledPiece, Sampling,
};
pub use status::{GatewayStatus, LinkPhase, LinkStatus, NodeStatus, VolumeStatus};
use volume::Volume;

/// Something for the shell to do or to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect this link to node `node` (counted over all volumes), then call
    /// [`Gateway::link_connected`] or [`Gateway::link_closed`].
    Connect {
        /// Which link.
        link: LinkId,
        /// Which node.
        node: usize,
    },
    /// Close this link's connection; the gateway has already forgotten it.
    Disconnect(LinkId),
    /// Write what is queued, then close this client's connection. With a reason if the client is to blame.
    CloseClient(ClientId, Option<String>),
    /// Keep in mind, beyond this start, that this node serves this extent: see [`GatewayConfig::extent_ids`].
    Remember {
        /// Which node, counted over all volumes.
        node: usize,
        /// Which extent.
        extent_id: [u8; 16],
    },
    /// Something that an operator wants to know.
    Tell(Event),
}

/// Something that an operator wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A volume can be used from now on: its name, bytes, nodes.
    VolumeReady(String, u64, usize),
    /// Every node of a volume has a link: its name.
    VolumeLinked(String),
    /// A node's first link is up.
    NodeUp {
        /// Its name.
        name: String,
        /// It runs without I/O.
        no_io: bool,
        /// It answers as slowly as a modelled flash.
        modelled: bool,
    },
    /// A node has no link, or no longer: its name, why.
    NodeDown(String, String),
    /// A node tells that limits of its device are crossed: its name, which and what helps.
    NodeAils(String, String),
    /// None is any more: its name.
    NodeWell(String),
    /// A node did nothing for a while, and tells so: its name, how long and why.
    NodePaused(String, String),
    /// A node, or this gateway, found that it is the wrong one: its name, why and what to do.
    NodeRefused(String, String),
    /// A node's device restarted with changes that were acknowledged but not flushed: its name.
    ChangesLost(String),
    /// So many requests of a volume failed because they took too long.
    TimedOut(String, usize),
    /// So many requests failed early: their nodes do not answer, and others needed the memory.
    GaveWay(usize),
}

/// One node as the gateway sees it.
#[derive(Debug)]
struct Node {
    volume: usize,
    /// Which of the volume's extents.
    extent: u32,
    name: String,
    queue: NodeQueue,
    links: std::ops::Range<usize>,
    /// Where the search for a free link begins.
    next_link: usize,
    limits: BatchLimits,
    way: fairness::Way,
    /// Known beforehand, or since the first welcome.
    extent_id: Option<[u8; 16]>,
    boot_id: Option<[u8; 16]>,
    no_io: bool,
    modelled: bool,
    is_local: bool,
    refusal: Option<String>,
    /// Why it was last not reached, while it has no link.
    trouble: Option<String>,
    links_up: usize,
    /// What it told of its device, and when.
    condition: Option<(Condition, Time)>,
    /// How its clock stands to ours.
    clock: ClockRelation,
    /// In [`Gateway::fed`] already.
    is_fed: bool,
    /// In [`Gateway::held`] already.
    is_held: bool,
}

/// A finished call of a native client.
#[derive(Debug)]
pub struct Completion {
    /// Whose call.
    pub client: ClientId,
    /// What the client calls it.
    pub cookie: u64,
    /// What was read (empty for other operations), or why it failed.
    pub result: Result<Vec<u8>, Failure>,
}

/// The state machine of one gateway.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    volumes: Vec<Volume>,
    nodes: Vec<Node>,
    links: Vec<Link>,
    clients: Slab<Client>,
    client_serial: u32,
    requests: Requests,
    budget: Budget,
    /// A client that was held back has read what it owed to read.
    retry_blocked: bool,
    /// How many clients have more to decode that nothing holds up.
    paused_clients: usize,
    /// Who asks for little beside others.
    modest: fairness::Modest,
    /// The client whose turn for memory it is, and until when at the longest.
    first_in_line: Option<(ClientId, Time)>,
    /// What was taken of it when held-back clients were last looked at.
    used_bytes_at_turn: u64,
    actions: VecDeque<Action>,
    completions: Vec<Completion>,
    stages: StageRecorder<GatewayInterval>,
    samples: Samples,
    /// Links on which a welcome is awaited.
    greeting: usize,
    counters: status::Counters,
    draining: bool,
    random: u64,
    /// Nodes whose queue got something this turn.
    fed: Vec<usize>,
    /// Nodes whose queue waits for more to gather, and when the first of them need not any longer.
    held: Vec<usize>,
    hold_end: Option<Time>,
    /// Clients and links that have bytes to write since they were last asked for.
    dirty_clients: Vec<ClientId>,
    dirty_links: Vec<LinkId>,
    next_sweep: Time,
    /// No link that is not ready wants to be looked at before: a turn must not cost more for every link that there is.
    links_due: Option<Time>,
    /// Batches out on all links together.
    batches_out: usize,
    /// Which blocked client came first last time.
    turn_first: usize,
    // Memory that is used again.
    meta: Vec<u8>,
    pieces_pool: Vec<Vec<Piece>>,
    /// Where the parts of reads are put together.
    buffers: BufferPool,
}

/// How often timeouts are looked for: a request fails at most this much late.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);
/// Most bytes of buffers for reads of several pieces that are kept for the next ones, over all clients.
const JOINED_BYTES_KEPT: usize = 8 * MIB as usize;
/// Bytes of sent frames that all links together keep for the next ones, and the least that each may keep.
const LINK_SPARES_BYTES: usize = 8 * MIB as usize;
const LINK_SPARES_BYTES_MIN: usize = 256 * KIB as usize;

impl Gateway {
    /// A gateway that wants to connect all its links.
    pub fn new(config: GatewayConfig) -> Result<Gateway, LayoutError> {
        let (mut volumes, mut nodes, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in config.volumes.iter().enumerate() {
            let volume = Volume::new(spec.clone(), nodes.len())?;
            for (extent, extent_spec) in spec.extents.iter().enumerate() {
                let first = links.len();
                links.extend((0..spec.links.max(1)).map(|number| Link::new(nodes.len(), number)));
                nodes.push(Node {
                    volume: index,
                    extent: extent as u32,
                    name: extent_spec.name.clone(),
                    queue: NodeQueue::default(),
                    links: first..links.len(),
                    next_link: first,
                    limits: BatchLimits {
                        pieces: volume.batch_pieces_max(),
                        bytes: spec.batch_bytes.clamp(1, crate::wire::PAYLOAD_BYTES_MAX as u64),
                    },
                    way: fairness::Way::default(),
                    extent_id: config.extent_ids.get(nodes.len()).copied().flatten(),
                    boot_id: None,
                    no_io: false,
                    modelled: false,
                    is_local: extent_spec.is_local,
                    refusal: None,
                    trouble: None,
                    links_up: 0,
                    condition: None,
                    clock: ClockRelation::default(),
                    is_fed: false,
                    is_held: false,
                });
            }
            volumes.push(volume);
        }
        let spares_bytes = (LINK_SPARES_BYTES / links.len().max(1)).max(LINK_SPARES_BYTES_MIN);
        links.iter_mut().for_each(|link| link.out.keep_spares(spares_bytes));
        let mut gateway = Gateway {
            budget: Budget::new(config.memory_bytes),
            random: config.seed | 1,
            config,
            volumes,
            nodes,
            links,
            clients: Slab::new(),
            client_serial: 0,
            requests: Requests::default(),
            retry_blocked: false,
            paused_clients: 0,
            modest: fairness::Modest::default(),
            first_in_line: None,
            used_bytes_at_turn: 0,
            actions: VecDeque::new(),
            completions: Vec::new(),
            stages: StageRecorder::new(),
            samples: Samples::default(),
            greeting: 0,
            counters: status::Counters::default(),
            draining: false,
            fed: Vec::new(),
            held: Vec::new(),
            hold_end: None,
            dirty_clients: Vec::new(),
            dirty_links: Vec::new(),
            next_sweep: Time::default(),
            links_due: Some(Time::default()),
            batches_out: 0,
            turn_first: 0,
            meta: Vec::new(),
            pieces_pool: Vec::new(),
            buffers: BufferPool::new(JOINED_BYTES_KEPT),
        };
        for index in 0..gateway.volumes.len() {
            gateway.tell_if_ready(index, gateway.volumes[index].layout.is_some());
        }
        Ok(gateway)
    }

    /// Goes on with clients that limits held back, and sends what gathered in the queues. Call it once per turn
    /// of the loop, after all received bytes were processed.
    pub fn turn(&mut self, now: Time, local: &mut impl LocalExtents) {
        self.retry_blocked = false;
        self.resume_clients(now, local);
        self.used_bytes_at_turn = self.budget.used_bytes();
        self.pump(now);
    }

    /// Lets every link that has room take a batch from its node's queue.
    fn pump(&mut self, now: Time) {
        let mut fed = std::mem::take(&mut self.fed);
        for node in fed.drain(..) {
            self.nodes[node].is_fed = false;
            while self.nodes[node].queue.has_ready() {
                let Some(link) = self.free_link(now, node) else {
                    self.hold(now, node);
                    break;
                };
                if !self.send_batch(now, link) {
                    break;
                }
            }
        }
        self.fed = fed;
    }

    /// Has this node looked at again when its links have waited long enough for more.
    fn hold(&mut self, now: Time, node: usize) {
        if let Some(end) = self.hold_end(now, node) {
            self.hold_end = Some(self.hold_end.map_or(end, |first| first.min(end)));
            if !self.nodes[node].is_held {
                self.nodes[node].is_held = true;
                self.held.push(node);
            }
        }
    }

    /// Marks a node whose queue may have something for its links.
    fn feed(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if !state.is_fed {
            state.is_fed = true;
            self.fed.push(node);
        }
    }

    /// The next thing for the shell to do or to tell.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Clients and links that have something to write since this was last asked.
    pub fn take_dirty(&mut self, clients: &mut Vec<ClientId>, links: &mut Vec<LinkId>) {
        clients.clear();
        links.clear();
        std::mem::swap(&mut self.dirty_clients, clients);
        std::mem::swap(&mut self.dirty_links, links);
        for id in clients.iter() {
            if let Some(client) = self.clients.get_mut(id.index) {
                client.is_dirty = false;
            }
        }
        for id in links.iter() {
            self.links[id.0].is_dirty = false;
        }
    }

    /// Finished calls of native clients.
    pub fn completions(&mut self) -> &mut Vec<Completion> {
        &mut self.completions
    }

    /// When [`Gateway::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        // A link may still wait for answers when nobody waits for its requests any more.
        let is_awaiting = !self.requests.is_empty()
            || self.batches_out > 0
            || self.samples.is_active()
            || self.clients.iter().any(|(_, c)| c.blocked);
        let sweep = is_awaiting.then_some(self.next_sweep);
        self.links_due.into_iter().chain(sweep).chain(self.hold_end).chain(self.next_handshake_deadline()).min()
    }

    /// Begins connects that are due, gives up on those that took too long, and fails requests that did.
    pub fn handle_timeout(&mut self, now: Time) {
        let is_swept = now >= self.next_sweep;
        if is_swept || self.links_due.is_some_and(|due| now >= due) {
            for link in 0..self.links.len() {
                self.link_timeout(now, LinkId(link));
            }
            self.find_links_due();
        }
        if self.hold_end.is_some_and(|end| now >= end) {
            self.hold_end = None;
            for node in std::mem::take(&mut self.held) {
                self.nodes[node].is_held = false;
                self.feed(node);
            }
        }
        self.drop_late_handshakes(now);
        if is_swept {
            self.next_sweep = now + SWEEP_INTERVAL;
            self.fail_late_requests(now);
            if self.samples.is_active() {
                self.samples.sweep(now);
            }
        }
    }

    fn find_links_due(&mut self) {
        // While draining no link is connected anew, so its turn to do so never comes.
        self.links_due = self.links.iter().filter_map(|link| link.deadline(self.draining)).min();
    }

    /// Takes no new clients and no new requests; what is in hand is finished.
    pub fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.find_links_due();
        }
    }

    /// Whether every request is answered and every answer written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.clients.iter().all(|(_, c)| c.is_idle())
    }

    /// The layout of a volume, once it is known.
    #[must_use]
    pub fn layout(&self, volume: usize) -> Option<&Layout> {
        self.volumes.get(volume).and_then(|v| v.layout.as_ref())
    }

    fn tell(&mut self, event: Event) {
        self.actions.push_back(Action::Tell(event));
    }

    fn tell_if_ready(&mut self, volume: usize, became_ready: bool) {
        let volume = &self.volumes[volume];
        if let Some(layout) = volume.layout.as_ref().filter(|_| became_ready) {
            let event = Event::VolumeReady(volume.spec.name.clone(), layout.size_bytes(), volume.spec.extents.len());
            self.tell(event);
        }
    }

    /// A pseudo-random number: xorshift64, Marsaglia 2003.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
