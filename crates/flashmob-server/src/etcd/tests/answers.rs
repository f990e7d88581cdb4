//! Answers of etcd 3.4.23, as it has sent them.

use super::super::answer::*;
use super::super::members::*;
use super::HEADER;

#[test]
fn keys_are_read() {
    let none = format!("{{{HEADER}}}");
    assert_eq!(ranged(none.as_bytes()).unwrap(), Ranged { revision: 3, more: false, kvs: vec![] });
    let two = format!(
        r#"{{{HEADER},"kvs":[{{"key":"Zm9v","create_revision":"2","mod_revision":"3","version":"2","value":"YmFy","lease":"1353509936303081989"}},{{"key":"Zm9w","create_revision":"2","mod_revision":"2","version":"1"}}],"more":true,"count":"3"}}"#
    );
    let read = ranged(two.as_bytes()).unwrap();
    assert!(read.more);
    let first = KeyValue {
        key: b"foo".to_vec(),
        value: b"bar".to_vec(),
        create_revision: 2,
        mod_revision: 3,
        version: 2,
        lease: 1353509936303081989,
    };
    let second =
        KeyValue { key: b"fop".to_vec(), value: vec![], create_revision: 2, mod_revision: 2, version: 1, lease: 0 };
    assert_eq!(read.kvs, [first, second]);
}

#[test]
fn what_came_of_a_transaction_is_read() {
    let done = format!(
        r#"{{{HEADER},"succeeded":true,"responses":[{{"response_put":{{"header":{{"revision":"2"}}}}}},{{"response_range":{{"header":{{"revision":"2"}},"kvs":[{{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy"}}],"count":"1"}}}},{{"response_delete_range":{{"header":{{"revision":"2"}}}}}},{{"response_range":{{"header":{{"revision":"2"}}}}}}]}}"#
    );
    let done = txn_done(done.as_bytes()).unwrap();
    assert!(done.succeeded);
    assert_eq!((done.revision, done.responses.len()), (3, 2));
    assert_eq!((done.responses[0].kvs[0].value.as_slice(), done.responses[0].revision), (&b"bar"[..], 2));
    assert!(done.responses[1].kvs.is_empty());
    // Neither a failure nor operations that are none are mentioned.
    let nothing = txn_done(format!("{{{HEADER}}}").as_bytes()).unwrap();
    assert_eq!(nothing, TxnDone { succeeded: false, revision: 3, responses: vec![] });
}

