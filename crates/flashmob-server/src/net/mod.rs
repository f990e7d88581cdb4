//! Sockets: moving bytes between a peer and a state machine's buffers, and the kernel's data about a connection.
//! Independent of protocols.

pub mod clock;
pub mod fetch;
pub mod listen;
pub mod path;
pub mod patience;
pub mod report;
pub mod stream;
pub mod tls;
mod turned_away;
pub mod wake;

pub use clock::Clock;
pub use listen::{ListenAddr, Listener};
pub use path::{Means, PathWatch, Sizing};
pub use patience::Patience;
pub use stream::{Filled, Readiness, SocketOptions, Stream};
pub(crate) use turned_away::TurnedAway;
pub use wake::Wake;
