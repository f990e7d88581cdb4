//! The kernel's data about a TCP path, and the settings that apply to it: shared by links, the network benchmark and the doctor. It opens no
//! connection and makes no decision for its callers.
//!
//! - [`tcp_info`]: the kernel's counters of one connection
//! - [`congestion`]: the congestion controls available, and that of a socket
//! - [`buffers`]: limits of socket buffers, and the sizes that a path needs

pub mod buffers;
pub mod congestion;
pub mod tcp_info;
