//! Sequence numbers without wrapping, and the captured ones among them.

/// Extends the sequence numbers of one direction beyond 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrapper {
    near: Option<i64>,
}

impl Unwrapper {
    /// The extended number of `wrapped`: the one nearest to the last noted number.
    pub fn unwrap(&mut self, wrapped: u32) -> i64 {
        // Far enough from 0 that numbers before the first packet are positive.
        let near = *self.near.get_or_insert((1 << 32) + i64::from(wrapped));
        near + i64::from(wrapped.wrapping_sub(near as u32).cast_signed())
    }

    /// Sets the number near which others are expected.
    pub fn note(&mut self, number: i64) {
        self.near = Some(number);
    }
}

/// A stretch beyond the first gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    begin: i64,
    end: i64,
    /// Time of its first data, since which the gap before it is known.
    since_ns: i64,
}

/// The captured bytes of a direction.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bytes from `begin` to `end` were captured without a gap.
    begin: Option<i64>,
    end: i64,
    /// Ascending and disjoint.
    beyond: Vec<Stretch>,
    /// Data before this number were sent, and since when that is known.
    reached: Option<(i64, i64)>,
}

/// The effect of a packet's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Bytes that had not been captured before.
    pub new_bytes: u64,
    /// The data fill a gap that is known since this time.
    pub gap_since_ns: Option<i64>,
}

impl Seen {
    /// Sets the number of the first byte, which the handshake shows.
    pub fn open(&mut self, begin: i64) {
        if self.begin.is_none() {
            (self.begin, self.end) = (Some(begin), begin);
        }
    }

    /// True if data were captured, or the first byte's number is known.
    pub fn is_open(&self) -> bool {
        self.begin.is_some()
    }

    /// Notes that data before `number` were sent, whether they were captured or not.
    pub fn reached(&mut self, number: i64, now_ns: i64) {
        self.reached = match self.reached {
            Some((before, _)) if number <= before => return,
            // The gap before it is still open.
            Some((before, since_ns)) if self.end < before => Some((number, since_ns)),
            _ => Some((number, now_ns)),
        };
    }

    /// The number before which there is no gap.
    pub fn whole_to(&self) -> i64 {
        self.end
    }

    /// Counts the bytes before `number` that were not captured as captured from now on, and returns how many they are.
    pub fn fill(&mut self, number: i64) -> u64 {
        if self.begin.is_none() || number <= self.end {
            return 0;
        }
        let held: i64 = self.beyond.iter().map(|s| (s.end.min(number) - s.begin.min(number)).max(0)).sum();
        let missing = number - self.end - held;
        self.end = number;
        self.beyond.retain(|stretch| stretch.end > number);
        if let Some(first) = self.beyond.first().filter(|first| first.begin <= number) {
            self.end = first.end;
            self.beyond.remove(0);
        }
        missing.max(0).cast_unsigned()
    }

