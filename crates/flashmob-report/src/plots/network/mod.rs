//! Figures of networks: P4's 6 to 10 and 15, throughput over time, and other congestion controls.
//!
//! - `basic`: TCP and UDP where nothing was added
//! - `delay`: over the round-trip time, both ways, congestion controls, receive maxima
//! - `moments`: over time
//! - `axis`: round-trip times across

mod axis;
mod basic;
mod delay;
mod moments;

use super::{Place, Section};
use crate::entry::Entry;

const COMMAND: &str = "flashmob reproduce p4";

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    vec![
        basic::section(entries),
        delay::tcp(entries),
        delay::udp(entries),
        delay::congestion(entries),
        delay::receiving(entries),
        moments::section(entries),
    ]
}

/// Beyond P4, after all of its figures.
pub(super) fn other_congestion(entries: &[Entry]) -> Section {
    delay::other_congestion(entries)
}

const MEGABIT: f64 = 1e6;
