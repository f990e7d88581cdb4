//! One measurement of the demo: random reads in one mode, with the counters of gateway and kernel.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::reference::{ImageReference, Reference};
use flashmob_bench::load::{Load, Stop, run};
use flashmob_bench::progress::ProgressLine;
use flashmob_core::gateway::BatchMode;

use super::cluster::Gateway;
use flashmob_server::net::fetch::fetch_status;
use flashmob_server::status::report::{LinkReport, Report};

/// Connections of the load.
const CONNECTIONS: u32 = 4;
/// Outstanding requests of each, in the modes with many.
const OUTSTANDING: u32 = 64;
/// Links per node in P1's modes: each link has one batch in flight, so several are needed to keep a node busy.
const FIXED_LINKS: usize = 4;

/// A mode of reading.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    pub batch: BatchMode,
    pub links: usize,
    pub block_bytes: u32,
    pub connections: u32,
    pub outstanding: u32,
}

impl Mode {
    /// P1's modes, 1 B and 4 KiB; first with one request outstanding, then with many.
    pub fn all() -> Vec<Mode> {
        let one = [BatchMode::Fixed(1), BatchMode::Auto];
        let many = [BatchMode::Fixed(1), BatchMode::Fixed(10), BatchMode::Fixed(100), BatchMode::Auto];
        let mode = |batch, block_bytes, connections, outstanding| {
            let links = if batch == BatchMode::Auto { 1 } else { FIXED_LINKS };
            Mode { batch, links, block_bytes, connections, outstanding }
        };
        let mut modes: Vec<Mode> = one.map(|batch| mode(batch, 1, 1, 1)).to_vec();
        for block_bytes in [1, 4096] {
            modes.extend(many.map(|batch| mode(batch, block_bytes, CONNECTIONS, OUTSTANDING)));
        }
        modes
    }

    /// The name of its batching in the table.
    pub fn batch_name(&self) -> String {
        match self.batch {
            BatchMode::Auto => "auto".to_string(),
            BatchMode::Fixed(k) => k.to_string(),
        }
    }
}

/// The result of a measurement.
#[derive(Debug)]
pub struct Run {
    pub mode: Mode,
    pub reads_per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
    pub pieces_per_batch: f64,
    pub packets_per_second: f64,
    pub mean_packet_bytes: f64,
    pub bytes_out_per_request: f64,
    pub bytes_back_per_request: f64,
    pub verified_bytes: u64,
    pub mismatched_bytes: u64,
    pub errors: u64,
}

/// Random reads for `duration`; every byte is compared with the image.
pub fn read_at_random(
    gateway: &Gateway,
    mode: Mode,
    image: &Path,
    image_bytes: u64,
    duration: Duration,
) -> anyhow::Result<Run> {
    let reference = ImageReference::open(image)?;
    anyhow::ensure!(reference.len_bytes().is_none_or(|len| len >= image_bytes), "the image became shorter");
    let load = Load {
        connections: mode.connections,
        outstanding: mode.outstanding,
        block_bytes: mode.block_bytes,
        pattern: Pattern::Random { seed: 1 },
        alignment: Alignment::Block,
        stop: Stop::After(duration),
        verify: Some(Arc::new(reference)),
        ..Load::default()
    };
    let before = Totals::fetch(gateway)?;
    let mut line = ProgressLine::new("reading");
    let result = run(&gateway.uri, &load, &mut |p| line.show(p))?;
    drop(line);
    let d = Totals::fetch(gateway)?.since(&before);
    let quantile = |q| Duration::from_nanos(result.latency_ns.value_at_quantile(q));
    let per = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
    Ok(Run {
        mode,
        reads_per_second: result.requests_per_second(),
        p50: quantile(0.5),
        p99: quantile(0.99),
        pieces_per_batch: per(d.pieces, d.batches),
        packets_per_second: per(d.packets, result.elapsed.as_secs_f64()),
        mean_packet_bytes: per(d.data_bytes, d.data_packets),
        bytes_out_per_request: per(d.bytes_out, d.pieces),
        bytes_back_per_request: per(d.bytes_back, d.pieces),
        verified_bytes: result.verified_bytes,
        mismatched_bytes: result.mismatched_bytes,
        errors: result.errors_total(),
    })
}

/// Sums of the counters of all links.
#[derive(Debug, Default)]
struct Totals {
    batches: f64,
    pieces: f64,
    bytes_out: f64,
    bytes_back: f64,
    /// TCP segments both ways, including acknowledgements.
    packets: f64,
    data_packets: f64,
    data_bytes: f64,
}

impl Totals {
    fn fetch(gateway: &Gateway) -> anyhow::Result<Totals> {
        let json = fetch_status(&gateway.admin.to_string().parse()?)?;
        Ok(Totals::of(&serde_json::from_slice(&json)?))
    }

    fn of(report: &Report) -> Totals {
        let mut totals = Totals::default();
        let volumes = report.gateway.iter().flat_map(|g| &g.volumes);
        for link in volumes.flat_map(|v| &v.nodes).flat_map(|n| &n.links) {
            totals.add(link);
        }
        totals
    }

    fn add(&mut self, link: &LinkReport) {
        self.batches += link.counters.batches as f64;
        self.pieces += link.counters.pieces as f64;
        self.bytes_out += link.counters.bytes_out as f64;
        self.bytes_back += link.counters.bytes_in as f64;
        if let Some(tcp) = &link.tcp {
            self.packets += (tcp.segments_out + tcp.segments_in) as f64;
            self.data_packets += (tcp.data_segments_out + tcp.data_segments_in) as f64;
            self.data_bytes += (tcp.bytes_out + tcp.bytes_in) as f64;
        }
    }

    fn since(&self, before: &Totals) -> Totals {
        Totals {
            batches: self.batches - before.batches,
            pieces: self.pieces - before.pieces,
            bytes_out: self.bytes_out - before.bytes_out,
            bytes_back: self.bytes_back - before.bytes_back,
            packets: self.packets - before.packets,
            data_packets: self.data_packets - before.data_packets,
            data_bytes: self.data_bytes - before.data_bytes,
        }
    }
}
