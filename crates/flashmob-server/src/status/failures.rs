//! Failures of a node's device, as its gateway sees it.

use std::collections::BTreeMap;

use flashmob_core::gateway::{DeviceFailures, DeviceOp, FailedOps};
use flashmob_core::op::Failure;
use flashmob_core::units::Time;
use flashmob_text::count;
use serde::{Deserialize, Serialize};

use super::finding::{Cause, Finding, Severity};

/// Failures of a node's device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailuresReport {
    /// Operations that failed since the gateway's start, by kind: `flushes`, `writes`, `reads`.
    pub totals: BTreeMap<String, u64>,
    /// Operations that fail now, the most harmful first: flushes until one succeeds, others for ten minutes after the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailedReport>,
}

/// One kind of operation that a device fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedReport {
    /// `flushes`, `writes` or `reads`.
    pub op: String,
    /// The reason: `error`, `full` or `read-only`.
    pub reason: String,
    /// How many failed since the device was last well.
    pub count: u64,
    /// How long ago the last one failed.
    pub seconds_ago: f64,
}

impl FailuresReport {
    /// The state `now`.
    #[must_use]
    pub fn of(failures: &DeviceFailures, now: Time) -> FailuresReport {
        FailuresReport {
            totals: failures.totals().map(|(op, total)| (op.name().to_string(), total)).collect(),
            failing: failures.shown(now).map(|failed| FailedReport::of(failed, now)).collect(),
        }
    }

    /// The failures in words: `fails flushes and is read-only`; `None` if it is well.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let mut words: Vec<String> = self.failing.iter().map(FailedReport::words).collect();
        words.dedup();
        (!words.is_empty()).then(|| words.join(" and "))
    }

    /// The finding about a device that fails.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let counts: Vec<String> = self.failing.iter().map(|of| format!("{} {}", of.op, count(of.count))).collect();
        let found = format!("its device {} (failed: {})", self.words()?, counts.join(", "));
        let is = |reason: &str| self.failing.iter().any(|of| of.reason == reason);
        let remedy = match self.failing.iter().any(|of| of.op == DeviceOp::Flush.name()) {
            true if is(FULL) => "make room on it, and restart the node",
            false if is(FULL) => "make room on it",
            _ => "replace it, or restart the device; the node's log has the error",
        };
        Some(Finding::new(Cause::Device, Severity::Severe, found, remedy))
    }
}

const FULL: &str = "full";
const READ_ONLY: &str = "read-only";

impl FailedReport {
    fn of(failed: FailedOps, now: Time) -> FailedReport {
        let reason = match failed.failure {
            Failure::NoSpace => FULL,
            Failure::NotPermitted => READ_ONLY,
            _ => "error",
        };
        FailedReport {
            op: failed.op.name().to_string(),
            reason: reason.to_string(),
            count: failed.count,
            seconds_ago: (now - failed.last).as_secs_f64(),
        }
    }

    fn words(&self) -> String {
        match &*self.reason {
            FULL | READ_ONLY => format!("is {}", self.reason),
            _ => format!("fails {}", self.op),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flashmob_core::op::Op;

    use super::*;

    #[test]
    fn each_failing_operation_is_named_with_its_reason_and_its_remedy() {
        let sentence = |failed: &[(Op, Failure)]| {
            let mut failures = DeviceFailures::default();
            failed.iter().for_each(|&(op, failure)| failures.note(Time(1), op, failure));
            let report = FailuresReport::of(&failures, Time(1) + Duration::from_secs(2));
            report.finding().map(|finding| finding.sentence(&[]))
        };
        assert_eq!(sentence(&[]), None);
        for (failed, expected) in [
            (
                &[(Op::Flush, Failure::Io), (Op::Flush, Failure::Io)][..],
                "its device fails flushes (failed: flushes 2); replace it, or restart the device; the node's log has the error",
            ),
            (
                &[(Op::Read, Failure::Io), (Op::Flush, Failure::Io), (Op::Write, Failure::NotPermitted)],
                "its device fails flushes and is read-only and fails reads (failed: flushes 1, writes 1, reads 1); replace it, or restart the device; the node's log has the error",
            ),
            (&[(Op::Write, Failure::NoSpace)], "its device is full (failed: writes 1); make room on it"),
            (
                &[(Op::Write, Failure::NoSpace), (Op::Flush, Failure::NoSpace)],
                "its device is full (failed: flushes 1, writes 1); make room on it, and restart the node",
            ),
        ] {
            assert_eq!(sentence(failed).as_deref(), Some(expected));
        }
    }
}
