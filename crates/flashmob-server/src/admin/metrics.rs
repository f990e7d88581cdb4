//! `/metrics`: a [`Report`] as Prometheus's text (version 0.0.4) or as OpenMetrics (1.0.0).
//!
//! Names follow Prometheus's rules: base units, the unit last, `_total` for counters. Counters of gateway, links and node come from their
//! tables ([`flashmob_core::counters`]); `series.rs` lists the rest. Nothing is kept from one scrape to the next. prometheus-client writes
//! and escapes; it knows OpenMetrics alone, and `Sheet::family` is where the two forms differ.

mod series;
#[cfg(test)]
pub(crate) mod strict;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use flashmob_core::counters::Counter;
use flashmob_core::gateway::{CopiesCounters, GatewayCounters, LinkCounters};
use flashmob_core::node::NodeCounters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use self::series::{
    CONDITION, COPIES, EXTENT, GATEWAY, Kind, LINK, Labels, MODEL, NODE, PATH, PROCESS, SUMS, Series, TCP, VOLUME,
    Value,
};
use crate::status::report::{Report, StageReport};

/// The format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own, which every tool reads.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The whole text for one scrape.
///
/// # Errors
/// None is known: the text goes to memory and every value is made fit beforehand.
pub fn render(report: &Arc<Report>, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { report: report.clone(), format }));
    let mut page = String::new();
    match format {
        Format::Prometheus => text::encode_registry(&mut page, &registry)?,
        Format::OpenMetrics => text::encode(&mut page, &registry)?,
    }
    Ok(page)
}

#[derive(Debug)]
struct Scrape {
    report: Arc<Report>,
    format: Format,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet { encoder, format: self.format };
        let report = &*self.report;
        sheet.families("", PROCESS, &[(vec![], report)])?;
        sheet.stages(&report.stages)?;
        if let Some(gateway) = &report.gateway {
            sheet.families("", GATEWAY, &[(vec![], gateway)])?;
            sheet.counters("flashmob_gateway", GatewayCounters::TABLE, &[(vec![], &gateway.counters)])?;
            let volumes: Vec<_> = gateway.volumes.iter().map(|v| (vec![("volume", &*v.name)], v)).collect();
            sheet.families("", VOLUME, &volumes)?;
            let copies = part(&volumes, |volume| volume.copies.as_ref());
            sheet.families("", COPIES, &copies)?;
            sheet.counters(
                "flashmob_copies",
                CopiesCounters::TABLE,
                &part(&copies, |copies| Some(&copies.counters)),
            )?;
            let nodes: Vec<_> = volumes
                .iter()
                .flat_map(|(labels, v)| v.present().map(|n| (with(labels, "node", &n.name), n)))
                .collect();
            sheet.families("", NODE, &nodes)?;
            sheet.families("flashmob_node_", CONDITION, &part(&nodes, |n| n.condition.as_ref()))?;
            let numbers: Vec<String> =
                nodes.iter().flat_map(|(_, n)| &n.links).map(|link| link.number.to_string()).collect();
            let links: Vec<_> = nodes
                .iter()
                .flat_map(|(labels, n)| n.links.iter().map(move |link| (labels, link)))
                .zip(&numbers)
                .map(|((labels, link), number)| (with(labels, "link", number), link))
                .collect();
            sheet.families("", LINK, &links)?;
            sheet.families("", TCP, &part(&links, |link| link.tcp.as_ref()))?;
            sheet.families("", PATH, &part(&links, |link| link.path.as_ref()))?;
            sheet.counters("flashmob_link", LinkCounters::TABLE, &part(&links, |link| Some(&link.counters)))?;
        }
        if let Some(node) = &report.node {
            sheet.families("", EXTENT, &[(vec![], node)])?;
            sheet.families("flashmob_extent_", CONDITION, &[(vec![], &node.condition)])?;
            sheet.families("", MODEL, &part(&[(vec![], node)], |node| node.model.as_ref()))?;
            sheet.families("", SUMS, &part(&[(vec![], node)], |node| node.sums.as_ref()))?;
            sheet.counters("flashmob_extent", NodeCounters::TABLE, &[(vec![], &node.counters)])?;
        }
        Ok(())
    }
}

fn with<'a>(labels: &Labels<'a>, name: &'static str, value: &'a str) -> Labels<'a> {
    labels.iter().copied().chain([(name, value)]).collect()
}

/// A part of each item that has it, under the item's labels.
fn part<'a, T, P>(items: &[(Labels<'a>, &'a T)], of: fn(&'a T) -> Option<&'a P>) -> Vec<(Labels<'a>, &'a P)> {
    items.iter().filter_map(|(labels, item)| Some((labels.clone(), of(item)?))).collect()
}

