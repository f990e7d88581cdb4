//! What is known of the nodes' disks.

use flashmob_core::condition::Condition;

use super::*;

fn node(disk_id: Option<u64>) -> NodeStatus {
    NodeStatus {
        name: "127.0.0.1:7411".to_string(),
        size_bytes: Some(1 << 20),
        queue_depth: 0,
        no_io: false,
        modelled: false,
        condition: disk_id.map(|id| (Condition { disk_id: Some(id), ..Condition::default() }, Time(0))),
        number: 0,
        failures: flashmob_core::gateway::DeviceFailures::default(),
        refusal: None,
        is_gone: false,
        links: Vec::new(),
    }
}

fn facts(nodes: Vec<NodeStatus>) -> Facts {
    Facts { local_disk_ids: vec![None; nodes.len()], nodes, size_bytes: 1 << 20 }
}

#[test]
fn the_disks_are_those_that_nodes_report_and_wait_for() {
    let modelled = NodeStatus { modelled: true, ..node(Some(7)) };
    let no_io = NodeStatus { no_io: true, ..node(Some(7)) };
    let mut some = facts(vec![node(Some(7)), modelled.clone(), no_io.clone(), node(None), node(None)]);
    some.local_disk_ids[4] = Some("0000000000000007".to_string());
    let seven = || Some("0000000000000007".to_string());
    assert_eq!(some.disk_ids(5), [seven(), None, None, None, seven()]);
    assert!(some.shared_disks(5).unwrap().starts_with("extents share a disk: those of nodes 1, 5. Together"));
    assert_eq!(some.shared_disks(4), None);
    assert!(facts(vec![modelled, no_io, node(None)]).disk_ids(3).is_empty());
}

#[test]
fn each_group_of_nodes_that_shares_a_disk_is_named() {
    let nodes = [1, 2, 1, 2, 3].map(|id| node(Some(id))).to_vec();
    let told = facts(nodes).shared_disks(5).unwrap();
    assert!(told.contains("those of nodes 1, 3; those of nodes 2, 4. Together"), "{told}");
}

#[test]
fn a_volume_with_copies_is_measured_through_its_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cluster.toml");
    let volume = |name: &str, of_it: &str| {
        let node = |n: u8| format!("[[volume.node]]\naddress = \"192.0.2.{n}\"\nsize = \"8MiB\"\n");
        format!("[[volume]]\nname = \"{name}\"\n{of_it}{}{}", node(1), node(2))
    };
    let copies = "layout = \"mapped\"\ncopies = 2\n";
    std::fs::write(&path, volume("plain", "") + &volume("safe", copies).replace("192.0.2", "198.51.100")).unwrap();
    assert_eq!(config(&path, None).unwrap().volumes[0].name, "plain");
    let refusal = config(&path, Some("safe")).unwrap_err().to_string();
    assert!(refusal.contains("'safe' has copies") && refusal.contains("bench nbd"), "{refusal}");
}
