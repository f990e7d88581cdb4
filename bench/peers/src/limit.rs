//! What the air and the flash of a cluster can do of a load. The limit is the smaller of two: what the same stations stream one way if nothing but
//! the air itself acknowledges, and what the nodes' flashes do of these requests over a network that takes no time, with processors that cost nothing.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_core::units::GIB;
use flashmob_lab::air::{Attachment, Direction, Medium, Profile, Streams, streamed};
use flashmob_lab::cluster::{self, Acks, Cost, Settings};
use flashmob_lab::flash;
use serde::{Deserialize, Serialize};

/// A frame with a full segment, and the bytes of data in it.
const FRAME_BYTES: u32 = 1514;
const SEGMENT_BYTES: f64 = 1448.0;
/// The flash of each node.
pub const FLASH: &str = "nexus7-emmc";
/// Of requests from this size on, a quarter is outstanding.
const LARGE_BYTES: u32 = 65_536;

/// What is asked for: `read-4096`, `write-512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Load {
    /// Reads, or writes.
    pub is_read: bool,
    /// Of each request.
    pub block_bytes: u32,
}

impl Load {
    /// Random reads.
    pub const fn read(block_bytes: u32) -> Load {
        Load { is_read: true, block_bytes }
    }

    /// Random writes.
    pub const fn write(block_bytes: u32) -> Load {
        Load { is_read: false, block_bytes }
    }

    /// As a person says it.
    pub fn words(&self) -> String {
        let kind = if self.is_read { "read" } else { "write" };
        match self.block_bytes {
            bytes if bytes >= 1024 && bytes % 1024 == 0 => format!("{kind} {} KiB", bytes / 1024),
            bytes => format!("{kind} {bytes} B"),
        }
    }

    /// Requests outstanding: `small`, or a quarter of that for large ones.
    pub fn outstanding(&self, small: u32) -> u32 {
        if self.block_bytes < LARGE_BYTES { small } else { small / 4 }.max(1)
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
        match size.parse() {
            Ok(0) => Err("a size above 0".to_string()),
            Ok(block_bytes) => Ok(Load { is_read, block_bytes }),
            Err(error) => Err(format!("{size}: {error}")),
        }
    }
}

impl TryFrom<String> for Load {
    type Error = String;

    fn try_from(text: String) -> Result<Load, String> {
        text.parse()
    }
}

impl From<Load> for String {
    fn from(load: Load) -> String {
        load.to_string()
    }
}

/// How a gateway is attached, by its name.
pub fn attachment(name: &str) -> anyhow::Result<Attachment> {
    match name {
        "wired" => Ok(Attachment::Wired),
        "wireless" => Ok(Attachment::Wireless),
        other => anyhow::bail!("--gateway {other}: wired or wireless"),
    }
}

/// A cluster and its load.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Between access point and stations.
    pub air: Profile,
    /// The gateway's.
    pub gateway: Attachment,
    /// What is asked for.
    pub load: Load,
    /// All of them are asked.
    pub nodes: u32,
    /// To each node.
    pub links: u16,
    /// Requests for each node.
    pub outstanding: u32,
}

/// Requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// What the air streams, in requests without any header.
    pub air_per_s: f64,
    /// What the flashes do.
    pub flash_per_s: f64,
}

impl Limits {
    /// The smaller of the two.
    pub fn least_per_s(&self) -> f64 {
        self.air_per_s.min(self.flash_per_s)
    }

    /// Which of them it is.
    pub fn name(&self) -> &'static str {
        if self.air_per_s < self.flash_per_s { "air" } else { "flash" }
    }
}

