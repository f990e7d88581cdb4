//! Asks a node which extent it has, and for its mirror of the volume's map: frames of [`flashmob_core::wire::mirror`], in the place of a hello.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use flashmob_core::wire::frame::{Decoded, FrameKind, WireError, decode_frame, error_text};
use flashmob_core::wire::hello::{Charge, Refuse};
use flashmob_core::wire::mirror::{Recall, Recalled};

use crate::config::NodeSource;
use crate::keys::GatewayKeys;
use crate::keys::folder::LINK_PURPOSE;
use crate::net::stream::connect_waiting;
use crate::net::tls::WaitingTls;
use crate::store::ExtentId;
use crate::store::identity::{Identity, sidecar_path};
use crate::store::read_mirror;

/// How long a node may take to accept a connection, and for each part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What a node says of its extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The extent's permanent identity.
    pub extent_id: [u8; 16],
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// The volume that it belongs to, and which of its extents it is.
    pub volume: Option<(String, u32)>,
    /// The gateway that was last in charge.
    pub charge: Option<Charge>,
    /// The layout of that volume, and how many extents it has, if it has no copies and the node's version tells it.
    pub layout: Option<(String, u32)>,
    /// Whether a gateway is linked to it.
    pub is_linked: bool,
    /// Its mirror of the volume's map; empty without one.
    pub mirror: Vec<u8>,
}

/// Asks a node, or looks at the files of one that is inside the gateway.
pub fn ask(source: &NodeSource, keys: Option<&GatewayKeys>) -> anyhow::Result<Told> {
    match (source, keys) {
        (NodeSource::Remote { address }, None) => Ok(recall(&mut connect(address)?)?),
        (NodeSource::Remote { address }, Some(keys)) => ask_proven(connect(address)?, keys),
        (NodeSource::Local { path, .. }, _) => look(path),
    }
}

/// Asks a node that has proven to be one that is known.
fn ask_proven(stream: TcpStream, keys: &GatewayKeys) -> anyhow::Result<Told> {
    let mut stream = WaitingTls::begin(&keys.end, stream)?;
    let proven = stream.peer_spki(LINK_PURPOSE).and_then(|spki| keys.extent_of(spki));
    let proven = proven.context("the other end has a key that is not known here")?;
    stream.write_all(&keys.shown())?;
    let told = recall(&mut stream)?;
    anyhow::ensure!(
        told.extent_id == proven.0,
        "it says that it serves extent {}, and its key is that of extent {proven}",
        ExtentId(told.extent_id)
    );
    Ok(told)
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = connect_waiting(address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Gets all of a node's mirror over a fresh connection.
fn recall(stream: &mut (impl Read + Write)) -> io::Result<Told> {
    let mut mirror = Vec::new();
    loop {
        let mut request = Vec::new();
        Recall { offset_bytes: mirror.len() as u64 }.encode(&mut request);
        stream.write_all(&request)?;
        let (recalled, bytes) = answer(stream)?;
        let is_last = bytes.is_empty() || (mirror.len() + bytes.len()) as u64 >= recalled.mirror_bytes;
        mirror.extend(bytes);
        if is_last {
            let Recalled { extent_id, size_bytes, volume, charge, layout, is_linked, .. } = recalled;
            return Ok(Told { extent_id, size_bytes, volume, charge, layout, is_linked, mirror });
        }
    }
}

/// Reads one answer.
fn answer(stream: &mut impl Read) -> io::Result<(Recalled, Vec<u8>)> {
    let invalid = |error: WireError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut received = Vec::new();
    loop {
        if let Decoded::Frame(frame, _) = decode_frame(&received).map_err(invalid)? {
            return match frame.kind {
                FrameKind::Recalled => {
                    let recalled = Recalled::decode(frame.meta, frame.payload.len()).map_err(invalid)?;
                    Ok((recalled, frame.payload.to_vec()))
                }
                // What nodes of earlier versions say to a frame that they do not know.
                FrameKind::Error => Err(io::Error::other(format!(
                    "the node reports: {}; does it run a version of flashmob that keeps mirrors?",
                    error_text(frame.meta)
                ))),
                FrameKind::Refuse => {
                    let refuse = Refuse::decode(frame.meta).map_err(invalid)?;
                    Err(io::Error::other(format!("refused: {}", refuse.text)))
                }
                _ => Err(invalid(WireError::Malformed("order of frames"))),
            };
        }
        let start = received.len();
        received.resize(start + READ_BYTES, 0);
        let count = match stream.read(&mut received[start..]) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the node closed the connection")),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {PATIENCE:?}")));
            }
            Err(error) => return Err(error),
        };
        received.truncate(start + count);
    }
}

/// The same of an extent on this machine whose node does not run.
fn look(data: &Path) -> anyhow::Result<Told> {
    let path = sidecar_path(data, None);
    let text = std::fs::read(&path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let identity = Identity::parse(&path, &text)?;
    let mirror = read_mirror(&identity.mirror_path())?.unwrap_or_default();
    Ok(Told {
        extent_id: identity.extent_id().0,
        size_bytes: identity.size_bytes(),
        volume: identity.place().map(|place| (place.volume_id.clone(), place.extent_index)),
        charge: identity.charge(),
        layout: identity.layout_without_copies(),
        is_linked: false,
        mirror,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A node that answers recalls from a mirror, a few bytes at a time.
    struct Peer {
        mirror: Vec<u8>,
        part: usize,
        out: VecDeque<u8>,
    }

    impl Write for Peer {
        fn write(&mut self, request: &[u8]) -> io::Result<usize> {
            let Ok(Decoded::Frame(frame, _)) = decode_frame(request) else { panic!("{request:?}") };
            let from = Recall::decode(frame.meta).unwrap().offset_bytes as usize;
            let to = self.mirror.len().min(from + self.part);
            let mirror_bytes = self.mirror.len() as u64;
            let recalled = Recalled {
                extent_id: [7; 16],
                size_bytes: 4096,
                mirror_bytes,
                volume: Some(("pool".to_string(), 2)),
                charge: None,
                layout: Some(("linear".to_string(), 3)),
                is_linked: true,
            };
            let mut frame = Vec::new();
            recalled.encode(&mut frame, &self.mirror[from..to]);
            self.out.extend(frame);
            Ok(request.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Peer {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.out.len().min(into.len()).min(5);
            into.iter_mut().zip(self.out.drain(..count)).for_each(|(to, byte)| *to = byte);
            Ok(count)
        }
    }

    #[test]
    fn a_mirror_is_recalled_in_parts() {
        for (len, part) in [(0, 10), (1, 10), (10, 10), (11, 10), (35, 10)] {
            let mirror: Vec<u8> = (0..len).collect();
            let mut peer = Peer { mirror: mirror.clone(), part, out: VecDeque::new() };
            let told = recall(&mut peer).unwrap();
            assert_eq!((told.mirror, told.volume), (mirror, Some(("pool".to_string(), 2))), "{len}");
            assert_eq!((told.size_bytes, told.layout, told.is_linked), (4096, Some(("linear".to_string(), 3)), true));
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let told = |bytes: &[u8]| answer(&mut &bytes[..]).unwrap_err().to_string();
        assert_eq!(told(b""), "the node closed the connection");
        assert!(told(b"HTTP/1.1 400").contains("is this the right port?"));
        let mut refusal = Vec::new();
        flashmob_core::wire::frame::encode_error(&mut refusal, "unknown frame kind 12");
        assert!(told(&refusal).contains("unknown frame kind 12"), "{}", told(&refusal));
    }
}
