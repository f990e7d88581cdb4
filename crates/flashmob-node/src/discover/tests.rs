use std::path::Path;

use flashmob_core::layout::LayoutKind;
use flashmob_core::units::Time;
use qrcodegen::{QrCode, QrCodeEcc};

use super::*;
use crate::qr;
use flashmob_server::config::{Config, NodeSource};
use flashmob_server::discovery::found::FoundNodes;
use flashmob_server::discovery::{Announcement, ExtentId, MeasuredOver, PlaceInVolume};

fn node(number: u8) -> Announcement {
    Announcement {
        extent: ExtentId([number; 16]),
        address: format!("192.168.1.{number}:7411"),
        size_bytes: 4096 * 1000 + u64::from(number),
        name: format!("tablet-{number}"),
        model: Some("Nexus \"7\" # x".to_string()),
        version: "0.1.0".to_string(),
        reads_per_s: Some(1234),
        measured_over: Some(MeasuredOver::Program),
        volume: None,
        place: None,
        battery_percent: None,
    }
}

fn placed(number: u8, volume: &str, index: u32, count: u32, layout: &str) -> Announcement {
    let place = PlaceInVolume { index, count, layout: layout.to_string() };
    Announcement { volume: Some(volume.to_string()), place: Some(place), ..node(number) }
}

