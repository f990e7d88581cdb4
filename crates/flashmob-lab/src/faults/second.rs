//! A second gateway takes over a volume with copies, while the first does not know it: it stands still for a while, or cannot reach some nodes.
//!
//! The map is in one place: once the second gateway has counted its start there, nothing that the first decides becomes durable. The first may go
//! on at the nodes that the second has not reached yet. What it acknowledges must be found by the second; what it answers to reads is
//! judged only where it needs a lease for that ([`super::lease`]), as it may be old otherwise.

use std::time::Duration;

use flashmob_core::op::Failure;
use flashmob_core::units::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::net::{ConnId, ConnKind};
use super::scenario::pick;
use super::{Event, Scenario, World};

/// Draws whether a second gateway takes over, and when; not where something else befalls the gateway or its map, or all copies. From a generator of its own: other draws stay what they are.
pub(super) fn draw(scenario: &mut Scenario) {
    let rng = &mut SmallRng::seed_from_u64(scenario.seed ^ 0x2_6a7e);
    let is_alone = |fault: &Fault| {
        use Fault::{Blackout, GatewayStall, Lie, MapFull, MapSlow};
        matches!(fault, Blackout(..) | GatewayStall(_) | Lie(..) | MapFull(_) | MapSlow(_))
    };
    if !rng.random_ratio(1, 5) || scenario.faults.iter().any(|(_, fault)| is_alone(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us));
    let longest_us = *pick(rng, &[20_000, 300_000, 2_000_000]);
    let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
    scenario.faults.push((at, Fault::SecondGateway(lasts)));
    if rng.random_bool(0.5) {
        // A node that was started again knows which of them is in charge.
        let node = rng.random_range(0..scenario.extents_bytes.len());
        let down = Duration::from_micros(rng.random_range(500..5_000));
        scenario.faults.push((at + lasts.mul_f64(rng.random_range(0.0..1.0)), Fault::Kill(node, down)));
    }
}

/// Which nodes the two gateways cannot reach.
#[derive(Debug, Default)]
pub(super) struct Partition {
    /// By node: no new connection of the former gateway reaches it.
    pub from_former: Vec<bool>,
    /// By node: none of the second gateway reaches it before.
    pub from_second: Vec<Time>,
}

impl World {
    /// A second gateway is in charge from now on, and the former is gone so much later.
    pub(super) fn take_over(&mut self, lasts: Duration) {
        if self.former.is_some() || self.gateway.core.is_none() || self.is_healed {
            return;
        }
        let (now, nodes) = (self.ctx.now, self.scenario.extents_bytes.len());
        // A node that the second gateway cannot reach for long falls behind; where others lose data, that may be the last copy.
        let is_lossy = self.scenario.faults.iter().any(|(_, fault)| fault.loses_data());
        let evict_after = self.scenario.copies.as_ref().map_or(Duration::ZERO, |plan| plan.evict_after);
        let longest = if is_lossy { lasts.min(evict_after / 16) } else { lasts };
        for node in 0..nodes {
            let until = now + longest.mul_f64(f64::from(self.ctx.rng.random_range(0..4u8)) / 3.0);
            let is_cut_off = self.ctx.rng.random_bool(0.5);
            self.partition.from_second[node] = if is_cut_off { until } else { now };
            self.partition.from_former[node] = self.ctx.rng.random_bool(0.5);
            self.disturb(node, self.partition.from_second[node]);
            self.calm_at = self.calm_at.max(self.partition.from_second[node]);
        }
        self.separate_more(now + longest);
        let second = self.gateway.successor();
        let mut former = std::mem::replace(&mut self.gateway, second);
        former.is_former = true;
        former.refused_commit = self.fence_map();
        if self.ctx.rng.random_bool(0.5) {
            former.stalled_until = now + self.ctx.rng.random_range(Duration::ZERO..lasts);
        }
        self.of_former.extend(former.client_conns());
        self.former = Some(former);
        self.oracle.gateway_lost();
        self.oracle.set_shared(true);
        self.start_gateway();
        self.ctx.at(now + lasts, Event::KillFormer);
    }

    /// The former gateway is gone, with its connections.
    pub(super) fn kill_former(&mut self) {
        let Some(former) = self.former.take() else { return };
        self.close_all(former);
        self.oracle.set_shared(false);
    }

    /// Whether an event is one of the former gateway's.
    pub(super) fn is_of_former(&self, event: Event) -> bool {
        let Some(former) = &self.former else { return false };
        match event {
            Event::GatewayTurn { session }
            | Event::GatewayTimer { session }
            | Event::Committed { session }
            | Event::AskLease { session }
            | Event::ClaimShown { session, .. }
            | Event::LeaseGranted { session, .. }
            | Event::Connect { session, .. } => session == former.session,
            Event::Arrive { conn, from: side } => self.is_at_former(conn, 1 - side),
            Event::SeeClose { conn, side } | Event::Ready { conn, side } => self.is_at_former(conn, side),
            _ => false,
        }
    }

    /// Whether a side of a connection is the former gateway's.
    fn is_at_former(&self, conn: ConnId, side: usize) -> bool {
        let Some(former) = &self.former else { return false };
        match self.net.conns[conn].kind {
            ConnKind::Client(_) => side == 1 && self.of_former.contains(&conn),
            ConnKind::Link { .. } => side == 0 && former.has_link(conn),
        }
    }

    /// Does something with the former gateway in the place of the second.
    pub(super) fn with_former(&mut self, act: impl FnOnce(&mut World)) {
        let Some(former) = self.former.take() else { return };
        let second = std::mem::replace(&mut self.gateway, former);
        act(self);
        self.former = Some(std::mem::replace(&mut self.gateway, second));
    }

    /// Whether the answers that a client gets are, or were, those of a gateway that was not in charge any more.
    pub(super) fn is_client_of_former(&self, client: usize) -> bool {
        let is_conn = self.clients[client].conn().is_some_and(|conn| self.of_former.contains(&conn));
        is_conn || self.has_former_native(client)
    }

    /// Whether a native client belongs to the process of the former gateway.
    pub(super) fn has_former_native(&self, client: usize) -> bool {
        self.gateway.is_former && self.gateway.has_native(client)
            || self.former.as_ref().is_some_and(|former| former.has_native(client))
    }

    /// Whether nothing of the present gateway's, the former in a turn of its own, gets through to a node.
    pub(super) fn is_cut_off(&self, node: usize) -> bool {
        match self.gateway.is_former {
            true => self.partition.from_former.get(node).is_some_and(|is_cut_off| *is_cut_off),
            false => self.partition.from_second.get(node).is_some_and(|until| self.ctx.now < *until),
        }
    }

    /// Ends what keeps the second gateway from nodes, and the former gateway.
    pub(super) fn end_partition(&mut self) {
        self.kill_former();
        self.partition.from_second.iter_mut().for_each(|until| *until = Time::default());
    }

    /// From now on nothing that the gateway decides is durable: another has counted its start. Returns the number of the decisions that were
    /// being appended, and whether they are durable.
    fn fence_map(&mut self) -> Option<(u64, Result<(), Failure>)> {
        let (number, bytes, is_whole) = self.map.out.take()?;
        if self.ctx.rng.random_bool(0.5) {
            return Some((number, Err(Failure::Io)));
        }
        self.store_map(number, bytes, is_whole);
        Some((number, Ok(())))
    }
}

impl Partition {
    /// With so many nodes, all of them within reach.
    pub fn new(nodes: usize) -> Partition {
        Partition { from_former: vec![false; nodes], from_second: vec![Time::default(); nodes] }
    }
}
