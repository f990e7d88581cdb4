//! A sampled request and its pieces.

use super::super::links::LinkId;
use crate::clocks::ClockOffset;
use crate::op::{Failure, Op};
use crate::units::Time;
use crate::wire::trace::PieceTimes;

/// A sampled request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its number, from 1 in the order in which samples begin.
    pub number: u64,
    /// The operation.
    pub op: Op,
    /// The volume.
    pub volume: usize,
    /// First byte in the volume, of the first part.
    pub offset_bytes: u64,
    /// Length in bytes, all parts together.
    pub len_bytes: u64,
    /// When it was completely read.
    pub received: Time,
    /// When its pieces were queued.
    pub queued: Time,
    /// When its answer was made.
    pub replied: Time,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Set if an extent in this process answered it, or parts of it, without a batch.
    pub at_once: Option<AtOnce>,
    /// How many pieces it had.
    pub pieces_in_all: u32,
    /// The followed ones.
    pub pieces: Vec<SampledPiece>,
}

/// A read that an extent in the gateway's process answered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtOnce {
    /// The node, counted over all volumes; the first of several.
    pub node: usize,
    /// When the read began.
    pub started: Time,
    /// When it ended.
    pub finished: Time,
}

/// A followed piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPiece {
    /// Its node, counted over all volumes.
    pub node: usize,
    /// First byte of the extent.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u32,
    /// When its batch was made; after a broken link, the last one.
    pub batched: Time,
    /// Pieces of that batch.
    pub batch_pieces: u16,
    /// When everything queued on the link was written.
    pub sent: Option<Time>,
    /// When its answer had arrived, if it did.
    pub returned: Option<Time>,
    /// The result.
    pub outcome: Result<(), Failure>,
    /// How often it was resent.
    pub retries: u32,
    /// The times that its node reported.
    pub times: Option<PieceTimes>,
    /// The offset of the node's clock then.
    pub clock: Option<ClockOffset>,
    pub(in crate::gateway) link: Option<LinkId>,
    pub(in crate::gateway) seq: u32,
    pub(in crate::gateway) index: u16,
    pub(in crate::gateway) is_untold: bool,
}

/// The state of a sample whose request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Outlook {
    /// Reports of nodes are missing.
    Waits,
    /// Everything is known.
    Complete,
    /// A report will not come.
    Untold,
}

impl Sample {
    pub(in crate::gateway) fn new(
        op: Op,
        volume: usize,
        (offset_bytes, len_bytes): (u64, u64),
        received: Time,
    ) -> Sample {
        Sample {
            number: 0,
            op,
            volume,
            offset_bytes,
            len_bytes,
            received,
            queued: received,
            replied: received,
            failure: None,
            at_once: None,
            pieces_in_all: 0,
            pieces: Vec::new(),
        }
    }

    pub(in crate::gateway) fn outlook(&self) -> Outlook {
        // If the request failed early, its unanswered pieces are not waited for.
        let is_open =
            |piece: &&SampledPiece| piece.times.is_none() && (self.failure.is_none() || piece.returned.is_some());
        match self.pieces.iter().filter(is_open).map(|piece| piece.is_untold).reduce(|a, b| a || b) {
            None => Outlook::Complete,
            Some(true) => Outlook::Untold,
            Some(false) => Outlook::Waits,
        }
    }

    /// Makes the times ascend: those of one turn may have been read in another order than that of the stages.
    pub(in crate::gateway) fn straighten(&mut self) {
        self.queued = self.queued.max(self.received);
        self.replied = self.replied.max(self.queued);
        if let Some(at_once) = &mut self.at_once {
            at_once.finished = at_once.finished.max(at_once.started);
            self.replied = self.replied.max(at_once.finished);
        }
        for piece in &mut self.pieces {
            let Some(returned) = piece.returned else { continue };
            piece.batched = piece.batched.max(self.queued);
            let sent = piece.sent.map_or(piece.batched, |sent| sent.max(piece.batched));
            let returned = returned.max(sent);
            (piece.sent, piece.returned) = (Some(sent), Some(returned));
            self.replied = self.replied.max(returned);
        }
    }
}

/// All times of a piece on the gateway's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// When it was sent to its node.
    pub sent: Time,
    /// When it passed the node's stages: received, scheduled, started, finished, replied. The intervals are those that the node measured;
    /// their place between [`Placed::sent`] and [`Placed::returned`] is as exact as the clock offset.
    pub at_node: [Time; 5],
    /// When its answer had arrived.
    pub returned: Time,
}

