//! Checks of a device and of a path: what is wrong, its cost, and the remedy.
//!
//! Checks need no privileges, change nothing and guess nothing: what cannot be determined is `unknown`. A finding has its cost, with a figure
//! where a formula gives one, and the command that fixes it. This crate neither prompts nor prints; the command line does.
//!
//! - [`view`]: the visible data of a device, this one or a copied tree of `/proc` and `/sys`
//! - [`path`]: the path to a peer: round trip, interface, rate, MTU
//! - [`checks`]: the table of checks
//! - [`look`]: all checks at once
//! - [`change`]: a value that can be set, and the equivalent command
//! - [`undo`]: the file with the previous values
//! - [`treat`]: setting values after the undo file was written, and restoring them

#![cfg(any(target_os = "linux", target_os = "android"))]

pub mod change;
pub mod checks;
pub mod look;
pub mod path;
pub mod treat;
pub mod undo;
pub mod view;

use flashmob_text::{bits_per_second as rate, time};

/// Bytes with a unit.
fn bytes(value: u64) -> String {
    flashmob_text::Bytes(value).to_string()
}
