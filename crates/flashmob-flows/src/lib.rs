//! Analyzes the TCP connections in captured packets, and what limited each of them.
//!
//! - [`reader`]: packets from pcap and pcapng, also from files larger than memory
//! - [`packet`]: the headers of one packet
//! - [`Analyzer`]: connections with two directions each; counts and series in the form of results ([`flashmob_results::capture`])
//! - `way`: one direction, packet by packet
//! - `verdict`: the limiting cause and its evidence
//! - [`writer`]: pcapng, for captures of our own
//!
//! Every structure has a limit ([`Limits`]): memory does not grow with the capture. Input is untrusted: no bytes cause a panic.
//! The crate has no command line and prints nothing.

#![forbid(unsafe_code)]

mod analyzer;
mod clock;
mod connection;
mod copies;
mod limits;
pub mod packet;
mod premise;
#[cfg(test)]
mod premise_tests;
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
