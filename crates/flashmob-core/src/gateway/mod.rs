//! The gateway: presents volumes, cuts requests into pieces, and sends them to nodes in batches.
//!
//! Requests come in by `client.rs` and `request.rs`; every node has a queue (P1's, `state/queue.rs`), and links drain it (`batch.rs`).
//! Batching clocks itself: pieces gather while a link has a few batches out; when one returns, everything gathered is sent. No timer
//! delays an idle link.
//!
//! The shell's turn: pass in received bytes ([`Gateway::process_client`], [`Gateway::process_link`]); then [`Gateway::turn`]; write
//! [`Gateway::client_out`] and [`Gateway::link_out`] of each of [`Gateway::take_dirty`], and report it; do what
//! [`Gateway::poll_action`] returns; call [`Gateway::handle_timeout`] no later than [`Gateway::next_timeout`].
//!
//! Invariants: every request of a connected client is answered exactly once; a write is resent only after the node has confirmed that
//! the earlier attempt is over (see [`crate::wire::hello`]); two overlapping changes are never in flight together; memory stays within
//! the budget.

mod alive;
mod answer;
mod batch;
mod client;
mod complete;
mod config;
mod copies;
mod facts;
mod held;
mod late;
mod limits;
mod link;
mod live;
mod local;
mod lost;
mod map;
mod measure;
mod native;
mod outbox;
mod pieces;
mod replies;
mod request;
mod state;
mod status;
mod welcome;

use std::collections::VecDeque;
use std::time::Duration;

use crate::layout::{Layout, LayoutError};
use crate::units::Time;

pub use alive::USED_FOR;
pub use config::{BatchMode, ExtentSpec, GatewayConfig, VolumeSpec};
pub use copies::{
    AcceptLossError, AcceptedLoss, Added, BAD_BLOCKS_MAX, BadBlock, BadRange, CopiesCounters, CopiesSpec, CopiesStatus,
    EVICT_AFTER, Flaw, JoinError, LeaseStatus, MemberStatus, MoveError, MovesStatus, NewNode, Outlook, PassKept,
    PassStatus, PauseError, Proof, RemoveError, ReplaceError, Replaced, ResizeError, Resized, ResyncError, Resynced,
    SETTLE_AFTER, ScrubError, ScrubKept, ScrubSpec, ScrubStatus, ShrinkStatus, lasts_until,
};
use copies::{Copies, Lane};
pub use late::{FLUSH_TIMEOUTS_MAX, LATENESS_MAX};
pub use local::{LocalExtents, NoLocal};
use measure::Measuring;
pub use measure::{Aspect, Figures, MeasureError, Measurement};
pub use native::{NativeCall, SPANS_MAX};
pub use outbox::{Action, Completion, Event};
pub use state::device_failures::{DeviceFailures, DeviceOp, FAILURES_SHOWN, FailedOps};
use state::live::Live;
pub use state::live::{CAUSES, Cause, Counts, KEPT, LiveSlots, NodeSlot, Slot};
pub use state::samples::{
    AtOnce, FINISHED_MAX, IN_FLIGHT_MAX, Placed, SAMPLED_PIECES_MAX, Sample, SampleCounters, SampledPiece, Sampling,
};
use state::volume::Volume;
use state::{Batches, Clients, Link, Links, Memory, Metrics, Node, Queues, Requests};
pub use state::{ClientId, GatewayCounters, LinkCounters, LinkId, Right};
pub use status::{GatewayStatus, LinkPhase, LinkStatus, NodeStatus, VolumeStatus};

/// The state machine of one gateway. `state/mod.rs` describes the fields.
#[derive(Debug)]
pub struct Gateway {
    config: GatewayConfig,
    /// No new clients, no new requests.
    draining: bool,
    clients: Clients,
    memory: Memory,
    requests: Requests,
    volumes: Vec<Volume>,
    /// Numbered over all volumes, as the queues are.
    nodes: Vec<Node>,
    queues: Queues,
    links: Links,
    batches: Batches,
    metrics: Metrics,
    actions: VecDeque<Action>,
    completions: Vec<Completion>,
    /// The volumes with copies.
    with_copies: Vec<usize>,
    /// How fast work goes on that nobody waits for.
    lane: Lane,
    /// The measurement of a node that is under way, or the last one.
    measuring: Option<Box<Measuring>>,
    /// When timeouts are checked next.
    next_sweep: Time,
    /// The generation of the key of this gateway, in a cluster with keys.
    key_generation: Option<u64>,
    /// Since when the loop has not stood still: what was asked before has its whole time again.
    running_since: Time,
}

/// How often timeouts are checked: a request fails at most this much late.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);
/// A loop that comes so late has stood still, or had nothing to do: nobody could be heard meanwhile.
const STALL: Duration = Duration::from_millis(500);

