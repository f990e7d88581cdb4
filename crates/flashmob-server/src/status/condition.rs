//! The condition of a node's device in `/status`: in the node's own report, and in its gateway's for each node.

use std::time::{Duration, SystemTime};

use flashmob_core::condition::Condition;
use serde::{Deserialize, Serialize};

use crate::device::Pause;

/// A device's condition. Values that could not be read are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionReport {
    /// Age of the values; absent in the node's own report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// Charge of the battery, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether it is being charged, or fed from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Temperature of the battery, or of the warmest sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Whether the screen is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen_on: Option<bool>,
    /// Android's judgement: 0 none to 6 shutdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thermal_status: Option<u8>,
    /// The owner turned power saving on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_save: Option<bool>,
    /// The device dozes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doze: Option<bool>,
    /// The app is exempt from battery optimisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery_exempt: Option<bool>,
    /// `wifi`, `ethernet`, `cellular` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The disk that the extent is on, as an opaque number: equal on all nodes of a disk, until its system restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Size of the extent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Bytes of it that the file system has not allocated yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unallocated_bytes: Option<u64>,
    /// Free bytes for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// The battery is low, and not being charged.
    pub is_battery_low: bool,
    /// The device is too hot.
    pub is_hot: bool,
    /// Free space for the extent is low.
    pub is_space_little: bool,
    /// The exceeded limits with their remedies, as text.
    pub warnings: Vec<String>,
    /// Pauses of the node since its start.
    pub pauses_total: u32,
    /// The last pauses, oldest first: in the node's own report up to 16, in its gateway's one.
    pub pauses: Vec<PauseReport>,
}

/// One period in which a node did not serve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PauseReport {
    /// Time since its end; absent in a gateway's report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_seconds_ago: Option<f64>,
    /// Its duration.
    pub lasted_seconds: f64,
    /// The reason, as far as it is known.
    pub reason: String,
}

impl ConditionReport {
    /// A condition of that age, of a node with an extent of `size_bytes`.
    #[must_use]
    pub fn of(c: &Condition, size_bytes: Option<u64>, age: Option<Duration>) -> ConditionReport {
        ConditionReport {
            age_seconds: age.map(|age| age.as_secs_f64()),
            battery_percent: c.battery_percent,
            charging: c.charging,
            celsius: c.celsius_tenths.map(|tenths| f64::from(tenths) / 10.0),
            screen_on: c.screen_on,
            thermal_status: c.thermal_status,
            power_save: c.power_save,
            doze: c.doze,
            battery_exempt: c.battery_exempt,
            network: c.network.map(|network| network.name().to_string()),
            disk: c.disk_id.map(|id| format!("{id:016x}")),
            size_bytes,
            unallocated_bytes: c.unallocated_bytes,
            free_bytes: c.free_bytes,
            is_battery_low: c.crossed.low_battery,
            is_hot: c.crossed.hot,
            is_space_little: c.crossed.little_space,
            warnings: c.warnings(),
            pauses_total: c.pauses,
            pauses: c
                .last_pause
                .iter()
                .map(|pause| PauseReport {
                    ended_seconds_ago: None,
                    lasted_seconds: pause.lasted_ms as f64 / 1e3,
                    reason: pause.reason.clone(),
                })
                .collect(),
        }
    }
}

impl PauseReport {
    /// A pause of this process.
    #[must_use]
    pub fn of(pause: &Pause) -> PauseReport {
        let ago = SystemTime::now().duration_since(pause.ended).unwrap_or_default();
        PauseReport {
            ended_seconds_ago: Some(ago.as_secs_f64()),
            lasted_seconds: pause.lasted.as_secs_f64(),
            reason: pause.reason.clone(),
        }
    }
}
