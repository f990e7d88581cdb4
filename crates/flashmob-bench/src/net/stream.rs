//! One stream: a connection or a flow of datagrams, with a thread that sends or receives with blocking calls.
//!
//! Each thread stores its counts in atomics, without locks; no other thread writes them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flashmob_path::buffers::{self, Buffer};
use flashmob_results::net::{Direction, Messages};
use hdrhistogram::Histogram;

use super::pace::Pacer;
use super::protocol::parameters::Parameters;
use super::{messages, udp};
use crate::disk::now_ns;
use crate::load::random::Random;

/// Stack of a thread; its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;
/// Most bytes per read.
const READ_BYTES: usize = 128 << 10;

/// Reads between checks whether the receive buffer has grown.
const READS_BETWEEN_LOOKS: u32 = 256;
/// Longest time of these reads for which the number of wake-ups matters.
const FAST_WITHIN: Duration = Duration::from_millis(200);
/// A reader is woken at this fraction of its buffer at the latest: waiting bytes must not narrow the window.
const WAKE_BUFFER_FRACTION: u64 = 16;
/// Waiting for fewer bytes saves nothing.
const WAKE_BYTES_MIN: u64 = 64 << 10;
/// Waiting for more bytes saves nothing.
const WAKE_BYTES_MAX: u64 = 256 << 10;

#[derive(Clone, Debug)]
pub(super) enum Socket {
    Tcp(Arc<TcpStream>),
    Udp(Arc<UdpSocket>),
}

impl Socket {
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Send,
    Receive,
    /// Sends requests, receives answers.
    Ask(Messages),
    /// Receives requests, sends answers.
    Answer(Messages),
}

/// Direction and work of each stream at one end, upward streams first.
pub(super) fn works(p: &Parameters, is_client: bool) -> Vec<(Direction, Work)> {
    let one = |direction| match (p.messages, (direction == Direction::Up) == is_client) {
        (Some(messages), true) => (direction, Work::Ask(messages)),
        (Some(messages), false) => (direction, Work::Answer(messages)),
        (None, true) => (direction, Work::Send),
        (None, false) => (direction, Work::Receive),
    };
    let directions: &[Direction] = match p.direction {
        // The client sends messages; the answers use the same streams.
        _ if p.messages.is_some() => &[Direction::Up],
        Direction::Up => &[Direction::Up],
        Direction::Down => &[Direction::Down],
        Direction::Both => &[Direction::Up, Direction::Down],
    };
    directions.iter().flat_map(|&direction| std::iter::repeat_n(one(direction), p.streams as usize)).collect()
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Bytes in the stream's direction.
    pub bytes: AtomicU64,
    /// Bytes in the other direction: answers.
    pub answer_bytes: AtomicU64,
    /// When the first bytes arrived, on the monotonic clock; 0 before.
    first_ns: AtomicU64,
    /// Datagrams sent, or the highest number received.
    pub packets: AtomicU64,
    pub lost: AtomicU64,
    pub out_of_order: AtomicU64,
    jitter_s: AtomicU64,
    /// The thread has ended.
    pub is_over: AtomicBool,
}

impl Counters {
    /// Only its own thread adds, so that no locked instruction is needed.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Bytes arrived.
    pub fn arrived(&self, bytes: usize) {
        if self.first_ns.load(Ordering::Relaxed) == 0 {
            self.first_ns.store(now_ns().max(1), Ordering::Relaxed);
        }
        Counters::add(&self.bytes, bytes as u64);
    }

    /// When the first bytes arrived, on the monotonic clock.
    pub fn first_ns(&self) -> Option<u64> {
        Some(self.first_ns.load(Ordering::Relaxed)).filter(|ns| *ns > 0)
    }

    pub fn jitter_s(&self) -> f64 {
        f64::from_bits(self.jitter_s.load(Ordering::Relaxed))
    }

    pub fn set_jitter_s(&self, jitter_s: f64) {
        self.jitter_s.store(jitter_s.to_bits(), Ordering::Relaxed);
    }
}

/// State shared by the threads of a test.
#[derive(Debug)]
pub(super) struct Shared {
    /// The test is over.
    pub stop: AtomicBool,
    /// The omitted time is over.
    pub is_counting: AtomicBool,
    /// Bytes that may still be sent.
    pub left_bytes: AtomicI64,
    /// The content of writes.
    pub block: Vec<u8>,
    /// Maximum rate of each stream.
    pub rate_bits_per_second: Option<u64>,
    /// Numbers of datagrams have eight bytes instead of four.
    pub counters_64bit: bool,
}

impl Shared {
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Claims bytes of those that may be sent; false if none are left.
    pub fn claim(&self, bytes: usize) -> bool {
        // Without a limit the counter would only cause contention.
        self.left_bytes.load(Ordering::Relaxed) == i64::MAX
            || self.left_bytes.fetch_sub(bytes as i64, Ordering::Relaxed) > 0
    }
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Its number in the protocol.
    pub id: u32,
    pub direction: Direction,
    pub work: Work,
    pub socket: Socket,
    pub counters: Arc<Counters>,
}

