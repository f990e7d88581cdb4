//! Members: which of them can be used, and what a restart of their devices means for the chunks there.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::change::At;
use super::chunk::Chunk;
use super::log::Waiter;
use super::speed::Speed;
use super::{Copies, Cx, bit, each, mask};
use crate::copies::{Marks, Record};
use crate::gateway::Event;
use crate::gateway::state::{Charged, RequestKey};
use crate::planted::{self, Bug};
use crate::units::{Bytes, Time};
use crate::wire::hello::Welcome;

/// How many of the charges that an extent remembers are kept, the last of them.
const SEEN_MAX: usize = 8;

/// A member that was put out so often, in so short a time, is not made equal before it has been there for some time: it would be for nothing, and
/// others would be slowed down by it.
const OFTEN: usize = 3;
const OFTEN_WITHIN: Duration = Duration::from_secs(600);
const CALM: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Member {
    /// The number after which what its welcome led to is durable; `None` before the first welcome of this epoch.
    pub usable_from: Option<u64>,
    /// A start of its device is on record, so that the next will be noticed.
    pub is_born: bool,
    /// What its extent is known to remember of charges, and from which number on that is durable. The last few.
    pub seen: VecDeque<(u64, (u64, u64))>,
    /// Whether the extent keeps its age, as the last welcome told; and the age that it is known to have, from mirrors of this start of the gateway.
    pub keeps_age: bool,
    pub age: Option<(u64, u64)>,
    /// Whether the member was welcomed and has had a link ever since; `unlinked_at` is when it had none any more.
    pub was_linked: bool,
    pub unlinked_at: Time,
    /// Since when it is out: it left I/O unanswered, or is paused.
    pub out_since: Option<Time>,
    /// Somebody wants it not to be used.
    pub is_paused: bool,
    /// When it was last needed, while it is used all the same.
    pub needed_at: Option<Time>,
    /// When it could be used again.
    pub usable_since: Time,
    /// No copies on it are made current before this time.
    pub calm_until: Time,
    /// No copies are moved to it before this time, as it failed some; and when the owner may be told again.
    pub no_guests_until: Time,
    pub tell_guests_at: Time,
    /// What it was added by is durable from this number on. Before, nothing is copied to it: it would not be known whose that is.
    pub joined_from: u64,
    /// When it was put out, the last few times.
    pub put_out: VecDeque<Time>,
    /// Its flush that is under way, before chunks are settled.
    pub sync: Option<RequestKey>,
    /// When that may be tried again.
    pub sync_again: Time,
    /// The device has failed a flush: what could not be written may be gone from its memory, too.
    pub has_failed_flush: bool,
    /// When the owner may be told again that its device fails flushes.
    pub tell_flush_at: Time,
    /// How fast it answers reads.
    pub speed: Speed,
    /// Its extent has its bytes where the linear volume had them that this one was made of.
    pub is_linear: bool,
}

impl Member {
    /// As the map has it.
    pub fn new(known: &crate::copies::Member, is_linear: bool) -> Member {
        let seen = known.seen.map(|seen| (0, seen)).into_iter().collect();
        Member { is_born: known.boot_id.is_some(), seen, is_linear, ..Member::default() }
    }

    /// Notes that it is put out.
    fn note_put_out(&mut self, now: Time) {
        if self.put_out.len() >= OFTEN {
            self.put_out.pop_front();
        }
        self.put_out.push_back(now);
    }

    /// Whether copies may be moved to it.
    pub fn takes_guests(&self, now: Time) -> bool {
        self.is_calm(now) && now >= self.no_guests_until
    }

    /// Whether its copies may be made equal.
    pub fn is_calm(&self, now: Time) -> bool {
        let is_restless =
            self.put_out.len() >= OFTEN && self.put_out.front().is_some_and(|&first| now - first < OFTEN_WITHIN);
        now >= self.calm_until && (!is_restless || now - self.usable_since >= CALM)
    }
}

impl Copies {
    /// Whether its state is known, over a link, in this epoch.
    pub(super) fn is_known(&self, member: u16) -> bool {
        let state = self.members.get(usize::from(member));
        state.and_then(|m| m.usable_from).is_some_and(|seq| self.log.is_durable(seq))
    }

