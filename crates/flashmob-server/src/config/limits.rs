//! Every limit and default of the configuration, in one place, each with its unit and reason.
//!
//! Rules that span several keys are where those keys are checked.

use std::time::Duration;

use flashmob_core::units::{GIB, KIB, MIB};

use super::quantity::{Count, Period, Size};

/// The longest configuration that is read, in bytes: 4,096 nodes need about a quarter of it.
pub(super) const FILE_BYTES_MAX: u64 = MIB;
/// The most nodes one configuration may name, all volumes together.
pub(super) const NODES_MAX: usize = 4096;
/// The longest name or identity, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// The longest description, in bytes: the longest string that the NBD protocol allows.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 4096;
/// The longest path of a unix socket, in bytes: `sun_path` of unix(7) less its final zero.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The longest name of a domain, in bytes.
pub(super) const DOMAIN_BYTES_MAX: usize = flashmob_core::copies::DOMAIN_BYTES_MAX;
/// The longest name of a congestion control, in bytes: Linux's `TCP_CA_NAME_MAX` less its final zero.
pub(super) const CONGESTION_BYTES_MAX: usize = 15;
/// The most problems one report spells out; the rest is counted.
pub(super) const PROBLEMS_MAX: usize = 20;

/// NBD's registered port; the port of a listener whose address names none.
pub(super) const NBD_PORT: u16 = 10809;
/// The longest name of a host (RFC 1035, 2.3.4).
pub const HOST_BYTES_MAX: usize = 255;
/// The port of an admin address that names none.
pub(super) const ADMIN_PORT: u16 = 10810;
/// The port of a node whose address names none.
pub(super) const NODE_PORT: u16 = 7411;

/// The port of a member of etcd whose address names none.
pub(super) const ETCD_PORT: u16 = 2379;
/// The most members of etcd.
pub(super) const ETCD_ENDPOINTS_MAX: usize = 16;
/// The most volumes whose maps are in etcd: each takes two operations of a transaction, which has at most 128 by default.
pub(super) const ETCD_VOLUMES_MAX: usize = 60;

/// The values that a number, size or time may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<T> {
    /// The smallest value accepted.
    pub min: T,
    /// The largest value accepted.
    pub max: T,
    /// The value without the key, where a single one applies; otherwise `min`.
    pub default: T,
    /// The reason for the limits, for messages.
    pub reason: &'static str,
}

const fn count(min: u64, max: u64, reason: &'static str) -> Limits<Count> {
    Limits { min: Count(min), max: Count(max), default: Count(min), reason }
}

const fn size(min: u64, max: u64, reason: &'static str) -> Limits<Size> {
    Limits { min: Size(min), max: Size(max), default: Size(min), reason }
}

const fn period(min_ms: u64, max_ms: u64, reason: &'static str) -> Limits<Period> {
    let (min, max) = (Duration::from_millis(min_ms), Duration::from_millis(max_ms));
    Limits { min: Period(min), max: Period(max), default: Period(min), reason }
}

impl<T: Copy> Limits<T> {
    const fn default(self, default: T) -> Limits<T> {
        Limits { default, ..self }
    }
}

const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600 * SECOND_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// A time of so many days.
const fn days(count: u64) -> Period {
    Period(Duration::from_secs(count * 24 * 3_600))
}

/// How long the lease of a gateway lasts whose maps are in etcd.
pub(super) const ETCD_LEASE: Limits<Period> = period(
    3 * SECOND_MS,
    HOUR_MS,
    "a standby takes over so long after the gateway is gone; below, a pause of etcd's would stop reading",
)
.default(Period(Duration::from_secs(10)));
/// NBD clients at once.
pub(super) const CONNECTIONS: Limits<Count> =
    count(1, 1024, "every client takes a connection and a share of `memory`").default(Count(64));
/// Microseconds of busy polling before the gateway sleeps. The default is a little more than a small request over
/// loopback takes, including waking up on both sides.
pub(super) const BUSY_POLL_US: Limits<Count> =
    count(0, 1000, "for longer waits sleeping is better").default(Count(100));
/// One request in this many is followed through all stages, for `/trace` and `flashmob trace cluster`. The default is
/// rare enough to cost nothing measurable, and frequent enough to be useful.
pub(super) const TRACE_ONE_IN: Limits<Count> =
    count(0, 1_000_000_000, "0 samples none, 1 every request").default(Count(1000));
/// Bytes of requests and replies held at once.
pub(super) const MEMORY: Limits<Size> =
    size(40 * MIB, 1024 * GIB, "one request may have 32 MiB, and must fit with its overhead").default(Size(128 * MIB));
