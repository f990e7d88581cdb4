//! The etcd cluster that keeps a gateway's maps, as its members report it. The command line fills it.

use std::time::Duration;

/// What was found of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Etcd {
    /// Its members, as far as they are known.
    pub members: Vec<Member>,
    /// What somebody has to disarm; or why that is not known.
    pub alarms: Result<Vec<Alarm>, String>,
    /// How long a read takes that a majority agrees to, the median of some; or why there is none.
    pub read: Result<Duration, String>,
}

impl Etcd {
    /// One that cannot be asked, and why.
    #[must_use]
    pub fn unseen(why: &str) -> Etcd {
        Etcd { members: Vec::new(), alarms: Err(why.to_string()), read: Err(why.to_string()) }
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name; the place where it was asked if that is not known.
    pub name: String,
    /// Where it was asked, `HOST:PORT`.
    pub endpoint: String,
    /// It has no vote.
    pub is_learner: bool,
    /// What it says, or why it does not answer.
    pub status: Result<Status, String>,
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Of its program.
    pub version: String,
    /// Size of its database.
    pub db_bytes: u64,
    /// The part of it that defragmenting would leave.
    pub in_use_bytes: u64,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    /// The member that raised it.
    pub member: String,
    /// Why.
    pub kind: AlarmKind,
}

/// Why there is an alarm.
#[derive(Clone, Debug, PartialEq)]
pub enum AlarmKind {
    /// The database is full.
    Full,
    /// The member's data differs from that of others.
    Corrupt,
    /// Something else.
    Other(String),
}
