//! Forecasts of `flashmob plan`: the speed of a cluster, its bottleneck, and what would improve it (modelled).
//!
//! It is not a measurement, so it has its own format: `schema/plan-1.json`. A change that breaks readers gets a new number.

use serde::{Deserialize, Serialize};

use crate::cluster::{AirModel, FlashModel, Parameters};

/// Name of the format.
pub const FORMAT: &str = "flashmob-plan";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Always `flashmob-plan`.
    pub format: String,
    /// Version of this form: 1.
    pub format_version: u32,
    /// Version of the flashmob that planned.
    pub program_version: String,
    /// Always true: no figure of it was measured.
    pub modelled: bool,
    /// Random seed.
    pub seed: u64,
    /// The modelled air between gateway and nodes.
    pub air: AirModel,
    /// The modelled flash of each node; absent if nodes answer without reading or writing.
    pub flash: Option<FlashModel>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// The load.
    pub parameters: Parameters,
    /// Requests per second.
    pub requests_per_second: f64,
    /// How these were found; all else was simulated.
    pub method: Method,
    /// The formula, if there was one.
    pub formula: Option<String>,
    /// The longest distance of two parts of the simulation from each other, in requests each second as a fraction of their mean.
    pub spread: f64,
    /// Half of the requests take no longer.
    pub p50_ns: u64,
    /// 99 of 100 take no longer.
    pub p99_ns: u64,
    /// Frames on the air for each request, relayed ones twice.
    pub frames_per_request: f64,
    /// Requests in one batch.
    pub requests_per_batch: f64,
    /// Requests each second as a fraction of what the nodes' flash does alone, unsorted; absent without flash.
    pub flash_fraction: Option<f64>,
    /// Utilization.
    pub busy: Busy,
    /// Bottlenecks, the one with the largest gain first: several if they limit together, none if no single resource brings much.
    pub bottleneck: Vec<Resource>,
    /// Gain from doubling each resource, the largest first.
    pub gains: Vec<Gain>,
    /// Remedies, the best first.
    pub remedies: Vec<Remedy>,
}

/// How the requests each second were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By a formula.
    ClosedForm,
    /// By a simulation.
    Simulated,
}

/// Utilization, as fractions of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Busy {
    /// The medium, mean over the cells; 0 where there is no cell.
    pub air: f64,
    /// At least one slot of a node's flash, mean over the nodes; absent without flash.
    pub flash: Option<f64>,
    /// The gateway's processor.
    pub gateway_processor: f64,
}

/// A resource that a cluster may have too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The flash of the nodes.
    Flash,
    /// The air.
    Air,
    /// The gateway's processor.
    GatewayProcessor,
    /// The nodes' processors.
    NodeProcessors,
    /// Requests outstanding, and links to have them out on.
    Outstanding,
}

/// Gain from doubling a resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// Of what.
    pub resource: Resource,
    /// Requests each second with it, as a multiple of those without.
    pub factor: f64,
}

/// A remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// In words.
    pub what: String,
    /// Requests each second with it, as a multiple of those without.
    pub factor: f64,
}
