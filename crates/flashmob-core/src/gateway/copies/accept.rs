//! A loss is accepted: the nodes with the only current copies of chunks will not come back, and the best other copy of each becomes current.
//!
//! Only a person can say that. What is decided is as after a loss of power of all copies: the chunk is open and torn, so that it is compared before it
//! is used and its blocks are adopted where they do not match; clients are told of the loss. All its other copies are behind, those on the given up
//! nodes as well, so a node that is back after all is made equal and never believed. It is never decided while such a node is linked, paused, or was
//! linked lately.
//!
//! The best copy of a chunk is, in this order:
//! 1. one that has been made equal since its extent was replaced, or was found to be an older copy of itself: until then it may hold zeros. What this
//!    gateway has not seen of that counts as made equal;
//! 2. a doubtful one: it had every change, and may lack those that were not flushed when its device restarted, but no change after it fell behind;
//! 3. the one that fell behind last, as far as this gateway has seen it: it has all that the others had got until then;
//! 4. the one whose member has the fewest copies that are behind: that member was away for the shortest time, or is nearly made equal. The map says no
//!    more, and a fresh extent, all copies on which are behind, comes last;
//! 5. the one with the lowest number.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::{Copies, Cx, MoveError, bit, each, mask};
use crate::copies::{MapError, MapImage, Marks, Record};
use crate::gateway::Gateway;
use crate::planted::{self, Bug};
use crate::units::Time;

/// A node that was linked within so many times [`EVICT_AFTER`](super::EVICT_AFTER), or that a gateway has not tried for as long, may come back.
const SILENT_EVICTIONS: u32 = 10;

/// Chunks whose loss is accepted, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The chunks in ascending order, each with the number of the node whose copy becomes current.
    pub chunks: Vec<(u32, u16)>,
    /// Chunks that stay without a current copy, as only the given up nodes have one at all.
    pub without_copy: Vec<u32>,
    /// The number of the last record: see [`Gateway::is_recorded`]. 0 if nothing was decided.
    pub number: u64,
}

/// Why a loss is not accepted. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum AcceptLossError {
    /// The node is linked.
    #[error("node {name} is linked, and its copies are used: nothing is lost")]
    Linked { name: String },
    /// Somebody paused the node.
    #[error(
        "node {name} is only paused: use it again with `flashmob volume resume`; if it does not come back, accept the loss then"
    )]
    Paused { name: String },
    /// The node may come back.
    #[error(
        "node {name} may come back: it was linked, or this gateway was started, {} s ago; bring it back, or try again in {} s",
        silent.as_secs(),
        left.as_secs().max(1)
    )]
    HeardLately { name: String, silent: Duration, left: Duration },
    /// No chunk has its current copies on these nodes alone.
    #[error("no chunk has its only current copy there: nothing has to be accepted")]
    Nothing,
    /// No chunk has its current copies on these nodes alone, and some have others on nodes that are away.
    #[error(
        "{chunks} chunks (the first is {first}) also have a current copy on node {name}, which is away: bring that node back, or name it as well if it \
         is gone for good"
    )]
    Elsewhere { name: String, chunks: u32, first: u32 },
    /// The best copy is on a node that cannot be used now.
    #[error(
        "the best other copy of {chunks} chunks (the first is {first}) is on node {name}, which is away, paused or does not answer: bring that node back, \
         or name it as well if it is gone for good"
    )]
    Away { name: String, chunks: u32, first: u32 },
    /// There is no other copy.
    #[error(
        "{chunks} chunks (the first is {first}) have no copy on any other node, so their data is gone with these: bring one of them back, or its \
         extent from a backup"
    )]
    NoOtherCopy { chunks: u32, first: u32 },
    /// Nothing can be decided, or there is no such node.
    #[error(transparent)]
    Undecided(#[from] MoveError),
    /// The map refuses it.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The state of the members' nodes: which are linked, and their names.
pub(super) struct View<'a> {
    pub now: Time,
    pub is_linked: &'a dyn Fn(u16) -> bool,
    pub name: &'a dyn Fn(u16) -> String,
}

/// The copies that become current.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Chunks in ascending order, and which copy.
    promoted: Vec<(u32, usize)>,
    without_copy: Vec<u32>,
}

impl Plan {
    pub(super) fn chunks(&self) -> u32 {
        self.promoted.len() as u32
    }
}

impl View<'_> {
    fn of<R>(cx: &Cx<'_>, event: impl FnOnce(&View<'_>) -> R) -> R {
        let is_linked = |member: u16| cx.is_linked(member);
        let name = |member: u16| cx.name(member);
        event(&View { now: cx.now, is_linked: &is_linked, name: &name })
    }
}

impl Copies {
    /// Notes which copy of a chunk fell behind last, where several are.
    pub(super) fn note_behind(&mut self, chunk: u32, before: u8, behind: u8) {
        for copy in each(before & !behind) {
            self.hollow.remove(&(chunk, self.member_of(chunk, copy)));
        }
        let news = behind & !before;
        if news != 0 && before != 0 {
            self.behind_last.insert(chunk, news);
        } else if self.behind_last.get(&chunk).is_some_and(|last| last & behind == 0) {
            self.behind_last.remove(&chunk);
        }
    }

