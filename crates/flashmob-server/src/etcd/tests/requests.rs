//! What is sent.

use super::super::request::range;
use super::*;

#[test]
fn a_transaction_is_written_as_etcd_reads_it() {
    let key = || b"foo".to_vec();
    let txn = Txn {
        compare: vec![
            Compare::CreateRevision(key(), 0),
            Compare::ModRevision(key(), i64::MAX),
            Compare::Value(key(), b"bar".to_vec()),
        ],
        success: vec![
            TxnOp::Put { key: key(), value: vec![0xff; 2], lease: -1 },
            TxnOp::Range { key: key(), range_end: None, limit: 0 },
        ],
        failure: vec![
            TxnOp::Delete { key: key(), range_end: None },
            TxnOp::Delete { key: vec![0], range_end: Some(vec![0]) },
        ],
    };
    let expected = json!({
        "compare": [
            { "key": "Zm9v", "target": "CREATE", "result": "EQUAL", "create_revision": "0" },
            { "key": "Zm9v", "target": "MOD", "result": "EQUAL", "mod_revision": "9223372036854775807" },
            { "key": "Zm9v", "target": "VALUE", "result": "EQUAL", "value": "YmFy" },
        ],
        "success": [
            { "request_put": { "key": "Zm9v", "value": "//8=", "lease": "-1" } },
            { "request_range": { "key": "Zm9v", "limit": "0" } },
        ],
        "failure": [
            { "request_delete_range": { "key": "Zm9v" } },
            { "request_delete_range": { "key": "AA==", "range_end": "AA==" } },
        ],
    });
    assert_eq!(txn.to_json(), expected);
    assert_eq!((txn.ranges(true), txn.ranges(false), txn.reads()), (1, 0, true));
    assert!(!super::txn().reads());
    assert_eq!(
        range(b"foo", Some(b"fop"), u32::MAX),
        json!({ "key": "Zm9v", "range_end": "Zm9w", "limit": "4294967295" })
    );
}

/// What was asked by each call, over one connection.
#[test]
fn calls_go_to_their_paths_over_one_connection() {
    let done = format!("{{{HEADER}}}");
    let lease = r#""ID":"7","TTL":"60""#;
    let (address, server) = server(vec![
        answer("200 OK", &ranged_of(1)),
        answer("200 OK", &txn_done()),
        answer("200 OK", &format!("{{{HEADER},{lease}}}")),
        chunked("200 OK", &format!("{{\"result\":{{{HEADER},{lease}}}}}\n")),
        chunked("404 Not Found", r#"{"error":"etcdserver: requested lease not found","code":5}"#),
        answer("200 OK", &done),
        answer("200 OK", &format!(r#"{{{HEADER},"version":"3.4.23"}}"#)),
        answer("200 OK", r#"{"members":[]}"#),
        answer("200 OK", "{}"),
    ]);
    let etcd = etcd(&[&address]);
    assert_eq!(etcd.range(b"foo", None, 0, LONG).unwrap().kvs.len(), 1);
    assert!(etcd.txn(&txn(), LONG).unwrap().succeeded);
    assert_eq!(etcd.grant(60, LONG).unwrap(), Lease { id: 7, ttl_s: 60 });
    assert_eq!(etcd.keep_alive(7, LONG).unwrap(), Some(60));
    // That it is gone already is what was wanted.
    etcd.revoke(7, LONG).unwrap();
    etcd.revoke(7, LONG).unwrap();
    assert_eq!(etcd.status(&address, LONG).unwrap().version, "3.4.23");
    assert_eq!(etcd.members(LONG).unwrap(), []);
    assert_eq!(etcd.alarms(LONG).unwrap(), []);
    let seen = server.join().unwrap();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    let heads: Vec<_> = seen[0].iter().map(|text| text.lines().next().unwrap()).collect();
    let paths = [
        "kv/range",
        "kv/txn",
        "lease/grant",
        "lease/keepalive",
        "lease/revoke",
        "lease/revoke",
        "maintenance/status",
        "cluster/member/list",
        "maintenance/alarm",
    ];
    assert_eq!(heads, paths.map(|path| format!("POST /v3/{path} HTTP/1.1")));
    for text in &seen[0] {
        let head = text.to_ascii_lowercase();
        assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{text}");
        // A member without a leader tells of itself nevertheless.
        let is_of_member = head.contains("status") || head.contains("member/");
        assert_eq!(head.contains("\r\ngrpc-metadata-hasleader: true\r\n"), !is_of_member, "{text}");
    }
    assert!(seen[0][3].ends_with(r#"{"ID":"7"}"#), "{}", seen[0][3]);
}

#[test]
fn endpoints_are_addresses() {
    let all = |texts: &[&str]| Etcd::new(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), None);
    let good = all(&["127.0.0.1:2379", "http://[::1]:2379/", " etcd.lan:2379 "]).unwrap();
    assert_eq!(good.endpoints().collect::<Vec<_>>(), ["127.0.0.1:2379", "[::1]:2379", "etcd.lan:2379"]);
    for bad in [&[][..], &[""], &["a"], &["a:0"], &["a:65536"], &["https://a:2379"], &["a:1", "b"], &["a\r\n:1"]] {
        assert!(all(bad).is_err(), "{bad:?}");
    }
}
