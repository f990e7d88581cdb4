//! Inside TLS, with certificates as etcd has them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use tempfile::TempDir;

use super::*;
use crate::net::tls::{AskedCertificates, CertifiedIdentity, TlsEnd, Versions, WaitingTls};

/// The last year that there is.
const FOREVER: i32 = 9999;

struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    fn draw() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Authority { params, key: KeyPair::generate().unwrap() }
    }

    fn certificate(&self) -> rcgen::Certificate {
        self.params.self_signed(&self.key).unwrap()
    }

    /// Valid in these years.
    fn issue(&self, address: Option<IpAddr>, years: (i32, i32)) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names.extend(address.map(SanType::IpAddress));
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 12, 31);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &Issuer::new(self.params.clone(), &self.key)).unwrap(), key)
    }
}

/// A server with a certificate of the authority, which begins after the day at which a cluster's own are judged; for
/// two requests. It asks for one if it knows whose that is to be.
fn secret_server(authority: &Authority, asked: Option<&Authority>, last_year: i32) -> (String, JoinHandle<()>) {
    let (shown, key) = authority.issue(Some(Ipv4Addr::LOCALHOST.into()), (2024, last_year));
    let (certificate, pkcs8) = (shown.der().to_vec(), key.serialize_der());
    let asked = asked.map(|asked| AskedCertificates {
        authority: asked.certificate().der().to_vec(),
        is_known: Box::new(|_| true),
        is_required: true,
    });
    let identity = CertifiedIdentity { certificate, pkcs8: &pkcs8 };
    let end = TlsEnd::certified_server(identity, asked, Versions::Latest).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        let (tcp, _) = listener.accept().unwrap();
        let Ok(mut tls) = WaitingTls::begin(&end, tcp) else { return };
        for _ in 0..2 {
            if request(&mut tls).is_none() {
                return;
            }
            let Does::Answers(bytes) = answer("200 OK", &txn_done()) else { return };
            tls.write_all(&bytes).unwrap();
        }
    };
    (address, thread::spawn(serve))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The files of a client that knows this authority, and shows what the other one has signed.
fn files(known: &Authority, own: Option<&Authority>) -> (TempDir, Tls) {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, 0o600);
        path
    };
    let ca = save("ca.pem", known.certificate().pem());
    let (cert, key) = match own {
        None => (None, None),
        Some(own) => {
            let (certificate, key) = own.issue(None, (1975, FOREVER));
            (Some(save("cert.pem", certificate.pem())), Some(save("key.pem", key.serialize_pem())))
        }
    };
    (folder, Tls { ca, cert, key })
}

#[test]
fn requests_go_over_a_connection_that_is_kept() {
    let authority = Authority::draw();
    let (address, server) = secret_server(&authority, Some(&authority), FOREVER);
    let (_folder, tls) = files(&authority, Some(&authority));
    let etcd = Etcd::new(&[format!("https://{address}")], Some(&tls)).unwrap();
    for _ in 0..2 {
        assert!(etcd.txn(&txn(), LONG).unwrap().succeeded);
    }
    server.join().unwrap();
}

#[test]
fn who_is_not_known_is_refused() {
    let (authority, other) = (Authority::draw(), Authority::draw());
    for (asked, known, own, last_year) in [
        // The server is not known, its certificate has expired, it wants a certificate, or another.
        (None, &other, None, FOREVER),
        (None, &authority, None, 2024),
        (Some(&authority), &authority, None, FOREVER),
        (Some(&authority), &authority, Some(&other), FOREVER),
    ] {
        let (address, server) = secret_server(&authority, asked, last_year);
        let (_folder, tls) = files(known, own);
        let error = Etcd::new(std::slice::from_ref(&address), Some(&tls)).unwrap().txn(&txn(), LONG).unwrap_err();
        assert!(matches!(error, EtcdError::Denied { .. }), "{error:?}");
        server.join().unwrap();
    }
}

#[test]
fn one_that_has_no_tls_is_told() {
    let authority = Authority::draw();
    let (_folder, tls) = files(&authority, None);
    let (address, server) = server(vec![Does::IsSilent]);
    let etcd = Etcd::new(std::slice::from_ref(&address), Some(&tls)).unwrap();
    // It waits for the end of a head that is none.
    let error = etcd.txn(&txn(), SHORT).unwrap_err();
    assert!(matches!(error, EtcdError::NotSent { .. }), "{error:?}");
    // Lets the server end.
    let plain = super::etcd(&[&address]).txn(&txn(), SHORT);
    assert!(matches!(plain, Err(EtcdError::Unknown { .. })), "{plain:?}");
    server.join().unwrap();
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let authority = Authority::draw();
    let (_folder, tls) = files(&authority, Some(&authority));
    let key = tls.key.clone().unwrap();
    let opened = || Etcd::new(&["a:1".to_string()], Some(&tls)).map(drop);
    for mode in [0o600, 0o400, 0o700] {
        set_mode(&key, mode);
        assert!(opened().is_ok(), "{mode:o}");
    }
    for mode in [0o640, 0o604, 0o610, 0o602, 0o644] {
        set_mode(&key, mode);
        let error = format!("{:#}", opened().unwrap_err());
        assert!(error.contains("others may read") && error.contains("key.pem"), "{mode:o}: {error}");
    }
    // Others may read the certificates.
    set_mode(&key, 0o600);
    [&tls.ca, tls.cert.as_ref().unwrap()].into_iter().for_each(|path| set_mode(path, 0o644));
    assert!(opened().is_ok());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::draw();
    let (folder, tls) = files(&authority, Some(&authority));
    let of = |tls: &Tls, endpoint: &str| Etcd::new(&[endpoint.to_string()], Some(tls)).map(|_| ());
    assert!(of(&tls, "a:1").is_ok() && of(&tls, "https://a:1").is_ok() && of(&tls, "[::1]:1").is_ok());
    assert!(of(&tls, "http://a:1").is_err());
    let absent = folder.path().join("absent.pem");
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "nothing").unwrap();
    for bad in [
        Tls { ca: absent.clone(), ..tls.clone() },
        Tls { ca: empty.clone(), ..tls.clone() },
        Tls { cert: None, ..tls.clone() },
        Tls { key: None, ..tls.clone() },
        Tls { cert: Some(absent), ..tls.clone() },
        Tls { cert: Some(empty.clone()), ..tls.clone() },
        Tls { key: Some(empty), ..tls.clone() },
        Tls { key: tls.cert.clone(), ..tls.clone() },
    ] {
        let error = format!("{:#}", of(&bad, "a:1").unwrap_err());
        assert!(error.contains(".pem") || error.contains("give both"), "{error}");
    }
}
