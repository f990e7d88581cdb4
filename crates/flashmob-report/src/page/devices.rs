//! The devices side by side.

use flashmob_results::device::Device;
use flashmob_results::disk::Point;
use maud::Markup;

use crate::entry::{Entry, Medium};
use crate::words;

type Row = (&'static str, fn(&Entry) -> Option<String>);

const ROWS: [Row; 20] = [
    ("Model", |e| device(e)?.model.clone()),
    ("System", |e| device(e)?.system.clone()),
    ("Kernel", |e| device(e)?.kernel.clone()),
    ("Processor", |e| device(e)?.cpu.clone()),
    ("Architecture", |e| device(e)?.architecture.clone()),
    ("Emulated by", |e| e.document.device.emulated.clone()),
    ("Processors", |e| Some(device(e)?.cpus.to_string())),
    ("Memory", |e| device(e)?.memory_bytes.map(words::bytes)),
    ("Medium", medium),
    ("The model ran on", |e| e.document.is_modelled().then(|| super::host(e).unwrap_or_default())),
    ("Disk", |e| e.file().and_then(|f| f.place.disk_model.clone().or_else(|| f.place.disk.clone()))),
    ("Size of the disk", |e| e.file().and_then(|f| f.place.disk_bytes).map(words::bytes)),
    ("File system", |e| e.file().and_then(|f| f.place.filesystem.clone())),
    ("Scheduler", |e| e.file().and_then(|f| f.place.scheduler.clone())),
    ("Readahead", |e| e.file().and_then(|f| f.place.readahead_bytes).map(words::bytes)),
    ("File", |e| e.file().map(|f| f.size_bytes).or(e.model().map(|m| m.size_bytes)).map(words::bytes)),
    ("Random 4 KiB reads, 1 thread", |e| e.one_thread().map(rate)),
    ("Latency of these", |e| words::p50_and_p99(&e.one_thread()?.summary.latency_ns)),
    ("Most random reads/s", |e| best(e).map(|p| format!("{} ({})", rate(p), words::parameters(&p.parameters)))),
    ("Warnings", |e| Some((e.document.warnings.len() + e.point_warnings().len()).to_string())),
];

pub fn section(entries: &[Entry]) -> Markup {
    let of: Vec<&Entry> = entries.iter().filter(|e| e.is_device()).collect();
    let rows = ROWS.iter().map(|(name, value)| (*name, of.iter().map(|entry| value(entry)).collect()));
    super::side_by_side("Devices side by side", &of, rows)
}

/// The measured device; `None` if it was modelled.
fn device(entry: &Entry) -> Option<&Device> {
    (!entry.document.is_modelled()).then_some(&entry.document.device)
}

fn medium(entry: &Entry) -> Option<String> {
    if let Some(model) = entry.model() {
        return Some(format!("modelled, {}: {}", model.profile, model.description));
    }
    match entry.medium() {
        Medium::Flash => Some("not rotating (reported by the kernel)".into()),
        Medium::Rotational => Some("rotating (reported by the kernel)".into()),
        Medium::Unknown if entry.is_virtual() => Some("virtual: the real medium is unknown".into()),
        Medium::Unknown => None,
    }
}

fn best(entry: &Entry) -> Option<&Point> {
    let points = entry.random_reads().into_iter().flat_map(|(_, points)| points);
    points.max_by(|a, b| a.summary.requests_per_second.median.total_cmp(&b.summary.requests_per_second.median))
}

fn rate(point: &Point) -> String {
    format!("{}/s", words::number(point.summary.requests_per_second.median))
}