    /// Whether reads and jobs may use it now.
    pub(super) fn is_usable(&self, cx: &Cx<'_>, member: u16) -> bool {
        self.is_known(member) && !self.is_out(member) && cx.is_linked(member)
    }

    /// Current copies of a chunk on members of which no start is on record. Nothing is sent to them: its loss would not be noticed.
    pub(super) fn unborn(&self, chunk: u32) -> u8 {
        let is_unborn = |copy: &usize| {
            let member = self.members.get(usize::from(self.member_of(chunk, *copy)));
            member.is_some_and(|member| !member.is_born)
        };
        mask(each(self.current(chunk)).filter(is_unborn))
    }

    pub(super) fn is_out(&self, member: u16) -> bool {
        self.members.get(usize::from(member)).is_some_and(|m| m.out_since.is_some())
    }

    /// A member is linked. What its device's restart means is decided now, and has effect when it is durable.
    /// `is_mirror_older`: its mirror has less than it had durably.
    pub(super) fn welcomed(
        &mut self,
        cx: &mut Cx<'_>,
        member: u16,
        welcome: &Welcome,
        charged: Option<Charged>,
        is_mirror_older: bool,
    ) {
        let Some(known) = self.image.members().get(usize::from(member)) else { return };
        let (extent_id, boot_id, known_bytes) = (known.extent_id, known.boot_id, known.size_bytes);
        if let Some(state) = self.members.get_mut(usize::from(member)) {
            state.was_linked = true;
        }
        self.claims.is_served();
        if self.linear_origin(member).is_some() {
            self.scrub_converted(cx, member);
        }
        let mut seen = charged.and_then(|charged| charged.seen);
        if planted::is(Bug::AgeBelieved) {
            let charges = self.members[usize::from(member)].seen.iter().map(|(_, charge)| *charge);
            seen = seen.min(charges.max());
        }
        let mut remembered = welcome.remembered;
        if !welcome.keeps_age {
            // A node of an earlier build: its mirror is as old as its extent.
            let mirror = welcome.mirror.filter(|mirror| mirror.len_bytes > 0);
            remembered = remembered.max(mirror.map(|mirror| mirror.age()));
        }
        self.members[usize::from(member)].keeps_age = welcome.keeps_age;
        let is_older = is_mirror_older && !welcome.keeps_age || seen.is_some() && remembered < seen;
        if is_older && !planted::is(Bug::RestoredBelieved) {
            self.restored(cx, member);
        }
        let is_other_size = extent_id == welcome.extent_id && welcome.size_bytes != known_bytes;
        if is_other_size {
            let (from, to) = (Bytes(known_bytes), Bytes(welcome.size_bytes));
            let text = if welcome.size_bytes > known_bytes {
                format!("its extent has grown from {from} to {to}")
            } else {
                format!("its extent has {to}, and it said {from} before; no copy is in what is missing")
            };
            cx.tell(Event::NodeWarning(cx.name(member), text));
        }
        if extent_id != welcome.extent_id || is_other_size {
            let record = Record::Extent { member, extent_id: welcome.extent_id, size_bytes: welcome.size_bytes };
            self.decide(record);
        }
        if is_other_size {
            // What lies there is looked through before it is used; if nothing of this member was used yet, with what it had.
            self.search_anew(member);
            self.plan_anew(cx);
        }
        match boot_id {
            Some(boot_id) if boot_id == welcome.boot_id || planted::is(Bug::BootUnchecked) => {}
            Some(_) => self.rebooted(cx, member),
            None => {}
        }
        if boot_id != Some(welcome.boot_id) {
            self.decide(Record::Boot { member, boot_id: welcome.boot_id });
        }
        if let Some((epoch, version)) = charged.map(|charged| charged.offered) {
            let seq = self.decide(Record::Seen { member, epoch, version });
            let seen = &mut self.members[usize::from(member)].seen;
            if seen.len() >= SEEN_MAX {
                // The first may be the only one that is durable.
                seen.remove(1);
            }
            seen.push_back((seq, (epoch, version)));
        }
        self.found_at(cx, member);
        let wanted = self.log.wanted();
        self.members[usize::from(member)].usable_from = Some(wanted);
        if self.log.is_durable(wanted) {
            self.usable(cx, member);
        } else {
            self.log.wait(wanted, Waiter::Member(member));
        }
    }

