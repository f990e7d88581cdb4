//! The checksums of an extent of a volume with copies: made when it is adopted, opened when the node starts.
//!
//! The file of checksums and the sidecar have the same number, drawn at each start, and when a gateway links that has news. The file gets the new
//! number first, beside the old one, then the sidecar: one write in place, and one of the sidecar, which a charge needs anyway. So a node that is
//! killed in between finds a pair that fits, and an older file does not fit.
//!
//! Checksums that are missing, damaged or of another extent or start are never made anew: wrong bytes would get matching ones. The extent
//! is not served to its volume then; the other copies have its data. Nor are there new ones where a file of checksums lies that the
//! identity does not know: [`super::beside`].

use super::beside;
use crate::store::extent_id::unique_id;
use crate::store::identity::{Identity, IdentityError};
use crate::store::sums::{Sums, SumsError};
use crate::store::{ExtentId, Store, SumsStamp};

/// Why an extent has no checksums that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsummed {
    /// The file cannot be used.
    #[error(transparent)]
    Sums(#[from] SumsError),
    /// The sidecar cannot be written.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Opens the checksums of an extent that has them. May block.
pub(super) fn open(store: &Store, identity: &mut Identity) -> Result<(), Unsummed> {
    let Some(stamp) = identity.sums() else { return Ok(beside::refuse_unclaimed(identity)?) };
    let (path, extent_id) = (identity.sums_path(), identity.extent_id());
    let (sums, found) = Sums::open(&path, extent_id, store.size_bytes(), &stamp.nonces())?;
    let nonce = ExtentId(unique_id());
    sums.renew(found, nonce)?;
    if let Err(error) = identity.stamp_sums(SumsStamp { nonce, before: None }) {
        // A full disk. What is there fits nevertheless.
        log::warn!("the start of the node cannot be recorded: {error}");
    }
    store.keep_sums(sums)?;
    Ok(())
}

/// Gives the checksums of an extent another number before a charge is recorded that `is_news`, so that what was copied of them before does not fit any more.
/// Returns the stamp to record with the charge. May block.
pub(super) fn renew(store: &Store, identity: &Identity, is_news: bool) -> Result<Option<SumsStamp>, SumsError> {
    let is_due = is_news && store.sums_status().is_some();
    let Some(SumsStamp { nonce: known, .. }) = identity.sums().filter(|_| is_due) else {
        return Ok(identity.sums());
    };
    let nonce = ExtentId(unique_id());
    store.renew_sums(known, nonce)?;
    Ok(Some(SumsStamp { nonce, before: None }))
}

/// Makes the checksums of an extent that belongs to a volume with copies, unless it has them. May block.
pub(super) fn ensure(store: &Store, identity: &mut Identity) -> Result<(), Unsummed> {
    if identity.charge().is_none() || identity.sums().is_some() {
        return Ok(());
    }
    let path = identity.sums_path();
    let nonce = match store.sums_nonce() {
        // Made before, and the identity could not be written.
        Some(nonce) => nonce,
        None => {
            let nonce = ExtentId(unique_id());
            store.make_sums(&path, identity.extent_id(), nonce)?;
            nonce
        }
    };
    // Until this is written, what was made has another name, and is made anew at the next start. From then on, it is given its name there.
    identity.stamp_sums(SumsStamp { nonce, before: None })?;
    store.place_sums()?;
    log::info!("{}: checksums of the extent", path.display());
    Ok(())
}
