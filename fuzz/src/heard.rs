//! What devices tell: a node at `/join` and by multicast DNS, which anybody on the network may imitate, an app in its file, and a node
//! that ran earlier in the files beside its data.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use flashmob_core::checksum::checksum;
use flashmob_server::device::state_file;
use flashmob_server::discovery::announcement::{Announcement, BODY_BYTES_MAX, OwnAddress, is_usable};
use flashmob_server::discovery::{Notice, txt};
use flashmob_server::store::identity::Identity;
use flashmob_server::store::{ProcessEnd, sync_record};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 11));

/// The first byte says what the rest is.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 6 {
        0 => joined(rest),
        1 => named(rest),
        2 => told(rest),
        3 => remembered(rest),
        4 => recorded(rest),
        _ => ended(rest),
    }
}

fn joined(body: &[u8]) {
    if let Ok(addr) = OwnAddress::parse(body, PEER) {
        assert!(is_usable(addr) && body.len() <= BODY_BYTES_MAX, "{addr}");
    }
    let Ok((announcement, addr)) = Announcement::parse(body, PEER) else { return };
    assert!(body.len() <= BODY_BYTES_MAX);
    assert!(is_usable(addr), "{addr}");
    assert_eq!(announcement.address, addr.to_string());
    assert_eq!(announcement.check(), Ok(()));
    let again = serde_json::to_vec(&announcement).expect("what was read can be written");
    if again.len() <= BODY_BYTES_MAX {
        assert_eq!(Announcement::parse(&again, PEER), Ok((announcement, addr)));
    }
}

/// Lines of `key=value`.
fn named(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let value =
        |key: &str| text.lines().filter_map(|line| line.split_once('=')).find(|(k, _)| *k == key).map(|(_, v)| v);
    let address = || "192.168.1.11:7411".to_string();
    let Ok(notice) = txt::read(address(), value) else { return };
    let entries = txt::entries(&notice);
    assert!(entries.iter().all(|(key, value)| key.len() + 1 + value.len() <= 255));
    assert!(notice.instance_name().len() <= 63);
    let same = |key: &str| entries.iter().find(|(k, _)| *k == key).map(|(_, value)| value.as_str());
    match (&notice, txt::read(address(), same).expect("what was written can be read")) {
        (Notice::Open(announcement), Notice::Open(again)) => {
            assert_eq!(announcement.check(), Ok(()));
            assert_eq!(again.extent, announcement.extent);
            let (was, is) = (announcement.volume.is_some(), again.volume.is_some());
            assert_eq!(was, is, "a node that belongs somewhere seems free");
        }
        (_, again) => assert_eq!(again, notice),
    }
}

fn told(text: &[u8]) {
    let now = UNIX_EPOCH + Duration::from_secs(1_763_800_000);
    if let Ok(condition) = state_file::parse(text, Some(now), now) {
        assert!(condition.battery_percent.is_none_or(|percent| percent <= 100));
        assert!(condition.celsius_tenths.is_none_or(|tenths| tenths.abs() <= 1500));
    }
}

/// The identity of an extent: with the checksum that the bytes have, and with the right one, which no fuzzer finds.
fn remembered(body: &[u8]) {
    let path = Path::new("data.flashmob");
    let _ = Identity::parse(path, body);
    match Identity::parse(path, &sealed(body)) {
        Ok(identity) => {
            assert!(identity.charge().is_none() || identity.place().is_some());
            let text = identity.to_text().expect("what was read can be written");
            assert_eq!(Identity::parse(path, text.as_bytes()).expect("what was written can be read"), identity);
        }
        Err(error) => assert!(error.to_string().contains("data.flashmob")),
    }
}

/// The record of syncs that failed, in the same way.
fn recorded(body: &[u8]) {
    let _ = sync_record::parse(body);
    if let Ok(record) = sync_record::parse(&sealed(body)) {
        assert!(record.dropped <= record.failed);
        let text = sync_record::encode(&record).expect("what was read can be written");
        assert_eq!(sync_record::parse(text.as_bytes()), Ok(record));
    }
}

