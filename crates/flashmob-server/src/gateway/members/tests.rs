use flashmob_core::copies::{Member, Record, unknown_extent};
use flashmob_core::units::MIB;

use super::*;

/// A volume with nodes at these addresses.
fn volume(addresses: &[&str]) -> VolumeConfig {
    let mut text = "[[volume]]\nname = 'pool'\nlayout = 'mapped'\ncopies = 2\n".to_string();
    for address in addresses {
        text += &format!("[[volume.node]]\naddress = '{address}'\nsize = '8MiB'\n");
    }
    Config::parse(&text, "cluster.toml", Path::new("/")).unwrap().volumes.remove(0)
}

/// A map of a volume with two nodes, to which others were added at these addresses.
fn image(added: &[&str]) -> MapImage {
    let member = |number: u8| Member {
        extent_id: [number + 1; 16],
        boot_id: None,
        seen: None,
        size_bytes: 8 * MIB,
        domain: format!("node {number}"),
    };
    let mut image = MapImage::new([9; 16], 4 * MIB, 2, vec![member(0), member(1)]).unwrap();
    let address =
        |member: u16, address: &str| Record::Address { member, address: address.to_string(), is_seed: member < 2 };
    if !added.is_empty() {
        image.apply(&address(0, "a:1")).unwrap();
        image.apply(&address(1, "b:1")).unwrap();
    }
    for (number, added) in (2..).zip(added) {
        let domain = format!("node {added}");
        let extent_id = unknown_extent(number);
        image.apply(&Record::Member { number, extent_id, size_bytes: 0, domain }).unwrap();
        image.apply(&address(number, added)).unwrap();
    }
    image
}

/// What the gateway uses: the addresses by number, and what it says about them.
fn used(volume: &VolumeConfig, image: &MapImage) -> (Vec<String>, Vec<Note>) {
    let (nodes, notes) = merged(volume, image).unwrap();
    assert_eq!(nodes.len(), image.members().len().max(nodes.len()));
    (nodes.iter().map(|node| if node.is_gone { "-".to_string() } else { node.source.name() }).collect(), notes)
}

#[test]
fn nodes_that_were_added_are_those_of_the_map() {
    let (names, notes) = used(&volume(&["a:1", "b:1"]), &image(&["c:1", "d:1"]));
    assert_eq!(names, ["a:1", "b:1", "c:1", "d:1"]);
    assert_eq!(notes, [Note::Info("volume pool: of its map alone: node 2 (c:1), 3 (d:1)".to_string())]);
    let (names, notes) = used(&volume(&["a:1", "b:1", "c:1"]), &image(&["c:1"]));
    assert_eq!((names.len(), notes), (3, vec![]), "written into the configuration since");
}

#[test]
fn sizes_are_those_of_the_map_where_it_has_them() {
    let (mut volume, mut image) = (volume(&["a:1", "b:1"]), image(&["c:1"]));
    image.apply(&Record::Extent { member: 1, extent_id: [2; 16], size_bytes: 12 * MIB }).unwrap();
    volume.nodes = merged(&volume, &image).unwrap().0;
    let notes = take_sizes(&mut volume, &image);
    let sizes: Vec<Option<u64>> = volume.nodes.iter().map(|node| node.size_bytes).collect();
    assert_eq!(sizes, [Some(8 * MIB), Some(12 * MIB), None], "one that was never there may have any");
    assert!(
        matches!(&notes[..], [Note::Warning(text)] if text.contains("that node 1 has 8 MiB, and the map 12 MiB")),
        "{notes:?}"
    );
}

#[test]
fn a_map_to_which_nothing_was_added_does_not_change_the_configuration() {
    let (names, notes) = used(&volume(&["x:1", "y:1", "z:1"]), &image(&[]));
    assert_eq!((names, notes), (vec!["x:1".to_string(), "y:1".to_string(), "z:1".to_string()], vec![]));
}

