//! The network between two devices: TCP, datagrams, and requests with answers, in the protocol of iperf3, so that either end may be one.
//!
//! Plain threads with blocking sockets move the bytes, one a stream; the thread that holds the control connection looks at them now and
//! then. It must never be what limits the measurement, and never count what it only meant to send.
//!
//! - [`protocol`]: states, parameters, results, headers of datagrams, without I/O
//! - [`client`]: one test, from the connection to what both ends counted
//! - [`server`]: one test after the other, for whoever comes
//! - [`error`]: what can go wrong

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
