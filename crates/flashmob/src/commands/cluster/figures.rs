//! Figures that both measurements need: what a modelled node does alone, and how to say how many.

use flashmob_lab::cluster::limit::own_limit;
use flashmob_lab::flash::{Profile, ProfileError};
use flashmob_results::cluster::{FlashLimit, FlashModel, Parameters};

/// The modelled flash with its own limit for every kind of request among `points`.
///
/// # Errors
/// The profile's numbers are out of range.
pub fn flash_model(profile: &Profile, extent_bytes: u64, points: &[Parameters]) -> Result<FlashModel, ProfileError> {
    let mut limits: Vec<FlashLimit> = Vec::new();
    for Parameters { block_bytes, read_percent, .. } in points {
        let same = |l: &FlashLimit| l.block_bytes == *block_bytes && l.read_percent == *read_percent;
        if !limits.iter().any(same) {
            let requests_per_second = own_limit(profile, extent_bytes, *block_bytes, *read_percent)?;
            limits.push(FlashLimit { block_bytes: *block_bytes, read_percent: *read_percent, requests_per_second });
        }
    }
    Ok(FlashModel { profile: profile.name.into(), description: profile.description.into(), limits })
}

/// Three significant digits at least, and no more than needed.
#[must_use]
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if value >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
