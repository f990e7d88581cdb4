//! The node process: an extent, and the event loop that serves it to gateways.

mod admit;
mod beside;
mod extent;
mod report;
mod server;
mod start;
mod sums;

pub use beside::check;
pub use extent::{Enrollment, Extent, ExtentConfig, ExtentError};
pub use server::{NodeOptions, NodeServer, UNPROVEN_MAX};
