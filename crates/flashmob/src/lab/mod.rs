//! The lab: real processes and real TCP stacks over a modelled air, on one machine.
//!
//! ```text
//!   host of the gateway                     host of a node, as often as wanted
//!   flashmob gateway, COMMAND               flashmob node, its flash modelled
//!   TCP/IP of the kernel                    TCP/IP of the kernel
//!   TAP ── frames ──▶ medium: the air's model says what arrives, and when ──▶ TAP
//! ```
//!
//! - [`status`]: what a running lab tells those inside
//! - [`run`]: puts a lab together, runs a command in it, says how it went
//! - [`namespace`], [`signals`]: a world of its own that vanishes with its first process; signals on their way into it
//! - [`host`], [`tap`], [`netlink`], [`address`]: hosts with interfaces and addresses
//! - [`medium`], [`frame`], [`lateness`]: frames between them, in time
//! - [`cluster`]: the processes in the hosts
//! - [`nodes`]: how late the nodes' modelled flash was
//! - [`control`]: the socket behind [`status`]
//!
//! Nothing of a lab may ever outlive it, and nothing it does may be seen by the rest of the machine but as load.

pub mod status;

#[cfg(target_os = "linux")]
mod address;
#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod host;
pub mod lateness;
#[cfg(target_os = "linux")]
mod medium;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod nodes;
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod tap;

pub use plan::{NODES_MAX, Plan};
#[cfg(target_os = "linux")]
pub use run::run;

/// Exit status: the command was well, but the lab was too late for its figures to be trusted. As in sysexits.h: try again.
pub const STATUS_LATE: u8 = 75;
/// Exit status: the lab could not be made, or broke. As with env and timeout, so that it is not taken for the command's.
pub const STATUS_IMPOSSIBLE: u8 = 125;
/// Exit status: the command could not be run.
pub const STATUS_NOT_RUN: u8 = 126;
/// Exit status: there is no such command.
pub const STATUS_NOT_FOUND: u8 = 127;