    /// A member's device has restarted: what was not synced there may be lost. Its copies of open chunks are in question.
    fn rebooted(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.counters.reboots += 1;
        // What its device failed to do is over.
        if let Some(state) = self.members.get_mut(usize::from(member)) {
            (state.calm_until, state.sync_again, state.tell_flush_at) = (cx.now, cx.now, cx.now);
            (state.no_guests_until, state.tell_guests_at) = (cx.now, cx.now);
            state.has_failed_flush = false;
        }
        self.search_anew(member);
        let open: Vec<(u32, usize)> =
            self.image.chunks_of(member).filter(|&(chunk, _)| self.image.marks(chunk).is_open).collect();
        // Before jobs are dropped: changes that waited for them open chunks then.
        let lately = self.settled_lately(cx, member);
        // One that is behind is not in question: what it lacks says nothing of what the others have.
        for &(chunk, copy) in &open {
            if self.image.marks(chunk).behind & bit(copy) == 0 {
                self.note_flushed(cx, chunk, copy);
            }
        }
        for chunk in self.jobs.keys().copied().collect::<Vec<_>>() {
            if let Some(copy) = self.copy_on(chunk, member) {
                self.drop_job_of(cx, chunk, copy);
            }
        }
        self.undo_changes(member);
        self.forget_kept(member);
        // What waits to be read there was asked for before it lost what it lost.
        let node = cx.node(member);
        let reads = cx.queues.take_reads(node);
        self.reopened.extend(lately.iter().map(|&(chunk, _)| chunk));
        for (chunk, copy) in open.into_iter().chain(lately) {
            self.leave(chunk, bit(copy));
            let marks = self.image.marks(chunk);
            if marks.behind & bit(copy) == 0 {
                self.mark(chunk, Marks { is_open: true, doubtful: marks.doubtful | bit(copy), ..marks });
                self.judge(cx, chunk);
            }
        }
        self.reroute_reads(cx, member, reads, true);
    }

    /// The device of a copy of an open chunk has restarted: notes whether it has all the same what was acknowledged, as all changes had ended and were
    /// flushed there. Whoever has not seen the changes, as a gateway that was started later, does not know that. If the copy is in question already, what
    /// it had then counts.
    fn note_flushed(&mut self, cx: &Cx<'_>, chunk: u32, copy: usize) {
        let clean_before = cx.queues[cx.node(self.member_of(chunk, copy))].clean_before();
        let has_all = |state: &Chunk| {
            let is_flushed = clean_before > state.sync_after[copy] || planted::is(Bug::LateChangeFlushed);
            state.changes.is_empty() && is_flushed
        };
        let is_known = !self.doubt.contains(&chunk) && !planted::is(Bug::FlushedLossTold);
        let has_all = is_known && self.chunks.get(&chunk).is_some_and(has_all);
        if !has_all {
            self.flushed.remove(&chunk);
        } else if self.image.marks(chunk).doubtful == 0 {
            self.flushed.insert(chunk);
        }
    }

    /// Chunks that were settled lately with a copy on a member, which is current and can be compared with another: its flash may have confirmed
    /// what it had not written. Where no other is there yet, reads go on, and it is compared later.
    fn settled_lately(&mut self, cx: &Cx<'_>, member: u16) -> Vec<(u32, usize)> {
        if planted::is(Bug::SettledLatelyTrusted) {
            return Vec::new();
        }
        let chunks: Vec<u32> = self.lately.chunks(cx.now).collect();
        let of_member = chunks.into_iter().filter_map(|chunk| Some((chunk, self.copy_on(chunk, member)?)));
        let is_in_question = |&(chunk, copy): &(u32, usize)| {
            !self.image.marks(chunk).is_open && self.current(chunk) & bit(copy) != 0 && self.current(chunk) != bit(copy)
        };
        let in_question: Vec<(u32, usize)> = of_member.filter(is_in_question).collect();
        let (now, later): (Vec<_>, Vec<_>) =
            in_question.into_iter().partition(|&(chunk, copy)| self.has_sure_other(cx, chunk, copy));
        later.iter().for_each(|(chunk, _)| self.lately.ask_later(member, *chunk));
        now
    }

