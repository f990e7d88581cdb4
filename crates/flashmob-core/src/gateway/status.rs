//! The state of a gateway for `/status` and `/metrics`: counters, queues and stage histograms.

use super::Gateway;
use super::state::device_failures::DeviceFailures;
use super::state::samples::{Sample, SampleCounters, Sampling};
use super::state::{GatewayCounters, LinkCounters, LinkId, State};
use crate::clocks::ClockOffset;
use crate::condition::Condition;
use crate::op::Op;
use crate::stages::{GatewayInterval, StageHistograms};
use crate::units::Time;

/// The state of a link, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPhase {
    /// Waiting for the next attempt.
    Waiting,
    /// Connecting.
    Connecting,
    /// Waiting for the node's welcome.
    Greeting,
    /// Carrying batches.
    Ready,
}

/// A gateway's state at one moment. Counters count from its start.
#[derive(Debug, Clone)]
pub struct GatewayStatus {
    /// Requests accepted, by operation.
    pub requests: Vec<(Op, u64)>,
    /// Its other counters. Of native calls each part that is answered at once counts.
    pub counters: GatewayCounters,
    /// Clients connected.
    pub clients: usize,
    /// Requests in hand.
    pub in_hand: usize,
    /// Bytes of the budget that are reserved, the most that ever were, and the budget.
    pub memory_bytes: (u64, u64, u64),
    /// Each volume.
    pub volumes: Vec<VolumeStatus>,
}

/// One volume's state.
#[derive(Debug, Clone)]
pub struct VolumeStatus {
    /// The export's name.
    pub name: String,
    /// Its size in bytes, once known.
    pub size_bytes: Option<u64>,
    /// Its nodes in the order of the layout.
    pub nodes: Vec<NodeStatus>,
}

/// One node as the gateway sees it.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    /// Its address or path.
    pub name: String,
    /// Size of its extent in bytes, once known.
    pub size_bytes: Option<u64>,
    /// Pieces in its queue.
    pub queue_depth: usize,
    /// It answers without touching its store.
    pub no_io: bool,
    /// It answers as slowly as a modelled flash.
    pub modelled: bool,
    /// The last reported condition of its device, and when it came.
    pub condition: Option<(Condition, Time)>,
    /// Which node, counted over all volumes.
    pub number: usize,
    /// Failures of its device.
    pub failures: DeviceFailures,
    /// Why it is refused until somebody intervenes.
    pub refusal: Option<String>,
    /// It was removed from the volume.
    pub is_gone: bool,
    /// Its links.
    pub links: Vec<LinkStatus>,
}

/// One link's state.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// Which link, over all nodes.
    pub link: LinkId,
    /// Its state.
    pub phase: LinkPhase,
    /// Batches out.
    pub outstanding_batches: usize,
    /// Its counters.
    pub counters: LinkCounters,
}

impl Gateway {
    /// The state now.
    #[must_use]
    pub fn status(&self) -> GatewayStatus {
        GatewayStatus {
            requests: Op::ALL.into_iter().map(|op| (op, self.metrics.requests[op as usize])).collect(),
            counters: self.metrics.counters,
            clients: self.clients.len(),
            in_hand: self.requests.len(),
            memory_bytes: (
                self.memory.budget.used_bytes(),
                self.memory.budget.peak_bytes(),
                self.memory.budget.limit_bytes(),
            ),
            volumes: (0..self.volumes.len()).map(|v| self.volume_status(v)).collect(),
        }
    }

    /// Bytes of requests and replies in memory now.
    #[must_use]
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.budget.used_bytes()
    }

    fn volume_status(&self, index: usize) -> VolumeStatus {
        let volume = &self.volumes[index];
        let nodes = volume.nodes.iter().map(|&number| (number, &self.nodes[number]));
        let nodes = nodes.map(|(number, node)| NodeStatus {
            number,
            name: node.name.clone(),
            size_bytes: volume.sizes_bytes[node.extent as usize],
            queue_depth: self.queues[number].len(),
            no_io: node.no_io,
            modelled: node.modelled,
            condition: node.condition.clone(),
            failures: node.failures,
            refusal: node.refusal.clone(),
            is_gone: node.is_gone,
            links: node.links.clone().map(|link| self.link_status(LinkId(link))).collect(),
        });
        let size_bytes = volume.layout.as_ref().map(|l| l.size_bytes());
        VolumeStatus { name: volume.spec.name.clone(), size_bytes, nodes: nodes.collect() }
    }

    fn link_status(&self, id: LinkId) -> LinkStatus {
        let link = &self.links[id];
        LinkStatus {
            link: id,
            phase: match link.state {
                State::Waiting(_) | State::Parked => LinkPhase::Waiting,
                State::Connecting(_) => LinkPhase::Connecting,
                State::Greeting(_) | State::Held(_) => LinkPhase::Greeting,
                State::Ready => LinkPhase::Ready,
            },
            outstanding_batches: link.sent.len(),
            counters: link.counters,
        }
    }

    /// Histograms of the time between stages.
    #[must_use]
    pub fn stages(&mut self) -> &StageHistograms<GatewayInterval> {
        self.metrics.stages.histograms()
    }

    /// Sets how requests are sampled from now on.
    pub fn set_sampling(&mut self, sampling: Sampling) {
        self.metrics.samples.set(sampling);
    }

    /// How requests are sampled.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        self.metrics.samples.sampling
    }

    /// The last finished samples, oldest first.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.metrics.samples.finished()
    }

    /// Counters of samples.
    #[must_use]
    pub fn sample_counters(&self) -> SampleCounters {
        self.metrics.samples.counters
    }

    /// Samples in flight.
    #[must_use]
    pub fn samples_in_flight(&self) -> usize {
        self.metrics.samples.in_flight()
    }

    /// Whether the gateway needs exact times for samples, clocks or a lease: those at which bytes arrive or leave. Otherwise the time at which the
    /// turn began will do.
    #[must_use]
    pub fn wants_exact_time(&self) -> bool {
        let mut copies = self.with_copies.iter().filter_map(|&volume| self.volumes[volume].copies.as_deref());
        self.metrics.samples.is_active() || self.links.greeting > 0 || copies.any(super::copies::Copies::is_leased)
    }

    /// The offset of the clock of a node (counted over all volumes) from that of this gateway's device.
    #[must_use]
    pub fn clock_of(&self, node: usize, now: Time) -> Option<ClockOffset> {
        self.nodes.get(node)?.clock.offset(self.metrics.samples.clock_ns(now))
    }
}
