//! The clock of a capture, without its steps.
//!
//! The capturing machine's clock may be set while it captures, and captures of several interfaces may have several clocks. Times
//! that step back would give negative round trips and rates of any size. From a step on, times continue where they were; which
//! packet stepped is remembered, and figures across it are doubtful.

/// Packets of several queues are captured up to this much out of order; more is a step.
pub const DISORDER_NS: i64 = 1_000_000;
/// A step is undone by a leap forwards as large within so many packets: a packet was late, or two clocks alternate.
const UNDONE_PACKETS: u32 = 16;
/// Times are limited to this, so that no sum overflows.
const LIMIT_NS: i64 = 1 << 60;

/// Steps of the clock so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// How many.
    pub count: u64,
    /// The first packet, and the last, before which the clock stepped back.
    pub first_packet: u64,
    pub last_packet: u64,
    /// The largest.
    pub largest_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    back_ns: i64,
    packets: u32,
}

/// Follows the times of packets.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    last_ns: Option<i64>,
    /// Added to the capture's times.
    offset_ns: i64,
    recent: Option<Recent>,
    /// The latest time so far.
    told_ns: i64,
    pub steps: Steps,
}

impl Clock {
    /// The time of packet `number`, captured at `time_ns` after the first: never more than [`DISORDER_NS`] before an earlier one.
    pub fn at(&mut self, time_ns: i64, number: u64) -> i64 {
        let time_ns = time_ns.clamp(-LIMIT_NS, LIMIT_NS);
        let is_first = self.last_ns.is_none();
        let last_ns = self.last_ns.replace(time_ns).unwrap_or(time_ns);
        let forwards_ns = time_ns.saturating_sub(last_ns);
        let back_ns = self.told_ns.saturating_sub(time_ns.saturating_add(self.offset_ns));
        if !is_first && back_ns > DISORDER_NS {
            self.offset_ns = self.offset_ns.saturating_add(back_ns);
            self.recent = Some(Recent { back_ns, packets: UNDONE_PACKETS });
            if self.steps.count == 0 {
                self.steps.first_packet = number;
            }
            self.steps.count += 1;
            self.steps.last_packet = number;
            self.steps.largest_ns = self.steps.largest_ns.max(back_ns);
        } else if let Some(recent) = self.recent.take() {
            let undone_ns = self.offset_ns.saturating_sub(recent.back_ns);
            let is_leap = forwards_ns >= recent.back_ns - DISORDER_NS;
            if is_leap && time_ns.saturating_add(undone_ns) >= self.told_ns - DISORDER_NS {
                self.offset_ns = undone_ns;
            } else if recent.packets > 1 {
                self.recent = Some(Recent { packets: recent.packets - 1, ..recent });
            }
        }
        // Centuries of steps would not fit.
        let told_ns = time_ns.saturating_add(self.offset_ns).clamp(-LIMIT_NS, LIMIT_NS);
        self.told_ns = if is_first { told_ns } else { self.told_ns.max(told_ns) };
        told_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn times(captured_ms: &[i64]) -> (Vec<i64>, Steps) {
        let mut clock = Clock::default();
        let times = captured_ms.iter().zip(1..).map(|(ms, number)| clock.at(ms * MS, number) / MS).collect();
        (times, clock.steps)
    }

    #[test]
    fn times_go_on_where_the_clock_steps_back() {
        let (found, steps) = times(&[0, 10, 20, -480, -470, -460, -450]);
        assert_eq!(found, [0, 10, 20, 20, 30, 40, 50]);
        assert_eq!((steps.count, steps.first_packet, steps.largest_ns), (1, 4, 500 * MS));
    }

    #[test]
    fn packets_that_are_late_leave_the_others_times_as_they_are() {
        let (found, steps) = times(&[0, 10, 20, 15, 30, 25, 40]);
        assert_eq!(found, [0, 10, 20, 20, 30, 30, 40]);
        assert_eq!((steps.count, steps.first_packet, steps.last_packet), (2, 4, 6));
    }

    #[test]
    fn disorder_up_to_a_millisecond_is_no_step() {
        for (back_ns, count) in [(DISORDER_NS - 1, 0), (DISORDER_NS, 0), (DISORDER_NS + 1, 1)] {
            let mut clock = Clock::default();
            clock.at(50 * MS, 1);
            let found = clock.at(50 * MS - back_ns, 2);
            assert_eq!((clock.steps.count, found == 50 * MS - back_ns), (count, count == 0), "{back_ns}");
        }
    }

    proptest! {
        #[test]
        fn no_time_is_more_than_the_disorder_before_another(captured in proptest::collection::vec(any::<i64>(), 1..60), small in any::<bool>()) {
            let mut clock = Clock::default();
            let mut last_ns = i64::MIN;
            for (time_ns, number) in captured.iter().zip(1..) {
                let found = clock.at(if small { time_ns % (40 * MS) } else { *time_ns }, number);
                prop_assert!(last_ns == i64::MIN || found >= last_ns - DISORDER_NS || !small);
                last_ns = last_ns.max(found);
            }
        }
    }
}
