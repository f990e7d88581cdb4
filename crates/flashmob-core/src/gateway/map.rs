//! Maps of holes: each node tells its part of a range, and the answer is put together in the order of the volume.
//!
//! A map shows what nodes' files hold: no byte of a hole was written since it was trimmed, or ever. The queue holds it back while earlier
//! changes of the range are under way, and later ones while the map is.

use super::Gateway;
use super::state::{InHand, RequestKey};
use crate::nbd::{MAP_EXTENTS_MAX, MAP_NODES_MAX};
use crate::op::{Op, OpFlags};
use crate::planted::{self, Bug};
use crate::wire::map::{MAP_BYTES, Map};

/// Most stripes that one map covers; the client asks again for the rest. This bounds the time to put an answer together.
const MAP_SPANS_MAX: usize = MAP_EXTENTS_MAX;
/// Most bytes that one map covers, as later changes of its range wait for it.
const MAP_COVERED_BYTES_MAX: u32 = 256 << 20;

/// Where one extent's map was read up to.
struct Cursor<R> {
    runs: R,
    left_bytes: u32,
    is_hole: bool,
}

impl<R: Iterator<Item = (u32, bool)>> Cursor<R> {
    fn new(runs: R) -> Cursor<R> {
        Cursor { runs, left_bytes: 0, is_hole: false }
    }

    /// Takes up to `len_bytes` of the current run: their number, and whether they are a hole. `None` after the last run.
    fn take(&mut self, len_bytes: u64) -> Option<(u32, bool)> {
        if self.left_bytes == 0 {
            (self.left_bytes, self.is_hole) = self.runs.next()?;
        }
        let taken = u64::from(self.left_bytes).min(len_bytes) as u32;
        self.left_bytes -= taken;
        Some((taken, self.is_hole))
    }
}

impl Gateway {
    /// Queues the pieces of a map, one for each extent, and takes a buffer for their answers.
    pub(super) fn queue_map(&mut self, key: RequestKey, volume: usize, spans: &[(u64, u32)]) -> u32 {
        if self.volumes[volume].copies.is_some() {
            return self.queue_copies(key, volume, spans);
        }
        let Some(layout) = &self.volumes[volume].layout else { return 0 };
        let Some(&(offset_bytes, len_bytes)) = spans.first() else { return 0 };
        // The memory that the request has reserved is enough for so many nodes.
        let is_wide = self.volumes[volume].spec.extents.len() > MAP_NODES_MAX;
        let spans_max = if is_wide { MAP_NODES_MAX } else { MAP_SPANS_MAX };
        let wanted = u64::from(len_bytes.min(MAP_COVERED_BYTES_MAX));
        let covered: u64 = layout.split(offset_bytes, wanted).take(spans_max).map(|s| s.len_bytes).sum();
        let span = (offset_bytes, covered as u32);
        let pieces = self.queue_ranges(key, volume, Op::Map, OpFlags::NONE, &[span]);
        if let Some(request) = self.requests.get_mut(key) {
            request.len_bytes = span.1;
            request.buffer = self.memory.buffers.take(pieces as usize * MAP_BYTES);
        }
        pieces
    }

    /// The answer to a map whose pieces have all been answered: runs in the order of the volume, and whether each is a hole. It may end
    /// before its range does.
    pub(super) fn joined_map(&self, request: &InHand, maps: &[u8]) -> Vec<(u32, bool)> {
        let mut joined: Vec<(u32, bool)> = Vec::new();
        let volume = &self.volumes[request.volume as usize];
        if volume.copies.is_some() {
            // Copies may have different holes.
            return vec![(request.len_bytes, false)];
        }
        let Some(layout) = &volume.layout else { return joined };
        let (offset_bytes, len_bytes) = (request.offset_bytes, u64::from(request.len_bytes));
        let runs_max = if request.flags.has(OpFlags::ONE_RUN) { 1 } else { MAP_EXTENTS_MAX };
        let mut cursors: Vec<Option<Cursor<_>>> = volume.spec.extents.iter().map(|_| None).collect();
        for ((extent, _, len), bytes) in layout.ranges(offset_bytes, len_bytes).into_iter().zip(maps.chunks(MAP_BYTES))
        {
            // It was checked when it arrived.
            let Ok(map) = Map::decode(bytes, len as u32) else { return joined };
            let mut cursor = Cursor::new(map.runs());
            if planted::is(Bug::MapShifted) && cursors.iter().any(Option::is_some) {
                let _ = cursor.take(1);
            }
            cursors[extent as usize] = Some(cursor);
        }
        for span in layout.split(offset_bytes, len_bytes) {
            let mut left = span.len_bytes;
            while left > 0 {
                let cursor = cursors.get_mut(span.extent as usize).and_then(Option::as_mut);
                let Some((taken, is_hole)) = cursor.and_then(|cursor| cursor.take(left)) else { return joined };
                left -= u64::from(taken);
                let is_full = joined.len() == runs_max;
                match joined.last_mut().filter(|last| last.1 == is_hole) {
                    Some(last) => last.0 += taken,
                    None if is_full => return joined,
                    None => joined.push((taken, is_hole)),
                }
            }
        }
        joined
    }
}
