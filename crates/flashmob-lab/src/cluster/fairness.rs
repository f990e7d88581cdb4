//! A client with few requests beside a load with many, in virtual time: what each takes from the other.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::world::World;
use super::{Measured, Settings, SettingsError};
use crate::load::{Master, Plan};

/// Nobody else: a request a day.
const NOBODY_NS: u64 = 86_400_000_000_000;
/// Not measured: the modest client's first requests find what nobody has made room in.
const AT_FIRST: Duration = Duration::from_secs(1);
/// Requests that a client which begins them by time has outstanding at most.
const MODEST_OUTSTANDING: u32 = 8;

/// The client with few requests: reads of one size at random places of the volume, at random moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modest {
    /// Bytes of each read.
    pub block_bytes: u32,
    /// Mean nanoseconds from one read to the next.
    pub every_ns: u64,
}

/// What became of both.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Latency of the modest client's reads in nanoseconds, without the load.
    pub alone_ns: Histogram<u64>,
    /// The same beside the load.
    pub beside_ns: Histogram<u64>,
    /// The load without the modest client.
    pub load_alone: Measured,
    /// The load beside it.
    pub load: Measured,
}

/// Runs a cluster three times: with the modest client, with the load of `settings`, and with both.
///
/// # Errors
/// See [`SettingsError`].
pub fn run(settings: &Settings, modest: Modest) -> Result<Shared, SettingsError> {
    settings.check()?;
    let nobody = Settings { every_ns: Some(NOBODY_NS), outstanding: 1, ..settings.clone() };
    let (alone_ns, _) = measured(&nobody, Some(modest))?;
    let (_, load_alone) = measured(settings, None)?;
    let (beside_ns, load) = measured(settings, Some(modest))?;
    Ok(Shared { alone_ns, beside_ns, load_alone, load })
}

fn measured(settings: &Settings, modest: Option<Modest>) -> Result<(Histogram<u64>, Measured), SettingsError> {
    let mut world = World::new(settings)?;
    // It finds the load at work.
    world.pass(settings.warmup);
    world.gateway.modest = modest.map(|modest| {
        let plan = Plan {
            range_bytes: world.gateway.load.plan().range_bytes,
            block_bytes: modest.block_bytes,
            read_percent: 100.0,
            outstanding: MODEST_OUTSTANDING,
            every_ns: Some(modest.every_ns),
            seed: settings.seed ^ 0x0de5,
        };
        Master::new(plan, 0)
    });
    world.wake_gateway();
    world.pass(AT_FIRST);
    world.gateway.modest.as_mut().map(Master::reset);
    let load = world.measure(settings.time, settings.time, &mut |_| true, &mut || 0).0;
    let tally = world.gateway.modest.as_mut().map(Master::reset);
    Ok((tally.map_or_else(|| load.latency_ns.clone(), |tally| tally.latency_ns), load))
}

/// A fraction of a latency, such as its p99 in microseconds.
#[must_use]
pub fn quantile(latency_ns: &Histogram<u64>, quantile: f64) -> Duration {
    Duration::from_nanos(latency_ns.value_at_quantile(quantile))
}
