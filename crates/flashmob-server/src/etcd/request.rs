//! What etcd is asked, as JSON.

use serde_json::{Value, json};

use super::json::text_of;

/// A condition of a transaction: what a key has now is equal to this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The revision at which the key came into being; 0 if there is no such key.
    CreateRevision(Vec<u8>, i64),
    /// The revision of its last change; 0 if there is no such key.
    ModRevision(Vec<u8>, i64),
    /// Its value. A key that is absent has none, which is not equal to anything.
    Value(Vec<u8>, Vec<u8>),
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields have etcd's own names")]
pub enum TxnOp {
    /// Writes a key. It goes when the lease does; 0 is no lease.
    Put { key: Vec<u8>, value: Vec<u8>, lease: i64 },
    /// Removes a key, or all keys from it to before `range_end`.
    Delete { key: Vec<u8>, range_end: Option<Vec<u8>> },
    /// Reads them, in the state that earlier operations of the transaction have left; at most `limit`, 0 being all.
    Range { key: Vec<u8>, range_end: Option<Vec<u8>>, limit: u32 },
}

/// Operations that are all executed, at one revision: `success` if every condition holds, `failure` otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields have etcd's own names")]
pub struct Txn {
    pub compare: Vec<Compare>,
    pub success: Vec<TxnOp>,
    pub failure: Vec<TxnOp>,
}

impl Txn {
    /// How many ranges are in the answer.
    pub(super) fn ranges(&self, succeeded: bool) -> usize {
        let executed = if succeeded { &self.success } else { &self.failure };
        executed.iter().filter(|op| matches!(op, TxnOp::Range { .. })).count()
    }

    /// Whether its answer may hold keys.
    pub(super) fn reads(&self) -> bool {
        self.ranges(true) + self.ranges(false) > 0
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "compare": self.compare.iter().map(Compare::to_json).collect::<Vec<_>>(),
            "success": self.success.iter().map(TxnOp::to_json).collect::<Vec<_>>(),
            "failure": self.failure.iter().map(TxnOp::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Compare {
    fn to_json(&self) -> Value {
        let (key, target, field, value) = match self {
            Compare::CreateRevision(key, revision) => (key, "CREATE", "create_revision", revision.to_string()),
            Compare::ModRevision(key, revision) => (key, "MOD", "mod_revision", revision.to_string()),
            Compare::Value(key, value) => (key, "VALUE", "value", text_of(value)),
        };
        json!({ "key": text_of(key), "target": target, "result": "EQUAL", field: value })
    }
}

impl TxnOp {
    fn to_json(&self) -> Value {
        match self {
            TxnOp::Put { key, value, lease } => json!({
                "request_put": { "key": text_of(key), "value": text_of(value), "lease": lease.to_string() }
            }),
            TxnOp::Delete { key, range_end } => json!({ "request_delete_range": keys(key, range_end.as_deref()) }),
            TxnOp::Range { key, range_end, limit } => {
                json!({ "request_range": range(key, range_end.as_deref(), *limit) })
            }
        }
    }
}

/// Reads a key, or all keys from it to before `range_end`.
pub(super) fn range(key: &[u8], range_end: Option<&[u8]>, limit: u32) -> Value {
    let mut asked = keys(key, range_end);
    asked["limit"] = Value::from(limit.to_string());
    asked
}

fn keys(key: &[u8], range_end: Option<&[u8]>) -> Value {
    match range_end {
        None => json!({ "key": text_of(key) }),
        Some(end) => json!({ "key": text_of(key), "range_end": text_of(end) }),
    }
}
