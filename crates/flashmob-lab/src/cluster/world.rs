//! The simulated world and its event queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use flashmob_core::gateway::{CopiesStatus, LinkId};
use flashmob_core::units::Time;
use slab::Slab;

use super::gateway::SimGateway;
use super::node::SimNode;
use super::tcp::{Connection, Segment, Side};
use super::{Measured, Packets, Settings, SettingsError, Timed};
use crate::air::{Air, Attachment, Fate, Frame, Outcome, Port};
use crate::flash::FlashModel;
use crate::load::Master;

/// The gateway's port in every cell; nodes follow.
const GATEWAY_PORT: u32 = 0;
/// Time to establish a connection; it is not measured.
const CONNECT_TIME: Duration = Duration::from_millis(1);
/// Time to make decisions about copies durable. Chosen: a flush of a laptop's SSD.
const COMMIT_TIME: Duration = Duration::from_millis(2);
/// Shortest virtual time between two calls of `go_on`.
const STEP_MIN: Duration = Duration::from_micros(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Air(usize),
    Flash(usize),
    GatewayTurn,
    GatewayTimer,
    NodeTurn(usize),
    NodeTimer(usize),
    /// Data written on this connection at this side leaves the host.
    Send(usize, Side),
    Timer(usize, Side),
    Connected(usize),
    /// Its node is away.
    Unreachable(usize),
    /// The map has the gateway's decisions up to this number.
    Committed(u64),
}

#[derive(Debug)]
pub(super) struct World {
    now: Time,
    order: u64,
    queue: BinaryHeap<Reverse<(Time, u64, Event)>>,
    pub(super) airs: Vec<Air>,
    air_at: Vec<Option<Time>>,
    outcomes: Vec<Outcome>,
    pub(super) gateway: SimGateway,
    pub(super) nodes: Vec<SimNode>,
    /// By link id of the gateway.
    connections: Vec<Connection>,
    is_connected: Vec<bool>,
    /// Number of earlier connections of each link.
    attempts: Vec<u32>,
    timers: Vec<[Option<Time>; 2]>,
    /// A link's node, its index among the node's links, its cell, and its node's port there.
    routes: Vec<Route>,
    /// Segments on the air: link and its connection attempt.
    segments: Slab<(usize, u32, Segment)>,
    pub(super) packets: Packets,
    connect: Vec<LinkId>,
    /// The node that cannot be reached.
    away: Option<usize>,
    pub(super) loaded_nodes: usize,
    pub(super) events: u64,
    timed: Timed,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    node: usize,
    cell: usize,
    port: Port,
}

/// Sets `planned` to `next` if that is earlier, and returns it then: the caller must add an event.
fn sooner(planned: &mut Option<Time>, next: Option<Time>) -> Option<Time> {
    let next = next.filter(|next| planned.is_none_or(|at| *next < at))?;
    Some(*planned.insert(next))
}

