//! A node: serves one extent to the gateways that are linked to it.
//!
//! The path of a batch: it is decoded in [`Node::process`]; reads and writes are first tried at once (`at_once.rs`), the rest waits in the
//! [elevator](crate::elevator) and goes to the store as [`StoreOp`]s in ascending order; answers gather (`reply.rs`) and leave in one
//! frame per turn.
//!
//! The shell's turn: pass in received bytes and call [`Node::process`]; call [`Node::store_done`] for each operation that the store
//! finished; then [`Node::turn`]; pass [`Node::store_ops`] to the store; write every link's [`Node::out`] and report it with
//! [`Node::wrote`]; last, [`Node::poll_event`].
//!
//! Invariants: every piece of a connected link is answered exactly once; nothing of a link that a welcome has fenced is executed
//! afterwards but the end of a slow flush, and nothing of a link below the epoch that the extent remembers; memory stays within the budget however peers behave.

mod at_once;
mod charge;
mod failed_syncs;
mod followed;
mod link;
mod mirror;
mod reply;
mod serve;
mod service;
mod start;
mod status;
mod together;
mod told;

use std::collections::VecDeque;

use slab::Slab;

use crate::buffers::{Budget, OutQueue, RxBuf};
use crate::condition::Condition;
use crate::elevator::{Elevator, ElevatorConfig, Entry, Issue, IssueOrder};
use crate::op::{Failure, Op, OpFlags};
use crate::stages::{NodeInterval, StageRecorder};
use crate::units::{MIB, Time};
use crate::wire::batch::WirePiece;
use crate::wire::frame;
use crate::wire::hello::{Charge, Hello, RefuseReason};
use crate::wire::mirror::MirrorState;
use crate::wire::replies::RepliesEncoder;

pub use charge::{ACCEPTED_MAX, accept, check_charge, is_of_later_generation};
pub(crate) use charge::{are_older_maps_believed, older_map};
pub use failed_syncs::FailedSyncs;
pub use link::{LINKS_OF_GATEWAY_MAX, LinkId};
use link::{LinkState, NodeLink};
pub use mirror::{MirrorDone, MirrorOp};
pub use serve::LIGHT_BYTES_MAX;
use serve::{Batch, PieceRef};
pub use service::{LoopTimes, SERVICE_EVERY};
pub use start::{CacheLife, Start, boot_id_of};
pub use status::{NodeCounters, NodeStatus};
pub use told::{PROGRESS_EVERY, TELL_EVERY};

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The extent's permanent identity.
    pub extent_id: [u8; 16],
    /// The start of the device that gateways are shown: [`FailedSyncs::shown_boot_id`].
    pub boot_id: [u8; 16],
    /// Size of the extent in bytes.
    pub size_bytes: u64,
    /// The store answers without I/O (P1's no-I/O mode).
    pub no_io: bool,
    /// The store answers at the speed of a modelled flash.
    pub modelled: bool,
    /// The memory limit of the node, in bytes; at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: u64,
    /// Most links at once.
    pub links_max: usize,
    /// Two operations in one block of this many bytes never run at once (1, or a disk's block for O_DIRECT).
    pub align_bytes: u64,
    /// Most operations in the store at once; more wait in the elevator, which sorts them. Sixteen small writes into the page cache
    /// (`align_bytes` is 1) count as one.
    pub store_depth: usize,
    /// In which order operations go to the store.
    pub order: IssueOrder,
    /// The shell does [`Node::mirror_ops`].
    pub keeps_mirror: bool,
}

impl NodeConfig {
    /// A node over a file in the page cache, with 64 MiB of memory.
    #[must_use]
    pub fn new(extent_id: [u8; 16], boot_id: [u8; 16], size_bytes: u64) -> NodeConfig {
        NodeConfig {
            extent_id,
            boot_id,
            size_bytes,
            no_io: false,
            modelled: false,
            memory_bytes: 64 * MIB,
            links_max: 64,
            align_bytes: 1,
            store_depth: 16,
            order: IssueOrder::Sorted,
            keeps_mirror: false,
        }
    }
}

