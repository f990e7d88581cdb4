//! Models that stand in for devices, air and clocks, so that flashmob can be examined without them.
//!
//! [`sim`] runs a gateway, its nodes and its clients in virtual time, breaks what can break, and checks every
//! answer. Nothing here may end up in what people install.

pub mod sim;
