//! The etcd cluster that keeps a gateway's maps, for the checks.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use flashmob_doctor::view::etcd as seen;
use flashmob_server::config::{Config, EtcdConfig};
use flashmob_server::etcd::{AlarmKind, Etcd, EtcdError, Member, MemberStatus};

/// So many reads are timed.
const READS: usize = 5;

/// The cluster that `target` names: `etcd://HOST:PORT,...`, or a gateway's configuration file with an `[etcd]` section.
pub fn at(target: &str, timeout: Duration) -> anyhow::Result<seen::Etcd> {
    let config = if target.starts_with("etcd://") {
        EtcdConfig::parse(target).map_err(anyhow::Error::msg).with_context(|| format!("--etcd {target}"))?
    } else {
        let config = Config::load(Path::new(target)).with_context(|| format!("--etcd {target}"))?;
        let Some(etcd) = config.etcd else {
            bail!("--etcd {target}: it has no [etcd] section; name the members as etcd://HOST:PORT,...");
        };
        etcd
    };
    seen(&config, timeout).with_context(|| format!("--etcd {target}"))
}

/// The cluster of the configuration file that `--cluster` names, if it is one and has one.
pub fn beside(target: &str, timeout: Duration) -> anyhow::Result<Option<seen::Etcd>> {
    let Ok(config) = Config::load(Path::new(target)) else { return Ok(None) };
    config.etcd.map(|etcd| seen(&etcd, timeout)).transpose()
}

fn seen(config: &EtcdConfig, timeout: Duration) -> anyhow::Result<seen::Etcd> {
    let etcd = config.client()?;
    let asked: Vec<(String, Result<MemberStatus, EtcdError>)> =
        etcd.endpoints().map(|at| (at.to_string(), etcd.status(at, timeout))).collect();
    let known = etcd.members(timeout).unwrap_or_default();
    let name_of = |id: u64| known.iter().find(|member| member.id == id).map(|member| member.name.clone());
    let member = |(endpoint, status): (String, Result<MemberStatus, EtcdError>), name: Option<String>| seen::Member {
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| endpoint.clone()),
        is_learner: status.as_ref().is_ok_and(|status| status.is_learner),
        // The check says where it was asked.
        status: status.map(told).map_err(|error| why(&error).replace(&format!("{endpoint}: "), "")),
        endpoint,
    };
    let answered = |id: u64| asked.iter().any(|(_, status)| status.as_ref().is_ok_and(|status| status.member_id == id));
    // Those that are not configured, where they say that they are.
    let others = known.iter().filter(|other| !answered(other.id)).filter_map(|other| {
        let endpoint = other.client_urls.iter().find_map(|url| elsewhere(&etcd, config, url, timeout))?;
        Some(seen::Member { is_learner: other.is_learner, ..member(endpoint, Some(other.name.clone())) })
    });
    let others: Vec<seen::Member> = others.collect();
    let mut members: Vec<seen::Member> = Vec::new();
    for (at, (endpoint, status)) in asked.iter().enumerate() {
        // A member that is named twice is one.
        let id = |status: &Result<MemberStatus, EtcdError>| status.as_ref().ok().map(|status| status.member_id);
        if id(status).is_some_and(|own| asked[..at].iter().any(|(_, other)| id(other) == Some(own))) {
            continue;
        }
        // One that does not answer is named by what the others say of it.
        let of_url = |other: &&Member| other.client_urls.iter().any(|url| place(url) == endpoint);
        let name = match status {
            Ok(status) => name_of(status.member_id),
            Err(_) => known.iter().find(of_url).map(|other| other.name.clone()),
        };
        members.push(member((endpoint.clone(), status.clone()), name));
    }
    members.extend(others);
    let alarms = etcd.alarms(timeout).unwrap_or_default().into_iter().map(|alarm| seen::Alarm {
        member: name_of(alarm.member_id).unwrap_or_else(|| format!("member {:x}", alarm.member_id)),
        kind: match alarm.kind {
            AlarmKind::NoSpace => seen::AlarmKind::Full,
            AlarmKind::Corrupt => seen::AlarmKind::Corrupt,
            AlarmKind::Other(kind) => seen::AlarmKind::Other(kind),
        },
    });
    Ok(seen::Etcd { alarms: alarms.collect(), members, read: read_time(&etcd, config, timeout) })
}

/// What a member says that is not among the endpoints.
fn elsewhere(
    etcd: &Etcd,
    config: &EtcdConfig,
    url: &str,
    timeout: Duration,
) -> Option<(String, Result<MemberStatus, EtcdError>)> {
    let endpoint = place(url);
    if etcd.endpoints().any(|known| known == endpoint) {
        return None;
    }
    let one = EtcdConfig { endpoints: vec![endpoint.to_string()], ..config.clone() };
    let status = match one.client() {
        Ok(other) => {
            let endpoint = other.endpoints().next()?.to_string();
            return Some((endpoint.clone(), other.status(&endpoint, timeout)));
        }
        Err(error) => Err(EtcdError::NotSent { tried: format!("{error:#}") }),
    };
    Some((endpoint.to_string(), status))
}

/// `HOST:PORT` of a URL.
fn place(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/')
}

fn told(status: MemberStatus) -> seen::Status {
    seen::Status {
        version: status.version,
        db_bytes: u64::try_from(status.db_size_bytes).unwrap_or(0),
        in_use_bytes: u64::try_from(status.db_size_in_use_bytes).unwrap_or(0),
    }
}

/// The median of some reads: the first one connects.
fn read_time(etcd: &Etcd, config: &EtcdConfig, timeout: Duration) -> Result<Duration, String> {
    let timed = |_| {
        let begun = Instant::now();
        etcd.range(config.prefix.as_bytes(), None, 1, timeout).map(|_| begun.elapsed())
    };
    let mut times = (0..READS).map(timed).collect::<Result<Vec<Duration>, EtcdError>>().map_err(|error| why(&error))?;
    times.sort_unstable();
    Ok(times[READS / 2])
}

/// Without what to do about it: the check says that.
fn why(error: &EtcdError) -> String {
    match error {
        EtcdError::NotSent { tried } | EtcdError::Unknown { tried } | EtcdError::Denied { tried } => tried.clone(),
        other => other.to_string(),
    }
}
