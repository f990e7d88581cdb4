//! The network between two devices: TCP, datagrams, and requests with answers, in iperf3's protocol, so that either end may be iperf3.
//!
//! Threads with blocking sockets transfer the bytes, one per stream; the thread of the control connection samples their counters. The
//! program must not limit the measurement, and counts only what was sent.
//!
//! - [`protocol`]: states, parameters, results, headers of datagrams, without I/O
//! - [`client`]: one test, from the connection to the counts of both ends
//! - [`server`]: one test after the other, for any client
//! - [`error`]: failures, with remedies

pub mod client;
mod control;
mod course;
pub mod error;
mod look;
mod messages;
mod outcome;
mod pace;
pub mod protocol;
pub mod server;
mod setup;
mod stream;
mod traffic;
mod udp;

pub use client::{Length, Plan, Run, Target, run};
pub use error::NetError;
pub use server::{Server, Told};
pub use setup::check_congestion;
