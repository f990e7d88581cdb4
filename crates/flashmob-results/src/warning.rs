//! Warnings: reasons to doubt a figure.

use serde::{Deserialize, Serialize};

/// One warning, for people and for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Kind of warning.
    pub code: Code,
    /// Message with the figures and a remedy.
    pub message: String,
}

/// Kinds of warnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Requests that should have reached the disk were answered from memory.
    ServedFromCache,
    /// The page cache could not be dropped, or not be checked.
    CacheNotDropped,
    /// Requests that should have been answered from memory reached the disk.
    NotCached,
    /// The device was hot or its processors were slowed down.
    Throttled,
    /// Other processes used the disk meanwhile.
    OtherIo,
    /// The repetitions differ widely.
    WideSpread,
    /// Too few requests for the percentile that is shown.
    FewSamples,
    /// The file is smaller than memory.
    SmallFile,
    /// Parts of what was read were never written: holes, which are answered without the disk.
    NotAllocated,
    /// Extents of several nodes are on one disk, and share what it can do.
    SharedDisk,
    /// A scheduler could not be set, or not be put back.
    Scheduler,
    /// Requests failed.
    Errors,
    /// A repetition was too short to mean much.
    Short,
    /// Stopped before the end.
    Interrupted,
    /// The preset was shortened.
    Scaled,
    /// A model answered, not a device.
    Modelled,
    /// The processor was emulated: counts are valid, times are not.
    Emulated,
    /// The model answered late: the machine was too busy for its timing.
    Late,
    /// Something was measured differently from what was asked for.
    Changed,
    /// Packets are missing from a capture, or could not be read.
    Incomplete,
    /// The clock of a capture, or of an end that stamps datagrams, stepped: figures that rest on times are doubtful.
    ClockStepped,
    /// A capture has packets more than once.
    Copies,
    /// The device's clock was not set: figures are valid, dates are not.
    ClockNotSet,
}

impl Warning {
    /// A warning of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into() }
    }
}
