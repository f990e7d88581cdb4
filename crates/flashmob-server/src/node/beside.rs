//! The files beside an extent's data: of which one may have been lost alone, or put back alone.
//!
//! | file | lost, and the others are there | an earlier one is put back, or that of another extent |
//! |---|---|---|
//! | data | refused, unless it is given up | its checksums do not match |
//! | `.flashmob` | refused if checksums, a mirror or a key are there | refused: it has another number than the checksums, or none |
//! | `.sums` | the volume is refused | the same |
//! | `.map` | the gateway sends another | the gateway sends what it lacks |
//! | `.key` | refused | gateways have another key pinned |
//! | `.syncs`, `.end` | counts as none | is of another start of the device |
//! | `.new`, `.spare`, `.known`, `.admin` | made again | of no use |
//!
//! What is refused stays as it is, so that the file that is missing can be put back.

use std::fmt::Write as _;
use std::path::Path;

use super::extent::{ExtentConfig, ExtentError};
use crate::keys::NodeKeys;
use crate::store::forget_mirror;
use crate::store::identity::{Identity, key_path, left_of_volume, sidecar_path};
use crate::store::sums::{SumsError, new_path};

/// Refuses an extent whose identity is missing where other files beside it show that it had one, before anything is made.
///
/// # Errors
/// They do, or its identity cannot be read.
pub fn check(config: &ExtentConfig) -> Result<(), ExtentError> {
    let sidecar = sidecar_path(&config.store.path, config.state_dir.as_deref());
    let found = match Identity::look(&sidecar) {
        Ok(found) => found,
        // Judged when it is loaded.
        Err(_) => return Ok(()),
    };
    if found.is_none() && !config.forget {
        let left = left_of_volume(&sidecar);
        if !left.is_empty() {
            return Err(ExtentError::IdentityLost(sidecar, config.store.path.clone(), listed(&left)));
        }
    }
    let key = key_path(&sidecar);
    let is_told = config.cluster.is_some() || config.enroll.is_some();
    if !is_told && found.is_none_or(|found| found.cluster().is_none()) && NodeKeys::are_at(&key)? {
        return Err(ExtentError::ClusterUnknown(key, sidecar));
    }
    Ok(())
}

/// `a and b`.
fn listed(paths: &[impl AsRef<Path>]) -> String {
    paths.iter().enumerate().fold(String::new(), |mut text, (index, path)| {
        let _ = write!(text, "{}{}", if index > 0 { " and " } else { "" }, path.as_ref().display());
        text
    })
}

/// Refuses files of a volume with copies that an identity does not know: it was made anew, or restored from before.
pub(super) fn refuse_unclaimed(identity: &Identity) -> Result<(), SumsError> {
    let left = left_of_volume(identity.path());
    let unclaimed = left.into_iter().find(|path| identity.charge().is_none() || *path == identity.sums_path());
    unclaimed.map_or(Ok(()), |path| Err(SumsError::Unclaimed { path }))
}

/// Gives up what an extent was: its place in a volume, its checksums, and the mirror of the volume's map.
pub(super) fn forget(identity: &mut Identity) -> Result<(), ExtentError> {
    identity.forget()?;
    let sums_path = identity.sums_path();
    for path in [&new_path(&sums_path), &sums_path] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                log::warn!("{}: the checksums of what was forgotten cannot be removed: {error}", path.display());
            }
            _ => {}
        }
    }
    if let Err(error) = forget_mirror(&identity.mirror_path()) {
        log::warn!("the mirror of the map of what was forgotten cannot be removed: {error}");
    }
    Ok(())
}
