//! A node that was away returns, and its copies are made again while clients go on.
//!
//! ```text
//!  alone    no clients: how fast a rebuild is that has the air for itself
//!  before   the node is away, clients take their part of the air: their latency
//!  during   the node is back, from its return until its copies are current, or for as long as is watched
//! ```

mod stale;

use std::time::Duration;

use flashmob_core::units::Time;

pub(super) use self::stale::Stale;
use super::world::World;
use super::{Measured, Settings, SettingsError};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;
/// No clients: a request a day.
const NOBODY_NS: u64 = 86_400_000_000_000;
/// For how long a rate of requests is tried, to see what it takes of the air, and how often the range of rates is halved.
const TRIAL: Duration = Duration::from_secs(4);
const TRIALS: u32 = 9;
/// How often is looked at how far a rebuild is.
const LOOK: Duration = Duration::from_millis(250);
/// For how long a rebuild without clients is watched, after it has got going.
const ALONE: Duration = Duration::from_secs(10);
const ALONE_AFTER: Duration = Duration::from_secs(1);
/// Within this time a node that is back is linked.
const LINKED_WITHIN: Duration = Duration::from_secs(30);

/// What has to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The node that was away, counted from 0.
    pub node: u32,
    /// So many of a million of its blocks differ from the other copies.
    pub differing_ppm: u32,
    /// For how long it is watched at most.
    pub at_most: Duration,
}

/// What became of a rebuild.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Before the node returned.
    pub before: Measured,
    /// From its return on.
    pub during: Measured,
    /// The requests of clients in a second that take the wanted part of the air, if they come by time.
    pub asked_per_s: Option<f64>,
    /// Bytes that differed when the node returned, in whole blocks.
    pub differing_bytes: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that nodes hashed, on all copies together.
    pub digested_bytes: u64,
    /// Bytes of those hashes.
    pub digest_bytes: u64,
    /// Times that changes were let go on that a piece of the rebuild kept waiting.
    pub gave_way: u64,
    /// Bytes that are copied in a second without clients, if all blocks differ.
    pub alone_bytes_per_s: f64,
    /// How much of the time the air is busy then.
    pub alone_busy_fraction: f64,
    /// When all copies were current, counted from the node's return; `None` if it was not watched for so long.
    pub took: Option<Duration>,
    /// How far off the forecast of the time that was left was, as a fraction of it: when a tenth was done, and the worst until nine tenths were.
    pub eta_error: Option<(f64, f64)>,
}

impl Rebuilt {
    /// Copied bytes in a second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.copied_bytes as f64 / self.took.unwrap_or(self.during.elapsed).as_secs_f64().max(1e-9)
    }

    /// What was used of what clients left: copied bytes in a second, as a fraction of those without clients times the part of the air that clients
    /// left.
    #[must_use]
    pub fn used_of_left(&self) -> f64 {
        self.bytes_per_s() / (self.alone_bytes_per_s * (1.0 - self.before.air_busy_fraction)).max(1e-9)
    }

    /// How many times as long clients' requests took as before, at a quantile.
    #[must_use]
    pub fn times_as_long(&self, quantile: f64) -> f64 {
        let of = |measured: &Measured| measured.latency_ns.value_at_quantile(quantile) as f64;
        of(&self.during) / of(&self.before).max(1.0)
    }
}