/// The minimum of [`NodeConfig::memory_bytes`].
pub const MEMORY_BYTES_MIN: u64 = 16 * MIB;
/// Most pieces in hand per link; above it the link is not read until some are done.
const LINK_PIECES_MAX: usize = 16 * 1024;
/// Bytes of drained segments that all links together keep, and the least for each.
const LINK_SPARES_BYTES: usize = 5 * MIB as usize;
const LINK_SPARES_BYTES_MIN: usize = 256 * 1024;
/// Most bytes of a hello, framing included.
const HELLO_BYTES_MAX: usize = 1024;
/// Memory of a piece in hand, in bytes: itself, its entry in the elevator, its answer.
const PIECE_COST_BYTES: u64 = 128;

/// The result of a read that must not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryRead {
    /// The buffer is filled.
    Hit,
    /// It would have blocked; pass it to the store.
    Miss,
    /// It failed.
    Failed(Failure),
}

/// What a node needs from its surroundings. Each call returns at once; [`Host::try_writes`] may block now and then.
pub trait Host {
    /// Reads without blocking, if possible.
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead;
    /// A hint that [`Host::try_read`] will soon be called for `offset_bytes`, for a prefetch into the processor's cache.
    fn prefetch(&mut self, _offset_bytes: u64) {}
    /// The charge that the extent remembers durably, if it belongs to a volume with copies: that of the last hello that was adopted.
    fn charge(&self) -> Option<Charge>;
    /// Epochs and versions of the charges that it accepted last, oldest first, that of [`Host::charge`] included: see [`accept`]. Stored
    /// durably with it.
    fn accepted(&self) -> Vec<(u64, u64)>;
    /// The age of the extent: epoch and version of the map that its mirror had durably last ([`MirrorOp::Put`]). It is stored with the extent's
    /// checksums, so that an older copy of extent and checksums has an earlier one. `None` if there is none yet.
    fn age(&self) -> Option<(u64, u64)>;
    /// Accepts the volume of the hello and stores that durably, with the hello's charge, or refuses it. Called only with a charge that
    /// [`check_charge`] accepts. The mirror that was kept for one of an earlier [generation](Charge::generation) is dropped before, durably.
    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)>;
    /// Writes what is not likely to block. Each item is an offset and its bytes. Returns how many are written, from the first on; the rest is
    /// passed to the store.
    fn try_writes<'a>(&mut self, _writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        0
    }
    /// The times of the loop's thread; `None` if they are unknown.
    fn loop_times(&mut self) -> Option<LoopTimes> {
        None
    }
    /// Whether [`Host::try_read`] can ever hit; otherwise it is not called.
    fn has_fast_reads(&self) -> bool;
    /// The time now, for stage histograms and followed pieces.
    fn now(&mut self) -> Time;
}

/// One operation for the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOp {
    /// Returned with the result.
    pub id: u64,
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent.
    pub offset_bytes: u64,
    /// How many bytes; 0 for a flush.
    pub len_bytes: u32,
    /// A write's bytes, a buffer for a read to fill, or empty.
    pub data: Vec<u8>,
}

/// The result of an operation of the store.
#[derive(Debug)]
pub struct StoreDone {
    /// [`StoreOp::id`].
    pub id: u64,
    /// Whether it succeeded.
    pub result: Result<(), Failure>,
    /// The operation's buffer, with the bytes of a read.
    pub data: Vec<u8>,
    /// When the system call began.
    pub started: Time,
    /// When it ended.
    pub finished: Time,
}

/// An event for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// A gateway was accepted on this link.
    Linked {
        /// Which link.
        link: LinkId,
        /// The volume it serves.
        volume_id: String,
        /// Which of the volume's extents this node is.
        extent: u32,
    },
    /// Write what is queued, then close the link.
    Close {
        /// Which link.
        link: LinkId,
        /// The reason, for the log.
        reason: String,
    },
}

