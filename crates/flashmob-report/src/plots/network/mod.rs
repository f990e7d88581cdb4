//! Figures of networks: P4's 6 to 10 and 15, and how throughput went from second to second.
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
use crate::Error;
use crate::entry::Entry;

const COMMAND: &str = "flashmob reproduce p4";

pub(super) fn sections(entries: &[Entry], next: &mut impl FnMut() -> usize) -> Result<Vec<Section>, Error> {
    Ok(vec![
        basic::section(entries, next)?,
        delay::tcp(entries, next)?,
        delay::udp(entries, next)?,
        delay::congestion(entries, next)?,
        delay::receiving(entries, next)?,
        moments::section(entries, next)?,
    ])
}

/// Rates are drawn in these.
const MEGABIT: f64 = 1e6;
