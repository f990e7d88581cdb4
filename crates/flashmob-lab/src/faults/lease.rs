//! The gateway holds a lease, and another gateway stands by.
//!
//! The store of leases is one place with a clock that is right; the gateway's clock may run a tenth faster or slower. It asks for its lease again and
//! again; requests and answers are late, and lost where the store is away or the gateway cut off from it. The standby takes over once
//! the lease is over at the store. So all that the former gateway answers to reads has to be right, which is judged, other than where a second
//! gateway takes over without a lease ([`super::second`]).

use std::time::Duration;

use flashmob_core::gateway::lasts_until;
use flashmob_core::units::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::gateway::GatewayLoop;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// How often the gateway asks, as a part of its lease.
const ASK_EVERY: u32 = 5;

/// Draws whether there is a standby, and what makes it take over; not where something else befalls the gateway or its map, or all copies.
pub(super) fn draw(scenario: &mut Scenario) {
    let rng = &mut SmallRng::seed_from_u64(scenario.seed ^ 0x1ea5_e000);
    let is_alone = |fault: &Fault| {
        use Fault::{Blackout, GatewayStall, Lie, LoseMap, MapFull, MapSlow, OldMap, SecondGateway, StolenKey};
        matches!(
            fault,
            Blackout(..)
                | GatewayStall(_)
                | Lie(..)
                | LoseMap(_)
                | MapFull(_)
                | MapSlow(_)
                | OldMap(..)
                | SecondGateway(_)
                | StolenKey(_)
        )
    };
    let has_other = scenario.faults.iter().any(|(_, fault)| is_alone(fault));
    let span_us = scenario.span.as_micros() as u64;
    let Some(plan) = scenario.copies.as_mut().filter(|_| !has_other) else { return };
    if !rng.random_ratio(1, 3) {
        return;
    }
    if rng.random_bool(0.5) {
        // Where nothing else happens, the gateways may see different nodes for longer.
        scenario.faults.clear();
        plan.evict_after = plan.evict_after.min(Duration::from_millis(60));
        scenario.clients.iter_mut().for_each(|client| client.requests *= 2);
    }
    let is_lossy = scenario.faults.iter().any(|(_, fault)| fault.loses_data());
    plan.lease = Some(Duration::from_micros(*pick(rng, &[20_000, 150_000, 600_000])));
    let at = |rng: &mut SmallRng| Duration::from_micros(rng.random_range(0..span_us));
    if !is_lossy && rng.random_ratio(1, 2) {
        for _ in 0..rng.random_range(1..4) {
            let lasts = Duration::from_micros(rng.random_range(1_000..300_000));
            scenario.faults.push((at(rng), Fault::StoreAway(lasts)));
        }
    } else {
        // Early, and with several clients: some have bytes changed that others read.
        for _ in 0..rng.random_range(1..3) {
            let longest_us = *pick(rng, &[20_000, 900_000, 3_000_000]);
            let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
            let at = at(rng) / rng.random_range(1..8);
            scenario.faults.push((at, Fault::Standby(lasts)));
        }
        if let [only] = &scenario.clients[..] {
            let another = only.clone();
            scenario.clients.push(another);
        }
    }
}

/// The lease, as the store has it, and what keeps the gateway from it.
#[derive(Debug)]
pub(super) struct Leases {
    /// The start of the gateway that holds it.
    holder: u64,
    /// When it is over.
    over_at: Time,
    /// The start of a gateway that does not reach the store any more.
    cut_off: Option<u64>,
    /// How long the store is away.
    away_until: Time,
    /// How fast the clock of the gateway runs.
    rate: f64,
    rng: SmallRng,
}

impl Leases {
    pub fn new(seed: u64) -> Leases {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xc10c);
        let rate = rng.random_range(0.9..1.1);
        let (holder, over_at, away_until) = (0, Time::default(), Time::default());
        Leases { holder, over_at, cut_off: None, away_until, rate, rng }
    }

    /// How long a message takes: often long, compared with the lease.
    fn way(&mut self, lasts: Duration) -> Duration {
        let longest = lasts / if self.rng.random_ratio(1, 3) { 1 } else { 20 };
        self.rng.random_range(Duration::ZERO..longest)
    }

    /// When the lease is over by the clock of a gateway that asked for it and was granted it then.
    fn until(&self, asked: Time, granted: Time, lasts: Duration) -> Time {
        let by_its_clock = lasts_until(asked, granted, lasts) - asked;
        asked + by_its_clock.div_f64(self.rate)
    }
}

impl World {
    fn lease_lasts(&self) -> Option<Duration> {
        self.scenario.copies.as_ref()?.lease
    }

    /// A gateway that starts has the lease: it waited for the end of the former one. Returns until when it lasts for it.
    pub(super) fn begin_lease(&mut self) -> Option<Time> {
        let (now, session, lasts) = (self.ctx.now, self.gateway.session, self.lease_lasts()?);
        self.leases.holder = session;
        self.leases.over_at = now + lasts;
        self.ctx.at(now + lasts / ASK_EVERY, Event::AskLease { session });
        Some(self.leases.until(now, now, lasts))
    }