impl Gateway {
    /// A gateway that will connect all its links.
    pub fn new(mut config: GatewayConfig) -> Result<Gateway, LayoutError> {
        let (mut volumes, mut nodes, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for (index, mut spec) in std::mem::take(&mut config.volumes).into_iter().enumerate() {
            // A map may be large: there is one of it.
            let copies = spec.copies.take().map(|copies| Box::new(Copies::new(*copies, spec.timeout)));
            let volume = Volume::new(spec, copies, nodes.len())?;
            for (extent, extent_spec) in volume.spec.extents.iter().enumerate() {
                let first = links.len();
                let count = if extent_spec.is_gone { 0 } else { volume.spec.links.max(1) };
                links.extend((0..count).map(|number| Link::new(nodes.len(), number)));
                let place = (index, extent as u32);
                let mut node = Node::new(place, extent_spec, first..links.len(), volume.batch_limits());
                let of_map = volume.copies.as_ref().and_then(|copies| copies.known_extent(extent));
                let kept = || config.extent_ids.get(nodes.len()).copied().flatten();
                node.extent_id = if extent_spec.is_gone { None } else { of_map.or_else(kept) };
                nodes.push(node);
            }
            volumes.push(volume);
        }
        let live = if config.keeps_live { Live::new(nodes.len(), config.memory_bytes) } else { Live::default() };
        let lane = Lane::new(volumes.len());
        let mut gateway = Gateway {
            draining: false,
            clients: Clients::default(),
            memory: Memory::new(config.memory_bytes.saturating_sub(live.bytes_max())),
            requests: Requests::default(),
            volumes,
            queues: Queues::new(nodes.len()),
            nodes,
            links: Links::new(links, config.seed),
            batches: Batches::default(),
            metrics: Metrics { live, ..Metrics::default() },
            actions: VecDeque::new(),
            completions: Vec::new(),
            with_copies: Vec::new(),
            lane,
            measuring: None,
            next_sweep: Time::default(),
            key_generation: None,
            running_since: Time::default(),
            config,
        };
        for index in 0..gateway.volumes.len() {
            if gateway.volumes[index].copies.is_some() {
                gateway.with_copies.push(index);
            }
            gateway.tell_if_ready(index, gateway.volumes[index].layout.is_some());
        }
        Ok(gateway)
    }

    /// Resumes clients that limits held back, and sends batches from the queues. Call it once per turn of the loop, after all received
    /// bytes were processed.
    pub fn turn(&mut self, now: Time, local: &mut impl LocalExtents) {
        self.advance_live(now);
        self.memory.retry_blocked = false;
        self.resume_clients(now, local);
        self.memory.end_turn();
        self.pump(now);
        if self.has_copies() {
            self.commit(now);
        }
    }

    /// A part of a turn that is divided ([`Gateway::divides_turns`]): sends batches from the queues. Who is held back by a limit waits for the
    /// end of the turn.
    pub fn turn_in_part(&mut self, now: Time) {
        self.pump(now);
        if self.has_copies() {
            self.commit(now);
        }
    }

    /// Whether another turn may make progress: a queue got pieces since the last one (of a link that broke while it was written to), or
    /// clients have used up their part of the turn, or a limit held them back and memory was freed, or one of them has read its answers.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.clients.has_paused() || self.queues.is_any_fed() || self.memory.may_go_on() && self.clients.has_blocked()
    }

    /// The next action for the shell.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Clients and links that have got something to write since the last call.
    pub fn take_dirty(&mut self, clients: &mut Vec<ClientId>, links: &mut Vec<LinkId>) {
        self.clients.take_dirty(clients);
        self.links.take_dirty(links);
    }

    /// Finished calls of native clients.
    pub fn completions(&mut self) -> &mut Vec<Completion> {
        &mut self.completions
    }

    /// When [`Gateway::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        // A link may still wait for answers when all its requests have ended.
        let is_awaiting = !self.requests.is_empty()
            || self.batches.out > 0
            || self.metrics.samples.is_active()
            || self.clients.has_blocked();
        let sweep = is_awaiting.then_some(self.next_sweep);
        let others = sweep.into_iter().chain(self.queues.hold_end()).chain(self.clients.next_handshake_deadline());
        let others = others.chain(if self.has_copies() { self.copies_due() } else { None });
        self.links.due().into_iter().chain(others).min()
    }

    /// Begins connects that are due, and ends links and requests that took too long.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance_live(now);
        let is_swept = now >= self.next_sweep;
        if is_swept || self.links.due().is_some_and(|due| now >= due) {
            for link in 0..self.links.len() {
                self.link_timeout(now, LinkId(link));
            }
            self.links.find_due(self.draining);
        }
        self.queues.release(now);
        self.drop_late_handshakes(now);
        if self.has_copies() {
            self.watch_copies(now);
        }
        if is_swept {
            if now - self.next_sweep > STALL {
                self.running_since = now;
            }
            self.next_sweep = now + SWEEP_INTERVAL;
            self.fail_late_requests(now);
            self.drop_late_arrivals(now);
            if self.measuring.is_some() {
                self.sweep_measurement(now);
            }
            if self.metrics.samples.is_active() {
                self.metrics.samples.sweep(now);
            }
        }
    }

    /// Accepts no new clients and no new requests; those in hand are finished.
    pub fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.links.find_due(self.draining);
            self.end_scrubs();
            self.drop_measurement();
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

    fn tell_if_ready(&mut self, volume: usize, became_ready: bool) {
        let volume = &self.volumes[volume];
        if let Some(layout) = volume.layout.as_ref().filter(|_| became_ready) {
            let nodes = volume.nodes.iter().filter(|&&node| !self.nodes[node].is_gone).count();
            let name = volume.spec.name.clone();
            self.actions.push_back(Action::Tell(Event::VolumeReady(name, layout.size_bytes(), nodes)));
        }
    }
}
