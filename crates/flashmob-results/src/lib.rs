//! One format for all of flashmob's measurements, so that results of different devices, days and kinds can be kept, merged and compared.
//!
//! A [`Document`] has the [`device::Device`] that measured, the program, seed and parameters, every repetition with its
//! whole histogram, and reasons to doubt its figures ([`warning::Warning`]). The format is published in `schema/result-1.json`;
//! a change that breaks readers gets a new number. A new kind of measurement is a new variant of [`Measurement`].
//!
//! - [`device`]: the device that measured
//! - [`disk`]: points and repetitions of `flashmob bench disk`
//! - [`cluster`]: those of `flashmob bench cluster` and `flashmob simulate`
//! - [`cluster_rebuild`]: what clients of `flashmob simulate --rebuild` feel
//! - [`net`]: those of `flashmob bench net`
//! - [`capture`]: connections in captured packets, of `flashmob net analyze`
//! - [`trace`]: the time of operations by layers, of `flashmob trace`
//! - [`commands`]: a device's commands, collected one by one
//! - [`event`]: events during a measurement
//! - [`plan`]: forecasts of `flashmob plan`, in their own format: `schema/plan-1.json`
//! - [`diagnosis`]: findings of `flashmob doctor`: `schema/diagnosis-1.json`
//! - [`latency`]: percentiles and the histogram in HDR's own compressed, mergeable form
//! - [`merge`]: several results of one cluster, network or disk as one
//! - [`warning`]: reasons to doubt a figure
//! - [`read`]: documents from files, with errors that name what is wrong

#![forbid(unsafe_code)]

pub mod capture;
pub mod clock;
pub mod cluster;
pub mod cluster_rebuild;
pub mod commands;
pub mod device;
pub mod diagnosis;
pub mod disk;
pub mod event;
pub mod latency;
pub mod merge;
pub mod net;
pub mod plan;
pub mod read;
pub mod trace;
pub mod warning;

use serde::{Deserialize, Serialize};

use device::Device;
use warning::Warning;

/// Name of the format.
pub const FORMAT: &str = "flashmob-result";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;

/// One measurement as it is written to a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Always `flashmob-result`.
    pub format: String,
    /// Version of this form: 1.
    pub format_version: u32,
    /// Version of the flashmob that measured.
    pub program_version: String,
    /// When it began: seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// How long all of it took, preparation included.
    pub elapsed_s: f64,
    /// Stopped before its end: points may be missing, and the last may have fewer repetitions.
    pub interrupted: bool,
    /// Label given by the user, such as `tablet`.
    pub label: Option<String>,
    /// The command line that measures it again, quoted for a POSIX shell; absent in results of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Device that measured.
    pub device: Device,
    /// Preset of the parameters.
    pub preset: Option<String>,
    /// Fraction of the preset's size and of its reads or time; below 1 the preset was shortened.
    pub scale: f64,
    /// Random seed: equal seeds give equal offsets.
    pub seed: u64,
    /// What was measured.
    pub measurement: Measurement,
    /// Warnings about the whole result; single points have their own.
    pub warnings: Vec<Warning>,
}

/// Kinds of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measurement {
    /// Of one file on one device: `flashmob bench disk`.
    Disk(disk::Disk),
    /// Of a gateway with its nodes: `flashmob bench cluster`, `flashmob simulate`.
    Cluster(cluster::Cluster),
    /// Of a path between two devices: `flashmob bench net`.
    Net(net::Net),
    /// Of captured packets: `flashmob net analyze`. Nothing was measured but the packets' times.
    Capture(capture::Capture),
    /// Of operations through the layers below them: `flashmob trace`.
    Trace(trace::Trace),
}

/// Suffix of the name of a result whose times are an emulator's.
pub const EMULATED: &str = " (emulated)";

impl Document {
    /// Its name in tables and figures: the label if there is one, else the device's model, with what distinguishes it.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.name_of_subject();
        if self.is_emulated() { format!("{name}{EMULATED}") } else { name }
    }

    fn name_of_subject(&self) -> String {
        let base = self.label.clone().unwrap_or_else(|| self.device.name());
        match &self.measurement {
            Measurement::Disk(disk) => match &disk.model {
                Some(model) => format!("{} (modelled)", self.label.as_deref().unwrap_or(&model.profile)),
                None => base,
            },
            Measurement::Cluster(cluster) => {
                let air = cluster.air.as_ref().map(|air| air.profile.as_str());
                let what = match (self.label.as_deref(), air) {
                    _ if cluster.setting == cluster::Setting::Network => base.as_str(),
                    (Some(label), _) => label,
                    (None, Some(air)) => air,
                    (None, None) => return base,
                };
                match cluster.setting {
                    cluster::Setting::Network if self.is_modelled() => format!("{what} (modelled)"),
                    cluster::Setting::Network => base,
                    cluster::Setting::Lab => format!("{what} (lab, modelled)"),
                    cluster::Setting::Simulator => format!("{what} (simulated)"),
                }
            }
            Measurement::Net(net) if net.setting == cluster::Setting::Network => base,
            Measurement::Net(_) => format!("{} (lab, modelled)", self.label.as_deref().unwrap_or("path")),
            Measurement::Capture(capture) => self.label.clone().unwrap_or_else(|| capture.source.clone()),
            Measurement::Trace(_) => base,
        }
    }

    /// The measurement of a disk, if it is one.
    #[must_use]
    pub fn disk(&self) -> Option<&disk::Disk> {
        if let Measurement::Disk(disk) = &self.measurement { Some(disk) } else { None }
    }

    /// The measurement of a cluster, if it is one.
    #[must_use]
    pub fn cluster(&self) -> Option<&cluster::Cluster> {
        if let Measurement::Cluster(cluster) = &self.measurement { Some(cluster) } else { None }
    }

    /// The measurement of a path, if it is one.
    #[must_use]
    pub fn net(&self) -> Option<&net::Net> {
        if let Measurement::Net(net) = &self.measurement { Some(net) } else { None }
    }

    /// The capture, if it is one.
    #[must_use]
    pub fn capture(&self) -> Option<&capture::Capture> {
        if let Measurement::Capture(capture) = &self.measurement { Some(capture) } else { None }
    }

    /// The trace, if it is one.
    #[must_use]
    pub fn trace(&self) -> Option<&trace::Trace> {
        if let Measurement::Trace(trace) = &self.measurement { Some(trace) } else { None }
    }

    /// True if the times are those of an emulated processor: counts are valid, times are not.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        let is_timed_here = match &self.measurement {
            Measurement::Cluster(cluster) => cluster.setting != cluster::Setting::Simulator,
            Measurement::Capture(_) => false,
            Measurement::Disk(_) | Measurement::Net(_) | Measurement::Trace(_) => true,
        };
        is_timed_here && self.device.emulated.is_some()
    }

    /// True if the device, the medium or the nodes' flash is a model: no figure is one of real hardware.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        match &self.measurement {
            Measurement::Disk(disk) => disk.model.is_some(),
            // For nodes with --model on a real network, only the warning shows it.
            Measurement::Cluster(cluster) => {
                let is_said = || self.warnings.iter().any(|warning| warning.code == warning::Code::Modelled);
                cluster.air.is_some() || cluster.flash.is_some() || is_said()
            }
            Measurement::Net(net) => net.setting != cluster::Setting::Network,
            // For captured packets, only the warning of the capturing program shows it.
            Measurement::Capture(_) | Measurement::Trace(_) => {
                self.warnings.iter().any(|warning| warning.code == warning::Code::Modelled)
            }
        }
    }
}

#[cfg(test)]
mod tests;
