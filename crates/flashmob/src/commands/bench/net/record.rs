//! The document, with reasons to doubt its figures.

use std::time::Duration;

use flashmob_bench::net::NetError;
use flashmob_host::{device, emulation};
use flashmob_lab::air::{Medium, Profile};
use flashmob_results::cluster::Setting;
use flashmob_results::disk::Spread;
use flashmob_results::net::{Net, Parameters, Path, Point, Protocol, Repetition};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use crate::commands::tell::Begun;
use crate::lab::lateness::is_late;

/// Largest acceptable difference of the fastest and the slowest repetition, as a fraction of the median.
const SPREAD_MAX: f64 = 0.2;
/// Shorter times are mostly TCP's slow start.
const TIME_S_MIN: f64 = 0.9;
/// Least number of requests beyond the 99th percentile.
const SAMPLES_BEYOND_MIN: f64 = 5.0;

/// Facts about the measurement, beside the points.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which parts were real.
    pub setting: Setting,
    /// The server as the user named it.
    pub server: String,
    /// The user's label.
    pub label: Option<String>,
    /// Repetitions asked for at each point.
    pub repeat: u32,
    /// Time omitted at the start of each.
    pub omit: Duration,
    /// Its start.
    pub begun: Begun,
    /// It was interrupted.
    pub interrupted: bool,
}

/// The whole document.
#[must_use]
pub fn document(subject: Subject, rows: Vec<(Parameters, Vec<Repetition>)>, failure: Option<&NetError>) -> Document {
    let points = rows.into_iter().map(|(parameters, repetitions)| {
        let mut point = Point::new(parameters, repetitions);
        point.warnings = of_point(&point, subject.repeat, subject.omit);
        point
    });
    let net = Net { setting: subject.setting, server: subject.server, points: points.collect() };
    let device = device::describe();
    let mut warnings: Vec<Warning> = emulation::doubt(&device).into_iter().collect();
    if subject.setting == Setting::Lab {
        let air = net.points.first().and_then(|p| p.parameters.path.as_ref()).map(|path| format!(" by '{}'", path.air));
        let text =
            format!("modelled: the path{}; these figures do not come from a real network", air.unwrap_or_default());
        warnings.push(Warning::new(Code::Modelled, text));
    }
    if subject.interrupted {
        warnings.push(Warning::new(Code::Interrupted, "stopped early: points or repetitions are missing"));
    }
    if let Some(failure) = failure {
        let text = format!("stopped by an error; points or repetitions are missing: {failure}");
        warnings.push(Warning::new(Code::Interrupted, text));
    }
    let document = subject.begun.document(device, Measurement::Net(net), warnings);
    Document { interrupted: subject.interrupted || failure.is_some(), label: subject.label, ..document }
}

/// Whether a point has fewer valid repetitions than were asked for.
#[must_use]
pub fn is_short(repetitions: &[Repetition], repeat: u32) -> bool {
    repetitions.iter().filter(|r| !r.is_void).count() < repeat as usize
}

/// Warnings about a point, from its figures.
fn of_point(point: &Point, repeat: u32, omit: Duration) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut add = |code, text: String| warnings.push(Warning::new(code, text));
    let (repetitions, summary) = (&point.repetitions, &point.summary);
    // Interrupted ones are void as well, and reported elsewhere.
    let was_late = |r: &&Repetition| r.is_void && r.lateness.as_ref().is_some_and(is_late);
    let late = repetitions.iter().filter(was_late).count();
    // Void ones that were replaced are not in the figures.
    if late > 0 && is_short(repetitions, repeat) {
        let which =
            if late == repetitions.len() { "all".to_string() } else { format!("{late} of {}", repetitions.len()) };
        add(
            Code::Late,
            format!(
                "{which} repetitions are void: the lab was late; stop other programs on this machine and measure again"
            ),
        );
    }
    let main: Option<Spread> =
        summary.requests_per_second.or(summary.up_bits_per_second).or(summary.down_bits_per_second);
    if let Some(spread) = main.filter(|s| summary.repetitions > 1 && s.relative() > SPREAD_MAX) {
        let percent = 100.0 * spread.relative();
        add(
            Code::WideSpread,
            format!("the repetitions differ by {percent:.0} %: stop other users of this path, or run more repetitions"),
        );
    }
    if let Some(shortest) = repetitions.iter().map(|r| r.elapsed_s).filter(|s| *s < TIME_S_MIN).reduce(f64::min) {
        let text = format!("{:.0} ms are mostly TCP's start; use a longer --time or more --bytes", 1000.0 * shortest);
        add(Code::Short, text);
    }
    if let Some(latency) = &summary.latency_ns
        && 0.01 * (latency.count as f64) < SAMPLES_BEYOND_MIN
    {
        let wanted = SAMPLES_BEYOND_MIN / 0.01;
        add(Code::FewSamples, format!("p99 rests on {} requests; it needs at least {wanted:.0}", latency.count));
    }
    let doubtful = repetitions.iter().filter(|r| !r.is_void).find_map(|r| {
        let jitters_ms = r.flows.iter().filter_map(|flow| Some(flow.udp?.jitter_ms));
        let jitter_ms = jitters_ms.reduce(f64::max)?;
        (jitter_ms > jitter_max_ms(r.elapsed_s + omit.as_secs_f64())).then_some(jitter_ms)
    });
    if let Some(jitter_ms) = doubtful {
        let text = format!(
            "a jitter of {jitter_ms:.0} ms is more than a test of this length can have: the clock of an end stepped, or the receiver counts it wrongly; do not use it"
        );
        add(Code::ClockStepped, text);
    }
    if point.parameters.protocol == Protocol::Udp {
        let asked = point.parameters.rate_bits_per_second.unwrap_or(0) as f64 * f64::from(point.parameters.streams);
        let flows = repetitions.iter().filter(|r| !r.is_void).flat_map(|r| &r.flows);
        if let Some(slowest) = flows.map(|f| f.sent_bits_per_second).reduce(f64::min)
            && slowest < 0.95 * asked
        {
            let text = format!(
                "the sender reached {:.0} % of the requested rate: it is too slow for more",
                100.0 * slowest / asked
            );
            add(Code::Changed, text);
        }
    }
    warnings
}

/// The most that RFC 3550's jitter can be after this time, in milliseconds. Each difference of transit times counts a sixteenth, and the sum
/// of all differences is at most the time in which datagrams were sent and the time in which they arrived.
fn jitter_max_ms(elapsed_s: f64) -> f64 {
    1000.0 * 2.0 * elapsed_s / 16.0
}

/// The modelled path of a lab whose air consists of lines, as between a wireless port and a wired one.
#[must_use]
pub fn path(name: &str, air: &Profile) -> Option<Path> {
    match &air.medium {
        Medium::Lines(line) => Some(Path {
            air: name.into(),
            rtt_ms: 2.0 * line.delay_ns as f64 / 1e6,
            loss_percent: f64::from(line.loss_ppm) / 1e4,
            rate_bits_per_second: Some(line.rate_bps),
        }),
        Medium::Ideal { .. } | Medium::Cell(_) => None,
    }
}
