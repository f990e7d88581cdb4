//! Answers of etcd: what is read does not depend on how the JSON is laid out, and is not larger than its text.

use flashmob_server::etcd::answer::{done, kept_alive, lease, ranged, txn_done};
use flashmob_server::etcd::members::{alarms, member_status, members};
use flashmob_server::etcd::{Ranged, Refusal, refusal};
use serde_json::Value;

/// The lease that was asked for.
const LEASE: i64 = 7;

/// The first byte says what the rest is.
pub fn run(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let again = serde_json::from_slice::<Value>(body).and_then(|value| serde_json::to_vec_pretty(&value)).ok();
    let bodies = [Some(body), again.as_deref()];
    let [first, again] = bodies.map(|body| body.map(|body| read(kind % 9, body)));
    // A second field of the same name is an error, and the laid out text has but one.
    if let (Some(Some(first)), Some(again)) = (first, again) {
        assert_eq!(again, Some(first));
    }
}

/// What was read, as text; nothing if it was refused.
fn read(kind: u8, body: &[u8]) -> Option<String> {
    Some(match kind {
        0 => {
            let read = ranged(body).ok()?;
            bounded(&read, body);
            format!("{read:?}")
        }
        1 => {
            let read = txn_done(body).ok()?;
            read.responses.iter().for_each(|read| bounded(read, body));
            format!("{read:?}")
        }
        2 => {
            let read = lease(body).ok()?;
            assert!(read.id != 0 && read.ttl_s > 0);
            format!("{read:?}")
        }
        3 => {
            let left = kept_alive(body, LEASE).ok()?;
            assert!(left.is_none_or(|left| left > 0));
            format!("{left:?}")
        }
        4 => format!("{:?}", done(body).ok()?),
        5 => format!("{:?}", member_status(body).ok()?),
        6 => format!("{:?}", members(body).ok()?),
        7 => format!("{:?}", alarms(body).ok()?),
        _ => {
            refused(body);
            return None;
        }
    })
}

fn bounded(read: &Ranged, body: &[u8]) {
    let bytes: usize = read.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    assert!(bytes <= body.len() / 4 * 3);
    assert!(read.kvs.iter().all(|kv| !kv.key.is_empty()));
}

/// An error: what is taken for not executed was said so.
fn refused(body: &[u8]) {
    let Some((status, body)) = body.split_first_chunk::<2>() else { return };
    let refused = refusal(u16::from_le_bytes(*status), body);
    match &refused {
        Refusal::NotSent(words) => assert!(words.contains("etcdserver: ") || words.contains("dropped"), "{words}"),
        Refusal::Unknown(words) | Refusal::Denied(words) | Refusal::Malformed(words) | Refusal::Rejected(words) => {
            assert!(words.chars().count() <= 300 && !words.contains(char::is_control));
        }
        Refusal::NoSpace | Refusal::NoLease | Refusal::TooLarge => assert!(!body.is_empty()),
    }
}

/// Answers of etcd 3.4, one of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let header = r#""header":{"cluster_id":"15875391935852295136","member_id":"7383792418829112008","revision":"2","raft_term":"2"}"#;
    let kvs = r#""kvs":[{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy","lease":"7"},{"key":"Zm9w"}]"#;
    let of = |kind: u8, body: &str| [&[kind][..], body.as_bytes()].concat();
    let error = |status: u16, body: &str| [&[8][..], &status.to_le_bytes(), body.as_bytes()].concat();
    let txn = format!(
        r#"{{{header},"succeeded":true,"responses":[{{"response_put":{{"header":{{"revision":"2"}}}}}},{{"response_range":{{"header":{{"revision":"2"}},{kvs},"count":"2"}}}}]}}"#
    );
    let status = format!(
        r#"{{{header},"version":"3.4.23","dbSize":"20480","leader":"7383792418829112008","raftIndex":"4","errors":["etcdserver: no leader"],"dbSizeInUse":"16384","isLearner":true}}"#
    );
    let list = format!(
        r#"{{{header},"members":[{{"ID":"5","name":"one","clientURLs":["http://127.0.0.1:2379"]}},{{"ID":"6","isLearner":true}}]}}"#
    );
    vec![
        ("range", of(0, &format!(r#"{{{header},{kvs},"more":true,"count":"3"}}"#))),
        ("txn", of(1, &txn)),
        ("grant", of(2, &format!(r#"{{{header},"ID":"7","TTL":"60"}}"#))),
        ("keep_alive", of(3, &format!("{{\"result\":{{{header},\"ID\":\"7\",\"TTL\":\"60\"}}}}\n"))),
        ("keep_alive_gone", of(3, &format!("{{\"result\":{{{header},\"ID\":\"7\"}}}}\n"))),
        ("revoke", of(4, &format!("{{{header}}}"))),
        ("status", of(5, &status)),
        ("members", of(6, &list)),
        ("alarms", of(7, r#"{"alarms":[{"memberID":"5","alarm":"NOSPACE"},{"memberID":"6","alarm":"CORRUPT"}]}"#)),
        ("error", error(503, r#"{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}"#)),
        ("error_of_stream", error(200, r#"{"error":{"grpc_code":14,"message":"etcdserver: leader changed"}}"#)),
        ("error_of_others", error(404, "Not Found")),
    ]
}
