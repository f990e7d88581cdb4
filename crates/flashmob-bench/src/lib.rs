//! Loads on NBD exports, on this device's disk and on networks.
//!
//! The NBD client works with any server, so that flashmob and its peers can be measured with the same load. It must not limit a measurement:
//! non-blocking sockets, all due requests in one send, many replies in one receive, and no allocation per request. It counts every error, can
//! verify every byte, and reports the processor time of the load itself.
//!
//! - [`nbd`]: the client, from the URI to the pipelined connection
//! - [`load`]: random and sequential loads with their results
//! - [`disk`]: loads on a file of this device, or on a model of one
//! - [`bench_file`]: the file that `disk` reads
//! - [`copy`]: an image into an export and back
//! - [`net`]: the network between two devices, in iperf3's protocol
//! - [`progress`]: a progress line for terminals

pub mod bench_file;
pub mod copy;
pub mod disk;
pub mod error;
pub mod load;
mod modelled;
pub mod nbd;
pub mod net;
pub mod progress;

pub use error::{Errno, Error, ServerError};
pub use load::{Load, LoadResult, Target, run, run_on};
pub use nbd::uri::Uri;
