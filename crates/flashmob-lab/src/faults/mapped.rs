//! Volumes with copies: the map's file, where the bytes of the volume lie, and what copies change about the permitted answers.
//!
//! The promise: with faults that lose data on fewer devices than there are copies, nothing that was shown to a client is lost, and no flush fails.
//! So the oracle is told of losses of power only where all copies of a chunk suffer them (`blackout.rs`). Requests may fail only where all copies
//! of a chunk are disturbed.

use std::time::Duration;

use flashmob_core::copies::{MapImage, Marks, Member, Place, Record, encode_batch, encode_snapshot, replay};
use flashmob_core::op::Failure;
use flashmob_core::units::Time;
use flashmob_core::wire::digest::DIGEST_BLOCK_BYTES;
use rand::Rng;

use serde::{Deserialize, Serialize};

use super::joins::Spare;
use super::oracle::pattern;
use super::rewrite::Renamed;
use super::trace::What;
use super::{Event, Scenario, World};

/// The copies of a volume, as a scenario has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopiesPlan {
    /// Copies of each chunk.
    pub copies: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Members of one domain have one number.
    pub domains: Vec<u32>,
    /// The longest time that an append to the map takes, in nanoseconds.
    pub commit_ns: u64,
    /// How long a copy may leave changes unanswered.
    pub evict_after: Duration,
    /// How long a chunk stays open.
    pub settle_after: Duration,
    /// Copies that must be current for a change to be acknowledged.
    #[serde(default = "one")]
    pub min_current: usize,
    /// Chunks that may be open at once, if not as many as in a configuration.
    #[serde(default)]
    pub open_max: Option<usize>,
    /// How often the volume is scrubbed by itself.
    pub scrub_every: Option<Duration>,
    /// Chunks of the volume, if not as many as the nodes have room for.
    pub chunks: Option<u32>,
    /// Chunks that it may get in addition.
    pub growth: u32,
    /// How long the lease of its gateway lasts, if another stands by.
    pub lease: Option<Duration>,
    /// Nodes that the volume does not have at first: the last ones.
    pub spares: Vec<Spare>,
    /// What happens now and then while the gateway records that a copy has moved.
    pub in_moves: Option<InMove>,
    /// The map is written anew after one in so many batches; 0: only after a failure.
    #[serde(default)]
    pub rewrites_one_in: u32,
    /// Nodes lose power when the end of the map is damaged.
    #[serde(default)]
    pub is_power_cut_with_map: bool,
}

fn one() -> usize {
    1
}

/// What happens in the middle of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InMove {
    /// The gateway is killed.
    Kill,
    /// What is under way on one of the links of a node arrives later than what is sent on the others.
    Stall,
}

/// The domain of a node.
pub(super) fn domain(scenario: &Scenario, node: usize) -> String {
    let number = scenario.copies.as_ref().and_then(|plan| plan.domains.get(node)).copied();
    format!("d{}", number.unwrap_or(node as u32))
}

/// The file of the map.
#[derive(Debug, Default)]
pub(super) struct MapDisk {
    bytes: Vec<u8>,
    /// Where the last batch begins; at the end if there is none.
    last_at: usize,
    /// What is being appended, the number of its last record, and whether it replaces all.
    pub out: Option<(u64, Vec<u8>, bool)>,
    /// The map was written anew, and a loss of power may bring the old file back.
    pub renamed: Option<Renamed>,
}

impl MapDisk {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where its last batch begins.
    pub fn last_at(&self) -> usize {
        self.last_at.min(self.bytes.len())
    }

    /// Makes decisions durable: at the end of the file, or in the place of all.
    pub fn store(&mut self, bytes: Vec<u8>, is_whole: bool) {
        if is_whole {
            self.bytes.clear();
        }
        self.last_at = self.bytes.len();
        self.bytes.extend(bytes);
        if is_whole {
            self.last_at = self.bytes.len();
        }
    }
}

