//! Serving a batch at once: reads that the page cache has, and writes into it that are not likely to block, without the elevator and the store.

use std::ops::Range;

use super::followed::Followed;
use super::link::LinkId;
use super::{Host, Node, TryRead};
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::stages::NodeInterval;
use crate::units::Time;
use crate::wire::batch::WirePiece;
use crate::wire::frame::{FrameKind, frame_bytes, seal_frame};
use crate::wire::replies::{RUN_BYTES, RUNS_HEADER_BYTES, RepliesEncoder};
use crate::wire::trace::Way;
use crate::wire::{HEADER_BYTES, PAYLOAD_BYTES_MAX};

/// How many reads ahead memory is prefetched.
const PREFETCH_AHEAD: usize = 8;
/// Where the bytes of answers begin in a frame that is made here, before its meta is known.
const ANSWERS_AT: usize = HEADER_BYTES + RUNS_HEADER_BYTES + RUN_BYTES;

/// A batch that has just been accepted, or the first part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived<'a> {
    pub now: Time,
    pub link: LinkId,
    pub seq: u32,
    pub pieces: &'a [WirePiece],
    /// The bytes of its writes, in order.
    pub payload: &'a [u8],
}

/// How many pieces were tried, when, and when their frame of answers was made.
#[derive(Debug, Clone, Copy)]
struct Tried {
    count: usize,
    started: Time,
    ended: Time,
    replied: Time,
}

impl Node {
    /// Serves the first pieces of a batch, as many as the host serves at once. Returns how many were tried; those of them that are not
    /// answered are in `fast_missed`.
    pub(super) fn serve_at_once(
        &mut self,
        batch: Arrived<'_>,
        followed: &mut Vec<Followed>,
        host: &mut impl Host,
    ) -> usize {
        self.fast_missed.clear();
        if batch.pieces.first().is_some_and(|piece| piece.op == Op::Write) {
            return self.write_fast(batch, followed, host);
        }
        let fast = self.fast_prefix(batch.pieces, host);
        self.fast_missed = self.read_fast(Arrived { pieces: &batch.pieces[..fast], ..batch }, followed, host);
        fast
    }

    /// How many pieces at the front may be tried without blocking: reads that overlap no waiting change.
    fn fast_prefix(&self, pieces: &[WirePiece], host: &mut impl Host) -> usize {
        if !host.has_fast_reads() {
            return 0;
        }
        let reads = pieces.iter().take_while(|p| p.op == Op::Read);
        reads.take_while(|p| !self.elevator.overlaps_mutation(p.offset_bytes, p.len_bytes)).count()
    }

    /// Tries reads without blocking, straight into one frame in the link's queue. Returns the indices of those that missed; all others
    /// are answered.
    fn read_fast(&mut self, batch: Arrived<'_>, followed: &mut Vec<Followed>, host: &mut impl Host) -> Vec<u16> {
        let mut missed = std::mem::take(&mut self.fast_missed);
        let pieces = batch.pieces;
        let Some(link) = self.links.get_mut(batch.link.0) else { return missed };
        if pieces.is_empty() {
            return missed;
        }
        let size = self.config.size_bytes;
        let payload_bytes: usize = pieces.iter().map(|p| p.len_bytes as usize).sum();
        let (encoder, hits) = (&mut self.encoder, &mut self.fast_hits);
        hits.clear();
        let started = host.now();
        let mut ended = started;
        let meta_bytes_max = RUNS_HEADER_BYTES + RUN_BYTES + pieces.len().div_ceil(8);
        link.out.append_with(frame_bytes(meta_bytes_max, payload_bytes), |room| {
            let mut end = ANSWERS_AT;
            pieces.iter().take(PREFETCH_AHEAD).for_each(|piece| host.prefetch(piece.offset_bytes));
            let mut read_some = |range: Range<usize>, host: &mut _| {
                end = try_pieces(pieces, range, size, (room, end), host, (hits, &mut missed));
                (end, hits.len())
            };
            // Followed pieces are read one by one, between two readings of the clock, the others in one go.
            let mut from = 0;
            for followed in followed.iter_mut().filter(|followed| usize::from(followed.index) < pieces.len()) {
                let at = usize::from(followed.index);
                let (_, before) = read_some(from..at, host);
                let begun = host.now();
                let (_, after) = read_some(at..at + 1, host);
                if after > before {
                    followed.served_at_once(begun, host.now(), pieces[at].offset_bytes, pieces[at].len_bytes);
                }
                from = at + 1;
            }
            let (end, _) = read_some(from..pieces.len(), host);
            ended = host.now();
            seal_fast(room, end, batch.seq, hits, encoder, micros(batch.now, ended))
        });
        let bytes: u64 = hits.iter().map(|&i| u64::from(pieces[usize::from(i)].len_bytes)).sum();
        link.unwritten_reply_bytes += bytes;
        self.counters.fast_reads += self.fast_hits.len() as u64;
        self.record_at_once(batch, Tried { count: pieces.len(), started, ended, replied: host.now() }, followed);
        missed
    }

