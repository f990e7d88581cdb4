//! What happens by time: members that do not answer are put out, work in the background goes on, idle chunks settle.

use std::collections::BTreeSet;
use std::time::Duration;

use super::change::{At, Change};
use super::chunk::Waiting;
use super::flush::Part;
use super::jobs::Step;
use super::{Copies, Cx, each, mask};
use crate::gateway::late::FLUSH_TIMEOUTS_MAX;
use crate::gateway::state::RequestKey;
use crate::units::Time;

/// How often is looked while something is under way.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Of how many chunks in doubt that nobody waits for the members are judged at a time.
const JUDGED_MAX: usize = 16;
/// A member that was heard so lately is alive. Longer than a probe takes, and the next look after it.
const LATELY_MIN: Duration = Duration::from_millis(500);
/// How long members may take to show that they are alive, once all are asked.
const COMMON_PATIENCE: Duration = Duration::from_millis(500);
/// A loop that did not run for so long, or for a quarter of what members have to answer, has not read its sockets either: silence before that is no
/// sign.
const STALL: Duration = Duration::from_millis(500);

impl Copies {
    /// Call it when [`Copies::due`] says so, after received bytes were processed.
    pub fn watch(&mut self, cx: &mut Cx<'_>) {
        let planned = self.due.take().unwrap_or(cx.now);
        // At first nobody had the time to answer either.
        if cx.now - planned > STALL.min(self.evict_after / 4) || self.running_since == Time::default() {
            (self.running_since, self.unstalled_since) = (cx.now, cx.now);
        }
        if self.deposed.is_some() {
            return;
        }
        if self.log.trouble().is_some() && cx.now >= self.retry_at {
            self.retry_at = cx.now + Duration::from_secs(1);
            self.log.retry();
        }
        self.watch_cut(cx);
        self.watch_claims(cx);
        if !self.claims.is_holding() {
            self.put_out_silent(cx);
        }
        self.look_at_paused(cx);
        self.drop_abandoned(cx);
        self.give_way(cx);
        self.serve_waiting(cx);
        self.search_heals(cx);
        self.look_at_freed(cx);
        self.search_work(cx);
        if self.is_mirrored() {
            if !self.serves_nothing() {
                // What its end said of slots may not be known.
                self.search_orphans(cx);
            }
        } else {
            self.take_effect(cx);
        }
        self.resume_growth(cx);
        self.go_on_shrinking(cx);
        let settles = self.settle(cx);
        let ages = self.grow_older(cx);
        let soon = self.is_waiting().then_some(cx.now + WATCH_INTERVAL);
        // Work that found no room, or no member to use, is looked for now and then.
        let has_work = !self.doubt.is_empty()
            || self.image.counts().behind > 0
            || !self.rot.is_empty()
            || self.is_moving()
            || self.image.shown() < self.image.chunks()
            || !self.is_mirrored()
            || self.has_orphans(cx);
        let later = (has_work || self.is_any_paused()).then_some(cx.now + Duration::from_secs(1));
        // While members have never been there, so that a loop that stands still is noticed: it must not count as their silence.
        let is_away = |(member, number)| {
            let member: &super::Member = member;
            member.usable_from.is_none() && !self.image.is_gone(number)
        };
        let are_away = self.members.iter().zip(0..).any(is_away);
        let beat = are_away.then_some(cx.now + (self.evict_after / 4).min(Duration::from_secs(1)));
        for at in soon.into_iter().chain(settles).chain(ages).chain(later).chain(beat) {
            self.look_at(at);
        }
    }

    /// Whether something is under way.
    fn is_waiting(&self) -> bool {
        !self.untold.is_empty()
            || !self.flushes.is_empty()
            || !self.jobs.is_empty()
            || !self.heals.is_empty()
            || self.log.is_busy()
            || self.chunks.values().any(|c| c.is_waited_for() || !c.changes.is_empty())
            || self.inner.len() > 1
            || self.shrink.is_some()
            || self.has_freed()
    }

    /// Looks whether all members are silent. Then it may be the network, and the time is nobody's fault: the first that is heard again must not
    /// be taken for one that was there all the time, or the others would be put out at once.
    fn excuse_common_silence(&mut self, cx: &Cx<'_>, probes: &mut Vec<u16>) {
        let members = 0..self.members.len() as u16;
        let is_heard = members.clone().any(|member| cx.now - cx.heard(member) < self.lately());
        if is_heard || !self.is_waiting() {
            self.all_asked = None;
            return;
        }
        // Those that nothing is asked of are silent, too.
        probes.extend(members.filter(|&member| cx.is_linked(member)));
        if cx.now - *self.all_asked.get_or_insert(cx.now) >= COMMON_PATIENCE {
            self.running_since = cx.now;
        }
    }