    /// The copies on a member hold something else than they fell behind with: its extent is a fresh one, or an older one.
    pub(super) fn note_hollow(&mut self, member: u16) {
        let chunks: Vec<(u32, usize)> = self.image.chunks_of(member).collect();
        for (chunk, copy) in chunks {
            if let Some(last) = self.behind_last.get_mut(&chunk) {
                *last &= !bit(copy);
            }
            self.hollow.insert((chunk, member));
        }
    }

    /// For how long a member has not been linked while this gateway tried, and how much longer that has to last before it counts as gone.
    fn silence_of(&self, now: Time, member: u16) -> (Duration, Duration) {
        let needed = self.evict_after * SILENT_EVICTIONS;
        if self.unstalled_since == Time::default() {
            return (Duration::ZERO, needed);
        }
        let left_at = self.members.get(usize::from(member)).map_or(now, |member| member.unlinked_at);
        let silent = now - left_at.max(self.unstalled_since);
        (silent, needed.saturating_sub(silent))
    }

    fn check_gone(&self, view: &View<'_>, member: u16) -> Result<(), AcceptLossError> {
        let name = || (view.name)(member);
        if self.members.get(usize::from(member)).is_some_and(|state| state.is_paused) {
            return Err(AcceptLossError::Paused { name: name() });
        }
        if (view.is_linked)(member) {
            return Err(AcceptLossError::Linked { name: name() });
        }
        let (silent, left) = self.silence_of(view.now, member);
        if !left.is_zero() {
            return Err(AcceptLossError::HeardLately { name: name(), silent, left });
        }
        Ok(())
    }

    /// The copies that become current if these members are given up.
    pub(super) fn plan_loss(&self, view: &View<'_>, given_up: &BTreeSet<u16>) -> Result<Plan, AcceptLossError> {
        self.may_decide()?;
        given_up.iter().try_for_each(|&member| self.check_gone(view, member))?;
        let behind_of = self.behind_by_member();
        let chunks: BTreeSet<u32> =
            given_up.iter().flat_map(|&member| self.image.chunks_of(member)).map(|(chunk, _)| chunk).collect();
        let mut plan = Plan::default();
        let mut elsewhere: Vec<(u32, u16)> = Vec::new();
        let mut away: Vec<(u32, u16)> = Vec::new();
        for chunk in chunks {
            let current = self.current(chunk);
            // Without one, all are doubtful, and are judged once their devices are known.
            if current == 0 {
                continue;
            }
            let members = self.members_of(chunk, current);
            if let Some(&other) = members.iter().find(|member| !given_up.contains(member)) {
                let is_any_linked = members.iter().any(|&member| (view.is_linked)(member));
                elsewhere.extend((!is_any_linked).then_some((chunk, other)));
                continue;
            }
            let marks = self.image.marks(chunk);
            let last = self.behind_last.get(&chunk).copied().unwrap_or(0);
            let others = (0..self.image.copies()).filter(|&copy| !given_up.contains(&self.member_of(chunk, copy)));
            let rank = |&copy: &usize| {
                let behind = behind_of.get(usize::from(self.member_of(chunk, copy))).copied().unwrap_or(0);
                let is_hollow = self.hollow.contains(&(chunk, self.member_of(chunk, copy)));
                (!is_hollow, marks.doubtful & bit(copy) != 0, last & bit(copy) != 0, Reverse(behind), Reverse(copy))
            };
            let Some(best) = others.max_by_key(rank) else {
                plan.without_copy.push(chunk);
                continue;
            };
            let member = self.member_of(chunk, best);
            let is_usable = self.is_known(member) && !self.is_out(member) && (view.is_linked)(member);
            away.extend((!is_usable).then_some((chunk, member)));
            plan.promoted.push((chunk, best));
        }
        let of_first = |chunks: &[(u32, u16)]| {
            let &(first, member) = chunks.first()?;
            Some(((view.name)(member), chunks.iter().filter(|(_, other)| *other == member).count() as u32, first))
        };
        if let Some((name, chunks, first)) = of_first(&away) {
            return Err(AcceptLossError::Away { name, chunks, first });
        }
        match (plan.promoted.is_empty(), plan.without_copy.first(), of_first(&elsewhere)) {
            (false, ..) => Ok(plan),
            (true, Some(&first), _) => {
                Err(AcceptLossError::NoOtherCopy { chunks: plan.without_copy.len() as u32, first })
            }
            (true, None, Some((name, chunks, first))) => Err(AcceptLossError::Elsewhere { name, chunks, first }),
            (true, None, None) => Err(AcceptLossError::Nothing),
        }
    }

