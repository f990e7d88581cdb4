//! Traces: operations' time by layers, durations of operations over time (P5's phases), and the
//! driver's view of P3's figure 4, for traces and for measurements of disks.
//!
//! - `driver`: steps of addresses against service times

mod driver;

use flashmob_results::trace::{Layer, Run};

use super::{Figures, Place, Section};
use crate::entry::Entry;
use crate::figure::axes::Scale;
use crate::figure::stacks::{Stack, Stacks};
use crate::figure::timeline::hue;
use crate::figure::traces::{Kind, Trace, Traces};
use crate::words;

pub(super) use driver::section as driver;

/// Runs whose durations are drawn.
const RUNS_MAX: usize = 12;
/// Bars of one figure.
const STACKS_MAX: usize = 24;

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    vec![stacks(entries), durations(entries)]
}

/// One figure for each result: its runs side by side.
fn stacks(entries: &[Entry]) -> Section {
    let mut figures = Figures::new();
    for entry in entries {
        let Some(trace) = entry.trace() else { continue };
        let runs: Vec<&Run> = trace.runs.iter().filter(|run| run.operations.count > 0).take(STACKS_MAX).collect();
        if runs.is_empty() {
            continue;
        }
        let of = |run: &&Run| {
            let count = run.operations.count as f64;
            let mut values: Vec<(usize, f64)> =
                run.layers.iter().map(|total| (total.layer as usize, total.time_ns as f64 / count / 1e3)).collect();
            values.push((Layer::ALL.len(), run.operations.unattributed_ns as f64 / count / 1e3));
            Stack { name: words::plain(&run.name, 34), values }
        };
        let mut parts: Vec<(String, Option<usize>)> =
            Layer::ALL.into_iter().map(|layer| (layer.name().to_string(), Some(hue(layer)))).collect();
        parts.push(("unattributed".into(), None));
        let stacks: Vec<Stack> = runs.iter().map(of).collect();
        let sum = |stack: &Stack| stack.values.iter().map(|(_, value)| value).sum::<f64>();
        let totals: Vec<String> = stacks.iter().map(|s| format!("{} {} us", s.name, words::number(sum(s)))).collect();
        let figure = Stacks {
            title: format!("{}: time of an operation by layers", entry.name),
            description: format!("Bars: {}.", words::plain(&totals.join("; "), 600)),
            caption: "At every moment the time belongs to the lowest layer at work.".into(),
            x_title: "microseconds of an operation, on average".into(),
            parts,
            stacks,
        };
        figures.push((entry.name.clone(), Box::new(move |nth| figure.draw(nth))));
    }
    Section {
        place: Place::BEYOND,
        heading: "Where the time goes",
        words: "What a setting saves is missing from its bar.",
        figures,
        command: "flashmob trace sqlite --save FILE",
    }
}

fn durations(entries: &[Entry]) -> Section {
    let mut figures = Figures::new();
    let runs = entries
        .iter()
        .flat_map(|entry| entry.trace().into_iter().flat_map(move |t| t.runs.iter().map(move |r| (entry, r))));
    for (entry, run) in runs.take(RUNS_MAX) {
        let all = run.operations.begins_s.iter().zip(&run.operations.durations_ms);
        let is_sound = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0;
        let points: Vec<(f64, f64)> = all.map(|(x, y)| (*x, *y)).filter(is_sound).collect();
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
        if points.len() < 2 {
            continue;
        }
        let name = format!("{} · {}", entry.name, words::plain(&run.name, 40));
        let typical =
            words::p50_and_p99(&run.operations.latency_ns).map_or(String::new(), |times| format!(" {times}."));
        let figure = Traces {
            title: format!("{name}: durations of operations over time"),
            description: format!("Durations of {}.{typical}", words::plural(points.len() as u64, "operation")),
            caption: format!("Each dot an operation, of {}.{typical}", words::count(run.operations.count)),
            y_title: "ms of an operation".into(),
            x_title: "time, s".into(),
            across: Scale::linear(most(|p| p.0)),
            scale: Scale::linear(most(|p| p.1)),
            traces: vec![Trace { name: String::new(), look: 0, kind: Kind::Dots, points }],
        };
        figures.push((name, Box::new(move |nth| figure.draw(nth))));
    }
    Section {
        place: Place::BEYOND,
        heading: "Operations over time",
        words: "P5: dense and sparse phases show as bands and steps.",
        figures,
        command: "",
    }
}
