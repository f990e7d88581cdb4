//! A cluster as its gateway reports it, for the checks.

use std::path::Path;

use anyhow::{Context, bail};
use flashmob_doctor::view::cluster::{Cluster, Condition, Copies, Member, Node, Volume};
use flashmob_server::status::report::{ConditionReport, GatewayReport, NodeOfVolume};
use flashmob_server::status::volumes::{MemberDetails, VolumeDetails};

use crate::commands::{admin_target, status, volume};

/// The cluster of the gateway whose admin port is at `target`.
pub fn at(target: &str, credentials: Option<&Path>) -> anyhow::Result<Cluster> {
    let address = &admin_target::open(target, credentials).with_context(|| format!("--cluster {target}"))?;
    let report = status::report(address).with_context(|| format!("--cluster {target}"))?;
    let Some(gateway) = report.gateway else {
        bail!("--cluster {target}: this is the admin port of a node; give that of its gateway");
    };
    let (details, _) = volume::volumes(address).with_context(|| format!("--cluster {target}"))?;
    Ok(cluster(&gateway, &details.volumes))
}

/// `/status` has the conditions of nodes, `/volumes` their parts of the copies.
fn cluster(gateway: &GatewayReport, details: &[VolumeDetails]) -> Cluster {
    let volumes = gateway.volumes.iter().map(|volume| {
        let details = details.iter().find(|details| details.name == volume.name);
        let member =
            |at: usize| details.and_then(|details| details.nodes.get(at)).and_then(|node| node.member.as_ref());
        Volume {
            name: volume.name.clone(),
            copies: volume.copies.as_ref().map(|copies| Copies {
                wanted: copies.copies,
                fewest_current: copies.fewest_current,
                chunk_bytes: copies.chunk_bytes,
            }),
            nodes: volume.nodes.iter().enumerate().map(|(at, of)| node(of, member(at))).collect(),
        }
    });
    Cluster { volumes: volumes.collect() }
}

fn node(node: &NodeOfVolume, member: Option<&MemberDetails>) -> Node {
    Node {
        name: node.name.clone(),
        state: node.state.clone(),
        refusal: node.refusal.clone(),
        size_bytes: node.size_bytes,
        member: member.map(|member| Member {
            domain: member.domain.clone(),
            copies: member.copies,
            behind: member.behind,
            only: member.only,
        }),
        fails: node.failures.words(),
        condition: node.condition.as_ref().map(condition),
    }
}

fn condition(of: &ConditionReport) -> Condition {
    Condition {
        disk: of.disk.clone(),
        battery_percent: of.battery_percent,
        charging: of.charging,
        is_battery_low: of.is_battery_low,
        is_hot: of.is_hot,
        celsius: of.celsius,
        free_bytes: of.free_bytes,
        unallocated_bytes: of.unallocated_bytes,
        is_space_little: of.is_space_little,
    }
}
