//! What the kernel says of a TCP path, and what of it may be set.
//!
//! Links, the network benchmark and the doctor all ask the same questions, and get the same answers here. Nothing in it opens a
//! connection or decides anything for others.
//!
//! - [`tcp_info`]: the kernel's counters of one connection
//! - [`congestion`]: which congestion controls there are, and which one a socket uses
//! - [`buffers`]: how large buffers may become, and how large a path wants them

pub mod buffers;
pub mod congestion;
pub mod tcp_info;
