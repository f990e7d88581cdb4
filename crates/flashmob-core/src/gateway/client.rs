//! Clients: NBD connections and native callers, and the requests that they bring.

use std::collections::VecDeque;
use std::time::Duration;

use super::fairness::Demand;
use super::local::{LocalExtents, NoLocal};
use super::native::NativeCall;
use super::request::Incoming;
use super::volume::ExportTable;
use super::{Action, Gateway};
use crate::buffers::{OutQueue, RxBuf};
use crate::nbd;
use crate::op::Op;
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;

/// Names a client; a later client in the same place has another serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Its place.
    pub index: usize,
    /// Which client in that place.
    pub serial: u32,
}

/// Most requests in hand per client; more wait in its connection.
pub(super) const CLIENT_REQUESTS_MAX: usize = 4096;
/// How long an NBD client may take to choose an export; clients are limited, so that none may hold a place idly.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub serial: u32,
    pub kind: ClientKind,
    /// The volume it uses, once it has chosen.
    pub volume: Option<usize>,
    /// Requests not yet answered.
    pub in_hand: usize,
    /// What its requests and unwritten answers hold of the budget.
    pub held_bytes: u64,
    /// Its answers that are not wholly written: where in all bytes to it each ends, and what it holds of the budget.
    /// Small neighbours share an entry.
    pub unwritten: VecDeque<(u64, u64)>,
    /// Bytes written to it since it connected.
    pub written_bytes: u64,
    /// Losses of acknowledged changes that it was told of.
    pub losses_told: u64,
    /// Held back by a limit.
    pub blocked: bool,
    /// It had its part of the turn and has more that is decoded in the next.
    pub paused: bool,
    /// That limit is the memory of all.
    pub is_short: bool,
    pub closing: bool,
    /// Until when it must have chosen a volume.
    pub handshake_until: Option<Time>,
    /// In the gateway's list of clients with something to write.
    pub is_dirty: bool,
    /// The most that it asked for at once, lately.
    pub demand: Demand,
}

#[derive(Debug)]
pub(super) enum ClientKind {
    Nbd(Box<NbdClient>),
    /// Calls that wait for memory.
    Native(VecDeque<NativeCall>),
}

#[derive(Debug)]
pub(super) struct NbdClient {
    pub session: nbd::Session,
    pub rx: RxBuf,
}

/// Answers that hold up to this together share an entry of [`Client::unwritten`].
const UNWRITTEN_SHARED_BYTES: u64 = 64 * 1024;

impl Client {
    /// An answer that holds `reserved_bytes` stands at the end of what is to be written.
    pub fn answer_queued(&mut self, reserved_bytes: u64) {
        let ClientKind::Nbd(nbd) = &self.kind else { return };
        let end = self.written_bytes + nbd.session.out().len() as u64;
        match self.unwritten.back_mut() {
            Some((last, held)) if *held + reserved_bytes <= UNWRITTEN_SHARED_BYTES => {
                *last = end;
                *held += reserved_bytes;
            }
            _ => self.unwritten.push_back((end, reserved_bytes)),
        }
    }

    pub fn is_native(&self) -> bool {
        matches!(self.kind, ClientKind::Native(_))
    }

    pub fn is_idle(&self) -> bool {
        let waiting = match &self.kind {
            ClientKind::Nbd(nbd) => !nbd.session.out().is_empty(),
            ClientKind::Native(calls) => !calls.is_empty(),
        };
        self.in_hand == 0 && !waiting
    }
}

impl Gateway {
    /// An NBD client connected; `None` if there are as many as allowed.
    pub fn client_opened(&mut self, now: Time) -> Option<ClientId> {
        if self.clients.iter().filter(|(_, c)| !c.is_native()).count() >= self.config.clients_max {
            return None;
        }
        let nbd = NbdClient { session: nbd::Session::new(), rx: RxBuf::new() };
        let id = self.insert_client(ClientKind::Nbd(Box::new(nbd)), None, Some(now + HANDSHAKE_TIMEOUT))?;
        self.mark_client(id);
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
        self.client_serial = self.client_serial.wrapping_add(1);
        let serial = self.client_serial;
        let losses_told = volume.map_or(0, |v| self.volumes[v].losses_told);
        let client = Client {
            serial,
            kind,
            volume,
            in_hand: 0,
            held_bytes: 0,
            unwritten: VecDeque::new(),
            written_bytes: 0,
            losses_told,
            blocked: false,
            paused: false,
            is_short: false,
            closing: false,
            handshake_until,
            is_dirty: false,
            demand: Demand::default(),
        };
        Some(ClientId { index: self.clients.insert(client), serial })
    }

