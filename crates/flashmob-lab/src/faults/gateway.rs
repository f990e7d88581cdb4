//! Drives `flashmob_core::gateway::Gateway` as its shell would: turns, connections, timers, and its restarts.

use std::collections::BTreeMap;
use std::time::Duration;

use flashmob_core::copies::MapImage;
use flashmob_core::gateway::{
    Action, ClientId, Completion, CopiesSpec, Event as Told, ExtentSpec, Gateway, GatewayConfig, LinkId, LinkPhase,
    LocalExtents, NativeCall, Sampling, ScrubSpec, VolumeSpec,
};
use flashmob_core::node::TryRead;
use flashmob_core::op::Failure;
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::net::{ConnId, ConnKind};
use super::node::NodeLoop;
use super::trace::What;
use super::{Event, Scenario, World};

/// How long the gateway's loop needs to notice something, at most, in nanoseconds.
const WAKE_NS_MAX: u64 = 20_000;
/// The gateway's clock at the beginning: later than the largest negative offset of a node's clock.
pub(super) const CLOCK_START_NS: u64 = 2_000_000_000_000;

#[derive(Debug, Default)]
pub(super) struct GatewayLoop {
    /// None while it does not run.
    pub core: Option<Gateway>,
    /// Which start of it this is.
    pub session: u64,
    /// Each link's connection, and which attempt it is.
    links: Vec<(Option<ConnId>, u32)>,
    clients: BTreeMap<ConnId, ClientId>,
    natives: BTreeMap<usize, ClientId>,
    calls: Vec<(usize, NativeCall)>,
    accepting: Vec<ConnId>,
    closed: Vec<ConnId>,
    closing: Vec<ClientId>,
    is_awake: bool,
    /// Its loop stands still.
    pub stalled_until: Time,
    timer: Option<Time>,
    /// Another gateway is in charge.
    pub is_former: bool,
    /// How many gateways were in charge before it.
    pub number: u8,
    /// What becomes of the decisions that it has handed over, as a former gateway.
    pub refused_commit: Option<(u64, Result<(), Failure>)>,
    // Memory that is used again.
    dirty_clients: Vec<ClientId>,
    dirty_links: Vec<LinkId>,
}

/// Nodes as extents of the gateway's own process: their bytes are at hand while they run.
struct Local<'a> {
    nodes: &'a mut [NodeLoop],
    rng: &'a mut SmallRng,
}

impl LocalExtents for Local<'_> {
    fn try_read(&mut self, node: usize, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        match &self.nodes[node] {
            NodeLoop { core: Some(_), store, .. } => store.try_read(self.rng, offset_bytes, into),
            _ => TryRead::Miss,
        }
    }
}

fn config(
    scenario: &Scenario,
    (number, session): (u8, u64),
    map: Option<MapImage>,
    scrub: ScrubSpec,
    lease_until: Option<Time>,
) -> GatewayConfig {
    let count = map.as_ref().map_or(scenario.extents_bytes.len(), |map| map.members().len());
    let is_gone = |n: usize| map.as_ref().is_some_and(|map| map.is_gone(n as u16));
    let extents = scenario.extents_bytes.iter().take(count).enumerate().map(|(n, &size)| ExtentSpec {
        size_bytes: scenario.sizes_configured.then_some(size),
        is_local: scenario.is_local(n),
        is_gone: is_gone(n),
        ..ExtentSpec::new(format!("node{n}"))
    });
    let extents: Vec<ExtentSpec> = extents.collect();
    let copies = map.zip(scenario.copies.as_ref()).map(|(map, plan)| {
        let (evict_after, settle_after) = (plan.evict_after, plan.settle_after);
        let spec = CopiesSpec::new(map);
        let open_max = plan.open_max.unwrap_or(spec.open_max);
        let min_current = plan.min_current;
        Box::new(CopiesSpec { min_current, evict_after, settle_after, open_max, scrub, lease_until, ..spec })
    });
    let volume = VolumeSpec { extents, copies, ..scenario.volume.clone() };
    GatewayConfig {
        memory_bytes: scenario.gateway_memory_bytes,
        clients_max: 16,
        seed: scenario.seed,
        ..GatewayConfig::new([7 + number; 16], session, vec![volume])
    }
}

