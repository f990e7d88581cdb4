//! The files that TLS needs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use zeroize::Zeroizing;

use crate::keys::load_private;
use crate::net::tls::{TlsEnd, pem};

/// PEM files for TLS: the authority that has signed etcd's certificates, and what etcd is shown if it asks for a
/// certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tls {
    pub ca: PathBuf,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// The contents of those files.
pub(super) struct Files {
    ca_path: PathBuf,
    authorities: Vec<Vec<u8>>,
    shown: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

impl Files {
    pub fn read(tls: &Tls) -> anyhow::Result<Files> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let authorities = pem::certificates(&read(&tls.ca)?)
            .with_context(|| format!("{} holds no certificate in PEM", tls.ca.display()))?;
        let shown = match (&tls.cert, &tls.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, Zeroizing::new(load_private(key)?.as_bytes().to_vec()))),
            (None, None) => None,
            _ => bail!("a certificate for etcd needs its key, and a key its certificate; give both or none"),
        };
        Ok(Files { ca_path: tls.ca.clone(), authorities, shown })
    }

    pub fn end(&self, host: &str) -> anyhow::Result<TlsEnd> {
        let shown = self.shown.as_ref().map(|(chain, key)| (&chain[..], &key[..]));
        TlsEnd::client_of_others(&self.authorities, shown, host)
            .with_context(|| format!("cannot use the files for etcd's TLS (beside {})", self.ca_path.display()))
    }
}