    /// Adds data from `begin` to `end`; keeps at most `gaps_max` gaps.
    pub fn add(&mut self, begin: i64, end: i64, now_ns: i64, gaps_max: usize) -> Added {
        self.open(begin);
        // Data before the first captured byte count as old.
        let (begin, end) = (begin.max(self.end), end.max(self.end));
        let mut added = Added { new_bytes: (end - begin).cast_unsigned(), gap_since_ns: None };
        if begin == end {
            return Added::default();
        }
        let mut merged = Stretch { begin, end, since_ns: now_ns };
        let first = self.beyond.partition_point(|s| s.end < begin);
        let last = self.beyond.partition_point(|s| s.begin <= end);
        if let Some(next) = self.beyond.get(first).filter(|next| next.begin > begin || next.end > begin) {
            added.gap_since_ns = (next.begin > begin).then_some(next.since_ns);
        }
        // A packet without data showed the gap.
        if let Some((_, since_ns)) = self.reached.filter(|(number, _)| end <= *number) {
            added.gap_since_ns = Some(added.gap_since_ns.map_or(since_ns, |since| since.min(since_ns)));
        }
        for stretch in &self.beyond[first..last] {
            let overlap = stretch.end.min(end) - stretch.begin.max(begin);
            added.new_bytes -= overlap.max(0).cast_unsigned();
            merged.begin = merged.begin.min(stretch.begin);
            merged.end = merged.end.max(stretch.end);
            merged.since_ns = merged.since_ns.min(stretch.since_ns);
        }
        self.beyond.splice(first..last, [merged]);
        if self.beyond.len() > gaps_max && self.beyond[0].begin > self.end {
            self.end = self.beyond[0].begin;
        }
        if self.beyond[0].begin <= self.end {
            self.end = self.beyond.remove(0).end;
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_go_on_where_they_wrap() {
        let mut numbers = Unwrapper::default();
        let first = numbers.unwrap(u32::MAX - 9);
        assert_eq!(numbers.unwrap(10), first + 20);
        assert_eq!(numbers.unwrap(u32::MAX - 19), first - 10);
        numbers.note(first + 20);
        assert_eq!(numbers.unwrap(11), first + 21);
    }

    #[test]
    fn gaps_are_filled_and_bytes_count_once() {
        let mut seen = Seen::default();
        let mut add = |begin, end, now_ns| {
            let added = seen.add(begin, end, now_ns, 8);
            (added.new_bytes, added.gap_since_ns)
        };
        assert_eq!(add(100, 200, 1), (100, None));
        assert_eq!(add(300, 400, 2), (100, None), "beyond a gap");
        assert_eq!(add(500, 600, 3), (100, None));
        assert_eq!(add(250, 300, 4), (50, Some(2)), "into the gap that 300 showed");
        assert_eq!(add(150, 260, 5), (50, Some(2)), "half old, half new");
        assert_eq!(add(100, 400, 6), (0, None), "all old");
        assert_eq!(add(380, 700, 7), (200, Some(3)), "over a stretch and beyond");
        assert_eq!(add(0, 50, 8), (0, None), "before the capture");
    }

    #[test]
    fn of_too_many_gaps_the_oldest_counts_as_filled() {
        for (gaps_max, is_forgotten) in [(2, true), (3, false), (4, false)] {
            let mut seen = Seen::default();
            for begin in [0, 20, 40, 60] {
                seen.add(begin, begin + 10, 1, gaps_max);
            }
            assert_eq!(seen.add(10, 20, 2, gaps_max).new_bytes == 0, is_forgotten, "{gaps_max}");
        }
    }

    #[test]
    fn a_number_shows_that_data_before_it_were_sent() {
        let mut seen = Seen::default();
        seen.add(0, 100, 1, 8);
        seen.reached(200, 2);
        assert_eq!(seen.add(100, 150, 3, 8), Added { new_bytes: 50, gap_since_ns: Some(2) });
        assert_eq!(seen.add(150, 250, 4, 8).gap_since_ns, None, "it goes beyond");
    }

    #[test]
    fn what_was_acknowledged_without_being_captured_is_missing_once() {
        let mut seen = Seen::default();
        seen.open(0);
        seen.add(100, 200, 1, 8);
        seen.add(300, 400, 1, 8);
        seen.add(500, 600, 1, 8);
        assert_eq!(seen.fill(50), 50);
        assert_eq!(seen.fill(350), 150, "from 50 to 100, and from 200 to 300");
        assert_eq!((seen.whole_to(), seen.fill(400)), (400, 0));
        assert_eq!(seen.fill(700), 200);
        assert_eq!(seen.add(0, 800, 2, 8).new_bytes, 100, "what is missing is not new when it comes again");
    }

    proptest! {
        #[test]
        fn each_byte_is_new_once(parts in proptest::collection::vec((0_i64..300, 1_i64..40), 1..80)) {
            let mut seen = Seen::default();
            let mut bytes = std::collections::HashSet::new();
            let first = parts[0].0;
            let mut sum = 0;
            for (at, (begin, len)) in parts.iter().enumerate() {
                bytes.extend((*begin..begin + len).filter(|byte| *byte >= first));
                sum += seen.add(*begin, begin + len, at as i64, 1000).new_bytes;
                prop_assert_eq!(sum, bytes.len() as u64);
            }
        }
    }
}
