//! A cluster: its nodes, its copies, and what the loss of a device would mean.
//!
//! The gateway's report is trusted as far as it goes: what a node does not report is not guessed.

use std::collections::BTreeMap;

use super::Finding;
use crate::bytes;
use crate::view::View;
use crate::view::cluster::{Cluster, Condition, Copies, Member, Node, Volume};

/// A finding names at most so many nodes or volumes, and counts the others.
const NAMED_MAX: usize = 4;

/// The check of a cluster, if one was named.
fn with_cluster(view: &View, check: impl FnOnce(&Cluster) -> Finding) -> Finding {
    match &view.cluster {
        Some(cluster) if cluster.volumes.is_empty() => Finding::not_applicable("the gateway has no volume"),
        Some(cluster) => check(cluster),
        None => Finding::not_applicable("no gateway was named")
            .with_advice("name its admin address with --cluster ADDR:PORT"),
    }
}

/// `a, b, c, d and 3 more`.
pub(super) fn listed(names: &[String]) -> String {
    match names.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMED_MAX].join(", ")),
    }
}

fn of(volume: &Volume, node: &Node) -> String {
    format!("{} of {}", node.name, volume.name)
}

/// All nodes with the volume that they belong to.
fn nodes(cluster: &Cluster) -> impl Iterator<Item = (&Volume, &Node)> {
    cluster.volumes.iter().flat_map(|volume| volume.nodes.iter().map(move |node| (volume, node)))
}

/// Nodes that do not serve.
pub(super) fn away(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let away: Vec<(&Volume, &Node)> = nodes(cluster)
            .filter(|(_, node)| !node.is_ready() && !["drained", "removed"].contains(&&*node.state))
            .collect();
        let names: Vec<String> = away
            .iter()
            .map(|(volume, node)| match &node.refusal {
                Some(why) => format!("{} is refused ({why})", of(volume, node)),
                None => format!("{} is {}", of(volume, node), node.state),
            })
            .collect();
        if names.is_empty() {
            return Finding::well(format!("all {} nodes serve", nodes(cluster).count()));
        }
        let found = format!("{} of {} nodes do not serve: {}", names.len(), nodes(cluster).count(), listed(&names));
        let advice = "start flashmob on it with the file that it had, and see its log; if the file is lost, \
                      'flashmob volume replace' takes an empty one in a volume with copies";
        let finding = if away.iter().any(|(volume, _)| volume.copies.is_none()) {
            Finding::severe(found, "requests to their part of a volume without copies wait, and fail at the timeout")
        } else {
            Finding::wrong(found, "their chunks have a copy less, and what they miss has to be copied to them later")
        };
        finding.with_advice(advice)
    })
}

/// Devices that fail reads, writes or flushes.
pub(super) fn devices(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let named = |(volume, node): (&Volume, &Node)| Some(format!("{} {}", of(volume, node), node.fails.as_ref()?));
        let failing: Vec<String> = nodes(cluster).filter_map(named).collect();
        if failing.is_empty() {
            return Finding::well("no device has failed reads, writes or flushes lately");
        }
        Finding::severe(
            format!("devices fail: {}", listed(&failing)),
            "data that only such a device has can be lost; copies on it fall behind where others are left",
        )
        .with_advice(
            "the node's log has the error: make room if it is full, else restart the device, or replace it ('flashmob volume replace' where there are copies)",
        )
    })
}

