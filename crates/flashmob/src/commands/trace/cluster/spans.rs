//! Samples as a timeline: operations are requests, spans are the work of each place for them.
//!
//! A piece's spans follow each other without gaps, from the request's receipt to its answer, so their sum is its latency. Spans of a node
//! have the duration that the node measured; their position is as accurate as the relation of the clocks, which the place states.

use flashmob_results::trace::{Cause, File, Layer, Operation, Role, Span, Thread, Timeline};

use super::blocks::Blocks;
use flashmob_server::status::trace::{NodeClockReport, PieceReport, SampleReport, WayReport};

/// All samples, in the order of their begins.
pub fn timeline(nodes: &[NodeClockReport], samples: &[SampleReport], blocks: &Blocks) -> Timeline {
    let mut writer = Writer { nodes, blocks, timeline: Timeline::default() };
    let gateway = writer.thread("gateway", "the gateway", None);
    for (number, sample) in (0u64..).zip(samples) {
        writer.sample(number, sample, gateway);
    }
    let mut timeline = writer.timeline;
    timeline.spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.end_ns), span.layer));
    divide(&mut timeline);
    timeline
}

struct Writer<'a> {
    nodes: &'a [NodeClockReport],
    blocks: &'a Blocks,
    timeline: Timeline,
}

/// The place of some work, its operation, and its file and offset.
#[derive(Clone, Copy)]
struct By {
    thread: u32,
    operation: u64,
    cause: Cause,
    file: Option<u32>,
    address_bytes: Option<u64>,
    bytes: u64,
}

impl Writer<'_> {
    fn name(&mut self, name: &str) -> u32 {
        let names = &mut self.timeline.names;
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_string());
            names.len() - 1
        });
        at as u32
    }

    /// A place; the largest error reported for its clock counts.
    fn thread(&mut self, name: &str, place: &str, clock_error_ns: Option<u64>) -> u32 {
        let threads = &mut self.timeline.threads;
        let at = threads.iter().position(|known| known.name == name && known.place == place).unwrap_or_else(|| {
            threads.push(Thread { name: name.to_string(), id: 0, place: place.to_string(), clock_error_ns: None });
            threads.len() - 1
        });
        threads[at].clock_error_ns = threads[at].clock_error_ns.max(clock_error_ns);
        at as u32
    }

    fn file(&mut self, name: &str) -> u32 {
        let files = &mut self.timeline.files;
        let at = files.iter().position(|known| known.name == name).unwrap_or_else(|| {
            files.push(File { name: name.to_string(), role: Role::Extent });
            files.len() - 1
        });
        at as u32
    }

    fn span(&mut self, layer: Layer, name: &str, by: By, begin_ns: u64, end_ns: u64) {
        let By { thread, operation, cause, file, address_bytes, bytes } = by;
        let name = self.name(name);
        let (operation, end_ns) = (Some(operation), end_ns.max(begin_ns));
        let span = Span { layer, name, thread, begin_ns, end_ns, file, address_bytes, bytes, operation, cause };
        self.timeline.spans.push(span);
    }

    fn sample(&mut self, number: u64, sample: &SampleReport, gateway: u32) {
        let name = self.name(&sample.op);
        self.timeline.operations.push(Operation {
            number,
            name,
            thread: gateway,
            begin_ns: sample.received_ns,
            // Never before the begin, whatever the gateway reports.
            end_ns: sample.replied_ns.max(sample.received_ns),
            layers_ns: Vec::new(),
            unattributed_ns: 0,
        });
        let direct = Cause::Direct;
        let by = By { thread: gateway, operation: number, cause: direct, file: None, address_bytes: None, bytes: 0 };
        if let Some(at_once) = &sample.at_once {
            self.span(Layer::Gateway, "answer", by, sample.received_ns, sample.replied_ns);
            let file = self.node_file(at_once.node);
            let by = By { file: Some(file), bytes: sample.len_bytes, ..by };
            self.span(Layer::Store, "memory", by, at_once.started_ns, at_once.finished_ns);
        }
        if sample.pieces.is_empty() && sample.at_once.is_none() {
            self.span(Layer::Gateway, "answer", by, sample.received_ns, sample.replied_ns);
        }
        let is_whole = sample.pieces.len() == sample.pieces_in_all as usize;
        for piece in &sample.pieces {
            self.span(Layer::Gateway, "cut", by, sample.received_ns, sample.queued_ns);
            self.span(Layer::Gateway, "queued", by, sample.queued_ns, piece.batched_ns);
            let Some(way) = &piece.way else {
                self.span(Layer::Gateway, "unanswered", by, piece.batched_ns.max(sample.queued_ns), sample.replied_ns);
                continue;
            };
            self.span(Layer::Gateway, "batched", by, piece.batched_ns, way.sent_ns);
            self.way(number, piece, way);
            let rest = if is_whole { "joined" } else { "other pieces" };
            self.span(Layer::Gateway, rest, by, way.returned_ns, sample.replied_ns);
        }
    }

    fn place(&self, node: usize) -> String {
        self.nodes.get(node).map_or_else(|| format!("node {node}"), |known| format!("node {node}, {}", known.name))
    }

    fn node_file(&mut self, node: usize) -> u32 {
        let path = self.blocks.path_of(node).unwrap_or_else(|| format!("extent of {}", self.place(node)));
        self.file(&path)
    }

    /// The way to the node and back.
    fn way(&mut self, operation: u64, piece: &PieceReport, way: &WayReport) {
        let (place, error) = (self.place(piece.node), Some(way.clock_error_ns));
        let link = self.thread("link", &place, error);
        let node = self.thread("node", &place, error);
        let store = self.thread("store", &place, error);
        let file = self.node_file(piece.node);
        let by = |thread| By { thread, operation, cause: Cause::Waited, file: None, address_bytes: None, bytes: 0 };
        let stored = By {
            file: Some(file),
            address_bytes: Some(way.store_offset_bytes),
            bytes: u64::from(way.store_bytes),
            ..by(store)
        };
        self.span(Layer::Link, "out", by(link), way.sent_ns, way.node_received_ns);
        self.span(Layer::Node, "scheduled", by(node), way.node_received_ns, way.scheduled_ns);
        self.span(Layer::Node, "waiting", by(node), way.scheduled_ns, way.flash_start_ns);
        let kind = if way.answered == "at_once" { "memory" } else { "flash" };
        self.span(Layer::Store, kind, stored, way.flash_start_ns, way.flash_done_ns);
        self.span(Layer::Node, "replied", by(node), way.flash_done_ns, way.node_replied_ns);
        self.span(Layer::Link, "back", by(link), way.node_replied_ns, way.returned_ns);
        if way.answered == "store" {
            self.blocks_of(operation, piece, way, &place);
        }
    }

    /// The work of the node's disk for it, on the gateway's clock.
    fn blocks_of(&mut self, operation: u64, piece: &PieceReport, way: &WayReport, place: &str) {
        let blocks = self.blocks;
        for at in blocks.of_piece(piece, way) {
            let span = &blocks.timeline.spans[at];
            let who = blocks.timeline.threads.get(span.thread as usize).map_or("kernel", |thread| &thread.name);
            let thread = self.thread(who, place, Some(way.clock_error_ns));
            let file = self.node_file(piece.node);
            let ours = |ns: u64| ns.saturating_add(way.node_received_ns).saturating_sub(way.node_clock_ns);
            let by = By {
                thread,
                operation,
                cause: Cause::Waited,
                file: Some(file),
                address_bytes: span.address_bytes,
                bytes: span.bytes,
            };
            self.span(span.layer, blocks.timeline.name(span.name), by, ours(span.begin_ns), ours(span.end_ns));
        }
    }
}

