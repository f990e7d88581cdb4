//! Keys: who is who among the devices of a cluster, and what they may do.
//!
//! Every device has an Ed25519 key of its own. The *cluster key* signs a *grant* for the key of each gateway; nodes pin the cluster key, and gateways pin
//! the key of each node. [`crate::net::tls`] makes links that nobody else can read or change; [`door`] decides at a node whom they are from.
//! docs/security.md says what that keeps out, and what it does not.

pub mod authority;
pub mod clients;
pub mod door;
pub mod doorman;
pub mod enroll;
pub mod folder;
mod gateway;
pub mod grant;
mod guard;
pub mod key;
pub mod nbd;
pub mod node;
pub mod pins;

pub use clients::{Clients, NbdClient};
pub use door::Door;
pub use doorman::Doorman;
pub use folder::Folder;
pub use gateway::GatewayKeys;
pub use grant::Grant;
pub use key::{PublicKey, SecretKey};
pub use nbd::NbdKeys;
pub use node::NodeKeys;
pub use pins::Pins;
