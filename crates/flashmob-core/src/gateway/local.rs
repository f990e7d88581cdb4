//! Reads of extents in the gateway's process, answered without a batch if they need not wait.

use super::Gateway;
use super::state::samples::{AtOnce, Sample};
use super::state::{ClientId, ClientKind};
use crate::node::TryRead;
use crate::op::Op;
use crate::request::Request;
use crate::units::Time;

/// The extents in the gateway's process. A read that one of them can answer at once is answered where it was decoded: no piece, no
/// batch, no frame. Other reads become pieces.
pub trait LocalExtents {
    /// Reads from the extent of `node` (counted over all volumes) without blocking, if possible.
    fn try_read(&mut self, node: usize, offset_bytes: u64, into: &mut [u8]) -> TryRead;

    /// The time now, for sampled requests; `None` if unknown.
    fn now(&mut self) -> Option<Time> {
        None
    }
}

/// No local extents.
#[derive(Debug, Clone, Copy)]
pub struct NoLocal;

impl LocalExtents for NoLocal {
    fn try_read(&mut self, _node: usize, _offset_bytes: u64, _into: &mut [u8]) -> TryRead {
        TryRead::Miss
    }
}

impl Gateway {
    /// The node and the offset in its extent, if a range lies on one linked node in this process.
    pub(super) fn local_place(&self, volume: usize, offset_bytes: u64, len_bytes: u32) -> Option<(usize, u64)> {
        if !self.volumes[volume].has_local {
            return None;
        }
        let (extent, offset) =
            self.volumes[volume].layout.as_ref()?.locate_whole(offset_bytes, u64::from(len_bytes))?;
        let node = self.volumes[volume].node_of(extent);
        let state = &self.nodes[node];
        (state.is_local && state.links_up > 0).then_some((node, offset))
    }

    /// A read that was due to be sampled has been answered at once, from `started` on.
    #[cold]
    #[inline(never)]
    pub(super) fn sample_at_once(
        &mut self,
        now: Time,
        id: ClientId,
        request: &Request,
        started: Option<Time>,
        local: &mut impl LocalExtents,
    ) {
        let (started, finished) = (started.unwrap_or(now), local.now().unwrap_or(now));
        let volume = self.clients.get(id).and_then(|c| c.volume).unwrap_or_default();
        let (offset_bytes, len_bytes) = (request.offset_bytes, request.len_bytes);
        let node = self.local_place(volume, offset_bytes, len_bytes).map(|(node, _)| node).unwrap_or_default();
        let mut sample = Sample::new(Op::Read, volume, (offset_bytes, len_bytes.into()), now);
        sample.at_once = Some(AtOnce { node, started, finished });
        self.metrics.samples.answered_at_once(sample);
    }

    /// Answers an NBD client's read at once, if a local extent can, straight into the reply.
    ///
    /// It overtakes no change that the client knows of: one that was acknowledged is in the extent, and one that was not may come before
    /// or after the read.
    pub(super) fn read_at_once(
        &mut self,
        id: ClientId,
        request: &Request,
        reserved_bytes: u64,
        local: &mut impl LocalExtents,
    ) -> bool {
        let volume = self.clients.get(id).and_then(|c| c.volume).unwrap_or_default();
        let (offset_bytes, len_bytes) = (request.offset_bytes, request.len_bytes);
        let Some((node, extent_offset_bytes)) = self.local_place(volume, offset_bytes, len_bytes) else { return false };
        let Some(client) = self.clients.get_mut(id) else { return false };
        let ClientKind::Nbd(nbd) = &mut client.kind else { return false };
        let fill = |into: &mut [u8]| local.try_read(node, extent_offset_bytes, into) == TryRead::Hit;
        if !nbd.session.try_reply_read(request.cookie, offset_bytes, len_bytes, fill) {
            return false;
        }
        client.held_bytes += reserved_bytes;
        self.nodes[node].read_here += 1;
        client.answer_queued(reserved_bytes);
        true
    }
}
