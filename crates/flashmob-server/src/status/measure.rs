//! Measuring a node: what is asked for at `/volumes/measure`, and what was found, as `/volumes` and `/live` have it.

use flashmob_core::gateway::{Aspect, Figures, Measurement};
use serde::{Deserialize, Serialize};

/// What of a node is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum AspectName {
    /// Its flash: reads of 4 KiB at random places of the extent, past the page cache.
    Flash,
    /// The way to it and back: reads of a byte, and of 64 KiB.
    Way,
}

impl From<AspectName> for Aspect {
    fn from(name: AspectName) -> Aspect {
        match name {
            AspectName::Flash => Aspect::Flash,
            AspectName::Way => Aspect::Way,
        }
    }
}

/// Asks a gateway to measure a node: the body of a POST to `/volumes/measure`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureRequest {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
    /// What of it.
    pub aspect: AspectName,
}

/// It is being measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureAnswer {
    /// When it has ended.
    pub ends_in_seconds: f64,
}

/// The measurement that is under way, or the last one since the gateway's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasurementReport {
    /// The number of the volume.
    pub volume: usize,
    /// The node's number in it.
    pub node: usize,
    /// What of it.
    pub aspect: AspectName,
    /// How long ago it began.
    pub begun_seconds_ago: f64,
    /// When it ends; absent if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_seconds: Option<f64>,
    /// Why there are no figures to rely on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// First one request at a time, then several.
    pub steps: Vec<StepReport>,
    /// Blocks of zeros among those that were read from the flash. They are not counted, as holes are on no flash.
    #[serde(default)]
    pub empty_blocks: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepReport {
    /// Requests at a time.
    pub outstanding: u32,
    /// Bytes of each.
    pub request_bytes: u32,
    /// Requests that were answered.
    pub answers: u64,
    /// Those in a second.
    pub per_second: f64,
    /// Time of the median request, with its way there and back.
    pub p50_us: u64,
    /// Time that one in a hundred exceeds.
    pub p99_us: u64,
}

impl StepReport {
    fn of(figures: &Figures) -> StepReport {
        let seconds = figures.took.as_secs_f64();
        let micros = |time: std::time::Duration| time.as_micros() as u64;
        StepReport {
            outstanding: figures.outstanding,
            request_bytes: figures.request_bytes,
            answers: figures.answers,
            per_second: if seconds > 0.0 { figures.answers as f64 / seconds } else { 0.0 },
            p50_us: micros(figures.p50),
            p99_us: micros(figures.p99),
        }
    }
}

impl MeasurementReport {
    /// The report of a node of a volume, by their numbers.
    #[must_use]
    pub fn of(measurement: &Measurement, (volume, node): (usize, usize)) -> MeasurementReport {
        MeasurementReport {
            volume,
            node,
            aspect: match measurement.aspect {
                Aspect::Flash => AspectName::Flash,
                Aspect::Way => AspectName::Way,
            },
            begun_seconds_ago: measurement.begun_ago.as_secs_f64(),
            ends_in_seconds: measurement.left.map(|left| left.as_secs_f64()),
            trouble: measurement.trouble.clone(),
            steps: measurement.steps.iter().map(StepReport::of).collect(),
            empty_blocks: measurement.empty_blocks,
        }
    }
}
