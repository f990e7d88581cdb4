//! The document of a cluster's measurement, with reasons to doubt its figures.

use flashmob_host::{device, emulation};
use flashmob_results::cluster::{
    AirModel, Cluster, CopiesModel, FlashModel, Order, Parameters, Point, Repetition, Setting,
};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use super::super::tell::Begun;
use super::Sweep;
use crate::commands::result_args::ResultArgs;
use crate::lab::lateness::is_late;

/// Largest acceptable difference of the fastest and the slowest repetition, as a fraction of the median.
const SPREAD_MAX: f64 = 0.2;
/// Least number of requests beyond a percentile.
const SAMPLES_BEYOND_MIN: f64 = 5.0;
/// Shorter times are mostly start and end.
const TIME_S_MIN: f64 = 0.2;
/// The outstanding requests are answered this many times over, at least: a node that sorts answers them in waves, and one wave more or less within the
/// measured time is otherwise an error of a sixth or more.
const TURNOVERS_MIN: f64 = 6.0;
/// The percentiles that tables show.
const SHOWN_PERCENTILES: [f64; 2] = [50.0, 99.0];

/// Facts about the measurement, beside the points.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which parts were real.
    pub setting: Setting,
    /// The modelled air.
    pub air: Option<AirModel>,
    /// The modelled flash with its limits: [`super::figures::flash_model`].
    pub flash: Option<FlashModel>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// The disk of each node's extent, as [`Cluster`] has it.
    pub disk_ids: Vec<Option<String>>,
    /// The copies of a simulated volume.
    pub copies: Option<CopiesModel>,
    /// Modelled nodes that are weaker than the others.
    pub weak: Option<String>,
    /// The simulated node whose copies are made again.
    pub rebuild: Option<String>,
    /// Warnings about all points.
    pub warnings: Vec<Warning>,
}

/// The whole document.
pub fn document(
    subject: Subject,
    points: Vec<(Parameters, Vec<Repetition>)>,
    sweep: &Sweep,
    begun: Begun,
    interrupted: bool,
    args: &ResultArgs,
) -> Document {
    let Subject { setting, air, flash, extent_bytes, disk_ids, copies, weak, rebuild, warnings } = subject;
    let mut cluster =
        Cluster { setting, air, flash, extent_bytes, disk_ids, copies, weak, rebuild, points: Vec::new() };
    cluster.points = points
        .into_iter()
        .map(|(parameters, repetitions)| {
            let limit = cluster.flash_limit(parameters.block_bytes, parameters.read_percent);
            let mut point = Point::new(parameters, repetitions, limit);
            point.warnings = of_point(&point);
            point
        })
        .collect();
    let device = device::describe();
    // The simulator's virtual time does not depend on the processor.
    let doubt = emulation::doubt(&device).filter(|_| cluster.setting != Setting::Simulator);
    let mut all: Vec<Warning> = doubt.into_iter().collect();
    all.extend(of_whole(&cluster, interrupted));
    all.extend(warnings);
    let document = begun.document(device, Measurement::Cluster(cluster), all);
    Document { interrupted, label: args.label.clone(), seed: sweep.seed, ..document }
}

/// The warning that an error ended it early.
pub fn cut_short(error: &anyhow::Error) -> Warning {
    Warning::new(Code::Interrupted, format!("stopped by an error; points or repetitions are missing: {error:#}"))
}

fn of_whole(cluster: &Cluster, interrupted: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let air = cluster.air.as_ref().map(|air| format!("the air by '{}'", air.profile));
    let flash = cluster.flash.as_ref().map(|flash| format!("the flash by '{}'", flash.profile));
    let parts: Vec<String> = [air, flash].into_iter().flatten().collect();
    let modelled = match cluster.setting {
        Setting::Simulator => {
            Some(format!("simulated in virtual time: {}, TCP and CPUs are modelled", parts.join(", ")))
        }
        _ if parts.is_empty() => None,
        _ => Some(format!("modelled: {}; these figures do not come from real devices", parts.join(" and "))),
    };
    warnings.extend(modelled.map(|text| Warning::new(Code::Modelled, text)));
    if interrupted {
        warnings.push(Warning::new(Code::Interrupted, "stopped early: points or repetitions are missing"));
    }
    if cluster.points.iter().any(|point| point.parameters.no_io) {
        let text = "without I/O: nodes answer without reading or writing, so this measures the network alone";
        warnings.push(Warning::new(Code::Changed, text));
    }
    warnings
}

