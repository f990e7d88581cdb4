//! Answers that nobody has given.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::super::{answer, members, refusal};

/// All there is to be read, of the same bytes.
fn read(body: &[u8]) -> [bool; 8] {
    let ranged = answer::ranged(body);
    if let Ok(ranged) = &ranged {
        let bytes: usize = ranged.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        assert!(bytes <= body.len() && ranged.kvs.iter().all(|kv| !kv.key.is_empty()));
    }
    let _ = refusal::refusal(503, body);
    [
        ranged.is_ok(),
        answer::txn_done(body).is_ok(),
        answer::lease(body).is_ok_and(|lease| lease.id != 0 && lease.ttl_s > 0),
        answer::kept_alive(body, 1).is_ok_and(|left| left.is_none_or(|left| left > 0)),
        answer::done(body).is_ok(),
        members::member_status(body).is_ok(),
        members::members(body).is_ok(),
        members::alarms(body).is_ok(),
    ]
}

/// JSON with the names that etcd uses, in places where it does not.
fn json() -> impl Strategy<Value = Value> {
    let names = [
        "header",
        "kvs",
        "key",
        "value",
        "revision",
        "member_id",
        "more",
        "responses",
        "response_range",
        "succeeded",
        "ID",
        "TTL",
        "result",
        "error",
        "message",
        "code",
        "alarms",
        "alarm",
        "memberID",
        "members",
        "version",
        "errors",
        "leader",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(|number| Value::from(number.to_string())),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "Zm9v", "NOSPACE", "1", "-1", "3.4.23"]).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(names.to_vec()), inner), 0..8)
                .prop_map(|all| Value::from(all.into_iter().map(|(k, v)| (k.to_string(), v)).collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn how_json_is_laid_out_does_not_matter(value in json()) {
        let plain = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(read(&plain), read(&serde_json::to_vec_pretty(&value).unwrap()));
    }

    /// What was written is read, whatever is in it.
    #[test]
    fn keys_come_back(
        kvs in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), prop::collection::vec(any::<u8>(), 0..80), any::<i64>()), 0..6),
        revision in any::<i64>(),
    ) {
        let written: Vec<_> = kvs
            .iter()
            .map(|(key, value, number)| serde_json::json!({
                "key": super::super::json::text_of(key), "value": super::super::json::text_of(value),
                "mod_revision": number.to_string(), "lease": number,
            }))
            .collect();
        let body = serde_json::json!({ "header": { "revision": revision.to_string() }, "kvs": written, "count": "9" });
        let ranged = answer::ranged(body.to_string().as_bytes()).unwrap();
        prop_assert_eq!(ranged.revision, revision);
        let read: Vec<_> = ranged.kvs.into_iter().map(|kv| {
            assert_eq!(kv.mod_revision, kv.lease);
            (kv.key, kv.value, kv.lease)
        }).collect();
        prop_assert_eq!(read, kvs);
    }
}
