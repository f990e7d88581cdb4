//! The outstanding requests.
//!
//! A request's cookie is the index of its slot, with the number of the slot's uses above it: a reply finds its request without a search, and
//! a second reply to the same request is detected even when the slot is in use again.

use std::time::Instant;

use flashmob_core::op::Op;

use crate::error::ServerError;

/// A request that was sent, or is about to be.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its operation.
    pub op: Op,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub len_bytes: u32,
    /// When it was submitted.
    pub submitted: Instant,
}

impl Request {
    /// Its description, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.op {
            Op::Flush => "flush".into(),
            op => format!("{} of {} bytes at {}", op.name(), self.len_bytes, self.offset_bytes),
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub request: Option<Request>,
    uses: u32,
    /// Bytes of a structured reply that arrived, as (first, end) relative to the request.
    pub pieces: Vec<(u32, u32)>,
    /// The first error of a structured reply.
    pub error: Option<ServerError>,
    /// How many errors there were.
    pub errors: u32,
}

/// A fixed number of slots.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// `count` free slots.
    #[must_use]
    pub fn new(count: u32) -> Slots {
        let slots =
            (0..count).map(|_| Slot { request: None, uses: 0, pieces: Vec::new(), error: None, errors: 0 }).collect();
        Slots { slots, free: (0..count).rev().collect() }
    }

    /// Number of free slots.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Number of slots in use.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Puts `request` into a free slot and returns the cookie; `None` if there is no free slot.
    pub fn take(&mut self, request: Request) -> Option<u64> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[index as usize];
        slot.request = Some(request);
        slot.uses = slot.uses.wrapping_add(1);
        slot.pieces.clear();
        slot.error = None;
        slot.errors = 0;
        Some(u64::from(slot.uses) << 32 | u64::from(index))
    }

    /// The slot and the request of `cookie`, if it is outstanding.
    #[must_use]
    pub fn find(&self, cookie: u64) -> Option<(u32, Request)> {
        let index = cookie as u32;
        let slot = self.slots.get(index as usize)?;
        if slot.uses != (cookie >> 32) as u32 {
            return None;
        }
        slot.request.map(|request| (index, request))
    }

    pub(super) fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Frees a slot that [`Slots::find`] returned.
    pub fn release(&mut self, index: u32) {
        if self.slots[index as usize].request.take().is_some() {
            self.free.push(index);
        }
    }

    /// The oldest request.
    #[must_use]
    pub fn oldest(&self) -> Option<Request> {
        self.slots.iter().filter_map(|slot| slot.request).min_by_key(|request| request.submitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(offset_bytes: u64) -> Request {
        Request { op: Op::Read, offset_bytes, len_bytes: 1, submitted: Instant::now() }
    }

    #[test]
    fn a_cookie_finds_its_request_once() {
        let mut slots = Slots::new(2);
        let a = slots.take(request(10)).unwrap();
        let b = slots.take(request(20)).unwrap();
        assert_eq!(slots.take(request(30)), None, "both are taken");
        assert_eq!((slots.free(), slots.taken()), (0, 2));
        let (index, found) = slots.find(b).unwrap();
        assert_eq!(found.offset_bytes, 20);
        slots.release(index);
        assert!(slots.find(b).is_none());
        let c = slots.take(request(40)).unwrap();
        assert!(slots.find(b).is_none(), "the slot's next use has another cookie");
        assert_eq!(slots.find(c).unwrap().1.offset_bytes, 40);
        assert_eq!(slots.find(a).unwrap().1.offset_bytes, 10);
        assert!(slots.find(2).is_none() && slots.find(u64::MAX).is_none());
    }

    #[test]
    fn the_oldest_request_is_known() {
        let mut slots = Slots::new(3);
        assert!(slots.oldest().is_none());
        slots.take(request(1)).unwrap();
        slots.take(request(2)).unwrap();
        assert_eq!(slots.oldest().unwrap().offset_bytes, 1);
    }
}
