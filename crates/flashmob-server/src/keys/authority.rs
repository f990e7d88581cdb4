//! Certificates for NBD and administration, whose clients know them: X.509, from two authorities of the cluster's own, and one of each node's.
//!
//! One authority signs the gateway's certificate, the other one those of clients. libnbd accepts a certificate for any purpose: so clients are given the
//! gateway's authority alone, and the name in a client's certificate is one that no host can have. Certificates are valid from 1970 to 9999, as boards may have no clock; who is let in is decided by a list ([`super::clients`]).

use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
use zeroize::Zeroizing;

use super::key::{KeyError, load_private, save_new_private};

/// Which authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It signs the gateway's certificate.
    Gateway,
    /// It signs clients' certificates.
    Clients,
    /// It signs the certificate of one node.
    Node,
}

impl Purpose {
    fn key_file(self) -> &'static str {
        match self {
            Purpose::Gateway => "gateway-ca.key",
            Purpose::Clients => "client-ca.key",
            Purpose::Node => "authority.key",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Purpose::Gateway => "flashmob gateway authority",
            Purpose::Clients => "flashmob client authority",
            Purpose::Node => "flashmob node authority",
        }
    }

    /// The name in the certificate of the process that it is for.
    pub(super) fn holder(self) -> &'static str {
        match self {
            Purpose::Gateway => "flashmob gateway",
            Purpose::Node => "flashmob node",
            Purpose::Clients => "flashmob client",
        }
    }
}

/// An authority.
pub struct Authority {
    purpose: Purpose,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({:?})", self.purpose)
    }
}

/// A certificate, and its private key.
pub struct Issued {
    /// The certificate, in DER.
    pub der: Vec<u8>,
    /// The same in PEM.
    pub pem: String,
    /// The private key, in PEM.
    pub key_pem: Zeroizing<String>,
    /// The same as PKCS #8.
    pub key_der: Zeroizing<Vec<u8>>,
}

impl Authority {
    /// Draws a new one, whose key goes to a new file in the folder.
    pub(super) fn create(folder: &Path, purpose: Purpose) -> Result<(), KeyError> {
        let path = folder.join(purpose.key_file());
        let key = KeyPair::generate().map_err(|error| failed("draw", &path, error))?;
        save_new_private(&path, &Zeroizing::new(key.serialize_pem()))
    }

    pub(super) fn load(folder: &Path, purpose: Purpose) -> Result<Authority, KeyError> {
        let path = folder.join(purpose.key_file());
        let text = load_private(&path)?;
        let key = KeyPair::from_pem(&text).map_err(|_| KeyError::Damaged(path))?;
        Ok(Authority { purpose, key })
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn params(&self) -> CertificateParams {
        let mut params = named(self.purpose.name());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
    }

    /// Its own certificate, in DER and in PEM.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn certificate(&self) -> Result<(Vec<u8>, String), rcgen::Error> {
        let own = self.params().self_signed(&self.key)?;
        Ok((own.der().to_vec(), own.pem()))
    }

    /// A certificate for one who is known by these names and addresses: for a client its name alone.
    ///
    /// # Errors
    /// A name is not one that certificates can have.
    pub fn issue(&self, name: &str, hosts: &[String], addresses: &[IpAddr]) -> Result<Issued, rcgen::Error> {
        let mut params = named(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match self.purpose {
            Purpose::Gateway | Purpose::Node => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Clients => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        for host in hosts {
            params.subject_alt_names.push(SanType::DnsName(host.as_str().try_into()?));
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &Issuer::new(self.params(), &self.key))?;
        Ok(Issued {
            der: certificate.der().to_vec(),
            pem: certificate.pem(),
            key_pem: Zeroizing::new(key.serialize_pem()),
            key_der: Zeroizing::new(key.serialize_der()),
        })
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params
}

fn failed(action: &'static str, path: &Path, error: rcgen::Error) -> KeyError {
    KeyError::Io { action, path: path.to_path_buf(), source: std::io::Error::other(error) }
}
