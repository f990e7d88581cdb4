//! Every limit and default of the configuration, in one place, each with its unit and reason.
//!
//! It must never hold a rule that spans several keys: those stand where the keys are checked.

use std::time::Duration;

use flashmob_core::units::{GIB, KIB, MIB};

use super::quantity::{Count, Period, Size};

/// The longest configuration that is read, in bytes: 4,096 nodes need about a quarter of it.
pub const FILE_BYTES_MAX: u64 = MIB;
/// The most nodes one configuration may name, all volumes together.
pub const NODES_MAX: usize = 4096;
/// The longest name or identity, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest description, in bytes: the longest string that the NBD protocol allows.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;
/// The longest path of a unix socket, in bytes: `sun_path` of unix(7) less its final zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The longest name of a congestion control, in bytes: Linux's `TCP_CA_NAME_MAX` less its final zero.
pub const CONGESTION_BYTES_MAX: usize = 15;
/// The most problems one report spells out; the rest is counted.
pub const PROBLEMS_MAX: usize = 20;

/// NBD's registered port; the port of a listener whose address names none.
pub const NBD_PORT: u16 = 10809;
/// The port of an admin address that names none.
pub const ADMIN_PORT: u16 = 10810;
/// The port of a node whose address names none.
pub const NODE_PORT: u16 = 7411;

/// What a number, size or time may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits<T> {
    /// The smallest value accepted.
    pub min: T,
    /// The largest value accepted.
    pub max: T,
    /// Why it is so, for people who meet the limit.
    pub reason: &'static str,
}

const fn count(min: u64, max: u64, reason: &'static str) -> Limits<Count> {
    Limits { min: Count(min), max: Count(max), reason }
}

const fn size(min: u64, max: u64, reason: &'static str) -> Limits<Size> {
    Limits { min: Size(min), max: Size(max), reason }
}

const fn period(min_ms: u64, max_ms: u64, reason: &'static str) -> Limits<Period> {
    Limits { min: Period(Duration::from_millis(min_ms)), max: Period(Duration::from_millis(max_ms)), reason }
}

const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;

/// NBD clients at once.
pub const CONNECTIONS: Limits<Count> = count(1, 1024, "every client takes a connection and a share of `memory`");
/// Without the key.
pub const CONNECTIONS_DEFAULT: u64 = 64;

/// Microseconds that the gateway looks for what comes next before it sleeps, if it learns that it comes so soon.
pub const BUSY_POLL_US: Limits<Count> = count(0, 1000, "for longer waits sleeping is better");
/// Without the key: a little more than a small request over loopback, with waking up on both sides.
pub const BUSY_POLL_US_DEFAULT: u64 = 100;

/// One request in so many is followed through all stages, for `/trace` and `flashmob trace cluster`.
pub const TRACE_ONE_IN: Limits<Count> = count(0, 1_000_000_000, "0 samples none, 1 every request");
/// Without the key: rare enough to cost nothing that can be measured, often enough to be there when it is needed.
pub const TRACE_ONE_IN_DEFAULT: u64 = 1000;

/// Bytes of requests and replies held at once.
pub const MEMORY: Limits<Size> =
    size(40 * MIB, 1024 * GIB, "one request may have 32 MiB, and must fit with its overhead");
/// Without the key.
pub const MEMORY_DEFAULT_BYTES: u64 = 128 * MIB;

/// Bytes that follow each other on one node of a striped volume; a power of two.
pub const STRIPE: Limits<Size> = size(SECTOR_BYTES, GIB, "a stripe is at least one sector");
/// Without the key.
pub const STRIPE_DEFAULT_BYTES: u64 = 64 * KIB;
/// The alignment that direct I/O asks for at least.
pub const SECTOR_BYTES: u64 = 512;

/// Requests in one batch (P1's k).
pub const BATCH: Limits<Count> = count(1, 4096, "a batch is one frame, and a frame holds at most 4096 requests");

/// Payload bytes that one batch may carry or ask for.
pub const BATCH_BYTES: Limits<Size> = size(4 * KIB, MIB, "a batch occupies its link while it is sent");
/// Without the key.
pub const BATCH_BYTES_DEFAULT: u64 = MIB;

/// TCP connections per node (P1's m).
pub const LINKS: Limits<Count> = count(1, 64, "every link is a TCP connection of the node");
/// Without the key.
pub const LINKS_DEFAULT: u64 = 1;

/// Batches on their way per link.
pub const OUTSTANDING_BATCHES: Limits<Count> = count(1, 64, "requests are batched while earlier batches are in flight");
/// Without the key, with `batch = "auto"`: one travels while the next is served.
pub const OUTSTANDING_BATCHES_DEFAULT_AUTO: u64 = 2;
/// Without the key, with a fixed `batch`: as in P1.
pub const OUTSTANDING_BATCHES_DEFAULT_FIXED: u64 = 1;

/// How long a request waits for its node before it fails.
pub const TIMEOUT: Limits<Period> = period(100, HOUR_MS, "Wi-Fi alone can pause for tens of milliseconds");
/// Without the key.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// How long one attempt to connect to a node may take.
pub const CONNECT_TIMEOUT: Limits<Period> = period(100, HOUR_MS, "Wi-Fi alone can pause for tens of milliseconds");
/// Without the key.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3);

/// Pause between attempts to connect, both the first and the longest.
pub const RECONNECT: Limits<Period> = period(1, HOUR_MS, "the pause doubles from reconnect_min to reconnect_max");
/// The first pause, without the key.
pub const RECONNECT_MIN_DEFAULT: Duration = Duration::from_millis(50);
/// The longest pause, without the key.
pub const RECONNECT_MAX_DEFAULT: Duration = Duration::from_secs(2);

/// Silence on a link in use after which a small frame keeps the node's radio awake.
pub const KEEP_AWAKE: Limits<Period> =
    period(0, 1_000, "0ms disables it, and a radio sleeps long before a second has passed");
/// Without the key: Linux lets a Wi-Fi station sleep after 100 ms, and a frame takes a while to go.
pub const KEEP_AWAKE_DEFAULT: Duration = Duration::from_millis(75);

/// A socket's buffer for sending or receiving.
pub const SOCKET_BUFFER: Limits<Size> = size(4 * KIB, GIB, "the kernel allocates a buffer of that size for every link");
/// Silence on a link after which the kernel asks whether the other end is there; whole seconds, as in tcp(7).
pub const KEEPALIVE: Limits<Period> = period(SECOND_MS, HOUR_MS, "the kernel counts it in seconds");

/// The extent of one node.
pub const NODE_SIZE: Limits<Size> = size(1, 1024 * 1024 * GIB, "an extent is one file or one block device");
/// Threads of a node inside the gateway.
pub const THREADS: Limits<Count> = count(1, 64, "each thread has one request in progress in the store");
/// Without the key.
pub const THREADS_DEFAULT: u64 = 4;