impl Scenario {
    /// The map of a new volume: all copies are equal.
    pub(super) fn new_map(&self) -> Option<MapImage> {
        let plan = self.copies.as_ref()?;
        let members = self.extents_bytes[..self.first_spare()].iter().enumerate().map(|(n, &size_bytes)| Member {
            extent_id: [n as u8 + 1; 16],
            boot_id: None,
            seen: None,
            size_bytes,
            domain: domain(self, n),
        });
        let (chunk_bytes, members) = (plan.chunk_bytes, members.collect());
        match plan.chunks {
            Some(chunks) => MapImage::with_chunks([3; 16], chunk_bytes, plan.copies, members, chunks).ok(),
            None => MapImage::new([3; 16], chunk_bytes, plan.copies, members).ok(),
        }
    }
}

impl World {
    /// Makes the map's file, and puts the volume's first bytes on all copies.
    pub(super) fn make_map(&mut self) {
        let Some(image) = self.scenario.new_map() else { return };
        let chunk_bytes = image.chunk_bytes();
        for chunk in 0..image.chunks() {
            for place in image.places(chunk) {
                let start = u64::from(chunk) * chunk_bytes;
                let content: Vec<u8> = (start..start + chunk_bytes).map(|at| pattern(0, at)).collect();
                self.nodes[usize::from(place.member)].store.fill(u64::from(place.slot) * chunk_bytes, &content);
            }
        }
        self.map.bytes = encode_snapshot(&image);
        self.sign_map(None, &encode_snapshot(&image));
    }

    /// Reads the map, and counts this start of the gateway in it, as its shell does before it begins.
    pub(super) fn load_map(&mut self) -> Option<MapImage> {
        self.scenario.copies.as_ref()?;
        let mut replayed = match replay(&self.map.bytes) {
            Ok(replayed) => replayed,
            Err(error) => {
                self.ctx.fail(format!("the map cannot be read: {error}"));
                return None;
            }
        };
        self.map.bytes.truncate(replayed.valid_bytes as usize);
        replayed.image = self.read_signed_map(replayed.image);
        if replayed.torn_bytes > 0 {
            if let Err(error) = replayed.image.cut() {
                self.ctx.fail(format!("the map cannot be marked: {error}"));
            }
            self.store_map(replayed.image.version(), encode_snapshot(&replayed.image), true);
        }
        let number = replayed.image.version() + 1;
        let nonce = if replayed.image.is_cut() { self.ctx.rng.random() } else { 0 };
        let mut records = Vec::from_iter(replayed.image.lost_start(nonce));
        let epoch = replayed.image.epoch() + 1 + records.len() as u64;
        records.push(Record::Epoch { epoch, nonce: self.ctx.rng.random() });
        if let Err(error) = records.iter().try_for_each(|record| replayed.image.apply(record)) {
            self.ctx.fail(format!("the epoch cannot be counted: {error}"));
        }
        let mut batch = Vec::new();
        if let Err(error) = encode_batch(&mut batch, number, &records) {
            self.ctx.fail(format!("the epoch cannot be recorded: {error}"));
        }
        let number = replayed.image.version();
        self.sign_map(Some(number), &batch);
        self.map.store(batch, false);
        self.note_map_file(true);
        Some(replayed.image)
    }

    /// The gateway wants decisions to be durable.
    pub(super) fn commit(&mut self, number: u64, bytes: Vec<u8>, is_whole: bool) {
        let longest_ns = self.scenario.copies.as_ref().map_or(1, |plan| plan.commit_ns.max(1));
        let takes_ns = self.ctx.rng.random_range(0..longest_ns) + self.map_delay_ns();
        let session = self.gateway.session;
        if self.gateway.is_former {
            self.gateway.refused_commit = Some((number, Err(Failure::Io)));
            return self.ctx.after(takes_ns, Event::Committed { session });
        }
        if self.map.out.is_some() {
            return self.ctx.fail("two batches of decisions are out at once".to_string());
        }
        if !is_whole && self.trace_records(&bytes) {
            self.strike_in_move(takes_ns);
        }
        self.map.out = Some((number, bytes, is_whole));
        self.ctx.after(takes_ns, Event::Committed { session });
    }

