//! A cluster with keys: who has them reads and writes; nobody else gets as far as a hello.

mod cluster;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame};
use flashmob_core::wire::hello::{Hello, Refuse, RefuseReason};
use flashmob_server::gateway::Seen;
use flashmob_server::keys::door::NEEDS_KEYS;
use flashmob_server::keys::{Folder, PublicKey};

use cluster::until;

const SIZE_BYTES: u64 = 1 << 20;

fn config(address: std::net::SocketAddr, keys: Option<&Path>) -> String {
    let keys = keys.map_or_else(String::new, |path| format!("keys = '{}'\n", path.display()));
    format!(
        "{keys}[[volume]]\nname = 'volume-with-a-name'\ntimeout = '60s'\nreconnect_max = '100ms'\n[[volume.node]]\naddress = '{address}'\nsize = '1MiB'\n"
    )
}

fn write(gateway: &cluster::Gateway, text: &[u8]) -> bool {
    gateway.handle.call(0, Op::Write, OpFlags::NONE, vec![(4096, text.len() as u32)], text.to_vec()).wait().is_ok()
}

fn read(gateway: &cluster::Gateway, len: u32) -> Option<Vec<u8>> {
    gateway.handle.call(0, Op::Read, OpFlags::NONE, vec![(4096, len)], Vec::new()).wait().ok()
}

fn refusal(gateway: &cluster::Gateway) -> Option<String> {
    let report = gateway.reporter.ask().and_then(|report| report.gateway)?;
    report.volumes[0].nodes[0].refusal.clone()
}

/// A cluster with keys, in a folder of its own, and a node of it that is pinned.
struct Keyed {
    dir: tempfile::TempDir,
    cluster: PublicKey,
}

impl Keyed {
    fn new() -> Keyed {
        let dir = tempfile::tempdir().expect("a folder");
        let cluster = Folder::at(&dir.path().join("keys")).create().expect("keys");
        Keyed { dir, cluster }
    }

    fn folder(&self) -> Folder {
        Folder::at(&self.dir.path().join("keys"))
    }

