//! The command line that measures a cluster again.

use std::collections::BTreeSet;

use flashmob_results::cluster::{Attachment, Batch, Cluster, Parameters, Point, Setting};

use super::{quoted, size};
use crate::entry::Entry;
use crate::sweep;

/// Requests outstanding for each node unless the command line says otherwise, at least.
const OUTSTANDING_MIN: u32 = 256;

/// One command for each part that one run can measure: all combinations of its lists, and no others.
pub(super) fn lines(entry: &Entry, cluster: &Cluster) -> Vec<String> {
    let mut parts: Vec<Part> = Vec::new();
    for point in &cluster.points {
        let common = Common::of(&point.parameters);
        let part = match parts.iter().position(|p| p.common == common && p.batches == [point.parameters.batch]) {
            Some(at) => &mut parts[at],
            None => {
                parts.push(Part { common, batches: vec![point.parameters.batch], ..Part::default() });
                let last = parts.len() - 1;
                &mut parts[last]
            }
        };
        part.nodes.insert(point.parameters.nodes);
        part.links.insert(point.parameters.links);
        part.measure(point);
    }
    // What was measured with the same nodes and links is one sweep over batches.
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        let same =
            |other: &&mut Part| other.common == part.common && other.nodes == part.nodes && other.links == part.links;
        match joined.iter_mut().find(same) {
            Some(other) => other.batches.extend(part.batches),
            None => joined.push(part),
        }
    }
    joined.iter_mut().for_each(|part| part.batches.sort_by_key(|batch| sweep::order(*batch)));
    joined.iter().filter_map(|part| part.line(entry, cluster)).collect()
}

/// What a run has one value of.
#[derive(Clone, Debug, Default, PartialEq)]
struct Common {
    block_bytes: u32,
    read_percent: f64,
    no_io: bool,
    /// If it is another than the command line's own.
    outstanding: Option<u32>,
}

impl Common {
    fn of(p: &Parameters) -> Common {
        let held = match p.batch {
            Batch::Auto => 0,
            Batch::Fixed(k) => u32::from(k).saturating_mul(p.links).saturating_mul(2),
        };
        let usual = p.nodes.saturating_mul(held.max(OUTSTANDING_MIN));
        Common {
            block_bytes: p.block_bytes,
            read_percent: p.read_percent,
            no_io: p.no_io,
            outstanding: (p.outstanding != usual).then_some(p.outstanding),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Part {
    common: Common,
    nodes: BTreeSet<u32>,
    links: BTreeSet<u32>,
    batches: Vec<Batch>,
    repeat: usize,
    time_s: f64,
}

impl Part {
    fn measure(&mut self, point: &Point) {
        self.repeat = self.repeat.max(point.repetitions.len());
        let longest = point.repetitions.iter().map(|r| r.elapsed_s).filter(|s| s.is_finite());
        self.time_s = longest.fold(self.time_s, f64::max);
    }

    fn line(&self, entry: &Entry, cluster: &Cluster) -> Option<String> {
        let sweep = self.sweep(entry)?;
        Some(match cluster.setting {
            Setting::Network => {
                let no_io = if self.common.no_io { " --no-io" } else { "" };
                format!("flashmob bench cluster --config FILE --seed {}{no_io} {sweep}", entry.document.seed)
            }
            Setting::Simulator => format!("flashmob simulate {sweep} {}", self.model(entry, cluster)?),
            Setting::Lab => {
                let nodes = self.nodes.last()?;
                let no_io = if self.common.no_io { " --no-io" } else { "" };
                let inside = format!("flashmob bench cluster --seed {}{no_io} {sweep}", entry.document.seed);
                format!("flashmob lab run --nodes {nodes} {} -- {inside}", self.model(entry, cluster)?)
            }
        })
    }

    fn sweep(&self, entry: &Entry) -> Option<String> {
        let list = |values: Vec<String>| values.join(",");
        let mut words = vec![
            format!("--nodes {}", list(self.nodes.iter().map(u32::to_string).collect())),
            format!("--links {}", list(self.links.iter().map(u32::to_string).collect())),
            format!("--batch {}", list(self.batches.iter().map(Batch::to_string).collect())),
            format!("--block-size {}", size(u64::from(self.common.block_bytes))),
            format!("--read-percent {}", self.common.read_percent),
        ];
        words.extend(self.common.outstanding.map(|all| format!("--outstanding-total {all}")));
        // Repetitions end with the answer that was due: hundredths are enough.
        words.push(format!("--time {}", (self.time_s * 100.0).round().max(1.0) / 100.0));
        words.push(format!("--repeat {}", self.repeat.max(1)));
        if let Some(label) = &entry.document.label {
            words.push(format!("--label={}", quoted(label)?));
        }
        Some(words.join(" "))
    }

    fn model(&self, entry: &Entry, cluster: &Cluster) -> Option<String> {
        let mut words = Vec::new();
        if let Some(air) = &cluster.air {
            words.push(format!("--air {}", quoted(&air.profile)?));
            let attached = match air.gateway {
                Attachment::Wireless => "wireless",
                Attachment::Wired => "wired",
            };
            words.push(format!("--gateway {attached}"));
        }
        if let Some(flash) = &cluster.flash {
            words.push(format!("--flash {}", quoted(&flash.profile)?));
        }
        words.push(format!("--extent {} --seed {}", extent(cluster.extent_bytes), entry.document.seed));
        if self.common.no_io {
            words.push("--no-io".into());
        }
        Some(words.join(" "))
    }
}

/// P1's extents are of whole gigabytes.
fn extent(bytes: u64) -> String {
    const GB: u64 = 1_000_000_000;
    if bytes > 0 && bytes.is_multiple_of(GB) { format!("{}GB", bytes / GB) } else { size(bytes) }
}
