//! Flushes: every member that may hold unflushed changes makes them permanent.
//!
//! A member whose flush fails, or that does not answer, is declared behind where other current copies are flushed.

use super::log::Waiter;
use super::{Copies, Cx, Inner, bit, each};
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;

/// What one member has of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing to make permanent there.
    Clean,
    Sent(RequestKey),
    Done,
    Failed,
}

/// A client's flush.
#[derive(Debug)]
pub struct Flush {
    pub serial: u64,
    pub request: RequestKey,
    /// Changes up to this serial have to end first.
    pub barrier: u64,
    pub is_sent: bool,
    /// When it was sent: its members are silent from then on.
    pub sent: Time,
    pub members: Vec<Part>,
    /// When the last of them that has answered did.
    pub answered: Time,
    /// What was decided when all members had ended: it is answered when that is durable.
    pub after: Option<u64>,
    /// When that was.
    pub decided: Time,
}

impl Flush {
    /// The members that have not ended it well.
    fn late(&self) -> impl Iterator<Item = u16> + '_ {
        let is_late = |(_, part): &(u16, &Part)| matches!(part, Part::Sent(_) | Part::Failed);
        (0..).zip(&self.members).filter(is_late).map(|(member, _)| member)
    }
}

impl Copies {
    /// Takes in hand a client's flush: one part.
    pub(super) fn begin_flush(&mut self, cx: &mut Cx<'_>, request: RequestKey) -> u32 {
        let barrier = self.next_serial;
        self.next_serial += 1;
        let serial = self.next_serial;
        let (members, sent) = (Vec::new(), Time::default());
        let (answered, decided) = (Time::default(), Time::default());
        let flush = Flush { serial, request, barrier, is_sent: false, sent, members, answered, after: None, decided };
        self.flushes.insert(flush);
        self.review_flushes(cx);
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        1
    }

    /// Sends the flushes whose changes have ended, and answers those that all members have done.
    pub(super) fn review_flushes(&mut self, cx: &mut Cx<'_>) {
        for place in self.flushes.iter().map(|(place, _)| place).collect::<Vec<_>>() {
            self.review_flush(cx, place);
        }
    }

    pub(super) fn review_flush(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(flush) = self.flushes.get(place) else { return };
        if !flush.is_sent {
            // Without the members that are out, they would be declared behind; but they may know what the dropped end of the map said.
            if self.serves_nothing() || self.untold.first().is_some_and(|&serial| serial <= flush.barrier) {
                return;
            }
            self.send_flush(cx, place);
        }
        // What a doubtful copy has flushed may not be all that was acknowledged: others are asked first.
        if !self.doubtful.is_empty() {
            return;
        }
        self.spare_members(cx, place);
        let Some(flush) = self.flushes.get(place) else { return };
        let late: Vec<u16> = flush.late().collect();
        let is_hopeless = |m: u16| self.is_out(m) || flush.members[usize::from(m)] == Part::Failed;
        if late.iter().any(|&m| !is_hopeless(m)) {
            return;
        }
        let mut has_failed = false;
        for member in late {
            let is_failed = self.flushes[place].members[usize::from(member)] == Part::Failed;
            match self.do_without(member, |_| true) {
                Ok(fallen) => fallen.into_iter().for_each(|(chunk, copy)| self.keep(chunk, bit(copy))),
                Err(()) if is_failed => has_failed = true,
                Err(()) => return,
            }
        }
        let wanted = self.log.wanted();
        let Some(flush) = self.flushes.get_mut(place) else { return };
        if flush.after.is_none() {
            (flush.after, flush.decided) = (Some(wanted), cx.now);
        }
        let after = flush.after.unwrap_or(wanted);
        if !self.log.is_durable(after) && !has_failed && !planted::is(Bug::AckBeforeBehind) {
            return self.log.wait(after, Waiter::Flushes);
        }
        let Some(flush) = self.drop_flush(cx, place) else { return };
        cx.ended.push_back((flush.request, has_failed.then_some(Failure::Io)));
    }

