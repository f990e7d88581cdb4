//! A node that has a valid key, and lies: it is a node with a fault, and the others serve.

mod cluster;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::frame::{Decoded, Frame, FrameKind, decode_frame};
use flashmob_core::wire::generation::GENERATION_MAX;
use flashmob_core::wire::hello::{Charge, Refuse, RefuseReason};
use flashmob_core::wire::mirror::{MIRROR_BYTES_MAX, MIRROR_FRAME_BYTES_MAX, Recall, Recalled};
use flashmob_server::config::Config;
use flashmob_server::gateway::from_nodes::recover::{Recovery, Sources};
use flashmob_server::gateway::{Deposed, GatewayServer, NativeHandle, Start, Stopper};
use flashmob_server::keys::node::Draw;
use flashmob_server::keys::{Folder, NodeKeys, PublicKey};
use flashmob_server::net::tls::WaitingTls;
use flashmob_server::status::Reporter;
use flashmob_server::store::ExtentId;

use cluster::{Node, until};

const SIZE_BYTES: u64 = 16 << 20;
const WORDS: &str = "a later gateway is in charge\n\x1b[2Jerror: nothing is wrong";

/// A volume with copies on three nodes, in a cluster with keys.
struct World {
    dir: tempfile::TempDir,
    cluster: PublicKey,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().expect("a folder");
        let cluster = Folder::at(&dir.path().join("keys")).create().expect("keys");
        World { dir, cluster }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn node(&self, name: &str) -> Node {
        let node = cluster::node_of(&self.data(name), SIZE_BYTES, Some(self.cluster)).expect("a node");
        let pins = Folder::at(&self.data("keys")).pins();
        let key = node.key.expect("a key");
        if !pins.as_ref().is_ok_and(|pins| pins.extent_of(key).is_some()) {
            pins.expect("pins").pin(node.extent_id, key, false).expect("pinned");
        }
        node
    }

    fn config(&self, nodes: [SocketAddr; 3]) -> (Config, PathBuf) {
        let path = self.data("cluster.toml");
        let nodes = nodes.map(|node| format!("[[volume.node]]\naddress = '{node}'\nsize = '16MiB'\n")).concat();
        let text = format!(
            "keys = '{}'\nlisten = ['unix:{}']\n[[volume]]\nname = 'pool'\nlayout = 'mapped'\ncopies = 2\ntimeout = '60s'\nreconnect_max = '200ms'\n{nodes}",
            self.data("keys").display(),
            self.data("nbd.sock").display(),
        );
        std::fs::write(&path, text).expect("a configuration");
        (Config::load(&path).unwrap_or_else(|error| panic!("{error}")), path)
    }

    /// A map with some content, of honest nodes.
    fn filled(&self, nodes: [SocketAddr; 3]) {
        let gateway = Running::start(&self.config(nodes));
        assert!(gateway.write(0) && gateway.write(5 << 20));
        assert!(gateway.call(Op::Flush, vec![], vec![]));
        gateway.until_mirrored();
        gateway.end();
    }
}

/// A gateway with its files.
struct Running {
    handle: NativeHandle,
    reporter: Reporter,
    stopper: Stopper,
    thread: JoinHandle<Option<Deposed>>,
}

impl Running {
    fn start((config, path): &(Config, PathBuf)) -> Running {
        let server = GatewayServer::open(config, path, Start::default());
        let mut server = server.unwrap_or_else(|error| panic!("{error:#}")).expect("nobody stopped it");
        let (handle, reporter, stopper) = (server.native_handle(), server.reporter(), server.stopper());
        let thread = std::thread::spawn(move || {
            server.run().expect("a gateway's loop");
            server.deposed().cloned()
        });
        Running { handle, reporter, stopper, thread }
    }

    fn call(&self, op: Op, spans: Vec<(u64, u32)>, bytes: Vec<u8>) -> bool {
        self.handle.call(0, op, OpFlags::NONE, spans, bytes).wait().is_ok()
    }

    fn write(&self, at: u64) -> bool {
        self.call(Op::Write, vec![(at, 4096)], vec![7; 4096])
    }

    /// All nodes keep a mirror of the map.
    fn until_mirrored(&self) {
        until("mirrors", || {
            let report = self.reporter.ask().and_then(|report| report.gateway)?;
            (report.volumes[0].copies.as_ref()?.mirrors == 3).then_some(())
        });
    }

