//! Keys and what proves them: grants, which come from whoever connects to a node, and the texts of a gateway's folder.

use std::path::Path;
use std::sync::LazyLock;

use flashmob_server::keys::grant::{BadGrant, GENERATION_MAX, GRANT_BYTES};
use flashmob_server::keys::{BadPublicKey, Grant, Pins, PublicKey, SecretKey, shown};

/// Where fields of a grant are, and its signature.
const CLUSTER_AT: usize = 8;
const SIGNATURE_AT: usize = GRANT_BYTES - 64;
const MAGIC: &[u8; 8] = b"FMGRANT1";

/// A key that signs. Nothing depends on which it is.
static SIGNER: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::draw().expect("random numbers"));

/// The first byte says what the rest is.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 6 {
        0 => grant(rest),
        1 => grant(&signed(rest)),
        2 => pins(rest),
        3 => public_key(rest),
        4 => spki(rest),
        _ => shown_grants(rest),
    }
}

fn grant(bytes: &[u8]) {
    match Grant::parse(bytes) {
        Ok(grant) => {
            assert_eq!(bytes.len(), GRANT_BYTES);
            assert!(grant.generation <= GENERATION_MAX);
            assert!(grant.cluster.verifies(&bytes[..SIGNATURE_AT], &bytes[SIGNATURE_AT..]));
            if grant.cluster == SIGNER.public() {
                let again = Grant::sign(&SIGNER, grant.gateway, grant.generation);
                assert_eq!(again, bytes, "there is one way to write it");
            }
        }
        Err(why) => assert_eq!(why == BadGrant::Form, bytes.len() != GRANT_BYTES || !bytes.starts_with(MAGIC)),
    }
}

/// What a stranger shows first. Only a grant that is in it whole, and has the signature of the cluster that it names, is taken.
fn shown_grants(bytes: &[u8]) {
    let own = bytes.get(CLUSTER_AT..CLUSTER_AT + 32).and_then(|key| PublicKey::of(key.try_into().ok()?));
    for cluster in own.into_iter().chain([SIGNER.public()]) {
        let Some((grant, len)) = shown::read(bytes, cluster) else {
            assert!(bytes.len() < 8 + 2 * GRANT_BYTES);
            continue;
        };
        assert!(len <= bytes.len() && (len == GRANT_BYTES || len == 8 + 2 * GRANT_BYTES));
        let is_in_it = |grant: Grant| bytes[..len].windows(GRANT_BYTES).any(|part| Grant::parse(part) == Ok(grant));
        assert!(grant.is_err() || grant.is_ok_and(is_in_it));
        for cut in [0, len / 2, len - 1] {
            assert!(shown::read(&bytes[..cut], cluster).is_none_or(|(_, cut_len)| cut_len <= cut));
        }
    }
}

/// With the right key, form and signature, so that fields are reached: the rest are the gateway's key, generation and rights.
fn signed(fields: &[u8]) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], SIGNER.public().bytes(), fields].concat();
    bytes.resize(SIGNATURE_AT, 0);
    let signature = SIGNER.sign(&bytes);
    bytes.extend_from_slice(&signature);
    let is_whole =
        Grant::parse(&bytes).is_ok_and(|grant| grant.cluster.bytes()[..] == bytes[CLUSTER_AT..CLUSTER_AT + 32]);
    let generation = bytes[72..80].iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    assert_eq!(is_whole, bytes[80] == 1 && generation <= GENERATION_MAX);
    bytes
}

fn pins(bytes: &[u8]) {
    let path = Path::new("nodes");
    let pins = match Pins::parse(path, bytes) {
        Ok(pins) => pins,
        Err(error) => {
            assert!(error.to_string().contains("nodes"), "{error}");
            return;
        }
    };
    let mut text = "# Keys of nodes\n".to_string();
    for (extent, key) in pins.iter() {
        assert_eq!(pins.extent_of(key), Some(extent), "one key, one extent");
        text += &format!("[[node]]\nextent = \"{extent}\"\nkey = \"{key}\"\n");
    }
    assert_eq!(Pins::parse(path, text.as_bytes()).expect("what was read can be written"), pins);
}

fn public_key(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    match text.parse::<PublicKey>() {
        Ok(key) => assert_eq!(key.to_string(), text.to_ascii_lowercase()),
        Err(BadPublicKey::Digits) => assert!(text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit())),
        // As many keys as there are small orders.
        Err(BadPublicKey::SmallOrder) => assert!(text.len() == 64),
    }
}

/// A key as TLS carries it. No bytes make a check of a signature panic.
fn spki(bytes: &[u8]) {
    if let Some(key) = PublicKey::from_spki(bytes) {
        assert_eq!(key.to_spki(), bytes, "there is one way to write it");
        assert!(!key.verifies(b"message", &[0; 64]) || key != SIGNER.public());
    }
}

/// One of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    let fields = |generation: u64, rights: u8| [&[2; 32][..], &generation.to_le_bytes(), &[rights]].concat();
    let pins = concat!(
        "# Keys of nodes, by extent.\n[[node]]\nextent = \"0123456789abcdef0123456789abcdef\"\n",
        "key = \"19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1\"\n",
        "[[node]]\nextent = \"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\"\n",
        "key = \"D75A980182B10AB7D54BFED3C964073A0EE172F3DAA62325AF021A68F707511A\"\n"
    );
    let twice = format!("{pins}{pins}").replacen("19bf", "29bf", 1);
    let unsigned = [&MAGIC[..], &[1; 32], &fields(7, 1), &[3; 64]].concat();
    let both = shown::show(&unsigned, Some(&unsigned));
    vec![
        ("shown_one", of(5, &unsigned)),
        ("shown_both", of(5, &both)),
        ("shown_cut", of(5, &both[..GRANT_BYTES + 8])),
        ("grant_unsigned", of(0, &unsigned)),
        ("grant_cut", of(0, &unsigned[..GRANT_BYTES - 1])),
        ("grant_signed", of(1, &fields(7, 1))),
        ("grant_last", of(1, &fields(GENERATION_MAX, 1))),
        ("grant_too_late", of(1, &fields(GENERATION_MAX + 1, 1))),
        ("grant_other_rights", of(1, &fields(1, 2))),
        ("pins", of(2, pins.as_bytes())),
        ("pins_twice", of(2, twice.as_bytes())),
        ("public_key", of(3, &"0123456789abcdefABCDEF".repeat(3).as_bytes()[..64])),
        ("spki", of(4, &PublicKey::of([9; 32]).expect("of large order").to_spki())),
    ]
}
