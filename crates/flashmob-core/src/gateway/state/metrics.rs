//! What is counted and followed.

use super::samples::Samples;
use crate::stages::{GatewayInterval, StageRecorder};

/// Counters since the start.
#[derive(Debug, Default, Clone)]
pub struct Counters {
    /// By the operation's wire number.
    pub requests: [u64; 6],
    pub read_at_once: u64,
    pub failures: u64,
    pub timeouts: u64,
    pub client_errors: u64,
    pub link_errors: u64,
    pub losses: u64,
}

/// Counters, times between stages, and followed requests.
#[derive(Debug)]
pub struct Metrics {
    pub counters: Counters,
    pub stages: StageRecorder<GatewayInterval>,
    pub samples: Samples,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics { counters: Counters::default(), stages: StageRecorder::new(), samples: Samples::default() }
    }
}