    fn has_sure_other(&self, cx: &Cx<'_>, chunk: u32, copy: usize) -> bool {
        self.is_any_sure(cx, chunk, self.current(chunk) & !bit(copy))
    }

    /// Compares what members had settled before their devices restarted, if other copies are there now.
    fn compare_settled(&mut self, cx: &mut Cx<'_>) {
        let mut lately = std::mem::take(&mut self.lately);
        let current =
            |member: u16, chunk: u32| self.copy_on(chunk, member).filter(|&c| self.current(chunk) & bit(c) != 0);
        // Where the others lack something by now, it is the one that they are made equal to.
        let other = |member: u16, chunk: u32| current(member, chunk).filter(|&c| self.current(chunk) != bit(c));
        let is_over = |member, chunk| other(member, chunk).is_none_or(|copy| self.has_sure_other(cx, chunk, copy));
        let taken = lately.take_unasked(is_over);
        let taken: Vec<_> = taken.into_iter().filter_map(|(m, chunk)| Some((chunk, other(m, chunk)?))).collect();
        self.lately = lately;
        for (chunk, copy) in taken {
            let marks = self.image.marks(chunk);
            self.leave(chunk, bit(copy));
            self.flushed.remove(&chunk);
            if !marks.is_open {
                self.reopened.insert(chunk);
            }
            self.mark(chunk, Marks { is_open: true, doubtful: marks.doubtful | bit(copy), ..marks });
            self.judge(cx, chunk);
        }
    }