impl World {
    pub(super) fn new(settings: &Settings) -> Result<World, SettingsError> {
        let gateway = SimGateway::new(settings)?;
        let cells = settings.cells as usize;
        let mut members = vec![0u32; cells];
        let mut places = Vec::new();
        for node in 0..settings.nodes as usize {
            let cell = node % cells;
            members[cell] += 1;
            places.push((cell, Port(members[cell])));
        }
        let mut airs = Vec::new();
        for (cell, &count) in members.iter().enumerate() {
            let mut ports = vec![Attachment::Wireless; count as usize + 1];
            ports[GATEWAY_PORT as usize] = settings.gateway;
            airs.push(Air::new(&settings.air, &ports, settings.seed.wrapping_add(cell as u64 * 7919)));
        }
        for (node, (cell, port)) in (0..).zip(&places) {
            if let Some(ppm) = settings.loss_ppm_of(node) {
                airs[*cell].set_loss(*port, ppm);
            }
            if let Some(delay) = settings.delay_of(node) {
                airs[*cell].set_delay(*port, delay);
            }
        }
        let links = gateway.core.links_count();
        let nodes: Result<Vec<SimNode>, SettingsError> =
            (0..settings.nodes).map(|n| SimNode::new(n, settings)).collect();
        let routes = (0..links).map(|link| {
            let node = gateway.core.node_of(LinkId(link));
            Route { node, cell: places[node].0, port: places[node].1 }
        });
        let mut world = World {
            now: Time::default(),
            order: 0,
            queue: BinaryHeap::new(),
            air_at: vec![None; airs.len()],
            airs,
            outcomes: Vec::new(),
            nodes: nodes?,
            connections: (0..links).map(|_| Connection::new(settings.acks)).collect(),
            is_connected: vec![false; links],
            attempts: vec![0; links],
            timers: vec![[None; 2]; links],
            routes: routes.collect(),
            segments: Slab::new(),
            packets: Packets::default(),
            connect: Vec::new(),
            away: settings.rebuild.map(|rebuild| rebuild.node as usize),
            loaded_nodes: settings.loaded_nodes as usize,
            events: 0,
            timed: Timed::default(),
            settings: settings.clone(),
            gateway,
        };
        world.gateway.is_awake = true;
        world.at(Time::default(), Event::GatewayTurn);
        Ok(world)
    }

    /// Runs for `time` and returns the measurement. After each `step`, `go_on` receives the finished fraction and returns whether to continue.
    /// `clock` times the gateway's turns.
    pub(super) fn measure(
        &mut self,
        time: Duration,
        step: Duration,
        go_on: &mut dyn FnMut(f64) -> bool,
        clock: &mut dyn FnMut() -> u64,
    ) -> (Measured, Timed) {
        self.begin_measurement();
        let (before, begin) = (self.snapshot(), self.now);
        let end = begin + time;
        while self.now < end {
            self.run_until((self.now + step.max(STEP_MIN)).min(end), clock);
            if !go_on((self.now - begin).as_secs_f64() / time.as_secs_f64()) {
                break;
            }
        }
        let after = self.snapshot();
        (self.measured(&before, &after, self.now - begin), self.timed)
    }

    /// The same for as long as `go_on` says, and for `at_most`.
    pub(super) fn measure_while(
        &mut self,
        at_most: Duration,
        step: Duration,
        go_on: &mut dyn FnMut(&World) -> bool,
    ) -> Measured {
        self.begin_measurement();
        let (before, begin) = (self.snapshot(), self.now);
        while self.now < begin + at_most && go_on(self) {
            self.run_until((self.now + step).min(begin + at_most), &mut || 0);
        }
        let after = self.snapshot();
        self.measured(&before, &after, self.now - begin)
    }

    fn begin_measurement(&mut self) {
        self.gateway.load.reset();
        self.gateway.busy_ns = 0;
        (self.packets, self.timed) = (Packets::default(), Timed::default());
    }

    /// Lets time go by.
    pub(super) fn pass(&mut self, time: Duration) {
        self.run_until(self.now + time, &mut || 0);
    }

    /// The node that was away can be reached.
    pub(super) fn end_absence(&mut self) {
        self.away = None;
    }

    /// The state of the volume's copies; only of a volume with copies.
    pub(super) fn copies(&self) -> CopiesStatus {
        self.gateway.core.copies_status(self.now, 0).expect("a volume with copies")
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    fn at(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((at.max(self.now), self.order, event)));
    }

    fn run_until(&mut self, end: Time, clock: &mut dyn FnMut() -> u64) {
        while let Some(&Reverse((at, _, event))) = self.queue.peek() {
            if at > end {
                break;
            }
            self.queue.pop();
            self.now = at;
            self.events += 1;
            self.dispatch(event, clock);
        }
        self.now = self.now.max(end);
    }

