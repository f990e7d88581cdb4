//! Looks at a device and at a path, says what is wrong, what it costs and what mends it.
//!
//! To look needs no rights, changes nothing and guesses nothing: what cannot be known here is `unknown`. A finding says what it costs, with a
//! figure where a formula gives one, and the command that mends it. Nobody is talked to here: the command line asks and prints.
//!
//! - [`view`]: what can be seen of a device, this one or a copied tree of `/proc` and `/sys`
//! - [`path`]: the way to a peer: round trip, interface, rate, largest packet
//! - [`checks`]: the table of checks, each in a file of its own
//! - [`look`]: all of it at once
//! - [`change`]: a value that can be set, and the command that would
//! - [`undo`]: the file that knows what was there before
//! - [`treat`]: setting values with an undo written first, and putting them back

#![cfg(any(target_os = "linux", target_os = "android"))]

pub mod change;
pub mod checks;
pub mod look;
pub mod path;
pub mod treat;
pub mod undo;
pub mod view;

use flashmob_text::{bits_per_second as rate, time};

/// Bytes for people.
fn bytes(value: u64) -> String {
    flashmob_text::Bytes(value).to_string()
}
