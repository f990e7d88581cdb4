//! Nodes and gateways on threads of a test, ended when they are dropped.

// Every test program uses its part of this.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;

use flashmob_core::elevator::IssueOrder;
use flashmob_server::config::Config;
use flashmob_server::gateway::{GatewayServer, NativeHandle, Stopper, Whereabouts};
use flashmob_server::net::ListenAddr;
use flashmob_server::node::{ExtentConfig, NodeOptions, NodeServer};
use flashmob_server::status::Reporter;
use flashmob_server::store::StoreConfig;

/// A node that serves a file.
pub struct Node {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it tells about itself.
    pub reporter: Reporter,
    stop: Box<dyn Fn()>,
    thread: Option<JoinHandle<()>>,
}

/// Serves the file at `path`, which gets `size_bytes` if it is missing.
pub fn node(path: &Path, size_bytes: u64) -> Node {
    let extent = ExtentConfig {
        store: StoreConfig { size_bytes: Some(size_bytes), ..StoreConfig::new(path) },
        state_dir: None,
        forget: false,
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
    let mut server = NodeServer::open(options).expect("a node");
    let Ok(ListenAddr::Tcp(address)) = server.local_addr() else { panic!("no address") };
    let (reporter, stop) = (server.reporter(), Box::new(server.stopper()));
    let thread = std::thread::spawn(move || server.run().expect("a node's loop"));
    Node { address, reporter, stop, thread: Some(thread) }
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

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().map(JoinHandle::join);
    }
}
