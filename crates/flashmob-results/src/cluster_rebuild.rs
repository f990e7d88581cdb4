//! What clients of a simulated cluster feel while a node's copies are made again.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;

/// One rebuild. The repetition that it belongs to is what clients did meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rebuild {
    /// Of clients' requests before it, while the node was away, in nanoseconds.
    pub before_latency_ns: Latency,
    /// How long the medium was busy before it, as a fraction of the time.
    pub before_busy_fraction: f64,
    /// Requests of clients in a second that take the wanted part of the air; absent if each answer was followed by the next request.
    pub asked_per_second: Option<f64>,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that nodes hashed, on all copies together.
    pub digested_bytes: u64,
    /// Bytes of these hashes.
    pub digest_bytes: u64,
    /// Bytes copied in a second.
    pub bytes_per_second: f64,
    /// The same without clients, of blocks that all differ.
    pub alone_bytes_per_second: f64,
    /// How long the medium was busy then, as a fraction of the time.
    pub alone_busy_fraction: f64,
    /// Bytes copied in a second, as a fraction of those without clients times the part of the air that clients left.
    pub used_of_left: f64,
    /// Seconds until all copies were current; absent if it was not watched for so long.
    pub took_s: Option<f64>,
    /// How far off the forecast of the time left was, as a fraction of it: when a tenth of the copies was current. Absent if it did not end.
    pub eta_error: Option<f64>,
    /// The worst of these from then on until nine tenths were.
    pub eta_error_worst: Option<f64>,
}

impl Rebuild {
    /// How many times as long clients' requests took as before, at a percentile; `during` are theirs meanwhile.
    #[must_use]
    pub fn times_as_long(&self, during: &Latency, percentile: f64) -> Option<f64> {
        let before = self.before_latency_ns.percentile_ns(percentile).filter(|ns| *ns > 0)?;
        Some(during.percentile_ns(percentile)? as f64 / before as f64)
    }
}