    /// Whether one of these copies lies on a member whose present start is known.
    pub(super) fn is_any_sure(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> bool {
        self.members_of(chunk, copies).into_iter().any(|member| self.is_known(member) && cx.is_linked(member))
    }

    /// A member's extent is an older copy of itself, as a backup is: all its copies lack something. Those that are the last of their chunks
    /// are kept.
    fn restored(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.counters.restored += 1;
        self.search_anew(member);
        self.give_up_member(cx, member);
        self.forget_kept(member);
        let (mut only, mut lost) = (0, Vec::new());
        let mut lacking: Vec<(u32, Marks)> = Vec::new();
        for (chunk, copy) in self.image.chunks_of(member) {
            let marks = self.image.marks(chunk);
            let mut marks = Marks { behind: marks.behind | bit(copy), doubtful: marks.doubtful & !bit(copy), ..marks };
            if self.current(chunk) & !bit(copy) == 0 {
                if marks.doubtful == 0 {
                    only += 1;
                    continue;
                }
                // The others lost power, and yet have more than a copy from before.
                (marks.is_torn, marks.doubtful) = (true, 0);
                lost.push(chunk);
            }
            lacking.push((chunk, marks));
        }
        for record in Record::of_marks(lacking) {
            self.bulk_seq = self.decide(record);
        }
        // The extent is known by less from now on, and must not grow older before that is on record.
        self.members[usize::from(member)].age = None;
        self.mirrors.hold_back(member, self.log.wanted());
        self.note_hollow(member);
        if !lost.is_empty() {
            self.doubt.extend(lost);
            self.tell_loss(cx);
        }
        let name = cx.name(member);
        let text = match only {
            0 => "its extent is an older copy of itself, a backup perhaps; all of it is made equal to other copies"
                .to_string(),
            _ => format!(
                "its extent is an older copy of itself, a backup perhaps; {only} chunks have no other copy: what they hold is old"
            ),
        };
        cx.tell(Event::NodeWarning(name, text));
        self.after_bulk(cx, member);
    }

    /// Ends what counts on the bytes of a member: jobs, and reads that wait for it.
    pub(super) fn give_up_member(&mut self, cx: &mut Cx<'_>, member: u16) {
        for chunk in self.jobs.keys().copied().collect::<Vec<_>>() {
            if let Some(copy) = self.copy_on(chunk, member) {
                self.drop_job_of(cx, chunk, copy);
            }
        }
        for chunk in self.chunks.keys().copied().collect::<Vec<_>>() {
            if let Some(copy) = self.copy_on(chunk, member) {
                self.leave(chunk, bit(copy));
            }
        }
    }

    /// The copies of a member were declared behind, all at once: lets what is under way go on without them.
    pub(super) fn after_bulk(&mut self, cx: &mut Cx<'_>, member: u16) {
        let doubtful: BTreeSet<u32> = std::mem::take(&mut self.doubtful);
        self.doubtful = doubtful.into_iter().filter(|&chunk| self.image.marks(chunk).doubtful != 0).collect();
        let reads = cx.queues.take_reads(cx.node(member));
        self.reroute_reads(cx, member, reads, true);
        for chunk in self.chunks.keys().copied().collect::<Vec<_>>() {
            if self.copy_on(chunk, member).is_some() {
                self.log.wait(self.bulk_seq, Waiter::Review(chunk));
                self.review_chunk(cx, chunk);
            }
        }
        self.review_flushes(cx);
        self.serve_waiting(cx);
        self.look_at(cx.now);
    }

    /// Decides about all doubtful copies that can be judged by now.
    pub(super) fn judge_all(&mut self, cx: &mut Cx<'_>) {
        for chunk in self.doubtful.iter().copied().collect::<Vec<_>>() {
            self.judge(cx, chunk);
        }
    }

    /// Decides about doubtful copies, as soon as others are known: they are behind if one did not restart, and as good as any if all did.
    fn judge(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let marks = self.image.marks(chunk);
        // A copy that is sure by a map whose end was dropped, or by an older one, may be one that fell behind.
        if marks.doubtful == 0 || self.serves_nothing() && !planted::is(Bug::JudgedWhileCut) {
            return;
        }
        let current = self.current(chunk);
        if self.is_any_sure(cx, chunk, current) {
            let seq = self.fall_behind(chunk, marks.doubtful);
            self.log.wait(seq, Waiter::Review(chunk));
        } else if current == 0 {
            // All lost power. What was flushed is on each; of the rest something may be lost, which clients are told.
            self.doubt.insert(chunk);
            // Where all was flushed, nothing is lost, unless a flash has lied.
            let is_changed = !self.reopened.contains(&chunk) && !self.flushed.contains(&chunk);
            if !is_changed {
                // Nor is it by the next restart, before something changes.
                self.reopened.insert(chunk);
            }
            let seq = self.mark(chunk, Marks { is_torn: is_changed, doubtful: 0, ..marks });
            // Changes may have waited for the others.
            self.log.wait(seq, Waiter::Review(chunk));
            if is_changed {
                self.tell_loss(cx);
            }
        } else {
            return;
        }
        self.flushed.remove(&chunk);
        self.compare_soon(cx, chunk);
    }

    /// Changes that were acknowledged and not flushed may be lost. Clients are told.
    pub(super) fn tell_loss(&mut self, cx: &mut Cx<'_>) {
        if planted::is(Bug::LossUntold) {
            return;
        }
        let count = self.image.losses() + 1;
        self.decide(Record::Loss { count });
        cx.losses += 1;
        let text = "changes that were acknowledged and not flushed may be lost; the next flush of each client fails";
        cx.tell_of_volume(text.to_string());
    }

    /// Losses so far, and the last of them that a client was told of.
    pub fn losses(&self) -> (u64, u64) {
        (self.image.losses(), self.image.losses_told())
    }

    /// A client got an error for all losses so far. A later start of the gateway need not tell them again.
    pub fn losses_told(&mut self) {
        let count = self.image.losses();
        if count > self.image.losses_told() && self.deposed.is_none() {
            self.decide(Record::Told { count });
        }
    }

    /// What a member's welcome led to is durable, and it is linked.
    pub(super) fn usable(&mut self, cx: &mut Cx<'_>, member: u16) {
        if !cx.is_linked(member) || !self.is_known(member) {
            return;
        }
        let state = &mut self.members[usize::from(member)];
        let is_used = !state.is_paused || state.needed_at.is_some();
        if is_used && state.out_since.take().is_some() {
            let text = "it is used again".to_string();
            cx.tell(Event::NodeWarning(cx.name(member), text));
        }
        self.members[usize::from(member)].usable_since = cx.now;
        self.members[usize::from(member)].is_born = true;
        self.compare_settled(cx);
        self.judge_all(cx);
        self.answer_for_others(cx);
        self.review_flushes(cx);
        self.serve_waiting(cx);
        self.look_at(cx.now);
    }

    /// Reads that wait for members without a link, since nobody else could answer them, are asked of those that can now.
    fn answer_for_others(&mut self, cx: &mut Cx<'_>) {
        for member in 0..self.members.len() as u16 {
            if !cx.is_linked(member) {
                let reads = cx.queues.take_reads(cx.node(member));
                self.reroute_reads(cx, member, reads, false);
            }
        }
    }

    /// Declares a member out: it leaves I/O unanswered that others have done. Its copies of chunks that change are behind from now on.
    pub(super) fn put_out(&mut self, cx: &mut Cx<'_>, member: u16) {
        if self.is_out(member) || self.deposed.is_some() {
            return;
        }
        self.counters.evictions += 1;
        self.members[usize::from(member)].note_put_out(cx.now);
        cx.tell(Event::NodeWarning(cx.name(member), "it does not answer; its copies fall behind".to_string()));
        self.go_on_without(cx, member, "it left requests unanswered that other copies have done");
    }

    /// A member is out from now on: what waits for it goes on without it.
    pub(super) fn go_on_without(&mut self, cx: &mut Cx<'_>, member: u16, why: &'static str) {
        self.members[usize::from(member)].out_since = Some(cx.now);
        let node = cx.node(member);
        cx.breaks.push((node, why));
        let reads = cx.queues.take_reads(node);
        self.reroute_reads(cx, member, reads, false);
        let used: Vec<u32> = self.chunks.keys().copied().collect();
        for chunk in used {
            let Some(copy) = self.copy_on(chunk, member) else { continue };
            self.drop_job_of(cx, chunk, copy);
            if self.chunks.get(&chunk).is_some_and(|c| c.joined & bit(copy) != 0) {
                self.leave(chunk, bit(copy));
                self.review_chunk(cx, chunk);
            }
            let waits = |place: &usize| self.changes.get(*place).is_some_and(|c| c.copies[copy] == At::Sent);
            if self.chunks.get(&chunk).is_some_and(|c| c.changes.iter().any(waits)) {
                self.open_chunk(cx, chunk);
                self.review_chunk(cx, chunk);
            }
        }
        self.review_flushes(cx);
    }

    /// A member has no link any more.
    pub(super) fn unlinked(&mut self, cx: &mut Cx<'_>, member: u16) {
        let state = self.members.get_mut(usize::from(member)).filter(|state| state.was_linked);
        if let Some(state) = state {
            (state.was_linked, state.unlinked_at) = (false, cx.now);
        }
        self.drop_clears(cx, member);
        self.drop_looks(cx, Some(member));
        self.end_kept(cx, member);
        let Some(key) = self.members.get_mut(usize::from(member)).and_then(|m| m.sync.take()) else { return };
        self.remove_inner(cx, key);
        cx.has_dead_pieces = true;
    }

    /// Copies of a chunk get no changes any more.
    pub(super) fn leave(&mut self, chunk: u32, copies: u8) {
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.joined &= !copies;
            state.decided &= !copies;
            state.voided &= !copies;
        }
    }

    /// A later gateway is in charge of the volume: this one ends all requests, and decides nothing any more.
    pub(super) fn depose(&mut self, cx: &mut Cx<'_>, reason: &str) {
        if self.deposed.is_none() {
            self.deposed = Some(reason.to_string());
            self.may_catch_up = self.may_take_decisions();
            cx.tell(Event::Deposed(reason.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time(1) + Duration::from_secs(s)
    }

    #[test]
    fn a_member_that_was_put_out_often_has_to_be_calm_first() {
        let mut member = Member { usable_since: at(1000), ..Member::default() };
        member.note_put_out(at(401));
        member.note_put_out(at(600));
        assert!(member.is_calm(at(1000)), "twice");
        member.note_put_out(at(900));
        assert!(!member.is_calm(at(1000)), "three times in ten minutes");
        assert!(member.is_calm(at(1001)), "the first is ten minutes ago");
        member.note_put_out(at(990));
        assert!(!member.is_calm(at(1059)));
        assert!(member.is_calm(at(1060)), "it has been there for a minute");
        member.calm_until = at(1061);
        assert!(!member.is_calm(at(1060)));
    }
}