/// Makes a node's copies again under clients that take `load` of the air while it is away; or that have as many requests under way as `settings` say,
/// if that is `None`. `go_on` gets how much is done of it, from 0 to 1, and says whether to go on.
///
/// # Errors
/// See [`SettingsError`].
pub fn run(
    settings: &Settings,
    load: Option<f64>,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Rebuilt, SettingsError> {
    settings.check()?;
    let Some(rebuild) = settings.rebuild else {
        return Err(SettingsError::OutOfRange("the node whose copies are made again", "named"));
    };
    let mut settings = settings.clone();
    let (alone_bytes_per_s, alone_busy_fraction) = alone(&settings, &rebuild)?;
    if let Some(load) = load {
        settings.every_ns = Some(every_ns_for(&settings, load, go_on)?);
    }
    let mut world = World::new(&settings)?;
    world.pass(settings.warmup);
    let before = world.measure(settings.time, LOOK, &mut |_| go_on(0.0), &mut || 0).0;
    world.bring_back();
    let differing_bytes = world.differing_bytes(rebuild.node);
    let mut watch = Watch::new(&world);
    let during = world.measure_while(rebuild.at_most, LOOK, &mut |world| watch.look(world) && go_on(watch.done()));
    let counters = world.copies().counters;
    Ok(Rebuilt {
        before,
        during,
        asked_per_s: load.and(settings.every_ns).map(|ns| SECOND_NS / ns as f64),
        differing_bytes,
        copied_bytes: counters.copied_bytes,
        digested_bytes: counters.digested_bytes,
        digest_bytes: counters.digest_bytes,
        gave_way: counters.gave_way,
        alone_bytes_per_s,
        alone_busy_fraction,
        took: watch.took(),
        eta_error: watch.eta_error(),
    })
}

/// Copied bytes in a second without clients, all blocks differing, and how busy the air is then.
fn alone(settings: &Settings, rebuild: &Rebuild) -> Result<(f64, f64), SettingsError> {
    let all = Rebuild { differing_ppm: 1_000_000, ..*rebuild };
    let settings = Settings { every_ns: Some(NOBODY_NS), rebuild: Some(all), ..settings.clone() };
    let mut world = World::new(&settings)?;
    world.bring_back();
    world.pass(ALONE_AFTER);
    let before = world.copies().counters.copied_bytes;
    let measured = world.measure_while(ALONE, LOOK, &mut |world| world.copies().behind_copies > 0);
    let bytes = (world.copies().counters.copied_bytes - before) as f64;
    Ok((bytes / measured.elapsed.as_secs_f64().max(1e-9), measured.air_busy_fraction))
}

/// How often clients ask, so that `load` of the air is taken while the node is away.
fn every_ns_for(settings: &Settings, load: f64, go_on: &mut dyn FnMut(f64) -> bool) -> Result<u64, SettingsError> {
    let trial = |every_ns: Option<u64>| {
        let settings = Settings { every_ns, ..settings.clone() };
        let mut world = World::new(&settings)?;
        world.pass(Duration::from_secs(1));
        let measured = world.measure(TRIAL, TRIAL, &mut |_| true, &mut || 0).0;
        Ok::<_, SettingsError>((measured.air_busy_fraction, measured.requests as f64 / measured.elapsed.as_secs_f64()))
    };
    // Where each answer is followed by the next request, it is full.
    let (mut low, mut high) = (0.0, trial(None)?.1);
    for _ in 0..TRIALS {
        if !go_on(0.0) {
            break;
        }
        let rate = f64::midpoint(low, high);
        if trial(Some((SECOND_NS / rate.max(1e-3)) as u64))?.0 < load {
            low = rate;
        } else {
            high = rate;
        }
    }
    Ok((SECOND_NS / f64::midpoint(low, high).max(1e-3)) as u64)
}

/// What is seen of a rebuild while it goes on.
#[derive(Debug)]
struct Watch {
    begun: Time,
    all: u32,
    left: u32,
    done_at: Option<Time>,
    /// When it was looked, the part that was done, and the seconds that were forecast for the rest.
    looks: Vec<(Time, f64, Option<f64>)>,
}

impl Watch {
    fn new(world: &World) -> Watch {
        let all = world.copies().behind_copies;
        Watch { begun: world.now(), all, left: all, done_at: None, looks: Vec::new() }
    }

    /// Whether copies are left.
    fn look(&mut self, world: &World) -> bool {
        let status = world.copies();
        self.left = status.behind_copies;
        let left_bytes = f64::from(self.left) * status.chunk_bytes as f64;
        let forecast = status.rebuilt_bytes_per_s.map(|speed| left_bytes / speed);
        self.looks.push((world.now(), self.done(), forecast));
        if self.left == 0 {
            self.done_at = Some(world.now());
        }
        self.left > 0
    }

    /// The part of the copies that is current.
    fn done(&self) -> f64 {
        1.0 - f64::from(self.left) / f64::from(self.all.max(1))
    }

    fn took(&self) -> Option<Duration> {
        Some(self.done_at? - self.begun)
    }

    fn eta_error(&self) -> Option<(f64, f64)> {
        let end = self.done_at?;
        let looks = self.looks.iter().filter(|&&(_, done, _)| (0.1..=0.9).contains(&done));
        let errors = looks.map(|&(at, _, forecast)| {
            let left_s = (end - at).as_secs_f64();
            forecast.map_or(1.0, |forecast| (forecast / left_s - 1.0).abs())
        });
        let errors: Vec<f64> = errors.collect();
        Some((*errors.first()?, errors.iter().copied().fold(0.0, f64::max)))
    }
}

impl World {
    /// What differs on a node, where chunks lie.
    fn differing_bytes(&self, node: u32) -> u64 {
        let Some(map) = self.gateway.core.map(0) else { return 0 };
        let slots =
            (0..map.chunks()).flat_map(|chunk| map.places(chunk)).filter(|place| u32::from(place.member) == node);
        let stale = &self.nodes[node as usize].stale;
        slots.map(|place| stale.differing_bytes(u64::from(place.slot) * map.chunk_bytes(), map.chunk_bytes())).sum()
    }

    /// The node that was away is there again. Returns once it is linked.
    fn bring_back(&mut self) {
        self.end_absence();
        let end = self.now() + LINKED_WITHIN;
        while !self.gateway.is_each_linked(None) && self.now() < end {
            self.pass(Duration::from_millis(10));
        }
    }
}
