//! flashmob's protocols and state machines, sans-IO.
//!
//! Nothing in this crate opens a socket or a file, starts a thread, reads a clock or draws a random
//! number. State machines take `now` and bytes, and give back bytes and actions. The same code
//! therefore runs behind real sockets and in virtual time with injected faults.
//!
//! The way of a read, file by file, is told in docs/life-of-a-read.md.

#![forbid(unsafe_code)]

pub mod buffers;
pub mod checksum;
pub mod clocks;
pub mod condition;
pub mod counters;
pub mod device_model;
pub mod elevator;
pub mod gateway;
pub mod layout;
pub mod nbd;
pub mod node;
pub mod op;
pub mod planted;
pub mod request;
pub mod stages;
#[cfg(feature = "testing")]
pub mod testing;
pub mod units;
pub mod wire;
