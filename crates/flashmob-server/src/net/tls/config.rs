//! One stack for all ends: TLS 1.3 (for NBD also 1.2), X25519, raw Ed25519 keys or certificates, and AES-GCM where the processor has it.

use std::fmt;
use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256,
    TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::{default_provider, kx_group, sign};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};

use super::verify::{IsKnown, Listed, Verifier};

/// The key that an end proves.
#[derive(Debug, Clone, Copy)]
pub struct TlsIdentity<'a> {
    /// The private half, as PKCS #8.
    pub pkcs8: &'a [u8],
    /// The public half, as a SubjectPublicKeyInfo.
    pub spki: &'a [u8],
}

/// A certificate that an end shows, and the key that it proves.
#[derive(Debug)]
pub struct CertifiedIdentity<'a> {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// The private key, as PKCS #8.
    pub pkcs8: &'a [u8],
}

/// The certificates that clients are asked for.
pub struct AskedCertificates {
    /// The certificate of the authority that has signed them for clients, in DER.
    pub authority: Vec<u8>,
    /// Whether this one, in DER, is known.
    pub is_known: Box<IsKnown>,
    /// Who has none is not let in.
    pub is_required: bool,
}

/// Which versions an end speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// 1.3.
    Latest,
    /// Also 1.2, which the NBD document demands and the kernel's client speaks alone; with ChaCha20-Poly1305 alone, as AES-GCM ends after 2^24 records of a
    /// key there. Sessions are neither resumed nor negotiated again.
    WithEarlier,
}

/// All connections of one end, for one purpose.
#[derive(Clone)]
pub struct TlsEnd(Role);

#[derive(Clone)]
enum Role {
    /// With the name that the other end is to have; sent to servers of other programs alone.
    Client(Arc<ClientConfig>, ServerName<'static>),
    Server(Arc<ServerConfig>),
}

impl fmt::Debug for TlsEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Role::Client(..) => "TlsEnd(client)",
            Role::Server(_) => "TlsEnd(server)",
        })
    }
}

