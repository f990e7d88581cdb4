//! The files that TLS needs.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use zeroize::Zeroizing;

use crate::keys::load_private;
use crate::net::tls::{TlsEnd, pem};
use crate::store::{Kind, read_owned};

/// PEM files for TLS: the authority that has signed etcd's certificates, and what etcd is shown if it asks for a
/// certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tls {
    pub ca: PathBuf,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Most bytes of a file: all authorities that a system knows.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The contents of those files.
pub(super) struct Files {
    ca_path: PathBuf,
    authorities: Vec<Vec<u8>>,
    shown: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

impl Files {
    pub fn read(tls: &Tls) -> anyhow::Result<Files> {
        // A change of the authority decides who is believed to be etcd.
        let read = |path: &Path| {
            let failed = |e| anyhow::Error::new(e).context(format!("cannot read {}", path.display()));
            read_owned(path, Kind::Integrity, FILE_BYTES_MAX).map_err(|e| e.or(failed))
        };
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
