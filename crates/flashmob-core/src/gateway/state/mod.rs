//! The state of a gateway. Each file owns some fields and the operations on them alone.
//!
//! Nothing here knows the gateway: the files of the folder above move requests from one part to the next. The parts:
//!
//! ```text
//!  clients     what each holds, which have bytes to write
//!  memory      the budget, and which client is next for it             sees clients
//!  requests    requests in hand: how many of their pieces are left     names clients
//!  volume      the layout, and whether the volume can be used
//!  queues      the queue of each node, and which have got pieces       holds queue
//!  node        its identity, reports and round trip              holds device_failures
//!  links       the state of each link, the batches out on it           holds queue's pieces
//!  metrics     counters, stages, samples
//!  live        what each node did in each second
//! ```
//!
//! A request knows only the number of its pieces, a queue only the keys of requests; `pieces.rs` and `complete.rs` connect the two.

pub mod arrivals;
mod clients;
pub mod device_failures;
pub mod fairness;
mod links;
pub mod live;
mod memory;
mod metrics;
mod node;
pub mod pace;
pub mod queue;
mod queues;
mod requests;
pub mod samples;
pub mod volume;

pub use clients::{Client, ClientId, ClientKind, Clients, NbdClient, Right};
pub use links::{Alive, Batches, Charged, HeldWelcome, Link, LinkCounters, LinkId, Links, SentBatch, State};
pub use memory::Memory;
pub use metrics::{GatewayCounters, Metrics};
pub use node::{Node, Offer};
pub use queues::Queues;
pub use requests::{InHand, RequestKey, Requests};
