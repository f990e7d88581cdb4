//! The etcd cluster that keeps a gateway's maps, for the checks.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use flashmob_doctor::view::etcd as seen;
use flashmob_server::config::{Config, EtcdConfig};
use flashmob_server::etcd::{Alarm, AlarmKind, Etcd, EtcdError, Member, MemberStatus};

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

/// The cluster of the configuration file that `--cluster` names, if it is one and has one. What keeps it from being asked is for the checks to tell.
pub fn of_cluster_config(target: &str, timeout: Duration) -> Option<seen::Etcd> {
    let config = Config::load(Path::new(target)).ok()?.etcd?;
    Some(seen(&config, timeout).unwrap_or_else(|error| seen::Etcd::unseen(&format!("{error:#}"))))
}

/// An answer of a member, and where it was asked.
type Answer = (String, Result<MemberStatus, EtcdError>);

fn seen(config: &EtcdConfig, timeout: Duration) -> anyhow::Result<seen::Etcd> {
    let etcd = config.client()?;
    let answers: Vec<Answer> = etcd.endpoints().map(|at| (at.to_string(), etcd.status(at, timeout))).collect();
    let known = etcd.members(timeout);
    let members = match &known {
        Ok(known) => known.iter().map(|member| of_list(member, &answers, config, timeout)).collect(),
        // Nobody says which members there are: those that are configured.
        Err(_) => answers.iter().map(|(endpoint, status)| seen_member(endpoint, endpoint, false, status)).collect(),
    };
    let known = known.unwrap_or_default();
    let name_of = |id: u64| known.iter().find(|member| member.id == id).map(|member| member.name.clone());
    let alarm = |alarm: Alarm| seen::Alarm {
        member: name_of(alarm.member_id).unwrap_or_else(|| format!("member {:x}", alarm.member_id)),
        kind: match alarm.kind {
            AlarmKind::NoSpace => seen::AlarmKind::Full,
            AlarmKind::Corrupt => seen::AlarmKind::Corrupt,
            AlarmKind::Other(kind) => seen::AlarmKind::Other(kind),
        },
    };
    let alarms =
        etcd.alarms(timeout).map(|alarms| alarms.into_iter().map(alarm).collect()).map_err(|error| why(&error));
    Ok(seen::Etcd { alarms, members, read: read_time(&etcd, config, timeout) })
}

/// A member that the cluster knows: what it has answered at an endpoint that is configured, or answers where it says that it is.
fn of_list(member: &Member, answers: &[Answer], config: &EtcdConfig, timeout: Duration) -> seen::Member {
    let is_it = |status: &MemberStatus| status.member_id == member.id;
    let name = if member.name.is_empty() { format!("member {:x}", member.id) } else { member.name.clone() };
    let seen = |endpoint: &str, status: &Result<MemberStatus, EtcdError>| {
        seen_member(&name, endpoint, member.is_learner, status)
    };
    if let Some((endpoint, status)) = answers.iter().find(|(_, status)| status.as_ref().is_ok_and(is_it)) {
        return seen(endpoint, status);
    }
    let places: Vec<&str> = member.client_urls.iter().map(|url| host_port(url)).collect();
    // One of its addresses is configured, and does not answer.
    if let Some((endpoint, status)) = answers.iter().find(|(at, status)| status.is_err() && places.contains(&&**at)) {
        return seen(endpoint, status);
    }
    for place in &places {
        let one = EtcdConfig { endpoints: vec![(*place).to_string()], ..config.clone() };
        let Ok(other) = one.client() else { continue };
        let status = other.status(place, timeout);
        // It may say an address at which another answers here, as 127.0.0.1.
        if status.as_ref().map_or(true, is_it) {
            return seen(place, &status);
        }
    }
    let why = if places.is_empty() { "it was added, and has not started" } else { "nothing is known of where it is" };
    seen(places.first().unwrap_or(&"?"), &Err(EtcdError::NotSent { tried: why.to_string() }))
}

fn seen_member(name: &str, endpoint: &str, is_learner: bool, status: &Result<MemberStatus, EtcdError>) -> seen::Member {
    seen::Member {
        name: name.to_string(),
        endpoint: endpoint.to_string(),
        is_learner: is_learner || status.as_ref().is_ok_and(|status| status.is_learner),
        // The check says where it was asked.
        status: status.clone().map(seen_status).map_err(|error| why(&error).replace(&format!("{endpoint}: "), "")),
    }
}

/// `HOST:PORT` of a URL.
fn host_port(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/')
}

fn seen_status(status: MemberStatus) -> seen::Status {
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