/// The record of a process that ended in order, in the same way.
fn ended(body: &[u8]) {
    let _ = ProcessEnd::parse(body);
    if let Ok(end) = ProcessEnd::parse(&sealed(body)) {
        assert_eq!(ProcessEnd::parse(end.encode().as_bytes()), Ok(end));
    }
}

/// With the checksum that it should have.
fn sealed(body: &[u8]) -> Vec<u8> {
    [body, format!("\n# crc32 {:08x}\n", checksum(&[body, b"\n"].concat())).as_bytes()].concat()
}

/// One of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let join = r#"{"extent":"0123456789abcdef0123456789abcdef","address":":7411","size_bytes":17179869184,"name":"nexus7-a","model":"Nexus 7","version":"0.1.0","reads_per_s":1234,"measured_over":"program","volume":"pool","place":{"index":1,"count":8,"layout":"linear"},"battery_percent":85}"#;
    let txt = "txtvers=1\nid=0123456789abcdef0123456789abcdef\nsize=17179869184\nname=nexus7-a\nver=0.1.0\nreads=1234\nover=extent\nvolume=pool\nplace=1/8\nlayout=linear\nbattery=85";
    let state = r#"{"written_at_unix_ms":1763800000000,"battery_percent":81,"charging":true,"battery_celsius":31.5,"screen_on":false,"thermal_status":0,"power_save":false,"doze":false,"battery_exempt":true,"network":"wifi"}"#;
    let plain = "version = 1\nextent_id = \"0123456789abcdef0123456789abcdef\"\nsize_bytes = 1073741824";
    let charged = concat!(
        "version = 2\nextent_id = \"0123456789abcdef0123456789abcdef\"\nsize_bytes = 1073741824\n",
        "[adopted]\nvolume_id = \"pool\"\nextent_index = 3\nextent_count = 4096\nlayout = \"mapped:4194304\"\n",
        "adopted_at_unix_s = 1763800000\n",
        "[charge]\nmap_id = \"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\"\nepoch = 5\nnonce = \"ffffffffffffffff\"\nversion = 9",
    );
    let stamp = "\n[sums]\nnonce = \"0123456789abcdef0123456789abcdef\"\nbefore = \"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\"";
    let summed = charged.replacen("version = 2", "version = 3", 1) + stamp;
    let pinned =
        "\n[cluster]\nkey = \"19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1\"\ngeneration = 3";
    let keyed = plain.replacen("version = 1", "version = 4", 1) + pinned;
    let last = keyed.replacen("generation = 3", "generation = 9223372036854775807", 1);
    let summed_and_keyed = summed.replacen("version = 3", "version = 4", 1) + pinned;
    let syncs = "version = 1\nboot_id = \"0123456789abcdef0123456789abcdef\"\nfailed = 2\ndropped = 1";
    let end =
        "version = 1\nboot_id = \"0123456789abcdef0123456789abcdef\"\nstart = \"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\"";
    let seed = |kind: u8, text: &str| [&[kind][..], text.as_bytes()].concat();
    vec![
        ("join", seed(0, join)),
        ("txt", seed(1, txt)),
        ("txt_with_mark", seed(1, "txtvers=2\nmark=0123456789abcdef0123456789abcdef")),
        ("join_of_own", seed(0, r#"{"address":":7411"}"#)),
        ("state", seed(2, state)),
        ("identity", seed(3, plain)),
        ("identity_with_charge", seed(3, charged)),
        ("identity_with_sums", seed(3, &summed)),
        ("identity_with_cluster", seed(3, &keyed)),
        ("identity_of_last_generation", seed(3, &last)),
        ("identity_with_cluster_and_sums", seed(3, &summed_and_keyed)),
        ("failed_syncs", seed(4, syncs)),
        ("process_end", seed(5, end)),
    ]
}