    fn dispatch(&mut self, event: Event, clock: &mut dyn FnMut() -> u64) {
        match event {
            Event::Air(cell) => {
                if self.air_at[cell].take_if(|at| *at == self.now).is_some() {
                    self.move_air(cell);
                }
            }
            Event::Flash(node) => {
                if self.nodes[node].flash_at.take_if(|at| *at == self.now).is_some() {
                    if self.nodes[node].poll_flash(self.now) {
                        self.wake_node(node);
                    }
                    self.plan_flash(node);
                }
            }
            Event::GatewayTurn => {
                let begun = clock();
                self.gateway_turn();
                self.timed.turns += 1;
                self.timed.turns_ns += clock().saturating_sub(begun);
            }
            Event::GatewayTimer => {
                if self.gateway.timer.take_if(|at| *at == self.now).is_some() {
                    self.wake_gateway();
                }
            }
            Event::NodeTurn(node) => self.node_turn(node),
            Event::NodeTimer(node) => {
                self.nodes[node].has_timer = false;
                self.wake_node(node);
            }
            Event::Send(link, side) => self.send(link, side),
            Event::Timer(link, side) => {
                if self.timers[link][side as usize].take_if(|at| *at == self.now).is_some() {
                    self.connections[link].handle_timeout(self.now, side);
                    self.send(link, side);
                }
            }
            Event::Committed(number) => {
                self.gateway.core.committed(self.now, 0, number, Ok(()));
                self.wake_gateway();
            }
            Event::Unreachable(link) => {
                self.gateway.core.link_closed(self.now, LinkId(link), "its node is away");
                self.wake_gateway();
            }
            Event::Connected(link) => {
                let node = self.routes[link].node;
                let id = self.nodes[node].core.link_opened();
                self.nodes[node].add_link(link, id);
                self.is_connected[link] = true;
                self.gateway.core.link_connected(self.now, LinkId(link));
                self.wake_gateway();
            }
        }
    }

    pub(super) fn wake_gateway(&mut self) {
        if !self.gateway.is_awake {
            self.gateway.is_awake = true;
            self.at(self.gateway.busy_until, Event::GatewayTurn);
        }
    }

    fn wake_node(&mut self, node: usize) {
        if !self.nodes[node].is_awake {
            self.nodes[node].is_awake = true;
            let at = self.nodes[node].busy_until.max(self.now);
            self.at(self.settings.awake_from(node as u32, at), Event::NodeTurn(node));
        }
    }

    fn gateway_turn(&mut self) {
        self.gateway.is_awake = false;
        let mut connect = std::mem::take(&mut self.connect);
        let busy_ns = self.gateway.turn(self.now, &mut self.connections, &mut connect);
        self.gateway.busy_ns += busy_ns;
        let end = self.now + Duration::from_nanos(busy_ns);
        self.gateway.busy_until = end;
        for at in 0..self.gateway.written().len() {
            let link = self.gateway.written()[at].0;
            self.at(end, Event::Send(link, Side::Gateway));
        }
        for link in std::mem::take(&mut self.gateway.cut) {
            self.disconnect(link.0);
        }
        for number in std::mem::take(&mut self.gateway.commits) {
            self.at(end + COMMIT_TIME, Event::Committed(number));
        }
        for link in connect.drain(..) {
            let is_away = self.away == Some(self.routes[link.0].node);
            let outcome = if is_away { Event::Unreachable(link.0) } else { Event::Connected(link.0) };
            self.at(self.now + CONNECT_TIME, outcome);
        }
        self.connect = connect;
        let modest = self.gateway.modest.as_ref().and_then(Master::next_begin);
        let next =
            self.gateway.core.next_timeout().into_iter().chain(self.gateway.load.next_begin()).chain(modest).min();
        if let Some(next) = next.filter(|&next| self.gateway.timer.is_none_or(|t| next < t)) {
            let next = next.max(end);
            self.gateway.timer = Some(next);
            self.at(next, Event::GatewayTimer);
        }
        if self.gateway.goes_on() {
            self.wake_gateway();
        }
    }

    /// The gateway has given a link up. The node learns of it at once: half-open connections belong to the fault simulator.
    fn disconnect(&mut self, link: usize) {
        self.connections[link] = Connection::new(self.settings.acks);
        self.gateway.forget_ready(link);
        self.attempts[link] += 1;
        self.timers[link] = [None; 2];
        if std::mem::take(&mut self.is_connected[link]) {
            let node = self.routes[link].node;
            self.nodes[node].remove_link(link);
            self.wake_node(node);
        }
    }