    /// Shows decisions in the trace. Returns whether a copy has moved.
    fn trace_records(&mut self, batch: &[u8]) -> bool {
        let mut file = self.map.bytes.clone();
        let Ok(before) = replay(&file) else { return false };
        file.truncate(before.valid_bytes as usize);
        file.extend(batch);
        let Ok(after) = replay(&file) else { return false };
        let mut has_moved = false;
        for chunk in 0..after.image.chunks() {
            let (old, new) = (before.image.places(chunk), after.image.places(chunk));
            for (copy, place) in new.iter().enumerate().filter(|(copy, place)| old.get(*copy) != Some(place)) {
                has_moved = true;
                self.note_move(old.get(copy).map(|place| place.member), place.member);
                let was_leaving = before.image.is_leaving(place.member) && !self.wished.contains(&place.member);
                if was_leaving && after.image.is_leaving(place.member) {
                    self.ctx
                        .fail(format!("copy {copy} of chunk {chunk} moves to node {}, which is drained", place.member));
                }
                self.ctx.trace(What::Moved { chunk, copy, member: place.member, slot: place.slot });
            }
            let marks = after.image.marks(chunk);
            if marks != before.image.marks(chunk) {
                let Marks { is_open, is_torn, behind, doubtful } = marks;
                self.ctx.trace(What::Marked { chunk, is_open, is_torn, behind, doubtful });
            }
        }
        self.wished.clear();
        has_moved
    }

    pub(super) fn committed(&mut self, session: u64) {
        if session != self.gateway.session {
            return;
        }
        if self.gateway.stalled_until > self.ctx.now {
            return self.ctx.at(self.gateway.stalled_until, Event::Committed { session });
        }
        if self.gateway.is_former {
            let Some((number, result)) = self.gateway.refused_commit.take() else { return };
            if let Some(core) = &mut self.gateway.core {
                core.committed(self.ctx.now, 0, number, result);
                self.wake_gateway();
            }
            return;
        }
        if self.is_map_full() {
            let number = self.map.out.as_ref().map_or(0, |(number, ..)| *number);
            self.tear_map();
            return self.commit_fails(number);
        }
        let Some((number, bytes, is_whole)) = self.map.out.take() else { return };
        if is_whole && self.map_renamed(number, &bytes) {
            return;
        }
        self.store_map(number, bytes, is_whole);
        self.map_is_durable(number);
        self.may_rewrite_map();
    }

    /// The map's file has decisions up to this number, permanently.
    pub(super) fn map_is_durable(&mut self, number: u64) {
        self.note_map_file(false);
        self.watch_change();
        if let Some(core) = &mut self.gateway.core {
            core.committed(self.ctx.now, 0, number, Ok(()));
            self.wake_gateway();
        }
        self.note_decisions();
    }

    /// The gateway is killed, or the disk is full: what was being appended is in the file, in part, as a whole, or not at all.
    pub(super) fn tear_map(&mut self) {
        self.rename_may_be_lost();
        let Some((number, bytes, is_whole)) = self.map.out.take() else { return };
        if is_whole {
            return;
        }
        let written = match self.ctx.rng.random_range(0..4) {
            0 => 0,
            1 => bytes.len(),
            _ => self.ctx.rng.random_range(0..bytes.len()),
        };
        if written == bytes.len() {
            return self.store_map(number, bytes, false);
        }
        self.map.bytes.extend(&bytes[..written]);
    }

    /// The store has decisions up to this number: a batch, or all of the map.
    pub(super) fn store_map(&mut self, number: u64, bytes: Vec<u8>, is_whole: bool) {
        self.sign_map((!is_whole).then_some(number), &bytes);
        self.map.store(bytes, is_whole);
    }