impl SampledPiece {
    /// Its times on the gateway's clock, if all are known; `clock_start_ns` is that of [`Sampling`](super::Sampling).
    ///
    /// Each end measures its intervals with one clock; the clock offset only divides the rest between the two directions. So all intervals
    /// add up to the time from batched to returned, whatever the error of the offset.
    #[must_use]
    pub fn placed(&self, clock_start_ns: u64) -> Option<Placed> {
        let (times, returned) = (self.times?, self.returned?);
        let stay_ns = times.replied_ns.saturating_sub(times.received_ns);
        let first = self.batched;
        let last = Time(returned.as_nanos().saturating_sub(stay_ns)).max(first);
        let sent = self.sent.unwrap_or(first).clamp(first, last);
        let (sent, arrived) = match self.clock {
            Some(clock) => {
                let told_ns = i128::from(times.received_ns) - i128::from(clock.offset_ns) - i128::from(clock_start_ns);
                let told_ns = told_ns.clamp(first.as_nanos().into(), last.as_nanos().into());
                let told = Time(u64::try_from(told_ns).unwrap_or_default());
                // The queue may have been written long after this piece arrived: it was sent no later than it arrived.
                (sent.min(told), told)
            }
            None => (sent, Time(sent.as_nanos().midpoint(last.as_nanos()))),
        };
        let place = |ns: u64| {
            let after_ns = ns.saturating_sub(times.received_ns);
            Time(arrived.as_nanos().saturating_add(after_ns)).min(returned)
        };
        Some(Placed { sent, at_node: times.stages_ns().map(place), returned })
    }

    pub(in crate::gateway) fn new(node: usize, offset_bytes: u64, len_bytes: u32) -> SampledPiece {
        SampledPiece {
            node,
            offset_bytes,
            len_bytes,
            batched: Time::default(),
            batch_pieces: 0,
            sent: None,
            returned: None,
            outcome: Ok(()),
            retries: 0,
            times: None,
            clock: None,
            link: None,
            seq: 0,
            index: 0,
            is_untold: false,
        }
    }

    pub(in crate::gateway) fn is_at(&self, node: usize, offset_bytes: u64, len_bytes: u32) -> bool {
        (self.node, self.offset_bytes, self.len_bytes) == (node, offset_bytes, len_bytes)
    }

    /// Its link broke before it was answered.
    pub(in crate::gateway) fn sent_again(&mut self) {
        self.retries += 1;
        (self.link, self.sent) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::trace::Way;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_way_of_a_piece_is_in_order_and_within_its_time_whatever_was_told(
            batched in 0u64..1 << 40,
            sent in prop::option::of(0u64..1 << 41),
            took in 0u64..1 << 40,
            mut stages: [u64; 5],
            clock in prop::option::of((any::<i64>(), any::<u64>())),
            clock_start_ns: u64,
        ) {
            stages.sort_unstable();
            let [received_ns, scheduled_ns, started_ns, finished_ns, replied_ns] = stages;
            let mut piece = SampledPiece::new(0, 0, 1);
            (piece.batched, piece.sent, piece.returned) = (Time(batched), sent.map(Time), Some(Time(batched + took)));
            piece.clock = clock.map(|(offset_ns, error_ns)| ClockOffset { offset_ns, error_ns });
            let (way, op_offset_bytes, op_bytes) = (Way::Store, 0, 1);
            piece.times = Some(PieceTimes {
                seq: 0, index: 0, way, received_ns, scheduled_ns, started_ns, finished_ns, replied_ns, op_offset_bytes, op_bytes,
            });
            let placed = piece.placed(clock_start_ns).expect("all is known");
            let mut all = vec![piece.batched, placed.sent];
            all.extend(placed.at_node);
            all.push(placed.returned);
            prop_assert!(all.is_sorted(), "{all:?}");
            prop_assert_eq!(placed.returned, Time(batched + took));
        }
    }

    #[test]
    fn what_a_node_measured_keeps_its_length_and_lies_where_the_clocks_say() {
        let mut piece = SampledPiece::new(0, 0, 1);
        (piece.batched, piece.sent, piece.returned) = (Time(100), Some(Time(110)), Some(Time(1_000)));
        piece.times = Some(PieceTimes {
            seq: 0,
            index: 0,
            way: Way::Store,
            received_ns: 5_000_300,
            scheduled_ns: 5_000_310,
            started_ns: 5_000_400,
            finished_ns: 5_000_700,
            replied_ns: 5_000_720,
            op_offset_bytes: 0,
            op_bytes: 1,
        });
        piece.clock = Some(ClockOffset { offset_ns: 5_000_000 - 70, error_ns: 10 });
        let placed = piece.placed(70).expect("all is known");
        assert_eq!(placed.at_node, [300, 310, 400, 700, 720].map(Time));
        assert_eq!((placed.sent, placed.returned), (Time(110), Time(1_000)));
        piece.clock = None;
        assert_eq!(piece.placed(70).map(|p| p.at_node[0]), Some(Time(110 + (890 - 420) / 2)));
    }
}
