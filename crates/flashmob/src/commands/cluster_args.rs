//! The common arguments of lab, simulator, planner and cluster benchmark.

use std::time::Duration;

use clap::{Args, ValueEnum};
use flashmob_core::gateway::BatchMode;
use flashmob_lab::{air, flash};
use flashmob_node::values::OrderArg;

/// The duration of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time before counting begins.
    pub warmup: Duration,
    /// Time that counts.
    pub time: Duration,
}

/// The cluster that is modelled.
#[derive(Clone, Debug, Args)]
pub struct ModelArgs {
    /// Number of nodes.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub nodes: u32,
    /// What they are made of.
    #[command(flatten)]
    pub parts: PartsArgs,
}

/// What a modelled cluster is made of.
#[derive(Clone, Debug, Args)]
pub struct PartsArgs {
    /// Air (network) profile, with optional changes, such as 11n or 11ac,loss=1%.
    #[arg(long, visible_alias = "wifi", default_value = "11n-2014", value_name = "PROFILE", value_parser = air_profile)]
    pub air: air::Profile,
    /// Attachment of the gateway to the access point. A wireless gateway is a station: all its traffic crosses the air twice.
    #[arg(long, value_enum, default_value = "wired")]
    pub gateway: GatewayArg,
    /// Flash profile of each node, as for 'bench disk --model'.
    #[arg(long, default_value = "nexus7-emmc", value_name = "PROFILE", value_parser = super::flash_profile)]
    pub flash: flash::Profile,
    /// Order in which each node reads and writes: sorted (ascending offsets, neighbours merged), or arrival (as P1's nodes did).
    #[arg(long, value_enum, default_value = "sorted")]
    pub order: OrderArg,
    /// Nodes answer without reading or writing: measures the network alone (P1's mode without I/O).
    #[arg(long)]
    pub no_io: bool,
    /// Size of each node's extent.
    #[arg(long, default_value = "10GB", value_name = "SIZE", value_parser = super::size)]
    pub extent: u64,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// The load that is put on it. Lists make a sweep over all combinations.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Links per node (P1's m).
    #[arg(long, default_value = "1", value_name = "M,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    pub links: Vec<u16>,
    /// Batch size: auto (self-clocked), or a fixed maximum with one batch in flight per link (P1's k).
    #[arg(long, visible_alias = "aggregate", default_value = "auto", value_name = "K,...", value_delimiter = ',', value_parser = batch)]
    pub batch: Vec<BatchMode>,
    /// Request size in bytes.
    #[arg(short, long, default_value = "1", value_name = "SIZE,...", value_delimiter = ',', value_parser = block_size)]
    pub block_size: Vec<u32>,
    /// Percentage of reads; the rest are writes.
    #[arg(long, default_value = "100", value_name = "P,...", value_delimiter = ',', value_parser = flashmob_text::parse_percent)]
    pub read_percent: Vec<f64>,
    /// Outstanding requests per node, enough to keep nodes busy [default: 256, or what links and batches can hold if
    /// that is more]. --outstanding-total sets the total instead.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub outstanding: Option<u32>,
    /// Outstanding requests in total.
    #[arg(long, value_name = "N", conflicts_with = "outstanding", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub outstanding_total: Option<u32>,
    /// Time to measure in each repetition; a bare number means seconds.
    #[arg(short, long, default_value = "3", value_name = "TIME", value_parser = super::time)]
    pub time: Duration,
    /// Warm-up time before measuring [default: half of --time, at most 2s].
    #[arg(long, value_name = "TIME", value_parser = super::time_or_none)]
    pub warmup: Option<Duration>,
    /// Repetitions of each combination.
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
}

/// Attachment of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GatewayArg {
    /// By Wi-Fi: a station of the access point.
    Wireless,
    /// By cable.
    Wired,
}

impl From<GatewayArg> for air::Attachment {
    fn from(arg: GatewayArg) -> air::Attachment {
        match arg {
            GatewayArg::Wireless => air::Attachment::Wireless,
            GatewayArg::Wired => air::Attachment::Wired,
        }
    }
}

impl LoadArgs {
    /// Requests outstanding in total for one combination.
    #[must_use]
    pub fn outstanding_for(&self, nodes: u32, links: u16, batch: BatchMode) -> u32 {
        let held = match batch {
            BatchMode::Auto => 0,
            // One batch in flight and another being filled, on every link.
            BatchMode::Fixed(k) => 2 * u32::from(k) * u32::from(links),
        };
        self.outstanding_total.unwrap_or_else(|| nodes * self.outstanding.unwrap_or_else(|| held.max(256)))
    }

    /// The duration of each repetition.
    #[must_use]
    pub fn times(&self) -> Times {
        Times { warmup: self.warmup.unwrap_or_else(|| flashmob_lab::load::warmup_for(self.time)), time: self.time }
    }
}

fn air_profile(text: &str) -> Result<air::Profile, String> {
    air::Profile::parse(text).map_err(|error| error.to_string())
}

pub(super) fn batch(text: &str) -> Result<BatchMode, String> {
    match text.parse::<u16>() {
        _ if text == "auto" => Ok(BatchMode::Auto),
        Ok(k) if (1..=flashmob_core::wire::BATCH_PIECES_MAX as u16).contains(&k) => Ok(BatchMode::Fixed(k)),
        _ => Err("must be auto, or a number from 1 to 4096".to_string()),
    }
}

/// The size of a request.
pub fn block_size(text: &str) -> Result<u32, String> {
    match u32::try_from(super::size(text)?) {
        Ok(bytes) if (1..=flashmob_core::request::REQUEST_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err("must be a size from 1 byte to 32MiB, such as 1B or 4KiB".to_string()),
    }
}