    /// A member that was heard for no longer than this is alive.
    pub(super) fn lately(&self) -> Duration {
        (self.evict_after / 2).max(LATELY_MIN)
    }

    /// Whether a member has left I/O unanswered for so long that others need not wait.
    fn is_silent(&self, cx: &Cx<'_>, member: u16, since: Time) -> bool {
        cx.now - self.asked_since(cx, member, since) >= self.evict_after
    }

    /// Since when a member has left unanswered what it was asked at that time, as far as it could answer.
    fn asked_since(&self, cx: &Cx<'_>, member: u16, since: Time) -> Time {
        let back = self.members.get(usize::from(member)).map_or(Time::default(), |m| m.usable_since);
        since.max(self.running_since).max(cx.answered(member)).max(back)
    }

    /// How long a flush may take at most with a member whose store makes progress. Then others go on without it, before the client's flush fails.
    fn flush_most(&self) -> Duration {
        self.timeout * (FLUSH_TIMEOUTS_MAX - 1)
    }

    /// Since when a flush that was sent to a member at that time has waited: progress of its store counts as an answer, to flushes alone and for
    /// `most`. A member that leaves changes unanswered is silent, whatever its store does.
    fn flush_waits_since(&self, cx: &Cx<'_>, member: u16, sent: Time, most: Duration) -> Time {
        let progressed = cx.store_progressed(member).filter(|_| cx.now - sent < most);
        progressed.map_or(sent, |at| at.max(sent))
    }

    /// Members that leave reads, or flushes of the gateway's own, unanswered while others answer.
    fn silent_readers(&self, cx: &Cx<'_>) -> Vec<u16> {
        let waits = |member: &u16| {
            let since = cx.waits_since(*member, self.flush_most());
            since.is_some_and(|since| self.is_silent(cx, *member, since)) && !self.is_out(*member)
        };
        let late: Vec<u16> = (0..self.members.len() as u16).filter(waits).collect();
        let answers = |member: u16| {
            let is_recent = |at: Time| cx.now - at < self.evict_after;
            let is_heard = is_recent(cx.answered(member)) || cx.store_progressed(member).is_some_and(is_recent);
            !late.contains(&member) && self.is_usable(cx, member) && (is_heard || cx.first_sent(member).is_none())
        };
        let are_others = (0..self.members.len() as u16).any(answers);
        if are_others { late } else { Vec::new() }
    }

    /// Ends changes whose client was told of an error long ago, or has left, and that no copy is there to answer. Copies that had them already
    /// may have them alone: they are compared.
    fn drop_abandoned(&mut self, cx: &mut Cx<'_>) {
        let is_nobodys = |c: &Change| c.request == Some(RequestKey::default());
        let is_late = |c: &Change| cx.now - c.begun.max(self.unstalled_since) >= self.timeout;
        let late = self.changes.iter().filter(|(_, c)| is_nobodys(c) && is_late(c));
        let late: Vec<_> = late.map(|(place, c)| (place, c.chunk, c.is_sent)).collect();
        let is_any = !late.is_empty();
        for (place, chunk, is_sent) in late {
            if is_sent && self.current(chunk).count_ones() > 1 {
                self.doubt.insert(chunk);
            }
            if is_sent {
                self.void_joined(chunk);
            }
            for read in self.changes.get(place).map(|change| change.held.clone()).unwrap_or_default() {
                self.read_again(cx, read);
            }
            self.end_change(cx, place);
            if is_sent {
                self.compare_soon(cx, chunk);
            }
        }
        if is_any {
            // They may wait for nothing else.
            self.review_flushes(cx);
        }
    }

