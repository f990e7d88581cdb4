//! Room for a newcomer where as many connections are open as may be.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

use flashmob_core::strangers;

/// The connection that makes room, of those whose peer has not said who it is, each with its key and address: see [`strangers::to_replace`].
pub fn to_replace<K: Copy>(unknown: impl Iterator<Item = (K, Option<IpAddr>)>) -> Option<K> {
    // Each state has keys that peers cannot guess.
    strangers::to_replace(unknown, RandomState::new().build_hasher().finish())
}
