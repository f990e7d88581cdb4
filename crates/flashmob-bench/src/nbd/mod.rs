//! An NBD client, from the URI to the pipelined connection.
//!
//! [`uri`] names an export, [`handshake`] opens it, [`reply`] decodes the replies to the requests in [`slots`], [`connection`] transfers the
//! bytes, and [`pump`] waits for several connections. The numbers of the protocol are in [`flashmob_core::nbd::protocol`].

pub mod connection;
pub mod handshake;
pub mod pump;
pub mod reply;
pub mod slots;
pub mod uri;

/// The big-endian number in the two bytes of `bytes` from `at` on. Panics if they are not there: the caller has checked.
#[must_use]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`be16`], with four bytes.
#[must_use]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`be16`], with eight bytes.
#[must_use]
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}
