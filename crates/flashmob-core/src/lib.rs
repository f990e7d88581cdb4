//! flashmob's protocols and state machines, sans-IO.
//!
//! Nothing in this crate opens a socket or a file, starts a thread, reads a clock or draws a random number. State machines take
//! `now` and bytes, and return bytes and actions, so the same code runs behind real sockets and in virtual time with injected faults.
//!
//! docs/life-of-a-read.md follows a read through the files.

#![forbid(unsafe_code)]

pub mod buckets;
pub mod buffers;
pub mod checksum;
pub mod clocks;
pub mod condition;
pub mod copies;
pub mod counters;
pub mod device_model;
pub mod diagnosis;
pub mod elevator;
mod enums;
pub mod gateway;
pub mod layout;
pub mod nbd;
pub mod node;
pub mod op;
pub mod planted;
pub mod request;
pub mod stages;
pub mod strangers;
pub mod units;
pub mod wire;
