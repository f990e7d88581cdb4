//! How much is kept, whatever the capture holds.

/// Limits of an analysis. With the ones that are set by default a connection takes some 800 kB at the very most, if there are thousands of packets
/// both ways, and mostly a tenth of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that are looked at at once; of more, the one that was silent for the longest is closed.
    pub flows_at_once: usize,
    /// Connections in the result; those with most bytes.
    pub flows_told: usize,
    /// Segments of a way that wait for their acknowledgement; of more, round trips are not measured.
    pub waiting_segments: usize,
    /// Acknowledgements of a way that its sender, by its timestamps, has not seen yet; of more, the oldest counts as seen.
    pub unseen_acknowledgements: usize,
    /// Gaps in a way's data; of more, the oldest counts as filled.
    pub gaps: usize,
    /// Values of which quantiles are taken; of more, every second, fourth, eighth and so on counts.
    pub samples: usize,
    /// Points of a series; where there are more, the least and the most of each stretch stay.
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
