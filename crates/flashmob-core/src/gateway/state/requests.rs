//! Requests in hand.

use slab::Slab;

use super::clients::ClientId;
use crate::op::{Failure, Op};
use crate::units::Time;

/// Names a request in hand; a later request in the same place has another serial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub index: u32,
    pub serial: u32,
}

/// A request in hand.
#[derive(Debug)]
pub struct InHand {
    pub serial: u32,
    pub client: ClientId,
    pub cookie: u64,
    pub op: Op,
    pub volume: u32,
    /// First byte of the volume.
    pub offset_bytes: u64,
    /// Pieces not yet answered.
    pub pieces_left: u32,
    /// The first failure of a piece.
    pub failure: Option<Failure>,
    /// A write's bytes; or where the pieces of a read are put together, if there are several.
    pub buffer: Vec<u8>,
    /// What it holds of the budget.
    pub reserved_bytes: u64,
    pub received: Time,
    /// Under which number it is followed; 0: it is not.
    pub sample: u8,
}

impl InHand {
    /// So many of its pieces have ended, in whatever way. True if those were the last.
    #[inline]
    pub fn pieces_ended(&mut self, count: u32) -> bool {
        self.pieces_left -= count;
        self.pieces_left == 0
    }
}

/// All requests in hand.
#[derive(Debug, Default)]
pub struct Requests {
    slots: Slab<InHand>,
    next_serial: u32,
}

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn insert(&mut self, mut request: InHand) -> RequestKey {
        self.next_serial = self.next_serial.wrapping_add(1);
        request.serial = self.next_serial;
        RequestKey { index: self.slots.insert(request) as u32, serial: self.next_serial }
    }

    pub fn get(&self, key: RequestKey) -> Option<&InHand> {
        self.slots.get(key.index as usize).filter(|r| r.serial == key.serial)
    }

    pub fn get_mut(&mut self, key: RequestKey) -> Option<&mut InHand> {
        self.slots.get_mut(key.index as usize).filter(|r| r.serial == key.serial)
    }

    pub fn remove(&mut self, key: RequestKey) -> Option<InHand> {
        self.get(key)?;
        self.slots.try_remove(key.index as usize)
    }

    pub fn keys_where(&self, wanted: impl Fn(&InHand) -> bool) -> Vec<RequestKey> {
        self.slots
            .iter()
            .filter(|(_, r)| wanted(r))
            .map(|(index, r)| RequestKey { index: index as u32, serial: r.serial })
            .collect()
    }
}
