//! The etcd cluster that keeps a gateway's maps, and says which gateway is in charge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Finding;
use super::cluster::listed;
use crate::bytes;
use crate::view::View;
use crate::view::etcd::{AlarmKind, Etcd, Member};

/// Of a database this large little is left: etcd's quota is 2 GiB unless it was set, and it does not tell.
const DB_BYTES_LARGE: u64 = (2 << 30) / 5 * 4;
/// A database of this size that is mostly free is worth to be defragmented.
const DB_BYTES_TO_DEFRAGMENT: u64 = 256 << 20;
/// A read that takes so long says that a first write to a chunk takes as long at least.
const READ_SLOW: Duration = Duration::from_millis(50);
/// Leases of a few seconds cannot be relied on.
const READ_TOO_SLOW: Duration = Duration::from_secs(1);

/// The check of an etcd cluster, if one was named.
fn with_etcd(view: &View, check: impl FnOnce(&Etcd) -> Finding) -> Finding {
    match &view.etcd {
        Some(etcd) => check(etcd),
        None => Finding::not_applicable("no etcd cluster was named").with_advice(
            "where gateways have [etcd] in their configuration, name that with --etcd CONFIG, or etcd://HOST:PORT,...",
        ),
    }
}

/// Whether enough members are there, and on how many machines.
pub(super) fn members(view: &View) -> Finding {
    with_etcd(view, |etcd| {
        if let (true, Err(why)) = (etcd.members.is_empty(), &etcd.read) {
            return Finding::unknown(format!("etcd cannot be asked: {why}"));
        }
        let voters: Vec<&Member> = etcd.members.iter().filter(|member| !member.is_learner).collect();
        let (count, majority) = (voters.len(), voters.len() / 2 + 1);
        let away: Vec<String> = voters.iter().filter_map(|m| Some((m, m.status.as_ref().err()?))).map(away).collect();
        let advice = "start etcd on them again; a member that is lost for good is replaced with 'etcdctl member remove' and 'member add'";
        if let Err(why) = &etcd.read {
            let found = if away.is_empty() {
                format!("no read that a majority of etcd agrees to was answered: {why}")
            } else {
                format!("{} of {count} members of etcd do not answer: {}", away.len(), listed(&away))
            };
            let cost = "once the lease of the gateway in charge is over, reads wait; changes of the map wait, and no standby can take over";
            return Finding::severe(found, cost).with_advice(advice);
        }
        if !away.is_empty() {
            let left = (count - away.len()).saturating_sub(majority);
            let cost = match left {
                0 => "if one more ends, the gateway and its standby wait for etcd".to_string(),
                left => format!("if {} more end, the gateway and its standby wait for etcd", left + 1),
            };
            let found = format!("{} of {count} members of etcd do not answer: {}", away.len(), listed(&away));
            return Finding::wrong(found, cost).with_advice(advice);
        }
        if count < 3 {
            let names: Vec<String> = voters.iter().map(|member| member.endpoint.clone()).collect();
            return Finding::wrong(
                format!("etcd has no member to spare: {}", listed(&names)),
                "if one ends, the gateway and its standby wait for it",
            )
            .with_advice("three members on three machines: two are enough to go on");
        }
        if let Some((host, there)) = by_host(&voters).into_iter().find(|(_, there)| count - there.len() < majority) {
            return Finding::wrong(
                format!("{} of {count} members of etcd are on {host}: {}", there.len(), listed(&there)),
                "if that machine ends, the gateway and its standby wait for it",
            )
            .with_advice("three members on three machines: two are enough to go on");
        }
        let versions: BTreeMap<&str, ()> =
            voters.iter().filter_map(|m| Some((m.status.as_ref().ok()?.version.as_str(), ()))).collect();
        let versions: Vec<&str> = versions.into_keys().collect();
        Finding::well(format!("all {count} members of etcd answer, version {}", versions.join(" and ")))
    })
}

fn away((member, why): (&&Member, &String)) -> String {
    if member.name == member.endpoint {
        format!("{} ({why})", member.name)
    } else {
        format!("{} at {} ({why})", member.name, member.endpoint)
    }
}

