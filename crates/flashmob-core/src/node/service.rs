//! Tells gateways what the store did lately, and how the loop fared: once a second while there is something to tell.
//!
//! Only those whose hello asks for it, on one link each. A period begins with the first work after a report and is reported a second later,
//! so that a node without work wakes nobody.

use std::time::Duration;

use super::link::LinkState;
use super::{Host, Node};
use crate::buckets::{BUCKETS, Buckets, bucket_of};
use crate::stages::NodeInterval;
use crate::units::{MIB, Time};
use crate::wire::service::{PERMILLE_MAX, Service, put_service};

/// A link with more bytes than this to write gets no report: its gateway does not read. What it would have told is lost.
const OUT_BYTES_MAX: usize = 4 * MIB as usize;
/// How long a period is.
pub const SERVICE_EVERY: Duration = Duration::from_secs(1);

/// Times of the thread of a node's loop, since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopTimes {
    /// It ran.
    pub running: Duration,
    /// It could have run, and waited for a processor.
    pub starved: Duration,
}

/// What has been told, to all gateways alike.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// A gateway has asked for it.
    is_wanted: bool,
    /// The period, if one has begun, and the loop's times then.
    period: Option<(Time, Option<LoopTimes>)>,
    /// The counters of the last report.
    work: u64,
    at_once: u64,
    store_operations: u64,
    flash: [u64; BUCKETS],
}

impl Node {
    /// A number that grows with every batch and every operation of the store.
    fn work(&self) -> u64 {
        self.counters.batches + self.counters.store_ops
    }

    /// A gateway asks for reports. The first one tells what happens from now on.
    pub(super) fn begin_service(&mut self) {
        if !self.served.is_wanted {
            self.served.is_wanted = true;
            let _ = self.take_service(Duration::ZERO, None);
        }
    }

    /// When a report is due; `None` if there is nothing to tell.
    pub(super) fn service_due(&self) -> Option<Time> {
        self.served.period.map(|(begun, _)| begun + SERVICE_EVERY)
    }

    /// Begins a period with the first work, and reports it when it is over.
    pub(super) fn tell_service(&mut self, now: Time, host: &mut impl Host) {
        if !self.served.is_wanted {
            return;
        }
        match self.served.period {
            None if self.work() != self.served.work => self.served.period = Some((now, host.loop_times())),
            Some((begun, before)) if now >= begun + SERVICE_EVERY => {
                let after = host.loop_times();
                self.served.period = None;
                let service = self.take_service(now - begun, before.zip(after));
                self.report_service(&service);
            }
            _ => {}
        }
    }

    /// What happened since the last call.
    fn take_service(&mut self, period: Duration, times: Option<(LoopTimes, LoopTimes)>) -> Service {
        let mut flash = [0u64; BUCKETS];
        self.stages.histograms().cells(NodeInterval::FlashDone).for_each(|(nanos, n)| flash[bucket_of(nanos)] += n);
        let share = |of: fn(&LoopTimes) -> Duration| {
            let (before, after) = times?;
            let permille = of(&after).saturating_sub(of(&before)).as_micros() * u128::from(PERMILLE_MAX);
            let permille = permille / period.as_micros().max(1);
            Some(u16::try_from(permille).unwrap_or(PERMILLE_MAX).min(PERMILLE_MAX))
        };
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let (at_once, store_operations) =
            (self.counters.fast_reads + self.counters.fast_writes, self.counters.store_ops);
        let told = &mut self.served;
        let mut of_period = Buckets::default();
        for (count, (now, before)) in of_period.0.iter_mut().zip(flash.iter().zip(told.flash)) {
            *count = small(now - before);
        }
        let service = Service {
            period_ms: u16::try_from(period.as_millis()).unwrap_or(u16::MAX),
            running_permille: share(|times| times.running),
            starved_permille: share(|times| times.starved),
            at_once: small(at_once - told.at_once),
            store_operations: small(store_operations - told.store_operations),
            flash: of_period,
        };
        (told.flash, told.at_once, told.store_operations) = (flash, at_once, store_operations);
        self.served.work = self.work();
        service
    }

    #[cold]
    fn report_service(&mut self, service: &Service) {
        self.served.is_wanted = false;
        let mut have_heard: Vec<[u8; 16]> = Vec::new();
        for (_, link) in self.links.iter_mut().filter(|(_, link)| matches!(link.state, LinkState::Ready)) {
            let Some(peer) = link.peer.filter(|_| link.told.is_service_wanted) else { continue };
            self.served.is_wanted = true;
            if !have_heard.contains(&peer.gateway_id) && link.out.len() <= OUT_BYTES_MAX {
                have_heard.push(peer.gateway_id);
                link.out.append(|out| put_service(out, service));
            }
        }
    }
}