    /// The gateway asks for its lease again.
    pub(super) fn ask_lease(&mut self, session: u64) {
        let Some(lasts) = self.lease_lasts().filter(|_| self.gateway.session == session) else { return };
        let (asked, stalled_until) = (self.ctx.now, self.gateway.stalled_until);
        if self.gateway.core.is_none() {
            return;
        }
        if stalled_until > asked {
            return self.ctx.at(stalled_until, Event::AskLease { session });
        }
        let way = self.leases.way(lasts);
        self.ctx.at(asked + way, Event::LeaseAsked { session, asked });
        self.ctx.at(asked + lasts / ASK_EVERY, Event::AskLease { session });
    }

    /// The store is asked for a lease.
    pub(super) fn lease_asked(&mut self, session: u64, asked: Time) {
        let (Some(lasts), now) = (self.lease_lasts(), self.ctx.now) else { return };
        let is_lost = now < self.leases.away_until || self.leases.cut_off == Some(session);
        // One that is over is given again to who had it last.
        if is_lost || self.leases.holder != session {
            return;
        }
        self.leases.over_at = now + lasts;
        let way = self.leases.way(lasts);
        self.ctx.at(now + way, Event::LeaseGranted { session, asked });
    }

    /// The gateway has the answer.
    pub(super) fn lease_granted(&mut self, session: u64, asked: Time) {
        let Some(lasts) = self.lease_lasts().filter(|_| self.gateway.session == session) else { return };
        let (now, stalled_until) = (self.ctx.now, self.gateway.stalled_until);
        if stalled_until > now {
            return self.ctx.at(stalled_until, Event::LeaseGranted { session, asked });
        }
        let until = self.leases.until(asked, now, lasts);
        if let Some(core) = &mut self.gateway.core {
            core.renew_lease(now, until);
            self.wake_gateway();
        }
        if self.gateway.is_former && until > now {
            self.ctx.fail("a gateway renews its lease although another is in charge".to_string());
        }
    }

    /// The store is away for so long: no lease is renewed, and decisions wait.
    pub(super) fn store_goes(&mut self, lasts: Duration) {
        self.map_suffers(false, lasts);
        self.leases.away_until = self.leases.away_until.max(self.ctx.now + lasts);
    }

    /// The gateway does not reach the store any more, or stands still, too; the standby takes over when its lease is over, and the former is gone so
    /// much later.
    pub(super) fn await_standby(&mut self, lasts: Duration) {
        let Some(lease) = self.lease_lasts() else { return };
        if self.former.is_some() || self.gateway.core.is_none() || self.is_healed || self.leases.cut_off.is_some() {
            return;
        }
        let (now, session) = (self.ctx.now, self.gateway.session);
        self.leases.cut_off = Some(session);
        if self.leases.rng.random_bool(0.3) {
            self.gateway.stalled_until = now + self.leases.rng.random_range(Duration::ZERO..lease * 2);
        }
        let bids_at = self.leases.over_at.max(now) + self.leases.rng.random_range(Duration::ZERO..lease / 10);
        self.calm_at = self.calm_at.max(bids_at + lasts);
        self.ctx.at(bids_at, Event::StandbyBids { session, lasts });
    }

    pub(super) fn standby_bids(&mut self, session: u64, lasts: Duration) {
        if self.leases.cut_off == Some(session) && self.gateway.session == session {
            self.take_over(lasts);
            self.check_former_lease();
            // Some clients go to the gateway in charge, and some stay.
            let conns: Vec<_> = self.former.iter().flat_map(GatewayLoop::client_conns).collect();
            for conn in conns {
                if self.leases.rng.random_bool(0.5) {
                    self.net.cut(&mut self.ctx, conn);
                }
            }
        }
        self.leases.cut_off = None;
    }

    /// One gateway at a time has a lease.
    fn check_former_lease(&mut self) {
        let core = self.former.as_ref().and_then(|former| former.core.as_ref());
        let lease = core.and_then(|core| core.copies_status(self.ctx.now, 0)?.lease);
        if let Some(left) = lease.map(|lease| lease.left).filter(|left| !left.is_zero()) {
            self.ctx
                .fail(format!("a second gateway takes over, and the lease of the first lasts for another {left:?}"));
        }
    }

    /// Where a lease is held, the two gateways often see different nodes for as long as both are there: the former learns late that it is not in
    /// charge any more, and could show bytes that copies elsewhere have in a later state.
    pub(super) fn separate_more(&mut self, until: Time) {
        if !self.is_leased() || !self.leases.rng.random_bool(0.75) {
            return;
        }
        let is_cut_off = self.partition.from_second.iter_mut().zip(&mut self.partition.from_former);
        for (from_second, from_former) in is_cut_off {
            *from_former = true;
            if self.leases.rng.random_bool(0.5) {
                *from_second = until;
            }
        }
        for node in 0..self.nodes.len() {
            self.disturb(node, until);
        }
        self.calm_at = self.calm_at.max(until);
    }

    /// The store is there, and reached.
    pub(super) fn leases_recover(&mut self) {
        self.leases.away_until = Time::default();
        self.leases.cut_off = None;
    }

    /// Whether what a former gateway answers to reads is right: where a lease is held.
    pub(super) fn is_leased(&self) -> bool {
        self.lease_lasts().is_some()
    }
}
