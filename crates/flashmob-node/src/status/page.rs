//! A report as a page of text.

use flashmob_core::units::Bytes;

use super::units::{bytes, count, mean, printable, seconds, shortened, uptime, wrapped};
use super::units::{held_up, left};
use super::{devices, paths};
use flashmob_server::status::report::{
    CopiesReport, GatewayReport, KeysReport, LinkReport, ModelReport, NodeOfVolume, NodeReport, Report, StageReport,
    TcpReport, VolumeReport,
};
use flashmob_text::Side::{Left, Right};
use flashmob_text::{Colour, Row, Table};

/// Columns of a page.
pub(super) const WIDTH: usize = 120;
/// Maximum width of a text of unknown length within a line.
const NAME_WIDTH: usize = 80;

/// The summary of a report, in at most [`WIDTH`] columns.
pub(super) fn page(report: &Report, colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    page.lines(&header(report));
    for warning in &report.warnings {
        page.note("warning", Colour::Bad, warning);
    }
    page.line("");
    if let Some(gateway) = &report.gateway {
        page.pairs(&gateway_pairs(gateway, report));
        gateway.volumes.iter().for_each(|volume| page.volume(volume));
        page.line(LEGEND);
        if gateway.volumes.iter().any(|volume| paths::of_volume(volume).is_some()) {
            page.line(paths::LEGEND);
        }
    }
    if let Some(node) = &report.node {
        page.pairs(&node_pairs(node, report));
        page.below(paths::of_node(node));
    }
    page.stages(&report.stages);
    page.text
}

fn header(report: &Report) -> String {
    let size = |bytes: Option<u64>| bytes.map_or("of unknown size".to_string(), |n| format!("of {}", Bytes(n)));
    let (kind, what) = match (&report.gateway, &report.node) {
        (Some(gateway), _) => match &gateway.volumes[..] {
            [volume] => (" gateway", format!(", volume {} {}", name(&volume.name), size(volume.size_bytes))),
            volumes => {
                let total = volumes.iter().try_fold(0u64, |sum, v| Some(sum.saturating_add(v.size_bytes?)));
                (" gateway", format!(", {} volumes {}", volumes.len(), size(total)))
            }
        },
        (None, Some(node)) => (" node", format!(", extent {}", size(Some(node.size_bytes)))),
        (None, None) => ("", String::new()),
    };
    format!("flashmob {}{kind}, up {}{what}", name(&report.version), uptime(report.uptime_seconds))
}

fn name(text: &str) -> String {
    shortened(&printable(text), NAME_WIDTH)
}

