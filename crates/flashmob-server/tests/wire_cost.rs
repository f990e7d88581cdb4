//! What a 1-byte read costs on the wire, on real sockets: bytes and TCP segments, each way, all framing included.
//!
//! A tap between gateway and node relays both ways and understands the frames that pass. Segments are counted by the
//! kernel, on a connection whose segments are as small as on Ethernet.

mod cluster;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::GIB;
use flashmob_core::wire::{Decoded, FrameKind, decode_frame};
use flashmob_server::status::report::{LinkReport, Report};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const EXTENT_BYTES: u64 = 10 * GIB;
/// Data in one TCP segment on Ethernet: 1,500 less the headers of IPv4 and TCP with timestamps.
const SEGMENT_BYTES: usize = 1448;
/// What TCP calls its maximum segment size then: the timestamps' 12 bytes included.
const MSS_BYTES: u32 = 1460;

/// The lengths of the frames of one kind that passed.
type Seen = Arc<Mutex<HashMap<&'static str, Vec<usize>>>>;

/// Relays one connection to `node`, and notes batches and replies.
fn tap(node: SocketAddr, seen: Seen) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // Accepted sockets inherit it, and tell their peer in the handshake.
    socket2::SockRef::from(&listener).set_tcp_mss(MSS_BYTES).expect("a segment size");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        while let Ok((gateway, _)) = listener.accept() {
            let node = TcpStream::connect(node).expect("the node");
            gateway.set_nodelay(true).and(node.set_nodelay(true)).expect("no delay");
            let (from, to, noted) = (gateway.try_clone(), node.try_clone(), Arc::clone(&seen));
            thread::spawn(move || relay(from.expect("a socket"), to.expect("a socket"), &noted));
            let noted = Arc::clone(&seen);
            thread::spawn(move || relay(node, gateway, &noted));
        }
    });
    address
}

fn relay(mut from: TcpStream, mut to: TcpStream, seen: &Seen) {
    let (mut buffer, mut stream) = (vec![0; 1 << 16], Vec::new());
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        stream.extend_from_slice(&buffer[..n]);
        let mut at = 0;
        while let Ok(Decoded::Frame(frame, taken)) = decode_frame(&stream[at..]) {
            at += taken;
            let kind = match frame.kind {
                FrameKind::Batch => "out",
                FrameKind::Replies => "back",
                _ => continue,
            };
            seen.lock().expect("nobody panicked").entry(kind).or_default().push(taken);
        }
        stream.drain(..at);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The byte at an address; never zero, as holes are.
fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8 + 1
}

fn link(report: Option<Report>) -> LinkReport {
    let volumes = report.and_then(|r| r.gateway).expect("a gateway's report").volumes;
    volumes[0].nodes[0].links[0].clone()
}

struct Cost {
    out: Vec<usize>,
    back: Vec<usize>,
    segments_out: u64,
    segments_back: u64,
    is_from_cache: bool,
}

impl Cost {
    fn print(&self, k: usize, reads: usize) {
        let per_read = |frames: &[usize]| frames.iter().sum::<usize>() as f64 / reads as f64;
        println!(
            "k = {k}: {reads} reads of 1 B: {} frames out, {} back; {:.2} B out, {:.2} B back per read; largest frame {} B out, \
             {} B back; {} segments out, {} back",
            self.out.len(),
            self.back.len(),
            per_read(&self.out),
            per_read(&self.back),
            self.out.iter().max().unwrap_or(&0),
            self.back.iter().max().unwrap_or(&0),
            self.segments_out,
            self.segments_back,
        );
    }
}

