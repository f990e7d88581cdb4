//! Models of devices, air and clocks, to examine flashmob without them. The models know nothing of their users.
//!
//! - [`flash`]: a storage device with its scheduler, in virtual time; loads and nodes also use it in real time
//! - [`air`]: the medium between stations and an access point
//! - [`load`]: the load of P1's master, for real gateways and simulated ones
//! - [`cluster`]: the forecast simulator: gateway and nodes over both models in virtual time; how fast, and what limits it
//! - [`plan`]: how fast a cluster will be, by formula or simulation, and what would improve it
//! - `faults` (a feature, on by default): the fault simulator: gateway, nodes and clients in virtual time with injected faults,
//!   and a check of every answer. Nothing that is installed may contain it, so dependents disable the feature.
//! - `campaign` (the same feature): the record of which of its seeds have passed

#![forbid(unsafe_code)]

pub mod air;
#[cfg(feature = "faults")]
pub mod campaign;
pub mod cluster;
#[cfg(feature = "faults")]
pub mod faults;
pub mod flash;
pub mod load;
pub mod plan;
mod random;
mod resembling;