/// An operation in the store, and the pieces that wait for it.
#[derive(Debug)]
struct InStore {
    issue: Issue,
    parts: Vec<Entry<PieceRef>>,
    /// Its load on the store's depth.
    load: usize,
    /// It is a flush, with which the store has made progress since it was given it.
    is_slow: bool,
}

/// The state machine of one node.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    links: Slab<NodeLink>,
    batches: Slab<Batch>,
    elevator: Elevator<PieceRef>,
    in_store: Slab<InStore>,
    ops: Vec<StoreOp>,
    budget: Budget,
    fences: link::Fences,
    events: VecDeque<NodeEvent>,
    stages: StageRecorder<NodeInterval>,
    counters: status::NodeCounters,
    draining: bool,
    /// The device's condition, once the shell has reported it.
    condition: Option<Condition>,
    /// What gateways were told of the store.
    served: service::Served,
    /// Bytes of buffers that are in the store.
    store_bytes: u64,
    /// The load of the operations in the store on its depth.
    store_load: usize,
    /// Slow flushes in the store.
    slow_flushes: usize,
    /// Batches with held answers, and the latest time that the shell passed in.
    holding: usize,
    latest: Time,
    /// The device's monotonic clock at time zero.
    clock_start_ns: u64,
    /// The map that the extent has a mirror of, and how much of it.
    mirror: Option<([u8; 16], MirrorState)>,
    mirror_ops: Vec<MirrorOp>,
    /// The link that was resumed first last time, so that none is always last.
    turn_first: usize,
    // Reused memory.
    parts_pool: Vec<Vec<Entry<PieceRef>>>,
    pieces_pool: Vec<Vec<WirePiece>>,
    fast_missed: Vec<u16>,
    fast_hits: Vec<u16>,
    encoder: RepliesEncoder,
}

impl Node {
    /// A node with no links.
    #[must_use]
    pub fn new(config: NodeConfig) -> Node {
        let (order, align_bytes) = (config.order, config.align_bytes);
        let elevator = Elevator::new(ElevatorConfig { order, align_bytes, ..ElevatorConfig::default() });
        // Half of the memory is for pieces and payloads in hand; the links' buffers, those in the store and the process share the rest.
        let budget = Budget::new(config.memory_bytes.max(MEMORY_BYTES_MIN) / 2);
        Node {
            config,
            links: Slab::new(),
            batches: Slab::new(),
            elevator,
            in_store: Slab::new(),
            ops: Vec::new(),
            budget,
            fences: link::Fences::default(),
            events: VecDeque::new(),
            stages: StageRecorder::default(),
            counters: status::NodeCounters::default(),
            draining: false,
            condition: None,
            served: service::Served::default(),
            store_bytes: 0,
            store_load: 0,
            slow_flushes: 0,
            holding: 0,
            latest: Time::default(),
            clock_start_ns: 0,
            mirror: None,
            mirror_ops: Vec::new(),
            turn_first: 0,
            parts_pool: Vec::new(),
            pieces_pool: Vec::new(),
            fast_missed: Vec::new(),
            fast_hits: Vec::new(),
            encoder: RepliesEncoder::default(),
        }
    }

    /// Sets the device's monotonic clock at time zero, in nanoseconds: times are reported to gateways on that clock.
    pub fn set_clock_start(&mut self, ns: u64) {
        self.clock_start_ns = ns;
    }

    /// A peer connected.
    pub fn link_opened(&mut self) -> LinkId {
        let id = LinkId(self.links.insert(NodeLink::default()));
        self.share_spares();
        id
    }

    /// The peer was let in with a key of this generation. Without this call it is 0, as of those without keys.
    pub fn link_admitted(&mut self, id: LinkId, generation: u64) {
        if let Some(link) = self.links.get_mut(id.0) {
            link.generation = generation;
        }
    }

