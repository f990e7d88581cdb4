//! Counters, histograms and samples.

use super::samples::Samples;
use crate::counters::counters;
use crate::stages::{GatewayInterval, StageRecorder};

counters! {
    /// Counters of a gateway since its start, besides requests.
    pub struct GatewayCounters {
        failures: "Requests that ended with an error",
        timeouts: "Requests that ended with an error because they took too long",
        client_errors: "Clients dropped because of what they sent",
        link_errors: "Links dropped because of what the node sent",
        losses: "Times that a device lost changes acknowledged but not flushed",
        read_at_once as "reads_at_once": "Reads that extents in the gateway's process answered at once, without a batch",
    }
}

/// Counters, times between stages, and sampled requests.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests accepted, by the operation's wire number.
    pub requests: [u64; 6],
    pub counters: GatewayCounters,
    pub stages: StageRecorder<GatewayInterval>,
    pub samples: Samples,
}