/// Chunks that have lost copies.
pub(super) fn copies(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let with_copies = || cluster.volumes.iter().filter_map(|volume| Some((volume, volume.copies?)));
        let Some((volume, copies)) = with_copies().min_by_key(|(_, copies)| left(copies)) else {
            return Finding::well("no volume has copies")
                .with_advice("a device that dies takes its part of a volume with it; layout = \"mapped\" with copies = 2 survives it");
        };
        let Copies { wanted, fewest_current, .. } = copies;
        if fewest_current >= wanted {
            return Finding::well(format!("all chunks have the copies that are wanted, {wanted} in {}", volume.name));
        }
        let behind: Vec<String> = members(volume)
            .filter(|(_, m)| m.behind > 0)
            .map(|(node, m)| format!("{} lacks {}", node.name, m.behind))
            .collect();
        let only: Vec<String> = members(volume)
            .filter(|(_, m)| m.only > 0)
            .map(|(node, m)| format!("{} ({})", node.name, m.only))
            .collect();
        let found = format!(
            "volume {}: some chunks have {fewest_current} of {wanted} current copies; {}",
            volume.name,
            listed(&behind)
        );
        let finding = match fewest_current {
            0 => Finding::severe(found, "reads and writes of these chunks wait, and fail at the timeout")
                .with_advice("bring back the node that was current last: only it has what is missing"),
            1 => Finding::severe(found, format!("if one of these nodes is lost now, data is: {}", listed(&only)))
                .with_advice("keep them running and charged, and bring the others back before anything else"),
            _ => Finding::wrong(found, "fewer further losses can be survived than configured")
                .with_advice("bring the nodes back that lack something; they are made equal by themselves"),
        };
        finding.with_command("flashmob volume show ADDR:PORT")
    })
}

/// How many losses a volume's worst chunk survives.
fn left(copies: &Copies) -> (bool, usize) {
    (copies.fewest_current >= copies.wanted, copies.fewest_current)
}

fn members(volume: &Volume) -> impl Iterator<Item = (&Node, &Member)> {
    volume.nodes.iter().filter_map(|node| Some((node, node.member.as_ref()?)))
}

/// Domains that would fail together.
pub(super) fn domains(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let volumes: Vec<&Volume> =
            cluster.volumes.iter().filter(|v| v.copies.is_some_and(|copies| copies.wanted > 1)).collect();
        if volumes.is_empty() {
            return Finding::not_applicable("no volume has two copies");
        }
        let cost = "a chunk may have both copies there, and both are lost with it";
        let advice = "give all nodes of a device one 'domain' when the volume is made; to mend this volume, move all but one of \
                      the extents to other devices";
        let of_disk = |node: &Node| node.condition.as_ref()?.disk.as_ref().map(|disk| format!("disk {disk}"));
        let of_host = |node: &Node| node.host().map(|host| format!("device {host}"));
        let on_disk: Vec<String> = volumes.iter().filter_map(|volume| shared(volume, of_disk)).collect();
        if !on_disk.is_empty() {
            return Finding::severe(format!("domains share a disk: {}", listed(&on_disk)), cost).with_advice(advice);
        }
        let on_host: Vec<String> = volumes.iter().filter_map(|volume| shared(volume, of_host)).collect();
        if !on_host.is_empty() {
            return Finding::wrong(format!("domains share a device: {}", listed(&on_host)), cost).with_advice(advice);
        }
        Finding::well("no two domains are known to share a disk or a device")
    })
}

/// Nodes of several domains that lie in one place, in words.
fn shared(volume: &Volume, place: impl Fn(&Node) -> Option<String>) -> Option<String> {
    let mut places: BTreeMap<String, Vec<(&Node, &str)>> = BTreeMap::new();
    for (node, member) in members(volume) {
        if let Some(place) = place(node) {
            places.entry(place).or_default().push((node, &member.domain));
        }
    }
    let (place, nodes) = places.iter().find(|(_, nodes)| nodes.iter().any(|(_, domain)| *domain != nodes[0].1))?;
    let names: Vec<String> = nodes.iter().map(|(node, _)| node.name.clone()).collect();
    Some(format!("{} of {} are on {place}", listed(&names), volume.name))
}

