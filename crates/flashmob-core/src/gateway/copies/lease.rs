//! The lease of a gateway that has a standby: until when no other gateway can be in charge.
//!
//! Changes need none: to acknowledge one, every current copy has to accept it, and nodes that know a later gateway do not. A read is answered by
//! one copy alone, whose node may not know the later gateway yet. So the answer is passed on while the lease lasts only; otherwise it waits until
//! the lease is renewed, which shows that no other gateway was in charge meanwhile. The rule is that of Gray and Cheriton, "Leases: an efficient
//! fault-tolerant mechanism for distributed file cache consistency" (SOSP 1989): the holder counts from when it *asked*, and takes
//! into account how much clocks differ.

use std::time::Duration;

use super::{Copies, Cx};
use crate::gateway::Gateway;
use crate::gateway::state::RequestKey;
use crate::op::Op;
use crate::planted::{self, Bug};
use crate::units::Time;

/// The part of a lease that is not used: for clocks whose rates differ by up to a tenth, and for what a standby's clock is read late.
const UNUSED_PART: f64 = 0.3;

/// Until when a lease lasts for its holder, which `asked` for it then, and was `granted` it later, for so long.
#[must_use]
pub fn lasts_until(asked: Time, granted: Time, lasts: Duration) -> Time {
    let from = if planted::is(Bug::LeaseFromReceipt) { granted } else { asked };
    from + lasts.mul_f64(1.0 - UNUSED_PART)
}

/// What a volume's answers depend on.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Until when it lasts; `None` if there is no standby.
    until: Option<Time>,
    /// Requests whose answers wait for it.
    waiting: Vec<RequestKey>,
    /// Nodes refuse this gateway, and no other one is in charge of the volume that could answer clients.
    is_unfollowed: bool,
}

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseStatus {
    /// How long it still lasts; zero if it is over.
    pub left: Duration,
    /// Requests whose answers wait for it.
    pub waiting: usize,
}

impl Lease {
    pub fn new(until: Option<Time>) -> Lease {
        Lease { until, waiting: Vec::new(), is_unfollowed: false }
    }

    pub fn status(&self, now: Time) -> Option<LeaseStatus> {
        Some(LeaseStatus { left: self.until?.since(now), waiting: self.waiting.len() })
    }
}

impl Gateway {
    /// Why another gateway is in charge of a volume; `None` if none is, as far as this one knows.
    #[must_use]
    pub fn deposed(&self, volume: usize) -> Option<&str> {
        self.volumes.get(volume)?.copies.as_deref()?.deposed.as_deref()
    }

    /// Nodes refuse this gateway, and no other one is in charge of the volume: its requests fail. False if that was known, or nodes do not refuse it.
    pub fn stay_unfollowed(&mut self, now: Time, volume: usize) -> bool {
        let is_news = self.with_copies(now, volume, |copies, _| {
            copies.deposed.is_some() && !std::mem::replace(&mut copies.lease.is_unfollowed, true)
        });
        if is_news == Some(true) {
            self.fail_all(now, volume);
        }
        is_news == Some(true)
    }

    /// The lease of this gateway lasts until then. Answers that have waited for it are passed on. Does nothing to volumes that were given none at the
    /// start.
    pub fn renew_lease(&mut self, now: Time, until: Time) {
        for volume in self.with_copies.clone() {
            self.with_copies(now, volume, |copies, cx| copies.renew_lease(cx, until));
        }
    }
}

impl Copies {
    /// Whether the answer of a request may be passed on. If not, it waits. Where another gateway is in charge, no answer is passed on, not even that
    /// it failed: the client learns that this gateway is gone, and asks the other one.
    pub(super) fn is_covered(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> bool {
        let (Some(request), Some(until)) = (cx.requests.get_mut(key), self.lease.until) else { return true };
        let shows_data = matches!(request.op, Op::Read | Op::Map) && request.failure.is_none();
        let waits = match self.deposed {
            Some(_) => !self.lease.is_unfollowed,
            None => shows_data && cx.now >= until,
        };
        if !waits || planted::is(Bug::LeaseIgnored) {
            return true;
        }
        request.pieces_left = 1;
        debug_assert!(!self.lease.waiting.contains(&key), "it waits once");
        if self.lease.waiting.len().is_power_of_two() {
            // Clients may have left.
            self.lease.waiting.retain(|key| cx.requests.get(*key).is_some());
        }
        self.lease.waiting.push(key);
        self.counters.waited_for_lease += 1;
        false
    }

    /// Whether clients get no answer because another gateway is in charge, which they ask once this one is gone.
    pub(super) fn is_followed(&self) -> bool {
        self.deposed.is_some() && self.lease.until.is_some() && !self.lease.is_unfollowed
    }

    /// Requests whose answers wait for the lease.
    pub(super) fn waiting_for_lease(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.lease.waiting.iter().copied()
    }

    /// Whether answers depend on a lease, and so on the time.
    pub(in crate::gateway) fn is_leased(&self) -> bool {
        self.lease.until.is_some()
    }

    fn renew_lease(&mut self, cx: &mut Cx<'_>, until: Time) {
        let Some(known) = &mut self.lease.until else { return };
        *known = until;
        if cx.now < until && self.deposed.is_none() {
            cx.ended.extend(self.lease.waiting.drain(..).map(|key| (key, None)));
        }
    }
}
