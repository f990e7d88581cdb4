//! The lab: real processes and real TCP stacks over a modelled air, on one machine.
//!
//! ```text
//!   host of the gateway                     host of a node (one or more)
//!   flashmob gateway, COMMAND               flashmob node, its flash modelled
//!   TCP/IP of the kernel                    TCP/IP of the kernel
//!   TAP ── frames ──▶ medium: the air's model decides what arrives, and when ──▶ TAP
//! ```
//!
//! - [`status`]: the state of a running lab, for processes inside
//! - [`run`]: sets up a lab, runs a command in it, reports the outcome
//! - [`namespace`], [`signals`]: namespaces that vanish with their first process; forwarding signals into them
//! - [`host`], [`tap`], [`netlink`], [`address`]: hosts with interfaces and addresses
//! - [`medium`], [`frame`], [`lateness`]: timed delivery of frames between them
//! - [`cluster`]: the processes in the hosts
//! - [`nodes`]: lateness of the nodes' modelled flash
//! - [`control`]: the socket behind [`status`]
//!
//! Nothing of a lab may outlive it, and the rest of the machine must see no effect of it but load.

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

/// Exit status: the command succeeded, but the lab was too late for valid figures. As in sysexits.h: try again.
pub const STATUS_LATE: u8 = 75;
/// Exit status: the lab could not be set up, or failed. As with env and timeout, to distinguish it from the command's.
pub const STATUS_IMPOSSIBLE: u8 = 125;
/// Exit status: the command could not be run.
pub const STATUS_NOT_RUN: u8 = 126;
/// Exit status: there is no such command.
pub const STATUS_NOT_FOUND: u8 = 127;
