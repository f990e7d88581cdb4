//! All clients: what they hold, which of them have bytes to write, and which are modest.

use std::collections::VecDeque;

use slab::Slab;

use super::arrivals::Arrival;
use super::fairness::{Demand, Modest, Peak};
use crate::buffers::RxBuf;
use crate::gateway::NativeCall;
use crate::nbd;
use crate::op::OpFlags;
use crate::units::Time;

/// Identifies a client. A later client in the same slot has another serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Its slot.
    pub index: usize,
    /// Distinguishes the clients of a slot.
    pub serial: u32,
}

impl ClientId {
    /// The client of the gateway's own requests, which is none.
    pub const GATEWAY: ClientId = ClientId { index: u32::MAX as usize, serial: 0 };
}

/// One client.
#[derive(Debug)]
pub struct Client {
    pub serial: u32,
    pub kind: ClientKind,
    /// The volume it uses, once it has chosen.
    pub volume: Option<usize>,
    /// What it may use; `None`: everything.
    pub rights: Option<Vec<Right>>,
    /// Requests not yet answered.
    pub in_hand: usize,
    /// Bytes of the budget that its requests and unwritten answers hold.
    pub held_bytes: u64,
    /// Its answers that are not completely written: where each ends, counted in [`Client::written_bytes`], and what it holds of the
    /// budget. Small neighbours share an entry.
    pub unwritten: VecDeque<(u64, u64)>,
    /// Bytes written to it since it connected.
    pub written_bytes: u64,
    /// The volume's losses of acknowledged changes that it has got an error for.
    pub losses_told: u64,
    /// Held back by a limit.
    pub blocked: bool,
    /// It has used up its part of the turn and has more to decode.
    pub paused: bool,
    /// That limit is the gateway's memory.
    pub is_short: bool,
    /// Whether that limit is the one of large writes that have not arrived.
    pub waits_to_arrive: bool,
    /// A large write that has arrived in part.
    pub arrival: Option<Arrival>,
    /// The user, as far as the shell knows: clients of one user share what users have of memory.
    pub user: u64,
    pub closing: bool,
    /// Until when it must have chosen a volume.
    pub handshake_until: Option<Time>,
    /// In the gateway's list of clients with something to write.
    pub is_dirty: bool,
    /// Its recent demand.
    pub demand: Demand,
    /// The most that it had in hand lately.
    pub peak: Peak,
}

/// What a client may do with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// Which volume.
    pub volume: usize,
    /// It may not change it.
    pub read_only: bool,
}

#[derive(Debug)]
pub enum ClientKind {
    Nbd(Box<NbdClient>),
    /// Calls that wait for memory.
    Native(VecDeque<NativeCall>),
}

#[derive(Debug)]
pub struct NbdClient {
    pub session: nbd::Session,
    pub rx: RxBuf,
}

/// Most bytes of the budget that one entry of [`Client::unwritten`] holds for several answers.
const UNWRITTEN_SHARED_BYTES: u64 = 64 * 1024;

impl Client {
    /// An answer that holds `reserved_bytes` was appended to the bytes to write.
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
        let is_arriving = self.arrival.is_some() || self.blocked || self.paused;
        self.in_hand == 0 && !waiting && !is_arriving
    }
}

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Slab<Client>,
    next_serial: u32,
    /// How many are paused.
    paused: usize,
    /// Those that got bytes to write since the last [`Clients::take_dirty`].
    dirty: Vec<ClientId>,
    /// The modest client, if there is one.
    pub modest: Modest,
}

impl Clients {
    /// Adds a client of a volume, or an NBD client that has to choose one until `handshake_until`.
    pub fn insert(
        &mut self,
        kind: ClientKind,
        volume: Option<usize>,
        losses_told: u64,
        handshake_until: Option<Time>,
    ) -> ClientId {
        self.next_serial = self.next_serial.wrapping_add(1);
        let serial = self.next_serial;
        let client = Client {
            serial,
            kind,
            volume,
            rights: None,
            in_hand: 0,
            held_bytes: 0,
            unwritten: VecDeque::new(),
            written_bytes: 0,
            losses_told,
            blocked: false,
            paused: false,
            is_short: false,
            waits_to_arrive: false,
            arrival: None,
            user: 0,
            closing: false,
            handshake_until,
            is_dirty: false,
            demand: Demand::default(),
            peak: Peak::default(),
        };
        ClientId { index: self.slots.insert(client), serial }
    }

    pub fn remove(&mut self, id: ClientId) -> Option<Client> {
        self.get(id)?;
        self.set_paused(id, false);
        Some(self.slots.remove(id.index))
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn get(&self, id: ClientId) -> Option<&Client> {
        self.slots.get(id.index).filter(|c| c.serial == id.serial)
    }

    #[inline]
    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.slots.get_mut(id.index).filter(|c| c.serial == id.serial)
    }

    /// A client, and the list of clients with bytes to write.
    #[inline]
    pub fn get_with_dirty(&mut self, id: ClientId) -> Option<(&mut Client, &mut Vec<ClientId>)> {
        let client = self.slots.get_mut(id.index).filter(|c| c.serial == id.serial)?;
        Some((client, &mut self.dirty))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.slots.iter().map(|(index, client)| (ClientId { index, serial: client.serial }, client))
    }

    /// Whether a limit holds a client back.
    pub fn has_blocked(&self) -> bool {
        self.slots.iter().any(|(_, client)| client.blocked)
    }

    pub fn has_paused(&self) -> bool {
        self.paused > 0
    }

    pub fn set_paused(&mut self, id: ClientId, paused: bool) {
        if let Some(client) = self.get_mut(id)
            && client.paused != paused
        {
            client.paused = paused;
            self.paused = if paused { self.paused + 1 } else { self.paused - 1 };
        }
    }

    /// The client has bytes to write.
    pub fn mark(&mut self, id: ClientId) {
        if let Some((client, dirty)) = self.get_with_dirty(id)
            && !client.is_dirty
        {
            client.is_dirty = true;
            dirty.push(id);
        }
    }

    /// The clients that were marked since the last call.
    pub fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            if let Some(client) = self.slots.get_mut(id.index) {
                client.is_dirty = false;
            }
        }
    }

    /// Records the demand of a client that has just sent `requests`.
    pub fn note_demand(&mut self, now: Time, id: ClientId, requests: u64) {
        let Some(client) = self.slots.get_mut(id.index).filter(|c| c.serial == id.serial && requests > 0) else {
            return;
        };
        let (requests, bytes) = (requests.max(client.in_hand as u64), client.held_bytes);
        client.demand.note(now, requests, bytes);
        client.peak.note(now, requests);
        self.modest.note(now, id, client.demand);
    }

    /// The flags of a read that a client has made, of so many parts; it is in hand already.
    #[inline]
    pub fn read_flags(&self, now: Time, id: ClientId, asked: OpFlags, parts: usize) -> OpFlags {
        let client = self.slots.get(id.index).filter(|client| client.serial == id.serial);
        let is_urgent = client.is_some_and(|client| {
            let requests = client.in_hand + parts.saturating_sub(1);
            self.modest.is_urgent(now, &client.demand, (requests as u64, client.held_bytes))
        });
        if is_urgent { asked.with(OpFlags::URGENT) } else { asked.without(OpFlags::URGENT) }
    }

    /// When the next client will have taken too long to choose an export.
    pub fn next_handshake_deadline(&self) -> Option<Time> {
        self.slots.iter().filter(|(_, c)| !c.closing).filter_map(|(_, c)| c.handshake_until).min()
    }
}
