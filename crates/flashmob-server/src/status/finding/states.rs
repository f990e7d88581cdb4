//! Findings about states: of volumes, of nodes, of their devices and of their links.

use super::{Cause, Finding, Severity};
use crate::status::condition::ConditionReport;
use crate::status::report::{CopiesReport, NodeOfVolume, PathLimit, REMOVED, VolumeReport};

/// What anybody may do who reaches an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insecure {
    /// At the port of clients.
    Volumes,
    /// At the administrative port.
    Administration,
}

/// Maps of a cluster with keys are in an etcd that others can use.
#[must_use]
pub fn open_etcd(endpoints: &str) -> Finding {
    let found =
        format!("insecure: anyone who can reach etcd at {endpoints} can stop this cluster, and read where its data is");
    Finding::new(
        Cause::Insecure,
        Severity::Wrong,
        found,
        "give [etcd] the files ca, cert and key, for TLS on both sides",
    )
}

/// A cluster without keys is reached from elsewhere.
#[must_use]
pub fn insecure(addr: &str, what: Insecure) -> Finding {
    let may = match what {
        Insecure::Volumes => "read and write every volume",
        Insecure::Administration => "read this status, and make the changes that a gateway takes",
    };
    let found = format!("insecure: anyone who can reach {addr} can {may}");
    Finding::new(Cause::Insecure, Severity::Wrong, found, "`flashmob key init` gives the cluster keys")
        .with_command("flashmob key init")
}

/// What commands have in the place of the gateway's admin port: whoever shows them puts in how it was reached.
pub const GATEWAY: &str = "ADDR:PORT";

/// A node has joined the gateway, or was enrolled, and there is a volume that it could be added to.
#[must_use]
pub fn newcomer(address: &str, how: &str, volume: &str) -> Finding {
    let found = format!("a node at {address} {how}, and is in no volume");
    let remedy = format!("`flashmob volume add` makes it a node of volume {volume}");
    Finding::new(Cause::Newcomer, Severity::Note, found, remedy)
        .with_command(format!("flashmob volume add {GATEWAY} {volume} {address}"))
}

/// Those of all volumes. `generation`: of the gateway's key; 0 without keys.
#[must_use]
pub fn of_volumes(volumes: &[VolumeReport], generation: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut number = 0;
    for (volume, report) in volumes.iter().enumerate() {
        let of_copies = report.copies.iter().flat_map(|copies| of_copies(copies, &report.nodes));
        findings.extend(of_copies.map(|finding| finding.of_volume(volume)));
        for node in &report.nodes {
            let of_node = of_node(node, generation).into_iter();
            findings.extend(of_node.map(|finding| finding.of_node(volume, number)));
            number += 1;
        }
    }
    findings
}

/// What gives chunks their copies again.
pub(super) fn copies_remedy(nodes: &[NodeOfVolume]) -> &'static str {
    let is_away = |node: &NodeOfVolume| node.is_paused || !["ready", "drained", REMOVED].contains(&&*node.state);
    let is_any_away = nodes.iter().any(|node| is_away(node) && node.failures.failing.is_empty());
    let is_any_failing = nodes.iter().any(|node| !node.failures.failing.is_empty());
    match (is_any_away, is_any_failing) {
        (true, _) => {
            "bring back the nodes that are away, and switch off no other; `flashmob volume show` says which have it"
        }
        (false, true) => {
            "mend the devices that fail, as their nodes get no copies; switch off no node: `flashmob volume show` says which have it"
        }
        (false, false) => "switch off no node before they are made again; `flashmob volume show` says which have it",
    }
}

