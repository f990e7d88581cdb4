//! What several of the benchmarks share.
//!
//! - `bars`: figures with bars, in groups
//! - `limit`: what air and flash can do of a load

pub mod bars;
pub mod limit;