    /// Whether a request may fail, or be late: a chunk that it touches has too few copies that are free of disturbance. A copy that is behind, or not
    /// known to be current, cannot help.
    pub(super) fn are_copies_excused(&self, spans: &[(u64, u32)], asked: Time) -> bool {
        let Some(plan) = &self.scenario.copies else { return false };
        let Some(core) = &self.gateway.core else { return true };
        if self.waited_at.is_some_and(|at| asked <= at) {
            return true;
        }
        let Some(image) = core.map(0) else { return true };
        let chunks = |&(at, len): &(u64, u32)| {
            (at / plan.chunk_bytes) as u32..=((at + u64::from(len.max(1)) - 1) / plan.chunk_bytes) as u32
        };
        let all = if spans.is_empty() { 0..image.chunks() } else { 0..0 };
        spans.iter().flat_map(chunks).chain(all).any(|chunk| {
            let marks = image.marks(chunk);
            if self.is_before_acceptance(chunk, asked) {
                return true;
            }
            let is_there = |(copy, place): &(usize, &Place)| {
                let is_of_no_use = (marks.behind | marks.doubtful) & (1 << copy) != 0;
                !is_of_no_use && !self.is_excused(place.member.into(), asked)
            };
            image.places(chunk).iter().enumerate().filter(is_there).count() < self.scenario.copies_needed()
        })
    }

    /// Whether every copy on a living node is current, equal and permanent.
    pub(super) fn is_at_rest(&self, dead: &[bool]) -> bool {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return true };
        let status = self.gateway.core.as_ref().and_then(|core| core.copies_status(self.ctx.now, 0));
        let is_done = status.is_some_and(|s| s.jobs == 0 && s.decisions.0 == s.decisions.1);
        let is_dead = |member: u16| dead[usize::from(member)];
        is_done
            && self.are_lies_known()
            && !self.is_shrinking()
            && self.are_moves_done(dead)
            && self.have_joined(dead)
            && (0..self.scenario.extents_bytes.len()).all(|node| !self.is_member(node) || self.is_extent_known(node))
            && image.chunks_marked().all(|(chunk, marks)| {
                let places = image.places(chunk);
                let lacks = |copy: usize| (marks.behind | marks.doubtful) & (1 << copy) != 0;
                // Where a node is dead that nobody has asked, it is not known what it lacks.
                let has_dead = places.iter().any(|place| is_dead(place.member));
                let are_others_right = places.iter().enumerate().all(|(copy, p)| !lacks(copy) || is_dead(p.member));
                are_others_right && (!marks.is_open || has_dead)
            })
    }

    /// For a failure: what is left to do.
    pub(super) fn copies_state(&self) -> String {
        let Some(core) = &self.gateway.core else { return "no gateway".to_string() };
        let marked: Vec<_> = core.map(0).into_iter().flat_map(MapImage::chunks_marked).collect();
        format!("{marked:?}, {:?}", core.copies_status(self.ctx.now, 0))
    }

    /// Looks at the flash of all copies that are said to be current: they are equal, what clients may see, and permanent where settled.
    pub(super) fn check_copies(&mut self, dead: &[bool]) {
        self.ctx.trace(What::Phase("the copies are looked at"));
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return };
        let chunk_bytes = image.chunk_bytes() as usize;
        for chunk in 0..image.chunks() {
            let marks = image.marks(chunk);
            for (copy, place) in image.places(chunk).iter().enumerate() {
                let node = usize::from(place.member);
                if (marks.behind | marks.doubtful) & (1 << copy) != 0 || dead[node] {
                    continue;
                }
                let (at, volume_at) = (place.slot as usize * chunk_bytes, u64::from(chunk) * image.chunk_bytes());
                let store = &self.nodes[node].store;
                for block in (0..chunk_bytes).step_by(DIGEST_BLOCK_BYTES as usize) {
                    let range = at + block..at + block + DIGEST_BLOCK_BYTES as usize;
                    // What nobody has read since it rotted is as it was: see `check_rot_behind`.
                    if store.is_rotten(range.start as u64) {
                        continue;
                    }
                    let (live, durable) = (&store.live()[range.clone()], &store.durable()[range]);
                    if !marks.is_open && live != durable {
                        return self.ctx.fail(format!("chunk {chunk} is settled, but copy {copy} is not permanent"));
                    }
                    let asked = self.oracle.asked();
                    if let Err(text) = self.oracle.read_ended(asked, volume_at + block as u64, live) {
                        return self.ctx.fail(format!("copy {copy} of chunk {chunk} is current, but {text}"));
                    }
                }
            }
        }
    }
}
