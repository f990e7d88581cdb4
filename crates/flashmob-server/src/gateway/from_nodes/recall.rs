//! Asks a node which extent it has, and for its mirror of the volume's map: frames of [`flashmob_core::wire::mirror`], in the place of a hello.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_core::copies::{TooLong, Verify, gather};
use flashmob_core::wire::frame::{Decoded, FrameKind, WireError, decode_frame, error_text};
use flashmob_core::wire::hello::{Charge, Refuse};
use flashmob_core::wire::mirror::{MIRROR_FRAME_BYTES_MAX, Recall, Recalled};

use crate::config::NodeSource;
use crate::keys::GatewayKeys;
use crate::keys::folder::LINK_PURPOSE;
use crate::net::stream::connect_waiting;
use crate::net::tls::{UNKNOWN_KEY, WaitingTls};
use crate::store::ExtentId;
use crate::store::identity::{Identity, sidecar_path};
use crate::store::read_mirror;

/// How long a node may take to accept a connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all of its mirror may take, however slowly bytes come: 800 MB, the largest map with its changes, at 1.3 MB/s.
const MIRROR_WITHIN: Duration = Duration::from_secs(600);
/// How often it is looked whether nobody waits for the answer any more.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;
/// Most bytes of an answer: more than a part of a mirror, and what a node says of its extent.
const ANSWER_BYTES_MAX: usize = MIRROR_FRAME_BYTES_MAX + READ_BYTES;

/// Terms of asking nodes: keys, and for how long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asking<'a> {
    /// The keys of the cluster, if it has keys: mirrors are verified with them as they come.
    pub keys: Option<&'a GatewayKeys>,
    /// Mirrors count, too, that they do not verify.
    pub accepts_unsigned: bool,
    /// Ends all waiting.
    pub stop: Option<&'a AtomicBool>,
    /// How long an answer may take in all, if not [`MIRROR_WITHIN`].
    pub within: Option<Duration>,
}

impl Asking<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }
}

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
pub fn ask(source: &NodeSource, asking: &Asking<'_>) -> anyhow::Result<Told> {
    let until = Instant::now() + asking.within.unwrap_or(MIRROR_WITHIN);
    match (source, asking.keys) {
        (NodeSource::Remote { address }, None) => Ok(recall(&mut connect(address)?, asking, until)?),
        (NodeSource::Remote { address }, Some(keys)) => ask_proven(connect(address)?, keys, asking, until),
        (NodeSource::Local { path, .. }, _) => look(path),
    }
}

