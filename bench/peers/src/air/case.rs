//! One cluster, its limits, and what it does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use flashmob_lab::air::Attachment;
use flashmob_lab::cluster::{self, Settings};
use flashmob_peers::limit::{Cluster, Limits};
use serde::Serialize;

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

/// A cluster, and the name of its air.
#[derive(Clone, Debug)]
pub struct Case {
    pub air: String,
    pub cluster: Cluster,
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
    pub air_limit_per_s: f64,
    pub flash_limit_per_s: f64,
    /// Of the smaller of the two.
    pub share: f64,
    /// TCP packets without data for each request, both ways.
    pub pure_acks_per_request: f64,
    /// TCP packets with data for each request, both ways.
    pub data_packets_per_request: f64,
    /// Frames of the air for each request, relayed ones twice.
    pub frames_per_request: f64,
    /// Requests in a batch, and answers in a frame of them.
    pub requests_per_batch: f64,
    pub answers_per_frame: f64,
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

pub const HEADING: &str = "| air | gateway | load | nodes | acks | requests/s | limit | of | share | pure acks | data packets | dropped | frames | accesses | in a batch | in a reply | air \
    busy | flash busy | p50 ms | p99 ms |\n|---|---|---|--:|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

impl Row {
    fn limits(&self) -> Limits {
        Limits { air_per_s: self.air_limit_per_s, flash_per_s: self.flash_limit_per_s }
    }

    pub fn line(&self) -> String {
        format!(
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {:.3} | {:.1} | {:.1} | {:.0} % | {:.0} % | {:.1} | {:.1} |",
            self.air,
            self.gateway,
            self.load,
            self.nodes,
            self.acks,
            self.requests_per_s,
            self.limits().least_per_s(),
            self.limits().name(),
            self.share,
            self.pure_acks_per_request,
            self.data_packets_per_request,
            self.dropped_frames_per_request,
            self.frames_per_request,
            self.accesses_per_request,
            self.requests_per_batch,
            self.answers_per_frame,
            100.0 * self.air_busy_fraction,
            100.0 * self.flash_busy_fraction,
            self.p50_ms,
            self.p99_ms,
        )
    }
}

impl Case {
    /// What it does, with each of these acknowledgements.
    pub fn simulate(&self, acks: &[Acks], seconds: f64, seed: u64) -> anyhow::Result<Vec<Row>> {
        let limits = self.cluster.limits(seed)?;
        acks.iter().map(|acks| self.row(*acks, seconds, seed, limits)).collect()
    }

    fn row(&self, acks: Acks, seconds: f64, seed: u64, limits: Limits) -> anyhow::Result<Row> {
        let modelled = match acks {
            Acks::Linux => cluster::Acks::Linux,
            Acks::Late => cluster::Acks::Late,
            Acks::Segments(count) => cluster::Acks::Segments(count),
        };
        let settings = self.cluster.settings(modelled)?;
        let limit = limits.least_per_s().max(1.0);
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
            gateway: if self.cluster.gateway == Attachment::Wired { "wired" } else { "wireless" }.to_string(),
            load: self.cluster.load.to_string(),
            nodes: self.cluster.nodes,
            outstanding: settings.outstanding,
            acks: acks.to_string(),
            requests_per_s,
            air_limit_per_s: limits.air_per_s,
            flash_limit_per_s: limits.flash_per_s,
            share: requests_per_s / limit,
            pure_acks_per_request: ((packets.sent + packets.received) as f64 - data) / requests,
            data_packets_per_request: data / requests,
            frames_per_request: measured.air.frames as f64 / requests,
            requests_per_batch: measured.pieces as f64 / (measured.batches as f64).max(1.0),
            answers_per_frame: measured.pieces as f64 / (measured.replies as f64).max(1.0),
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
