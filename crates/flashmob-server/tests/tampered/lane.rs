//! A cluster of its own with the proxy in its middle, and what must hold after each connection through that.

use std::net::SocketAddr;
use std::path::PathBuf;

use flashmob_core::op::{Op, OpFlags};
use flashmob_server::keys::{Folder, PublicKey};
use flashmob_server::store::identity::Identity;

use super::change::Touched;
use super::cluster::{self, Gateway, Node};
use super::proxy::{Plan, Proxy};

pub const SIZE_BYTES: u64 = 64 << 10;
/// Where values are written, how long they are, and what is read: bytes around them are always zeros.
pub const VALUE_AT: u64 = 4096;
pub const VALUE_BYTES: usize = 24;
const READ_AT: u64 = VALUE_AT - 16;
const READ_BYTES: usize = 16 + VALUE_BYTES + 16;

/// The configuration of a gateway with one volume of one node. Nothing here depends on how long something takes.
pub fn config(address: SocketAddr, keys: Option<PathBuf>) -> String {
    let keys = keys.map_or_else(String::new, |path| format!("keys = '{}'\n", path.display()));
    format!(
        "{keys}[[volume]]\nname = 'v'\ntimeout = '60s'\nconnect_timeout = '20s'\nreconnect_min = '2ms'\nreconnect_max = '10ms'\n\
         [[volume.node]]\naddress = '{address}'\nsize = '64KiB'\n"
    )
}

/// A cluster with keys, in a folder of its own.
pub struct Keyed {
    dir: tempfile::TempDir,
    pub cluster: PublicKey,
}

impl Keyed {
    pub fn new() -> Keyed {
        let dir = tempfile::tempdir().expect("a folder");
        let cluster = Folder::at(&dir.path().join("keys")).create().expect("keys");
        Keyed { dir, cluster }
    }

    pub fn keys(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A node whose key the gateway knows.
    pub fn node(&self, name: &str) -> Node {
        let node = cluster::node_of(&self.path(name), SIZE_BYTES, Some(self.cluster));
        let node = node.unwrap_or_else(|error| panic!("{error:#}"));
        let mut pins = Folder::at(&self.keys()).pins().expect("pins");
        pins.pin(node.extent_id, node.key.expect("a key"), false).expect("pinned");
        node
    }
}

/// The value of that number.
pub fn value(number: u64) -> Vec<u8> {
    let text = format!("value {number:0width$}", width = VALUE_BYTES - 6);
    text.into_bytes()
}

/// Writes a value, and has it on the flash.
pub fn write(gateway: &Gateway, value: &[u8]) {
    let call = |op, spans, payload| gateway.handle.call(0, op, OpFlags::NONE, spans, payload).wait();
    call(Op::Write, vec![(VALUE_AT, value.len() as u32)], value.to_vec()).expect("a write");
    call(Op::Flush, Vec::new(), Vec::new()).expect("a flush");
}

/// Reads the value, and checks that there is nothing around it.
pub fn read(gateway: &Gateway) -> Vec<u8> {
    let read = gateway.handle.call(0, Op::Read, OpFlags::NONE, vec![(READ_AT, READ_BYTES as u32)], Vec::new());
    let bytes = read.wait().expect("a read");
    let (before, rest) = bytes.split_at(16);
    let (value, behind) = rest.split_at(VALUE_BYTES);
    assert!(before.iter().chain(behind).all(|byte| *byte == 0), "{bytes:?}");
    value.to_vec()
}

/// What became of a connection that was tampered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The change was never made: the stream is shorter.
    Untouched,
    /// It goes on as if nothing had happened.
    Survived(Touched),
    /// Another one took its place.
    Ended(Option<Touched>),
}

/// A node and a gateway with the proxy between them.
pub struct Lane {
    pub keyed: Keyed,
    pub node: Node,
    pub proxy: Proxy,
    gateway: Gateway,
    written: u64,
}

impl Lane {
    /// With a volume that is linked and has its first value.
    pub fn new() -> Lane {
        Lane::in_cluster(Keyed::new())
    }

    /// The same in a cluster of which the gateway knows other nodes, too.
    pub fn in_cluster(keyed: Keyed) -> Lane {
        let node = keyed.node("a");
        let proxy = Proxy::new(node.address);
        let gateway = cluster::gateway(&config(proxy.address, Some(keyed.keys())));
        write(&gateway, &value(0));
        Lane { keyed, node, proxy, gateway, written: 0 }
    }

    /// Runs one connection subject to the plan: from its first byte through a read, a write, a flush and a read. All of them succeed, on that connection or
    /// on the next one, and have the right bytes.
    pub fn round(&mut self, plan: Plan) -> Outcome {
        self.proxy.plan(plan);
        assert_eq!(read(&self.gateway), value(self.written), "{plan:?}: the last value");
        self.written += 1;
        write(&self.gateway, &value(self.written));
        assert_eq!(read(&self.gateway), value(self.written), "{plan:?}: the new value");
        let planned = self.proxy.planned().expect("a connection of this plan");
        if self.proxy.has_planned() {
            // What was changed last has passed both ends when this is answered.
            assert_eq!(read(&self.gateway), value(self.written), "{plan:?}: the new value again");
        }
        match (planned.touched(), self.proxy.has_planned()) {
            (None, true) => Outcome::Untouched,
            (Some(touched), true) => Outcome::Survived(touched),
            (touched, false) => Outcome::Ended(touched),
        }
    }

    /// Ends all of it. The extent has the last value and nothing else, and belongs where it belonged.
    pub fn end(self) {
        self.gateway.end();
        self.node.end();
        let path = self.keyed.path("a");
        let mut expected = vec![0; SIZE_BYTES as usize];
        expected[VALUE_AT as usize..][..VALUE_BYTES].copy_from_slice(&value(self.written));
        assert!(
            std::fs::read(&path).expect("the extent") == expected,
            "the extent has other bytes than the last value"
        );
        let identity = identity(&self.keyed, "a");
        let place = identity.place().expect("a place");
        assert_eq!((&place.volume_id[..], place.extent_index, place.extent_count), ("v", 0, 1));
        assert_eq!(identity.cluster().map(|pin| (pin.key, pin.generation)), Some((self.keyed.cluster, 1)));
    }
}

/// The identity of a node's extent, as it is on the flash.
pub fn identity(keyed: &Keyed, name: &str) -> Identity {
    let path = keyed.path(&format!("{name}.flashmob"));
    Identity::parse(&path, &std::fs::read(&path).expect("a sidecar")).expect("an identity")
}