    fn node_turn(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.is_awake = false;
        node.poll_flash(self.now);
        let busy_ns = node.turn(self.now, &mut self.connections);
        let end = self.now + Duration::from_nanos(busy_ns);
        node.busy_until = end;
        for link in std::mem::take(&mut node.written) {
            self.at(end, Event::Send(link, Side::Node));
        }
        if !self.nodes[number].has_timer
            && let Some(next) = self.nodes[number].core.next_timeout()
        {
            self.nodes[number].has_timer = true;
            self.at(next, Event::NodeTimer(number));
        }
        self.plan_flash(number);
    }

    fn plan_flash(&mut self, node: usize) {
        let node_state = &mut self.nodes[node];
        if let Some(next) = sooner(&mut node_state.flash_at, node_state.flash.as_ref().and_then(FlashModel::next_event))
        {
            self.at(next, Event::Flash(node));
        }
    }

    /// Sends everything that TCP at this side allows.
    fn send(&mut self, link: usize, side: Side) {
        let route = self.routes[link];
        let mut sent = false;
        while let Some(segment) = self.connections[link].take_segment(self.now, side) {
            self.count(&segment);
            let len_bytes = segment.frame_bytes();
            let id = self.segments.insert((link, self.attempts[link], segment)) as u64;
            let (from, to) = match side {
                Side::Gateway => (Port(GATEWAY_PORT), route.port),
                Side::Node => (route.port, Port(GATEWAY_PORT)),
            };
            self.airs[route.cell].submit(self.now, Frame { id, from, to: Some(to), len_bytes });
            sent = true;
        }
        if sent {
            self.move_air(route.cell);
        }
        self.plan_timer(link, side);
    }

    fn plan_timer(&mut self, link: usize, side: Side) {
        let planned = &mut self.timers[link][side as usize];
        if let Some(next) = sooner(planned, self.connections[link].deadline(side)) {
            self.at(next, Event::Timer(link, side));
        }
    }

    fn count(&mut self, segment: &Segment) {
        let data = segment.data_bytes();
        let p = &mut self.packets;
        match segment.from {
            Side::Gateway => {
                p.sent += 1;
                p.data_sent += u64::from(data > 0);
                p.bytes_sent += data;
                p.retransmitted += u64::from(segment.is_repeated);
            }
            Side::Node => {
                p.received += 1;
                p.data_received += u64::from(data > 0);
                p.bytes_received += data;
            }
        }
    }

    /// Advances the air of a cell to now, and delivers what arrived.
    fn move_air(&mut self, cell: usize) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.airs[cell].advance(self.now, &mut outcomes);
        for outcome in outcomes.drain(..) {
            let Some((link, attempt, segment)) = self.segments.try_remove(outcome.id as usize) else { continue };
            // Segments of a closed connection are dropped.
            if outcome.fate == Fate::Delivered && attempt == self.attempts[link] {
                self.arrived(link, &segment);
            }
        }
        self.outcomes = outcomes;
        if let Some(next) = sooner(&mut self.air_at[cell], self.airs[cell].next_event()) {
            self.at(next, Event::Air(cell));
        }
    }

    fn arrived(&mut self, link: usize, segment: &Segment) {
        let side = segment.from.other();
        self.connections[link].arrived(self.now, segment);
        if self.connections[link].has_data(side) && self.is_connected[link] {
            match side {
                Side::Gateway => {
                    self.gateway.note_ready(link);
                    self.wake_gateway();
                }
                Side::Node => {
                    let node = self.routes[link].node;
                    self.nodes[node].note_ready(link);
                    self.wake_node(node);
                }
            }
        }
        // Sends data released by the acknowledgement, or an immediate acknowledgement.
        self.at(self.now, Event::Send(link, side));
    }

    #[cfg(test)]
    pub(super) fn links_broken(&self) -> u64 {
        self.attempts.iter().copied().map(u64::from).sum()
    }
}
