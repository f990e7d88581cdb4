//! What several of the benchmarks share.
//!
//! - `bars`: figures with bars, in groups
//! - `limit`: what air and flash can do of a load
//! - `outcome`: files in a folder, and an exit status

pub mod bars;
pub mod limit;
pub mod outcome;