impl GatewayLoop {
    pub fn links_ready(&self, node: usize) -> usize {
        let Some(core) = &self.core else { return 0 };
        let status = core.status();
        let node = status.volumes[0].nodes.get(node);
        node.map_or(0, |node| node.links.iter().filter(|link| link.phase == LinkPhase::Ready).count())
    }

    /// The loop of the gateway that takes over from this one; it does not run yet.
    pub fn successor(&self) -> GatewayLoop {
        GatewayLoop { session: self.session, number: self.number + 1, ..GatewayLoop::default() }
    }

    /// Connections of clients.
    pub fn client_conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.clients.keys().chain(&self.accepting).copied()
    }

    /// Whether a connection is one of its links.
    pub fn has_link(&self, conn: ConnId) -> bool {
        self.links.iter().any(|(of_link, _)| *of_link == Some(conn)) || self.closed.contains(&conn)
    }

    pub fn has_native(&self, client: usize) -> bool {
        self.natives.contains_key(&client)
    }

    /// The nodes that have all their links up.
    pub fn linked(&self) -> Vec<bool> {
        let Some(core) = &self.core else { return Vec::new() };
        let status = core.status();
        let nodes = status.volumes[0].nodes.iter();
        nodes.map(|n| n.is_gone || n.links.iter().all(|l| l.phase == LinkPhase::Ready)).collect()
    }

    /// It has so many links now.
    pub fn links_added(&mut self, count: usize) {
        self.links.resize(count.max(self.links.len()), (None, 0));
    }
}

impl World {
    pub(super) fn start_gateway(&mut self) {
        if self.is_start_put_off() {
            return;
        }
        self.gateway.session += 1;
        let map = self.load_map();
        let scrub = self.scrub_spec();
        let lease_until = self.begin_lease();
        let numbers = (self.gateway.number, self.gateway.session);
        match Gateway::new(config(&self.scenario, numbers, map, scrub, lease_until)) {
            Ok(mut core) => {
                let one_in = self.scenario.sampled_one_in;
                core.set_sampling(Sampling { one_in, clock_start_ns: CLOCK_START_NS });
                self.samples_seen = 0;
                self.gateway.links = vec![(None, 0); core.links_count()];
                self.gateway.core = Some(core);
                self.note_enough(true);
                self.note_size();
                self.sign_mirrors();
                self.wake_gateway();
            }
            Err(error) => self.ctx.fail(format!("the gateway refuses its configuration: {error}")),
        }
    }

    /// Kills the gateway and plans its return.
    pub(super) fn restart_gateway(&mut self, down: Duration) {
        if self.gateway.core.take().is_none() {
            return;
        }
        self.ctx.trace(What::Phase("the gateway is killed"));
        for node in 0..self.nodes.len() {
            self.disturb(node, self.ctx.now + down);
        }
        let (session, number) = (self.gateway.session, self.gateway.number);
        let old = std::mem::replace(&mut self.gateway, GatewayLoop { session, number, ..GatewayLoop::default() });
        self.close_all(old);
        self.tear_map();
        self.ctx.after(down.as_nanos() as u64, Event::StartGateway);
    }

    /// A gateway's process has ended: its kernel closes its connections.
    pub(super) fn close_all(&mut self, old: GatewayLoop) {
        for conn in old.links.into_iter().filter_map(|(conn, _)| conn) {
            let late = self.ctx.rng.random_range(0..200);
            self.net.close(&mut self.ctx, conn, 0, Duration::from_millis(late));
        }
        for conn in old.clients.into_keys().chain(old.accepting) {
            self.net.close(&mut self.ctx, conn, 1, Duration::ZERO);
            self.client_gone(conn);
        }
        for client in old.natives.into_keys() {
            self.native_gone(client);
        }
        self.oracle.gateway_lost();
    }

    pub(super) fn wake_gateway(&mut self) {
        if self.gateway.core.is_some() && !std::mem::replace(&mut self.gateway.is_awake, true) {
            let delay = self.ctx.rng.random_range(0..WAKE_NS_MAX);
            let session = self.gateway.session;
            self.ctx.after(delay, Event::GatewayTurn { session });
        }
    }

