//! One cluster, its limits, and what it does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::GIB;
use flashmob_lab::air::{Attachment, Direction, Profile, Streams, streamed};
use flashmob_lab::cluster::{self, Cost, Settings};
use flashmob_lab::flash;
use serde::Serialize;

/// A frame with a full segment, and the bytes of data in it.
const FRAME_BYTES: u32 = 1514;
const SEGMENT_BYTES: f64 = 1448.0;
/// The flash of each node.
const FLASH: &str = "nexus7-emmc";
/// Of requests from this size on, a quarter is outstanding.
const LARGE_BYTES: u32 = 65_536;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    is_read: bool,
    block_bytes: u32,
}

impl Load {
    pub const DEFAULT: [Load; 5] = [
        Load::read(1),
        Load::read(512),
        Load::read(4096),
        Load::read(65_536),
        Load { is_read: false, block_bytes: 4096 },
    ];

    const fn read(block_bytes: u32) -> Load {
        Load { is_read: true, block_bytes }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", if self.is_read { "read" } else { "write" }, self.block_bytes)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        let (kind, size) = text.split_once('-').ok_or("as read-4096 or write-4096")?;
        let is_read = match kind {
            "read" => true,
            "write" => false,
            _ => return Err("as read-4096 or write-4096".to_string()),
        };
        Ok(Load { is_read, block_bytes: size.parse().map_err(|error| format!("{size}: {error}"))? })
    }
}

/// When TCP acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    Linux,
    Late,
    Segments(u32),
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Acks::Linux => f.write_str("linux"),
            Acks::Late => f.write_str("late"),
            Acks::Segments(count) => write!(f, "{count}"),
        }
    }
}

impl FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Acks, String> {
        Ok(match text {
            "linux" => Acks::Linux,
            "late" => Acks::Late,
            count => Acks::Segments(count.parse().map_err(|_| "linux, late, or a number of segments")?),
        })
    }
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct Case {
    pub air: String,
    pub profile: Profile,
    pub gateway: Attachment,
    pub load: Load,
    pub nodes: u32,
    pub links: u16,
    /// For each node, of small requests.
    pub outstanding: u32,
}

/// What a cluster does, all modelled.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub air: String,
    pub gateway: String,
    pub load: String,
    pub nodes: u32,
    pub outstanding: u32,
    pub acks: String,
    pub requests_per_s: f64,
    /// What the air streams, in requests without any header.
    pub air_limit_per_s: f64,
    /// What the flashes do.
    pub flash_limit_per_s: f64,
    /// Of the smaller of the two.
    pub share: f64,
    /// TCP packets without data for each request, both ways.
    pub pure_acks_per_request: f64,
    /// TCP packets with data for each request, both ways.
    pub data_packets_per_request: f64,
    /// Frames of the air for each request, relayed ones twice.
    pub frames_per_request: f64,
    /// Accesses of the air for each request, and the part of them that collides.
    pub accesses_per_request: f64,
    pub collision_fraction: f64,
    /// Frames that were dropped in a queue or given up, and TCP packets that the gateway sent again, for each request.
    pub dropped_frames_per_request: f64,
    pub repeated_packets_per_request: f64,
    pub air_busy_fraction: f64,
    pub flash_busy_fraction: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

pub const HEADING: &str = "| air | gateway | load | nodes | acks | requests/s | limit | of | share | pure acks | data packets | dropped | frames | accesses | air \
    busy | flash busy | p50 ms | p99 ms |\n|---|---|---|--:|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

impl Row {
    pub fn limit_per_s(&self) -> f64 {
        self.air_limit_per_s.min(self.flash_limit_per_s)
    }

    pub fn line(&self) -> String {
        let limit = if self.air_limit_per_s < self.flash_limit_per_s { "air" } else { "flash" };
        format!(
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} | {limit} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.3} | {:.0} % | {:.0} % | {:.1} | {:.1} |",
            self.air,
            self.gateway,
            self.load,
            self.nodes,
            self.acks,
            self.requests_per_s,
            self.limit_per_s(),
            self.share,
            self.pure_acks_per_request,
            self.data_packets_per_request,
            self.dropped_frames_per_request,
            self.frames_per_request,
            self.accesses_per_request,
            100.0 * self.air_busy_fraction,
            100.0 * self.flash_busy_fraction,
            self.p50_ms,
            self.p99_ms,
        )
    }
}

impl Case {
    fn outstanding(&self, nodes: u32) -> u32 {
        nodes * if self.load.block_bytes < LARGE_BYTES { self.outstanding } else { self.outstanding / 4 }.max(1)
    }