#[test]
fn disagreements_are_told_and_lines_may_go_or_change_places() {
    let (names, notes) = used(&volume(&["b:1", "c:1"]), &image(&["c:1", "d:1"]));
    assert_eq!(names, ["a:1", "b:1", "c:1", "d:1"], "a line that is gone is not another node's");
    assert_eq!(notes, [Note::Info("volume pool: of its map alone: node 0 (a:1), 3 (d:1)".to_string())]);
    let (names, notes) = used(&volume(&["b:1", "a:1"]), &image(&["c:1"]));
    assert_eq!((names, notes.len()), (vec!["a:1".to_string(), "b:1".to_string(), "c:1".to_string()], 1));
    let (names, notes) = used(&volume(&["a:1", "x:1"]), &image(&["c:1"]));
    assert_eq!(names, ["a:1", "x:1", "c:1"], "whoever edits an address means it");
    assert!(
        matches!(&notes[0], Note::Warning(text) if text.contains("node 1 is at b:1 in the map, and at x:1")),
        "{notes:?}"
    );
    let (names, notes) = used(&volume(&["a:1", "b:1", "c:1", "d:1"]), &image(&["c:1"]));
    assert_eq!(names, ["a:1", "b:1", "c:1"]);
    assert!(
        matches!(&notes[..], [Note::Warning(text)] if text.contains("d:1 is node 3 in the configuration, and none in the map")),
        "{notes:?}"
    );
}

#[test]
fn a_line_is_one_node_and_one_that_was_added_is_none_that_the_map_has() {
    let (names, notes) = used(&volume(&["a:1", "b:1", "d:1"]), &image(&["c:1"]));
    assert_eq!(names, ["a:1", "b:1", "c:1"], "the place of a line says nothing of nodes that were added");
    assert!(
        matches!(&notes[..], [Note::Info(_), Note::Warning(text)] if text.contains("d:1 is node 2 in the configuration")),
        "{notes:?}"
    );
    // Two devices have changed their addresses, and the configuration names their extents.
    let mut swapped = volume(&["b:1", "a:1"]);
    for (number, node) in swapped.nodes.iter_mut().enumerate() {
        node.extent = Some(crate::store::ExtentId([number as u8 + 1; 16]));
    }
    let (names, notes) = used(&swapped, &image(&["c:1"]));
    assert_eq!((names, notes.len()), (vec!["b:1".to_string(), "a:1".to_string(), "c:1".to_string()], 3));
}

#[test]
fn nodes_of_the_gateway_itself_are_in_the_order_that_is_left() {
    let text = "[[volume]]\nname = 'pool'\nlayout = 'mapped'\ncopies = 2\n\
                [[volume.node]]\npath = '/b'\nsize = '8MiB'\n[[volume.node]]\naddress = 'c:1'\nsize = '8MiB'\n";
    let volume = Config::parse(text, "cluster.toml", Path::new("/")).unwrap().volumes.remove(0);
    let mut image = image(&[]);
    let domain = "node c:1".to_string();
    image.apply(&Record::Member { number: 2, extent_id: unknown_extent(2), size_bytes: 0, domain }).unwrap();
    image.apply(&Record::Address { member: 2, address: "c:1".to_string(), is_seed: true }).unwrap();
    image.apply(&Record::Address { member: 0, address: "a:1".to_string(), is_seed: true }).unwrap();
    let (names, _) = used(&volume, &image);
    assert_eq!(names, ["a:1", "/b", "c:1"]);
    let (one, none) = (volume.nodes[1].clone(), VolumeConfig { nodes: vec![], ..volume.clone() });
    let error = merged(&VolumeConfig { nodes: vec![one], ..none }, &image).unwrap_err().to_string();
    assert!(error.contains("the map has node 1, of which it has no address"), "{error}");
}

#[test]
fn a_removed_node_keeps_its_number() {
    let mut image = image(&["c:1", "d:1"]);
    image.apply(&Record::Gone { member: 2 }).unwrap();
    let (names, notes) = used(&volume(&["a:1", "b:1"]), &image);
    assert_eq!(names, ["a:1", "b:1", "-", "d:1"]);
    assert_eq!(notes, [Note::Info("volume pool: of its map alone: node 3 (d:1)".to_string())]);
    let (_, notes) = used(&volume(&["a:1", "b:1", "c:1"]), &image);
    assert!(
        matches!(&notes[1], Note::Warning(text) if text.contains("c:1 is node 2 in the configuration, and none in the map")),
        "{notes:?}"
    );
}