    /// A client's connection reached the gateway's kernel.
    pub(super) fn gateway_accepts(&mut self, conn: ConnId) {
        self.gateway.accepting.push(conn);
        self.wake_gateway();
    }

    /// Something happened on a connection of the gateway.
    pub(super) fn gateway_conn_event(&mut self, conn: ConnId, is_closed: bool) {
        if is_closed {
            self.gateway.closed.push(conn);
        }
        self.wake_gateway();
    }

    /// An attempt at a link has ended: `conn` if it is connected.
    pub(super) fn connect_done(&mut self, link: usize, attempt: u32, session: u64, conn: Option<ConnId>) {
        let gateway = &mut self.gateway;
        let is_wanted = gateway.session == session
            && gateway.links.get(link).is_some_and(|&(conn, latest)| conn.is_none() && latest == attempt);
        let (true, Some(core)) = (is_wanted, &mut gateway.core) else {
            if let Some(conn) = conn {
                self.net.close(&mut self.ctx, conn, 0, Duration::ZERO);
            }
            return;
        };
        match conn {
            Some(conn) => {
                gateway.links[link].0 = Some(conn);
                core.link_connected(self.ctx.now, LinkId(link));
            }
            None => core.link_closed(self.ctx.now, LinkId(link), "refused"),
        }
        self.wake_gateway();
    }

    /// A native client of the gateway's process begins; false if the volume cannot be used.
    pub(super) fn native_opens(&mut self, client: usize) -> bool {
        let Some(core) = self.gateway.core.as_mut().filter(|core| core.layout(0).is_some()) else { return false };
        let Some(id) = core.native_opened(0) else { return false };
        self.gateway.natives.insert(client, id);
        true
    }

    pub(super) fn native_calls(&mut self, client: usize, call: NativeCall) {
        if self.has_former_native(client) && !self.gateway.is_former {
            return self.with_former(|world| world.native_calls(client, call));
        }
        self.gateway.calls.push((client, call));
        self.wake_gateway();
    }

    pub(super) fn native_closes(&mut self, client: usize) {
        if self.has_former_native(client) && !self.gateway.is_former {
            return self.with_former(|world| world.native_closes(client));
        }
        if let (Some(id), Some(core)) = (self.gateway.natives.remove(&client), &mut self.gateway.core) {
            core.client_closed(id);
        }
        self.gateway.calls.retain(|(c, _)| *c != client);
    }

    pub(super) fn gateway_turn(&mut self, session: u64) {
        let gateway = &mut self.gateway;
        if gateway.session != session {
            return;
        }
        if gateway.stalled_until > self.ctx.now {
            let until = gateway.stalled_until;
            return self.ctx.at(until, Event::GatewayTurn { session });
        }
        self.sign_again();
        let gateway = &mut self.gateway;
        let Some(mut core) = gateway.core.take() else { return };
        gateway.is_awake = false;
        let mut again = self.gateway_reads(&mut core);
        let now = self.ctx.now;
        if core.next_timeout().is_some_and(|at| at <= now) {
            core.handle_timeout(now);
        }
        core.turn(now, &mut Local { nodes: &mut self.nodes, rng: &mut self.ctx.rng });
        let completions: Vec<Completion> = std::mem::take(core.completions());
        again |= self.gateway_writes(&mut core);
        // Whoever was held back may be heard again, though nothing new arrives from it.
        let is_heard = |(&conn, &id): (&ConnId, &ClientId)| self.net.has_unread(conn, 1) && core.client_wants_bytes(id);
        again |= self.gateway.clients.iter().any(is_heard);
        self.gateway_acts(&mut core);
        if self.gateway.timer.is_none_or(|at| at <= now || core.next_timeout().is_some_and(|next| next < at)) {
            self.gateway.timer = core.next_timeout();
            if let Some(at) = self.gateway.timer {
                self.ctx.at(at.max(now), Event::GatewayTimer { session });
            }
        }
        self.gateway.core = Some(core);
        self.note_size();
        self.keep_scrub();
        self.note_decisions();
        self.note_map_wait();
        self.check_losses();
        for Completion { client, cookie, result } in completions {
            if let Some((&c, _)) = self.gateway.natives.iter().find(|(_, id)| **id == client) {
                self.native_answered(c, cookie, result);
            }
        }
        if again {
            self.wake_gateway();
        }
        self.catch_map_up();
    }

