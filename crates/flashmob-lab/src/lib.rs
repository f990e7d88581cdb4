//! Models that stand in for devices, air and clocks, so that flashmob can be examined without them.
//!
//! - [`flash`]: a storage device with the scheduler before it, in virtual time. Loads and nodes that are told to
//!   use a modelled device use it too, in real time.
//! - `sim` (feature `sim`, on by default): a gateway, its nodes and its clients in virtual time; it breaks what can
//!   break, and checks every answer. It may never end up in what people install, so those who depend on this crate
//!   leave the feature out.
//!
//! The models know nothing of the simulator.

pub mod flash;
#[cfg(feature = "sim")]
pub mod sim;
