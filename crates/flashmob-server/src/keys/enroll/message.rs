//! The messages of an enrolment. Each has two bytes with its length, little-endian, and a byte with its kind.
//!
//! | kind | from | fields |
//! |---:|---|---|
//! | 1 offer | gateway | the grant: 145 bytes; the SHA-256 of its nonce: 32 |
//! | 2 request | device | its nonce: 16; extent: 16; size in bytes: 8; port: 2; name: 1 with its length, then its bytes; proof: 32 |
//! | 3 waiting | gateway | its nonce: 16 |
//! | 4 accepted | gateway | proof: 32 |
//! | 5 refused | gateway | a reason: 1; what follows is not read |
//! | 6 kept | device | none |

use std::io::{self, Read};

use crate::keys::grant::GRANT_BYTES;
use crate::store::ExtentId;

use super::proof::{COMMITMENT_BYTES, NONCE_BYTES, PROOF_BYTES};

/// Most bytes of a message, without its length.
pub const MESSAGE_BYTES_MAX: usize = 1024;
/// Most bytes of a device's name.
pub const NAME_BYTES_MAX: usize = 63;
/// Bytes of a request's fields that have a fixed length, before its name.
const FIXED_BYTES: usize = NONCE_BYTES + 16 + 8 + 2;

/// What a device tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Drawn for this connection.
    pub nonce: [u8; NONCE_BYTES],
    /// Its extent.
    pub extent: ExtentId,
    /// That one's size.
    pub size_bytes: u64,
    /// The port on which it will serve gateways.
    pub port: u16,
    /// Its name, for people. It says what it likes.
    pub name: String,
}

/// Why a device is not enrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No code that counts is this one.
    Code = 1,
    /// The code's time is over.
    Expired = 2,
    /// Other devices have used it.
    Used = 3,
    /// The extent, or the key, is another device's.
    Identity = 4,
    /// Somebody said no.
    TurnedDown = 5,
    /// The gateway cannot do it now.
    Trouble = 6,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Who the gateway is.
    Offer(Vec<u8>, [u8; COMMITMENT_BYTES]),
    /// Who the device is, and that it knows the secret.
    Request(Request, [u8; PROOF_BYTES]),
    /// Somebody has to confirm it.
    Waiting([u8; NONCE_BYTES]),
    /// It is enrolled, and the gateway knows the secret.
    Accepted([u8; PROOF_BYTES]),
    /// It is not.
    Refused(Reason),
    /// The device has the cluster's key on its flash.
    Kept,
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other end sends something else than an enrolment: do both run the same version?")]
pub struct BadMessage;

/// Bytes of an offer.
const OFFER_BYTES: usize = GRANT_BYTES + COMMITMENT_BYTES;

impl Request {
    /// What a proof covers.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + 1 + self.name.len());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.extent.0);
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.port.to_le_bytes());
        bytes.push(self.name.len() as u8);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Request> {
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let (extent, rest) = rest.split_first_chunk::<16>()?;
        let (size_bytes, rest) = rest.split_first_chunk::<8>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (&len, name) = rest.split_first()?;
        let name = str::from_utf8(name).ok().filter(|name| name.len() == usize::from(len))?;
        if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return None;
        }
        Some(Request {
            nonce: *nonce,
            extent: ExtentId(*extent),
            size_bytes: u64::from_le_bytes(*size_bytes),
            port: u16::from_le_bytes(*port),
            name: name.to_string(),
        })
    }
}

impl Reason {
    fn of(byte: u8) -> Option<Reason> {
        let all = [Reason::Code, Reason::Expired, Reason::Used, Reason::Identity, Reason::TurnedDown, Reason::Trouble];
        all.into_iter().find(|reason| *reason as u8 == byte)
    }

    /// The device's sentence about it. The gateway has proven nothing yet, so no word is its own.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Reason::Code => {
                "the code is wrong, or no longer known: type it again, or get another one from `flashmob join`"
            }
            Reason::Expired => "the code's time is over: get another one from `flashmob join`",
            Reason::Used => {
                "the code was used by another device: get another one from `flashmob join`; if that device is none of yours, remove its key at the gateway \
                 with `flashmob key unpin`"
            }
            Reason::Identity => {
                "its key is that of another extent, as on a copied card (start the node with --new-key), or another key is known for its extent (if the node was \
                 set up anew, run `flashmob join` with --replace; if its card was copied, delete the copy's data and all files beside it whose names begin with its name); the log of `flashmob \
                 join` says which"
            }
            Reason::TurnedDown => {
                "it was turned down at the gateway, or came again too often: another code is another try"
            }
            Reason::Trouble => "the gateway cannot record its key now: see `flashmob join` there",
        }
    }
}

