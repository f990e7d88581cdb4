//! Limits of memory, independent of the capture.

/// Limits of an analysis. With the defaults a connection takes at most about 800 kB, if there are thousands of packets
/// in both directions, and usually a tenth of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; beyond these the longest idle one is closed.
    pub flows_at_once: usize,
    /// Connections in the result: those with most bytes.
    pub flows_told: usize,
    /// Unacknowledged segments per direction; round trips of further ones are not measured.
    pub waiting_segments: usize,
    /// Acknowledgements per direction that its sender, by its timestamps, has not received yet; beyond these the oldest counts as received.
    pub unseen_acknowledgements: usize,
    /// Gaps in the data of a direction; beyond these the oldest counts as filled.
    pub gaps: usize,
    /// Samples for quantiles; beyond these every second, fourth, eighth and so on is kept.
    pub samples: usize,
    /// Points of a series; beyond these the minimum and maximum of each stretch are kept.
    pub points: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            flows_at_once: 1000,
            flows_told: 10,
            waiting_segments: 4096,
            unseen_acknowledgements: 1024,
            gaps: 256,
            samples: 2048,
            points: 2000,
        }
    }
}
