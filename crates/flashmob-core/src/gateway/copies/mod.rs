//! Volumes with copies: each chunk lies on several nodes, and what a client was shown is on every copy that is not durably behind.
//!
//! [`Copies`] is the state of one such volume, and what requests do with it. It knows queues and requests, not the gateway: `glue.rs` passes
//! events in, and carries out what [`Cx`] gathers.
//!
//! ```text
//!  change  ─▶ chunk on hold? wait ─▶ `open` durable? wait for the log ─▶ a piece for each copy ─▶ done on all current copies ─▶ answered
//!             (equal.rs compares)      (log.rs, chunk.rs)                 (change.rs)             or `behind` durable (watch.rs)
//!  read    ─▶ chunk on hold? wait ─▶ one current copy ─▶ answered, once no overlapping change is under way      (read.rs)
//!                                     (choice.rs)     ─▶ late: another copy as well                             (hedge.rs)
//!  flush   ─▶ changes before it have ended ─▶ every dirty member ─▶ answered                                    (flush.rs)
//!  idle    ─▶ all current copies synced ─▶ `open` cleared, early if many are open                               (settle.rs)
//!  behind  ─▶ joined: gets changes ─▶ ranges proven equal ─▶ flushed ─▶ `behind` cleared                        (jobs.rs)
//!  the only current copy is gone for good, and somebody accepts that ─▶ the best one behind is current               (accept.rs)
//!  to move ─▶ a copy on another member, made as one that is behind ─▶ takes its place                               (moves)
//!  now and then ─▶ all copies are hashed from the flash ─▶ what does not match or differs is looked at again        (scrub.rs)
//! ```
//!
//! The map ([`crate::copies`]) holds what was decided; a decision has effect when the log says that it is durable.

mod accept;
mod age;
mod change;
mod choice;
mod chunk;
mod claims;
mod context;
mod cut;
mod decide;
mod equal;
mod felt;
mod flush;
mod glue;
mod heal;
mod hedge;
mod jobs;
mod join;
mod kept;
mod lane;
mod lately;
mod lease;
mod log;
mod members;
mod mend;
mod mirrors;
mod moves;
mod own;
mod pace;
mod pause;
mod pieces;
mod places;
mod ranges;
mod read;
mod repair;
mod replace;
mod rescue;
mod resize;
mod resync;
mod scrub;
mod search;
mod settle;
mod shrink;
mod speed;
mod status;
mod usual;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use slab::Slab;

use super::state::RequestKey;
use crate::copies::{COPIES_MAX, MapImage, Marks, is_unknown_extent};
use crate::planted::{self, Bug};
use crate::units::{Time, bring_forward};
use crate::wire::hello::{Charge, FromLinear};

pub use accept::{AcceptLossError, AcceptedLoss};
use age::Ages;
use change::Change;
use chunk::Chunk;
pub use claims::Proof;
pub use context::Cx;
use flush::Flush;
use heal::{Held, Hopeless};
use hedge::Hedging;
use jobs::Job;
pub use join::{Added, JoinError, NewNode, RemoveError};
pub use lane::Lane;
use lately::Lately;
use lease::Lease;
pub use lease::{LeaseStatus, lasts_until};
use log::Log;
use members::Member;
use mend::Rot;
use mirrors::Mirrors;
use moves::Moves;
pub use moves::{MoveError, MovesStatus, Outlook};
use own::Inner;
use pace::Pace;
pub use pause::PauseError;
use pause::Paused;
use places::{bit, each, mask};
pub use replace::{ReplaceError, Replaced};
use resize::Growth;
pub use resize::{ResizeError, Resized};
pub use resync::{ResyncError, Resynced};
use scrub::Scrub;
pub use scrub::{
    BAD_BLOCKS_MAX, BadBlock, BadRange, Flaw, PassKept, PassStatus, ScrubError, ScrubKept, ScrubSpec, ScrubStatus,
};
use search::Order;
use shrink::Shrink;
pub use shrink::ShrinkStatus;
pub use status::{CopiesCounters, CopiesStatus, MemberStatus};

/// Most copies of a chunk, with the one that is made on another member.
const PLACES_MAX: usize = COPIES_MAX + 1;

/// How long a copy may leave a change unanswered that others have done, before it is declared behind.
pub const EVICT_AFTER: Duration = Duration::from_secs(3);