    fn settings(&self, acks: cluster::Acks) -> anyhow::Result<Settings> {
        Ok(Settings {
            nodes: self.nodes,
            loaded_nodes: self.nodes,
            cells: 1,
            air: self.profile.clone(),
            gateway: self.gateway,
            flash: Some(flash::Profile::named(FLASH)?),
            order: IssueOrder::default(),
            extent_bytes: 10 * GIB,
            links: self.links,
            batch: BatchMode::Auto,
            block_bytes: self.load.block_bytes,
            read_percent: if self.load.is_read { 100.0 } else { 0.0 },
            outstanding: self.outstanding(self.nodes),
            every_ns: None,
            warmup: Duration::from_secs(2),
            time: Duration::from_secs(4),
            seed: 7,
            gateway_cost: Cost::COMPUTER,
            node_cost: Cost::TABLET,
            copies: None,
            weak: None,
            rebuild: None,
            acks,
        })
    }

    /// What the flashes do of it.
    fn flash_limit_per_s(&self) -> anyhow::Result<f64> {
        let free = Cost { turn_ns: 0, packet_ns: 0, request_ns: 0, kib_ns: 0 };
        let settings = self.settings(cluster::Acks::Linux)?;
        let alone = Settings {
            nodes: 1,
            loaded_nodes: 1,
            air: Profile::parse("ideal")?,
            gateway: Attachment::Wired,
            outstanding: self.outstanding(1),
            gateway_cost: free,
            node_cost: free,
            warmup: Duration::from_secs(5),
            time: Duration::from_secs(20),
            ..settings
        };
        let measured = cluster::run(&alone)?;
        Ok(measured.requests as f64 / measured.elapsed.as_secs_f64() * f64::from(self.nodes))
    }

    /// What the air streams.
    fn air_limit_per_s(&self, seed: u64) -> f64 {
        let direction = if self.load.is_read { Direction::ToGateway } else { Direction::ToNodes };
        let streams = Streams { gateway: self.gateway, nodes: self.nodes, direction, frame_bytes: FRAME_BYTES };
        let frames_per_s = streamed(&self.profile, &streams, Duration::from_secs(10), seed);
        frames_per_s * SEGMENT_BYTES / f64::from(self.load.block_bytes)
    }

    /// What it does, with each of these acknowledgements.
    pub fn simulate(&self, acks: &[Acks], seconds: f64, seed: u64) -> anyhow::Result<Vec<Row>> {
        let (air_limit_per_s, flash_limit_per_s) = (self.air_limit_per_s(seed), self.flash_limit_per_s()?);
        acks.iter().map(|acks| self.row(*acks, seconds, seed, (air_limit_per_s, flash_limit_per_s))).collect()
    }

    fn row(&self, acks: Acks, seconds: f64, seed: u64, limits: (f64, f64)) -> anyhow::Result<Row> {
        let modelled = match acks {
            Acks::Linux => cluster::Acks::Linux,
            Acks::Late => cluster::Acks::Late,
            Acks::Segments(count) => cluster::Acks::Segments(count),
        };
        let settings = self.settings(modelled)?;
        let limit = limits.0.min(limits.1).max(1.0);
        // Several times what a request waits for.
        let waits = Duration::from_secs_f64(f64::from(settings.outstanding) / limit);
        let (warmup, time) = (Duration::from_secs(2) + 3 * waits, Duration::from_secs_f64(seconds) + 5 * waits);
        let measured = cluster::run(&Settings { warmup, time, seed, ..settings })?;
        let requests = (measured.requests as f64).max(1.0);
        let requests_per_s = measured.requests as f64 / measured.elapsed.as_secs_f64();
        let packets = &measured.packets;
        let data = (packets.data_sent + packets.data_received) as f64;
        let ms = |quantile| measured.latency_ns.value_at_quantile(quantile) as f64 / 1e6;
        Ok(Row {
            air: self.air.clone(),
            gateway: if self.gateway == Attachment::Wired { "wired" } else { "wireless" }.to_string(),
            load: self.load.to_string(),
            nodes: self.nodes,
            outstanding: settings.outstanding,
            acks: acks.to_string(),
            requests_per_s,
            air_limit_per_s: limits.0,
            flash_limit_per_s: limits.1,
            share: requests_per_s / limit,
            pure_acks_per_request: ((packets.sent + packets.received) as f64 - data) / requests,
            data_packets_per_request: data / requests,
            frames_per_request: measured.air.frames as f64 / requests,
            accesses_per_request: measured.air.transmissions as f64 / requests,
            collision_fraction: measured.air.collisions as f64 / (measured.air.transmissions as f64).max(1.0),
            dropped_frames_per_request: measured.air.dropped as f64 / requests,
            repeated_packets_per_request: packets.retransmitted as f64 / requests,
            air_busy_fraction: measured.air_busy_fraction,
            flash_busy_fraction: measured.flash_busy_fraction.unwrap_or(0.0),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
        })
    }
}
