//! What a gateway holds, by owner. Each file here owns its fields and what is done with them alone.
//!
//! Nothing here knows the gateway: the files beside this folder have requests pass from one of these to the next. Among
//! themselves they look downwards:
//!
//! ```text
//!  clients     who asks, what each holds, who has bytes to write
//!  memory      the budget, and who is next for it                      sees clients
//!  requests    requests in hand: how many of their pieces are left     names clients
//!  volume      the layout, and whether the volume can be used
//!  queues      the queue of each node, and which to look at            holds queue
//!  node        which node it is, what it told, how far away it is
//!  links       where each link is in its life, what is out on it       holds queue's pieces
//!  metrics     counters, stages, samples
//! ```
//!
//! A request knows its pieces only by their number, a queue knows requests only by their keys: what lies between the two, where a
//! piece gets its node and where its end is told to its request, is `pieces.rs` and `complete.rs`.

mod clients;
pub mod fairness;
mod links;
mod memory;
mod metrics;
mod node;
pub mod queue;
mod queues;
mod requests;
pub mod samples;
pub mod volume;

pub use clients::{Client, ClientId, ClientKind, Clients, NbdClient};
pub use links::{Alive, Batches, Link, LinkCounters, LinkId, Links, SentBatch, State};
pub use memory::Memory;
pub use metrics::{GatewayCounters, Metrics};
pub use node::Node;
pub use queues::Queues;
pub use requests::{InHand, RequestKey, Requests};
