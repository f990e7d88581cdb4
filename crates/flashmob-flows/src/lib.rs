//! What TCP connections did, and what held them back, out of captured packets.
//!
//! - [`reader`]: packets out of pcap and pcapng, from files larger than memory
//! - [`packet`]: headers of one packet
//! - [`Analyzer`]: connections, each with two ways; counts and series as results hold them ([`flashmob_results::capture`])
//! - `way`: what one way did, packet by packet
//! - `verdict`: what held it back, and on what that rests
//! - [`writer`]: pcapng, for what is captured here
//!
//! Every structure has a limit ([`Limits`]): memory does not grow with the capture. Bytes come from anybody: nothing panics, whatever they are.
//! It knows no command line and prints nothing.

#![forbid(unsafe_code)]

mod analyzer;
mod connection;
mod limits;
pub mod packet;
pub mod reader;
mod samples;
mod sequence;
mod series;
#[cfg(test)]
mod testing;
mod verdict;
mod way;
pub mod writer;

pub use analyzer::{Analyzer, Summary};
pub use limits::Limits;
