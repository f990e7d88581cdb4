//! What was measured, as it is written: for people, for programs, and as a picture. The JSON's form is published in
//! `schema/bench-peers-1.json`.

pub mod figure;
pub mod markdown;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measure::Sample;
use crate::rows::{Class, Group, Path, Row};
use crate::stats::{Best, Spread, ratios};
use crate::targets::{GATEWAY_BYTES_MAX, Metric, NODE_BYTES_MAX, TARGETS};

/// Name of the format.
pub const FORMAT: &str = "flashmob-bench-peers";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;
/// Rounds that differ by more than this factor make a row doubtful.
const SPREAD_MAX: f64 = 1.5;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    pub format: &'static str,
    pub format_version: u32,
    pub header: Header,
    pub rows: Vec<RowReport>,
    pub targets: Vec<TargetReport>,
    pub not_measured: Vec<NotMeasured>,
    pub notes: Vec<String>,
}

/// Where and how.
#[derive(Debug, Serialize)]
pub struct Header {
    pub cpu: String,
    pub cpus: usize,
    pub kernel: String,
    pub memory_available_bytes: u64,
    pub file_bytes: u64,
    pub write_bytes: u64,
    pub redis_bytes: u64,
    pub pages_locked: bool,
    pub rounds: u32,
    pub seconds_per_row: f64,
    pub quick: bool,
    pub flashmob: String,
    pub against: Option<String>,
    /// Program and what it says about itself.
    pub versions: BTreeMap<String, String>,
}

/// A row over all rounds.
#[derive(Debug, Serialize)]
pub struct RowReport {
    pub id: String,
    pub group: Group,
    pub class: Class,
    pub path: Path,
    pub name: String,
    /// Calls or connections that were found to be best, where that was open.
    pub width: Option<usize>,
    pub per_second: SpreadReport,
    pub bytes_per_second_median: f64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub client_cpu_us: Option<f64>,
    pub front_cpu_us: f64,
    pub back_cpu_us: f64,
    pub segments_per_request: Option<f64>,
    pub front_system_calls: Option<f64>,
    pub back_system_calls: Option<f64>,
    pub front_rss_anon_bytes: u64,
    pub front_rss_file_bytes: u64,
    pub back_rss_anon_bytes: u64,
    pub back_rss_file_bytes: u64,
    pub verified_bytes: u64,
    /// To the best peer over the same path, the median of the rounds' ratios.
    pub to_best_peer: Option<f64>,
    /// To the bare loop.
    pub to_pread: Option<f64>,
    pub spread_is_wide: bool,
    /// Every round; null where it failed.
    pub rounds: Vec<Option<Sample>>,
}

/// Median, least and greatest.
#[derive(Debug, Serialize)]
pub struct SpreadReport {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// A goal and what became of it.
#[derive(Debug, Serialize)]
pub struct TargetReport {
    pub path: String,
    pub measure: String,
    pub at_least: f64,
    pub aim: f64,
    /// Latencies and memory shall be below the bounds.
    pub lower_is_better: bool,
    pub ratio: Option<SpreadReport>,
    pub reaches_at_least: Option<bool>,
    pub reaches_aim: Option<bool>,
}

/// A row that there are no figures of.
#[derive(Debug, Clone, Serialize)]
pub struct NotMeasured {
    pub id: String,
    pub name: String,
    pub reason: String,
}

impl From<Spread> for SpreadReport {
    fn from(spread: Spread) -> SpreadReport {
        SpreadReport { median: spread.median, min: spread.min, max: spread.max }
    }
}

/// What was measured of the rows, round by round.
pub struct Results {
    pub rows: Vec<Row>,
    /// By row's id, per round.
    pub samples: BTreeMap<String, Vec<Option<Sample>>>,
    pub widths: BTreeMap<String, usize>,
    /// By row's id: the front's and the back's per request.
    pub system_calls: BTreeMap<String, (f64, Option<f64>)>,
}

fn value(sample: &Sample, metric: Metric) -> Option<f64> {
    match metric {
        Metric::PerSecond => Some(sample.per_second),
        Metric::BytesPerSecond => Some(sample.bytes_per_second),
        Metric::P50 => sample.p50_us,
        Metric::P99 => sample.p99_us,
    }
}

impl Results {
    fn metric(&self, id: &str, metric: Metric) -> Vec<Option<f64>> {
        let samples = self.samples.get(id).map_or(&[][..], Vec::as_slice);
        samples.iter().map(|sample| sample.as_ref().and_then(|sample| value(sample, metric))).collect()
    }

    fn ratio(&self, ours: &str, others: &[&str], metric: Metric, best: Best) -> Option<Spread> {
        let ours = self.metric(ours, metric);
        let others: Vec<Vec<Option<f64>>> = others.iter().map(|id| self.metric(id, metric)).collect();
        let others: Vec<&[Option<f64>]> = others.iter().map(Vec::as_slice).collect();
        Spread::of(&ratios(&ours, &others, best))
    }

