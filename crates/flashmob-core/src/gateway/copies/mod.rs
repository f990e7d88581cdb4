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
//!  to move ─▶ a copy on another member, made as one that is behind ─▶ takes its place                               (moves)
//!  now and then ─▶ all copies are hashed from the flash ─▶ what does not match or differs is looked at again        (scrub.rs)
//! ```
//!
//! The map ([`crate::copies`]) holds what was decided; a decision has effect when the log says that it is durable.

mod change;
mod choice;
mod chunk;
mod context;
mod equal;
mod felt;
mod flush;
mod glue;
mod hedge;
mod jobs;
mod join;
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
mod ranges;
mod read;
mod repair;
mod replace;
mod resize;
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
use crate::copies::{COPIES_MAX, MapImage, Marks, Place, Record, is_unknown_extent};
use crate::op::Failure;
use crate::planted::{self, Bug};
use crate::units::{Time, bring_forward};
use crate::wire::hello::{Charge, FromLinear};

use change::Change;
use chunk::Chunk;
pub use context::Cx;
use flush::Flush;
use hedge::Hedging;
use jobs::Job;
pub use join::{Added, JoinError, NewNode, RemoveError};
pub use lane::Lane;
use lately::Lately;
use lease::Lease;
pub use lease::{LeaseStatus, lasts_until};
use log::{Log, Waiter};
use members::Member;
use mend::Rot;
use mirrors::Mirrors;
use moves::Moves;
pub use moves::{MoveError, MovesStatus, Outlook};
use own::Inner;
use pace::Pace;
pub use pause::PauseError;
use pause::Paused;
pub use replace::{ReplaceError, Replaced};
use resize::Growth;
pub use resize::{ResizeError, Resized};
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
/// How long is waited after a start for nodes that may keep a mirror, while none that is there does.
const MIRROR_PATIENCE: Duration = Duration::from_secs(60);

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
    /// Those of them that were opened because a member's device restarted, and have not changed since.
    reopened: BTreeSet<u32>,
    /// Chunks with blocks that do not match their checksums.
    rot: BTreeMap<u32, Rot>,
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

/// The copies in a mask.
fn each(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |copy| mask & (1 << copy) != 0)
}

/// The mask of one copy.
fn bit(copy: usize) -> u8 {
    1 << copy
}

/// The mask of several copies.
fn mask(copies: impl Iterator<Item = usize>) -> u8 {
    copies.fold(0, |mask, copy| mask | bit(copy))
}

