//! Requests in hand.

use slab::Slab;

use super::clients::ClientId;
use crate::op::{Failure, Op, OpFlags};
use crate::units::Time;

/// Identifies a request in hand. A later request in the same slot has another serial.
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
    pub flags: OpFlags,
    pub volume: u32,
    /// What a map covers; unused otherwise.
    pub len_bytes: u32,
    /// First byte of the volume.
    pub offset_bytes: u64,
    /// Pieces not yet answered.
    pub pieces_left: u32,
    /// The first failure of a piece.
    pub failure: Option<Failure>,
    /// A write's bytes, or the buffer of a map or of a read with several pieces.
    pub buffer: Vec<u8>,
    /// Bytes of the budget that it holds.
    pub reserved_bytes: u64,
    pub received: Time,
    /// Of a volume with copies: its place among [`Copies`](crate::gateway::copies::Copies)' requests, from 1; else 0.
    pub inner: u32,
    /// The slot of its sample, from 1; 0 without one.
    pub sample: u8,
}

impl InHand {
    /// A request of the gateway's own, of one piece. `buffer` is what it writes, or room for the answer.
    pub fn of_gateway((volume, inner): (u32, u32), (op, flags): (Op, OpFlags), buffer: Vec<u8>, now: Time) -> InHand {
        InHand {
            serial: 0,
            client: ClientId::GATEWAY,
            cookie: 0,
            op,
            flags,
            volume,
            len_bytes: 0,
            offset_bytes: 0,
            pieces_left: 1,
            failure: None,
            buffer,
            reserved_bytes: 0,
            received: now,
            inner,
            sample: 0,
        }
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
        // Zero is the serial of a piece whose request was forgotten.
        self.next_serial = self.next_serial.checked_add(1).unwrap_or(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> InHand {
        InHand {
            serial: 0,
            client: ClientId::GATEWAY,
            cookie: 0,
            op: Op::Read,
            flags: OpFlags::NONE,
            volume: 0,
            len_bytes: 0,
            offset_bytes: 0,
            pieces_left: 1,
            failure: None,
            buffer: Vec::new(),
            reserved_bytes: 0,
            received: Time::default(),
            inner: 0,
            sample: 0,
        }
    }

    #[test]
    fn no_request_has_the_key_of_a_forgotten_one() {
        for last in [0, u32::MAX - 1, u32::MAX] {
            let mut requests = Requests { next_serial: last, ..Requests::default() };
            for _ in 0..2 {
                // Always in the first slot, which is that of the key.
                let key = requests.insert(request());
                assert_eq!(key.index, 0);
                assert!(requests.get(RequestKey::default()).is_none(), "after serial {last}");
                requests.remove(key);
            }
        }
    }
}
