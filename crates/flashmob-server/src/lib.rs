//! What serves: a node with its extent, a gateway with its volumes, and what both need: sockets, files, configuration,
//! discovery, the device's state and the administrative port, around [`flashmob_core`].
//!
//! A tablet needs this crate and no other of the workspace but those below it. Nothing here measures, models or explains;
//! `tests/layers.rs` holds that, and the order of the modules.

pub mod admin;
pub mod android;
pub mod config;
pub mod device;
pub mod discovery;
pub mod etcd;
pub mod gateway;
pub mod keys;
pub mod net;
pub mod node;
pub mod status;
pub mod store;
mod volume;
mod worker;

pub use volume::{Call, Volume, VolumeError};