/// How long a chunk stays open after its last change.
pub const SETTLE_AFTER: Duration = Duration::from_secs(30);

/// Bytes of the chunks that may be open at once before the longest idle ones are settled early: what has to be compared after a crash of the
/// gateway.
pub const OPEN_BYTES_MAX: u64 = 16 << 30;

/// A volume with copies, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiesSpec {
    /// The map, with the epoch of this start, which is durable.
    pub map: MapImage,
    /// How many copies must be current for a change to be acknowledged.
    pub min_current: usize,
    /// See [`EVICT_AFTER`].
    pub evict_after: Duration,
    /// See [`SETTLE_AFTER`].
    pub settle_after: Duration,
    /// Chunks that may be open at once: see [`OPEN_BYTES_MAX`].
    pub open_max: usize,
    /// Reads go to the home of their chunk, however slow it is, and to one copy only: to measure what a choice is worth.
    pub home_only: bool,
    /// Scrubs, and what is known of earlier ones.
    pub scrub: ScrubSpec,
    /// Until when no other gateway can be in charge, where one stands by: see [`Gateway::renew_lease`](super::Gateway::renew_lease).
    pub lease_until: Option<Time>,
}

impl CopiesSpec {
    /// With the defaults of the configuration file.
    #[must_use]
    pub fn new(map: MapImage) -> CopiesSpec {
        let open_max = (OPEN_BYTES_MAX / map.chunk_bytes()).max(1) as usize;
        CopiesSpec {
            map,
            min_current: 1,
            evict_after: EVICT_AFTER,
            settle_after: SETTLE_AFTER,
            open_max,
            home_only: false,
            scrub: ScrubSpec::default(),
            lease_until: None,
        }
    }
}

/// The state of one volume with copies.
#[derive(Debug)]
pub struct Copies {
    evict_after: Duration,
    settle_after: Duration,
    open_max: usize,
    /// When requests fail that are not answered.
    timeout: Duration,
    min_current: usize,
    /// What was decided, durable or not.
    image: MapImage,
    log: Log,
    mirrors: Mirrors,
    /// The last decision about many chunks at once is durable from this number on.
    bulk_seq: u64,
    members: Vec<Member>,
    ages: Ages,
    paused: Paused,
    moves: Moves,
    /// By member and slot: the chunk there, or the one that nothing may follow yet; `u32::MAX` if it is free.
    slots: Vec<Vec<u32>>,
    /// Chunks in use; the others are settled, or open and untouched since the gateway's start.
    chunks: BTreeMap<u32, Chunk>,
    /// Chunks whose current copies may differ. Nothing is read or changed there before they are compared.
    doubt: BTreeSet<u32>,
    /// Chunks with a doubtful copy.
    doubtful: BTreeSet<u32>,
    /// Chunks that were settled lately.
    lately: Lately,
    /// Chunks that are open because members' devices restarted, and had been flushed before, and have not changed since.
    reopened: BTreeSet<u32>,
    /// Chunks with doubtful copies, on each of which all changes were flushed when its device restarted.
    flushed: BTreeSet<u32>,
    /// Chunks with blocks that do not match their checksums.
    rot: BTreeMap<u32, Rot>,
    /// Requests that wait for blocks which no current copy has.
    heals: BTreeMap<u32, Vec<Held>>,
    /// Blocks that were looked for in vain, by chunk.
    hopeless: BTreeMap<u32, Hopeless>,
    /// Copies that fell behind last, of chunks with several copies behind.
    behind_last: BTreeMap<u32, u8>,
    /// Copies, by chunk and member, that may hold nothing of what they fell behind with.
    hollow: BTreeSet<(u32, u16)>,
    /// Chunks behind that cannot be made equal for now, and until when.
    stuck: BTreeMap<u32, Time>,
    /// When the owner may be told of corrupt blocks again.
    tell_rot_at: Time,
    /// And of blocks that no copy has.
    tell_unreadable_at: Time,
    changes: Slab<Change>,
    inner: Slab<Inner>,
    jobs: BTreeMap<u32, Job>,
    /// Chunks whose job has lost a copy that it worked with.
    void_jobs: BTreeSet<u32>,
    flushes: Slab<Flush>,
    /// Serials of changes that were not told to their client yet.
    untold: BTreeSet<u64>,
    next_serial: u64,
    /// The map's end was dropped: nothing is served yet.
    cut: Option<cut::Cut>,
    /// Nodes that say that another gateway is in charge.
    claims: claims::Claims,
    /// Whether this start has sent changes, or has decided what a later one must know.
    counts: bool,
    /// Nodes refuse the map, and the decisions that it lacks may be taken.
    may_catch_up: bool,
    /// A later gateway is in charge.
    deposed: Option<String>,
    /// Since when the loop has not stalled, and not all members were silent: it must not evict nodes for that.
    running_since: Time,
    /// Since when the loop has not stalled.
    unstalled_since: Time,
    /// Since when all members are asked whether they are alive, as none was heard lately.
    all_asked: Option<Time>,
    /// When to call it next.
    due: Option<Time>,
    /// When the map may be written again, after a failure.
    retry_at: Time,
    /// When chunks may be settled again.
    settle_again: Time,
    /// Where the search for chunks to compare continues.
    next_compare: u32,
    /// Where the search for chunks to make equal continues: a place of their order.
    next_search: u32,
    order: Order,
    /// How fast copies are made current.
    pace: Pace,
    /// When jobs may go on that wait for the lane.
    lane_due: Option<Time>,
    /// Reads that are late.
    hedging: Hedging,
    growth: Growth,
    /// What it is to lose behind its end, and what came of that last.
    shrink: Option<Shrink>,
    shrunk: Option<Result<Resized, ResizeError>>,
    lease: Lease,
    /// The version of the map at the start, until mirrors have it.
    inherited: Option<u64>,
    /// Reads go to the home of their chunk, however slow it is.
    home_only: bool,
    /// Scrubs, and what they found that cannot be mended.
    scrub: Scrub,
    pub counters: status::CopiesCounters,
}

