//! Directions of captured connections for claims and figures, those with most data first.

use flashmob_results::capture::{Capture, Cause, Flow, Way};
use flashmob_results::net::Direction;

/// Directions with fewer data packets are ignored.
const DATA_PACKETS_MIN: u64 = 10;

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct CapturedWay<'a> {
    pub flow: &'a Flow,
    pub direction: Direction,
    pub way: &'a Way,
}

impl CapturedWay<'_> {
    /// The sender and the receiver.
    pub fn ends(&self) -> (&str, &str) {
        match self.direction {
            Direction::Down => (&self.flow.server, &self.flow.client),
            Direction::Up | Direction::Both => (&self.flow.client, &self.flow.server),
        }
    }
}

/// Every direction of a connection with at least [`DATA_PACKETS_MIN`] data packets, those with most data first.
pub fn ways(capture: &Capture) -> Vec<CapturedWay<'_>> {
    let both = capture.flows.iter().flat_map(|flow| {
        [(Direction::Up, &flow.up), (Direction::Down, &flow.down)].map(|(direction, way)| CapturedWay {
            flow,
            direction,
            way,
        })
    });
    let mut all: Vec<CapturedWay> = both.filter(|m| m.way.data_packets >= DATA_PACKETS_MIN).collect();
    // The sort is stable.
    all.sort_by_key(|m| std::cmp::Reverse(m.way.unique_bytes));
    all
}

/// The direction with most data.
pub fn main(capture: &Capture) -> Option<CapturedWay<'_>> {
    ways(capture).into_iter().next()
}

pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiverLimited => "receiver-limited",
        Cause::SenderLimited => "sender-limited",
        Cause::CongestionLimited => "congestion-limited",
        Cause::ApplicationLimited => "application-limited",
    }
}