/// Contiguous bytes on one node of a striped volume; a power of two. At least a sector, the smallest alignment of
/// direct I/O.
pub(super) const STRIPE: Limits<Size> = size(512, GIB, "a stripe is at least one sector").default(Size(64 * KIB));
/// Copies of each chunk of a mapped volume.
pub(super) const COPIES: Limits<Count> = count(1, 4, "each copy takes its share of the air").default(Count(2));
/// Copies that must be current for a change to be acknowledged; at most `copies`.
pub(super) const MIN_CURRENT: Limits<Count> = count(1, 4, "no more than `copies`");
/// How long a node may leave changes unanswered that other copies have done.
pub(super) const EVICT_AFTER: Limits<Period> =
    period(500, 600 * SECOND_MS, "a node that dozes or roams is away for seconds")
        .default(Period(Duration::from_secs(3)));
/// In place of a time, for what is not to happen by itself.
pub(super) const OFF: &str = "off";
/// How often the copies on each node are verified.
pub(super) const SCRUB: Limits<Period> = period(
    HOUR_MS,
    366 * DAY_MS,
    "a scrub reads all that the flash has, and what it finds grows with the time between",
)
.default(days(7));
/// How often all copies of a volume are compared.
pub(super) const COMPARE: Limits<Period> = SCRUB.default(days(30));
/// Requests in one batch (P1's k).
pub(super) const BATCH: Limits<Count> = count(1, 4096, "a batch is one frame, and a frame holds at most 4096 requests");
/// Payload bytes that one batch may carry or request.
pub(super) const BATCH_BYTES: Limits<Size> =
    size(4 * KIB, MIB, "a batch occupies its link while it is sent").default(Size(MIB));
/// TCP connections per node (P1's m).
pub(super) const LINKS: Limits<Count> = count(1, 64, "every link is a TCP connection of the node");
/// Batches in flight per link. Default with a fixed `batch`: 1, as in P1.
pub(super) const OUTSTANDING_BATCHES: Limits<Count> =
    count(1, 64, "requests are batched while earlier batches are in flight");
/// Default with `batch = "auto"`: one batch travels while the other is served.
pub(super) const OUTSTANDING_BATCHES_DEFAULT_AUTO: Count = Count(2);
/// How long a request waits for its node before it fails.
pub(super) const TIMEOUT: Limits<Period> =
    period(100, HOUR_MS, "Wi-Fi alone can pause for tens of milliseconds").default(Period(Duration::from_secs(10)));
/// How long one attempt to connect to a node may take.
pub(super) const CONNECT_TIMEOUT: Limits<Period> = TIMEOUT.default(Period(Duration::from_secs(3)));
/// The first pause between attempts to connect.
pub(super) const RECONNECT_MIN: Limits<Period> =
    period(1, HOUR_MS, "the pause doubles from reconnect_min to reconnect_max")
        .default(Period(Duration::from_millis(50)));
/// The longest pause between attempts to connect.
pub(super) const RECONNECT_MAX: Limits<Period> = RECONNECT_MIN.default(Period(Duration::from_secs(2)));
/// Silence on a link in use after which a small frame keeps the node's radio awake. Default: Linux lets a Wi-Fi station
/// sleep after 100 ms, and a frame takes a while to leave.
pub(super) const KEEP_AWAKE: Limits<Period> =
    period(0, 1_000, "0ms disables it, and a radio sleeps long before a second has passed")
        .default(Period(Duration::from_millis(75)));
/// A socket's buffer for sending or receiving.
pub(super) const SOCKET_BUFFER: Limits<Size> =
    size(4 * KIB, GIB, "the kernel allocates a buffer of that size for every link");
/// Silence on a link after which the kernel probes the other end; whole seconds, as in tcp(7).
pub(super) const KEEPALIVE: Limits<Period> = period(SECOND_MS, HOUR_MS, "the kernel counts it in seconds");
/// The extent of one node.
pub(super) const NODE_SIZE: Limits<Size> = size(1, 1024 * 1024 * GIB, "an extent is one file or one block device");
/// Size of a volume with copies.
pub(super) const VOLUME_SIZE: Limits<Size> = size(
    flashmob_core::copies::CHUNK_BYTES,
    flashmob_core::copies::CHUNKS_MAX as u64 * flashmob_core::copies::CHUNK_BYTES,
    "a volume has 1 to 16,777,216 chunks of 4 MiB",
);
/// Threads of a node inside the gateway.
pub(super) const THREADS: Limits<Count> =
    count(1, 64, "each thread has one request in progress in the store").default(Count(4));