/// The members' names by the host of their addresses.
fn by_host<'a>(members: &[&'a Member]) -> BTreeMap<&'a str, Vec<String>> {
    let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for member in members {
        let host = member.endpoint.rsplit_once(':').map_or(member.endpoint.as_str(), |(host, _)| host);
        hosts.entry(host).or_default().push(member.name.clone());
    }
    hosts
}

/// Alarms, and databases that are nearly full.
pub(super) fn space(view: &View) -> Finding {
    with_etcd(view, |etcd| {
        let alarms = match &etcd.alarms {
            Ok(alarms) => alarms,
            Err(why) => return Finding::unknown(format!("etcd does not tell whether it has alarms: {why}")),
        };
        let named = |kind: &AlarmKind| -> Vec<String> {
            alarms.iter().filter(|alarm| alarm.kind == *kind).map(|alarm| alarm.member.clone()).collect()
        };
        let full = named(&AlarmKind::Full);
        if !full.is_empty() {
            return Finding::severe(
                format!("the database of etcd is full: {}", listed(&full)),
                "etcd refuses all changes: writes that need the map fail with no space",
            )
            .with_command("etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm")
            .with_advice(
                "REVISION is the latest, as 'etcdctl endpoint status --write-out=json' shows it; start etcd with --auto-compaction-retention=1h, so that it stays small",
            );
        }
        let corrupt = named(&AlarmKind::Corrupt);
        if !corrupt.is_empty() {
            return Finding::severe(
                format!("data of members of etcd differs from that of the others: {}", listed(&corrupt)),
                "what they answer may be wrong",
            )
            .with_advice("remove these members, and add them again with empty data folders, one after another");
        }
        let others: Vec<String> = alarms
            .iter()
            .filter_map(|alarm| match &alarm.kind {
                AlarmKind::Other(kind) => Some(format!("{kind} of {}", alarm.member)),
                AlarmKind::Full | AlarmKind::Corrupt => None,
            })
            .collect();
        if !others.is_empty() {
            return Finding::wrong(format!("etcd has alarms: {}", listed(&others)), "etcd may refuse changes")
                .with_advice("see etcd's log and its documents");
        }
        let sizes = etcd.members.iter().filter_map(|member| Some((member, member.status.as_ref().ok()?)));
        let Some((member, largest)) = sizes.max_by_key(|(_, status)| status.db_bytes) else {
            return Finding::unknown("no member of etcd tells the size of its database");
        };
        let (size, in_use) = (bytes(largest.db_bytes), bytes(largest.in_use_bytes));
        if largest.db_bytes >= DB_BYTES_LARGE {
            return Finding::wrong(
                format!("the database of {} has {size}, of which {in_use} are in use; without --quota-backend-bytes 2 GiB are the most", member.name),
                "once it is full, writes that need the map fail with no space",
            )
            .with_command("etcdctl compact REVISION && etcdctl defrag --cluster")
            .with_advice("start etcd with --auto-compaction-retention=1h; where the quota is larger than 2 GiB, this is no problem");
        }
        let found =
            Finding::well(format!("no alarm; the largest database of etcd has {size}, of which {in_use} are in use"));
        let is_mostly_free = largest.in_use_bytes < largest.db_bytes / 2;
        if largest.db_bytes >= DB_BYTES_TO_DEFRAGMENT && is_mostly_free {
            return found.with_advice("'etcdctl defrag --cluster' gives back what is free");
        }
        found
    })
}

/// How long etcd takes to answer.
pub(super) fn time(view: &View) -> Finding {
    with_etcd(view, |etcd| {
        let Ok(time) = etcd.read else {
            return Finding::unknown("no majority of etcd's members answers, so that nothing can be timed");
        };
        let found = format!("a read that a majority of etcd agrees to takes {:.1} ms", time.as_secs_f64() * 1e3);
        let advice = "members want a wired network between them and a disk whose fsync is fast, which this does not measure: 'etcdctl check perf' does";
        if time >= READ_TOO_SLOW {
            let cost =
                "leases of a few seconds are not renewed in time: reads wait, and the standby takes over without need";
            return Finding::severe(found, cost).with_advice(advice);
        }
        if time >= READ_SLOW {
            return Finding::wrong(found, "each first write to a chunk waits for etcd, for longer than that")
                .with_advice(advice);
        }
        Finding::well(found)
    })
}
