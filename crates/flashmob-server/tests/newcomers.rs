//! Ports that are full of connections whose peers say nothing: a newcomer still gets in, and nobody who is in is dropped for one.

mod cluster;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use flashmob_core::op::{Op, OpFlags};
use flashmob_server::config::Config;
use flashmob_server::gateway::{GatewayServer, Start};
use flashmob_server::net::ListenAddr;
use flashmob_server::node::UNPROVEN_MAX;

/// Most connections of the tests' nodes before a hello.
const CONNECTIONS_MAX: usize = UNPROVEN_MAX;
/// Shorter than the time for a hello, after which a silent connection is closed anyway.
const SOON: Duration = Duration::from_secs(8);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
    stream
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a mode");
    let closed = match (&*stream).read(&mut [0; 64]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).expect("a mode");
    closed
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_gateway_links_to_a_node_whose_connections_are_all_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = cluster::node(&folder.path().join("extent"), 1 << 20);
    let start = Instant::now();
    let silent: Vec<_> = (0..CONNECTIONS_MAX + 8).map(|_| connect(node.address)).collect();
    wait_until("8 made room", || silent.iter().filter(|stream| is_closed(stream)).count() >= 8);
    let is_last_open = !is_closed(&silent[CONNECTIONS_MAX + 7]);
    assert!(is_last_open || start.elapsed() > SOON, "a newcomer is refused");
    let config = format!(
        "[[volume]]\nname = 'v'\ntimeout = '60s'\nreconnect_max = '100ms'\n[[volume.node]]\naddress = '{}'\nsize = '1MiB'\n",
        node.address
    );
    let gateway = cluster::gateway(&config);
    let call = |op, data: &[u8]| gateway.handle.call(0, op, OpFlags::NONE, vec![(4096, 4)], data.to_vec()).wait();
    call(Op::Write, b"here").expect("written");
    // Its link is no stranger's: whoever comes now displaces others.
    let more: Vec<_> = (0..3 * CONNECTIONS_MAX).map(|_| connect(node.address)).collect();
    wait_until("most of them made room", || more.iter().filter(|stream| is_closed(stream)).count() > CONNECTIONS_MAX);
    assert_eq!(call(Op::Read, b"").expect("read"), b"here");
    let report = gateway.reporter.ask().and_then(|report| report.gateway).expect("a report");
    assert_eq!(report.volumes[0].nodes[0].links[0].counters.breaks, 0);
}

/// Greeted, and with an export open.
fn client(address: SocketAddr) -> Option<TcpStream> {
    const GREETING_BYTES: usize = 18;
    const FIXED_NEWSTYLE_NO_ZEROES: u32 = 3;
    const EXPORT_NAME: u32 = 1;
    let mut stream = connect(address);
    stream.read_exact(&mut [0; GREETING_BYTES]).ok()?;
    let option = [&FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes()[..], b"IHAVEOPT", &EXPORT_NAME.to_be_bytes(), &[0, 0, 0, 1]];
    stream.write_all(&[&option.concat()[..], b"v"].concat()).ok()?;
    // Size and flags.
    stream.read_exact(&mut [0; 10]).ok()?;
    Some(stream)
}

fn reads(stream: &mut TcpStream) -> bool {
    const READ: [u8; 8] = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
    let request = [&READ[..], &[7; 8], &[0; 8], &16u32.to_be_bytes()].concat();
    stream.write_all(&request).is_ok() && stream.read_exact(&mut [0; 16 + 16]).is_ok()
}

#[test]
fn clients_get_in_beside_silent_ones_and_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gateway.toml");
    let text = "listen = '127.0.0.1:0'\nconnections = 2\n[[volume]]\nname = 'v'\n[[volume.node]]\npath = 'extent'\nsize = '1MiB'\n";
    std::fs::write(&path, text).expect("a configuration");
    let config = Config::load(&path).unwrap_or_else(|e| panic!("{e}"));
    let mut server = GatewayServer::open(&config, &path, Start::default()).expect("a gateway").expect("not stopped");
    let [ListenAddr::Tcp(address)] = server.local_addrs().expect("addresses")[..] else { panic!("no address") };
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || server.run().expect("a gateway's loop"));

    let silent: Vec<_> = (0..5).map(|_| connect(address)).collect();
    let mut first = client(address).expect("the first client");
    assert!(reads(&mut first));
    let more: Vec<_> = (0..5).map(|_| connect(address)).collect();
    let mut second = client(address).expect("the second client");
    assert!(reads(&mut second) && reads(&mut first), "both stay");
    assert!(client(address).is_none(), "no client makes room for a third one");
    assert!(reads(&mut second) && reads(&mut first), "both still stay");
    drop((silent, more));
    drop(first);
    wait_until("there is room again", || client(address).is_some());

    stopper.stop();
    thread.join().expect("the loop ended");
}
