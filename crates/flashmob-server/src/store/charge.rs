//! The charge of a gateway in the sidecar of an extent.

use flashmob_core::wire::hello::{CHARGE_NUMBER_MAX, Charge};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::extent_id::ExtentId;

/// The charge as it is written. A nonce is random and may not fit TOML's integers, which have a sign.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    map_id: String,
    epoch: u64,
    nonce: String,
    version: u64,
}

pub(super) fn serialize<S: Serializer>(charge: &Option<Charge>, serializer: S) -> Result<S::Ok, S::Error> {
    let written = charge.map(|charge| Written {
        map_id: ExtentId(charge.map_id).to_string(),
        epoch: charge.epoch,
        nonce: format!("{:016x}", charge.nonce),
        version: charge.version,
    });
    written.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Charge>, D::Error> {
    let Some(written) = Option::<Written>::deserialize(deserializer)? else { return Ok(None) };
    let map_id: ExtentId =
        written.map_id.parse().map_err(|_| D::Error::custom("a map's id is 32 hexadecimal digits"))?;
    let is_nonce = written.nonce.len() == 16 && written.nonce.bytes().all(|b| b.is_ascii_hexdigit());
    let nonce = u64::from_str_radix(&written.nonce, 16).ok().filter(|_| is_nonce);
    let nonce = nonce.ok_or_else(|| D::Error::custom("a nonce is 16 hexadecimal digits"))?;
    if written.epoch.max(written.version) > CHARGE_NUMBER_MAX {
        return Err(D::Error::custom(format_args!("epochs and versions are at most {CHARGE_NUMBER_MAX}")));
    }
    Ok(Some(Charge { map_id: map_id.0, epoch: written.epoch, nonce, version: written.version }))
}
