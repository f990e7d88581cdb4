//! Nodes and gateways on threads of a test, ended when they are dropped.

// Every test program uses its part of this.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_core::elevator::IssueOrder;
use flashmob_server::config::Config;
use flashmob_server::gateway::{GatewayServer, NativeHandle, Stopper, Whereabouts};
use flashmob_server::keys::PublicKey;
use flashmob_server::net::ListenAddr;
use flashmob_server::node::{Enrollment, ExtentConfig, NodeOptions, NodeServer};
use flashmob_server::status::Reporter;
use flashmob_server::store::{ExtentId, StoreConfig};

/// A node that serves a file.
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it tells about itself.
    pub reporter: Reporter,
    /// Its key, if it has one.
    pub key: Option<PublicKey>,
    /// Its extent.
    pub extent_id: ExtentId,
    stop: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
}

/// Serves the file at `path`, which gets `size_bytes` if it is missing.
pub fn node(path: &Path, size_bytes: u64) -> Node {
    node_of(path, size_bytes, None).unwrap_or_else(|error| panic!("{error:#}"))
}

/// The same for gateways of a cluster with keys.
pub fn node_of(path: &Path, size_bytes: u64, cluster: Option<PublicKey>) -> anyhow::Result<Node> {
    open_node(path, size_bytes, cluster, None)
}

/// The same; it gets to its cluster first.
pub fn enrolled_node(path: &Path, size_bytes: u64, enroll: Option<Enrollment>) -> anyhow::Result<Node> {
    open_node(path, size_bytes, None, enroll)
}

fn open_node(
    path: &Path,
    size_bytes: u64,
    cluster: Option<PublicKey>,
    enroll: Option<Enrollment>,
) -> anyhow::Result<Node> {
    let extent = ExtentConfig {
        store: StoreConfig { size_bytes: Some(size_bytes), ..StoreConfig::new(path) },
        state_dir: None,
        forget: false,
        cluster,
        repin: false,
        new_key: false,
        enroll,
        memory_bytes: 64 << 20,
        links_max: 16,
        order: IssueOrder::Sorted,
    };
    let options = NodeOptions {
        device: flashmob_server::device::DeviceOptions::default(),
        extent,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        congestion: None,
        sizing: Default::default(),
    };
    let mut server = NodeServer::open(options)?;
    let Ok(ListenAddr::Tcp(address)) = server.local_addr() else { panic!("no address") };
    let (reporter, stop) = (server.reporter(), Box::new(server.stopper()));
    let (key, extent_id) = (server.extent().keys().map(|keys| keys.public), server.extent().identity().extent_id());
    let thread = std::thread::spawn(move || server.run().expect("a node's loop"));
    Ok(Node { address, reporter, stop, key, extent_id, thread: Some(thread) })
}

impl Node {
    /// Ends it. A panic of its thread goes on here.
    pub fn end(mut self) {
        (self.stop)();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        (self.stop)();
        self.thread.take().map(JoinHandle::join);
    }
}

/// A gateway for native callers.
pub struct Gateway {
    /// Makes calls.
    pub handle: NativeHandle,
    /// What it tells about itself.
    pub reporter: Reporter,
    /// Tells it where extents are.
    pub whereabouts: Whereabouts,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// Runs a gateway with that configuration.
pub fn gateway(config: &str) -> Gateway {
    let config = Config::parse(config, "test.toml", Path::new("/")).unwrap_or_else(|e| panic!("{e}"));
    let mut server = GatewayServer::open_native(&config).expect("a gateway");
    let (handle, reporter, stopper) = (server.native_handle(), server.reporter(), server.stopper());
    let whereabouts = server.whereabouts();
    let thread = std::thread::spawn(move || server.run().expect("a gateway's loop"));
    Gateway { handle, reporter, whereabouts, stopper, thread: Some(thread) }
}

impl Gateway {
    /// Ends it. A panic of its thread goes on here.
    pub fn end(mut self) {
        self.stopper.stop();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

/// Passes bytes on to `to`, for as many connections as come, and keeps all of them, in both directions. Returns its address.
pub fn relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(near), Ok(far)) = (stream, TcpStream::connect(to)) else { return };
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (Ok(mut from), Ok(mut to), seen) = (from.try_clone(), to.try_clone(), Arc::clone(&kept)) else {
                    return;
                };
                std::thread::spawn(move || {
                    let mut bytes = [0; 65_536];
                    while let Ok(n @ 1..) = from.read(&mut bytes) {
                        seen.lock().expect("what went by").extend_from_slice(&bytes[..n]);
                        if to.write_all(&bytes[..n]).is_err() {
                            break;
                        }
                    }
                    // The other end learns that there is no more.
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (address, seen)
}

/// Looks until it finds something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