    /// Divides the drained segments to keep among the links: reuse makes large frames cheaper.
    fn share_spares(&mut self) {
        let each = (LINK_SPARES_BYTES / self.links.len().max(1)).max(LINK_SPARES_BYTES_MIN);
        self.links.iter_mut().for_each(|(_, link)| link.out.keep_spares(each));
    }

    /// A link's connection has ended. Its pieces are dropped; those in the store end there, unanswered.
    pub fn link_closed(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        link.state = LinkState::Dead;
        let unwritten_bytes = std::mem::take(&mut link.unwritten_reply_bytes);
        self.release(id, 0, unwritten_bytes);
        self.drop_waiting(id);
        self.settle_fences();
        self.share_spares();
    }

    /// Whether a hello was accepted on this link. The shell closes links without one after a timeout.
    #[must_use]
    pub fn is_greeted(&self, id: LinkId) -> bool {
        self.links.get(id.0).is_some_and(|l| l.peer.is_some())
    }

    /// The receive buffer of a link. Follow it with [`Node::process`].
    pub fn rx(&mut self, id: LinkId) -> Option<&mut RxBuf> {
        self.links.get_mut(id.0).map(|l| &mut l.rx)
    }

    /// Whether the node accepts more bytes from this link now. While it does not, leave them in the socket: that slows the peer down.
    #[must_use]
    pub fn wants_bytes(&self, id: LinkId) -> bool {
        self.links.get(id.0).is_some_and(|l| l.is_open() && !l.blocked)
    }

    /// Decodes bytes received on a link, within the limits.
    pub fn process(&mut self, now: Time, id: LinkId, host: &mut impl Host) {
        self.latest = self.latest.max(now);
        let Some(link) = self.links.get_mut(id.0) else { return };
        let mut rx = std::mem::take(&mut link.rx);
        let result = self.decode(now, id, &mut rx, host);
        if let Some(link) = self.links.get_mut(id.0) {
            link.rx = rx;
        }
        if let Err(error) = result {
            self.fail_link(id, &error.to_string());
        }
    }

    fn decode(&mut self, now: Time, id: LinkId, rx: &mut RxBuf, host: &mut impl Host) -> Result<(), frame::WireError> {
        use frame::{Decoded, FrameKind, WireError};
        loop {
            let Some(link) = self.links.get_mut(id.0) else { return Ok(()) };
            link.blocked = false;
            if !link.is_open() {
                rx.consume(rx.len());
                return Ok(());
            }
            if matches!(link.state, LinkState::Fencing(..)) {
                // Nothing is served before the welcome.
                link.blocked = !rx.is_empty();
                return Ok(());
            }
            let (frame, taken) = match frame::decode_frame(rx.data())? {
                Decoded::NeedMore(total) => {
                    if matches!(link.state, LinkState::New) && total > HELLO_BYTES_MAX {
                        return Err(WireError::Malformed("hello: too long"));
                    }
                    link.rx_wanted = total - rx.len();
                    return Ok(());
                }
                Decoded::Frame(frame, taken) => (frame, taken),
            };
            match (&link.state, frame.kind) {
                // Not before the answer to a recall.
                (LinkState::New, FrameKind::Hello) if !link.mirror.is_busy => {
                    let hello = Hello::decode(frame.meta)?;
                    self.handle_hello(id, hello, host);
                }
                (LinkState::New, FrameKind::Recall) if self.config.keeps_mirror => {
                    self.accept_recall(id, frame.meta)?
                }
                (LinkState::Ready, FrameKind::PutMirror) => self.accept_mirror(id, frame.meta, frame.payload)?,
                (LinkState::Ready, FrameKind::Batch) => {
                    if !self.accept_batch(now, id, frame.meta, frame.payload, host)? {
                        if let Some(link) = self.links.get_mut(id.0) {
                            link.blocked = true;
                        }
                        return Ok(());
                    }
                }
                (LinkState::Ready, FrameKind::Alive) if link.told.is_wanted => self.accept_alive(id, frame.meta)?,
                (_, FrameKind::Error) => {
                    let text = frame::error_text(frame.meta);
                    self.close_link(id, format!("the gateway reports: {text}"));
                }
                _ => return Err(WireError::Malformed("order of frames")),
            }
            rx.consume(taken);
        }
    }

