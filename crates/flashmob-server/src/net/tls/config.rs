//! One stack for both ends: TLS 1.3, X25519, Ed25519, and AES-GCM where the processor has it.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::{default_provider, kx_group, sign};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme, SupportedCipherSuite,
};

/// Whether the key with this SubjectPublicKeyInfo may be the other end's.
type IsKnown = dyn Fn(&[u8]) -> bool + Send + Sync;

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

/// All connections of one end, for one purpose.
#[derive(Clone)]
pub struct TlsEnd(Role);

#[derive(Clone)]
enum Role {
    Client(Arc<ClientConfig>),
    Server(Arc<ServerConfig>),
}

impl fmt::Debug for TlsEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Role::Client(_) => "TlsEnd(client)",
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
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config.enable_early_data = false;
        Ok(TlsEnd(Role::Client(Arc::new(config))))
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

    /// The end that NBD clients connect to. They show certificates that the authority with the certificate `clients` has signed for clients, and that
    /// are known.
    ///
    /// # Errors
    /// A key or a certificate cannot be used.
    pub fn certified_server(
        identity: CertifiedIdentity<'_>,
        clients: &[u8],
        is_known: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Result<TlsEnd, Error> {
        let provider = Arc::new(provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(clients.to_vec()))?;
        let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
        let listed = Arc::new(Listed { signed, is_known: Box::new(is_known) });
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.pkcs8.to_vec()));
        let config = ServerConfig::builder_with_details(provider, Arc::new(NoClock))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(listed)
            .with_single_cert(vec![CertificateDer::from(identity.certificate)], key)?;
        Ok(TlsEnd::serving(config))
    }

    /// A resumed session would verify nothing, so there are none.
    fn serving(mut config: ServerConfig) -> TlsEnd {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        TlsEnd(Role::Server(Arc::new(config)))
    }

    pub(super) fn begin(&self) -> Result<Connection, Error> {
        Ok(match &self.0 {
            Role::Client(config) => {
                // It is not sent.
                let name = ServerName::try_from("flashmob").map_err(|e| Error::General(e.to_string()))?;
                ClientConnection::new(Arc::clone(config), name)?.into()
            }
            Role::Server(config) => ServerConnection::new(Arc::clone(config))?.into(),
        })
    }
}

fn certified(identity: &TlsIdentity<'_>) -> Result<Arc<CertifiedKey>, Error> {
    let key = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(identity.pkcs8))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(identity.spki.to_vec())], key)))
}

fn provider() -> CryptoProvider {
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

/// Takes certificates of an authority that are also on a list.
struct Listed {
    signed: Arc<dyn ClientCertVerifier>,
    is_known: Box<IsKnown>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listed")
    }
}

impl ClientCertVerifier for Listed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(end_entity, intermediates, now)?;
        if !(self.is_known)(end_entity) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Takes a known Ed25519 key in the place of a certificate, and nothing else.
struct Verifier {
    provider: Arc<CryptoProvider>,
    is_known: Box<IsKnown>,
}

impl Verifier {
    fn new(is_known: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Verifier {
        Verifier { provider: Arc::new(provider()), is_known: Box::new(is_known) }
    }

    fn check(&self, spki: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Result<(), Error> {
        if !rest.is_empty() {
            return Err(CertificateError::BadEncoding.into());
        }
        if !(self.is_known)(spki) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(())
    }

    fn signature(
        &self,
        message: &[u8],
        spki: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if signed.scheme != SignatureScheme::ED25519 {
            return Err(CertificateError::BadSignature.into());
        }
        let key = SubjectPublicKeyInfoDer::from(spki.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.provider.signature_verification_algorithms)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
