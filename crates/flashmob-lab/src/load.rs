//! The load of P1's master: requests issued inside the gateway's own process, as many outstanding as asked for; or, for forecasts, as many a
//! second, whenever they are answered.
//!
//! It reads no clock and opens nothing: `bench cluster` runs it in a gateway's loop, the simulator in virtual time.

use std::time::Duration;

use flashmob_core::gateway::{ClientId, Completion, Gateway, LocalExtents, NativeCall};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use hdrhistogram::Histogram;

use crate::random::Random;

/// Maximum outstanding requests of one client of the load: the gateway's own limit per client.
const CLIENT_OUTSTANDING_MAX: u32 = 1024;
/// The longest latency that is recorded: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The settings of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Bytes of the volume, from its beginning, that offsets are taken from: multiples of the block.
    pub range_bytes: u64,
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Percentage of reads; the others are writes.
    pub read_percent: f64,
    /// Requests outstanding at once.
    pub outstanding: u32,
    /// Mean nanoseconds from one request to the next, at random moments; then `outstanding` is the most at once. `None`: each answer is
    /// followed by the next request.
    pub every_ns: Option<u64>,
    /// The random seed of offsets.
    pub seed: u64,
}

/// A request begins in one of so many parts of the mean time between two, by chance.
const CHANCES: u64 = 64;

/// Results since the start or since [`Master::reset`].
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that were answered well.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// From the request's entry into the gateway to its answer, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        // The bounds are constants, and a histogram with them exists.
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("valid bounds");
        Tally { requests: 0, errors: 0, latency_ns }
    }
}

/// Keeps requests outstanding on one volume of a gateway.
#[derive(Debug)]
pub struct Master {
    plan: Plan,
    volume: usize,
    clients: Vec<ClientId>,
    random: Random,
    /// When each request under way began, by its cookie; free cookies are in `free`.
    begun: Vec<Time>,
    free: Vec<u32>,
    /// When the next request begins, if they begin by time.
    next: Option<Time>,
    stopping: bool,
    tally: Tally,
}

impl Master {
    /// Nothing is outstanding yet.
    #[must_use]
    pub fn new(plan: Plan, volume: usize) -> Master {
        Master {
            random: Random::new(plan.seed),
            begun: vec![Time::default(); plan.outstanding as usize],
            free: (0..plan.outstanding).rev().collect(),
            plan,
            volume,
            clients: Vec::new(),
            next: None,
            stopping: false,
            tally: Tally::new(),
        }
    }

    /// Issues requests until as many are outstanding as planned. Call it when the volume is ready, and after
    /// [`Master::take`].
    pub fn fill(&mut self, now: Time, gateway: &mut Gateway, local: &mut impl LocalExtents) {
        self.fill_in_part(now, gateway, local, usize::MAX);
    }

    /// The same, but at most `at_most` requests. Returns how many.
    pub fn fill_in_part(
        &mut self,
        now: Time,
        gateway: &mut Gateway,
        local: &mut impl LocalExtents,
        at_most: usize,
    ) -> usize {
        if self.clients.is_empty() {
            let wanted = self.plan.outstanding.div_ceil(CLIENT_OUTSTANDING_MAX).max(1);
            self.clients.extend((0..wanted).filter_map(|_| gateway.native_opened(self.volume)));
        }
        if self.clients.is_empty() || self.stopping {
            return 0;
        }
        let mut issued = 0;
        while issued < at_most
            && let Some(begun) = self.due(now)
            && let Some(cookie) = self.free.pop()
        {
            self.begun[cookie as usize] = begun;
            let client = self.clients[cookie as usize % self.clients.len()];
            let call = self.next_call(u64::from(cookie));
            gateway.submit(now, client, call, local);
            issued += 1;
        }
        issued
    }

    /// Whether [`Master::fill_in_part`] has left something to do at once.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.plan.every_ns.is_none() && !self.clients.is_empty() && !self.free.is_empty() && !self.stopping
    }

    /// When the next request begins, if that is now or before: it may have waited for one to be answered.
    fn due(&mut self, now: Time) -> Option<Time> {
        let Some(every_ns) = self.plan.every_ns else { return Some(now) };
        let due = self.next.unwrap_or(now);
        if self.free.is_empty() || due > now {
            self.next = Some(due);
            return None;
        }
        let mut parts = 1;
        while !self.random.next().is_multiple_of(CHANCES) {
            parts += 1;
        }
        self.next = Some(due + Duration::from_nanos(parts * every_ns / CHANCES));
        Some(due)
    }

    /// The settings.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether requests begin by time.
    #[must_use]
    pub fn begins_by_time(&self) -> bool {
        self.plan.every_ns.is_some()
    }

    /// When [`Master::fill`] has something to do at the latest, if that is known: requests that begin by time.
    #[must_use]
    pub fn next_begin(&self) -> Option<Time> {
        self.next.filter(|_| !self.free.is_empty() && !self.stopping)
    }

    fn next_call(&mut self, cookie: u64) -> NativeCall {
        let block = u64::from(self.plan.block_bytes);
        let blocks = (self.plan.range_bytes / block).max(1);
        // The high bits of a product: no division, and no bias worth speaking of.
        let number = (u128::from(self.random.next()) * u128::from(blocks)) >> 64;
        let offset_bytes = u64::try_from(number).unwrap_or(0) * block;
        let is_read = self.plan.read_percent >= 100.0
            || (self.random.next() >> 11) as f64 / (1u64 << 53) as f64 * 100.0 < self.plan.read_percent;
        let payload = if is_read { Vec::new() } else { vec![0; self.plan.block_bytes as usize] };
        let op = if is_read { Op::Read } else { Op::Write };
        NativeCall { cookie, op, flags: OpFlags::NONE, spans: vec![(offset_bytes, self.plan.block_bytes)], payload }
    }

    /// Takes what the gateway has finished for this load.
    pub fn take(&mut self, now: Time, gateway: &mut Gateway) {
        self.take_from(now, gateway.completions().drain(..));
    }

    /// The same from answers that were taken already.
    pub fn take_from(&mut self, now: Time, completions: impl IntoIterator<Item = Completion>) {
        for Completion { cookie, result, .. } in completions {
            let Some(begun) = usize::try_from(cookie).ok().and_then(|at| self.begun.get(at)) else { continue };
            match result {
                Ok(_) => {
                    self.tally.requests += 1;
                    self.tally.latency_ns.saturating_record(now.nanos_since(*begun).max(1));
                }
                Err(_) => self.tally.errors += 1,
            }
            self.free.push(cookie as u32);
        }
    }

    /// Whether these are answers to a client of this load.
    #[must_use]
    pub fn owns(&self, completion: &Completion) -> bool {
        self.clients.contains(&completion.client)
    }

    /// Issues nothing more.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// How many requests are under way.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.begun.len() - self.free.len()
    }

    /// The results so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the results so far and starts new ones: at the end of the warm-up.
    pub fn reset(&mut self) -> Tally {
        std::mem::replace(&mut self.tally, Tally::new())
    }
}

/// How long to warm up before a measurement of `time`, unless told otherwise: half of it, at most two seconds.
#[must_use]
pub fn warmup_for(time: Duration) -> Duration {
    (time / 2).min(Duration::from_secs(2))
}
