//! Directions of captured connections for claims and figures, those with most data first.

use flashmob_results::capture::{Capture, Cause, Flow, Way};
use flashmob_results::net::Direction;

/// Packets with data that a way must have before it says anything.
const DATA_PACKETS_MIN: u64 = 10;

/// One way of a connection.
#[derive(Clone, Copy, Debug)]
pub struct CapturedWay<'a> {
    /// The connection.
    pub flow: &'a Flow,
    /// Which way.
    pub direction: Direction,
    /// What it was like.
    pub way: &'a Way,
}

impl CapturedWay<'_> {
    /// Who sent, and who received.
    pub fn ends(&self) -> (&str, &str) {
        match self.direction {
            Direction::Down => (&self.flow.server, &self.flow.client),
            Direction::Up | Direction::Both => (&self.flow.client, &self.flow.server),
        }
    }
}

/// Every way of a connection that carried more than a few packets of data, those with most data first.
pub fn ways(capture: &Capture) -> Vec<CapturedWay<'_>> {
    let both = capture.flows.iter().flat_map(|flow| {
        [(Direction::Up, &flow.up), (Direction::Down, &flow.down)].map(|(direction, way)| CapturedWay {
            flow,
            direction,
            way,
        })
    });
    let mut all: Vec<CapturedWay> = both.filter(|m| m.way.data_packets >= DATA_PACKETS_MIN).collect();
    // The sort is stable: of equal ones the first stays first.
    all.sort_by_key(|m| std::cmp::Reverse(m.way.unique_bytes));
    all
}

/// The one with most data.
pub fn main(capture: &Capture) -> Option<CapturedWay<'_>> {
    ways(capture).into_iter().next()
}

/// A cause in words.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiverLimited => "receiver-limited",
        Cause::SenderLimited => "sender-limited",
        Cause::CongestionLimited => "congestion-limited",
        Cause::ApplicationLimited => "application-limited",
    }
}
