//! Between requests and queues: a request is cut where extents end, and each piece goes to the queue of its node.
//!
//! [`Giver::give`] is where a piece of a volume without copies gets its node; those with copies, and measurements, choose one themselves. Pieces end in
//! `complete.rs`.

use super::Gateway;
use super::state::queue::Piece;
use super::state::samples::Samples;
use super::state::volume::Volume;
use super::state::{Queues, RequestKey};
use crate::op::{Op, OpFlags};
use crate::planted::{self, Bug};
use crate::wire::PIECE_BYTES_MAX;

/// Puts the pieces of one request into the queues of their nodes.
struct Giver<'a> {
    queues: &'a mut Queues,
    samples: &'a mut Samples,
    volume: &'a Volume,
    /// The next piece, without its range.
    piece: Piece,
    /// Pieces given so far.
    count: u32,
}

impl Giver<'_> {
    /// Puts a piece into the queue of the node with this extent.
    #[inline]
    fn give(&mut self, extent: u32, offset_bytes: u64, len_bytes: u32) {
        let node = self.volume.node_of(extent);
        let piece = Piece { offset_bytes, len_bytes, ..self.piece };
        self.queues.give(node, piece);
        if piece.sample != 0 {
            self.samples.queued((piece.sample, piece.request), node, offset_bytes, len_bytes);
        }
        self.count += 1;
    }

    /// The same for a piece with data, which lies in the request's buffer behind that of the piece before.
    #[inline]
    fn give_data(&mut self, extent: u32, offset_bytes: u64, len_bytes: u32) {
        self.give(extent, offset_bytes, len_bytes);
        self.piece.buffer_at += len_bytes - u32::from(planted::is(Bug::BufferPlaceOffByOne));
    }
}

impl Gateway {
    /// The [`Giver`] of a request; `None` if the request is gone.
    #[inline]
    fn giver(&mut self, key: RequestKey, volume: usize, op: Op, flags: OpFlags) -> Option<Giver<'_>> {
        let request = self.requests.get(key)?;
        let piece = Piece {
            request: key,
            client: request.client.index as u32,
            serial: 0,
            op,
            flags,
            offset_bytes: 0,
            len_bytes: 0,
            buffer_at: 0,
            received: request.received,
            answered: false,
            sample: request.sample,
        };
        let (queues, samples, volume) = (&mut self.queues, &mut self.metrics.samples, &self.volumes[volume]);
        Some(Giver { queues, samples, volume, piece, count: 0 })
    }

    /// Queues the pieces of a read or write: cut where extents end and where pieces would be too long.
    #[inline]
    pub(super) fn queue_data(
        &mut self,
        key: RequestKey,
        volume: usize,
        (op, flags): (Op, OpFlags),
        spans: &[(u64, u32)],
        buffer_at: u32,
    ) -> u32 {
        let Some(mut giver) = self.giver(key, volume, op, flags) else { return 0 };
        let Some(layout) = &giver.volume.layout else { return 0 };
        giver.piece.buffer_at = buffer_at;
        for &(offset, len) in spans {
            // Usually it is one piece.
            if len <= PIECE_BYTES_MAX
                && let Some((extent, extent_offset_bytes)) = layout.locate_whole(offset, u64::from(len))
            {
                giver.give_data(extent, extent_offset_bytes, len);
                continue;
            }
            if layout.is_mapped() {
                return self.queue_copies(key, volume, spans);
            }
            for span in layout.split(offset, u64::from(len)) {
                let (mut at, end) = (span.extent_offset_bytes, span.extent_offset_bytes + span.len_bytes);
                while at < end {
                    let len_bytes = (end - at).min(u64::from(PIECE_BYTES_MAX)) as u32;
                    giver.give_data(span.extent, at, len_bytes);
                    at += u64::from(len_bytes);
                }
            }
        }
        giver.count
    }

    /// Queues a flush for every node that may have unflushed changes.
    pub(super) fn queue_flush(&mut self, key: RequestKey, volume: usize) -> u32 {
        if self.volumes[volume].copies.is_some() {
            return self.queue_copies(key, volume, &[]);
        }
        let Some(mut giver) = self.giver(key, volume, Op::Flush, OpFlags::NONE) else { return 0 };
        for extent in 0..giver.volume.spec.extents.len() as u32 {
            if giver.queues[giver.volume.node_of(extent)].is_dirty() {
                giver.give(extent, 0, 0);
            }
        }
        giver.count
    }

    /// Queues the pieces of a request without payload, which may be long: one or few for each extent, and one of a map.
    pub(super) fn queue_ranges(
        &mut self,
        key: RequestKey,
        volume: usize,
        op: Op,
        flags: OpFlags,
        spans: &[(u64, u32)],
    ) -> u32 {
        if self.volumes[volume].copies.is_some() {
            return self.queue_copies(key, volume, spans);
        }
        let Some(mut giver) = self.giver(key, volume, op, flags) else { return 0 };
        let Some(layout) = &giver.volume.layout else { return 0 };
        for (extent, mut at, mut left) in spans.iter().flat_map(|&(offset, len)| layout.ranges(offset, u64::from(len)))
        {
            while left > 0 {
                let len = left.min(u64::from(u32::MAX));
                giver.give(extent, at, len as u32);
                giver.piece.buffer_at += op.reply_bytes(len as u32);
                (at, left) = (at + len, left - len);
            }
        }
        giver.count
    }
}