/// Cuts a range of a volume where chunks end, and where pieces would be too long: chunk, offset in it, length.
fn cut(chunk_bytes: u64, offset_bytes: u64, len_bytes: u64) -> Vec<(u32, u32, u32)> {
    let (mut at, end) = (offset_bytes, offset_bytes + len_bytes);
    let mut parts = Vec::with_capacity(1);
    while at < end {
        let within = at % chunk_bytes;
        let len = (end - at).min(chunk_bytes - within).min(u64::from(crate::wire::PIECE_BYTES_MAX));
        parts.push(((at / chunk_bytes) as u32, within as u32, len as u32));
        at += len;
    }
    parts
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
            paused: Paused::default(),
            moves: Moves::new(&image),
            members: (0..).zip(image.members()).map(|(n, known)| Member::new(known, image.is_linear_at(n))).collect(),
            slots,
            chunks: BTreeMap::new(),
            doubt: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            lately: Lately::default(),
            reopened: BTreeSet::new(),
            rot: BTreeMap::new(),
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

    /// What a member is known durably to remember of the charges that it was shown.
    pub fn seen(&self, member: u16) -> Option<(u64, u64)> {
        let state = self.members.get(usize::from(member))?;
        state.seen.iter().rev().find(|(seq, _)| self.log.is_durable(*seq)).map(|(_, seen)| *seen)
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

    /// Copies that are neither behind nor doubtful.
    fn current(&self, chunk: u32) -> u8 {
        self.holders(chunk) & !self.image.marks(chunk).doubtful
    }

    /// Copies that are not behind. A doubtful one may be current again, if all others restarted, too.
    fn holders(&self, chunk: u32) -> u8 {
        let all = (1u16 << self.image.copies()) - 1;
        all as u8 & !self.image.marks(chunk).behind
    }

    /// Where a copy of a chunk lies, or the one that is made on another member.
    fn place_of(&self, chunk: u32, copy: usize) -> Option<Place> {
        match self.image.places(chunk).get(copy) {
            None if copy == self.guest_copy() => self.guest(chunk),
            place => place.copied(),
        }
    }

    fn member_of(&self, chunk: u32, copy: usize) -> u16 {
        self.place_of(chunk, copy).map_or(u16::MAX, |place| place.member)
    }

    /// The copy of a chunk that a member has, or is getting.
    fn copy_on(&self, chunk: u32, member: u16) -> Option<usize> {
        let copy = self.image.places(chunk).iter().position(|place| place.member == member);
        copy.or_else(|| self.guest(chunk).filter(|guest| guest.member == member).map(|_| self.guest_copy()))
    }

    /// Those of some copies that reads and jobs may use now.
    fn usable_of(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| self.is_usable(cx, self.member_of(chunk, copy))))
    }

    /// Those of some copies whose members are out.
    fn out_of(&self, chunk: u32, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| self.is_out(self.member_of(chunk, copy))))
    }

    /// The members of some copies.
    fn members_of(&self, chunk: u32, copies: u8) -> Vec<u16> {
        each(copies).map(|copy| self.member_of(chunk, copy)).collect()
    }

    /// The chunk at a place of a member, and the copy. There is none where the chunk was, or was to be.
    fn chunk_at(&self, member: u16, offset_bytes: u64) -> Option<(u32, Option<usize>)> {
        // Below 2^32 slots.
        let slot = (offset_bytes / self.image.chunk_bytes()) as u32;
        let chunk = *self.slots.get(usize::from(member))?.get(slot as usize).filter(|chunk| **chunk != u32::MAX)?;
        let is_there = |copy: &usize| self.place_of(chunk, *copy) == Some(Place { member, slot });
        Some((chunk, self.copy_on(chunk, member).filter(is_there)))
    }

    /// Where a byte of a chunk lies on one of its copies: the member, and the offset in its extent.
    fn locate(&self, chunk: u32, copy: usize, at: u32) -> Option<(u16, u64)> {
        let place = self.place_of(chunk, copy)?;
        Some((place.member, u64::from(place.slot) * self.image.chunk_bytes() + u64::from(at)))
    }

    /// Cuts a range of the volume: see [`cut`].
    fn parts(&self, offset_bytes: u64, len_bytes: u64) -> Vec<(u32, u32, u32)> {
        cut(self.image.chunk_bytes(), offset_bytes, len_bytes)
    }

    /// Records a decision. Returns the number after which it is durable.
    fn decide(&mut self, record: Record) -> u64 {
        let is_held = self.is_held(&record);
        match self.image.apply(&record) {
            Ok(()) => self.log.push(record, is_held),
            Err(error) => {
                debug_assert!(false, "{error}: {record:?}");
                self.log.wanted()
            }
        }
    }

    /// Whether mirrors must have a record before it takes effect: without it, a copy would be believed that lacks something, or a loss would not be
    /// told. Whoever recovers the map takes all chunks for open.
    fn is_held(&self, record: &Record) -> bool {
        match record {
            Record::Marks { first_chunk, count: 1, marks } => {
                let now = self.image.marks(*first_chunk);
                let is_torn = marks.is_torn && !now.is_torn;
                is_torn || (marks.behind & !now.behind) | (marks.doubtful & !now.doubtful) != 0
            }
            // Without it, the old place would be believed, which others may use by then.
            Record::Moved { .. } => true,
            Record::Marks { .. } | Record::Loss { .. } | Record::Extent { .. } => true,
            // Without them, what clients have written there would be lost.
            Record::Places { .. } | Record::Shown { .. } => true,
            // Without it, chunks that are gone would be believed to lie where others do by then.
            Record::Shrunk { .. } => true,
            // Without it, what was copied to the member meanwhile would be taken for somebody else's.
            Record::Joining { .. } => true,
            // Without it, a device would seem to have restarted that has not: with one that has, all copies would seem to have lost power.
            Record::Boot { .. } => true,
            _ => false,
        }
    }

    /// Sets a chunk's marks, if they differ. Returns the number after which they are durable.
    fn mark(&mut self, chunk: u32, marks: Marks) -> u64 {
        if self.image.marks(chunk) != marks {
            let seq = self.decide(Record::Marks { first_chunk: chunk, count: 1, marks });
            self.chunks.entry(chunk).or_default().marks_seq = seq;
            if marks.doubtful == 0 {
                self.doubtful.remove(&chunk);
            } else {
                self.doubtful.insert(chunk);
            }
        }
        self.marks_seq(chunk)
    }

    /// A chunk's marks are durable from this number on.
    fn marks_seq(&self, chunk: u32) -> u64 {
        self.chunks.get(&chunk).map_or(0, |c| c.marks_seq).max(self.bulk_seq)
    }

    /// Declares copies of a chunk behind: they lack something. Returns the number after which that is durable.
    fn fall_behind(&mut self, chunk: u32, copies: u8) -> u64 {
        let marks = self.image.marks(chunk);
        let news = copies & !marks.behind;
        self.counters.evicted_copies += u64::from(news.count_ones());
        if self.jobs.get(&chunk).is_some_and(|job| (job.targets | bit(job.source)) & news != 0) {
            self.void_jobs.insert(chunk);
        }
        self.mark(chunk, Marks { behind: marks.behind | copies, doubtful: marks.doubtful & !copies, ..marks })
    }

    /// Ends the jobs that have lost a copy that they worked with. Call it after each event.
    fn end_void_jobs(&mut self, cx: &mut Cx<'_>) {
        while let Some(chunk) = self.void_jobs.pop_first() {
            self.give_up(cx, chunk);
        }
    }

    /// Decisions up to this number are durable, or the batch failed.
    pub fn committed(&mut self, cx: &mut Cx<'_>, number: u64, result: Result<(), Failure>) {
        let result = if planted::is(Bug::RefusedCommitBelieved) { Ok(()) } else { result };
        self.mirrors.committed(cx.now, result.is_ok());
        match result {
            Ok(()) => {
                self.log.committed(number);
                self.take_effect(cx);
            }
            Err(failure) => {
                self.retry_at = cx.now + Duration::from_secs(1);
                self.look_at(self.retry_at);
                // It refuses them.
                for launch in self.log.failed(failure) {
                    self.wake(cx, launch);
                }
            }
        }
    }

    /// Whether mirrors have all that the map had at the start. If the map were lost before, what it says of slots and chunks would be others' again.
    fn is_mirrored(&self) -> bool {
        self.inherited.is_none()
    }

    /// Looks whether that is so by now: a mirror has it, or nobody keeps one. `reached`: what decisions wait for.
    fn note_mirrored(&mut self, cx: &mut Cx<'_>, reached: u64) {
        let Some(version) = self.inherited else { return };
        let is_used =
            |member: &u16| !self.image.is_gone(*member) && !self.image.is_joining(*member) && !self.is_out(*member);
        // At most MEMBERS_MAX.
        let mut used = (0..self.members.len() as u16).filter(is_used).peekable();
        let is_any = used.peek().is_some();
        let are_all_there = is_any && used.all(|member| cx.is_linked(member));
        // Those that are away might keep one. They are not waited for without end.
        let is_late = cx.now - self.unstalled_since >= MIRROR_PATIENCE
            && (0..self.members.len() as u16).any(|member| cx.is_linked(member));
        if self.mirrors.have(version) || reached == u64::MAX && (are_all_there || is_late) {
            self.inherited = None;
            self.resume_growth(cx);
        }
    }

    /// Lets go what waited for decisions that are durable now.
    fn take_effect(&mut self, cx: &mut Cx<'_>) {
        let mirrored = self.mirrors.reached(|member| self.is_out(member), |member| cx.is_linked(member));
        self.note_mirrored(cx, mirrored);
        for waiter in self.log.release(mirrored) {
            self.wake(cx, waiter);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, waiter: Waiter) {
        match waiter {
            Waiter::Launch(chunk) => self.launch_waiting(cx, chunk),
            Waiter::Review(chunk) => self.review_chunk(cx, chunk),
            Waiter::Member(member) => self.usable(cx, member),
            Waiter::Flushes => self.review_flushes(cx),
            Waiter::Job(chunk) => self.job_durable(cx, chunk),
            Waiter::Freed => self.look_at_freed(cx),
            Waiter::Grown => self.show_chunks(cx),
        }
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
