//! The offset between the clocks of two devices, estimated from messages.
//!
//! An exchange has four timestamps, as in NTP (RFC 5905): sent here, received there, sent there, received here. Nothing arrives before
//! it was sent, so each exchange bounds the other clock's offset: from below by the response, from above by the request. The middle is
//! off by at most half the round trip, however unequal the two directions are. Bounds of earlier exchanges still hold, widened by the
//! possible drift since; their intersection is narrower than the bounds of the shortest exchange alone.
//!
//! A bound holds only if *sent* was read before the bytes left, and *received* after they arrived. The caller ensures that.

/// The most that two clocks drift apart, in parts per million: crystals of cheap devices are off by at most 50. A clock that NTP slews
/// may differ by 500 for some minutes; then narrow bounds contradict each other, and the last one counts.
pub const DRIFT_PPM: u64 = 100;

/// Four timestamps in nanoseconds, the outer two by this end's clock, the inner two by the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The request left here.
    pub sent_ns: u64,
    /// The request had arrived there.
    pub received_there_ns: u64,
    /// The response left there.
    pub sent_there_ns: u64,
    /// The response had arrived here.
    pub returned_ns: u64,
}

/// The offset of another clock, with its maximum error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The other clock less this one; negative if it is behind.
    pub offset_ns: i64,
    /// The true offset lies no further than this from [`ClockOffset::offset_ns`].
    pub error_ns: u64,
}

/// The bounds of another clock's offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockRelation {
    /// The lower and the upper bound of the other clock's offset, and when they held, by this end's clock.
    known: Option<(i128, i128, u64)>,
}

impl ClockRelation {
    /// Takes an exchange into account. False if it is impossible: the inner timestamps are further apart than the outer ones.
    pub fn note(&mut self, exchange: Exchange) -> bool {
        let least = i128::from(exchange.sent_there_ns) - i128::from(exchange.returned_ns);
        let most = i128::from(exchange.received_there_ns) - i128::from(exchange.sent_ns);
        if least > most || exchange.returned_ns < exchange.sent_ns {
            return false;
        }
        let earlier = self.bounds(exchange.returned_ns);
        let both = earlier.map(|(low, high)| (low.max(least), high.min(most))).filter(|(low, high)| low <= high);
        // If they contradict each other, a clock has jumped (a device that slept), and the new bounds count.
        let (low, high) = both.unwrap_or((least, most));
        self.known = Some((low, high, exchange.returned_ns));
        true
    }

    /// Forgets all bounds: it may be another device.
    pub fn reset(&mut self) {
        self.known = None;
    }

    /// The offset at `now_ns` by this end's clock.
    #[must_use]
    pub fn offset(&self, now_ns: u64) -> Option<ClockOffset> {
        let (low, high) = self.bounds(now_ns)?;
        let middle = low + (high - low) / 2;
        let offset_ns = i64::try_from(middle.clamp(i64::MIN.into(), i64::MAX.into())).unwrap_or_default();
        Some(ClockOffset { offset_ns, error_ns: u64::try_from(high - middle).unwrap_or(u64::MAX) })
    }

    fn bounds(&self, now_ns: u64) -> Option<(i128, i128)> {
        let (low, high, at_ns) = self.known?;
        let drift = i128::from(now_ns.abs_diff(at_ns)) * i128::from(DRIFT_PPM) / 1_000_000;
        Some((low - drift, high + drift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An exchange at `at_ns` with a clock that is `ahead` of ours, the way there and back taking so long.
    fn exchange(at_ns: u64, ahead: i64, there_ns: u64, stay_ns: u64, back_ns: u64) -> Exchange {
        let at_theirs = |ns: u64| ns.checked_add_signed(ahead).expect("a time");
        Exchange {
            sent_ns: at_ns,
            received_there_ns: at_theirs(at_ns + there_ns),
            sent_there_ns: at_theirs(at_ns + there_ns + stay_ns),
            returned_ns: at_ns + there_ns + stay_ns + back_ns,
        }
    }

    proptest! {
        #[test]
        fn the_true_offset_is_never_outside_the_bounds(
            ahead in -1_000_000_000i64..1_000_000_000,
            drift_ppm in -100i64..=100,
            ways in prop::collection::vec((1u64..5_000_000_000, 0u64..3_000_000, 0u64..1_000_000, 0u64..3_000_000), 1..30),
        ) {
            let mut relation = ClockRelation::default();
            let mut at_ns = 10_000_000_000u64;
            for (pause, there, stay, back) in ways {
                at_ns += pause;
                // Their clock runs faster or slower from second 10 on; within one exchange that is nothing.
                let now_ahead = ahead + (at_ns as i64 - 10_000_000_000) / 1_000_000 * drift_ppm;
                prop_assert!(relation.note(exchange(at_ns, now_ahead, there, stay, back)));
                let end_ns = at_ns + there + stay + back;
                let found = relation.offset(end_ns).expect("it is known");
                let off = found.offset_ns.abs_diff(now_ahead);
                prop_assert!(off <= found.error_ns + 1_000, "off by {off}, said at most {}", found.error_ns);
                prop_assert!(found.error_ns <= (there + back).div_ceil(2) + 1, "no worse than the last exchange alone");
                at_ns = end_ns;
            }
        }

        #[test]
        fn nothing_that_a_peer_may_say_makes_it_panic(stamps in prop::collection::vec(any::<[u64; 4]>(), 1..20)) {
            let mut relation = ClockRelation::default();
            for [sent_ns, received_there_ns, sent_there_ns, returned_ns] in stamps {
                let _ = relation.note(Exchange { sent_ns, received_there_ns, sent_there_ns, returned_ns });
                let _ = relation.offset(returned_ns);
            }
        }
    }

    #[test]
    fn what_takes_longer_there_than_here_is_no_exchange() {
        let mut relation = ClockRelation::default();
        let wrong = Exchange { sent_ns: 100, received_there_ns: 0, sent_there_ns: 51, returned_ns: 150 };
        assert!(!relation.note(wrong));
        assert_eq!(relation.offset(150), None);
        assert!(relation.note(Exchange { sent_there_ns: 50, ..wrong }));
        assert_eq!(relation.offset(150), Some(ClockOffset { offset_ns: -100, error_ns: 0 }));
    }

    #[test]
    fn a_clock_that_jumped_is_believed_at_once() {
        let mut relation = ClockRelation::default();
        relation.note(exchange(1_000, 500, 10, 0, 10));
        relation.note(exchange(2_000, 9_000_000, 30, 0, 10));
        assert_eq!(relation.offset(2_040), Some(ClockOffset { offset_ns: 9_000_010, error_ns: 20 }));
    }

    #[test]
    fn bounds_widen_while_nothing_is_heard() {
        let mut relation = ClockRelation::default();
        relation.note(exchange(0, 0, 100, 0, 100));
        assert_eq!(relation.offset(200).map(|o| o.error_ns), Some(100));
        assert_eq!(relation.offset(10_000_200).map(|o| o.error_ns), Some(1_100));
        relation.reset();
        assert_eq!(relation.offset(200), None);
    }
}
