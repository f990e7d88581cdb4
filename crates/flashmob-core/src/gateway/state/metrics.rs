//! Counters, histograms and samples.

use super::live::Live;
use super::samples::Samples;
use crate::counters::counters;
use crate::op::Op;
use crate::stages::{GatewayInterval, StageRecorder};

counters! {
    /// Counters of a gateway since its start, besides requests.
    pub struct GatewayCounters {
        failures: "Requests that failed",
        timeouts: "Requests that failed by timeout",
        client_errors: "Clients dropped for protocol errors",
        link_errors: "Links dropped for protocol errors of the node",
        losses: "Times that a device lost acknowledged writes that were not flushed",
        read_at_once as "reads_at_once": "Reads served immediately from extents in the gateway's process",
    }
}

/// Counters, times between stages, sampled requests, and what nodes did each second.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests accepted, by the operation's wire number.
    pub requests: [u64; Op::ALL.len() + 1],
    pub counters: GatewayCounters,
    pub stages: StageRecorder<GatewayInterval>,
    pub samples: Samples,
    pub live: Live,
}
