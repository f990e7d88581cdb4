//! Enrolment: a device gets the cluster's key, and the gateway the device's, because somebody carried a secret from one to the other.
//!
//! ```text
//! device                                              gateway (flashmob join)
//!   │ ◀── TLS 1.3, each proves its own key ──────────────▶ │
//!   │ ◀── offer: the grant, which names the cluster ────── │
//!   │ ─── request: extent, size, port, name, proof ──────▶ │  the code is used up
//!   │ ◀── waiting ──────────────────────────────────────── │  somebody confirms it
//!   │                                                      │  the device's key is pinned, on the flash
//!   │ ◀── accepted: proof ──────────────────────────────── │
//!   │ the cluster's key is pinned, on the flash            │
//!   │ ─── kept ──────────────────────────────────────────▶ │
//! ```
//!
//! A proof is an HMAC with the secret of this TLS session, both keys as TLS saw them and the cluster's. So who is in between and relays has other
//! sessions, and proves nothing. The device proves first: nobody collects proofs of the gateway to guess codes.

pub mod desk;
pub mod device;
pub mod message;
pub mod proof;
pub mod secret;
pub mod serve;

pub use desk::{Desk, Device, Known};
pub use device::{Applicant, ApplyError, apply};
pub use message::Request;
pub use secret::{Invitation, Secret};
pub use serve::{Event, JoinPort};

/// What such a connection is for, as TLS's ALPN names it.
pub const ENROLL_PURPOSE: &[u8] = b"flashmob-enroll/1";
/// Where `flashmob join` listens.
pub const JOIN_PORT: u16 = 7413;