    /// The rows that were measured at least once.
    pub fn row_reports(&self) -> Vec<RowReport> {
        self.rows.iter().filter_map(|row| self.row_report(row)).collect()
    }

    fn row_report(&self, row: &Row) -> Option<RowReport> {
        let rounds = self.samples.get(&row.id)?;
        let samples: Vec<&Sample> = rounds.iter().flatten().collect();
        let median = |of: &dyn Fn(&Sample) -> Option<f64>| {
            Spread::of(&samples.iter().filter_map(|sample| of(sample)).collect::<Vec<_>>()).map(|spread| spread.median)
        };
        let per_second = Spread::of(&samples.iter().map(|sample| sample.per_second).collect::<Vec<_>>())?;
        let greatest = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample)).max().unwrap_or(0);
        let latency = matches!(row.group, Group::Latency | Group::Fairness);
        let (metric, best) = if latency { (Metric::P50, Best::Least) } else { (Metric::PerSecond, Best::Most) };
        let peers: Vec<&str> = self
            .rows
            .iter()
            .filter(|other| other.group == row.group && other.path == row.path && other.class == Class::Peer)
            .map(|other| other.id.as_str())
            .collect();
        let compared = row.class == Class::Ours && !matches!(row.group, Group::Fairness | Group::Copies);
        let pread = format!("{}/pread", row.group.key());
        let ratio = |others: &[&str]| self.ratio(&row.id, others, metric, best).map(|spread| spread.median);
        let calls = self.system_calls.get(&row.id);
        Some(RowReport {
            id: row.id.clone(),
            group: row.group,
            class: row.class,
            path: row.path,
            name: row.name.clone(),
            width: self.widths.get(&row.id).copied(),
            spread_is_wide: per_second.factor() > SPREAD_MAX,
            per_second: per_second.into(),
            bytes_per_second_median: median(&|sample| Some(sample.bytes_per_second)).unwrap_or(0.0),
            p50_us: median(&|sample| sample.p50_us),
            p99_us: median(&|sample| sample.p99_us),
            client_cpu_us: median(&|sample| sample.client_cpu_us),
            front_cpu_us: median(&|sample| Some(sample.front_cpu_us)).unwrap_or(0.0),
            back_cpu_us: median(&|sample| Some(sample.back_cpu_us)).unwrap_or(0.0),
            segments_per_request: median(&|sample| sample.segments_per_request),
            front_system_calls: calls.map(|calls| calls.0),
            back_system_calls: calls.and_then(|calls| calls.1),
            front_rss_anon_bytes: greatest(|sample| sample.front_rss.anon_bytes),
            front_rss_file_bytes: greatest(|sample| sample.front_rss.file_bytes),
            back_rss_anon_bytes: greatest(|sample| sample.back_rss.anon_bytes),
            back_rss_file_bytes: greatest(|sample| sample.back_rss.file_bytes),
            verified_bytes: samples.iter().map(|sample| sample.verified_bytes).sum(),
            to_best_peer: if compared { ratio(&peers) } else { None },
            to_pread: ratio(&[&pread]),
            rounds: rounds.clone(),
        })
    }

    /// What became of the goals.
    pub fn target_reports(&self) -> Vec<TargetReport> {
        let mut reports = Vec::new();
        for target in TARGETS {
            let ratio = self.ratio(target.ours, target.others, target.metric, target.best());
            let reaches = |bound| ratio.map(|ratio| target.reaches(ratio.median, bound));
            reports.push(TargetReport {
                path: target.path.to_string(),
                measure: target.measure.to_string(),
                at_least: target.at_least,
                aim: target.aim,
                lower_is_better: target.best() == Best::Least,
                reaches_at_least: reaches(target.at_least),
                reaches_aim: reaches(target.aim),
                ratio: ratio.map(SpreadReport::from),
            });
        }
        // A gateway's limit holds for every load, so the greatest of all counts.
        let rows = self.row_reports();
        let ours = |path: Path| rows.iter().filter(move |row| row.class == Class::Ours && row.path == path);
        let gateway = ours(Path::TwoHops).map(|row| row.front_rss_anon_bytes).max();
        let node = ours(Path::TwoHops).chain(ours(Path::Native)).map(|row| row.back_rss_anon_bytes).max();
        reports.push(memory("gateway, as a fraction of 192 MiB", gateway, GATEWAY_BYTES_MAX));
        reports.push(memory("the largest node, as a fraction of 64 MiB", node, NODE_BYTES_MAX));
        reports
    }
}

fn memory(measure: &str, bytes: Option<u64>, limit: u64) -> TargetReport {
    let ratio = bytes.map(|bytes| bytes as f64 / limit as f64);
    TargetReport {
        path: "memory of its own (RssAnon), greatest of all rows".to_string(),
        measure: measure.to_string(),
        at_least: 1.0,
        aim: 0.5,
        lower_is_better: true,
        reaches_at_least: ratio.map(|ratio| ratio <= 1.0),
        reaches_aim: ratio.map(|ratio| ratio <= 0.5),
        ratio: ratio.map(|ratio| SpreadReport { median: ratio, min: ratio, max: ratio }),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
