//! Clients: NBD connections and native callers, and their requests.

use std::time::Duration;

use super::local::{LocalExtents, NoLocal};
use super::request::Incoming;
use super::state::arrivals::Arrival;
use super::state::volume::ExportTable;
use super::state::{Client, ClientId, ClientKind, NbdClient, Right};
use super::{Action, Gateway};
use crate::buffers::{OutQueue, RxBuf};
use crate::nbd;
use crate::op::Op;
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;

/// Most requests in hand per client; further ones wait in its connection.
pub(super) const CLIENT_REQUESTS_MAX: usize = 4096;
/// How long an NBD client may take to choose an export; the number of clients is limited, so none may stay idle.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

impl Gateway {
    /// An NBD client connected; `None` if the limit is reached or the gateway is draining.
    pub fn client_opened(&mut self, now: Time) -> Option<ClientId> {
        self.open_client(now, nbd::Session::default())
    }

    /// In the same way a client that has to begin TLS, which [`Action::SecureClient`] asks for.
    pub fn client_opened_for_tls(&mut self, now: Time) -> Option<ClientId> {
        self.open_client(now, nbd::Session::demanding_tls())
    }

    /// The client has begun TLS, and has proven to be one with these rights.
    pub fn client_secured(&mut self, id: ClientId, rights: Vec<Right>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.rights = Some(rights);
        if let ClientKind::Nbd(nbd) = &mut client.kind {
            nbd.session.secured();
        }
    }

    /// The names of the volumes, in their order.
    pub fn volume_names(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().map(|volume| &volume.spec.name[..])
    }

    fn open_client(&mut self, now: Time, session: nbd::Session) -> Option<ClientId> {
        if self.clients.iter().filter(|(_, c)| !c.is_native()).count() >= self.config.clients_max {
            return None;
        }
        let nbd = NbdClient { session, rx: RxBuf::new() };
        let id = self.insert_client(ClientKind::Nbd(Box::new(nbd)), None, Some(now + HANDSHAKE_TIMEOUT))?;
        self.clients.mark(id);
        Some(id)
    }

    pub(super) fn insert_client(
        &mut self,
        kind: ClientKind,
        volume: Option<usize>,
        handshake_until: Option<Time>,
    ) -> Option<ClientId> {
        if self.draining {
            return None;
        }
        let losses_told = volume.map_or(0, |v| self.volumes[v].losses_told);
        self.memory.arrivals.came(0);
        Some(self.clients.insert(kind, volume, losses_told, handshake_until))
    }

