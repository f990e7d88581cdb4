//! flashmob's loads: an NBD client that pipelines, and what it asks, checks and measures.
//!
//! It talks to any NBD server, so that the same load can be put on flashmob and on its peers. It must
//! never be what limits a measurement: one thread, non-blocking sockets, all requests that are due in
//! one send, many replies in one receive, and no allocation per request. And it must never flatter:
//! every error is counted, every byte can be compared with what it should be, and the processor time
//! that the load itself took stands in its result.
//!
//! - [`nbd`]: the client, from the URI to the pipelined connection
//! - [`load`]: random and sequential loads with their results
//! - [`bench_file`]: the file that a benchmark of this machine's own flash reads
//! - [`copy`]: an image into an export and back
//! - [`blocking`]: one request at a time, for tests
//! - [`modelled`]: a modelled disk that makes the calling threads wait as a real one would
//! - [`net`]: the network between two devices, in iperf3's protocol
//! - [`progress`]: a line for people who wait

pub mod bench_file;
pub mod blocking;
pub mod copy;
pub mod disk;
pub mod error;
pub mod load;
pub mod modelled;
pub mod nbd;
pub mod net;
pub mod progress;

pub use error::{Errno, Error, ServerError};
pub use load::{Load, LoadResult, Target, run, run_on};
pub use nbd::uri::Uri;
