//! Failures of a node's device, as the answers to a gateway's pieces show them: a device that fails writes is linked and answers.

use std::time::Duration;

use crate::enums::listed;
use crate::op::{Failure, Op};
use crate::units::Time;

listed! {
    /// Kinds of operations that a device can fail, the most harmful first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DeviceOp {
        /// Flushes: nothing that was written since the last success can be relied on.
        Flush => "flushes",
        /// Writes, trims and write-zeroes.
        Write => "writes",
        /// Reads, maps of holes and digests.
        Read => "reads",
    }
}

impl DeviceOp {
    fn of(op: Op) -> DeviceOp {
        match op {
            Op::Flush => DeviceOp::Flush,
            Op::Write | Op::Trim | Op::WriteZeroes => DeviceOp::Write,
            Op::Read | Op::Map | Op::Digest => DeviceOp::Read,
        }
    }
}

/// For how long failed reads and writes are shown after the last of them. Failed flushes are shown until one succeeds.
pub const FAILURES_SHOWN: Duration = Duration::from_secs(600);

/// Failures of one kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedOps {
    /// The kind of operation.
    pub op: DeviceOp,
    /// Why, the last time.
    pub failure: Failure,
    /// How many failed since the device was last known to be well.
    pub count: u64,
    /// When the last one failed.
    pub last: Time,
}

impl FailedOps {
    fn is_shown(&self, now: Time) -> bool {
        self.op == DeviceOp::Flush || now - self.last < FAILURES_SHOWN
    }
}

/// Failures of a node's device.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceFailures {
    failed: [Option<FailedOps>; DeviceOp::ALL.len()],
    /// Failures since the gateway's start, by operation.
    totals: [u64; DeviceOp::ALL.len()],
}

impl DeviceFailures {
    /// A piece failed. Failures that say nothing about the device are left out: refused requests, a node that shuts down, bytes that do
    /// not match their checksum, which are counted as rot.
    pub fn note(&mut self, now: Time, op: Op, failure: Failure) {
        if !matches!(failure, Failure::Io | Failure::NoSpace | Failure::NotPermitted) {
            return;
        }
        let op = DeviceOp::of(op);
        self.totals[op as usize] += 1;
        let earlier = self.failed[op as usize].filter(|earlier| earlier.is_shown(now));
        let count = earlier.map_or(0, |earlier| earlier.count) + 1;
        self.failed[op as usize] = Some(FailedOps { op, failure, count, last: now });
    }

    /// A flush succeeded.
    pub fn flushed(&mut self) {
        self.failed[DeviceOp::Flush as usize] = None;
    }

    /// The device was started again, or is another one.
    pub fn restarted(&mut self) {
        self.failed = Default::default();
    }

    /// The kinds of failure that are to be shown now, the most harmful first.
    pub fn shown(&self, now: Time) -> impl Iterator<Item = FailedOps> {
        self.failed.iter().flatten().filter(move |failed| failed.is_shown(now)).copied()
    }

    /// Failures since the gateway's start, by operation.
    pub fn totals(&self) -> impl Iterator<Item = (DeviceOp, u64)> {
        DeviceOp::ALL.into_iter().map(|op| (op, self.totals[op as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn failed_flushes_are_shown_until_one_succeeds_and_others_for_ten_minutes() {
        let mut failures = DeviceFailures::default();
        let shown = |failures: &DeviceFailures, now: u64| -> Vec<(DeviceOp, u64)> {
            failures.shown(at(now)).map(|failed| (failed.op, failed.count)).collect()
        };
        assert_eq!(shown(&failures, 0), []);
        failures.note(at(1), Op::Digest, Failure::Io);
        failures.note(at(2), Op::WriteZeroes, Failure::NoSpace);
        failures.note(at(3), Op::Flush, Failure::Io);
        failures.note(at(4), Op::Flush, Failure::Io);
        assert_eq!(shown(&failures, 600), [(DeviceOp::Flush, 2), (DeviceOp::Write, 1), (DeviceOp::Read, 1)]);
        assert_eq!(shown(&failures, 601), [(DeviceOp::Flush, 2), (DeviceOp::Write, 1)]);
        assert_eq!(shown(&failures, 100_000), [(DeviceOp::Flush, 2)]);
        failures.flushed();
        assert_eq!(shown(&failures, 601), [(DeviceOp::Write, 1)]);
        assert_eq!(shown(&failures, 602), []);
        failures.note(at(700), Op::Write, Failure::Io);
        assert_eq!(shown(&failures, 700), [(DeviceOp::Write, 1)], "an old failure is not counted again");
        failures.restarted();
        assert_eq!(shown(&failures, 700), []);
        let totals: Vec<u64> = failures.totals().map(|(_, total)| total).collect();
        assert_eq!(totals, [2, 2, 1]);
    }

    #[test]
    fn failures_that_say_nothing_about_the_device_are_left_out() {
        let mut failures = DeviceFailures::default();
        let of_device = [Failure::Io, Failure::NoSpace, Failure::NotPermitted];
        for failure in Failure::ALL.into_iter().filter(|failure| !of_device.contains(failure)) {
            failures.note(at(1), Op::Read, failure);
        }
        assert_eq!(failures.shown(at(1)).count(), 0);
    }
}
