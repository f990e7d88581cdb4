use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

/// Headers in an answer that ureq takes.
const HEADERS_MAX: usize = 128;

const SOON: Duration = Duration::from_millis(300);

/// What comes of a server that sends `answer` and then closes, or holds the connection for longer than anybody waits.
fn fetch_from(answer: &[u8], hold: bool) -> Result<String, FetchError> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let answer = answer.to_vec();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let len = stream.read(&mut request).unwrap();
        // The other end may have heard enough.
        let _ = stream.write_all(&answer);
        if hold {
            let _ = stream.read(&mut [0]);
        }
        String::from_utf8_lossy(&request[..len]).into_owned()
    });
    let body = exchange(&target.parse()?, "/status", None, SOON);
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /status HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: {target}\r\n")) && request.ends_with("\r\n\r\n"), "{request}");
    body.map(|body| String::from_utf8(body).unwrap())
}

#[test]
fn a_body_ends_where_its_length_says_or_where_the_connection_ends() {
    for (answer, hold) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"[..], true),
        (b"HTTP/1.1 200 OK\r\ncontent-length:4 \r\n\r\nbody and more", true),
        (b"HTTP/1.0 200 OK\r\n\r\nbody", false),
    ] {
        assert_eq!(fetch_from(answer, hold).unwrap(), "body");
    }
}

#[test]
fn an_answer_that_stays_away_or_breaks_off_is_told_apart() {
    let endless = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody";
    assert!(matches!(fetch_from(b"", true), Err(FetchError::Timeout(..))));
    assert!(matches!(fetch_from(endless, true), Err(FetchError::Timeout(..))));
    assert!(matches!(fetch_from(endless, false), Err(FetchError::Cut(_))));
    assert!(matches!(fetch_from(b"", false), Err(FetchError::Cut(_))));
    assert!(matches!(fetch_from(b"HTTP/1.1 200 OK\r\nConte", false), Err(FetchError::Cut(_))));
}

#[test]
fn who_is_not_flashmob_is_recognized() {
    let long_header = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
    for answer in [
        &b"NBDMAGICIHAVEOPT\x00\x03"[..],
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfour\r\nbody\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"\r\n\0\xff\xff",
        long_header.as_bytes(),
        many_headers.as_bytes(),
    ] {
        let result = fetch_from(answer, false);
        assert!(matches!(result, Err(FetchError::Foreign(_) | FetchError::Cut(_))), "{result:?}");
    }
    let exactly = format!("HTTP/1.1 200 OK\r\n{}\r\nbody", "A: b\r\n".repeat(HEADERS_MAX));
    assert_eq!(fetch_from(exactly.as_bytes(), false).unwrap(), "body");
}

#[test]
fn a_busy_process_and_an_absurd_report_have_their_own_errors() {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(fetch_from(busy, false), Err(FetchError::Busy(_))));
    let head = |len: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
    assert!(matches!(fetch_from(head(BODY_BYTES_MAX + 1).as_bytes(), true), Err(FetchError::TooLarge(_))));
    assert!(matches!(fetch_from(head(BODY_BYTES_MAX).as_bytes(), true), Err(FetchError::Timeout(..))));
    assert!(matches!(fetch_from(head(usize::MAX).as_bytes(), true), Err(FetchError::TooLarge(_))));
}

#[test]
fn a_closed_port_says_what_to_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = fetch_status(&target.parse().unwrap()).unwrap_err().to_string();
    let expected = format!(
        "nothing listens on {target}; start the gateway or node with --admin {target}, or give its --admin address"
    );
    assert_eq!(error, expected);
}

#[test]
fn a_target_is_an_address_and_a_port() {
    for (target, expected) in [
        ("127.0.0.1:9100", "127.0.0.1:9100"),
        (" tablet.lan:1 ", "tablet.lan:1"),
        ("http://[::1]:65535/status", "[::1]:65535"),
        ("http://a:9100/", "a:9100"),
    ] {
        assert_eq!(target.parse::<Target>().unwrap().to_string(), expected, "{target}");
    }
    for target in
        ["", "9100", ":9100", "a", "a:", "a:0", "a:65536", "a:b", "ftp://a:1", "a b:1", "a\r\nX: y:1", "http://"]
    {
        assert!(matches!(target.parse::<Target>(), Err(FetchError::Target(_))), "{target}");
        assert!(matches!(Target::host(target), Err(FetchError::Target(_))), "{target}");
    }
    assert!(matches!("https://a:1/status".parse::<Target>(), Err(FetchError::NoCredentials(_))));
    for (target, host) in
        [("https://a:1/status", "a"), ("[::1]:9", "::1"), ("[fe80::1%eth0]:9", "fe80::1"), ("10.0.0.1:9", "10.0.0.1")]
    {
        assert_eq!(Target::host(target).unwrap(), host);
    }
}