/// Assigns each moment of each operation to the lowest layer that worked for it.
fn divide(timeline: &mut Timeline) {
    let mut edges: Vec<Vec<(u64, usize, i32)>> = vec![Vec::new(); timeline.operations.len()];
    for span in &timeline.spans {
        let Some(at) = span.operation.and_then(|number| usize::try_from(number).ok()) else { continue };
        let Some(operation) = timeline.operations.get(at) else { continue };
        let (begin, end) = (span.begin_ns.max(operation.begin_ns), span.end_ns.min(operation.end_ns));
        if begin < end {
            edges[at].extend([(begin, span.layer as usize, 1), (end, span.layer as usize, -1)]);
        }
    }
    for (operation, mut edges) in timeline.operations.iter_mut().zip(edges) {
        edges.sort_unstable();
        let mut busy = [0i32; Layer::ALL.len()];
        let mut times_ns = [0u64; Layer::ALL.len()];
        let mut last_ns = operation.begin_ns;
        for (at_ns, layer, by) in edges {
            if let Some(lowest) = busy.iter().rposition(|&count| count > 0) {
                times_ns[lowest] += at_ns - last_ns;
            }
            (last_ns, busy[layer]) = (at_ns, busy[layer] + by);
        }
        let all_ns = operation.end_ns - operation.begin_ns;
        operation.unattributed_ns = all_ns.saturating_sub(times_ns.iter().sum());
        let times = Layer::ALL.into_iter().zip(times_ns);
        operation.layers_ns = times.filter(|(_, ns)| *ns > 0).collect();
    }
}

#[cfg(test)]
mod tests;
