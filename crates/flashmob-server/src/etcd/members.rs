//! What etcd answers about its members, from its JSON. No bytes make this panic.

use serde::Deserialize;

use super::answer::{BadAnswer, Header, read};
use super::json::{integer, list};

/// What one member says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberStatus {
    /// Of its program.
    pub version: String,
    /// The size of its database file.
    pub db_size_bytes: i64,
    /// The part of it that defragmenting would leave.
    pub db_size_in_use_bytes: i64,
    /// The member that leads, as this one knows it; 0 is none.
    pub leader: u64,
    /// This member.
    pub member_id: u64,
    /// It has no vote.
    pub is_learner: bool,
    /// Up to where it has the log.
    pub raft_index: u64,
    /// What it says is wrong.
    pub errors: Vec<String>,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// What it is called in statuses and alarms.
    #[serde(rename = "ID", deserialize_with = "integer")]
    pub id: u64,
    /// Its name; empty if it was added and has not started yet.
    #[serde(default)]
    pub name: String,
    /// Where it says that clients reach it.
    #[serde(default, rename = "clientURLs", deserialize_with = "list")]
    pub client_urls: Vec<String>,
    /// It has no vote.
    #[serde(default, rename = "isLearner")]
    pub is_learner: bool,
}

/// What makes a member raise an alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlarmKind {
    /// Its database is full.
    NoSpace,
    /// Its data differs from that of others.
    Corrupt,
    /// Something that this version does not know.
    Other(String),
}

/// An alarm that somebody has to disarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The member that raised it.
    pub member_id: u64,
    /// Why.
    pub kind: AlarmKind,
}

/// The answer of `/v3/maintenance/status`.
///
/// # Errors
/// It is something else.
pub fn member_status(body: &[u8]) -> Result<MemberStatus, BadAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        header: Header,
        version: String,
        #[serde(default, deserialize_with = "integer")]
        db_size: i64,
        #[serde(default, deserialize_with = "integer")]
        db_size_in_use: i64,
        #[serde(default, deserialize_with = "integer")]
        leader: u64,
        #[serde(default)]
        is_learner: bool,
        #[serde(default, deserialize_with = "integer")]
        raft_index: u64,
        #[serde(default, deserialize_with = "list")]
        errors: Vec<String>,
    }
    let answer: Answer = read(body)?;
    Ok(MemberStatus {
        version: answer.version,
        db_size_bytes: answer.db_size,
        db_size_in_use_bytes: answer.db_size_in_use,
        leader: answer.leader,
        member_id: answer.header.member_id,
        is_learner: answer.is_learner,
        raft_index: answer.raft_index,
        errors: answer.errors,
    })
}

/// The answer of `/v3/cluster/member/list`.
///
/// # Errors
/// It is something else.
pub fn members(body: &[u8]) -> Result<Vec<Member>, BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(deserialize_with = "list")]
        members: Vec<Member>,
    }
    Ok(read::<Answer>(body)?.members)
}

/// The answer of `/v3/maintenance/alarm`.
///
/// # Errors
/// It is something else.
pub fn alarms(body: &[u8]) -> Result<Vec<Alarm>, BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default, deserialize_with = "list")]
        alarms: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        #[serde(default, rename = "memberID", deserialize_with = "integer")]
        member_id: u64,
        #[serde(default)]
        alarm: String,
    }
    let kind = |name: String| match name.as_str() {
        "NOSPACE" => AlarmKind::NoSpace,
        "CORRUPT" => AlarmKind::Corrupt,
        _ => AlarmKind::Other(name),
    };
    let all = read::<Answer>(body)?.alarms.into_iter();
    Ok(all.map(|one| Alarm { member_id: one.member_id, kind: kind(one.alarm) }).collect())
}
