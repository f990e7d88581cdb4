//! Figures of networks: P4's 6 to 10 and 15, and throughput over time.
//!
//! - `basic`: TCP and UDP where nothing was added
//! - `delay`: over the round-trip time, both ways, congestion controls, receive maxima
//! - `moments`: over time
//! - `axis`: round-trip times across

mod axis;
mod basic;
mod delay;
mod moments;

use super::Section;
use crate::entry::Entry;

const COMMAND: &str = "flashmob reproduce p4";

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    vec![
        basic::section(entries),
        delay::tcp(entries),
        delay::udp(entries),
        delay::congestion(entries),
        delay::receiving(entries),
        delay::other_congestion(entries),
        moments::section(entries),
    ]
}

const MEGABIT: f64 = 1e6;