impl Message {
    /// With its length before it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = match self {
            Message::Offer(grant, commitment) => [&[1], &grant[..], commitment].concat(),
            Message::Request(request, proof) => [&[2], &request.to_bytes()[..], proof].concat(),
            Message::Waiting(nonce) => [&[3], &nonce[..]].concat(),
            Message::Accepted(proof) => [&[4], &proof[..]].concat(),
            Message::Refused(reason) => vec![5, *reason as u8],
            Message::Kept => vec![6],
        };
        [&(body.len() as u16).to_le_bytes()[..], &body].concat()
    }

    /// From the bytes behind its length.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn parse(body: &[u8]) -> Result<Message, BadMessage> {
        let (&kind, rest) = body.split_first().ok_or(BadMessage)?;
        let message = match (kind, rest.len()) {
            (1, OFFER_BYTES) => rest
                .split_last_chunk::<COMMITMENT_BYTES>()
                .map(|(grant, commitment)| Message::Offer(grant.to_vec(), *commitment)),
            (2, _) => rest
                .split_last_chunk::<PROOF_BYTES>()
                .and_then(|(request, proof)| Request::parse(request).map(|request| Message::Request(request, *proof))),
            (3, NONCE_BYTES) => rest.try_into().ok().map(Message::Waiting),
            (4, PROOF_BYTES) => rest.try_into().ok().map(Message::Accepted),
            // Earlier versions send a text behind it. Who sends it has proven nothing, so nobody reads it.
            (5, 1..) => Reason::of(rest[0]).map(Message::Refused),
            (6, 0) => Some(Message::Kept),
            _ => None,
        };
        message.ok_or(BadMessage)
    }

    /// Reads one.
    ///
    /// # Errors
    /// The connection failed, or these are no messages: [`io::ErrorKind::InvalidData`].
    pub fn read(from: &mut impl Read) -> io::Result<Message> {
        let mut len = [0; 2];
        from.read_exact(&mut len)?;
        let len = usize::from(u16::from_le_bytes(len));
        if len > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, BadMessage));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Message::parse(&body).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(name: &str) -> Request {
        Request {
            nonce: [5; NONCE_BYTES],
            extent: ExtentId([3; 16]),
            size_bytes: 1 << 40,
            port: 7411,
            name: name.to_string(),
        }
    }

    fn back(message: &Message) -> io::Result<Message> {
        let bytes = message.to_bytes();
        let mut rest = &bytes[..];
        let read = Message::read(&mut rest);
        assert!(rest.is_empty());
        read
    }

    #[test]
    fn every_message_reads_back() {
        for message in [
            Message::Offer(vec![9; GRANT_BYTES], [8; COMMITMENT_BYTES]),
            Message::Request(request("nexus7-a"), [1; 32]),
            Message::Request(request(""), [1; 32]),
            Message::Request(request(&"x".repeat(NAME_BYTES_MAX)), [1; 32]),
            Message::Waiting([7; NONCE_BYTES]),
            Message::Accepted([2; 32]),
            Message::Refused(Reason::Used),
            Message::Refused(Reason::Trouble),
            Message::Kept,
        ] {
            assert_eq!(back(&message).unwrap(), message);
        }
        let with_text = [&[5, 6], "busy; trying again".as_bytes()].concat();
        assert_eq!(Message::parse(&with_text), Ok(Message::Refused(Reason::Trouble)), "an earlier version");
    }

    #[test]
    fn limits_are_kept() {
        for bad in [request(&"x".repeat(NAME_BYTES_MAX + 1)), request("a\nb"), request("\x1b[2J")] {
            assert!(back(&Message::Request(bad, [0; 32])).is_err());
        }
        assert!(back(&Message::Offer(vec![9; GRANT_BYTES - 1], [8; COMMITMENT_BYTES])).is_err());
        for body in [&[][..], &[0], &[7], &[3], &[3, 0], &[4; 32], &[5], &[5, 0], &[5, 7], &[6, 6]] {
            assert_eq!(Message::parse(body), Err(BadMessage), "{body:?}");
        }
        let long = [&((MESSAGE_BYTES_MAX + 1) as u16).to_le_bytes()[..], &[0; MESSAGE_BYTES_MAX + 1]].concat();
        assert_eq!(Message::read(&mut &long[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let cut = Message::Kept.to_bytes();
        assert_eq!(Message::read(&mut &cut[..2]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        /// No byte of what is said before the proof is kept.
        #[test]
        fn of_a_refusal_the_reason_alone_is_read(reason in 1..=6u8, text in prop::collection::vec(any::<u8>(), 0..MESSAGE_BYTES_MAX - 2)) {
            let body = [&[5, reason], &text[..]].concat();
            let message = Message::parse(&body).unwrap();
            prop_assert_eq!(&message.to_bytes()[..], [2, 0, 5, reason]);
        }

        #[test]
        fn any_bytes_are_a_message_or_none(mut body in prop::collection::vec(any::<u8>(), 0..200), kind in 0..8u8) {
            let _ = Message::parse(&body);
            if let Some(first) = body.first_mut() {
                *first = kind;
            }
            if let Ok(message) = Message::parse(&body)
                && !matches!(message, Message::Refused(..))
            {
                prop_assert_eq!(&message.to_bytes()[2..], &body[..]);
            }
        }
    }
}
