//! What a program proves to an administrative port: the certificates or the token of a folder, or that it runs where the gateway's key is.

use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::folder::{ADMIN_PURPOSE, Folder, FolderError};
use super::key::{KeyError, PublicKey, load_private};
use crate::net::fetch::{FetchError, Target, Token};
use crate::net::tls::{CertifiedIdentity, TlsEnd, pem};
use crate::store::{Kind, Unsafe, read_owned};

/// Most bytes of a file with certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why there is nothing to prove.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error(
        "cannot read {path}: {source}; --credentials takes the folder from `flashmob client add`, or that of a node (DATA.admin)"
    )]
    Read { path: PathBuf, source: io::Error },
    /// A file has no certificate.
    #[error("{0} is not a certificate in PEM form: copy the folder again")]
    Certificate(PathBuf),
    /// Others may change a certificate.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// A key or token.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is neither certificate nor token.
    #[error("{0} has neither client-cert.pem nor token: the folder from `flashmob client add ... --admin` has both")]
    Nothing(PathBuf),
    /// The library does not take them.
    #[error("{path} cannot be used: {why}")]
    Unusable { path: PathBuf, why: String },
    /// The cluster's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The address.
    #[error(transparent)]
    Target(#[from] FetchError),
}

/// The administrative port at `text` (`HOST:PORT`), asked with what is in the folder.
///
/// # Errors
/// See [`CredentialsError`].
pub fn target_with(text: &str, folder: &Path) -> Result<Target, CredentialsError> {
    let host = Target::host(text)?;
    let authorities = certificates(&folder.join("ca-cert.pem"))?;
    let (shown, token) = (folder.join("client-cert.pem"), folder.join("token"));
    let (mut identity, mut bearer) = (None, None);
    if shown.exists() {
        let path = folder.join("client-key.pem");
        let key = load_private(&path)?;
        let key = pem::private_key(key.as_bytes()).ok_or(KeyError::Damaged(path))?;
        let certificate = certificates(&shown)?.swap_remove(0);
        identity = Some((certificate, key));
    } else if token.exists() {
        bearer = Some(Token(Zeroizing::new(load_private(&token)?.trim().to_string())));
    } else {
        return Err(CredentialsError::Nothing(folder.to_path_buf()));
    }
    let identity = identity.as_ref().map(|(der, key)| CertifiedIdentity { certificate: der.clone(), pkcs8: key });
    let end = TlsEnd::certified_client(&authorities, identity, host)
        .map_err(|e| CredentialsError::Unusable { path: folder.to_path_buf(), why: e.to_string() })?;
    Ok(Target::secured(text, end, bearer)?)
}

fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, CredentialsError> {
    let failed = |source| CredentialsError::Read { path: path.to_path_buf(), source };
    let text = read_owned(path, Kind::Integrity, FILE_BYTES_MAX).map_err(|e| e.or(failed))?;
    pem::certificates(&text).ok_or_else(|| CredentialsError::Certificate(path.to_path_buf()))
}

/// The administrative port of the gateway with this folder, asked by its own machine.
///
/// # Errors
/// See [`CredentialsError`].
pub fn target_of_gateway(text: &str, folder: &Folder) -> Result<Target, CredentialsError> {
    let (_, _, key) = folder.gateway_key()?;
    let own = key.public();
    let end = key
        .client_end(ADMIN_PURPOSE, move |spki| PublicKey::from_spki(spki) == Some(own))
        .map_err(|source| CredentialsError::Unusable { path: folder.path("gateway.key"), why: source.to_string() })?;
    Ok(Target::secured(text, end, None)?)
}