    /// Writes the bytes of the first pieces, as many as the host accepts, and answers these in one frame. Returns how many.
    ///
    /// Only while nothing else is in hand: a write overtakes nothing that arrived before it.
    fn write_fast(&mut self, batch: Arrived<'_>, followed: &mut Vec<Followed>, host: &mut impl Host) -> usize {
        let size = self.config.size_bytes;
        let is_plain = |p: &&WirePiece| {
            p.op == Op::Write && p.flags == OpFlags::NONE && p.offset_bytes + u64::from(p.len_bytes) <= size
        };
        let plain = batch.pieces.iter().take_while(is_plain).count();
        if plain == 0 || !self.elevator.is_empty() || !self.in_store.is_empty() {
            return 0;
        }
        let Some(link) = self.links.get_mut(batch.link.0) else { return 0 };
        let pieces = &batch.pieces[..plain];
        let started = host.now();
        let mut payload = batch.payload;
        let mut write_some = |range: Range<usize>, host: &mut _| try_writes(&pieces[range], &mut payload, host);
        let mut written = 0;
        'accepted: {
            // Followed pieces one by one, as with reads.
            for followed in followed.iter_mut().filter(|followed| usize::from(followed.index) < plain) {
                let at = usize::from(followed.index);
                written += write_some(written..at, host);
                let begun = host.now();
                if written < at || write_some(at..at + 1, host) == 0 {
                    break 'accepted;
                }
                written += 1;
                followed.served_at_once(begun, host.now(), pieces[at].offset_bytes, pieces[at].len_bytes);
            }
            written += write_some(written..plain, host);
        }
        if planted::is(Bug::AnsweredUnwritten) && written > 0 {
            written = plain;
        }
        if written == 0 {
            return 0;
        }
        let ended = host.now();
        let (encoder, hits) = (&mut self.encoder, &mut self.fast_hits);
        hits.clear();
        hits.extend(0..written as u16);
        link.out.append_with(frame_bytes(RUNS_HEADER_BYTES + RUN_BYTES, 0), |room| {
            seal_fast(room, ANSWERS_AT, batch.seq, hits, encoder, micros(batch.now, ended))
        });
        self.counters.fast_writes += written as u64;
        self.record_at_once(batch, Tried { count: written, started, ended, replied: host.now() }, followed);
        written
    }

    /// Records the stages of pieces that were answered at once, and reports those that are followed.
    fn record_at_once(&mut self, batch: Arrived<'_>, tried: Tried, followed: &mut Vec<Followed>) {
        if !followed.is_empty()
            && let Some(link) = self.links.get_mut(batch.link.0)
        {
            let told: Vec<(u32, Followed)> =
                followed.extract_if(.., |f| f.way == Way::AtOnce).map(|followed| (batch.seq, followed)).collect();
            link.tell_times(&told, tried.replied, self.clock_start_ns);
        }
        let count = self.fast_hits.len() as u64;
        self.stages.record_n(NodeInterval::Scheduled, tried.started.nanos_since(batch.now), count);
        // They are served one after the other: the mean stands for all.
        let each = tried.ended.nanos_since(tried.started) / (tried.count.max(1) as u64);
        self.stages.record_n(NodeInterval::FlashStart, each * (count.max(1) - 1) / 2, count);
        self.stages.record_n(NodeInterval::FlashDone, each, count);
        self.stages.record_n(NodeInterval::Replied, tried.replied.nanos_since(tried.ended), count);
        self.stages.record_n(NodeInterval::Total, tried.replied.nanos_since(batch.now), count);
    }
}

