//! Handshakes, in memory.

use std::io::{Read, Write};

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Connection, RootCertStore};

use super::config::provider;
use super::verify::Listed;
use super::{TlsEnd, TlsIdentity};
use crate::keys::authority::Purpose;
use crate::keys::{Folder, PublicKey, SecretKey};

const PURPOSE: &[u8] = b"test/1";

fn ends() -> (TlsEnd, TlsEnd) {
    let (near, far) = (SecretKey::draw().unwrap(), SecretKey::draw().unwrap());
    let of = |key: &SecretKey| (key.to_pkcs8(), key.public().to_spki());
    let ((near_key, near_spki), (far_key, far_spki)) = (of(&near), of(&far));
    let is_key = |spki: &[u8]| PublicKey::from_spki(spki).is_some();
    let client = TlsEnd::client(&TlsIdentity { pkcs8: &near_key, spki: &near_spki }, PURPOSE, is_key).unwrap();
    let server = TlsEnd::server(&TlsIdentity { pkcs8: &far_key, spki: &far_spki }, PURPOSE, is_key).unwrap();
    (client, server)
}

/// Carries what one end has to say to the other, with a byte of it changed if that is given. Whether the other end has taken it.
fn carry(from: &mut Connection, to: &mut Connection, changed: Option<usize>) -> bool {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    if let Some(byte) = changed.and_then(|at| bytes.get_mut(at)) {
        *byte ^= 0x80;
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        if to.process_new_packets().is_err() {
            return false;
        }
    }
    true
}

/// A handshake, and a message. Whether both came about.
fn handshake(client: &TlsEnd, server: &TlsEnd, changed: Option<usize>) -> bool {
    let (mut near, mut far) = (client.begin().unwrap(), server.begin().unwrap());
    for _ in 0..3 {
        if !carry(&mut near, &mut far, changed) || !carry(&mut far, &mut near, None) {
            return false;
        }
    }
    if near.is_handshaking() || far.is_handshaking() {
        return false;
    }
    near.writer().write_all(b"hello").unwrap();
    let mut said = [0; 5];
    carry(&mut near, &mut far, None) && far.reader().read_exact(&mut said).is_ok() && &said == b"hello"
}

#[test]
fn a_changed_first_flight_proves_nothing() {
    let (client, server) = ends();
    assert!(handshake(&client, &server, None));
    let proven = (0..200).filter(|&at| handshake(&client, &server, Some(at))).count();
    // The version in a record's header means nothing.
    assert!(proven <= 4, "{proven}");
}

/// Resident memory, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "takes minutes: HANDSHAKES of them, 100,000 unless it says otherwise; every other one fails"]
fn long_handshakes_leave_nothing_behind() {
    let count: usize = std::env::var("HANDSHAKES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let (client, server) = ends();
    let run = |count: usize| {
        let begun = std::time::Instant::now();
        for number in 0..count {
            let changed = (number % 2 == 1).then_some(40 + number % 160);
            assert_eq!(handshake(&client, &server, changed), changed.is_none(), "{number}");
        }
        begun.elapsed()
    };
    run(count / 10);
    let before = resident_kib();
    let took = run(count);
    let grown = resident_kib().saturating_sub(before);
    println!("{count} handshakes in {took:.1?}, half of them broken off; {grown} KiB more memory");
    assert!(grown < 4096, "{grown} KiB more after {count} handshakes");
}

/// How many certificates with changes are taken, of `count`; every one is on the list.
fn changed_certificates_taken(count: usize) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(&dir.path().join("keys"));
    folder.create().unwrap();
    let authority = folder.authority(Purpose::Clients).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate().unwrap().0)).unwrap();
    let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider())).build().unwrap();
    let listed = Listed { signed, is_known: Box::new(|_| true) };
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_600_000_000));
    let is_taken = |der: &[u8]| listed.verify_client_cert(&CertificateDer::from(der), &[], now).is_ok();
    let good = authority.issue("client alice", &[], &[]).unwrap().der;
    assert!(is_taken(&good));
    let of_gateway = folder.authority(Purpose::Gateway).unwrap().issue("client alice", &[], &[]).unwrap().der;
    assert!(!is_taken(&of_gateway), "of the other authority");
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |limit: usize| {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        (number % limit as u64) as usize
    };
    let taken = (0..count).filter(|_| {
        let mut changed = good.clone();
        for _ in 0..=draw(3) {
            let at = draw(changed.len());
            match draw(4) {
                0 => changed.truncate(at.max(1)),
                1 => changed.insert(at, draw(256) as u8),
                2 => changed[at] = draw(256) as u8,
                _ => changed[at] ^= 1 << draw(8),
            }
        }
        changed != good && is_taken(&changed)
    });
    taken.count()
}

#[test]
fn no_changed_certificate_is_taken() {
    assert_eq!(changed_certificates_taken(2000), 0);
}

#[test]
#[ignore = "takes minutes: CERTIFICATES of them, 100,000 unless it says otherwise"]
fn long_no_changed_certificate_is_taken() {
    let count = std::env::var("CERTIFICATES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    changed_certificates_taken(count / 10);
    let before = resident_kib();
    assert_eq!(changed_certificates_taken(count), 0);
    let grown = resident_kib().saturating_sub(before);
    println!("{count} changed certificates, none taken; {grown} KiB more memory");
    assert!(grown < 4096, "{grown} KiB more");
}