    /// By member: how many of its copies are behind.
    fn behind_by_member(&self) -> Vec<u32> {
        let mut counts = vec![0; self.members.len()];
        for (chunk, marks) in self.image.chunks_marked() {
            for member in self.members_of(chunk, marks.behind) {
                if let Some(count) = counts.get_mut(usize::from(member)) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// The records that the map gets for the chunks of a plan.
    fn records_of(&self, plan: &Plan, given_up: &BTreeSet<u16>) -> Vec<Record> {
        let all = mask(0..self.image.copies());
        Record::of_marks(plan.promoted.iter().map(|&(chunk, copy)| {
            let mut behind = all & !bit(copy);
            if planted::is(Bug::ReturnedCopyCurrent) {
                behind &= !mask(each(all).filter(|&copy| given_up.contains(&self.member_of(chunk, copy))));
            }
            (chunk, Marks { is_open: true, is_torn: true, behind, doubtful: 0 })
        }))
    }

    /// Carries a plan out.
    fn promote(&mut self, cx: &mut Cx<'_>, plan: Plan, given_up: &BTreeSet<u16>) -> AcceptedLoss {
        // First, so that a map that ends in between tells a loss too many and not one too few.
        if !planted::is(Bug::AcceptedLossUntold) {
            self.tell_loss(cx);
        }
        let mut number = self.log.wanted();
        for record in self.records_of(&plan, given_up) {
            number = self.decide(record);
        }
        if !planted::is(Bug::AcceptedEarly) {
            self.bulk_seq = number;
        }
        self.counters.accepted += u64::from(plan.chunks());
        let Plan { promoted, without_copy } = plan;
        // Before jobs end, which lets go what waits for them.
        self.doubt.extend(promoted.iter().map(|&(chunk, _)| chunk));
        for &(chunk, _) in &promoted {
            self.give_up(cx, chunk);
            self.leave(chunk, u8::MAX);
            self.forget_rot(chunk);
            self.limit_kept(chunk, 0);
            self.stuck.remove(&chunk);
            self.behind_last.remove(&chunk);
            self.reopened.remove(&chunk);
            self.flushed.remove(&chunk);
        }
        for &member in given_up.iter().filter(|_| !planted::is(Bug::ReturnedCopyCurrent)) {
            self.members[usize::from(member)].out_since.get_or_insert(cx.now);
        }
        for &member in given_up {
            self.after_bulk(cx, member);
        }
        self.plan_anew(cx);
        let chunks = promoted.into_iter().map(|(chunk, copy)| (chunk, self.member_of(chunk, copy))).collect();
        AcceptedLoss { chunks, without_copy, number }
    }

    /// Accepts the loss of what the members alone have. If it `is_dry`, nothing is decided.
    fn accept_loss(
        &mut self,
        cx: &mut Cx<'_>,
        given_up: &BTreeSet<u16>,
        is_dry: bool,
    ) -> Result<AcceptedLoss, AcceptLossError> {
        let plan = View::of(cx, |view| self.plan_loss(view, given_up))?;
        if is_dry {
            let chunks = plan.promoted.iter().map(|&(chunk, copy)| (chunk, self.member_of(chunk, copy))).collect();
            return Ok(AcceptedLoss { chunks, without_copy: plan.without_copy, number: 0 });
        }
        Ok(self.promote(cx, plan, given_up))
    }

    /// Accepts the loss of all that a member alone has, before a fresh extent takes its place by this record; not if the map would refuse that.
    pub(super) fn accept_all(
        &mut self,
        cx: &mut Cx<'_>,
        member: u16,
        record: &Record,
    ) -> Result<AcceptedLoss, AcceptLossError> {
        let given_up = BTreeSet::from([member]);
        let plan = View::of(cx, |view| self.plan_loss(view, &given_up))?;
        if let Some(&first) = plan.without_copy.first() {
            return Err(AcceptLossError::NoOtherCopy { chunks: plan.without_copy.len() as u32, first });
        }
        let mut then: MapImage = self.image.clone();
        self.records_of(&plan, &given_up).iter().chain([record]).try_for_each(|record| then.apply(record))?;
        Ok(self.promote(cx, plan, &given_up))
    }
}

impl Gateway {
    /// Accepts the loss of the chunks whose only current copies are on these nodes of a volume with copies: the best other copy of each becomes current.
    /// Returns them. If it `is_dry`, nothing is decided.
    ///
    /// The decision has effect once it is durable and in mirrors: see [`Gateway::is_recorded`].
    pub fn accept_loss(
        &mut self,
        now: Time,
        volume: usize,
        nodes: &[usize],
        is_dry: bool,
    ) -> Result<AcceptedLoss, AcceptLossError> {
        let state = self.volumes.get(volume).ok_or(MoveError::NoCopies)?;
        let copies = state.copies.as_deref().ok_or(MoveError::NoCopies)?;
        let count = state.spec.extents.len();
        let is_there = |number: usize| number < count && !copies.image.is_gone(number as u16);
        if let Some(&number) = nodes.iter().find(|&&number| !is_there(number)) {
            return Err(MoveError::NoNode { number, count }.into());
        }
        // At most MEMBERS_MAX.
        let given_up: BTreeSet<u16> = nodes.iter().map(|&number| number as u16).collect();
        let accepted = self.with_copies(now, volume, |copies, cx| copies.accept_loss(cx, &given_up, is_dry));
        accepted.unwrap_or(Err(MoveError::NoCopies.into()))
    }
}