    /// Goes on without the members that are out, as far as others have done this flush. Members that are out in turn, and come back in between, are
    /// never all out at once.
    fn spare_members(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(flush) = self.flushes.get(place) else { return };
        for member in flush.late().filter(|&member| self.is_out(member)).collect::<Vec<_>>() {
            let Some(flush) = self.flushes.get(place) else { return };
            let ended: Vec<bool> = flush.members.iter().map(|part| matches!(part, Part::Clean | Part::Done)).collect();
            let has_it = |other: u16| ended.get(usize::from(other)) == Some(&true);
            let Ok(fallen) = self.do_without(member, has_it) else { continue };
            fallen.into_iter().for_each(|(chunk, copy)| self.keep(chunk, bit(copy)));
            let part = std::mem::replace(&mut self.flushes[place].members[usize::from(member)], Part::Clean);
            self.drop_part(cx, part);
        }
    }

    /// Forgets a flush, and what was sent for it.
    pub(super) fn drop_flush(&mut self, cx: &mut Cx<'_>, place: usize) -> Option<Flush> {
        let flush = self.flushes.try_remove(place)?;
        flush.members.iter().for_each(|part| self.drop_part(cx, *part));
        Some(flush)
    }

    fn drop_part(&mut self, cx: &mut Cx<'_>, part: Part) {
        if let Part::Sent(key) = part {
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
    }

    fn send_flush(&mut self, cx: &mut Cx<'_>, place: usize) {
        let mut members = vec![Part::Clean; self.members.len()];
        for member in 0..self.members.len() as u16 {
            let node = cx.node(member);
            let has_open = || {
                let mut chunks = self.image.chunks_of(member);
                chunks.any(|(chunk, copy)| self.image.marks(chunk).is_open && self.current(chunk) & bit(copy) != 0)
            };
            if !cx.queues[node].is_dirty() || (!self.is_usable(cx, member) && !has_open()) {
                continue;
            }
            let inner = Inner::Flush { flush: place, serial: self.flushes[place].serial, member };
            let key = self.insert_inner(cx, inner, Op::Flush, OpFlags::NONE, Vec::new());
            members[usize::from(member)] = Part::Sent(key);
            self.send(cx, key, member, (Op::Flush, OpFlags::NONE), (0, 0));
        }
        self.flushes[place].members = members;
        (self.flushes[place].is_sent, self.flushes[place].sent) = (true, cx.now);
    }

    pub(super) fn flush_answered(&mut self, cx: &mut Cx<'_>, (place, serial): (usize, u64), member: u16, is_ok: bool) {
        if !is_ok && !planted::is(Bug::FailedSyncIgnored) {
            self.counters.failed_copies += 1;
            self.flush_failed(cx, member);
        }
        let is_ok = is_ok || planted::is(Bug::FailedSyncIgnored);
        if let Some(flush) = self.flushes.get_mut(place).filter(|f| f.serial == serial)
            && let Some(part) = flush.members.get_mut(usize::from(member))
        {
            *part = if is_ok { Part::Done } else { Part::Failed };
            flush.answered = cx.now;
        }
        self.review_flush(cx, place);
    }

    /// Declares a member behind in all open chunks, as what it has there may not be permanent. Returns these chunks and its copies. An error if some chunk
    /// has too few other current copies on members that `count` and are not out: then nothing is decided.
    pub(super) fn do_without(&mut self, member: u16, count: impl Fn(u16) -> bool) -> Result<Vec<(u32, usize)>, ()> {
        let open: Vec<(u32, usize)> = self
            .image
            .chunks_of(member)
            .filter(|&(chunk, copy)| self.image.marks(chunk).is_open && self.current(chunk) & bit(copy) != 0)
            .collect();
        let others = |chunk: u32, copy: usize| {
            let members = each(self.current(chunk) & !bit(copy)).map(|c| self.member_of(chunk, c));
            members.filter(|&m| !self.is_out(m) && count(m)).count()
        };
        if open.iter().any(|&(chunk, copy)| others(chunk, copy) < self.min_current) {
            return Err(());
        }
        for &(chunk, copy) in &open {
            let seq = self.fall_behind(chunk, bit(copy));
            self.log.wait(seq, Waiter::Review(chunk));
        }
        Ok(open)
    }
}
