//! An NBD client, from the URI to the pipelined connection.
//!
//! [`uri`] says where, [`handshake`] agrees on the export, [`reply`] decodes what comes back for the
//! requests in [`slots`], [`connection`] moves the bytes, and [`pump`] waits for several connections.

pub mod connection;
pub mod handshake;
pub mod protocol;
pub mod pump;
pub mod reply;
pub mod slots;
pub mod uri;
