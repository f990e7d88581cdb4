//! Followed pieces: the times at which they passed this node's stages, reported in a frame behind their answer.
//!
//! Other pieces must not pay for this: everything here is for batches with marks only.

use super::link::NodeLink;
use crate::elevator::Issue;
use crate::units::Time;
use crate::wire::trace::{PieceTimes, TIMES_MAX, Way, put_times};

/// Memory of a followed piece in hand, in bytes: this, its answer, and its times in the frame.
pub(super) const FOLLOWED_COST_BYTES: u64 = 256;

/// A followed piece on its way through the node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    pub index: u16,
    pub way: Way,
    pub received: Time,
    pub scheduled: Time,
    pub started: Time,
    pub finished: Time,
    pub op_offset_bytes: u64,
    pub op_bytes: u32,
}

impl Followed {
    /// A piece that was received and not served yet.
    pub fn new(index: u16, received: Time) -> Followed {
        Followed {
            index,
            way: Way::Refused,
            received,
            scheduled: received,
            started: received,
            finished: received,
            op_offset_bytes: 0,
            op_bytes: 0,
        }
    }

    /// It was read or written without waiting.
    pub fn served_at_once(&mut self, started: Time, finished: Time, offset_bytes: u64, len_bytes: u32) {
        self.way = Way::AtOnce;
        (self.scheduled, self.started, self.finished) = (started, started, finished);
        (self.op_offset_bytes, self.op_bytes) = (offset_bytes, len_bytes);
    }

    /// The store has ended its operation.
    pub fn stored(&mut self, issue: &Issue, started: Time, finished: Time) {
        self.way = Way::Store;
        (self.started, self.finished) = (started, finished);
        (self.op_offset_bytes, self.op_bytes) = (issue.offset_bytes, issue.len_bytes);
    }

    /// Its times once its answer is ready, made to ascend: several threads took them.
    fn times(&self, seq: u32, replied: Time, clock_start_ns: u64) -> PieceTimes {
        let mut latest = Time::default();
        let mut ns = |time: Time| {
            latest = latest.max(time);
            clock_start_ns.saturating_add(latest.as_nanos())
        };
        PieceTimes {
            seq,
            index: self.index,
            way: self.way,
            received_ns: ns(self.received),
            scheduled_ns: ns(self.scheduled),
            started_ns: ns(self.started),
            finished_ns: ns(self.finished),
            replied_ns: ns(replied),
            op_offset_bytes: self.op_offset_bytes,
            op_bytes: self.op_bytes,
        }
    }
}

impl NodeLink {
    /// Reports the times of these pieces, each with its batch's number, behind their answers.
    pub fn tell_times(&mut self, followed: &[(u32, Followed)], replied: Time, clock_start_ns: u64) {
        for some in followed.chunks(TIMES_MAX) {
            let times: Vec<PieceTimes> = some.iter().map(|(seq, f)| f.times(*seq, replied, clock_start_ns)).collect();
            self.out.append(|out| put_times(out, &times));
        }
    }
}