    /// Resumes links that limits held back, fills the store, and makes frames of answers. Call it once per turn of the loop, and no later
    /// than [`Node::next_timeout`].
    pub fn turn(&mut self, now: Time, host: &mut impl Host) {
        self.resume_blocked(now, host);
        self.feed_store();
        self.let_old_answers_go(now);
        self.tell_service(now, host);
        self.flush_replies(now);
    }

    /// Whether another [`Node::turn`] may resume a link that limits held back.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        self.links.iter().any(|(_, l)| self.may_unblock(l))
    }

    fn resume_blocked(&mut self, now: Time, host: &mut impl Host) {
        let first = self.turn_first;
        let mut blocked: Vec<usize> =
            self.links.iter().filter(|(_, l)| self.may_unblock(l)).map(|(id, _)| id).collect();
        if blocked.is_empty() {
            return;
        }
        // Begin behind the link that came first last time.
        let split = blocked.partition_point(|&id| id <= first);
        blocked.rotate_left(split);
        self.turn_first = blocked[0];
        for id in blocked {
            self.process(now, LinkId(id), host);
        }
    }

    /// Operations for the store, in this order.
    pub fn store_ops(&mut self) -> &mut Vec<StoreOp> {
        &mut self.ops
    }

    /// The store has ended an operation.
    pub fn store_done(&mut self, done: StoreDone) {
        let Ok(key) = usize::try_from(done.id) else { return };
        let Some(mut op) = self.in_store.try_remove(key) else { return };
        self.elevator.complete(op.issue.ticket);
        let service_nanos = done.finished.nanos_since(done.started);
        self.stages.record_n(NodeInterval::FlashDone, service_nanos, op.parts.len() as u64);
        self.counters.store_ops += 1;
        self.store_load -= op.load;
        self.slow_flushes -= usize::from(op.is_slow);
        self.store_bytes = self.store_bytes.saturating_sub(done.data.len() as u64);
        if done.result == Err(Failure::Corrupt) && op.issue.op == Op::Read && op.parts.len() > 1 {
            self.read_apart(&mut op);
        } else {
            self.finish_parts(&mut op, done);
        }
        self.parts_pool.push(op.parts);
        self.settle_fences();
    }

    /// The bytes to write to a link's socket.
    pub fn out(&mut self, id: LinkId) -> Option<&mut OutQueue> {
        self.links.get_mut(id.0).map(|l| &mut l.out)
    }

    /// The socket took `n` bytes of [`Node::out`].
    pub fn wrote(&mut self, id: LinkId, n: usize) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        link.out.advance(n);
        let unwritten_bytes = link.unwritten_reply_bytes;
        let is_all = link.out.is_empty() && link.replies.is_empty();
        let written_bytes = if is_all { unwritten_bytes } else { unwritten_bytes.min(n as u64) };
        link.unwritten_reply_bytes -= written_bytes;
        self.release(id, 0, written_bytes);
    }

    /// The next event for the shell.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    /// Refuses hellos from now on; pieces in hand are answered. The shell ends the links.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether no work is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_work_left = !self.batches.is_empty() || !self.in_store.is_empty() || !self.is_mirror_idle();
        !is_work_left && self.links.iter().all(|(_, l)| l.out.is_empty())
    }

    /// How many bytes are missing from the frame that is arriving: a hint for reading.
    #[must_use]
    pub fn rx_wanted(&self, id: LinkId) -> usize {
        self.links.get(id.0).map_or(0, |l| l.rx_wanted)
    }
}