    /// Hands over what arrived. Returns whether there is more.
    fn gateway_reads(&mut self, core: &mut Gateway) -> bool {
        let (ctx, net, gateway) = (&mut self.ctx, &mut self.net, &mut self.gateway);
        let now = ctx.now;
        let mut again = false;
        for conn in gateway.accepting.drain(..) {
            match core.client_opened(now) {
                Some(id) => drop(gateway.clients.insert(conn, id)),
                None => net.close(ctx, conn, 1, Duration::ZERO),
            }
        }
        for (client, call) in gateway.calls.drain(..) {
            if let Some(&id) = gateway.natives.get(&client) {
                core.submit(now, id, call, &mut Local { nodes: &mut self.nodes, rng: &mut ctx.rng });
            }
        }
        for (&conn, &id) in &gateway.clients {
            let is_paused = core.is_client_paused(id);
            if is_paused || (net.has_unread(conn, 1) && core.client_wants_bytes(id)) {
                if let Some(rx) = core.client_rx(id).filter(|_| !is_paused) {
                    again |= net.read(ctx, conn, 1, rx);
                }
                core.process_client(now, id, &mut Local { nodes: &mut self.nodes, rng: &mut ctx.rng });
                again |= core.is_client_paused(id);
            }
        }
        for (link, &(conn, _)) in gateway.links.iter().enumerate() {
            if let Some(conn) = conn.filter(|&conn| net.has_unread(conn, 0)) {
                again |= net.read(ctx, conn, 0, core.link_rx(LinkId(link)));
                core.process_link(now, LinkId(link));
                if core.divides_turns(now) {
                    core.turn_in_part(now);
                }
            }
        }
        for conn in std::mem::take(&mut self.gateway.closed) {
            match self.net.conns[conn].kind {
                ConnKind::Link { link, .. } if self.gateway.links[link].0 == Some(conn) => {
                    self.gateway.links[link].0 = None;
                    self.ctx.trace(What::LinkEnded { link: link as u8 });
                    self.damage_shows(conn);
                    core.link_closed(now, LinkId(link), "closed");
                }
                ConnKind::Link { .. } => {}
                ConnKind::Client(_) => {
                    if let Some(id) = self.gateway.clients.remove(&conn) {
                        self.gateway.closing.retain(|&c| c != id);
                        core.client_closed(id);
                        self.client_gone(conn);
                    }
                }
            }
        }
        again
    }

    /// Writes what is queued. Returns whether a client that waited for room may continue.
    fn gateway_writes(&mut self, core: &mut Gateway) -> bool {
        let (ctx, net, gateway) = (&mut self.ctx, &mut self.net, &mut self.gateway);
        core.take_dirty(&mut gateway.dirty_clients, &mut gateway.dirty_links);
        let mut has_written = false;
        let mut ended = Vec::new();
        for (&conn, &id) in &gateway.clients {
            let Some(out) = core.client_out(id) else { continue };
            if !out.is_empty() {
                let n = net.write(ctx, conn, 1, out);
                core.client_wrote(id, n);
                has_written |= n > 0;
            }
            if gateway.closing.contains(&id) && core.client_out(id).is_none_or(|out| out.is_empty()) {
                ended.push((conn, id));
            }
        }
        for (link, &(conn, _)) in gateway.links.iter().enumerate() {
            let out = core.link_out(LinkId(link));
            if let Some(conn) = conn.filter(|_| !out.is_empty()) {
                let n = net.write(ctx, conn, 0, out);
                core.link_wrote(ctx.now, LinkId(link), n);
            }
        }
        let again = !ended.is_empty()
            || has_written
                && gateway.clients.values().chain(gateway.natives.values()).any(|&id| !core.client_wants_bytes(id));
        for (conn, id) in ended {
            self.net.close(&mut self.ctx, conn, 1, Duration::ZERO);
            self.gateway.clients.remove(&conn);
            self.gateway.closing.retain(|&c| c != id);
            core.client_closed(id);
            self.client_gone(conn);
        }
        again
    }

