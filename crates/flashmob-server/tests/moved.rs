//! A node that comes back at another address is used there once the gateway is told; what is told wrongly does no lasting harm.

mod cluster;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use flashmob_core::op::{Op, OpFlags};
use flashmob_server::gateway::Seen;
use flashmob_server::status::report::NodeOfVolume;
use flashmob_server::store::ExtentId;

const SIZE_BYTES: u64 = 1 << 20;

fn extent_id(node: &cluster::Node) -> Seen {
    let report = node.reporter.ask().and_then(|report| report.node).expect("a node's report");
    Seen::Extent(report.extent_id.parse().expect("an extent's id"))
}

fn seen(gateway: &cluster::Gateway) -> NodeOfVolume {
    let volumes = gateway.reporter.ask().and_then(|report| report.gateway).expect("a gateway's report").volumes;
    volumes[0].nodes[0].clone()
}

fn read(gateway: &cluster::Gateway) -> Option<Vec<u8>> {
    gateway.handle.call(0, Op::Read, OpFlags::NONE, vec![(4096, 4)], Vec::new()).wait().ok()
}

#[test]
fn a_node_is_followed_to_where_it_was_seen_and_a_wrong_place_does_no_lasting_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("extent");
    let first = cluster::node(&path, SIZE_BYTES);
    let config = format!(
        "[[volume]]\nname = 'v'\ntimeout = '60s'\nreconnect_max = '100ms'\n[[volume.node]]\naddress = '{}'\nsize = '{SIZE_BYTES}B'\n",
        first.address
    );
    let gateway = cluster::gateway(&config);
    gateway.handle.call(0, Op::Write, OpFlags::FUA, vec![(4096, 4)], b"here".to_vec()).wait().expect("written");
    let id = extent_id(&first);
    assert!(
        !gateway.whereabouts.seen(Seen::Extent(ExtentId([9; 16])), vec!["127.0.0.1:1".to_string()]),
        "an extent of nobody"
    );
    assert!(gateway.whereabouts.seen(id, vec![first.address.to_string()]));
    assert!(gateway.whereabouts.seen(id, vec!["127.0.0.1:1".to_string(), first.address.to_string()]), "one of several");
    // The same address means that it is there, and a link that answers stays.
    assert_eq!(read(&gateway).as_deref(), Some(&b"here"[..]));
    assert_eq!((seen(&gateway).seen_at, seen(&gateway).links[0].counters.breaks), (None, 0));

    drop(first);
    let second = cluster::node(&path, SIZE_BYTES);
    assert_eq!(extent_id(&second), id);
    assert!(gateway.whereabouts.seen(id, vec![second.address.to_string()]));
    assert_eq!(read(&gateway).as_deref(), Some(&b"here"[..]), "it is found at {}", second.address);
    assert_eq!(seen(&gateway).seen_at, Some(second.address.to_string()));

    // Another extent, and nobody, are not taken for it: the link to the right place stays, and is found again.
    let other = cluster::node(&folder.path().join("other"), SIZE_BYTES);
    for wrong in [other.address.to_string(), "127.0.0.1:1".to_string(), "no such address".to_string()] {
        assert!(gateway.whereabouts.seen(id, vec![wrong.clone()]));
        assert_eq!(read(&gateway).as_deref(), Some(&b"here"[..]), "in spite of {wrong}");
    }
    drop(second);
    let third = cluster::node(&path, SIZE_BYTES);
    assert!(gateway.whereabouts.seen(id, vec![third.address.to_string()]));
    assert_eq!(read(&gateway).as_deref(), Some(&b"here"[..]));
}

/// An address that leads to a node, and stays while its connections are cut.
struct Way {
    address: SocketAddr,
    conns: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn to(node: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let way = Way { address: listener.local_addr().expect("an address"), conns: Arc::default() };
        let conns = way.conns.clone();
        std::thread::spawn(move || {
            for here in listener.incoming().flatten() {
                let Ok(there) = TcpStream::connect(node) else { continue };
                let again = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                for (mut from, mut to) in [(again(&here), again(&there)), (again(&there), again(&here))] {
                    std::thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                conns.lock().expect("the connections").extend([here, there]);
            }
        });
        way
    }

    fn cut(&self) {
        for conn in self.conns.lock().expect("the connections").drain(..) {
            let _ = conn.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_wrong_place_that_takes_connections_does_not_keep_the_gateway_from_the_configured_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let [right, wrong] = ["right", "wrong"].map(|name| cluster::node(&folder.path().join(name), SIZE_BYTES));
    let way = Way::to(right.address);
    let gateway = cluster::gateway(&format!(
        "[[volume]]\nname = 'v'\ntimeout = '20s'\nreconnect_max = '100ms'\n[[volume.node]]\naddress = '{}'\nsize = '{SIZE_BYTES}B'\n",
        way.address
    ));
    gateway.handle.call(0, Op::Write, OpFlags::FUA, vec![(4096, 4)], b"here".to_vec()).wait().expect("written");
    assert!(gateway.whereabouts.seen(extent_id(&right), vec![wrong.address.to_string()]));
    for round in 0..2 {
        way.cut();
        assert_eq!(read(&gateway).as_deref(), Some(&b"here"[..]), "round {round}");
    }
}
