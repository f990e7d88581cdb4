//! Whether another gateway is in charge; and the lease of a gateway whose maps are in etcd: told to the state machine, whose clock stands still while the
//! machine sleeps.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use flashmob_core::units::Time;

use super::etcd_map::Tenure;
use super::server::GatewayServer;
use crate::net::Wake;
use crate::net::clock::boottime_ns;

/// How much the clocks may seem to differ because one is read after the other.
const READ_APART: Duration = Duration::from_millis(2);

/// How often etcd is asked whether another gateway took charge, while nodes say so.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What was last seen of a lease.
#[derive(Debug, Default)]
pub(super) struct LeaseSeen {
    /// Until when it lasts, by CLOCK_BOOTTIME in nanoseconds.
    until_ns: u64,
    /// How much that clock was ahead of the loop's, in nanoseconds.
    ahead_ns: u64,
    /// Why this gateway is not in charge any more.
    pub deposed: Option<Deposed>,
    /// When etcd is asked again whether another gateway took charge, as nodes say so.
    ask_again: Time,
    /// The answer of etcd that is waited for.
    asking: Option<Receiver<Option<bool>>>,
    /// Notes that the decisions which maps lack cannot be taken from mirrors.
    pub stays_behind: bool,
}

/// Why a gateway has ended that was not stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deposed {
    /// Another gateway took charge in etcd.
    InEtcd(String),
    /// Nodes serve this one no longer, though it is in charge in etcd.
    AgainstEtcd(String),
    /// Nodes serve this one no longer, in none of its volumes.
    ByNodes(String),
    /// Nodes refuse the maps of these volumes, which may lack what their mirrors have.
    Behind(Vec<usize>, String),
}

/// Asks etcd whether this gateway is in charge, on a thread: one that does not answer holds up no turn of the loop. `None` if there can be no thread now.
fn ask_etcd(tenure: Tenure, wake: Wake) -> Option<Receiver<Option<bool>>> {
    let (tell, told) = channel();
    let ask = move || {
        // The loop may have ended.
        let _ = tell.send(tenure.is_unfollowed());
        wake.wake();
    };
    std::thread::Builder::new().name("charge".to_string()).spawn(ask).is_ok().then_some(told)
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

    /// Whether another gateway is in charge, so that this one ends. Clients get no answer any more: their connections end, and they ask the other one, or
    /// this one when it was started again.
    pub(super) fn is_deposed(&mut self) -> bool {
        let volumes = 0..self.volumes.len();
        let by_nodes = volumes.clone().find_map(|volume| self.gateway.deposed(volume)).map(str::to_string);
        let Some(tenure) = self.maps.tenure() else {
            let Some(why) = by_nodes else { return false };
            let behind: Vec<usize> = volumes.clone().filter(|&volume| self.gateway.may_catch_up(volume)).collect();
            if self.lease.stays_behind {
                let now = self.clock.now();
                behind.into_iter().for_each(|volume| self.gateway.stay_deposed(now, volume));
            } else if !behind.is_empty() {
                self.lease.deposed = Some(Deposed::Behind(behind, why));
                return true;
            }
            // The others are still served.
            let are_all = volumes.into_iter().all(|volume| self.gateway.deposed(volume).is_some());
            self.lease.deposed = are_all.then_some(Deposed::ByNodes(why));
            return are_all;
        };
        if let Some(why) = tenure.deposed() {
            self.lease.deposed = Some(Deposed::InEtcd(why.to_string()));
            return true;
        }
        let now = self.clock.now();
        let Some(why) = by_nodes.filter(|_| now >= self.lease.ask_again) else { return false };
        let Some(asking) = &self.lease.asking else {
            self.lease.asking = ask_etcd(tenure.clone(), self.wake.clone());
            return false;
        };
        let answer = match asking.try_recv() {
            Err(TryRecvError::Empty) => return false,
            answer => answer.unwrap_or_default(),
        };
        (self.lease.asking, self.lease.ask_again) = (None, now + ASK_EVERY);
        match answer {
            // Unless it answers again, the lease ends.
            None => false,
            Some(false) => {
                self.lease.deposed = Some(Deposed::InEtcd(why));
                true
            }
            // The others are still served.
            Some(true) => {
                for volume in volumes.clone() {
                    if self.gateway.stay_unfollowed(now, volume)
                        && let Some(config) = self.volumes.get(volume)
                    {
                        log::error!(
                            "volume {}: nodes do not serve it, though this gateway is in charge in etcd; its requests fail",
                            config.name
                        );
                    }
                }
                let are_all = volumes.into_iter().all(|volume| self.gateway.deposed(volume).is_some());
                self.lease.deposed = are_all.then_some(Deposed::AgainstEtcd(why));
                are_all
            }
        }
    }
}
