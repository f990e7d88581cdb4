//! The gateway process: the event loop around the state machine, the nodes inside it, and its native clients.

mod accept;
mod actions;
mod diagnose;
mod divided;
mod etcd_map;
pub mod from_nodes;
mod identity;
mod inside;
mod lease;
mod links;
mod map_file;
mod map_store;
mod map_writer;
mod maps;
mod members;
mod memory;
mod moves;
mod native;
mod newcomers;
mod open;
mod place;
mod recorded;
mod report;
mod resize;
pub mod scrub_file;
mod secure;
mod server;
mod surplus;
mod volumes;
mod whereabouts;

pub use inside::{Inside, Resident};
pub use lease::Deposed;
pub use memory::extents_in_use;
pub use native::{NativeHandle, NativeResult, Pending};
pub use server::{CHOOSING_MAX, GatewayServer, Start, Stopper};
pub use whereabouts::{Seen, Whereabouts};
