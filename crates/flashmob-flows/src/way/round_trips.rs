//! Round trips from data to their acknowledgements.
//!
//! A round trip is measured if an acknowledgement ends exactly at the end of a segment. Retransmitted segments are
//! excluded, because the acknowledgement is ambiguous (Karn's algorithm).

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    begin: i64,
    end: i64,
    sent_ns: i64,
    is_resent: bool,
}

/// Unacknowledged segments.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    /// Ascending, without overlaps.
    waiting: VecDeque<Waiting>,
}

impl RoundTrips {
    /// Adds data from `begin` to `end`, which may be sent again without that the first was captured; at most `limit` segments are kept.
    pub fn sent(&mut self, begin: i64, end: i64, now_ns: i64, is_resent: bool, limit: usize) {
        match self.waiting.back() {
            Some(last) if begin < last.end => {
                let from = self.waiting.partition_point(|w| w.end <= begin);
                for waiting in self.waiting.range_mut(from..).take_while(|w| w.begin < end) {
                    waiting.is_resent = true;
                }
            }
            _ if self.waiting.len() < limit => {
                self.waiting.push_back(Waiting { begin, end, sent_ns: now_ns, is_resent });
            }
            _ => {}
        }
    }

    /// Forgets all segments: round trips across a step of the clock are not known.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Removes all segments before `acknowledged`; returns the round trip in nanoseconds, if one is measured.
    pub fn acknowledged(&mut self, acknowledged: i64, now_ns: i64) -> Option<i64> {
        let mut measured = None;
        while let Some(front) = self.waiting.front().copied().filter(|front| front.end <= acknowledged) {
            if front.end == acknowledged && !front.is_resent {
                measured = Some(now_ns - front.sent_ns);
            }
            self.waiting.pop_front();
        }
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_once_and_ends_there_is_measured() {
        let mut trips = RoundTrips::default();
        for at in 0..6 {
            trips.sent(at * 100, at * 100 + 100, at, false, 10);
        }
        assert_eq!(trips.acknowledged(100, 50), Some(50));
        assert_eq!(trips.acknowledged(250, 60), None, "in the middle of a segment");
        trips.sent(200, 300, 61, true, 10);
        assert_eq!(trips.acknowledged(300, 70), None, "sent twice");
        assert_eq!(trips.acknowledged(500, 80), Some(76), "from the last of several");
        assert_eq!(trips.acknowledged(500, 90), None, "once");
        trips.sent(600, 700, 91, true, 10);
        assert_eq!(trips.acknowledged(700, 92), None, "sent twice, captured once");
    }

    #[test]
    fn of_too_many_the_last_are_not_measured() {
        for (limit, measured) in [(2, None), (3, Some(7)), (4, Some(7))] {
            let mut trips = RoundTrips::default();
            for at in 0..3 {
                trips.sent(at * 100, at * 100 + 100, at, false, limit);
            }
            assert_eq!(trips.acknowledged(300, 9), measured, "{limit}");
        }
    }
}