/// By member and slot: the chunk there, or `u32::MAX`.
fn slots_of(image: &MapImage) -> Vec<Vec<u32>> {
    let places = || (0..image.chunks()).flat_map(|chunk| image.places(chunk).iter().map(move |place| (chunk, place)));
    let mut ends = vec![0; image.members().len()];
    for (_, place) in places() {
        let end = &mut ends[usize::from(place.member)];
        *end = (place.slot + 1).max(*end);
    }
    let mut slots: Vec<Vec<u32>> = ends.into_iter().map(|end| vec![u32::MAX; end as usize]).collect();
    for (chunk, place) in places() {
        slots[usize::from(place.member)][place.slot as usize] = chunk;
    }
    slots
}

impl Copies {
    /// The state at the gateway's start: chunks that were open may have copies that differ.
    pub fn new(spec: CopiesSpec, timeout: Duration) -> Copies {
        let image = spec.map;
        let slots = slots_of(&image);
        let mut copies = Copies {
            evict_after: spec.evict_after,
            settle_after: spec.settle_after,
            open_max: spec.open_max,
            timeout,
            min_current: spec.min_current,
            log: Log::new(image.version()),
            mirrors: Mirrors::new(&image),
            bulk_seq: 0,
            ages: Ages::default(),
            paused: Paused::default(),
            moves: Moves::new(&image, spec.scrub.kept.move_time),
            members: (0..).zip(image.members()).map(|(n, known)| Member::new(known, image.is_linear_at(n))).collect(),
            slots,
            chunks: BTreeMap::new(),
            doubt: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            lately: Lately::default(),
            reopened: BTreeSet::new(),
            flushed: BTreeSet::new(),
            rot: BTreeMap::new(),
            heals: BTreeMap::new(),
            hopeless: BTreeMap::new(),
            behind_last: BTreeMap::new(),
            hollow: BTreeSet::new(),
            stuck: BTreeMap::new(),
            tell_rot_at: Time::default(),
            tell_unreadable_at: Time::default(),
            changes: Slab::new(),
            inner: Slab::from_iter([(0, Inner::Client)]),
            jobs: BTreeMap::new(),
            void_jobs: BTreeSet::new(),
            flushes: Slab::new(),
            untold: BTreeSet::new(),
            next_serial: 0,
            cut: cut::Cut::of(&image),
            claims: claims::Claims::default(),
            counts: false,
            may_catch_up: false,
            deposed: None,
            running_since: Time::default(),
            unstalled_since: Time::default(),
            all_asked: None,
            due: Some(Time::default()),
            retry_at: Time::default(),
            settle_again: Time::default(),
            next_compare: 0,
            next_search: 0,
            order: Order::of(image.chunks()),
            pace: Pace::default(),
            lane_due: None,
            hedging: Hedging::default(),
            growth: Growth::new(image.size_bytes()),
            shrink: None,
            shrunk: None,
            lease: Lease::new(spec.lease_until),
            inherited: Some(image.version()),
            home_only: spec.home_only,
            scrub: Scrub::new(&spec.scrub, image.members().len(), image.chunks(), image.chunk_bytes()),
            counters: status::CopiesCounters::default(),
            image,
        };
        for (chunk, marks) in copies.image.chunks_marked().collect::<Vec<_>>() {
            copies.inherit(chunk, marks);
        }
        copies
    }

