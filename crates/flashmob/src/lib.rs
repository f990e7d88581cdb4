//! flashmob's shell: sockets, files, threads, configuration and the command line around
//! [`flashmob_core`].

pub mod admin;
pub mod android;
pub mod commands;
pub mod config;
pub mod device;
pub mod discovery;
pub mod gateway;
pub mod lab;
pub mod net;
pub mod node;
mod process;
pub mod status;
pub mod store;
mod volume;

pub use volume::{Call, Volume, VolumeError};
