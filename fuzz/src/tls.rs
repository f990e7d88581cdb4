//! The beginning of a TLS connection, at a node and at a gateway: whatever comes, the keys are not proven, and no byte is taken for a frame's.

use std::io::{Read, Write};
use std::sync::LazyLock;

use flashmob_core::buffers::RxBuf;
use flashmob_server::keys::PublicKey;
use flashmob_server::keys::folder::LINK_PURPOSE;
use flashmob_server::net::tls::{TlsEnd, TlsIdentity};
use flashmob_server::net::{Filled, Stream};
use mio::net::UnixStream;

use crate::bytes::chunk_lengths;

/// RFC 8410, 10.3: a private key, and its public half.
const PKCS8: [u8; 48] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20, 0xd4, 0xee, 0x72,
    0xdb, 0xf9, 0x13, 0x58, 0x4a, 0xd5, 0xb6, 0xd8, 0xf1, 0xf7, 0x69, 0xf8, 0xad, 0x3a, 0xfe, 0x7c, 0x28, 0xcb, 0xf1,
    0xd4, 0xfb, 0xe0, 0x97, 0xa8, 0x8f, 0x44, 0x75, 0x58, 0x42,
];
const PUBLIC: &str = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";

/// Most bytes that the other end's are answered with: one flight of a handshake.
const ANSWER_BYTES_MAX: usize = 4096;
/// Most bytes that are fed: as much as a socket's buffer takes.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Both ends, with the same key, which each takes from the other.
static ENDS: LazyLock<[TlsEnd; 2]> = LazyLock::new(|| {
    let public: PublicKey = PUBLIC.parse().expect("a key");
    let spki = public.to_spki();
    let identity = TlsIdentity { pkcs8: &PKCS8, spki: &spki };
    let is_known = move |key: &[u8]| key == spki;
    let client = TlsEnd::client(&identity, LINK_PURPOSE, is_known).expect("a client");
    [TlsEnd::server(&identity, LINK_PURPOSE, is_known).expect("a server"), client]
});

/// The first byte says which end, the second in which chunks the rest comes.
pub fn run(data: &[u8]) {
    let Some((&[which, chunks], mut rest)) = data.split_first_chunk::<2>() else { return };
    rest = &rest[..rest.len().min(INPUT_BYTES_MAX)];
    let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
    let (mut stream, mut rx) = (Stream::from(near), RxBuf::new());
    stream.secure(&ENDS[usize::from(which % 2)]).expect("a beginning");
    for len in chunk_lengths(chunks) {
        let (chunk, behind) = rest.split_at(len.min(rest.len()));
        far.write_all(chunk).expect("room in the socket");
        rest = behind;
        let has_failed = loop {
            match stream.fill_little(&mut rx) {
                Ok(Filled::More(_)) => {}
                Ok(Filled::Drained(_)) => break false,
                Ok(Filled::End) | Err(_) => break true,
            }
        };
        assert!(!stream.is_secured() && stream.peer_spki(LINK_PURPOSE).is_none(), "a key is proven");
        assert!(rx.is_empty(), "bytes of a peer that has proven no key");
        if has_failed || rest.is_empty() {
            break;
        }
    }
    drop(stream);
    let mut answer = Vec::new();
    // It ends: the other end is closed.
    let _ = far.read_to_end(&mut answer);
    assert!(answer.len() <= ANSWER_BYTES_MAX, "{} bytes of an answer", answer.len());
}
