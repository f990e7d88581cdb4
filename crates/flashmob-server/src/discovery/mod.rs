//! How devices find each other: what a node tells of itself, by multicast DNS and to whom it was told to join, and
//! how that is heard.
//!
//! Announcing is a convenience and never a condition: a list of addresses works without all of this. What was
//! announced is believed as far as an address to try. Who is there is known only from the welcome on a link, which
//! names the extent; nothing here may make anybody use data before that. No part of this touches an extent.
//!
//! | file | what it holds |
//! |---|---|
//! | `announcement`, `txt` | what is told: its form in JSON and in a TXT record, and its limits |
//! | `here` | addresses of this device, and whether it can send multicast |
//! | `mdns` | multicast DNS: offering a node, and listening for nodes |
//! | `join` | telling a gateway or `flashmob discover` over HTTP |
//! | `announcer` | the thread of a node that does both |
//! | `speed` | what a node measures of its own flash, without writing |
//! | `found` | what was heard, and what became of it; knows no socket |
//! | `hear` | the end at which announcements over HTTP arrive |
//! | `follow` | what a gateway does with them |

pub mod announcement;
pub mod announcer;
pub mod follow;
pub mod found;
pub mod hear;
pub mod here;
pub mod join;
pub mod mdns;
pub mod speed;
pub mod txt;

pub use crate::store::{ExtentId, PlaceInVolume};
pub use announcement::{Announcement, BadAnnouncement, JoinAnswer, MeasuredOver};

/// The service's type in multicast DNS.
pub const SERVICE: &str = "_flashmob._tcp.local.";
/// How often a node tells those whom it was told to join.
pub const JOIN_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// Where `flashmob discover` listens unless told otherwise.
pub const DISCOVER_PORT: u16 = 7410;