    fn gateway_acts(&mut self, core: &mut Gateway) {
        while let Some(action) = core.poll_action() {
            match action {
                // Every extent keeps its identity here; another one in its place is a test of the shell's.
                Action::Remember { .. } => {}
                Action::VerifyClaim { node, .. } => self.verify_claim(node),
                Action::Commit { number, bytes, is_whole, .. } => self.commit(number, bytes, is_whole),
                Action::Connect { link, node } => self.begin_connect(link.0, node),
                Action::Disconnect(link) => {
                    let (conn, _) = &mut self.gateway.links[link.0];
                    self.ctx.trace(What::LinkEnded { link: link.0 as u8 });
                    if let Some(conn) = conn.take() {
                        self.damage_shows(conn);
                        let late = if self.ctx.rng.random_ratio(1, 4) { self.ctx.rng.random_range(0..300) } else { 0 };
                        self.net.close(&mut self.ctx, conn, 0, Duration::from_millis(late));
                    }
                }
                // One that was about to choose an export when the gateway stood still comes back.
                Action::CloseClient(id, Some(reason)) if self.has_stalls() && reason.contains("in time") => {
                    self.gateway.closing.push(id);
                }
                Action::CloseClient(_, Some(reason)) => self.ctx.fail(format!("the gateway blames a client: {reason}")),
                Action::CloseClient(id, None) => self.gateway.closing.push(id),
                Action::SecureClient(_) => {
                    self.ctx.fail("a client is to begin TLS that was not asked for it".to_string())
                }
                Action::Tell(_) if self.gateway.is_former => {}
                // Until somebody says that the fresh extent takes the place of the old one, and that one for ever.
                Action::Tell(Told::NodeRefused(name, text))
                    if text.contains("another extent") && self.is_replaced(&name) => {}
                Action::Tell(Told::NodeRefused(..)) if self.old_map.is_in_use || self.stolen_key.is_in_use => {}
                Action::Tell(Told::NodeRefused(..)) if self.has_map_rotted() => {}
                Action::Tell(Told::NodeRefused(name, text)) => self.ctx.fail(format!("{name} was refused: {text}")),
                Action::Tell(Told::NodeWarning(name, text)) if text.contains("another device") => {
                    // A device that restarted must not be taken for two.
                    let has_copy = self.scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::Copy(..)));
                    if !has_copy {
                        self.ctx.fail(format!("{name} was said to be two devices"));
                    }
                }
                Action::Tell(_) => {}
            }
        }
    }

    /// A node says that it is there.
    pub(super) fn announce(&mut self, node: usize, is_elsewhere: bool) {
        let now = self.ctx.now;
        if let Some(core) = self.gateway.core.as_mut() {
            core.try_node(now, node, is_elsewhere);
            self.wake_gateway();
        }
    }

    fn begin_connect(&mut self, link: usize, node: usize) {
        let (ctx, gateway) = (&mut self.ctx, &mut self.gateway);
        ctx.totals.connects += 1;
        ctx.trace(What::LinkConnecting { link: link as u8, node: node as u8 });
        let (conn, attempt) = &mut gateway.links[link];
        *attempt += 1;
        debug_assert!(conn.is_none(), "a link has one connection at a time");
        let (attempt, session) = (*attempt, gateway.session);
        let round_trip_ns = 2 * self.scenario.node_link.latency_ns + ctx.rng.random_range(0..100_000);
        ctx.after(round_trip_ns, Event::Connect { link, node, attempt, session });
    }

    pub(super) fn connect_arrives(&mut self, link: usize, node: usize, attempt: u32, session: u64) {
        if self.is_cut_off(node) {
            return;
        }
        let node = self.who_answers(node);
        match self.nodes[node].answers_connect(self.ctx.now) {
            None => {}
            Some(false) => self.connect_done(link, attempt, session, None),
            Some(true) => {
                let conn = self.net.connect(ConnKind::Link { link, node }, &self.scenario.node_link);
                self.node_accepts(node, conn);
                self.connect_done(link, attempt, session, Some(conn));
            }
        }
    }
}