fn of_copies(copies: &CopiesReport, nodes: &[NodeOfVolume]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if copies.fewest_current == 1 && copies.copies > 1 {
        let found = "some chunks have one copy left";
        findings.push(
            Finding::new(Cause::Copies, Severity::Wrong, found, copies_remedy(nodes))
                .with_command("flashmob volume show"),
        );
    } else if copies.fewest_current < copies.copies {
        let found = format!("some chunks have {} of {} copies", copies.fewest_current, copies.copies);
        findings.push(Finding::new(Cause::Copies, Severity::Wrong, found, ""));
    }
    let bad = copies.scrub.bad_blocks;
    if bad > 0 {
        let blocks = if bad == 1 { "a block".to_string() } else { format!("{bad} blocks") };
        let found = format!("{blocks} cannot be mended");
        let finding = Finding::new(Cause::Rot, Severity::Severe, found, "`flashmob volume show` lists them");
        findings.push(finding.with_command("flashmob volume show"));
    }
    let of = |cause: Cause, why: &Option<String>, what: &str| {
        why.as_ref().map(|why| Finding::new(cause, Severity::Severe, format!("{what}: {why}"), ""))
    };
    findings.extend(of(Cause::Map, &copies.map_trouble, "its map cannot be written"));
    findings.extend(of(Cause::Map, &copies.waits_for, "it is not served yet"));
    findings.extend(of(Cause::Deposed, &copies.deposed, "it is not served any more"));
    findings
}

fn of_node(node: &NodeOfVolume, generation: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if node.no_io {
        findings.push(Finding::new(Cause::NoIo, Severity::Note, "no-I/O mode", "reads do not return real data"));
    }
    if node.modelled {
        let found = "its flash is modelled";
        findings.push(Finding::new(Cause::Modelled, Severity::Note, found, "its timing is not that of the device"));
    }
    // Nobody knows what it has heard from gateways that were started before this one.
    let keys = if generation > 1 && node.key_generation != Some(generation) {
        format!("; it may still accept keys before generation {generation}")
    } else {
        String::new()
    };
    match &node.refusal {
        Some(refusal) => {
            let found = format!("refused: {refusal}{keys}");
            findings.push(Finding::new(Cause::Refused, Severity::Severe, found, ""));
        }
        None if node.is_paused => {
            let remedy = "chunks that change meanwhile have one copy less; `flashmob volume resume` uses it again";
            let finding = Finding::new(Cause::Paused, Severity::Note, "it is paused", remedy);
            findings.push(finding.with_command("flashmob volume resume"));
        }
        // One that is drained or removed may be off.
        None if !["ready", "drained", REMOVED].contains(&&*node.state) => {
            let found = format!("not linked, requests are queued{keys}");
            let remedy = "see whether its device is on, and flashmob runs on it";
            let finding = Finding::new(Cause::NotLinked, Severity::Severe, found, remedy);
            findings.push(finding.with_command("flashmob discover"));
        }
        None => {}
    }
    findings.extend(node.failures.finding());
    findings.extend(node.condition.iter().flat_map(of_condition));
    for link in &node.links {
        let limits = link.path.iter().flat_map(|path| &path.limits);
        findings.extend(limits.map(|limit| of_limit(link.number, limit)));
    }
    findings
}

/// The warnings of a device are in the order of its limits, each as `what: remedy`.
fn of_condition(condition: &ConditionReport) -> Vec<Finding> {
    let crossed = [
        (condition.is_battery_low, Cause::Battery),
        (condition.is_hot, Cause::Heat),
        (condition.is_space_little, Cause::Space),
    ];
    let causes = crossed.into_iter().filter(|(is_crossed, _)| *is_crossed).map(|(_, cause)| cause);
    let of_warning = |(cause, warning): (Cause, &String)| {
        let (found, remedy) = warning.split_once(": ").unwrap_or((warning, ""));
        Finding::new(cause, Severity::Wrong, found, remedy)
    };
    causes.zip(&condition.warnings).map(of_warning).collect()
}

fn of_limit(link: usize, limit: &PathLimit) -> Finding {
    let cause = if limit.buffer == "receive" { Cause::ReceiveBuffer } else { Cause::SendBuffer };
    let finding = Finding::new(cause, Severity::Wrong, format!("link {link}: {}", limit.found()), limit.remedy.clone());
    if limit.remedy.starts_with("sysctl ") { finding.with_command(limit.remedy.clone()) } else { finding }
}
