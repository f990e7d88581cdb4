//! The planner: how fast a cluster will be, what limits it, and what would improve it, before anything is bought or wired.
//!
//! - [`forecast`]: how fast. Where there is a closed form it gives the rate ([`closed`]); else the simulator does ([`settle`]).
//! - [`plan`]: also the bottleneck, the resource whose doubling gains most ([`relief`]), and the remedies with their gains.
//!
//! All figures are modelled, and must be labelled so wherever they are shown.

pub mod closed;
pub mod relief;
pub mod settle;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{Settings, SettingsError};
use relief::Resource;
use settle::{Effort, Settled, settle};

/// Minimum speed-up from doubling a resource for it to be the bottleneck.
pub const NAMED_MIN: f64 = 1.08;
/// Minimum speed-up for it to be a further bottleneck. Its gain must also be at least a tenth of the largest.
pub const SHARED_MIN: f64 = 1.05;
const SHARED_PART_MIN: f64 = 0.1;
/// The least gain of a remedy.
const REMEDY_MIN: f64 = 1.05;
/// Effort of the forecast, and of each cluster compared with it.
const OF_FORECAST: Effort = Effort { seeds: 2, tolerance: 0.03, events_max: 1_500_000 };
const OF_COMPARISON: Effort = Effort { seeds: 1, tolerance: 0.03, events_max: 500_000 };

/// How a rate was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a formula, with its name.
    ClosedForm(&'static str),
    /// By a simulation.
    Simulated,
}

/// How fast a cluster will be.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Requests each second.
    pub requests_per_second: f64,
    /// How they were found.
    pub method: Method,
    /// The simulation: all other figures, and its own rate.
    pub simulated: Settled,
}

/// A remedy and its gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// The remedy, as text.
    pub what: String,
    /// Rate with it, as a multiple of the rate without.
    pub factor: f64,
}

/// The forecast with its explanation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The forecast.
    pub forecast: Forecast,
    /// The requests per second of the flash of all loaded nodes alone, unsorted; `None` without flash.
    pub flash_limit: Option<f64>,
    /// The bottleneck.
    pub blame: Blame,
    /// Effective remedies, the best first.
    pub remedies: Vec<Remedy>,
}

/// Forecasts how fast a cluster will be under its load. The times of `settings` are not used: it simulates as long as necessary.
///
/// # Errors
/// See [`SettingsError`].
pub fn forecast(settings: &Settings) -> Result<Forecast, SettingsError> {
    let simulated = settle(settings, &OF_FORECAST)?;
    let (requests_per_second, method) = match closed::estimate(settings) {
        Some((rate, name)) => (rate, Method::ClosedForm(name)),
        None => (simulated.rate, Method::Simulated),
    };
    Ok(Forecast { requests_per_second, method, simulated })
}

/// The bottleneck of a cluster.
#[derive(Clone, Debug)]
pub struct Blame {
    /// The bottlenecks, largest gain first; empty if no single resource gains much.
    pub bottleneck: Vec<Resource>,
    /// Rate with each resource doubled, as a multiple of the rate without; the largest first.
    pub gains: Vec<(Resource, f64)>,
}

/// A forecast with the bottleneck and remedies. `progress` receives the number of finished simulations, and of all.
///
/// # Errors
/// See [`SettingsError`].
pub fn plan(settings: &Settings, progress: &mut dyn FnMut(usize, usize)) -> Result<Plan, SettingsError> {
    let forecast = forecast(settings)?;
    let relieved = relieved(settings);
    let remedies = relief::remedies(settings);
    let all = relieved.len() + remedies.len() + 1;
    progress(1, all);
    let blame = blame(&forecast, relieved, &mut |done| progress(1 + done, all))?;
    let before = all - remedies.len();
    let remedies = factors(&forecast, remedies, &mut |done| progress(before + done, all))?;
    Ok(Plan {
        flash_limit: closed::flash_limit(settings)?,
        blame,
        remedies: remedies
            .into_iter()
            .filter(|(_, factor)| *factor >= REMEDY_MIN)
            .map(|(what, factor)| Remedy { what, factor })
            .collect(),
        forecast,
    })
}

/// The cluster with each of its resources doubled.
fn relieved(settings: &Settings) -> Vec<(Resource, Settings)> {
    Resource::ALL.into_iter().filter_map(|resource| Some((resource, resource.doubled(settings)?))).collect()
}

/// The bottleneck, from clusters with one resource doubled each.
fn blame(
    forecast: &Forecast,
    relieved: Vec<(Resource, Settings)>,
    done: &mut dyn FnMut(usize),
) -> Result<Blame, SettingsError> {
    let gains = factors(forecast, relieved, done)?;
    // If rates have not settled, a gain below their spread is not significant.
    let wanders = if forecast.simulated.is_settled { 0.0 } else { forecast.simulated.spread };
    let least = shares_from(gains.first().map_or(1.0, |(_, most)| *most)).max(1.0 + wanders);
    let bottleneck = gains.iter().filter(|(_, gain)| *gain >= least).map(|(resource, _)| *resource).collect();
    Ok(Blame { bottleneck, gains })
}

/// The least gain of a bottleneck, where the largest gain is `most`.
fn shares_from(most: f64) -> f64 {
    if most < NAMED_MIN { f64::INFINITY } else { SHARED_MIN.max(1.0 + SHARED_PART_MIN * (most - 1.0)) }
}

/// How much faster than the forecast each cluster is, the fastest first.
fn factors<T>(
    forecast: &Forecast,
    clusters: Vec<(T, Settings)>,
    done: &mut dyn FnMut(usize),
) -> Result<Vec<(T, f64)>, SettingsError> {
    let (names, settings): (Vec<T>, Vec<Settings>) = clusters.into_iter().unzip();
    let rates = rates(&settings, done)?;
    let mut factors: Vec<(T, f64)> =
        names.into_iter().zip(rates.iter().map(|rate| factor(*rate, forecast.simulated.rate))).collect();
    factors.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(factors)
}

/// `rate` as a multiple of `base`; 1 if `base` is 0, when no request was answered and there is nothing to compare with.
fn factor(rate: f64, base: f64) -> f64 {
    if base > 0.0 { rate / base } else { 1.0 }
}

/// Simulates clusters for a comparison, on two threads. `done` receives the number of finished ones.
fn rates(clusters: &[Settings], done: &mut dyn FnMut(usize)) -> Result<Vec<f64>, SettingsError> {
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let rates = Mutex::new(vec![Ok(0.0); clusters.len()]);
    let one = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let settings = clusters.get(at)?;
        let rate = settle(settings, &OF_COMPARISON).map(|settled| settled.rate);
        if let Ok(mut rates) = rates.lock() {
            rates[at] = rate;
        }
        Some(ended.fetch_add(1, Ordering::Relaxed) + 1)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| while one().is_some() {});
        while let Some(count) = one() {
            done(count);
        }
    });
    rates.into_inner().unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
mod tests;