    /// The shell knows who a client is: clients of one user share what users have of memory.
    pub fn client_is_of(&mut self, id: ClientId, user: u64) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let before = std::mem::replace(&mut client.user, user);
        let arrivals = &mut self.memory.arrivals;
        if let Some(arrival) = client.arrival {
            arrivals.end(before, arrival.reserved_bytes);
            arrivals.begin(user, arrival.reserved_bytes);
        }
        arrivals.left(before);
        arrivals.came(user);
    }

    /// Whether a client has no request in hand, and nothing to be told.
    #[must_use]
    pub fn is_client_idle(&self, id: ClientId) -> bool {
        self.clients.get(id).is_none_or(Client::is_idle)
    }

    /// Whether the client has not chosen an export yet. The shell may drop it for a newcomer.
    #[must_use]
    pub fn is_client_choosing(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| c.handshake_until.is_some())
    }

    /// The client's connection has ended. Its requests are dropped; pieces that were sent are still executed.
    pub fn client_closed(&mut self, id: ClientId) {
        let Some(mut client) = self.clients.remove(id) else { return };
        planted::leak(Bug::ClientLeaks, 1 << 20);
        if let ClientKind::Nbd(nbd) = &mut client.kind {
            nbd.session.abandon(&mut self.memory.budget);
        }
        if let Some(arrival) = client.arrival {
            self.memory.arrivals.end(client.user, arrival.reserved_bytes);
            self.memory.retry_blocked = true;
        }
        self.memory.arrivals.left(client.user);
        self.memory.budget.release(client.unwritten.iter().map(|(_, reserved)| reserved).sum());
        self.drop_requests_of(id);
    }

    /// The receive buffer of an NBD client. Follow it with [`Gateway::process_client`].
    pub fn client_rx(&mut self, id: ClientId) -> Option<&mut RxBuf> {
        match &mut self.clients.get_mut(id)?.kind {
            ClientKind::Nbd(nbd) => Some(&mut nbd.rx),
            ClientKind::Native(_) => None,
        }
    }

    /// Whether the gateway accepts more bytes from this client now. While it does not, leave them in the socket.
    #[must_use]
    pub fn client_wants_bytes(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| !c.blocked && !c.paused && !c.closing)
    }

    /// Whether this client has used up its part of the turn and has more to decode: call [`Gateway::process_client`] next turn.
    #[must_use]
    pub fn is_client_paused(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| c.paused)
    }

    /// Whether the loop divides its turns: a client with few requests outstanding (*modest*) is beside one with many. Between the links
    /// that have bytes, modest clients are then read, processed and written to, with a call of [`Gateway::turn_in_part`] each time. [`Gateway::handle_timeout`] is called when all links have been read, as always.
    #[must_use]
    pub fn divides_turns(&self, now: Time) -> bool {
        self.clients.modest.divides_turns(now)
    }

    /// Whether this client is modest.
    #[must_use]
    pub fn is_client_modest(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|c| c.demand.is_modest())
    }

    /// The bytes to write to an NBD client's socket.
    pub fn client_out(&mut self, id: ClientId) -> Option<&mut OutQueue> {
        match &mut self.clients.get_mut(id)?.kind {
            ClientKind::Nbd(nbd) => Some(nbd.session.out_mut()),
            ClientKind::Native(_) => None,
        }
    }

    /// The socket took `n` bytes of [`Gateway::client_out`].
    pub fn client_wrote(&mut self, id: ClientId, n: usize) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let ClientKind::Nbd(nbd) = &mut client.kind else { return };
        nbd.session.out_mut().advance_with(n, |buffer| self.memory.buffers.give(buffer));
        client.written_bytes += n as u64;
        // A large answer is one buffer, which is freed when its last byte is written.
        let mut freed_bytes = 0;
        while let Some(&(end, reserved)) = client.unwritten.front()
            && end <= client.written_bytes
        {
            client.unwritten.pop_front();
            freed_bytes += reserved;
        }
        client.held_bytes -= freed_bytes;
        let is_blocked = client.blocked;
        self.memory.budget.release(freed_bytes);
        self.memory.retry_blocked |= is_blocked;
    }

    /// Resumes clients that a limit held back.
    pub(super) fn resume_clients(&mut self, now: Time, local: &mut impl LocalExtents) {
        if !self.clients.has_blocked() {
            return;
        }
        for id in self.memory.line_up(now, &self.clients) {
            if self.clients.get(id).is_some_and(Client::is_native) {
                self.start_native(now, id, local);
            } else {
                self.process_client(now, id, local);
            }
        }
        if !self.draining && self.clients.has_blocked() {
            self.shed_unanswered(now);
        }
    }

    /// Decodes bytes received from an NBD client, within the limits and its part of the turn; answers reads that `local` has at once, and
    /// queues the other requests.
    pub fn process_client(&mut self, now: Time, id: ClientId, local: &mut impl LocalExtents) {
        self.advance_live(now);
        let (is_turn_of_another, share_bytes) =
            (self.memory.is_turn_of_another(id, &self.clients), self.memory.share_bytes(self.clients.len()));
        let part = self.clients.modest.part_of_turn(now, id);
        let (mut requests, mut bytes, mut at_once) = (0, 0, 0);
        self.clients.set_paused(id, false);
        while let Some(event) = self.next_event(now, id, is_turn_of_another, share_bytes) {
            match event {
                Ok(nbd::Event::Request { request, reserved_bytes }) => {
                    requests += 1;
                    bytes += reserved_bytes;
                    let is_sampled = self.metrics.samples.is_due();
                    let started = if is_sampled { local.now() } else { None };
                    if request.op == Op::Read && self.read_at_once(id, &request, reserved_bytes, local) {
                        at_once += 1;
                        if is_sampled {
                            self.sample_at_once(now, id, &request, started, local);
                        }
                    } else {
                        self.accept_request(now, id, request, reserved_bytes, is_sampled);
                    }
                    if requests >= part.requests || bytes >= part.bytes {
                        self.clients.set_paused(id, true);
                        break;
                    }
                }
                Ok(nbd::Event::Opened { export }) => {
                    let losses_told = self.volumes[export].losses_told;
                    if let Some(client) = self.clients.get_mut(id) {
                        client.volume = Some(export);
                        client.handshake_until = None;
                        client.losses_told = losses_told;
                    }
                }
                Ok(nbd::Event::StartTls) => self.actions.push_back(Action::SecureClient(id)),
                Ok(nbd::Event::Closed) => self.close_client(id, None),
                Ok(nbd::Event::Blocked | nbd::Event::WaitsToArrive | nbd::Event::NeedMore) => {}
                Err(error) => {
                    self.metrics.counters.client_errors += 1;
                    self.close_client(id, Some(error.to_string()));
                }
            }
        }
        self.clients.note_demand(now, id, requests);
        if at_once > 0 {
            self.metrics.requests[Op::Read as usize] += at_once;
            self.metrics.counters.read_at_once += at_once;
            self.metrics.stages.record_n(GatewayInterval::Queued, 0, at_once);
            self.metrics.stages.record_n(GatewayInterval::Total, 0, at_once);
        }
        // Refusals and the handshake are answered by the session itself.
        if self.clients.get(id).is_some_and(|c| matches!(&c.kind, ClientKind::Nbd(n) if !n.session.out().is_empty())) {
            self.clients.mark(id);
        }
    }

    /// The next event of a session; `None` if there is none now.
    fn next_event(
        &mut self,
        now: Time,
        id: ClientId,
        is_turn_of_another: bool,
        share_bytes: u64,
    ) -> Option<Result<nbd::Event, nbd::SessionError>> {
        let client = self.clients.get_mut(id)?;
        (client.blocked, client.is_short, client.waits_to_arrive) = (self.draining, false, false);
        if client.closing || client.blocked {
            return None;
        }
        let ClientKind::Nbd(nbd) = &mut client.kind else { return None };
        // One that is held back begins nothing new, but a write that has begun to arrive must come in: it holds memory.
        let is_held_back =
            is_turn_of_another || client.in_hand >= CLIENT_REQUESTS_MAX || client.held_bytes > share_bytes;
        let budget = &mut self.memory.budget;
        budget.set_arriving_room(self.memory.arrivals.room_bytes(client.user, budget.limit_bytes()));
        self.memory.budget.set_closed(is_held_back);
        let exports = ExportTable { volumes: &self.volumes, rights: &client.rights };
        let event = nbd.session.next(&mut nbd.rx, &exports, &mut self.memory.budget);
        self.memory.budget.set_closed(false);
        let arriving = nbd.session.arriving_bytes().filter(|(reserved, _)| self.memory.budget.is_large(*reserved));
        match (&mut client.arrival, arriving) {
            (None, None) => {}
            (Some(arrival), Some((_, come))) if !matches!(event, Ok(nbd::Event::Request { .. })) => {
                arrival.note(now, come)
            }
            (before, arriving) => {
                if let Some(arrival) = before.take() {
                    self.memory.arrivals.end(client.user, arrival.reserved_bytes);
                    self.memory.retry_blocked = true;
                }
                if let Some(arriving) = arriving {
                    self.memory.arrivals.begin(client.user, arriving.0);
                    *before = Some(Arrival::new(now, arriving));
                }
            }
        }
        match event {
            Ok(nbd::Event::NeedMore) => None,
            Ok(nbd::Event::Blocked) => {
                client.blocked = true;
                client.is_short = !is_held_back;
                None
            }
            Ok(nbd::Event::WaitsToArrive) => {
                (client.blocked, client.waits_to_arrive) = (true, true);
                None
            }
            other => Some(other),
        }
    }

    /// Takes a request in hand. Not inlined, so that [`Gateway::process_client`] keeps the state of its loop in registers.
    #[inline(never)]
    fn accept_request(
        &mut self,
        now: Time,
        id: ClientId,
        request: crate::request::Request,
        reserved_bytes: u64,
        is_sampled: bool,
    ) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.in_hand += 1;
        client.held_bytes += reserved_bytes;
        let volume = client.volume.unwrap_or_default();
        let span = [(request.offset_bytes, request.len_bytes)];
        let spans = if request.op == Op::Flush { &[][..] } else { &span[..] };
        let incoming = Incoming {
            client: id,
            cookie: request.cookie,
            volume,
            op: request.op,
            flags: request.flags,
            spans,
            payload: request.payload,
            reserved_bytes,
            received: now,
            is_sampled,
        };
        self.start_request(now, incoming, &mut NoLocal);
    }

    fn close_client(&mut self, id: ClientId, reason: Option<String>) {
        if let Some(client) = self.clients.get_mut(id)
            && !client.closing
        {
            client.closing = true;
            // A clean end waits for the requests in hand; `with_client` completes it.
            if client.in_hand == 0 || reason.is_some() {
                self.actions.push_back(Action::CloseClient(id, reason));
            }
        }
    }

    /// Drops clients with a large write that does not come on, while others wait for the memory that it holds.
    pub(super) fn drop_late_arrivals(&mut self, now: Time) {
        let are_noticed = self.memory.arrivals.are_noticed(self.memory.budget.limit_bytes());
        if !self.clients.iter().any(|(_, c)| c.waits_to_arrive || c.blocked && c.is_short && are_noticed) {
            return;
        }
        let running = self.running_since;
        let late = |(id, c): (ClientId, &Client)| {
            let arrival = c.arrival.filter(|arrival| !c.closing && arrival.is_late(now, running))?;
            Some((arrival.come, id))
        };
        // One at a time: it may be enough.
        if let Some((_, id)) = self.clients.iter().filter_map(late).min_by_key(|(come, _)| *come) {
            self.metrics.counters.client_errors += 1;
            let text = "the data of its write did not arrive, and others need the memory that was kept for it";
            self.close_client(id, Some(text.to_string()));
        }
    }

    /// Drops clients that took too long to choose an export.
    pub(super) fn drop_late_handshakes(&mut self, now: Time) {
        let is_late = |c: &Client| c.handshake_until.is_some_and(|until| now >= until) && !c.closing;
        let late: Vec<ClientId> = self.clients.iter().filter(|(_, c)| is_late(c)).map(|(id, _)| id).collect();
        for id in late {
            self.metrics.counters.client_errors += 1;
            self.close_client(id, Some("it did not choose an export in time".to_string()));
        }
    }
}