impl Stream {
    pub fn new(id: u32, direction: Direction, work: Work, socket: Socket) -> Stream {
        Stream { id, direction, work, socket, counters: Arc::default() }
    }

    pub fn is_sender(&self) -> bool {
        matches!(self.work, Work::Send | Work::Ask(_))
    }

    /// Starts its thread, which returns the latencies of requests.
    pub fn start(&self, shared: &Arc<Shared>) -> io::Result<std::thread::JoinHandle<Histogram<u64>>> {
        let (stream, shared) = (self.clone(), Arc::clone(shared));
        std::thread::Builder::new().name("stream".into()).stack_size(STACK_BYTES).spawn(move || {
            let mut latencies = flashmob_results::latency::histogram();
            // Failures show in the counts and on the control connection.
            let _ = stream.work(&shared, &mut latencies);
            stream.counters.is_over.store(true, Ordering::Release);
            latencies
        })
    }

    fn work(&self, shared: &Shared, latencies: &mut Histogram<u64>) -> io::Result<()> {
        let pacer = Pacer::new(shared.rate_bits_per_second, Instant::now());
        match (&self.socket, self.work) {
            (Socket::Tcp(socket), Work::Send) => send(socket, pacer, shared, &self.counters),
            (Socket::Tcp(socket), Work::Receive) => receive(socket, shared, &self.counters),
            (Socket::Tcp(socket), Work::Ask(m)) => messages::ask(socket, m, shared, &self.counters, latencies),
            (Socket::Tcp(socket), Work::Answer(m)) => messages::answer(socket, m, shared, &self.counters),
            (Socket::Udp(socket), Work::Send) => udp::send(socket, pacer, shared, &self.counters),
            (Socket::Udp(socket), _) => udp::receive(socket, shared, &self.counters),
        }
    }

    /// Whether its thread has ended.
    pub fn has_ended(&self) -> bool {
        self.counters.is_over.load(Ordering::Acquire)
    }

    /// Wakes the thread if it is blocked.
    pub fn wake(&self) {
        if let Socket::Tcp(socket) = &self.socket {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Incompressible content of writes.
pub(super) fn block(bytes: u32) -> Vec<u8> {
    let mut random = Random::new(0, 0);
    (0..bytes).map(|_| random.next_u64() as u8).collect()
}

/// Sleeps until the next bytes may be sent; false if the test ends before.
pub(super) fn wait_turn(pacer: &Pacer, shared: &Shared) -> bool {
    while let Some(left) = pacer.sleep(Instant::now) {
        if shared.is_stopped() {
            return false;
        }
        std::thread::sleep(left);
    }
    !shared.is_stopped()
}

fn send(socket: &TcpStream, mut pacer: Pacer, shared: &Shared, counters: &Counters) -> io::Result<()> {
    let mut socket = socket;
    let mut left: &[u8] = &[];
    while wait_turn(&pacer, shared) {
        if left.is_empty() {
            if !shared.claim(shared.block.len()) {
                return Ok(());
            }
            left = &shared.block;
        }
        match socket.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => {
                Counters::add(&counters.bytes, bytes as u64);
                pacer.sent(bytes);
                left = &left[bytes..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(socket: &TcpStream, shared: &Shared, counters: &Counters) -> io::Result<()> {
    let mut socket = socket;
    let mut buffer = vec![0; READ_BYTES];
    let (mut reads, mut looked) = (0_u32, Instant::now());
    // With a limit the last bytes must not wait for more.
    let is_endless = shared.left_bytes.load(Ordering::Relaxed) == i64::MAX;
    while !shared.is_stopped() {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                counters.arrived(bytes);
                reads = reads.wrapping_add(1);
                if is_endless && reads.is_multiple_of(READS_BETWEEN_LOOKS) {
                    wake_for(socket, looked.elapsed() <= FAST_WITHIN);
                    looked = Instant::now();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Lets the kernel wake the reader of a fast stream less often, once the buffer is so large that it does not affect the window. On a machine
/// with few cores, context switches are the largest cost.
fn wake_for(socket: &TcpStream, is_fast: bool) {
    let buffer_bytes = buffers::of_socket(socket.as_fd(), Buffer::Receive).unwrap_or(0);
    let bytes = (buffer_bytes / WAKE_BUFFER_FRACTION).min(WAKE_BYTES_MAX);
    let value = if is_fast && bytes >= WAKE_BYTES_MIN { bytes as libc::c_int } else { 1 };
    // If it is refused, the reader is woken more often.
    let _ = buffers::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value);
}

/// Longest wait of a thread between checks for the end.
pub(super) const LOOKS_UP: Duration = Duration::from_millis(100);
