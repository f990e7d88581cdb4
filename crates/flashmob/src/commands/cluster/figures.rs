//! Figures that both measurements need: the limits of a modelled node alone.

use flashmob_lab::cluster::limit::own_limit;
use flashmob_lab::flash::{Profile, ProfileError};
use flashmob_results::cluster::{FlashLimit, FlashModel, Parameters};

/// The modelled flash with its limit for every kind of request among `points`.
///
/// # Errors
/// The profile's values are out of range.
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