    pub(super) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(id.index).filter(|c| c.serial == id.serial)
    }

    pub(super) fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.index).filter(|c| c.serial == id.serial)
    }

    fn mark_client(&mut self, id: ClientId) {
        if let Some(client) = self.client_mut(id)
            && !client.is_dirty
        {
            client.is_dirty = true;
            self.dirty_clients.push(id);
        }
    }

    /// The client's connection has ended. What it asked for and was not begun is dropped.
    pub fn client_closed(&mut self, id: ClientId) {
        if self.client(id).is_none() {
            return;
        }
        self.set_paused(id, false);
        let mut client = self.clients.remove(id.index);
        planted::leak(Bug::ClientLeaks, 1 << 20);
        if let ClientKind::Nbd(nbd) = &mut client.kind {
            nbd.session.abandon(&mut self.budget);
        }
        self.budget.release(client.unwritten.iter().map(|(_, reserved)| reserved).sum());
        self.drop_requests_of(id);
    }

    /// Where bytes received from an NBD client go. Follow it with [`Gateway::process_client`].
    pub fn client_rx(&mut self, id: ClientId) -> Option<&mut RxBuf> {
        match &mut self.client_mut(id)?.kind {
            ClientKind::Nbd(nbd) => Some(&mut nbd.rx),
            ClientKind::Native(_) => None,
        }
    }

    /// Whether the gateway takes more bytes from this client now. While it does not, leave them in the socket.
    #[must_use]
    pub fn client_wants_bytes(&self, id: ClientId) -> bool {
        self.client(id).is_some_and(|c| !c.blocked && !c.paused && !c.closing)
    }

    /// Whether this client has more to decode that nothing holds up: call [`Gateway::process_client`] next turn.
    #[must_use]
    pub fn is_client_paused(&self, id: ClientId) -> bool {
        self.client(id).is_some_and(|c| c.paused)
    }

    fn set_paused(&mut self, id: ClientId, paused: bool) {
        if let Some(client) = self.client_mut(id)
            && client.paused != paused
        {
            client.paused = paused;
            self.paused_clients = if paused { self.paused_clients + 1 } else { self.paused_clients - 1 };
        }
    }

    /// What an NBD client's socket is to take.
    pub fn client_out(&mut self, id: ClientId) -> Option<&mut OutQueue> {
        match &mut self.client_mut(id)?.kind {
            ClientKind::Nbd(nbd) => Some(nbd.session.out_mut()),
            ClientKind::Native(_) => None,
        }
    }

    /// The socket took `n` bytes of [`Gateway::client_out`].
    pub fn client_wrote(&mut self, id: ClientId, n: usize) {
        let Some(client) = self.clients.get_mut(id.index).filter(|c| c.serial == id.serial) else { return };
        let ClientKind::Nbd(nbd) = &mut client.kind else { return };
        nbd.session.out_mut().advance_with(n, |buffer| self.buffers.give(buffer));
        client.written_bytes += n as u64;
        // A large answer is one buffer, which is freed when its last byte is written and not before.
        let mut freed_bytes = 0;
        while let Some(&(end, reserved)) = client.unwritten.front()
            && end <= client.written_bytes
        {
            client.unwritten.pop_front();
            freed_bytes += reserved;
        }
        client.held_bytes -= freed_bytes;
        let is_blocked = client.blocked;
        self.budget.release(freed_bytes);
        self.retry_blocked |= is_blocked;
    }

    /// Decodes what was received from an NBD client, as far as limits allow and for at most its part of a turn; answers
    /// what `local` can answer at once, and queues the other requests.
    pub fn process_client(&mut self, now: Time, id: ClientId, local: &mut impl LocalExtents) {
        let (is_turn_of_another, share_bytes) = (self.is_turn_of_another(id), self.share_bytes());
        let part = self.part_of_turn(now, id);
        let (mut requests, mut bytes, mut at_once) = (0, 0, 0);
        self.set_paused(id, false);
        while let Some(event) = self.next_event(id, is_turn_of_another, share_bytes) {
            match event {
                Ok(nbd::Event::Request { request, reserved_bytes }) => {
                    requests += 1;
                    bytes += reserved_bytes;
                    let is_sampled = self.samples.is_due();
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
                        self.set_paused(id, true);
                        break;
                    }
                }
                Ok(nbd::Event::Opened { export }) => {
                    let losses_told = self.volumes[export].losses_told;
                    if let Some(client) = self.client_mut(id) {
                        client.volume = Some(export);
                        client.handshake_until = None;
                        client.losses_told = losses_told;
                    }
                }
                Ok(nbd::Event::Closed) => self.close_client(id, None),
                Ok(nbd::Event::Blocked | nbd::Event::NeedMore) => {}
                Err(error) => {
                    self.counters.client_errors += 1;
                    self.close_client(id, Some(error.to_string()));
                }
            }
        }
        self.note_demand(now, id, requests);
        if at_once > 0 {
            self.counters.requests[Op::Read as usize] += at_once;
            self.counters.read_at_once += at_once;
            self.stages.record_n(GatewayInterval::Queued, 0, at_once);
            self.stages.record_n(GatewayInterval::Total, 0, at_once);
        }
        // Refusals and the handshake are answered by the session itself.
        if self.client(id).is_some_and(|c| matches!(&c.kind, ClientKind::Nbd(n) if !n.session.out().is_empty())) {
            self.mark_client(id);
        }
    }

    /// The next event of a session; `None` when nothing more can be done now.
    fn next_event(
        &mut self,
        id: ClientId,
        is_turn_of_another: bool,
        share_bytes: u64,
    ) -> Option<Result<nbd::Event, nbd::SessionError>> {
        let client = self.clients.get_mut(id.index).filter(|c| c.serial == id.serial)?;
        (client.blocked, client.is_short) = (self.draining, false);
        if client.closing || client.blocked {
            return None;
        }
        let ClientKind::Nbd(nbd) = &mut client.kind else { return None };
        // One that is held back begins nothing new, but what it has begun to send must come in: it holds memory.
        let is_held_back =
            is_turn_of_another || client.in_hand >= CLIENT_REQUESTS_MAX || client.held_bytes > share_bytes;
        self.budget.set_closed(is_held_back);
        let event = nbd.session.next(&mut nbd.rx, &ExportTable(&self.volumes), &mut self.budget);
        self.budget.set_closed(false);
        match event {
            Ok(nbd::Event::NeedMore) => None,
            Ok(nbd::Event::Blocked) => {
                client.blocked = true;
                client.is_short = !is_held_back;
                None
            }
            other => Some(other),
        }
    }

    fn accept_request(
        &mut self,
        now: Time,
        id: ClientId,
        request: crate::request::Request,
        reserved_bytes: u64,
        is_sampled: bool,
    ) {
        let Some(client) = self.client_mut(id) else { return };
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
        if let Some(client) = self.client_mut(id)
            && !client.closing
        {
            client.closing = true;
            // A clean end waits for what is in hand; `with_client` sees to it.
            if client.in_hand == 0 || reason.is_some() {
                self.actions.push_back(Action::CloseClient(id, reason));
            }
        }
    }

    /// Drops clients that took too long to choose an export.
    pub(super) fn drop_late_handshakes(&mut self, now: Time) {
        let is_late = |c: &Client| c.handshake_until.is_some_and(|until| now >= until) && !c.closing;
        let late: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, c)| is_late(c))
            .map(|(index, c)| ClientId { index, serial: c.serial })
            .collect();
        for id in late {
            self.counters.client_errors += 1;
            self.close_client(id, Some("it did not choose an export in time".to_string()));
        }
    }

    /// When the next client will have taken too long.
    pub(super) fn next_handshake_deadline(&self) -> Option<Time> {
        self.clients.iter().filter(|(_, c)| !c.closing).filter_map(|(_, c)| c.handshake_until).min()
    }
}