impl Cluster {
    /// A simulation of it.
    pub fn settings(&self, acks: Acks) -> anyhow::Result<Settings> {
        Ok(Settings {
            nodes: self.nodes,
            loaded_nodes: self.nodes,
            cells: 1,
            air: self.air.clone(),
            gateway: self.gateway,
            flash: Some(flash::Profile::named(FLASH)?),
            order: IssueOrder::default(),
            extent_bytes: 10 * GIB,
            links: self.links,
            batch: BatchMode::Auto,
            block_bytes: self.load.block_bytes,
            read_percent: if self.load.is_read { 100.0 } else { 0.0 },
            outstanding: self.nodes * self.outstanding,
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

    /// Both, found by simulation.
    pub fn limits(&self, seed: u64) -> anyhow::Result<Limits> {
        Ok(Limits { air_per_s: self.air_limit_per_s(seed), flash_per_s: self.flash_limit_per_s()? })
    }

    fn flash_limit_per_s(&self) -> anyhow::Result<f64> {
        let free = Cost { turn_ns: 0, packet_ns: 0, request_ns: 0, kib_ns: 0 };
        let settings = self.settings(Acks::Linux)?;
        let alone = Settings {
            nodes: 1,
            loaded_nodes: 1,
            air: Profile::parse("ideal")?,
            gateway: Attachment::Wired,
            outstanding: self.outstanding,
            gateway_cost: free,
            node_cost: free,
            warmup: Duration::from_secs(5),
            time: Duration::from_secs(20),
            ..settings
        };
        let measured = cluster::run(&alone)?;
        Ok(measured.requests as f64 / measured.elapsed.as_secs_f64() * f64::from(self.nodes))
    }

    fn air_limit_per_s(&self, seed: u64) -> f64 {
        if let Medium::Ideal { .. } = self.air.medium {
            return f64::INFINITY;
        }
        let direction = if self.load.is_read { Direction::ToGateway } else { Direction::ToNodes };
        let streams = Streams { gateway: self.gateway, nodes: self.nodes, direction, frame_bytes: FRAME_BYTES };
        let frames_per_s = streamed(&self.air, &streams, Duration::from_secs(10), seed);
        frames_per_s * SEGMENT_BYTES / f64::from(self.load.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_read_as_it_is_written() {
        for (text, words) in [
            ("read-1", "read 1 B"),
            ("read-1023", "read 1023 B"),
            ("read-1024", "read 1 KiB"),
            ("write-1025", "write 1025 B"),
            ("write-65536", "write 64 KiB"),
        ] {
            let load: Load = text.parse().unwrap();
            assert_eq!((load.to_string().as_str(), load.words().as_str()), (text, words));
            assert_eq!(serde_json::from_str::<Load>(&serde_json::to_string(&load).unwrap()).unwrap(), load);
        }
        for text in ["", "read", "read-", "read-0", "read--1", "trim-1", "read-4294967296"] {
            assert!(text.parse::<Load>().is_err(), "{text}");
        }
    }

    #[test]
    fn of_large_requests_a_quarter_is_outstanding_and_one_at_least() {
        let of = |block_bytes, small| Load::read(block_bytes).outstanding(small);
        assert_eq!((of(65_535, 64), of(65_536, 64), of(65_537, 64)), (64, 16, 16));
        assert_eq!((of(65_536, 3), of(65_536, 4), of(65_536, 8), of(1, 0)), (1, 1, 2, 1));
    }

    #[test]
    fn the_limit_is_the_smaller_of_air_and_flash() {
        let limits = |air_per_s, flash_per_s| Limits { air_per_s, flash_per_s };
        let said = |limits: Limits| (limits.least_per_s(), limits.name());
        assert_eq!(said(limits(1.0, 2.0)), (1.0, "air"));
        assert_eq!(said(limits(2.0, 1.0)), (1.0, "flash"));
        assert_eq!(said(limits(2.0, 2.0)), (2.0, "flash"));
    }

    #[test]
    fn limits_grow_with_the_nodes_as_flash_does_and_with_smaller_requests_as_the_air_does() {
        let of = |air: &str, nodes, load| {
            let (air, gateway) = (Profile::parse(air).unwrap(), Attachment::Wired);
            Cluster { air, gateway, load, nodes, links: 1, outstanding: 64 }.limits(1).unwrap()
        };
        let (one, two) = (of("ideal", 1, Load::read(1)), of("ideal", 2, Load::read(1)));
        // 2,492 reads/s in the lab: docs/benchmarking.md.
        assert!((2300.0..2600.0).contains(&one.flash_per_s) && one.air_per_s == f64::INFINITY, "{one:?}");
        assert!((two.flash_per_s / one.flash_per_s - 2.0).abs() < 1e-9, "{two:?}");
        let (small, large) = (of("11n", 1, Load::read(4096)), of("11n", 1, Load::read(8192)));
        assert!((small.air_per_s / large.air_per_s - 2.0).abs() < 1e-9, "{small:?} {large:?}");
    }
}
