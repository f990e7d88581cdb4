//! Checks of a cluster, on made-up reports of a gateway.

use flashmob_results::diagnosis::Outcome::{self, NotApplicable, Severe, Unknown, Well, Wrong};

use super::{Finding, Tree, look};
use crate::view::cluster::{Cluster, Condition, Copies, Member, Node, Volume};

/// A volume with two copies over four nodes, each a device and a domain of its own, and all well.
fn volume() -> Volume {
    let node = |n: u8| Node {
        name: format!("192.0.2.{n}:7411"),
        state: "ready".into(),
        refusal: None,
        size_bytes: Some(1 << 30),
        fails: None,
        member: Some(Member { domain: format!("d{n}"), copies: 256, behind: 0, only: 0 }),
        condition: Some(Condition {
            disk: Some(format!("{n:016x}")),
            battery_percent: Some(80),
            charging: Some(true),
            celsius: Some(31.0),
            free_bytes: Some(2 << 30),
            unallocated_bytes: Some(1 << 30),
            ..Condition::default()
        }),
    };
    Volume {
        name: "pool".into(),
        copies: Some(Copies { wanted: 2, fewest_current: 2, chunk_bytes: 4 << 20 }),
        nodes: (1..=4).map(node).collect(),
    }
}

fn found(name: &str, volumes: Vec<Volume>) -> Finding {
    let mut view = Tree::new(&[]).view();
    view.cluster = Some(Cluster { volumes });
    look(&view, name)
}

/// The finding of a check of [`volume`] after a change.
fn with(name: &str, change: impl FnOnce(&mut Volume)) -> Finding {
    let mut volume = volume();
    change(&mut volume);
    found(name, vec![volume])
}

fn condition(volume: &mut Volume, at: usize) -> &mut Condition {
    volume.nodes[at].condition.as_mut().unwrap()
}

/// Asserts the outcome, and that each of `texts` is in what was found or in its cost.
fn assert_finds(finding: &Finding, outcome: Outcome, texts: &[&str]) {
    assert_eq!(finding.outcome, outcome, "{finding:?}");
    let said = format!("{} {}", finding.found, finding.cost);
    texts.iter().for_each(|text| assert!(said.contains(text), "no '{text}' in {finding:?}"));
}

const NAMES: [&str; 8] = [
    "cluster-nodes",
    "cluster-copies",
    "cluster-domains",
    "cluster-spare",
    "cluster-batteries",
    "cluster-devices",
    "cluster-heat",
    "cluster-space",
];

#[test]
fn a_cluster_that_is_well_has_no_problem_and_without_one_nothing_applies() {
    for name in NAMES {
        assert_eq!(found(name, vec![volume()]).outcome, Well, "{name}");
        assert_eq!(found(name, vec![]).outcome, NotApplicable, "{name}");
        assert_eq!(Tree::new(&[]).look(name).outcome, NotApplicable, "{name}");
    }
}

#[test]
fn nodes_that_are_away_are_named_with_what_they_cost() {
    let away = |volume: &mut Volume| volume.nodes[2].state = "connecting".into();
    let finding = with("cluster-nodes", away);
    assert_finds(&finding, Wrong, &["1 of 4", "192.0.2.3:7411 of pool is connecting", "a copy less"]);
    let finding = with("cluster-nodes", |volume| {
        away(volume);
        volume.copies = None;
    });
    assert_finds(&finding, Severe, &["fail at the timeout"]);
    let finding = with("cluster-nodes", |volume| {
        volume.nodes[0].state = "refused".into();
        volume.nodes[0].refusal = Some("it serves another extent".into());
    });
    assert_finds(&finding, Wrong, &["192.0.2.1:7411 of pool is refused (it serves another extent)"]);
}

#[test]
fn more_nodes_than_can_be_read_are_counted() {
    let finding = with("cluster-nodes", |volume| {
        let one = volume.nodes[0].clone();
        volume.nodes = (0..6).map(|n| Node { name: format!("n{n}"), state: "waiting".into(), ..one.clone() }).collect();
    });
    assert_finds(&finding, Wrong, &["6 of 6", "n3 of pool is waiting and 2 more"]);
    assert!(!finding.found.contains("n4"), "{finding:?}");
}

