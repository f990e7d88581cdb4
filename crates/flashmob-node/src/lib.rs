//! The commands that a device needs to serve: `node`, and `discover` and `status` to see that it does. The program
//! `flashmob-node` has these alone and is small; `flashmob` has them beside all others. Nothing here measures, serves clients
//! or holds a cluster's keys: `tests/parts.rs` holds that.

#[macro_use]
mod wrong;

pub mod admin_target;
pub mod command_line;
pub mod discover;
pub mod form;
mod log_lines;
pub mod node;
pub mod qr;
pub mod signals;
pub mod status;
pub mod values;
pub mod whole_file;

pub use wrong::WrongValue;
