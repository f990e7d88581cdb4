//! Which endpoint is asked when, and what that costs.

use super::*;

#[test]
fn a_closed_endpoint_is_passed_over_and_asked_last_the_next_time() {
    let closed = closed();
    let (address, server) = server(vec![answer("200 OK", &txn_done()); 2]);
    let etcd = etcd(&[&closed, &address]);
    for _ in 0..2 {
        assert!(etcd.txn(&txn(), LONG).unwrap().succeeded);
        assert_eq!(etcd.first.load(Ordering::Relaxed), 1);
    }
    assert_eq!(server.join().unwrap().len(), 1);
    // Now both are closed.
    let error = etcd.txn(&txn(), LONG).unwrap_err();
    let expected = format!("{address}: nothing listens there; {closed}: nothing listens there");
    assert_eq!(error, EtcdError::NotSent { tried: expected.clone() });
    assert!(error.is_not_executed() && error.to_string().contains(&expected));
}

#[test]
fn no_endpoint_takes_all_the_time_of_a_read() {
    let (silent, _listener) = stopped();
    let (address, server) = server(vec![answer("200 OK", &ranged_of(1)); 2]);
    let etcd = etcd(&[&silent, &address]);
    let begun = Instant::now();
    assert_eq!(etcd.range(b"foo", None, 0, 3 * SHORT).unwrap().kvs.len(), 1);
    assert!(begun.elapsed() >= SHORT);
    let begun = Instant::now();
    assert_eq!(etcd.range(b"foo", None, 0, LONG).unwrap().kvs.len(), 1);
    assert!(begun.elapsed() < SHARE_MAX, "the silent one is no longer asked first");
    server.join().unwrap();
}

#[test]
fn a_lease_is_kept_alive_by_the_next_one() {
    let (silent, _listener) = stopped();
    let kept = format!(r#"{{"result":{{{HEADER},"ID":"7","TTL":"60"}}}}"#);
    let (cut, first) = server(vec![Does::AnswersAndCloses(vec![])]);
    let (address, second) = server(vec![chunked("200 OK", &kept)]);
    assert_eq!(etcd(&[&cut, &silent, &address]).keep_alive(7, 3 * SHORT).unwrap(), Some(60));
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn a_change_is_not_sent_twice() {
    let (silent, _listener) = stopped();
    let (cut, server) = server(vec![Does::AnswersAndCloses(vec![]); 2]);
    for endpoint in [&silent, &cut] {
        // Were the second one asked, the error would name it.
        let both = etcd(&[endpoint, &closed()]);
        let begun = Instant::now();
        for outcome in [both.txn(&txn(), SHORT).map(|_| ()), etcd(&[endpoint]).grant(5, SHORT).map(|_| ())] {
            let Err(EtcdError::Unknown { tried }) = outcome else { panic!("{outcome:?}") };
            assert!(tried.starts_with(&format!("{endpoint}: it ")) && !tried.contains(';'), "{tried}");
        }
        assert!(begun.elapsed() < LONG);
    }
    server.join().unwrap();
}

#[test]
fn a_member_that_has_refused_is_followed_by_the_next() {
    let no_leader = chunked("503 Service Unavailable", r#"{"error":"etcdserver: no leader","code":14}"#);
    let (first, one) = server(vec![no_leader]);
    let (second, two) = server(vec![answer("200 OK", &txn_done())]);
    assert!(etcd(&[&first, &second]).txn(&txn(), LONG).unwrap().succeeded);
    one.join().unwrap();
    two.join().unwrap();
}

#[test]
fn an_error_that_says_all_is_not_asked_for_elsewhere() {
    for (words, code) in [
        ("etcdserver: mvcc: database space exceeded", 8),
        ("etcdserver: requested lease not found", 5),
        ("etcdserver: request is too large", 3),
        ("etcdserver: duplicate key given in txn request", 3),
    ] {
        let body = format!(r#"{{"error":"{words}","message":"{words}","code":{code}}}"#);
        let (address, server) = server(vec![chunked("400 Bad Request", &body); 2]);
        let etcd = etcd(&[&address, &closed()]);
        for _ in 0..2 {
            let error = etcd.txn(&txn(), LONG).unwrap_err();
            assert_eq!(error.is_not_executed(), error != EtcdError::NoSpace);
            match code {
                8 => assert_eq!(error, EtcdError::NoSpace),
                5 => assert_eq!(error, EtcdError::NoLease),
                _ if words.contains("large") => assert_eq!(error, EtcdError::TooLarge),
                _ => assert!(matches!(error, EtcdError::Rejected { message, .. } if message == words)),
            }
        }
        assert_eq!(server.join().unwrap().len(), 1, "the connection is kept");
    }
}

#[test]
fn a_stream_that_begins_with_an_error_is_an_error() {
    let body = r#"{"error":{"grpc_code":5,"http_code":404,"message":"etcdserver: requested lease not found"}}"#;
    let (address, server) = server(vec![chunked("200 OK", body)]);
    assert_eq!(etcd(&[&address]).keep_alive(7, LONG), Ok(None));
    server.join().unwrap();
}

#[test]
fn the_status_is_that_of_the_endpoint_that_was_named() {
    let (address, server) = server(vec![answer("200 OK", &format!(r#"{{{HEADER},"version":"3.4.23"}}"#))]);
    let closed = closed();
    let etcd = etcd(&[&closed, &address]);
    assert!(matches!(etcd.status(&closed, LONG), Err(EtcdError::NotSent { .. })));
    assert!(matches!(etcd.status("elsewhere:1", LONG), Err(EtcdError::NotSent { .. })));
    assert_eq!(etcd.status(&address, LONG).unwrap().member_id, 7383792418829112008);
    assert_eq!(etcd.first.load(Ordering::Relaxed), 0, "which is asked first is another matter");
    server.join().unwrap();
}

#[test]
fn a_connection_that_was_closed_is_not_used_again() {
    let closing = |body: &str| match answer("200 OK", body) {
        Does::Answers(bytes) => Does::AnswersAndCloses(bytes),
        other => other,
    };
    let (address, server) = server(vec![closing(&txn_done()), closing(&txn_done())]);
    let etcd = etcd(&[&address]);
    assert!(etcd.txn(&txn(), LONG).unwrap().succeeded);
    // The end of the connection may be on its way still.
    let until = Instant::now() + LONG;
    while Instant::now() < until && etcd.endpoints[0].has_idle() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(etcd.txn(&txn(), LONG).unwrap().succeeded);
    assert_eq!(server.join().unwrap().len(), 2);
}

#[test]
fn without_time_nothing_is_sent() {
    let (silent, _listener) = stopped();
    for endpoints in [&[&silent[..]][..], &[&silent, &silent]] {
        assert!(matches!(etcd(endpoints).txn(&txn(), Duration::ZERO), Err(EtcdError::NotSent { .. })));
        assert!(matches!(etcd(endpoints).range(b"a", None, 0, Duration::ZERO), Err(EtcdError::NotSent { .. })));
    }
    // More than clocks know.
    assert!(matches!(etcd(&[&closed()]).txn(&txn(), Duration::MAX), Err(EtcdError::NotSent { .. })));
}