#[test]
fn fewer_copies_than_wanted_are_judged_by_what_is_left() {
    let of = |wanted: usize, fewest_current: usize| {
        with("cluster-copies", |volume| {
            volume.copies = Some(Copies { wanted, fewest_current, chunk_bytes: 4 << 20 });
            volume.nodes[1].member.as_mut().unwrap().behind = 7;
            volume.nodes[3].member.as_mut().unwrap().only = 5;
        })
    };
    assert_eq!(of(2, 2).outcome, Well);
    assert_finds(&of(2, 1), Severe, &["1 of 2", "192.0.2.2:7411 lacks 7", "192.0.2.4:7411 (5)"]);
    assert_finds(&of(3, 2), Wrong, &["2 of 3"]);
    assert_finds(&of(2, 0), Severe, &["0 of 2", "wait"]);
    assert_eq!(of(1, 1).outcome, Well, "one copy was asked for");
    let none = with("cluster-copies", |volume| volume.copies = None);
    assert!(none.outcome == Well && none.advice.contains("copies = 2"), "{none:?}");
    let worst = Volume {
        name: "worst".into(),
        copies: Some(Copies { wanted: 3, fewest_current: 1, chunk_bytes: 1 }),
        ..volume()
    };
    assert_finds(&found("cluster-copies", vec![volume(), worst]), Severe, &["worst"]);
}

#[test]
fn domains_on_one_disk_or_device_are_named() {
    let same_disk = |volume: &mut Volume| condition(volume, 1).disk = Some(format!("{:016x}", 1));
    let finding = with("cluster-domains", same_disk);
    assert_finds(&finding, Severe, &["192.0.2.1:7411, 192.0.2.2:7411 of pool are on disk 0000000000000001"]);
    let finding = with("cluster-domains", |volume| {
        same_disk(volume);
        volume.nodes[1].member.as_mut().unwrap().domain = "d1".into();
    });
    assert_eq!(finding.outcome, Well, "one domain, as it should be");
    let finding = with("cluster-domains", |volume| {
        same_disk(volume);
        volume.copies.as_mut().unwrap().wanted = 1;
    });
    assert_eq!(finding.outcome, NotApplicable, "one copy alone lies in one place anyway");
    let finding = with("cluster-domains", |volume| volume.nodes[1].name = "192.0.2.1:7412".into());
    assert_finds(&finding, Wrong, &["192.0.2.1:7411, 192.0.2.1:7412 of pool are on device 192.0.2.1"]);
    let finding = with("cluster-domains", |volume| {
        volume.nodes.iter_mut().for_each(|node| (node.name, node.condition) = ("/data/file".into(), None));
    });
    assert_eq!(finding.outcome, Well, "of files in the gateway nothing is known");
}

#[test]
fn the_largest_domain_says_how_large_a_spare_has_to_be() {
    let finding = with("cluster-spare", |volume| {
        for at in [1, 3] {
            volume.nodes[at].member.as_mut().unwrap().domain = "shelf".into();
        }
    });
    assert_finds(&finding, Well, &["192.0.2.2:7411, 192.0.2.4:7411 of pool with 2 GiB"]);
    assert!(finding.advice.contains("volume replace"));
}

#[test]
fn batteries_are_judged_by_charge_and_supply() {
    let of = |battery_percent, charging, is_battery_low| {
        with("cluster-batteries", |volume| {
            let one = condition(volume, 0);
            (one.battery_percent, one.charging, one.is_battery_low) = (battery_percent, charging, is_battery_low);
        })
    };
    assert_finds(&of(Some(12), Some(false), true), Severe, &["192.0.2.1:7411 of pool at 12 %"]);
    assert_finds(&of(Some(90), Some(false), false), Wrong, &["at 90 %"]);
    assert_eq!(of(Some(12), Some(true), false).outcome, Well);
    assert_finds(&of(None, None, false), Well, &["all 3 nodes"]);
    let boards = with("cluster-batteries", |volume| volume.nodes.iter_mut().for_each(|node| node.condition = None));
    assert_eq!(boards.outcome, Unknown);
}

#[test]
fn a_device_that_fails_operations_is_named() {
    let failing = with("cluster-devices", |volume| volume.nodes[1].fails = Some("fails flushes".to_string()));
    assert_finds(&failing, Severe, &["192.0.2.2:7411 of pool fails flushes"]);
    assert_finds(&with("cluster-devices", |_| {}), Well, &["no device has failed"]);
}

#[test]
fn heat_and_space_are_what_nodes_report() {
    let hot = with("cluster-heat", |volume| {
        let one = condition(volume, 2);
        (one.is_hot, one.celsius) = (true, Some(48.2));
    });
    assert_finds(&hot, Wrong, &["192.0.2.3:7411 of pool at 48 °C"]);
    let space = |free, wanted, is_little| {
        with("cluster-space", |volume| {
            let one = condition(volume, 0);
            (one.free_bytes, one.unallocated_bytes, one.is_space_little) = (Some(free), Some(wanted), is_little);
        })
    };
    assert_finds(&space((1 << 30) - 1, 1 << 30, true), Severe, &["will fail with no space"]);
    assert_eq!(space(1 << 30, 1 << 30, false).outcome, Well);
    assert_finds(&space(1 << 30, 0, true), Wrong, &["1 GiB free"]);
}