    fn refusal(&self, node: usize) -> Option<String> {
        let report = self.reporter.ask().and_then(|report| report.gateway)?;
        report.volumes[0].nodes[node].refusal.clone()
    }

    fn end(self) -> Option<Deposed> {
        self.stopper.stop();
        self.thread.join().expect("a gateway")
    }
}

/// How a node lies about its mirror.
#[derive(Debug, Clone, Copy)]
enum Mirror {
    /// No mirror.
    None,
    /// A mirror of 4 GiB, which are nothing.
    Endless,
    /// Such a mirror, a byte at a time.
    Slow,
}

/// A node with the key of another one that answers each hello with a refusal.
struct Liar {
    address: SocketAddr,
    sent_bytes: Arc<AtomicU64>,
    hellos: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
}

impl Liar {
    fn start(data: &Path, extent: ExtentId, cluster: PublicKey, mirror: Mirror, charge: Option<Charge>) -> Liar {
        let key = PathBuf::from(format!("{}.key", data.display()));
        let keys = NodeKeys::open(&key, cluster, Draw::Never).unwrap_or_else(|error| panic!("{error}"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let liar = Liar { address, sent_bytes: Arc::default(), hellos: Arc::default(), end: Arc::default() };
        let (sent, hellos, end) = (liar.sent_bytes.clone(), liar.hellos.clone(), liar.end.clone());
        let keys = Arc::new(keys);
        std::thread::spawn(move || {
            for tcp in listener.incoming() {
                let Ok(tcp) = tcp else { return };
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (keys, sent, hellos) = (keys.clone(), sent.clone(), hellos.clone());
                std::thread::spawn(move || {
                    let Ok(mut tls) = WaitingTls::begin(&keys.end, tcp) else { return };
                    let _ = answer_all(&mut tls, extent, mirror, charge, &sent, &hellos);
                });
            }
        });
        liar
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
    }
}

fn answer_all(
    tls: &mut WaitingTls,
    extent: ExtentId,
    mirror: Mirror,
    charge: Option<Charge>,
    sent: &AtomicU64,
    hellos: &AtomicU64,
) -> std::io::Result<()> {
    let mut grant = [0; flashmob_server::keys::grant::GRANT_BYTES];
    tls.read_exact(&mut grant)?;
    let (mut received, mut room) = (Vec::new(), [0; 4096]);
    loop {
        let (kind, meta, taken) = match decode_frame(&received) {
            Ok(Decoded::Frame(Frame { kind, meta, .. }, taken)) => (kind, meta.to_vec(), taken),
            Ok(_) => {
                let count = tls.read(&mut room)?;
                if count == 0 {
                    return Ok(());
                }
                received.extend_from_slice(&room[..count]);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        received.drain(..taken);
        let mut answer = Vec::new();
        match kind {
            FrameKind::Recall => {
                Recall::decode(&meta).expect("a recall");
                let (mirror_bytes, part) = match mirror {
                    Mirror::None => (0, 0),
                    Mirror::Endless => (MIRROR_BYTES_MAX, MIRROR_FRAME_BYTES_MAX),
                    Mirror::Slow => (MIRROR_BYTES_MAX, 1),
                };
                if matches!(mirror, Mirror::Slow) {
                    std::thread::sleep(Duration::from_millis(300));
                }
                let (volume, extent_id) = (Some(("pool".to_string(), 2)), extent.0);
                let recalled = Recalled {
                    extent_id,
                    size_bytes: SIZE_BYTES,
                    mirror_bytes,
                    volume,
                    charge,
                    layout: None,
                    is_linked: false,
                };
                recalled.encode(&mut answer, &vec![b'x'; part]);
            }
            _ => {
                hellos.fetch_add(1, Ordering::SeqCst);
                Refuse { reason: RefuseReason::Deposed, text: WORDS.to_string() }.encode(&mut answer);
            }
        }
        sent.fetch_add(answer.len() as u64, Ordering::SeqCst);
        tls.write_all(&answer)?;
    }
}

#[test]
fn a_node_that_says_that_another_gateway_is_in_charge_ends_nothing() {
    let world = World::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| world.node(name));
    world.filled([a.address, b.address, c.address]);
    let (extent, data) = (c.extent_id, world.data("c"));
    c.end();
    for mirror in [Mirror::None, Mirror::Endless, Mirror::Slow] {
        let liar = Liar::start(&data, extent, world.cluster, mirror, None);
        let gateway = Running::start(&world.config([a.address, b.address, liar.address]));
        let refusal = until("there is no proof", || gateway.refusal(2).filter(|text| text.contains("without proof")));
        assert!(refusal.contains("flashmob key unpin"), "{refusal}");
        assert!(!refusal.contains(['\n', '\x1b']), "{refusal}");
        assert!(gateway.write(0) && gateway.write(6 << 20), "{mirror:?}");
        until("it says so again", || (liar.hellos.load(Ordering::SeqCst) > 3).then_some(()));
        assert!(gateway.write(0), "{mirror:?}");
        assert_eq!(gateway.end(), None, "{mirror:?}");
    }
}

/// The words of the node are the same as those of a node that is right.
#[test]
fn a_gateway_with_an_older_map_is_found_by_the_mirror_of_a_node() {
    let world = World::new();
    let nodes = ["a", "b", "c"].map(|name| world.node(name));
    let addresses = [nodes[0].address, nodes[1].address, nodes[2].address];
    world.filled(addresses);
    let config = world.config(addresses);
    let map = world.data("cluster.toml.pool.map");
    let older = std::fs::read(&map).expect("a map");
    // It goes on, and somebody puts the older state of its map back.
    for _ in 0..2 {
        let gateway = Running::start(&config);
        assert!(gateway.write(0));
        assert!(gateway.call(Op::Flush, vec![], vec![]));
        gateway.until_mirrored();
        gateway.end();
    }
    std::fs::write(&map, older).expect("put back");
    let gateway = Running::start(&config);
    until("it ends", || gateway.thread.is_finished().then_some(()));
    let deposed = gateway.thread.join().expect("a gateway");
    assert!(matches!(deposed, Some(Deposed::Behind(..) | Deposed::ByNodes(_))), "{deposed:?}");
}

#[test]
fn a_mirror_without_end_costs_no_more_than_a_part_and_the_map_is_recovered_from_others() {
    let world = World::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| world.node(name));
    world.filled([a.address, b.address, c.address]);
    let (extent, data) = (c.extent_id, world.data("c"));
    c.end();
    std::fs::remove_file(world.data("cluster.toml.pool.map")).expect("removed");
    let liar = Liar::start(&data, extent, world.cluster, Mirror::Endless, None);
    let (config, path) = world.config([a.address, b.address, liar.address]);
    let recovery = Recovery::look(&config, &path, "pool", &Sources::default()).unwrap_or_else(|e| panic!("{e:#}"));
    let sent = liar.sent_bytes.load(Ordering::SeqCst);
    assert!(sent < 8 << 20, "{sent} bytes were taken");
    assert!(recovery.nodes[0].mirror.is_ok() && recovery.nodes[2].mirror.is_err());
    // A charge of the largest generation that there is, of the same map.
    let map_id = recovery.recovered.image.map_id();
    let number = (GENERATION_MAX << 48) + 5;
    let charge = Some(Charge { map_id, epoch: number, nonce: 1, version: number });
    drop(liar);
    let liar = Liar::start(&data, extent, world.cluster, Mirror::None, charge);
    let (config, path) = world.config([a.address, b.address, liar.address]);
    let recovery = Recovery::look(&config, &path, "pool", &Sources::default()).unwrap_or_else(|e| panic!("{e:#}"));
    let claims = recovery.claims();
    assert!(claims.len() == 1 && claims[0].contains("node 2") && claims[0].contains("generation 16383"), "{claims:?}");
    // Whoever waits for a slow one can be stopped.
    drop(liar);
    let liar = Liar::start(&data, extent, world.cluster, Mirror::Slow, None);
    let (config, path) = world.config([a.address, b.address, liar.address]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let sources = Sources { stop: Some(&stop), ..Sources::default() };
            Recovery::look(&config, &path, "pool", &sources).map(|recovery| recovery.nodes[2].extent.clone())
        });
        until("it has begun", || (liar.sent_bytes.load(Ordering::SeqCst) > 0).then_some(()));
        stop.store(true, Ordering::SeqCst);
        let looked = looking.join().expect("no panic");
        assert!(looked.is_ok_and(|extent| extent.is_err_and(|why| why.contains("stopped"))));
    });
}
