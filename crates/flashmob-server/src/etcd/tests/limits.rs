//! How much is read.

use super::*;

/// An answer of exactly this many bytes; with its length, in chunks, or until the connection ends.
fn answers_of(bytes: usize) -> [Does; 3] {
    let mut body = txn_done();
    body.push_str(&" ".repeat(bytes - body.len()));
    let until_end = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}").into_bytes();
    [answer("200 OK", &body), chunked("200 OK", &body), Does::AnswersAndCloses(until_end)]
}

#[test]
fn an_answer_is_as_long_as_it_may_be_and_no_longer() {
    for (bytes, is_good) in [(ANSWER_BYTES_MAX - 1, true), (ANSWER_BYTES_MAX, true), (ANSWER_BYTES_MAX + 1, false)] {
        for does in answers_of(bytes) {
            let (address, server) = server(vec![does]);
            match etcd(&[&address]).txn(&txn(), LONG) {
                Ok(done) => assert!(is_good && done.succeeded, "{bytes}"),
                Err(error) => {
                    assert!(!is_good && !error.is_not_executed(), "{bytes}: {error}");
                    assert!(matches!(error, EtcdError::Malformed { reason, .. } if reason.contains("too long")));
                }
            }
            server.join().unwrap();
        }
    }
}

#[test]
fn a_transaction_that_reads_may_have_more() {
    let range = TxnOp::Range { key: b"foo".to_vec(), range_end: None, limit: 0 };
    let txn = Txn { success: vec![range], ..Txn::default() };
    let part = ranged_of(2000);
    let body = format!(r#"{{{HEADER},"succeeded":true,"responses":[{{"response_range":{part}}}]}}"#);
    assert!(body.len() > ANSWER_BYTES_MAX);
    let (address, server) = server(vec![answer("200 OK", &body), answer("200 OK", &txn_done())]);
    let etcd = etcd(&[&address]);
    assert_eq!(etcd.txn(&txn, LONG).unwrap().responses[0].kvs.len(), 2000);
    // One that does not answer what was asked.
    assert!(matches!(etcd.txn(&txn, LONG), Err(EtcdError::Malformed { .. })));
    server.join().unwrap();
}

#[test]
fn an_announced_length_is_believed() {
    let head = |len: usize| Does::Answers(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{{").into_bytes());
    for (len, is_too_long) in [(KEYS_BYTES_MAX, false), (KEYS_BYTES_MAX + 1, true), (usize::MAX, true)] {
        // After the answer's beginning nothing comes.
        let (address, server) = server(vec![head(len), Does::IsSilent]);
        let outcome = etcd(&[&address]).range(b"foo", None, 0, SHORT);
        assert_eq!(matches!(outcome, Err(EtcdError::Malformed { .. })), is_too_long, "{len}: {outcome:?}");
        assert_eq!(matches!(outcome, Err(EtcdError::Unknown { .. })), !is_too_long, "{len}: {outcome:?}");
        // Lets the server end.
        let mut other = TcpStream::connect(&address).unwrap();
        other.write_all(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").unwrap();
        drop(other);
        server.join().unwrap();
    }
}

#[test]
fn an_answer_that_trickles_is_waited_for_no_longer_than_any() {
    let (address, listener) = stopped();
    let trickle = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n");
        // Until the other end has had enough.
        while stream.write_all(b" ").is_ok() {
            thread::sleep(SHORT / 20);
        }
    });
    let begun = Instant::now();
    let outcome = etcd(&[&address]).txn(&txn(), SHORT);
    assert!(matches!(outcome, Err(EtcdError::Unknown { .. })), "{outcome:?}");
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG);
    trickle.join().unwrap();
}

#[test]
fn an_answer_that_is_cut_leaves_it_open_what_was_done() {
    let whole = match answer("200 OK", &txn_done()) {
        Does::Answers(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    for cut in [0, 5, 17, 40, whole.len() - 1] {
        let (address, server) = server(vec![Does::AnswersAndCloses(whole[..cut].to_vec())]);
        let outcome = etcd(&[&address]).txn(&txn(), LONG);
        assert!(outcome.as_ref().is_err_and(|error| !error.is_not_executed()), "{cut}: {outcome:?}");
        server.join().unwrap();
    }
}

#[test]
fn who_is_no_etcd_is_recognized() {
    let long_header = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(17 << 10));
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..],
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfour\r\nbody\r\n0\r\n\r\n",
        b"\r\n\0\xff\xff",
        long_header.as_bytes(),
    ] {
        let (address, server) = server(vec![Does::AnswersAndCloses(bytes.to_vec())]);
        let error = etcd(&[&address]).txn(&txn(), LONG).unwrap_err();
        assert!(!error.is_not_executed() && error.to_string().contains(&address), "{error}");
        server.join().unwrap();
    }
}

#[test]
fn a_list_is_as_long_as_it_may_be() {
    let of = |count: usize| {
        let alarms = vec!["{}"; count].join(",");
        members::alarms(format!(r#"{{"alarms":[{alarms}]}}"#).as_bytes()).map(|all| all.len())
    };
    assert_eq!(of(LIST_MAX - 1), Ok(LIST_MAX - 1));
    assert_eq!(of(LIST_MAX), Ok(LIST_MAX));
    assert!(of(LIST_MAX + 1).is_err());
}
