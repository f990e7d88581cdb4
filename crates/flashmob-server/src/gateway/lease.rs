//! The lease of a gateway whose maps are in etcd: told to the state machine, whose clock stands still while the machine sleeps.

use std::time::Duration;

use super::server::GatewayServer;
use crate::net::clock::boottime_ns;

/// How much the clocks may seem to differ because one is read after the other.
const READ_APART: Duration = Duration::from_millis(2);

/// What was last seen of a lease.
#[derive(Debug, Default)]
pub(super) struct LeaseSeen {
    /// Until when it lasts, by CLOCK_BOOTTIME in nanoseconds.
    until_ns: u64,
    /// How much that clock was ahead of the loop's, in nanoseconds.
    ahead_ns: u64,
    /// Why another gateway is in charge, and whether it took charge in etcd: nodes may know of one that did not.
    pub deposed: Option<(String, bool)>,
}

impl GatewayServer {
    /// Tells the state machine how long the lease lasts, if that has changed: it was renewed, or the machine has slept.
    pub(super) fn renew_lease(&mut self) {
        let Some(tenure) = self.maps.tenure() else { return };
        let (now, boottime_ns, until_ns) = (self.clock.now(), boottime_ns(), tenure.until_ns());
        let ahead_ns = boottime_ns.saturating_sub(now.as_nanos());
        let has_slept = ahead_ns.saturating_sub(self.lease.ahead_ns) > READ_APART.as_nanos() as u64;
        if until_ns == self.lease.until_ns && !has_slept {
            return;
        }
        (self.lease.until_ns, self.lease.ahead_ns) = (until_ns, ahead_ns);
        self.gateway.renew_lease(now, now + Duration::from_nanos(until_ns.saturating_sub(boottime_ns)));
    }

    /// Whether another gateway is in charge. Clients get no answer any more: their connections end, and they ask the other one.
    pub(super) fn is_deposed(&mut self) -> bool {
        let Some(tenure) = self.maps.tenure() else { return false };
        let by_nodes = (0..self.volumes.len()).find_map(|volume| self.gateway.deposed(volume));
        let in_etcd = tenure.deposed().map(|why| (why.to_string(), true));
        self.lease.deposed = in_etcd.or_else(|| Some((by_nodes?.to_string(), !tenure.is_unfollowed())));
        self.lease.deposed.is_some()
    }
}