/// Warnings about a point, from its figures.
fn of_point(point: &Point) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut add = |code, text: String| warnings.push(Warning::new(code, text));
    let repetitions = &point.repetitions;
    // Interrupted ones are void as well, and reported elsewhere.
    let was_late = |r: &&Repetition| r.is_void && r.lateness.as_ref().is_some_and(is_late);
    let late = repetitions.iter().filter(was_late).count();
    if late > 0 {
        let which =
            if late == repetitions.len() { "all".to_string() } else { format!("{late} of {}", repetitions.len()) };
        let text = "the lab was late; stop other programs on this machine, or model fewer nodes or a slower air";
        add(Code::Late, format!("{which} repetitions are void: {text}"));
    }
    let errors: u64 = repetitions.iter().map(|r| r.errors).sum();
    if errors > 0 {
        add(Code::Errors, format!("{errors} requests failed; see the log"));
    }
    let rate = point.summary.requests_per_second;
    if point.summary.repetitions > 1 && rate.relative() > SPREAD_MAX {
        let percent = 100.0 * rate.relative();
        let (min, max) = (rate.min, rate.max);
        let text = format!(
            "the repetitions differ by {percent:.0} %: {min:.0} to {max:.0}/s; stop other programs, or run more repetitions"
        );
        add(Code::WideSpread, text);
    }
    if let Some(shortest) = repetitions.iter().map(|r| r.elapsed_s).filter(|s| *s < TIME_S_MIN).reduce(f64::min) {
        add(Code::Short, format!("{:.0} ms is short; use a longer --time", 1000.0 * shortest));
    }
    let turnover_s = f64::from(point.parameters.outstanding) / rate.median;
    let measured = repetitions.iter().filter(|r| !r.is_void).map(|r| r.elapsed_s).reduce(f64::min);
    // In order of arrival, without I/O, and of requests that come by time, there are no waves.
    let parameters = &point.parameters;
    let has_waves =
        parameters.order != Some(Order::Arrival) && !parameters.no_io && parameters.air_load_percent.is_none();
    let is_few = |s: &f64| has_waves && *s >= TIME_S_MIN && turnover_s.is_finite() && *s < TURNOVERS_MIN * turnover_s;
    if let Some(measured_s) = measured.filter(is_few) {
        let text = format!(
            "the {} outstanding requests were answered {:.1} times over in {measured_s:.2} s, so that one wave of answers more or less changes the rate by a sixth or more; \
             use a --time of {:.0} s or more, or fewer --outstanding",
            point.parameters.outstanding,
            measured_s / turnover_s,
            (TURNOVERS_MIN * turnover_s).ceil()
        );
        add(Code::Short, text);
    }
    let count = point.summary.latency_ns.count;
    let is_thin = |p: &f64| (1.0 - p / 100.0) * (count as f64) < SAMPLES_BEYOND_MIN;
    if count == 0 {
        let text =
            "no request completed in the measured time; use a longer --time, fewer --outstanding, or smaller blocks";
        add(Code::FewSamples, text.to_string());
    } else if let Some(percentile) = SHOWN_PERCENTILES.into_iter().find(is_thin) {
        let wanted = (SAMPLES_BEYOND_MIN / (1.0 - percentile / 100.0)).ceil();
        add(Code::FewSamples, format!("p{percentile} rests on {count} requests; it needs at least {wanted:.0}"));
    }
    warnings
}