/// Asks a node that has proven to be one that is known.
fn ask_proven(stream: TcpStream, keys: &GatewayKeys, asking: &Asking<'_>, until: Instant) -> anyhow::Result<Told> {
    let mut stream = WaitingTls::begin_until(&keys.end, stream, until.min(Instant::now() + PATIENCE))?;
    let proven = stream.peer_spki(LINK_PURPOSE).and_then(|spki| keys.extent_of(spki));
    let proven = proven.with_context(|| {
        format!("{UNKNOWN_KEY}: pin it with `flashmob join` or `flashmob key pin`, if it is the node's")
    })?;
    stream.write_all(&keys.shown())?;
    let told = recall(&mut stream, asking, until)?;
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

/// A connection whose reads can be given an end.
trait Waiting: Read + Write {
    /// Reads end at this time with [`io::ErrorKind::WouldBlock`] or [`io::ErrorKind::TimedOut`].
    fn wait_until(&mut self, until: Instant) -> io::Result<()>;
}

impl Waiting for TcpStream {
    fn wait_until(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        self.set_read_timeout(Some(left.max(Duration::from_millis(1))))
    }
}

impl Waiting for WaitingTls {
    fn wait_until(&mut self, until: Instant) -> io::Result<()> {
        WaitingTls::wait_until(self, Some(until))
    }
}

/// Why there is no mirror.
struct Failed(io::Error);

impl From<TooLong> for Failed {
    fn from(error: TooLong) -> Failed {
        Failed(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// Gets a node's mirror over a fresh connection: all of it, or as much as is verified and what shows that the rest is not.
fn recall(stream: &mut impl Waiting, asking: &Asking<'_>, until: Instant) -> io::Result<Told> {
    let told = RefCell::new(None);
    let verifier = asking.keys.filter(|_| !asking.accepts_unsigned).map(GatewayKeys::mirror_verifier);
    let mirror = gather(verifier.as_ref().map(|verifier| verifier as &dyn Verify), |offset_bytes| {
        let mut request = Vec::new();
        Recall { offset_bytes }.encode(&mut request);
        stream.write_all(&request).map_err(Failed)?;
        let (recalled, bytes) = answer(stream, asking, until).map_err(Failed)?;
        let size_bytes = recalled.mirror_bytes;
        *told.borrow_mut() = Some(recalled);
        Ok((size_bytes, bytes))
    });
    let mirror = mirror.map_err(|Failed(error)| error)?;
    let Some(recalled) = told.into_inner() else { return Err(io::ErrorKind::UnexpectedEof.into()) };
    let Recalled { extent_id, size_bytes, volume, charge, layout, is_linked, .. } = recalled;
    Ok(Told { extent_id, size_bytes, volume, charge, layout, is_linked, mirror })
}

/// Reads one answer.
fn answer(stream: &mut impl Waiting, asking: &Asking<'_>, until: Instant) -> io::Result<(Recalled, Vec<u8>)> {
    let invalid = |error: WireError| io::Error::new(io::ErrorKind::InvalidData, error);
    let late = |text: String| io::Error::new(io::ErrorKind::TimedOut, text);
    let answer_until = Instant::now() + PATIENCE;
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
        if received.len() > ANSWER_BYTES_MAX {
            return Err(invalid(WireError::Malformed("answer to a recall")));
        }
        let start = received.len();
        received.resize(start + READ_BYTES, 0);
        let count = loop {
            let now = Instant::now();
            if asking.is_stopped() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
            if now >= until {
                return Err(late("its mirror did not come within the time that it may take".to_string()));
            }
            if now >= answer_until {
                return Err(late(format!("no answer within {PATIENCE:?}")));
            }
            stream.wait_until(until.min(answer_until).min(now + LOOK_EVERY))?;
            match stream.read(&mut received[start..]) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the node closed the connection")),
                Ok(count) => break count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
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
        /// Called before each byte is read.
        before: fn(),
    }

    impl Waiting for Peer {
        fn wait_until(&mut self, _until: Instant) -> io::Result<()> {
            Ok(())
        }
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
            (self.before)();
            let count = self.out.len().min(into.len()).min(5);
            into.iter_mut().zip(self.out.drain(..count)).for_each(|(to, byte)| *to = byte);
            Ok(count)
        }
    }

    #[test]
    fn a_mirror_is_recalled_in_parts() {
        for (len, part) in [(0, 10), (1, 10), (10, 10), (11, 10), (35, 10)] {
            let mirror: Vec<u8> = (0..len).collect();
            let mut peer = Peer { mirror: mirror.clone(), part, out: VecDeque::new(), before: || () };
            let told = recall(&mut peer, &Asking::default(), Instant::now() + PATIENCE).unwrap();
            assert_eq!((told.mirror, told.volume), (mirror, Some(("pool".to_string(), 2))), "{len}");
            assert_eq!((told.size_bytes, told.layout, told.is_linked), (4096, Some(("linear".to_string(), 3)), true));
        }
    }

    /// A stream that says these bytes, whatever is sent.
    struct Bytes<'a>(&'a [u8]);

    impl Waiting for Bytes<'_> {
        fn wait_until(&mut self, _until: Instant) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Bytes<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Bytes<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let told = |bytes: &[u8]| {
            answer(&mut Bytes(bytes), &Asking::default(), Instant::now() + PATIENCE).unwrap_err().to_string()
        };
        assert_eq!(told(b""), "the node closed the connection");
        assert!(told(b"HTTP/1.1 400").contains("is this the right port?"));
        let mut refusal = Vec::new();
        flashmob_core::wire::frame::encode_error(&mut refusal, "unknown frame kind 12");
        assert!(told(&refusal).contains("unknown frame kind 12"), "{}", told(&refusal));
        let mut refusal = Vec::new();
        let text = "no\n\u{1b}[2Jerror: all is well".to_string();
        Refuse { reason: flashmob_core::wire::hello::RefuseReason::Store, text }.encode(&mut refusal);
        assert!(!told(&refusal).contains(['\n', '\u{1b}']), "{}", told(&refusal));
    }

    #[test]
    fn a_mirror_without_end_ends_when_it_is_late_or_nobody_waits_for_it_any_more() {
        let mirror = vec![1; 1 << 20];
        let peer = |before| Peer { mirror: mirror.clone(), part: 1, out: VecDeque::new(), before };
        let stop = AtomicBool::new(false);
        let asking = Asking { stop: Some(&stop), ..Asking::default() };
        let slow = || std::thread::sleep(Duration::from_millis(2));
        let until = Instant::now() + Duration::from_millis(100);
        let error = recall(&mut peer(slow), &asking, until).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        stop.store(true, Ordering::SeqCst);
        let error = recall(&mut peer(|| ()), &asking, Instant::now() + MIRROR_WITHIN).unwrap_err();
        assert_eq!(error.to_string(), "stopped");
    }
}
