//! Answers gather during a turn and leave in few frames.

use super::Node;
use super::followed::Followed;
use super::link::LinkId;
use crate::op::Failure;
use crate::stages::NodeInterval;
use crate::units::Time;
use crate::wire::PAYLOAD_BYTES_MAX;
use crate::wire::frame::{FrameKind, frame_bytes, put_frame};
use crate::wire::replies::RepliesEncoder;

/// One answered piece.
#[derive(Debug)]
pub(super) struct Done {
    pub seq: u32,
    pub index: u16,
    pub outcome: Result<(), Failure>,
    pub received: Time,
    /// When the store finished it, if it went there.
    pub finished: Option<Time>,
    /// The bytes of a successful read.
    pub data: Option<Vec<u8>>,
    /// Its times, if its gateway follows it.
    pub followed: Option<Box<Followed>>,
}

impl Done {
    pub fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    fn sort_key(&self) -> (u32, u8, u16) {
        (self.seq, self.outcome.err().map_or(0, |f| f as u8), self.index)
    }
}

impl Node {
    /// Makes frames of the gathered answers of each link.
    pub(super) fn flush_replies(&mut self, now: Time) {
        let waiting: Vec<usize> = self.links.iter().filter(|(_, l)| !l.replies.is_empty()).map(|(i, _)| i).collect();
        for id in waiting {
            self.flush_link(now, LinkId(id));
        }
    }

    fn flush_link(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let mut done = std::mem::take(&mut link.replies);
        done.sort_unstable_by_key(Done::sort_key);
        let mut rest = &done[..];
        while !rest.is_empty() {
            let (count, payload_bytes) = fill_frame(&mut self.encoder, rest, now);
            let (frame, later) = rest.split_at(count);
            let meta = self.encoder.finish();
            link.out.append_with(frame_bytes(meta.len(), payload_bytes), |room| {
                put_frame(room, FrameKind::Replies, meta, |mut payload| {
                    for data in frame.iter().flat_map(|d| &d.data) {
                        let (head, rest) = std::mem::take(&mut payload).split_at_mut(data.len());
                        head.copy_from_slice(data);
                        payload = rest;
                    }
                });
                room.len()
            });
            rest = later;
        }
        for d in &done {
            self.stages.record(NodeInterval::Total, now.nanos_since(d.received));
            if let Some(finished) = d.finished {
                self.stages.record(NodeInterval::Replied, now.nanos_since(finished));
            }
        }
        if done.iter().any(|d| d.followed.is_some()) {
            let followed: Vec<(u32, Followed)> =
                done.iter().filter_map(|d| d.followed.as_deref().map(|f| (d.seq, *f))).collect();
            link.tell_times(&followed, now, self.clock_start_ns);
        }
        done.clear();
        link.replies = done;
    }
}

/// Encodes as many answers as fit one frame; returns their number and their bytes.
fn fill_frame(encoder: &mut RepliesEncoder, sorted: &[Done], now: Time) -> (usize, usize) {
    encoder.clear();
    let (mut count, mut bytes) = (0, 0);
    let mut indices: Vec<u16> = Vec::new();
    // Strictly ascending: answers to two batches with one number form several groups.
    let is_one_group = |a: &Done, b: &Done| (a.seq, a.outcome) == (b.seq, b.outcome) && a.index < b.index;
    for group in sorted.chunk_by(is_one_group) {
        if !encoder.has_room_for(group.len()) {
            break;
        }
        indices.clear();
        let mut oldest = now;
        for done in group {
            if bytes + done.data_bytes() > PAYLOAD_BYTES_MAX {
                break;
            }
            bytes += done.data_bytes();
            oldest = oldest.min(done.received);
            indices.push(done.index);
        }
        let node_time_us = (now.nanos_since(oldest) / 1000).min(u64::from(u32::MAX)) as u32;
        encoder.push(group[0].seq, &indices, group[0].outcome, node_time_us);
        count += indices.len();
        if indices.len() < group.len() {
            break;
        }
    }
    (count, bytes)
}
