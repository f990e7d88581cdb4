//! Keys: who is who among the devices of a cluster, and what they may do.
//!
//! Every device has an Ed25519 key of its own. The *cluster key* signs a *grant* for the key of each gateway; nodes pin the cluster key, and gateways pin
//! the key of each node. [`crate::net::tls`] makes links that nobody else can read or change; [`door`] decides at a node whom they are from.
//! docs/security.md says what that keeps out, and what it does not.

pub mod admin;
pub mod authority;
mod certified;
pub mod clients;
pub mod credentials;
pub mod door;
pub mod doorman;
pub mod enroll;
pub mod folder;
mod gateway;
pub mod grant;
mod grants;
mod guard;
pub mod key;
mod known;
mod line;
pub mod mark;
mod mirrors;
pub mod node;
pub mod node_credentials;
pub mod pins;
mod recheck;
mod rotation;
pub mod shown;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use admin::AdminKeys;
pub use certified::{CertifiedKeys, CertifiedPort, names_of};
pub use clients::{AdminRight, Client, Clients};
pub use door::Door;
pub use doorman::{Doorman, thread_time};
pub use folder::Folder;
pub use gateway::GatewayKeys;
pub use grant::Grant;
pub use grants::{GrantInUse, Grants};
pub(crate) use key::load_private;
pub use key::{BadPublicKey, PublicKey, SecretKey};
pub use known::KnownAddresses;
pub use mark::Mark;
pub use mirrors::{AnyGateway, MirrorVerifier};
pub use node::NodeKeys;
pub use node_credentials::NodeCredentials;
pub use pins::Pins;
pub use recheck::{News, Recheck};

/// Locks what is consistent even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
