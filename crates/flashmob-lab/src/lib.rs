//! Models that stand in for devices, air and clocks, so that flashmob can be examined without them.
//!
//! - [`flash`]: a storage device with the scheduler before it, in virtual time. Loads and nodes that are told to
//!   use a modelled device use it too, in real time.
//! - `sim` (feature `sim`, on by default): a gateway, its nodes and its clients in virtual time; it breaks what can
//!   break, and checks every answer. It may never end up in what people install, so those who depend on this crate
//!   leave the feature out.
//!
//! - [`air`]: the medium between stations and an access point
//! - [`load`]: the load of P1's master, for real gateways and simulated ones
//! - [`cluster`]: gateway and nodes over both models in virtual time: how fast, and what holds it back
//!
//! - [`plan`]: what a cluster will do, by formula or simulation, and what would make it do more
//!
//! The models know nothing of who uses them.

#![forbid(unsafe_code)]

pub mod air;
pub mod cluster;
pub mod flash;
pub mod load;
pub mod plan;
mod random;
mod resembling;
#[cfg(feature = "sim")]
pub mod sim;