/// Makes reads of one byte each, at random addresses, with `batch = k`; each count of `reads` is one call.
fn measure(k: usize, reads: &[usize]) -> Vec<Cost> {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("extent");
    let file = std::fs::File::create(&data).expect("a file");
    file.set_len(EXTENT_BYTES).expect("a sparse file");
    let mut random = SmallRng::seed_from_u64(k as u64);
    let offsets: Vec<u64> =
        (0..*reads.iter().max().expect("counts")).map(|_| random.random_range(0..EXTENT_BYTES)).collect();
    for &offset in &offsets {
        file.write_all_at(&[byte_at(offset)], offset).expect("a byte");
    }
    let node = cluster::node(&data, EXTENT_BYTES);
    let seen = Seen::default();
    let address = tap(node.address, Arc::clone(&seen));
    let config =
        format!("[[volume]]\nname = 'v'\nbatch = {k}\n[[volume.node]]\naddress = '{address}'\nsize = '10GiB'\n");
    let gateway = cluster::gateway(&config);
    let call = |spans: Vec<(u64, u32)>| gateway.handle.call(0, Op::Read, OpFlags::NONE, spans, Vec::new()).wait();
    // The first byte waits for the link; what follows costs the same whenever it comes.
    assert_eq!(call(vec![(offsets[0], 1)]), Ok(vec![byte_at(offsets[0])]));
    let mut costs = Vec::new();
    for &count in reads {
        seen.lock().expect("nobody panicked").clear();
        let (fast_before, before) = (fast_reads(&node), settled(&gateway));
        let spans = offsets[..count].iter().map(|&offset| (offset, 1)).collect();
        let expected: Vec<u8> = offsets[..count].iter().map(|&offset| byte_at(offset)).collect();
        assert!(call(spans) == Ok(expected), "wrong bytes");
        let after = settled(&gateway);
        let mut seen = seen.lock().expect("nobody panicked");
        costs.push(Cost {
            out: seen.remove("out").unwrap_or_default(),
            back: seen.remove("back").unwrap_or_default(),
            segments_out: after.0 - before.0,
            segments_back: after.1 - before.1,
            is_from_cache: fast_reads(&node) - fast_before == count as u64,
        });
        costs.last().expect("one").print(k, count);
    }
    costs
}

fn fast_reads(node: &cluster::Node) -> u64 {
    node.reporter.ask().and_then(|r| r.node).expect("a node's report").counters.fast_reads
}

/// Segments with data, out and in, of the gateway's link.
fn settled(gateway: &cluster::Gateway) -> (u64, u64) {
    thread::sleep(Duration::from_millis(20));
    let tcp = link(gateway.reporter.ask()).tcp.expect("TCP_INFO");
    assert!(tcp.mss_bytes <= SEGMENT_BYTES as u64, "segments of {} bytes", tcp.mss_bytes);
    (tcp.data_segments_out, tcp.data_segments_in)
}

#[test]
fn a_hundred_reads_of_a_byte_take_eight_bytes_out_and_four_back_and_one_segment_each_way() {
    for (reads, cost) in [100, 10_000].into_iter().zip(measure(100, &[100, 10_000])) {
        let batches = reads / 100;
        assert_eq!(cost.out.len(), batches, "batches of 100");
        assert!(cost.out.iter().sum::<usize>() <= 8 * reads, "bytes out");
        assert!(cost.out.iter().all(|&len| len <= SEGMENT_BYTES), "a batch is one segment");
        assert!(cost.segments_out <= batches as u64, "segments out");
        if !cost.is_from_cache {
            // The file system reads nothing without waiting, or the cache was taken away meanwhile.
            println!("not all reads hit the page cache: what comes back is not judged");
            continue;
        }
        assert_eq!(cost.back.len(), batches, "one frame answers a batch");
        assert!(cost.back.iter().sum::<usize>() <= 4 * reads, "bytes back");
        assert!(cost.back.iter().all(|&len| len <= SEGMENT_BYTES), "an answer is one segment");
        assert!(cost.segments_back <= batches as u64, "segments back");
    }
}

#[test]
fn smaller_batches_cost_what_the_document_says() {
    // docs/wire-protocol.md, "Cost of a read": bytes of a frame out and back.
    for (k, out, back) in [(1, 44, 36), (10, 94, 45)] {
        for cost in measure(k, &[100]) {
            assert_eq!(cost.out, vec![out; 100 / k], "k = {k}");
            assert!(!cost.is_from_cache || cost.back == vec![back; 100 / k], "k = {k}: {:?}", cost.back);
        }
    }
}
