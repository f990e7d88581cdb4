//! Discovery of devices: announcements of nodes, by multicast DNS and over HTTP, and receiving them.
//!
//! Announcements are optional: a list of addresses works without them. An announcement only provides an address to try. Only
//! the welcome on a link, which names the extent, proves a node's identity; no data is used before it. Nothing here touches
//! an extent.
//!
//! | file | contents |
//! |---|---|
//! | `announcement`, `txt` | an announcement in JSON and in a TXT record, and its limits |
//! | `notice` | what multicast DNS says: an announcement, or the mark of a node with keys |
//! | `here` | addresses of this device, and whether it can send multicast |
//! | `mdns` | multicast DNS: offering a node, and listening for nodes |
//! | `join` | announcing to a gateway or `flashmob discover` over HTTP |
//! | `invitation` | links to `flashmob join` |
//! | `announcer` | the thread of a node that does both |
//! | `speed` | measuring the node's own flash, without writing |
//! | `found` | the nodes found so far; no sockets |
//! | `hear` | the end at which announcements over HTTP arrive |
//! | `follow` | following announcements in a gateway |

pub mod announcement;
pub mod announcer;
pub mod follow;
pub mod found;
pub mod hear;
pub mod here;
mod invitation;
pub mod join;
pub mod mdns;
mod notice;
pub mod speed;
pub mod txt;

pub use crate::store::{ExtentId, PlaceInVolume};
pub use announcement::{Announcement, BadAnnouncement, JoinAnswer, MeasuredOver};
pub use notice::Notice;

/// The service's type in multicast DNS.
pub const SERVICE: &str = "_flashmob._tcp.local.";
/// Interval of a node's announcements over HTTP.
pub const JOIN_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// The default port of `flashmob discover`.
pub const DISCOVER_PORT: u16 = 7410;
