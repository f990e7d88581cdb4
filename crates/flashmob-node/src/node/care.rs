//! A node's options about the device that it runs on.

use std::path::PathBuf;

use clap::Args;

use flashmob_server::device::{DeviceOptions, FreeSpaceMin, Limits};

#[derive(Debug, Args)]
pub(super) struct CareArgs {
    /// JSON file in which an app reports battery, charger, temperature, screen and Doze [default: read /sys where allowed].
    #[arg(long, value_name = "FILE")]
    device_state: Option<PathBuf>,
    /// Warn when the battery is below this level and not charging.
    #[arg(long, value_name = "PERCENT", default_value_t = 15, value_parser = clap::value_parser!(u8).range(0..=100))]
    low_battery: u8,
    /// Warn when the battery is at this temperature or above, in degrees Celsius.
    #[arg(long, value_name = "CELSIUS", default_value_t = 45.0, value_parser = celsius)]
    hot: f64,
    /// Warn when less space than this is free beside the data file [default: 256MiB, or 5 % of the file system if that is less].
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size)]
    free_space_min: Option<u64>,
}

impl CareArgs {
    pub fn options(self) -> DeviceOptions {
        DeviceOptions {
            state_file: self.device_state,
            limits: Limits {
                low_battery_percent: self.low_battery,
                hot_celsius: self.hot,
                free_space_min: self.free_space_min.map_or(FreeSpaceMin::Auto, FreeSpaceMin::Bytes),
            },
            ..DeviceOptions::default()
        }
    }
}

fn celsius(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(celsius) if (0.0..=150.0).contains(&celsius) => Ok(celsius),
        _ => Err("must be degrees Celsius from 0 to 150, such as 45".to_string()),
    }
}
