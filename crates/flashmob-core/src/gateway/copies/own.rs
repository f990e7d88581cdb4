//! Requests of the gateway's own: the pieces of changes, flushes and jobs.

use super::hedge::Hedge;
use super::read::Read;
use super::{Copies, Cx};
use crate::gateway::state::queue::Piece;
use crate::gateway::state::{InHand, RequestKey};
use crate::op::{Op, OpFlags};

/// What a request that is not a plain one of a client is for: [`InHand::inner`] is its place, counted from 1.
#[derive(Debug)]
pub enum Inner {
    /// A client's read.
    Read(Read),
    /// A client's change or flush.
    Client,
    /// The bytes of a change, for its copies.
    Change(usize),
    /// The flush of one member, for a client's flush.
    Flush { flush: usize, serial: u64, member: u16 },
    /// The flush of one member, before chunks are settled.
    Sync { member: u16 },
    /// A late read of a client, asked of another copy.
    Hedge(Hedge),
    /// A piece of the job on a chunk.
    Job { chunk: u32, serial: u64, copy: usize },
    /// A slot that is free gets zeros.
    Clear { member: u16, slot: u32 },
    /// Free slots are looked through.
    Orphans { member: u16 },
    /// A chunk behind the end that the volume is to have.
    Look { chunk: u32, member: u16 },
    /// A copy of a range that is scrubbed.
    Scrub { serial: u64, copy: usize },
}

impl Copies {
    /// Registers a request of the gateway's own. `buffer` is a change's bytes, or room for the bytes of a read.
    pub(super) fn insert_inner(
        &mut self,
        cx: &mut Cx<'_>,
        inner: Inner,
        op: Op,
        flags: OpFlags,
        buffer: Vec<u8>,
    ) -> RequestKey {
        let place = self.inner.insert(inner) as u32 + 1;
        cx.requests.insert(InHand::of_gateway((cx.volume, place), (op, flags), buffer, cx.now))
    }

    /// Forgets a request of the gateway's own, and returns it.
    pub(super) fn remove_inner(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> Option<(Inner, InHand)> {
        let request = cx.requests.remove(key)?;
        cx.budget.release(request.reserved_bytes);
        let inner = self.inner.try_remove(request.inner.checked_sub(1)? as usize)?;
        Some((inner, request))
    }

    /// Queues a piece of a request of the gateway's own for a member.
    pub(super) fn send(&self, cx: &mut Cx<'_>, key: RequestKey, member: u16, what: (Op, OpFlags), range: (u64, u32)) {
        let node = cx.node(member);
        cx.queues.give(node, Piece::of_gateway(key, what, range, cx.now));
    }
}