    fn node(&self, name: &str) -> cluster::Node {
        cluster::node_of(&self.dir.path().join(name), SIZE_BYTES, Some(self.cluster))
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn pinned(&self, name: &str) -> cluster::Node {
        let node = self.node(name);
        let mut pins = self.folder().pins().expect("pins");
        pins.pin(node.extent_id, node.key.expect("a key"), false).expect("pinned");
        node
    }

    /// A copy of the gateway's folder, as it is now.
    fn stolen(&self) -> PathBuf {
        let (from, to) = (self.dir.path().join("keys"), self.dir.path().join("stolen"));
        fs::create_dir(&to).expect("a folder");
        for entry in fs::read_dir(from).expect("the keys") {
            let entry = entry.expect("a key");
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
        to
    }

    fn gateway(&self, node: &cluster::Node) -> cluster::Gateway {
        cluster::gateway(&config(node.address, Some(&self.dir.path().join("keys"))))
    }
}

#[test]
fn a_gateway_with_keys_reads_and_writes_and_the_bytes_on_the_way_are_not_seen() {
    let keyed = Keyed::new();
    let node = keyed.pinned("a");
    let (relay, seen) = cluster::relay(node.address);
    let gateway = cluster::gateway(&config(relay, Some(&keyed.dir.path().join("keys"))));
    let pattern = b"a pattern that nobody else may see".repeat(1000);
    assert!(write(&gateway, &pattern));
    assert_eq!(read(&gateway, pattern.len() as u32).as_deref(), Some(&pattern[..]));
    let seen = seen.lock().expect("what went by").clone();
    assert!(seen.len() > 2 * pattern.len());
    for secret in [&pattern[..16], b"volume-with-a-name"] {
        assert!(!seen.windows(secret.len()).any(|window| window == secret), "{}", String::from_utf8_lossy(secret));
    }
    // Without keys it does go by.
    let plain = cluster::node(&keyed.dir.path().join("plain"), SIZE_BYTES);
    let (relay, seen) = cluster::relay(plain.address);
    let gateway = cluster::gateway(&config(relay, None));
    assert!(write(&gateway, &pattern));
    assert!(seen.lock().expect("what went by").windows(16).any(|window| window == &pattern[..16]));
}

#[test]
fn a_plain_peer_gets_one_constant_answer() {
    let keyed = Keyed::new();
    let node = keyed.pinned("a");
    let mut hello = Vec::new();
    let known =
        Hello { volume_id: "volume-with-a-name".into(), extents: 1, layout: "linear".into(), ..Hello::default() };
    known.encode(&mut hello);
    let mut answers = Vec::new();
    for sent in [&hello[..], b"GET / HTTP/1.1\r\n\r\n", b"x", &[0; 4096], &[0xff; 3]] {
        let mut stream = TcpStream::connect(node.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        stream.write_all(sent).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer, and the end");
        answers.push(answer);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let Ok(Decoded::Frame(frame, taken)) = decode_frame(&answers[0]) else { panic!("no frame") };
    assert_eq!((frame.kind, taken), (FrameKind::Refuse, answers[0].len()));
    let refuse = Refuse::decode(frame.meta).expect("a refusal");
    assert_eq!((refuse.reason, &refuse.text[..]), (RefuseReason::NeedsKeys, NEEDS_KEYS));
    // A gateway without keys says what to do.
    let gateway = cluster::gateway(&config(node.address, None));
    assert_eq!(until("it is refused", || refusal(&gateway)), NEEDS_KEYS);
}

#[test]
fn strangers_are_refused_with_a_reason_and_the_cluster_is_not_disturbed() {
    let (keyed, other) = (Keyed::new(), Keyed::new());
    let node = keyed.pinned("a");
    let gateway = keyed.gateway(&node);
    assert!(write(&gateway, b"ours"));

    // A gateway of another cluster that knows the node's key.
    let mut pins = other.folder().pins().expect("pins");
    pins.pin(node.extent_id, node.key.expect("a key"), false).expect("pinned");
    let stranger = other.gateway(&node);
    assert_eq!(until("it is refused", || refusal(&stranger)), "this node belongs to another cluster");

    // A node that is not pinned, and one that has the key of another.
    let unpinned = keyed.node("b");
    let refused = keyed.gateway(&unpinned);
    let text = until("it is refused", || refusal(&refused));
    assert!(text.contains("a key that is not known here"), "{text}");

    // A node without keys.
    let plain = cluster::node(&keyed.dir.path().join("plain"), SIZE_BYTES);
    let refused = keyed.gateway(&plain);
    let text = until("it is refused", || refusal(&refused));
    assert!(text.contains("does not speak TLS"), "{text}");

    assert_eq!(read(&gateway, 4).as_deref(), Some(&b"ours"[..]));
    let report = gateway.reporter.ask().and_then(|report| report.gateway).expect("a report");
    assert_eq!(report.volumes[0].nodes[0].links[0].counters.breaks, 0);
}

#[test]
fn a_node_cannot_pass_for_another_one() {
    let keyed = Keyed::new();
    let (first, second) = (keyed.pinned("a"), keyed.node("b"));
    // The second node's key is pinned for the first one's extent, as if it had stolen its identity.
    let mut pins = keyed.folder().pins().expect("pins");
    pins.pin(first.extent_id, second.key.expect("a key"), true).expect("pinned");
    let gateway = keyed.gateway(&second);
    let text = until("it is refused", || refusal(&gateway));
    assert!(text.contains("its key is that of extent"), "{text}");
}

#[test]
fn a_later_generation_ends_the_links_of_earlier_ones_and_is_remembered() {
    let keyed = Keyed::new();
    let node = keyed.pinned("a");
    // Its keys were copied by somebody, and used.
    let stolen = keyed.stolen();
    let before = cluster::gateway(&config(node.address, Some(&stolen)));
    assert!(write(&before, b"1st!"));
    keyed.folder().rotate_gateway(None, None).expect("another key");
    let after = keyed.gateway(&node);
    assert_eq!(read(&after, 4).as_deref(), Some(&b"1st!"[..]));
    let text = until("the earlier one is refused", || refusal(&before));
    assert!(text.contains("replaced or revoked"), "{text}");
    assert!(write(&after, b"2nd!"));

    // Also by a node that has started again since, and has not seen the later gateway there.
    drop(node);
    let again = keyed.node("a");
    let plain_config = config(again.address, Some(&keyed.dir.path().join("keys")));
    let stale = before;
    assert!(stale.whereabouts.seen(Seen::Extent(again.extent_id), vec![again.address.to_string()]));
    let text = until("it is still refused", || refusal(&stale));
    assert!(text.contains("replaced or revoked"), "{text}");
    let latest = cluster::gateway(&plain_config);
    assert_eq!(read(&latest, 4).as_deref(), Some(&b"2nd!"[..]));
}

#[test]
fn a_running_gateway_takes_up_pins_and_keys() {
    let keyed = Keyed::new();
    let node = keyed.node("a");
    let gateway = keyed.gateway(&node);
    until("it is refused", || refusal(&gateway));
    let pins = || keyed.folder().pins().expect("pins");
    let key = node.key.expect("a key");
    pins().pin(node.extent_id, key, false).expect("pinned");
    // Without a restart, and without a wait for the next attempt on a refused node.
    assert!(write(&gateway, b"1st!"));
    let generation = || node.reporter.ask().and_then(|report| report.node?.keys).map(|keys| keys.generation);
    until("the node has seen it", || (generation() == Some(1)).then_some(()));
    keyed.folder().rotate_gateway(None, None).expect("another key");
    until("the node has seen it", || (generation() == Some(2)).then_some(()));
    assert_eq!(read(&gateway, 4).as_deref(), Some(&b"1st!"[..]));

    // A node that is no longer trusted is out within a second or two, though its link works.
    pins().unpin(node.extent_id).expect("removed");
    let text = until("it is refused", || refusal(&gateway));
    assert!(text.contains("a key that is not known here"), "{text}");
    pins().pin(node.extent_id, key, false).expect("pinned again");
    assert_eq!(read(&gateway, 4).as_deref(), Some(&b"1st!"[..]));
}

#[test]
fn a_node_that_had_keys_never_goes_on_without_them() {
    let (keyed, other) = (Keyed::new(), Keyed::new());
    let path = keyed.dir.path().join("a");
    let open = |cluster| cluster::node_of(&path, SIZE_BYTES, cluster).map(|node| node.key);
    let first = open(Some(keyed.cluster)).expect("a node").expect("a key");
    assert_eq!(open(None).expect("a node"), Some(first), "also if it is not told");
    let error = open(Some(other.cluster)).expect_err("another cluster");
    assert!(error.to_string().contains("--repin"), "{error:#}");
    let key = keyed.dir.path().join("a.key");
    let kept = fs::read(&key).expect("the key");
    fs::remove_file(&key).expect("removed");
    for cluster in [None, Some(keyed.cluster)] {
        let error = open(cluster).expect_err("no key");
        assert!(error.to_string().contains("a.key is missing"), "{error:#}");
        assert!(!key.exists(), "no new one is drawn");
    }
    fs::write(&key, kept).expect("restored");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    let error = open(None).expect_err("others may read it");
    assert!(error.to_string().contains("others may read"), "{error:#}");
}