    /// A chunk had these marks before this gateway knew of it: nobody knows what was done there.
    fn inherit(&mut self, chunk: u32, marks: Marks) {
        let is_trusted = planted::is(Bug::InheritedOpenTrusted);
        let may_differ = marks.is_open && self.current(chunk).count_ones() > 1 && !is_trusted;
        if marks.is_torn || may_differ {
            self.doubt.insert(chunk);
        } else if marks.is_open {
            // Its only copy may have to be synced.
            self.chunks.entry(chunk).or_default();
        }
        if marks.doubtful != 0 {
            self.doubtful.insert(chunk);
        }
    }

    /// The map.
    pub fn image(&self) -> &MapImage {
        &self.image
    }

    /// The extent that a member is known to serve.
    pub fn known_extent(&self, member: usize) -> Option<[u8; 16]> {
        self.image.members().get(member).map(|member| member.extent_id).filter(|id| !is_unknown_extent(id))
    }

    /// Shows nodes which start of a gateway this is.
    pub fn charge(&self) -> Charge {
        let (version, _) = self.log.progress();
        Charge { map_id: self.image.map_id(), epoch: self.image.epoch(), nonce: self.image.nonce(), version }
    }

    /// The last charge that a member is known to remember durably, or the age of its extent, if that is later.
    pub fn seen(&self, member: u16) -> Option<(u64, u64)> {
        let state = self.members.get(usize::from(member))?;
        let charge = state.seen.iter().rev().find(|(seq, _)| self.log.is_durable(*seq)).map(|(_, seen)| *seen);
        charge.max(state.age)
    }

    /// What a member has to be to be converted, if it may still belong to the linear volume that this one was made of: no charge of this map
    /// is known to be remembered there.
    pub fn linear_origin(&self, member: u16) -> Option<FromLinear> {
        let known = self.image.members().get(usize::from(member))?;
        let is_linear = self.members.get(usize::from(member))?.is_linear && self.seen(member).is_none();
        // At most MEMBERS_MAX.
        let extents = self.image.members().len() as u32;
        is_linear.then_some(FromLinear { extent_id: known.extent_id, extents })
    }

    /// A client's request ends early or is dropped. Returns how many bytes its changes still hold.
    fn abandon(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> u64 {
        let flushes = self.flushes.iter().filter(|(_, flush)| flush.request == key);
        for place in flushes.map(|(place, _)| place).collect::<Vec<_>>() {
            self.drop_flush(cx, place);
        }
        self.forget(cx, key);
        self.orphan(cx, key)
    }

    /// Forgets what is known of a client's read.
    fn forget(&mut self, cx: &mut Cx<'_>, key: RequestKey) {
        if let Some(request) = cx.requests.get_mut(key).filter(|request| request.inner > 1) {
            self.inner.try_remove(std::mem::replace(&mut request.inner, 1) as usize - 1);
        }
    }

    /// Wakes [`Copies::watch`] no later than this.
    fn look_at(&mut self, at: Time) {
        bring_forward(&mut self.due, at);
    }

    /// When [`Copies::watch`] must be called.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// When [`Copies::hedge`] must be called.
    pub fn hedge_due(&self) -> Option<Time> {
        self.hedging.due
    }

    /// When [`Copies::mirror`] must be called.
    pub fn mirror_due(&self) -> Option<Time> {
        self.mirrors.due()
    }

    /// When [`Copies::scrub`] must be called.
    pub fn scrub_due(&self) -> Option<Time> {
        self.scrub.due
    }
}