/// Whole microseconds between two times.
fn micros(from: Time, to: Time) -> u32 {
    u32::try_from(to.nanos_since(from) / 1000).unwrap_or(u32::MAX)
}

/// Has the host write pieces, whose bytes `payload` begins with. Returns how many it wrote; `payload` is behind these.
fn try_writes(pieces: &[WirePiece], payload: &mut &[u8], host: &mut impl Host) -> usize {
    if pieces.is_empty() {
        return 0;
    }
    let mut rest = *payload;
    let written = host.try_writes(pieces.iter().map(|piece| {
        let (bytes, behind) = rest.split_at(piece.len_bytes as usize);
        rest = behind;
        (piece.offset_bytes, bytes)
    }));
    let written_bytes: usize = pieces[..written].iter().map(|piece| piece.len_bytes as usize).sum();
    *payload = &payload[written_bytes..];
    written
}

/// Tries pieces without blocking, one after the other into `room` from `end` on. Returns where the last hit ends.
#[inline]
fn try_pieces(
    pieces: &[WirePiece],
    range: Range<usize>,
    size_bytes: u64,
    (room, mut end): (&mut [u8], usize),
    host: &mut impl Host,
    (hits, missed): (&mut Vec<u16>, &mut Vec<u16>),
) -> usize {
    for index in range {
        let piece = &pieces[index];
        if let Some(later) = pieces.get(index + PREFETCH_AHEAD) {
            host.prefetch(later.offset_bytes);
        }
        let next = end + piece.len_bytes as usize;
        let result = if piece.offset_bytes + u64::from(piece.len_bytes) > size_bytes {
            TryRead::Failed(Failure::Invalid)
        } else {
            host.try_read(piece.offset_bytes, &mut room[end..next])
        };
        match result {
            TryRead::Hit => {
                hits.push(index as u16);
                end = next;
            }
            // Failures are rare: the store will repeat the read and report them.
            TryRead::Miss | TryRead::Failed(_) => missed.push(index as u16),
        }
    }
    end
}

/// Finishes a frame of answers in `room`, which has room for the header and one run, then the bytes of the hits up to `end`.
/// Returns the frame's length; 0 without hits.
fn seal_fast(
    room: &mut [u8],
    end: usize,
    seq: u32,
    hits: &[u16],
    encoder: &mut RepliesEncoder,
    node_time_us: u32,
) -> usize {
    if hits.is_empty() {
        return 0;
    }
    encoder.clear();
    encoder.push(seq, hits, Ok(()), node_time_us);
    let meta = encoder.finish();
    let payload_at = ANSWERS_AT;
    debug_assert!(end - payload_at <= PAYLOAD_BYTES_MAX);
    let shift = HEADER_BYTES + meta.len() - payload_at;
    if shift > 0 {
        room.copy_within(payload_at..end, payload_at + shift);
    }
    room[HEADER_BYTES..HEADER_BYTES + meta.len()].copy_from_slice(meta);
    seal_frame(&mut room[..end + shift], FrameKind::Replies, meta.len());
    end + shift
}
