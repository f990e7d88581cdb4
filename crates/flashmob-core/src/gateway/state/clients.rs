//! All clients: who they are, what they hold, which of them have bytes to write, and who asks for little.

use std::collections::VecDeque;

use slab::Slab;

use super::fairness::{Demand, Modest};
use crate::buffers::RxBuf;
use crate::gateway::NativeCall;
use crate::nbd;
use crate::units::Time;

/// Names a client; a later client in the same place has another serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Its place.
    pub index: usize,
    /// Which client in that place.
    pub serial: u32,
}

/// One client.
#[derive(Debug)]
pub struct Client {
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

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    slots: Slab<Client>,
    next_serial: u32,
    /// How many have more to decode that nothing holds up.
    paused: usize,
    /// Those that have bytes to write since they were last asked for.
    dirty: Vec<ClientId>,
    /// Who asks for little beside others.
    pub modest: Modest,
}

impl Clients {
    /// A client of a volume, or an NBD client that has to choose one until then.
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

    /// A client, and the list that it goes on when something is to be written to it.
    #[inline]
    pub fn get_with_dirty(&mut self, id: ClientId) -> Option<(&mut Client, &mut Vec<ClientId>)> {
        let client = self.slots.get_mut(id.index).filter(|c| c.serial == id.serial)?;
        Some((client, &mut self.dirty))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.slots.iter().map(|(index, client)| (ClientId { index, serial: client.serial }, client))
    }

    /// Whether a limit holds one of them back.
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

    /// Something is to be written to it.
    pub fn mark(&mut self, id: ClientId) {
        if let Some((client, dirty)) = self.get_with_dirty(id)
            && !client.is_dirty
        {
            client.is_dirty = true;
            dirty.push(id);
        }
    }

    /// Those that were marked since this was last asked.
    pub fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for id in into.iter() {
            if let Some(client) = self.slots.get_mut(id.index) {
                client.is_dirty = false;
            }
        }
    }

    /// A client has just brought `requests`: takes note of how much it asks for.
    pub fn note_demand(&mut self, now: Time, id: ClientId, requests: u64) {
        let Some(client) = self.slots.get_mut(id.index).filter(|c| c.serial == id.serial && requests > 0) else {
            return;
        };
        let (requests, bytes) = (requests.max(client.in_hand as u64), client.held_bytes);
        client.demand.note(now, requests, bytes);
        self.modest.note(now, id, client.demand);
    }

    /// When the next of them will have taken too long to choose an export.
    pub fn next_handshake_deadline(&self) -> Option<Time> {
        self.slots.iter().filter(|(_, c)| !c.closing).filter_map(|(_, c)| c.handshake_until).min()
    }
}
