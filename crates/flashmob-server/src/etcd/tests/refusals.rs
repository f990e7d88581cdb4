//! Errors of etcd 3.4.23, as it has sent them.

use super::super::refusal::{Refusal, refusal};

fn said(words: &str, code: i64) -> String {
    format!(r#"{{"error":"{words}","message":"{words}","code":{code}}}"#)
}

#[test]
fn errors_are_told_apart() {
    for (status, words, code, is) in [
        (429, "etcdserver: mvcc: database space exceeded", 8, Refusal::NoSpace),
        (404, "etcdserver: requested lease not found", 5, Refusal::NoLease),
        (400, "etcdserver: request is too large", 3, Refusal::TooLarge),
        (400, "etcdserver: too many operations in txn request", 3, Refusal::TooLarge),
        (429, "grpc: received message larger than max (4000080 vs. 2097152)", 8, Refusal::TooLarge),
    ] {
        assert_eq!(refusal(status, said(words, code).as_bytes()), is, "{words}");
    }
    type Made = fn(String) -> Refusal;
    for (status, words, code, is) in [
        (503, "etcdserver: no leader", 14, Refusal::NotSent as Made),
        (429, "etcdserver: too many requests", 8, Refusal::NotSent),
        (503, "etcdserver: rpc not supported for learner", 14, Refusal::NotSent),
        (500, "raft proposal dropped", 2, Refusal::NotSent),
        (503, "etcdserver: request timed out", 14, Refusal::Unknown),
        (503, "etcdserver: request timed out, possibly due to previous leader failure", 14, Refusal::Unknown),
        (503, "etcdserver: leader changed", 14, Refusal::Unknown),
        (503, "etcdserver: server stopped", 14, Refusal::Unknown),
        (503, "transport is closing", 14, Refusal::Unknown),
        (504, "context deadline exceeded", 4, Refusal::Unknown),
        (408, "context canceled", 1, Refusal::Unknown),
        (500, "unexpected EOF", 2, Refusal::Unknown),
        (500, "something else", 13, Refusal::Unknown),
        (400, "etcdserver: user name is empty", 3, Refusal::Denied),
        (403, "etcdserver: permission denied", 7, Refusal::Denied),
        (401, "etcdserver: invalid auth token", 16, Refusal::Denied),
        (400, "etcdserver: key is not provided", 3, Refusal::Rejected),
        (400, "etcdserver: duplicate key given in txn request", 3, Refusal::Rejected),
        (400, "etcdserver: mvcc: required revision has been compacted", 11, Refusal::Rejected),
        (500, "etcdserver: corrupt cluster", 15, Refusal::Rejected),
    ] {
        assert_eq!(refusal(status, said(words, code).as_bytes()), is(words.to_string()), "{words}");
    }
}

#[test]
fn other_forms_of_an_error_say_the_same() {
    let words = "etcdserver: leader changed";
    for body in [
        // A stream's, and that of later versions.
        format!(
            r#"{{"error":{{"grpc_code":14,"http_code":503,"message":"{words}","http_status":"Service Unavailable"}}}}"#
        ),
        format!(r#"{{"error":{{"code":14,"message":"{words}","details":[]}}}}"#),
        format!(r#"{{"code":14,"message":"{words}","details":[]}}"#),
        format!(r#"{{"error":"{words}","code":14}}"#),
        // Without a code nothing is certain.
        format!(r#"{{"error":"{words}"}}"#),
    ] {
        assert_eq!(refusal(503, body.as_bytes()), Refusal::Unknown(words.to_string()), "{body}");
    }
}

#[test]
fn what_is_not_etcds_is_told_by_its_status() {
    let of = |status, body: &str| refusal(status, body.as_bytes());
    assert!(matches!(of(404, "Not Found"), Refusal::Malformed(words) if words == "HTTP status 404: Not Found"));
    assert!(matches!(of(400, "Client sent an HTTP request to an HTTPS server.\n"), Refusal::Denied(_)));
    for status in [502, 503, 504] {
        assert!(matches!(of(status, "<html>"), Refusal::Unknown(_)), "{status}");
    }
    for status in [401, 403, 421] {
        assert!(matches!(of(status, ""), Refusal::Denied(_)), "{status}");
    }
    for status in [201, 302, 500, 501, 505] {
        assert!(matches!(of(status, "{}"), Refusal::Malformed(_)), "{status}");
    }
    let Refusal::Malformed(words) = of(500, &"ä\n".repeat(100_000)) else { panic!("not JSON") };
    assert!(words.chars().count() == 300 && !words.contains('\n'));
}