impl TlsEnd {
    /// The end that connects. It goes on only with keys that are known.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn client(
        identity: &TlsIdentity<'_>,
        purpose: &[u8],
        is_known: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Result<TlsEnd, Error> {
        let verifier = Arc::new(Verifier::new(is_known));
        let mut config = ClientConfig::builder_with_details(Arc::clone(&verifier.provider), Arc::new(NoClock))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(identity)?)));
        config.alpn_protocols = vec![purpose.to_vec()];
        TlsEnd::connecting(config, "flashmob", false)
    }

    /// The end that connects to `host`, whose certificate one of these authorities has signed. It shows its own certificate if it has one.
    ///
    /// # Errors
    /// A key or a certificate cannot be used, or `host` is no name or address.
    pub fn certified_client(
        authorities: &[Vec<u8>],
        identity: Option<CertifiedIdentity<'_>>,
        host: &str,
    ) -> Result<TlsEnd, Error> {
        let provider = Arc::new(provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots(authorities)?), Arc::clone(&provider))
                .build()
                .map_err(|e| Error::General(e.to_string()))?;
        let config = ClientConfig::builder_with_details(provider, Arc::new(NoClock))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_webpki_verifier(verifier);
        let config = match identity {
            Some(identity) => {
                let (chain, key) = identity.into_parts();
                config.with_client_auth_cert(chain, key)?
            }
            None => config.with_no_client_auth(),
        };
        TlsEnd::connecting(config, host, false)
    }

    /// The end that connects to a server of another program at `host`: dates of certificates count, chains and keys have
    /// any form, and the name is sent. Also 1.2, which older ones speak alone. What is shown is in PEM.
    ///
    /// # Errors
    /// A key or a certificate cannot be used, or `host` is no name or address.
    pub fn client_of_others(
        authorities: &[Vec<u8>],
        shown: Option<(&[u8], &[u8])>,
        host: &str,
    ) -> Result<TlsEnd, Error> {
        let mut provider = provider();
        provider.cipher_suites.extend([
            TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
            TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ]);
        provider.kx_groups.push(kx_group::SECP256R1);
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_root_certificates(roots(authorities)?);
        let config = match shown {
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
                let chain = chain.map_err(|e| Error::General(format!("the certificate: {e}")))?;
                let key = PrivateKeyDer::from_pem_slice(key);
                let key = key.map_err(|e| Error::General(format!("the private key: {e}")))?;
                config.with_client_auth_cert(chain, key)?
            }
            None => config.with_no_client_auth(),
        };
        TlsEnd::connecting(config, host, true)
    }

    /// Nothing is resumed, and nothing is said that others could read but the name, if it is to be.
    fn connecting(mut config: ClientConfig, host: &str, is_named: bool) -> Result<TlsEnd, Error> {
        config.resumption = Resumption::disabled();
        config.enable_sni = is_named;
        config.enable_early_data = false;
        let name = ServerName::try_from(host.to_string()).map_err(|e| Error::General(e.to_string()))?;
        Ok(TlsEnd(Role::Client(Arc::new(config), name)))
    }

    /// The end that is connected to.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn server(
        identity: &TlsIdentity<'_>,
        purpose: &[u8],
        is_known: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Result<TlsEnd, Error> {
        let verifier = Arc::new(Verifier::new(is_known));
        let mut config = ServerConfig::builder_with_details(Arc::clone(&verifier.provider), Arc::new(NoClock))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(identity)?)));
        config.alpn_protocols = vec![purpose.to_vec()];
        // Nodes are the weaker ends, and servers.
        config.ignore_client_order = true;
        Ok(TlsEnd::serving(config))
    }

    /// The end that shows a certificate, and asks clients for theirs.
    ///
    /// # Errors
    /// A key or a certificate cannot be used.
    pub fn certified_server(
        identity: CertifiedIdentity<'_>,
        asked: Option<AskedCertificates>,
        versions: Versions,
    ) -> Result<TlsEnd, Error> {
        let (mut provider, mut protocols) = (provider(), vec![&rustls::version::TLS13]);
        if versions == Versions::WithEarlier {
            provider.cipher_suites.push(TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
            protocols.push(&rustls::version::TLS12);
        }
        let provider = Arc::new(provider);
        let config = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(NoClock))
            .with_protocol_versions(&protocols)?;
        let config = match asked {
            Some(AskedCertificates { authority, is_known, is_required }) => {
                let roots = Arc::new(roots(&[authority])?);
                let signed = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let signed = if is_required { signed } else { signed.allow_unauthenticated() };
                let signed = signed.build().map_err(|e| Error::General(e.to_string()))?;
                config.with_client_cert_verifier(Arc::new(Listed { signed, is_known }))
            }
            None => config.with_no_client_auth(),
        };
        let (chain, key) = identity.into_parts();
        Ok(TlsEnd::serving(config.with_single_cert(chain, key)?))
    }

    /// A resumed session would verify nothing, so there are none.
    fn serving(mut config: ServerConfig) -> TlsEnd {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        // Of 1.2: a session's secrets are those of this handshake alone (RFC 7627).
        config.require_ems = true;
        TlsEnd(Role::Server(Arc::new(config)))
    }

    pub(super) fn begin(&self) -> Result<Connection, Error> {
        Ok(match &self.0 {
            Role::Client(config, name) => ClientConnection::new(Arc::clone(config), name.clone())?.into(),
            Role::Server(config) => ServerConnection::new(Arc::clone(config))?.into(),
        })
    }

    /// The settings of an end that is connected to.
    pub(super) fn serving_config(&self) -> Option<Arc<ServerConfig>> {
        match &self.0 {
            Role::Client(..) => None,
            Role::Server(config) => Some(Arc::clone(config)),
        }
    }
}

impl CertifiedIdentity<'_> {
    fn into_parts(self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.pkcs8.to_vec());
        (vec![CertificateDer::from(self.certificate)], key.into())
    }
}

fn roots(authorities: &[Vec<u8>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(CertificateDer::from(authority.clone()))?;
    }
    Ok(roots)
}

fn certified(identity: &TlsIdentity<'_>) -> Result<Arc<CertifiedKey>, Error> {
    let key = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(identity.spki.to_vec())], key)))
}

pub(super) fn provider() -> CryptoProvider {
    let (aes, chacha): (&[SupportedCipherSuite], _) =
        (&[TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384], TLS13_CHACHA20_POLY1305_SHA256);
    let suites = if has_aes() { [aes, &[chacha]].concat() } else { [&[chacha][..], aes].concat() };
    CryptoProvider { cipher_suites: suites, kx_groups: vec![kx_group::X25519], ..default_provider() }
}

/// Whether the processor has instructions for AES-GCM. Without them ChaCha20 is faster, and takes the same time for all keys.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// The time at which every certificate is judged: those of a cluster are valid at all times.
const A_DAY_IN_2020: std::time::Duration = std::time::Duration::from_secs(1_600_000_000);

/// Keys have no dates that count: boards begin in 1970.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(A_DAY_IN_2020))
    }
}