#[test]
fn leases_are_read() {
    let granted = format!(r#"{{{HEADER},"ID":"1353509936303081989","TTL":"60"}}"#);
    assert_eq!(lease(granted.as_bytes()).unwrap(), Lease { id: 1353509936303081989, ttl_s: 60 });
    let kept = format!("{{\"result\":{{{HEADER},\"ID\":\"7\",\"TTL\":\"60\"}}}}\n");
    assert_eq!(kept_alive(kept.as_bytes(), 7).unwrap(), Some(60));
    assert!(kept_alive(kept.as_bytes(), 8).is_err(), "about another");
    let gone = format!("{{\"result\":{{{HEADER},\"ID\":\"7\"}}}}\n");
    assert_eq!(kept_alive(gone.as_bytes(), 7).unwrap(), None);
    let negative = kept.replace("\"60\"", "\"-1\"");
    assert_eq!(kept_alive(negative.as_bytes(), 7).unwrap(), None);
    // The first of a stream counts.
    assert_eq!(kept_alive(format!("{kept}{gone}").as_bytes(), 7).unwrap(), Some(60));
    for ttl in ["0", "-1"] {
        assert!(lease(granted.replace("\"60\"", ttl).as_bytes()).is_err());
    }
    assert!(lease(granted.replace("1353509936303081989", "0").as_bytes()).is_err());
    assert!(done(format!("{{{HEADER}}}").as_bytes()).is_ok());
    assert!(done(b"{}").is_err());
}

#[test]
fn members_are_read() {
    let status = br#"{"header":{"cluster_id":"15875391935852295136","member_id":"16637631021480683366","revision":"1","raft_term":"2"},"version":"3.4.23","dbSize":"40960","leader":"7383792418829112008","raftIndex":"220","raftTerm":"2","raftAppliedIndex":"220","errors":["memberID:7383792418829112008 alarm:NOSPACE "],"dbSizeInUse":"32768","isLearner":true}"#;
    let expected = MemberStatus {
        version: "3.4.23".to_string(),
        db_size_bytes: 40960,
        db_size_in_use_bytes: 32768,
        leader: 7383792418829112008,
        member_id: 16637631021480683366,
        is_learner: true,
        raft_index: 220,
        errors: vec!["memberID:7383792418829112008 alarm:NOSPACE ".to_string()],
    };
    assert_eq!(member_status(status).unwrap(), expected);
    // Without a leader the field is absent.
    let without = br#"{"header":{"member_id":"5","revision":"1","raft_term":"2"},"version":"3.4.23"}"#;
    assert_eq!(member_status(without).unwrap().leader, 0);
    let list = br#"{"header":{"cluster_id":"15875391935852295136","member_id":"7383792418829112008","raft_term":"2"},"members":[{"ID":"7383792418829112008","name":"one","peerURLs":["http://127.0.0.1:42380"],"clientURLs":["http://127.0.0.1:42379"]},{"ID":"8547460237632523920","peerURLs":["http://127.0.0.1:9"],"isLearner":true}]}"#;
    let all = members(list).unwrap();
    assert_eq!(
        (all[0].name.as_str(), all[0].client_urls.as_slice()),
        ("one", &["http://127.0.0.1:42379".to_string()][..])
    );
    assert!(!all[0].is_learner && all[1].is_learner && all[1].client_urls.is_empty());
}

#[test]
fn alarms_are_read() {
    assert_eq!(alarms(b"{}").unwrap(), []);
    let three = br#"{"alarms":[{"memberID":"7383792418829112008","alarm":"NOSPACE"},{"memberID":5,"alarm":"CORRUPT"},{"alarm":"FIRE"}]}"#;
    let expected = [
        Alarm { member_id: 7383792418829112008, kind: AlarmKind::NoSpace },
        Alarm { member_id: 5, kind: AlarmKind::Corrupt },
        Alarm { member_id: 0, kind: AlarmKind::Other("FIRE".to_string()) },
    ];
    assert_eq!(alarms(three).unwrap(), expected);
}

#[test]
fn what_is_no_answer_is_none() {
    for body in ["", "null", "[]", "{}", "{", "\u{feff}{}", r#"{"header":7}"#, "Not Found"] {
        assert!(ranged(body.as_bytes()).is_err() && txn_done(body.as_bytes()).is_err(), "{body}");
        assert!(lease(body.as_bytes()).is_err() && kept_alive(body.as_bytes(), 1).is_err(), "{body}");
        assert!(member_status(body.as_bytes()).is_err() && members(body.as_bytes()).is_err(), "{body}");
    }
    for kv in [
        "7",
        "{}",
        r#"{"key":""}"#,
        r#"{"key":null}"#,
        r#"{"key":"Zm9"}"#,
        r#"{"key":"Zm9v","value":"!"}"#,
        r#"{"key":"Zm9v","version":"9223372036854775808"}"#,
        r#"{"key":"Zm9v","version":1.5}"#,
        r#"{"key":"Zm9v","lease":""}"#,
    ] {
        let body = format!(r#"{{{HEADER},"kvs":[{kv}]}}"#);
        assert!(ranged(body.as_bytes()).is_err(), "{kv}");
        let within = format!(r#"{{{HEADER},"responses":[{{"response_range":{body}}}]}}"#);
        assert!(txn_done(within.as_bytes()).is_err(), "{kv}");
    }
    let last =
        format!(r#"{{{HEADER},"kvs":[{{"key":"Zm9v","version":"9223372036854775807","lease":-1,"value":null}}]}}"#);
    assert_eq!(ranged(last.as_bytes()).unwrap().kvs[0].version, i64::MAX);
    let long = format!(r#"{{"header":"{}"}}"#, "x".repeat(10_000));
    assert!(ranged(long.as_bytes()).unwrap_err().to_string().len() < 400, "an error does not cite all of it");
}