/// The text being written.
struct Sheet<'a> {
    encoder: DescriptorEncoder<'a>,
    format: Format,
}

impl Sheet<'_> {
    /// Every series for every item, with `prefix` before its name.
    fn families<T>(&mut self, prefix: &str, all: &[Series<T>], items: &[(Labels<'_>, &T)]) -> fmt::Result {
        all.iter().try_for_each(|series| {
            let samples = items.iter().flat_map(|(labels, item)| {
                let points = (series.points)(item).into_iter();
                points.map(|(more, value)| (labels.iter().copied().chain(more).collect(), value))
            });
            self.family(series.kind, &format!("{prefix}{}", series.name), series.help, samples.collect())
        })
    }

    /// Every counter of a table for every item, under names with this prefix.
    fn counters<T>(&mut self, prefix: &str, table: &[Counter<T>], items: &[(Labels<'_>, &T)]) -> fmt::Result {
        let name = |counter: &Counter<T>| counter.metric.split('/').next().unwrap_or_default();
        for same in table.chunk_by(|a, b| name(a) == name(b)).filter(|same| !name(&same[0]).is_empty()) {
            let samples = items.iter().flat_map(|(labels, item)| {
                same.iter().map(move |counter| {
                    let direction = counter.metric.split_once('/').map(|(_, direction)| ("direction", direction));
                    let labels = labels.iter().copied().chain(direction).collect();
                    (labels, Value::Whole((counter.value)(item)))
                })
            });
            let full_name = format!("{prefix}_{}_total", name(&same[0]));
            self.family(Kind::Counter, &full_name, same[0].help, samples.collect())?;
        }
        Ok(())
    }

    /// All samples of a name must stand together.
    fn family(&mut self, kind: Kind, name: &str, help: &str, mut samples: Vec<(Labels<'_>, Value)>) -> fmt::Result {
        samples.retain(|(_, value)| value.is_finite());
        if samples.is_empty() {
            return Ok(());
        }
        // The encoder writes a gauge under its name without a suffix.
        let suffixed = kind == Kind::Counter && self.format == Format::OpenMetrics;
        // OpenMetrics names the family without the suffix that its samples have.
        let name = if suffixed { name.strip_suffix("_total").unwrap_or(name) } else { name };
        let kind = if kind == Kind::Gauge { MetricType::Gauge } else { MetricType::Counter };
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in &samples {
            match &labels[..] {
                [] => encode(&mut family, *value, suffixed)?,
                _ => encode(&mut family.encode_family(labels)?, *value, suffixed)?,
            }
        }
        Ok(())
    }

    fn stages(&mut self, stages: &[StageReport]) -> fmt::Result {
        if stages.is_empty() {
            return Ok(());
        }
        let help = "Time of requests (gateway) or pieces (node) from the previous stage to this one; total is from the first to the last";
        let mut family = self.encoder.encode_descriptor("flashmob_stage_seconds", help, None, MetricType::Histogram)?;
        for stage in stages {
            let labels = [("stage", &*stage.name)];
            let mut sample = family.encode_family(&labels)?;
            sample.encode_histogram::<NoLabelSet>(finite(stage.sum_seconds), stage.count, &cells(stage), None)?;
        }
        Ok(())
    }
}

/// Buckets as the encoder wants them: each with what fell into it alone, and the one without a bound.
fn cells(stage: &StageReport) -> Vec<(f64, u64)> {
    let (mut cells, mut below, mut bound) = (Vec::with_capacity(stage.buckets.len() + 1), 0, f64::NEG_INFINITY);
    for &(upper, cumulative) in &stage.buckets {
        if upper.is_finite() && upper > bound {
            let cumulative = cumulative.clamp(below, stage.count.max(below));
            cells.push((upper, cumulative - below));
            (below, bound) = (cumulative, upper);
        }
    }
    cells.push((f64::INFINITY, stage.count.saturating_sub(below)));
    cells
}

fn encode(sample: &mut MetricEncoder<'_>, value: Value, suffixed: bool) -> fmt::Result {
    match (value, suffixed) {
        (Value::Whole(n), true) => sample.encode_counter::<NoLabelSet, u64, f64>(&n, None),
        (Value::Real(x), true) => sample.encode_counter::<NoLabelSet, f64, f64>(&x, None),
        // The encoder refuses more than 63 bits.
        (Value::Whole(n), false) => sample.encode_gauge(&i64::try_from(n).unwrap_or(i64::MAX)),
        (Value::Real(x), false) => sample.encode_gauge(&x),
    }
}

fn finite(x: f64) -> f64 {
    if x.is_finite() { x } else { 0.0 }
}