/// The loss of the largest domain: what it would take to have all copies again.
pub(super) fn spare(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let mut lines = Vec::new();
        for volume in &cluster.volumes {
            let Some(copies) = volume.copies.filter(|copies| copies.wanted > 1) else { continue };
            let mut domains: BTreeMap<&str, (u64, Vec<String>)> = BTreeMap::new();
            for (node, member) in members(volume) {
                let domain = domains.entry(&member.domain).or_default();
                domain.0 += u64::from(member.copies) * copies.chunk_bytes;
                domain.1.push(node.name.clone());
            }
            let Some((size_bytes, names)) = domains.into_values().max_by_key(|domain| domain.0) else { continue };
            lines.push(format!("{} of {} with {} of copies", listed(&names), volume.name, bytes(size_bytes)));
        }
        if lines.is_empty() {
            return Finding::not_applicable("no volume has two copies");
        }
        Finding::well(format!("the largest that can fail at once: {}", listed(&lines))).with_advice(
            "copies are not made again by themselves: keep a device with that much free, which 'flashmob volume replace' puts in its place, or so much room on the others, to which 'flashmob volume drain' moves them",
        )
    })
}

/// The conditions of all nodes that report one.
fn conditions(cluster: &Cluster) -> impl Iterator<Item = (&Volume, &Node, &Condition)> {
    nodes(cluster).filter_map(|(volume, node)| Some((volume, node, node.condition.as_ref()?)))
}

/// Nodes that run on battery.
pub(super) fn batteries(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let percent = |c: &Condition| c.battery_percent.map_or(String::new(), |percent| format!(" at {percent} %"));
        let named = |is: fn(&Condition) -> bool| -> Vec<String> {
            let those = conditions(cluster).filter(|(_, _, c)| is(c));
            those.map(|(volume, node, c)| format!("{}{}", of(volume, node), percent(c))).collect()
        };
        let low = named(|c| c.is_battery_low);
        let on_battery = named(|c| c.charging == Some(false));
        let known = conditions(cluster).filter(|(_, _, c)| c.charging.is_some()).count();
        if !low.is_empty() {
            return Finding::severe(format!("batteries are low: {}", listed(&low)), "these nodes switch off soon")
                .with_advice("plug them in");
        }
        if !on_battery.is_empty() {
            let cost = "a device on battery sleeps when its screen is off, and switches off when it is empty";
            return Finding::wrong(format!("on battery: {}", listed(&on_battery)), cost).with_advice("plug them in");
        }
        if known == 0 {
            return Finding::unknown("no node reports a battery")
                .with_advice("boards have none; on Android start the node from the app or Termux");
        }
        Finding::well(format!("all {known} nodes that report their supply are charging"))
    })
}

/// Nodes that are too hot.
pub(super) fn heat(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let hot = conditions(cluster).filter(|(_, _, c)| c.is_hot);
        let hot: Vec<String> = hot
            .map(|(volume, node, c)| match c.celsius {
                Some(celsius) => format!("{} at {celsius:.0} °C", of(volume, node)),
                None => of(volume, node),
            })
            .collect();
        if hot.is_empty() {
            return Finding::well("no node reports that it is hot");
        }
        Finding::wrong(format!("hot: {}", listed(&hot)), "they slow down, and their batteries age")
            .with_advice("take off their cases, give them air, charge them more slowly")
    })
}

/// Nodes whose disks are nearly full.
pub(super) fn space(view: &View) -> Finding {
    with_cluster(view, |cluster| {
        let lacks = |c: &Condition| c.free_bytes.zip(c.unallocated_bytes).is_some_and(|(free, wanted)| free < wanted);
        let named = |is: &dyn Fn(&Condition) -> bool| -> Vec<String> {
            let those = conditions(cluster).filter(|(_, _, c)| is(c));
            those
                .map(|(volume, node, c)| format!("{} has {} free", of(volume, node), bytes(c.free_bytes.unwrap_or(0))))
                .collect()
        };
        let short = named(&lacks);
        if !short.is_empty() {
            return Finding::severe(
                format!("less is free than the extent has yet to take: {}", listed(&short)),
                "writes there will fail with no space, and its copies fall behind",
            )
            .with_advice("free some space on the device");
        }
        let little = named(&|c| c.is_space_little);
        if !little.is_empty() {
            return Finding::wrong(
                format!("little space is free: {}", listed(&little)),
                "the file system slows down, and others fill it",
            )
            .with_advice("free some space on the device");
        }
        Finding::well("no node reports little space")
    })
}
