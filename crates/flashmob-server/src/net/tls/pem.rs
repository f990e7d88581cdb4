//! Certificates and keys in PEM files (RFC 7468).

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

/// All certificates in the text, in DER; none if any is damaged.
#[must_use]
pub fn certificates(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().ok()?;
    (!all.is_empty()).then(|| all.into_iter().map(|certificate| certificate.to_vec()).collect())
}

/// The first private key in the text, as PKCS #8.
#[must_use]
pub fn private_key(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(text).ok()?;
    Some(Zeroizing::new(key.secret_pkcs8_der().to_vec()))
}
