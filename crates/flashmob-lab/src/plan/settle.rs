//! Simulates until the figures settle.
//!
//! A simulation runs in stretches, each as long as all before it. It has settled when its last two stretches agree with each other and with
//! those of the other seeds, and each was long enough to complete several times the outstanding requests. If TCP recovers from losses on a
//! saturated medium, figures drift for long: the work is limited, and the result reports that the limit was reached.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::cluster::{Measured, Running, Settings, SettingsError};

/// The first stretch: connections are made in it, and the first delayed acknowledgements leave.
const FIRST: Duration = Duration::from_millis(250);
/// Longest stretch.
const STRETCH_MAX: Duration = Duration::from_secs(300);
/// Minimum completions in a stretch: as a multiple of the outstanding requests, and in total.
const ROUNDS_MIN: f64 = 3.0;
const REQUESTS_MIN: u64 = 400;

/// Limits of the work for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Seeds simulated in parallel, each on its own thread.
    pub seeds: u64,
    /// Maximum spread of the counted stretches, as a fraction of their mean.
    pub tolerance: f64,
    /// Events after which a simulation stops.
    pub events_max: u64,
}

/// The results of the stretches that count, of all seeds together.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Virtual time, of one seed.
    pub elapsed: Duration,
    /// Requests each second.
    pub rate: f64,
    /// Largest difference of two stretches, as a fraction of their mean.
    pub spread: f64,
    /// Whether that is within the tolerance.
    pub is_settled: bool,
    /// From a request's entry into the gateway to its answer, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Frames on the air for each request, relayed ones twice.
    pub frames_per_request: f64,
    /// Requests in one batch.
    pub requests_per_batch: f64,
    /// Requests of each seed that failed.
    pub errors: u64,
    /// Utilization, as fractions of the time: the medium, a node's flash, the gateway's processor.
    pub air_busy: f64,
    /// See `air_busy`; `None` without flash.
    pub flash_busy: Option<f64>,
    /// See `air_busy`.
    pub gateway_busy: f64,
}

impl Settled {
    /// The latency at this quantile, from 0 to 1.
    #[must_use]
    pub fn latency(&self, part: f64) -> Duration {
        Duration::from_nanos(self.latency_ns.value_at_quantile(part))
    }
}

/// One seed's simulation with its last two stretches.
struct Lane {
    running: Running,
    last: [Option<Measured>; 2],
}

impl Lane {
    fn go_on(&mut self, time: Duration) {
        self.last.swap(0, 1);
        self.last[1] = Some(self.running.measure(time));
    }

    fn stretches(&self) -> impl Iterator<Item = &Measured> {
        self.last.iter().flatten()
    }
}

/// Simulates until the figures settle. The times of `settings` are not used.
///
/// # Errors
/// See [`SettingsError`].
pub fn settle(settings: &Settings, effort: &Effort) -> Result<Settled, SettingsError> {
    let mut lanes = Vec::new();
    for number in 0..effort.seeds.max(1) {
        let seed = settings.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let settings = Settings { seed, time: FIRST, ..settings.clone() };
        lanes.push(Lane { running: Running::new(&settings)?, last: [None, None] });
    }
    let mut time = FIRST;
    go_on(&mut lanes, time);
    // Nothing of the first stretch counts.
    lanes.iter_mut().for_each(|lane| lane.last = [None, None]);
    let mut total = time;
    loop {
        time = total.min(STRETCH_MAX);
        go_on(&mut lanes, time);
        total += time;
        let is_over = lanes.iter().any(|l| l.stretches().any(|m| m.events >= effort.events_max))
            || (time == STRETCH_MAX && lanes[0].last[0].is_some());
        let is_whole = lanes.iter().all(|lane| lane.last[0].is_some() && went_around(lane, settings.outstanding));
        let spread = spread(&lanes);
        let is_settled = is_whole && spread <= effort.tolerance;
        if is_settled || is_over {
            if !is_settled {
                // The stretch before the last may still belong to the warm-up.
                lanes.iter_mut().for_each(|lane| lane.last[0] = None);
            }
            return Ok(together(&lanes, spread, is_settled));
        }
    }
}

fn go_on(lanes: &mut [Lane], time: Duration) {
    let Some((first, others)) = lanes.split_first_mut() else { return };
    std::thread::scope(|scope| {
        for lane in others {
            scope.spawn(|| lane.go_on(time));
        }
        first.go_on(time);
    });
}

fn went_around(lane: &Lane, outstanding: u32) -> bool {
    lane.last[1].as_ref().is_some_and(|m| m.requests >= REQUESTS_MIN.max((ROUNDS_MIN * f64::from(outstanding)) as u64))
}

fn spread(lanes: &[Lane]) -> f64 {
    let rates = || lanes.iter().flat_map(Lane::stretches).map(|m| m.requests as f64 / m.elapsed.as_secs_f64());
    let (min, max) = rates().fold((f64::INFINITY, 0.0), |(min, max), rate| (rate.min(min), rate.max(max)));
    if max > 0.0 { 2.0 * (max - min) / (max + min) } else { f64::INFINITY }
}

fn together(lanes: &[Lane], spread: f64, is_settled: bool) -> Settled {
    let all = || lanes.iter().flat_map(Lane::stretches);
    let elapsed_s: f64 = all().map(|m| m.elapsed.as_secs_f64()).sum();
    let sum = |of: fn(&Measured) -> u64| all().map(of).sum::<u64>() as f64;
    let mean = |of: fn(&Measured) -> f64| all().map(|m| of(m) * m.elapsed.as_secs_f64()).sum::<f64>() / elapsed_s;
    let ratio = |n: f64, d: f64| if d > 0.0 { n / d } else { 0.0 };
    let requests = sum(|m| m.requests);
    let mut stretches = all();
    // At least one stretch counts; a histogram without bounds takes any number.
    let mut latency_ns = stretches.next().map_or_else(|| Histogram::new(3), |m| Ok(m.latency_ns.clone()));
    if let Ok(latency_ns) = &mut latency_ns {
        // All have the same bounds.
        stretches.for_each(|m| latency_ns.add(&m.latency_ns).unwrap_or(()));
    }
    let has_flash = all().any(|m| m.flash_busy_fraction.is_some());
    Settled {
        elapsed: Duration::from_secs_f64(elapsed_s / lanes.len() as f64),
        rate: requests / elapsed_s,
        spread,
        is_settled,
        latency_ns: latency_ns.expect("three digits are within what a histogram can have"),
        frames_per_request: ratio(sum(|m| m.air.frames), requests),
        requests_per_batch: ratio(sum(|m| m.pieces), sum(|m| m.batches)),
        errors: all().map(|m| m.errors).sum(),
        air_busy: mean(|m| m.air_busy_fraction),
        flash_busy: has_flash.then(|| mean(|m| m.flash_busy_fraction.unwrap_or(0.0))),
        gateway_busy: mean(|m| m.gateway_busy.as_secs_f64() / m.elapsed.as_secs_f64()),
    }
}
