//! Findings of `flashmob doctor`: problems of a device or a path, their cost, and the remedy.
//!
//! It is not a measurement, so it has its own format: `schema/diagnosis-1.json`. A change that breaks readers gets a new number.

use serde::{Deserialize, Serialize};

use crate::device::Device;

/// Name of the format.
pub const FORMAT: &str = "flashmob-diagnosis";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;

/// One diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Diagnosis {
    /// Always `flashmob-diagnosis`.
    pub format: String,
    /// Version of this form: 1.
    pub format_version: u32,
    /// Version of the flashmob that looked.
    pub program_version: String,
    /// When: seconds since 1970-01-01 UTC.
    pub looked_unix_s: u64,
    /// The examined device.
    pub device: Device,
    /// The path to a peer, if one was named and answered.
    pub path: Option<Path>,
    /// All checks, in order.
    pub checks: Vec<Check>,
}

/// A path as it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The peer as it was named.
    pub peer: String,
    /// The interface that leads there.
    pub interface: Option<String>,
    /// Least round-trip time.
    pub rtt_ms: Option<f64>,
    /// Measured throughput, or the stated one.
    pub bits_per_second: Option<f64>,
    /// The throughput was measured, not stated.
    pub is_rate_measured: bool,
    /// Bandwidth times delay.
    pub bandwidth_delay_bytes: Option<u64>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Which, such as `receive-buffer`: never changes its meaning.
    pub name: String,
    /// Outcome.
    pub outcome: Outcome,
    /// What was found, with the values, in a sentence.
    pub found: String,
    /// What the problem costs, in one sentence; empty if nothing is wrong.
    pub cost: String,
    /// Command that fixes it; empty if nothing is wrong, or if no command can.
    pub command: String,
    /// `--fix` can run it.
    pub can_fix: bool,
    /// Advice where no command helps, or further information; may be empty.
    pub advice: String,
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Well,
    /// It costs something.
    Wrong,
    /// It will break something, or lose data.
    Severe,
    /// Could not be determined here.
    Unknown,
    /// Does not concern this device.
    NotApplicable,
}