    /// Puts out the members on which changes, comparisons and flushes wait that all others have done.
    fn put_out_silent(&mut self, cx: &mut Cx<'_>) {
        let mut silent: Vec<u16> = Vec::new();
        let mut probes: Vec<u16> = Vec::new();
        self.excuse_common_silence(cx, &mut probes);
        for (_, change) in self.changes.iter().filter(|(_, c)| c.is_sent) {
            let missing = self.awaited_or_kept(cx, change);
            // Copies that are behind are not needed for the change: then a copy that failed it, as its block is corrupt, goes on without them, too.
            let is_needed = missing & self.holders(change.chunk) != 0;
            let has_it = |copy: &usize| match change.copies[*copy] {
                At::Done => true,
                At::Failed(_) => !is_needed,
                At::Sent | At::NotSent => false,
            };
            let others = mask(each(self.current(change.chunk)).filter(has_it));
            let has_others = self.is_any_alive(cx, self.members_of(change.chunk, others), &mut probes);
            self.collect_silent(cx, change.chunk, missing, |_| change.sent, has_others, &mut silent);
        }
        for (&chunk, job) in &self.jobs {
            let Some((missing, since)) = self.job_waits_for(chunk) else { continue };
            let others = job.copies() & !missing;
            let has_others = self.is_any_alive(cx, self.members_of(chunk, others), &mut probes);
            let is_flush = matches!(job.step, Step::Flush);
            let since_of = |m| if is_flush { self.flush_waits_since(cx, m, since, self.flush_most()) } else { since };
            self.collect_silent(cx, chunk, missing, since_of, has_others, &mut silent);
        }
        // Chunks on hold whose copies cannot be compared, as a member is away. Where nobody waits, it has more time.
        let later = self.running_since + self.long_patience();
        // All chunks of a new volume are in doubt, and few are in use.
        let in_use = self.chunks.iter().filter(|(chunk, state)| state.is_waited_for() && self.doubt.contains(chunk));
        let waited_for = in_use.map(|(&chunk, _)| (chunk, Time::default()));
        let others = self.doubt.iter().filter(|c| !self.is_waited_for(**c)).map(|&c| (c, later));
        let judged = waited_for
            .chain(others.take(JUDGED_MAX))
            .filter(|(c, _)| !self.jobs.contains_key(c) && !self.serves_nothing());
        for (chunk, since) in judged {
            let present = self.usable_of(cx, chunk, self.current(chunk));
            let missing = self.away_of(cx, chunk, self.current(chunk) & !present);
            let has_others = self.is_any_alive(cx, self.members_of(chunk, present), &mut probes);
            self.collect_silent(cx, chunk, missing, |_| since, has_others, &mut silent);
        }
        // Changes that cannot be sent yet, as a member has never been there.
        for (&chunk, _) in self.chunks.iter().filter(|(_, c)| !c.launching.is_empty()) {
            let present = self.members_of(chunk, self.current(chunk));
            let has_others = self.is_any_alive(cx, present, &mut probes);
            let missing = self.away_of(cx, chunk, self.unborn(chunk));
            self.collect_silent(cx, chunk, missing, |_| Time::default(), has_others, &mut silent);
        }
        for (_, flush) in self.flushes.iter().filter(|(_, f)| f.is_sent) {
            let sent = |m: &u16| matches!(flush.members.get(usize::from(*m)), Some(Part::Sent(_)));
            let missing: Vec<u16> = (0..self.members.len() as u16).filter(sent).collect();
            let is_done = |m: &u16| matches!(flush.members[usize::from(*m)], Part::Done | Part::Clean);
            let others = (0..flush.members.len() as u16).filter(is_done).filter(|&m| self.is_usable(cx, m));
            let has_others = self.is_any_alive(cx, others.collect(), &mut probes);
            let since_of = |member| self.flush_waits_since(cx, member, flush.sent, self.flush_most());
            silent.extend(missing.iter().filter(|&&m| has_others && self.is_silent(cx, m, since_of(m))));
        }
        let (late_mirrors, are_last) = self.silent_mirrors(cx, &mut probes);
        silent.extend(self.silent_readers(cx));
        if !probes.is_empty() {
            self.look_at(cx.now + WATCH_INTERVAL);
        }
        cx.probes = probes.into_iter().map(|member| cx.node(member)).collect();
        silent.sort_unstable();
        silent.dedup();
        for member in silent {
            self.put_out(cx, member);
        }
        if self.log.is_busy() {
            self.give_up_mirrors(cx, &late_mirrors, are_last);
        }
    }

