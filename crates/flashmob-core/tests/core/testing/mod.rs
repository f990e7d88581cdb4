//! What tests of the state machines share: configurations with defaults, a host, frames as values, and beds.
//!
//! A test states what it is about and takes the rest from here, so that a new field of a configuration, of a hello or of a welcome
//! is added in one place. A *bed* is one machine with its surroundings played by the test: [`GatewayBed`] a gateway whose
//! nodes are bytes, [`CopiesBed`] the same with a volume of two copies, [`FlashBed`] one whose nodes have data, [`NodeBed`] a node whose
//! gateway and store are.
//!
//! Helpers panic where a test would: an `unwrap` here is an assertion.

mod copies;
mod flashes;
mod frames;
mod gateway;
mod host;
mod node;
mod pair;
mod spec;

pub use copies::CopiesBed;
pub use flashes::{BLOCK, Flash, FlashBed};
pub use frames::{Frame, answer, answer_some, answer_with, bytes_of, frames};
pub use gateway::{GatewayBed, native_call, welcome_link};
pub use host::{FakeHost, Reads};
pub use node::{NodeBed, node_with_link};
pub use pair::{CHUNK_BYTES, linked_pair, pair_map};
pub use spec::{NOW, gateway_config, hello, node_config, volume, welcome};
