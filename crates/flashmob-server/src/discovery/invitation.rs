//! Links to `flashmob join`: `flashmob://join/HOST:PORT#KEY.SECRET`, with the cluster's key and a secret in base64url.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::join::{Target, URL_PREFIX};
use crate::keys::PublicKey;
use crate::keys::enroll::secret::TEXT_BYTES_MAX;
use crate::keys::enroll::{Invitation, Secret};

/// Not a link with a secret. What it was is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("that is no link of `flashmob join`: one begins with {URL_PREFIX} and has a key and a secret behind '#'")]
pub struct BadInvitation;

impl Invitation {
    /// As a link, with its secret. The cluster must be known.
    #[must_use]
    pub fn to_link(&self) -> Option<Zeroizing<String>> {
        let key = URL_SAFE_NO_PAD.encode(self.cluster?.bytes());
        Some(Zeroizing::new(format!("{URL_PREFIX}{}#{key}.{}", self.address, *self.secret.to_link_part())))
    }
}

impl FromStr for Invitation {
    type Err = BadInvitation;

    /// Reads a link with a secret.
    fn from_str(text: &str) -> Result<Invitation, BadInvitation> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadInvitation);
        }
        let rest = text.trim().strip_prefix(URL_PREFIX).ok_or(BadInvitation)?;
        let (place, fragment) = rest.split_once('#').ok_or(BadInvitation)?;
        let (key, secret) = fragment.split_once('.').ok_or(BadInvitation)?;
        let target: Target = place.parse().map_err(|_| BadInvitation)?;
        let key: [u8; 32] =
            URL_SAFE_NO_PAD.decode(key).ok().and_then(|key| key.try_into().ok()).ok_or(BadInvitation)?;
        let secret = Secret::of_link_part(secret).ok_or(BadInvitation)?;
        let cluster = Some(PublicKey::of(key).ok_or(BadInvitation)?);
        Ok(Invitation { address: target.to_string(), cluster, secret })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_link_names_a_key_of_small_order() {
        let secret = Secret::draw_link().unwrap();
        let good = Invitation { address: "10.0.0.1:7413".to_string(), cluster: PublicKey::of([7; 32]), secret };
        let link = good.to_link().unwrap().to_string();
        for key in crate::store::small_order_keys() {
            let bad = link.replace(&URL_SAFE_NO_PAD.encode([7; 32]), &URL_SAFE_NO_PAD.encode(key));
            assert!(bad != link && bad.parse::<Invitation>().is_err(), "{key:02x?}");
        }
        assert!(link.parse::<Invitation>().is_ok());
    }

    #[test]
    fn a_link_says_where_to_whom_and_with_what() {
        let secret = Secret::draw_link().unwrap();
        let cluster = Some(PublicKey::of([7; 32]).unwrap());
        for address in ["192.168.1.10:7413", "[fd00::1]:7413", "gateway.local:1"] {
            let invitation = Invitation { address: address.to_string(), cluster, secret: secret.clone() };
            let link = invitation.to_link().unwrap();
            assert_eq!(link.parse(), Ok(invitation), "{}", *link);
            for bad in [
                &link[1..],
                &link[..link.len() - 1],
                &format!("{}A", *link),
                &link.replace('#', "?"),
                &link.replace(address, "a b:1"),
                &link.replace('#', "#A"),
            ] {
                assert_eq!(bad.parse::<Invitation>(), Err(BadInvitation), "{bad}");
            }
        }
        let nowhere = Invitation { address: "a:1".into(), cluster: None, secret };
        assert!(nowhere.to_link().is_none());
        assert!(!format!("{nowhere:?}").contains(&nowhere.secret.to_link_part()[..]));
    }

    proptest! {
        #[test]
        fn any_text_is_a_link_or_none(text in "\\PC{0,40}") {
            let _ = text.parse::<Invitation>();
            let _ = format!("{URL_PREFIX}a:1#{text}").parse::<Invitation>();
        }
    }
}
