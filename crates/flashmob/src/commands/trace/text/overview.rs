//! Several runs: a row for each.

use flashmob_results::trace::{Layer, Run};

use super::run::losses;
use crate::commands::trace::table::{aligned, number, shortened, time};

/// Characters of a run's name.
const NAME: usize = 24;

pub fn table(text: &mut String, runs: &[Run]) {
    let name = runs.first().map_or("operation", |run| run.operations.name.as_str());
    let header =
        ["run", &format!("{}s", shortened(name, 12)), "per s", "p50", "p99", "unattr. %", "cost %", "", "events"];
    let mut rows = vec![header.map(String::from).to_vec()];
    for run in runs {
        let operations = &run.operations;
        let at = |percent| operations.latency_ns.percentile_ns(percent).map_or("-".into(), |ns| time(ns as f64));
        rows.push(vec![
            shortened(&run.name, NAME),
            operations.count.to_string(),
            number(operations.per_second),
            at(50.0),
            at(99.0),
            format!("{:.1}", 100.0 * operations.unattributed_ns as f64 / operations.total_ns.max(1) as f64),
            run.overhead.as_ref().map_or("-".into(), |overhead| number(overhead.slowdown_percent)),
            if run.warnings.is_empty() { String::new() } else { "!".into() },
            losses(run),
        ]);
    }
    aligned(text, &rows, 1);
    layers(text, runs);
    text.push_str("  'flashmob trace compare' shows which writes differ, 'flashmob report' draws them\n");
}

/// Time of each layer in an operation, in microseconds.
fn layers(text: &mut String, runs: &[Run]) {
    let occurs = |layer: &Layer| runs.iter().any(|run| run.layers.iter().any(|total| total.layer == *layer));
    let layers: Vec<Layer> = Layer::ALL.into_iter().filter(occurs).collect();
    let short = |layer: &Layer| match layer {
        Layer::Application => "program".to_string(),
        Layer::SystemCall => "syscall".to_string(),
        Layer::FileSystem => "fs".to_string(),
        Layer::PageCache => "cache".to_string(),
        Layer::Processor => "cpu".to_string(),
        other => other.name().to_string(),
    };
    let mut rows = vec![std::iter::once("us per operation in".to_string()).chain(layers.iter().map(short)).collect()];
    for run in runs {
        let count = run.operations.count.max(1) as f64;
        let of = |layer: &Layer| run.layers.iter().find(|total| total.layer == *layer);
        let us = layers.iter().map(|layer| of(layer).map_or("-".into(), |t| number(t.time_ns as f64 / count / 1e3)));
        rows.push(std::iter::once(shortened(&run.name, NAME)).chain(us).collect::<Vec<String>>());
    }
    aligned(text, &rows, 1);
}