fn parsed(volumes: &[write::Volume<'_>]) -> Config {
    let text = write::text(volumes, Some("[::]:7410".parse().unwrap()));
    Config::parse(&text, "cluster.toml", Path::new("/")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn free_nodes_become_a_volume_in_the_order_of_the_list() {
    let nodes = [node(3), node(1), node(2)];
    let (volumes, left_out) = write::volumes(&nodes.iter().collect::<Vec<_>>(), "pool");
    assert!(left_out.is_empty());
    let config = parsed(&volumes);
    assert_eq!(config.admin, Some("[::]:7410".parse().unwrap()));
    let [volume] = &config.volumes[..] else { panic!("{config:?}") };
    assert_eq!((volume.name.as_str(), volume.layout), ("pool", LayoutKind::Linear));
    for (node, told) in volume.nodes.iter().zip(&nodes) {
        assert_eq!(node.source, NodeSource::Remote { address: told.address.clone() });
        assert_eq!((node.extent, node.size_bytes), (Some(told.extent), Some(told.size_bytes)));
    }
}

#[test]
fn a_volume_that_is_all_there_keeps_its_order_and_one_that_is_not_is_named() {
    let nodes = [
        placed(1, "old", 1, 2, "striped:131072"),
        placed(2, "old", 0, 2, "striped:131072"),
        placed(3, "pool", 0, 3, "linear"),
        placed(4, "odd", 0, 1, "raid:5"),
        node(5),
    ];
    let (volumes, left_out) = write::volumes(&nodes.iter().collect::<Vec<_>>(), "pool");
    let config = parsed(&volumes);
    let [old, new] = &config.volumes[..] else { panic!("{config:?}") };
    assert_eq!((old.name.as_str(), old.layout), ("old", LayoutKind::Striped { stripe_bytes: 131_072 }));
    assert_eq!(old.nodes[0].extent, Some(ExtentId([2; 16])));
    assert_eq!(new.name, "pool-2", "not the name that nodes remember another volume by");
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out[0].contains("'odd'") && left_out[0].contains("raid:5"), "{left_out:?}");
    assert!(left_out[1].contains("'pool' has 3 nodes") && left_out[1].contains("tablet-3"), "{left_out:?}");
}

#[test]
fn nodes_of_a_volume_with_copies_are_named_and_not_written() {
    let nodes = [placed(3, "safe", 2, 4096, "mapped:4194304"), placed(1, "safe", 0, 4096, "mapped:4194304"), node(5)];
    let (volumes, left_out) = write::volumes(&nodes.iter().collect::<Vec<_>>(), "pool");
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    assert_eq!(
        left_out,
        [
            "volume 'safe' has copies, and 2 of its nodes were found (tablet-3, tablet-1): start its gateway with its own \
          configuration and the map beside it; nodes alone do not tell where its data is"
        ]
    );
}

#[test]
fn two_extents_at_one_place_are_no_volume() {
    let nodes = [placed(1, "old", 0, 2, "linear"), placed(2, "old", 0, 2, "linear")];
    let (volumes, left_out) = write::volumes(&nodes.iter().collect::<Vec<_>>(), "pool");
    assert!(volumes.is_empty() && left_out.len() == 1, "{volumes:?}");
}

/// The modules shown by `drawn`, without its border.
fn modules(drawn: &str, dark_is_ink: bool) -> Vec<Vec<bool>> {
    let mut rows = Vec::new();
    for line in drawn.lines() {
        let line = line.trim_start_matches("\x1b[38;5;16;48;5;231m").trim_end_matches("\x1b[0m");
        for lower in [false, true] {
            let ink = |c: char| matches!((c, lower), ('█', _) | ('▀', false) | ('▄', true));
            rows.push(line.chars().map(|c| ink(c) == dark_is_ink).collect::<Vec<bool>>());
        }
    }
    rows
}

#[test]
fn what_is_drawn_is_the_code_with_its_border() {
    for colours in [true, false] {
        let drawn = qr::draw("flashmob://join/192.168.1.10:7410", colours).unwrap();
        let code = QrCode::encode_text("flashmob://join/192.168.1.10:7410", QrCodeEcc::Medium).unwrap();
        let rows = modules(&drawn, colours);
        let size = code.size();
        assert!(rows.iter().all(|row| row.len() == size as usize + 8));
        for (y, row) in (-4..).zip(&rows) {
            for (x, dark) in (-4..).zip(row) {
                assert_eq!(*dark, code.get_module(x, y), "{x}, {y}");
            }
        }
        assert!(rows.len() >= size as usize + 8);
    }
    assert!(qr::draw(&"x".repeat(4000), true).is_none());
}

#[test]
fn the_message_names_the_way_that_works() {
    let join = Some("192.168.1.10:7410".parse().unwrap());
    let note = |why: Option<&str>, heard, count| advice::multicast_note(why.map(str::to_string), heard, count, join);
    assert_eq!(note(None, true, 3), None);
    for (note, part) in [
        (note(Some("no network"), false, 0), "does not work here: no network"),
        (note(None, false, 0), "queries got no answer"),
        (note(None, false, 2), "by --join only"),
    ] {
        let note = note.unwrap();
        assert!(note.contains(part) && note.contains("--join 192.168.1.10:7410"), "{note}");
    }
}

#[test]
fn the_table_says_what_each_node_told() {
    let mut found = FoundNodes::default();
    found.joined(Time::default(), node(1), "192.168.1.1:7411".parse().unwrap());
    let other = placed(2, "old", 0, 2, "linear");
    let addr = "192.168.1.2:7411".parse().unwrap();
    found.heard(
        "x".into(),
        Announcement { reads_per_s: None, measured_over: None, battery_percent: Some(81), ..other },
        vec![addr],
    );
    found.tried(ExtentId([2; 16]), Some(addr));
    found.joined(Time::default(), placed(3, "safe", 2, 4096, "mapped:4194304"), "192.168.1.3:7411".parse().unwrap());
    let table = listing::table(&found);
    let lines: Vec<&str> = table.lines().collect();
    for (line, parts) in [
        (lines[1], ["tablet-1", "192.168.1.1:7411", "1234*", "free", "join; no answer"]),
        (lines[2], ["tablet-2", "192.168.1.2:7411", "old 1/2", "81%", "mDNS"]),
        (lines[3], ["tablet-3", "192.168.1.3:7411", "safe node 2 ", "join", ""]),
        (lines[4], ["3 nodes", "", "", "", ""]),
    ] {
        assert!(parts.iter().all(|part| line.contains(part)), "{table}");
    }
    assert!(table.contains("* measured on its program file"), "{table}");
}