    /// Those of some copies whose members are not linked. What the welcome of the others led to may not be durable yet.
    fn away_of(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| !cx.is_linked(self.member_of(chunk, copy))))
    }

    /// Members that leave a mirror unanswered for which a decision waits, for longer than they may; and whether they are the last that keep one. With
    /// the last one, the gateway's disk would take with it what was decided, so those may take longer: until clients' requests have waited for half
    /// of what they may.
    fn silent_mirrors(&self, cx: &Cx<'_>, probes: &mut Vec<u16>) -> (Vec<u16>, bool) {
        if self.log.awaited() == 0 {
            return (Vec::new(), false);
        }
        let is_late = |member: u16, since: Option<Time>, patience: Duration| {
            // A store that is busy with a long flush has no time for the mirror.
            let since = since.map(|since| self.flush_waits_since(cx, member, since, self.flush_most()));
            since.is_some_and(|since| cx.now - self.asked_since(cx, member, since) >= patience)
        };
        let keepers: Vec<_> = self.mirrors.keepers().filter(|(member, ..)| cx.is_linked(*member)).collect();
        let (late, others): (Vec<_>, Vec<_>) =
            keepers.iter().partition(|(member, _, since)| is_late(*member, *since, self.evict_after));
        let others = others.into_iter().filter(|(_, is_awaited, _)| *is_awaited).map(|(member, ..)| member).collect();
        let late = late.into_iter().filter(|(member, is_awaited, _)| *is_awaited && !self.is_out(*member));
        let late: Vec<u16> = late.map(|(member, ..)| member).collect();
        if !late.is_empty() && self.is_any_heard(cx, others, probes) {
            return (late, false);
        }
        let patience = self.evict_after.max(self.timeout / 2);
        let are_last = keepers.iter().all(|(member, _, since)| is_late(*member, *since, patience));
        // Those whose welcome is not on record yet count as well: that may be what waits.
        let linked = (0..self.members.len() as u16).filter(|&member| cx.is_linked(member));
        if keepers.is_empty() || !are_last || !self.is_any_heard(cx, linked.collect(), probes) {
            return (Vec::new(), false);
        }
        (keepers.into_iter().map(|(member, ..)| member).collect(), true)
    }

    /// Whether one of these members is there, as was shown lately. Those that were not heard for some time are asked: a connection may
    /// outlast its device.
    fn is_any_alive(&self, cx: &Cx<'_>, members: Vec<u16>, probes: &mut Vec<u16>) -> bool {
        let usable = members.into_iter().filter(|&member| self.is_usable(cx, member));
        self.is_any_heard(cx, usable.collect(), probes)
    }

    /// Whether one of these members was heard lately. If none was, they are asked.
    fn is_any_heard(&self, cx: &Cx<'_>, members: Vec<u16>, probes: &mut Vec<u16>) -> bool {
        let is_any = members.iter().any(|member| cx.now - cx.heard(*member) < self.lately());
        if !is_any {
            probes.extend(members);
        }
        is_any
    }

    fn collect_silent(
        &self,
        cx: &Cx<'_>,
        chunk: u32,
        missing: u8,
        since_of: impl Fn(u16) -> Time,
        has_others: bool,
        silent: &mut Vec<u16>,
    ) {
        let members = self.members_of(chunk, missing);
        // If all are silent, it may be the network: nobody is to blame.
        let are_silent = has_others && members.iter().all(|&member| self.is_silent(cx, member, since_of(member)));
        if are_silent {
            silent.extend(members);
        }
    }

    /// The clients' requests that wait for something that was silent for `patience`: no copy can answer them.
    pub(super) fn stuck(&self, cx: &Cx<'_>, patience: Duration) -> Vec<RequestKey> {
        let is_unanswering = |member: u16, since: Time| cx.now - cx.answered(member).max(since) >= patience;
        // At most MEMBERS_MAX.
        let mut used = (0..self.members.len() as u16)
            .filter(|&member| !self.image.is_gone(member) && !self.image.is_joining(member));
        let is_any_silent = used.any(|member| is_unanswering(member, Time::default()));
        let has_trouble = self.log.trouble().is_some();
        let (mut stuck, mut stuck_serials) = (Vec::new(), BTreeSet::new());
        for (_, change) in &self.changes {
            // A slow copy that answers others is waited for, whatever members do that have no part in it.
            let awaited = if change.is_sent { self.awaited(change) } else { 0 };
            let is_stuck = match awaited {
                0 => self.image.places(change.chunk).iter().any(|place| is_unanswering(place.member, Time::default())),
                _ => self.members_of(change.chunk, awaited).into_iter().any(|m| is_unanswering(m, change.sent)),
            };
            if is_stuck || has_trouble {
                stuck.extend(change.request);
                stuck_serials.insert(change.serial);
            }
        }
        for state in self.chunks.values() {
            stuck.extend(state.waiting.iter().filter_map(|waiting| match waiting {
                Waiting::Read { request, .. } => Some(*request),
                Waiting::Change(_) => None,
            }));
        }
        stuck.extend(self.reads_held());
        for (_, flush) in &self.flushes {
            // It goes on without those that are out, if it can.
            let is_awaited = |(part, m): &(&Part, u16)| matches!(part, Part::Sent(_)) && !self.is_out(*m);
            let mut awaited = flush.members.iter().zip(0..).filter(is_awaited).peekable();
            let is_stuck = if !flush.is_sent {
                stuck_serials.first().is_some_and(|serial| *serial <= flush.barrier)
            } else if awaited.peek().is_some() {
                // While one makes progress it may be what the others are waited for: once it is done, they are put out by the next look.
                let most = self.timeout * FLUSH_TIMEOUTS_MAX;
                cx.now - flush.answered >= self.evict_after.min(patience)
                    && awaited.all(|(_, m)| is_unanswering(m, self.flush_waits_since(cx, m, flush.sent, most)))
            } else {
                // It waits for a decision, or for those that know what a doubtful copy lacks.
                let is_fresh = flush.after.is_some() && cx.now - flush.decided < patience;
                (is_any_silent && !is_fresh) || has_trouble
            };
            stuck.extend(is_stuck.then_some(flush.request));
        }
        stuck
    }
}
