//! A stream that was recorded is sent again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::cluster::{self, Node};
use super::lane::{self, Keyed, Lane, Outcome, SIZE_BYTES, VALUE_AT, VALUE_BYTES, config, value};
use super::proxy::{Direction, Plan, Proxy};

/// What is at the value's place in the extent.
fn stored(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the extent")[VALUE_AT as usize..][..VALUE_BYTES].to_vec()
}

/// Sends the bytes to a node, and returns when that has closed the connection, or executed what they say.
fn send(address: SocketAddr, recorded: &[u8], path: &Path, is_done: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    // It may be closed before all is sent.
    let _ = stream.write_all(recorded);
    let mut room = [0; 4096];
    while stored(path) != is_done {
        match stream.read(&mut room) {
            Ok(0) => return,
            Err(e) if !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => return,
            _ => {}
        }
    }
}

/// Writes the first value through a connection that is recorded, and the second through another one. Sends the recorded stream again, to the same node and to
/// the node after it has started again, and returns what is in the extent then.
fn replayed(has_keys: bool) -> Vec<u8> {
    let keyed = Keyed::new();
    let (path, first, second) = (keyed.path("a"), value(1), value(2));
    let open = || -> Node { if has_keys { keyed.node("a") } else { cluster::node(&path, SIZE_BYTES) } };
    let node = open();
    let proxy = Proxy::new(node.address);
    let gateway = cluster::gateway(&config(proxy.address, has_keys.then(|| keyed.keys())));
    lane::read(&gateway);
    proxy.plan(Plan::NONE);
    lane::write(&gateway, &first);
    let connection = proxy.planned().expect("a connection");
    proxy.plan(Plan::NONE);
    lane::write(&gateway, &second);
    let recorded = connection.came(Direction::ToNode);
    assert!(recorded.len() > VALUE_BYTES);

    if has_keys {
        // The bytes are of no use to the node that has seen them.
        send(node.address, &recorded, &path, &first);
        assert_eq!(lane::read(&gateway), second);
    }
    gateway.end();
    node.end();
    assert_eq!(stored(&path), second);

    let node = open();
    send(node.address, &recorded, &path, &first);
    node.end();
    stored(&path)
}

#[test]
fn a_recorded_stream_changes_nothing_when_it_is_sent_again() {
    assert_eq!(replayed(true), value(2));
}

/// Without this the test above could not fail.
#[test]
fn without_keys_a_recorded_stream_is_executed_again() {
    assert_eq!(replayed(false), value(1));
}

#[test]
fn recorded_answers_of_a_node_are_not_taken() {
    let mut lane = Lane::new();
    lane.round(Plan::NONE);
    let recorded = lane.proxy.planned().expect("a connection").came(Direction::ToGateway);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(&recorded);
            // Until it is closed.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    assert_eq!(lane.round(Plan::elsewhere(address)), Outcome::Ended(None));
    lane.end();
}