type Pairs = Vec<(&'static str, String)>;

fn memory(report: &Report) -> (&'static str, String) {
    let m = &report.memory;
    ("memory", format!("{} of {}, peak {}", Bytes(m.used_bytes), Bytes(m.limit_bytes), Bytes(m.peak_bytes)))
}

fn keys_pair(keys: &KeysReport) -> (&'static str, String) {
    let short: String = keys.cluster.chars().take(16).collect();
    ("keys", format!("links are encrypted; cluster {}, generation {}", name(&short), keys.generation))
}

fn gateway_pairs(g: &GatewayReport, report: &Report) -> Pairs {
    let by_op: Vec<_> = g.requests.iter().map(|(op, n)| format!("{} {}", name(op), count(*n))).collect();
    let others = [
        ("clients", format!("{}; dropped for protocol errors: {}", g.clients, count(g.counters.client_errors))),
        ("requests", format!("{}; {} in progress", by_op.join(", "), g.in_hand)),
        ("failures", format!("{}, {} of them timeouts", count(g.counters.failures), count(g.counters.timeouts))),
        ("losses", format!("{}; acknowledged writes that a device lost before a flush", count(g.counters.losses))),
        ("nodes", format!("links dropped for protocol errors: {}", count(g.counters.link_errors))),
        memory(report),
    ];
    g.keys.as_ref().map(keys_pair).into_iter().chain(others).collect()
}

fn node_pairs(n: &NodeReport, report: &Report) -> Pairs {
    let volume =
        n.volume.as_ref().map_or("not claimed by a gateway yet".to_string(), |v| format!("of volume {}", name(v)));
    let no_io = if n.no_io { "; answers WITHOUT I/O (--no-io)" } else { "" };
    let model = n.model.as_ref().map(model_pair);
    let per_batch = n.counters.pieces as f64 / n.counters.batches.max(1) as f64;
    let first =
        vec![("extent", format!("{}, {volume}", name(&n.extent_id))), ("data", format!("{}{no_io}", name(&n.path)))];
    let others = [
        ("links", format!("{} open; dropped for protocol errors: {}", n.links, count(n.counters.protocol_errors))),
        (
            "batches",
            format!(
                "{}, {} pieces, {} per batch",
                count(n.counters.batches),
                count(n.counters.pieces),
                mean(per_batch)
            ),
        ),
        (
            "reads",
            format!(
                "{} requested; {} from the page cache without blocking, {} of them mapped{}",
                Bytes(n.counters.read_bytes),
                count(n.counters.fast_reads),
                count(n.mapped_reads),
                if n.mapped && n.sums.is_some() { ", not each verified" } else { "" }
            ),
        ),
        (
            "writes",
            format!("{} received; {} written at once", Bytes(n.counters.write_bytes), count(n.counters.fast_writes)),
        ),
        ("store", format!("{} operations after merging, {} in progress", count(n.counters.store_ops), n.in_store)),
        ("elevator", format!("{} pieces queued", n.waiting)),
        ("failures", format!("{} pieces", count(n.counters.failures))),
        memory(report),
    ];
    first
        .into_iter()
        .chain(n.keys.as_ref().map(keys_pair))
        .chain(model)
        .chain(devices::pairs(&n.condition))
        .chain(others)
        .collect()
}

fn model_pair(m: &ModelReport) -> (&'static str, String) {
    let late = [m.lateness_p50_us, m.lateness_p99_us, m.lateness_max_us].map(|us| seconds(us / 1e6));
    let text = format!(
        "{} ({}); {} served, busy {:.0} % of the time, {:.0} % of steps upward; lateness p50 {}, p99 {}, max {}",
        name(&m.profile),
        shortened(&printable(&m.description), 2 * NAME_WIDTH),
        count(m.served),
        m.busy_fraction * 100.0,
        m.upward_fraction * 100.0,
        late[0],
        late[1],
        late[2]
    );
    ("modelled", text)
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A text, wrapped.
    fn lines(&mut self, text: &str) {
        wrapped(text, WIDTH).iter().for_each(|line| self.line(line));
    }

    /// A text after a coloured word, wrapped.
    fn note(&mut self, word: &str, colour: Colour, text: &str) {
        let painted = if self.colour { colour.paint(word) } else { word.to_string() };
        let indent = word.len() + 2;
        for (i, line) in wrapped(&printable(text), WIDTH - indent).into_iter().enumerate() {
            let start = if i == 0 { format!("{painted}: ") } else { " ".repeat(indent) };
            self.line(&format!("{start}{line}"));
        }
    }

    fn pairs(&mut self, pairs: &[(&'static str, String)]) {
        let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 2;
        for (key, text) in pairs {
            for (i, line) in wrapped(text, WIDTH - width).into_iter().enumerate() {
                self.line(&format!("{:width$}{line}", if i == 0 { key } else { "" }));
            }
        }
    }

    fn table(&mut self, table: &Table) {
        table.lines(WIDTH, self.colour).iter().for_each(|line| self.line(line));
    }

    fn copies(&mut self, report: &CopiesReport, held_up: &str) {
        let CopiesReport { copies, fewest_current, chunks, .. } = *report;
        if fewest_current < copies {
            let colour = if fewest_current <= 1 { Colour::Bad } else { Colour::Doubtful };
            self.note("copies", colour, &format!("some chunks have {fewest_current} of {copies} copies left"));
        }
        let parts = [
            (report.behind_chunks as usize, "behind"),
            (report.doubtful_chunks as usize, "doubtful"),
            (report.uncompared_chunks as usize, "to be compared"),
            (report.busy_chunks, "being made equal"),
            (report.open_chunks as usize, "open"),
        ];
        let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        let parts = if parts.is_empty() { "all settled".to_string() } else { parts.join(", ") };
        let s = if copies == 1 { "copy" } else { "copies" };
        self.lines(&format!("{copies} {s} of {chunks} chunks of {}: {parts}", Bytes(report.chunk_bytes)));
        left(&report.rebuild, held_up).iter().for_each(|line| self.lines(line));
        for (word, text) in [("map", &report.map_trouble), ("waits", &report.waits_for), ("deposed", &report.deposed)] {
            if let Some(text) = text {
                self.note(word, Colour::Bad, text);
            }
        }
    }

    fn volume(&mut self, volume: &VolumeReport) {
        let size = volume.size_bytes.map_or("size unknown".to_string(), |n| Bytes(n).to_string());
        let ready = volume.nodes.iter().filter(|n| n.state == "ready").count();
        self.line("");
        let count = volume.present().count();
        self.lines(&format!("volume {}, {size}, {ready} of {count} nodes ready", name(&volume.name)));
        if let Some(copies) = &volume.copies {
            self.copies(copies, &held_up_by(volume));
        }
        let mut table = Table::new(&NODE_SIDES);
        NODE_HEADINGS.iter().for_each(|heading| table.plain(*heading));
        volume.present().for_each(|node| table.row(node_row(node)));
        self.table(&table);
        for node in &volume.nodes {
            if let Some(refusal) = &node.refusal {
                self.note("refused", Colour::Bad, &format!("{}: {refusal}", name(&node.name)));
            }
            if node.no_io {
                let text = format!("{} answers WITHOUT I/O (--no-io)", name(&node.name));
                self.note("no-io", Colour::Doubtful, &text);
            }
            if node.modelled {
                let text = format!("{} has a modelled flash (--model)", name(&node.name));
                self.note("modelled", Colour::Doubtful, &text);
            }
        }
        for node in &volume.nodes {
            if let Some(place) = &node.seen_at {
                self.note("moved", Colour::Doubtful, &format!("{} was seen at {place}", name(&node.name)));
            }
            if let Some(pause) = node.condition.as_ref().and_then(devices::last_pause) {
                self.note("paused", Colour::Doubtful, &format!("{}: {pause}", name(&node.name)));
            }
        }
        self.below(devices::of_volume(volume));
        self.below(paths::of_volume(volume));
    }

    fn below(&mut self, table: Option<Table>) {
        if let Some(table) = table {
            self.line("");
            self.table(&table);
        }
    }

    fn stages(&mut self, stages: &[StageReport]) {
        if stages.is_empty() {
            return;
        }
        let mut table = Table::new(&[Left, Right, Right, Right, Right, Right, Right]);
        table.plain(["stage", "count", "mean", "p50", "p90", "p99", "max"]);
        for s in stages {
            let times = [s.sum_seconds / s.count as f64, s.p50_seconds, s.p90_seconds, s.p99_seconds, s.max_seconds];
            // Without a count the quantiles are meaningless.
            let times = times.map(|x| seconds(if s.count > 0 { x } else { f64::NAN }));
            table.plain([name(&s.name), count(s.count)].into_iter().chain(times));
        }
        self.line("");
        self.table(&table);
    }
}

const NODE_SIDES: [flashmob_text::Side; 16] =
    [Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right, Right];
const LEGEND: &str =
    "pkts: TCP segments; seg B: mean bytes per data segment; segments, rtt and retrans are of the current connections";
const NODE_HEADINGS: [[&str; 16]; 2] = [
    ["", "", "", "", "", "", "pieces", "bytes", "bytes", "pkts", "pkts", "seg B", "seg B", "", "", ""],
    [
        "node", "state", "size", "queue", "links", "batches", "/batch", "out", "in", "out", "in", "out", "in", "rtt",
        "retrans", "breaks",
    ],
];

fn node_row(node: &NodeOfVolume) -> Row {
    let links = &node.links;
    let sum = |of: fn(&LinkReport) -> u64| links.iter().map(of).fold(0, u64::saturating_add);
    let tcps: Vec<&TcpReport> = links.iter().filter_map(|link| link.tcp.as_ref()).collect();
    let tcp_sum = |of: fn(&TcpReport) -> u64| tcps.iter().map(|tcp| of(tcp)).fold(0, u64::saturating_add);
    let ratio = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { f64::NAN };
    let tcp_count = |of| if tcps.is_empty() { "-".to_string() } else { count(tcp_sum(of)) };
    // Before the first acknowledgement there is no round-trip time, and the kernel reports 0.
    let timed = tcps.iter().filter(|tcp| tcp.rtt_us > 0).count();
    let rtt_seconds = ratio(tcp_sum(|t| t.rtt_us), timed as u64) / 1e6;
    let ready = links.iter().filter(|link| link.state == "ready").count();
    let colour = match node.word() {
        "ready" if ready == links.len() => Colour::Good,
        "refused" => Colour::Bad,
        _ => Colour::Doubtful,
    };
    let figures = [
        node.size_bytes.map_or("-".to_string(), bytes),
        count(node.queue_depth as u64),
        format!("{ready}/{}", links.len()),
        count(sum(|l| l.counters.batches)),
        mean(ratio(sum(|l| l.counters.pieces), sum(|l| l.counters.batches))),
        bytes(sum(|l| l.counters.bytes_out)),
        bytes(sum(|l| l.counters.bytes_in)),
        tcp_count(|t| t.segments_out),
        tcp_count(|t| t.segments_in),
        mean(ratio(tcp_sum(|t| t.bytes_out), tcp_sum(|t| t.data_segments_out))),
        mean(ratio(tcp_sum(|t| t.bytes_in), tcp_sum(|t| t.data_segments_in))),
        seconds(rtt_seconds),
        tcp_count(|t| t.retransmissions),
        count(sum(|l| l.counters.breaks)),
    ];
    let plain = |text: String| (text, Colour::Plain);
    let state = (shortened(&printable(node.word()), 10), colour);
    [plain(printable(&node.name)), state].into_iter().chain(figures.map(plain)).collect()
}

/// Why copies of a volume are not made current.
fn held_up_by(volume: &VolumeReport) -> String {
    let failing = |node: &NodeOfVolume| Some(format!("{} {}", printable(&node.name), node.failures.words()?));
    let failing: Vec<String> = volume.present().filter_map(failing).collect();
    let is_away = |node: &NodeOfVolume| node.is_paused || !["ready", "drained"].contains(&&*node.state);
    held_up(volume.present().any(|node| is_away(node) && node.failures.failing.is_empty()), &failing)
}
