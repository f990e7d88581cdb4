mod keys;
mod live;
mod replace;
mod scrub;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as StdStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::*;
use crate::admin::metrics::{Format, strict};
use crate::admin::samples;
use crate::net::fetch;
use crate::status::live::LiveReport;
use crate::status::report::Report;
use crate::status::reporter;

const SHORT: Timeouts = Timeouts { head: Duration::from_millis(400), connection: Duration::from_millis(800) };
const ANY_PORT: &str = "127.0.0.1:0";

/// A reporter whose loop gives `report`, and counts how often.
fn answering(report: Report) -> (Reporter, Arc<AtomicUsize>) {
    let (reporter, questions) = reporter(crate::net::Wake::nobody());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    thread::spawn(move || {
        for answer in questions {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = answer.send(report.clone());
        }
    });
    (reporter, asked)
}

fn gateway_server(timeouts: Timeouts) -> AdminServer {
    let asker = Asker::new(Some(answering(samples::gateway()).0), None, Hosts::default());
    serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, timeouts).unwrap()
}

fn server() -> AdminServer {
    serve(ANY_PORT.parse().unwrap(), answering(samples::gateway()).0).unwrap()
}

fn target(server: &AdminServer) -> fetch::Target {
    server.local_addr().to_string().parse().unwrap()
}

fn connect(server: &AdminServer) -> StdStream {
    let stream = StdStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// All that comes until the end of the connection; a reset is an end, too.
fn rest(stream: &mut StdStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("{e}"),
        _ => String::from_utf8(bytes).unwrap(),
    }
}

fn exchange(server: &AdminServer, request: &str) -> String {
    let mut stream = connect(server);
    // A server that has read enough may refuse the rest.
    let _ = stream.write_all(request.as_bytes());
    rest(&mut stream)
}

fn get(server: &AdminServer, path: &str, headers: &str) -> (String, String) {
    let answer = exchange(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.to_ascii_lowercase(), body.to_string())
}

#[test]
fn status_is_the_report_as_json() {
    let server = server();
    let (head, body) = get(&server, "/status", "");
    assert!(head.starts_with("http/1.1 200 ok\r\n") && head.contains("\r\ncontent-type: application/json"), "{head}");
    assert!(
        head.contains(&format!("\r\ncontent-length: {}", body.len())) && head.contains("\r\nconnection: close"),
        "{head}"
    );
    let expected = serde_json::to_value(samples::gateway()).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), expected);
    let fetched = fetch::fetch_status(&target(&server)).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&fetched).unwrap(), expected);
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    let server = server();
    for (accept, kind, format) in [
        ("", "text/plain; version=0.0.4; charset=utf-8", Format::Prometheus),
        ("Accept: */*\r\n", "text/plain; version=0.0.4; charset=utf-8", Format::Prometheus),
        (
            "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3\r\n",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::OpenMetrics,
        ),
    ] {
        let (head, body) = get(&server, "/metrics?of=all", accept);
        assert!(head.contains(&format!("\r\ncontent-type: {kind}\r\n")), "{head}");
        let samples = strict::parse(&body, format).unwrap();
        assert!(samples.iter().any(|s| s.name == "flashmob_link_batches_total"));
    }
}

#[test]
fn the_index_names_the_two_paths() {
    let (head, body) = get(&server(), "/", "");
    assert!(head.starts_with("http/1.1 200 ok\r\n") && head.contains("\r\ncontent-type: text/html"), "{head}");
    assert!(body.contains("href=\"/status\"") && body.contains("href=\"/metrics\""));
}

#[test]
fn head_tells_what_get_would_and_sends_no_body() {
    let server = server();
    for path in ["/", "/status", "/metrics"] {
        let (expected, _) = get(&server, path, "");
        let answer =
            exchange(&server, &format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).to_ascii_lowercase();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let undated = |head: &str| head.lines().filter(|l| !l.starts_with("date:")).collect::<Vec<_>>().join("\n");
        assert_eq!(undated(head), undated(&expected));
        assert_eq!(body, "");
    }
}

#[test]
fn other_paths_and_methods_are_refused() {
    let server = server();
    for path in ["/favicon.ico", "/status/", "/STATUS", "/../status", "//", "/%73tatus", "*"] {
        let (head, body) = get(&server, path, "");
        assert!(head.starts_with("http/1.1 404 ") || head.starts_with("http/1.1 400 "), "{path}: {head}");
        assert!(head.starts_with("http/1.1 400 ") || body.contains("/metrics"), "{body}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let request = format!("{method} /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
        let answer = exchange(&server, &request).to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 405 ") && answer.contains("\r\nallow: get, head\r\n"), "{answer}");
    }
    assert!(get(&server, "/status", "").0.starts_with("http/1.1 200 "));
}

#[test]
fn a_loop_that_has_ended_is_unavailable_at_once() {
    let (reporter, questions) = reporter(crate::net::Wake::nobody());
    drop(questions);
    let server = serve(ANY_PORT.parse().unwrap(), reporter).unwrap();
    for path in ["/status", "/metrics"] {
        let (head, _) = get(&server, path, "");
        assert!(head.starts_with("http/1.1 503 ") && head.contains("\r\nretry-after: 1"), "{head}");
    }
    assert!(get(&server, "/", "").0.starts_with("http/1.1 200 "));
    let error = fetch::fetch_status(&target(&server)).unwrap_err();
    assert!(matches!(error, fetch::FetchError::Busy(_)), "{error}");
}

#[test]
fn a_loop_that_does_not_answer_costs_everybody_two_timeouts_together() {
    let (reporter, questions) = reporter(crate::net::Wake::nobody());
    let server = serve(ANY_PORT.parse().unwrap(), reporter).unwrap();
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..ANSWERS_MAX {
            scope.spawn(|| assert!(get(&server, "/status", "").0.starts_with("http/1.1 503 ")));
        }
    });
    // One after the other they would take two minutes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(questions.try_iter().count() <= 2);
}

#[test]
fn garbage_gets_an_error_and_harms_nobody() {
    let server = server();
    for garbage in [
        "\r\n\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "NBDMAGICIHAVEOPT\r\n\r\n",
        "GET\r\n\r\n",
        "GET /status HTTP/9.9\r\n\r\n",
        "GET /status HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /status HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET /status HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\0 a greeting of TLS",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = connect(&server);
        let _ = stream.write_all(garbage.as_bytes());
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{garbage:?}: {answer}");
    }
    // A connection that says nothing at all.
    drop(connect(&server));
    assert!(get(&server, "/status", "").0.starts_with("http/1.1 200 "));
}

#[test]
fn a_head_has_a_limit_in_bytes() {
    let server = server();
    let request = |len: usize| {
        let (start, end) = ("GET / HTTP/1.1\r\nHost: localhost\r\nFiller: ", "\r\n\r\n");
        format!("{start}{}{end}", "x".repeat(len - start.len() - end.len()))
    };
    for (len, status) in [
        (HEAD_BYTES_MAX - 1, "200"),
        (HEAD_BYTES_MAX, "200"),
        (HEAD_BYTES_MAX + 1, "431"),
        (20 * HEAD_BYTES_MAX, "431"),
    ] {
        let answer = exchange(&server, &request(len));
        // What is far too long may be cut off before it is read.
        let cut = len > 2 * HEAD_BYTES_MAX && answer.is_empty();
        assert!(cut || answer.starts_with(&format!("HTTP/1.1 {status} ")), "{len}: {answer}");
    }
}

#[test]
fn a_head_has_a_limit_in_headers() {
    let server = server();
    for (headers, status) in [(HEADERS_MAX - 1, "200"), (HEADERS_MAX, "200"), (HEADERS_MAX + 1, "431")] {
        let (head, _) = get(&server, "/", &"A: b\r\n".repeat(headers - 1));
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{headers}: {head}");
    }
}

#[test]
fn a_client_that_trickles_its_head_is_cut() {
    let server = gateway_server(SHORT);
    let mut stream = connect(&server);
    let mut cut = false;
    for byte in b"GET /status HTTP/1.1\r\nHost: localhost\r\n".iter().chain(std::iter::repeat_n(&b'a', 200)) {
        cut = stream.write_all(&[*byte]).is_err();
        if cut {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(cut, "4.6 s were not too long");
}

#[test]
fn only_one_request_is_answered_on_a_connection() {
    let server = server();
    let two = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(exchange(&server, two).matches("HTTP/1.1 200").count(), 1);
}

#[test]
fn a_newcomer_waits_for_nobody_and_takes_the_place_of_no_more_than_it_needs() {
    let head = Duration::from_secs(300);
    let server = gateway_server(Timeouts { head, connection: 2 * head });
    let is_closed = |stream: &StdStream| {
        stream.set_nonblocking(true).unwrap();
        (&*stream).read(&mut [0]).is_ok_and(|n| n == 0)
    };
    // One fewer than the limit leaves room.
    let mut idle: Vec<_> = (1..CONNECTIONS_MAX).map(|_| connect(&server)).collect();
    assert!(get(&server, "/status", "").0.starts_with("http/1.1 200 "));
    assert!(!idle.iter().any(is_closed));
    idle.push(connect(&server));
    assert!(get(&server, "/status", "").0.starts_with("http/1.1 200 "));
    assert_eq!(idle.iter().filter(|stream| is_closed(stream)).count(), 1);
    assert!(is_closed(&idle[0]), "the one that has been silent for longest");
    // However many come before it.
    let flood: Vec<_> = (0..10 * CONNECTIONS_MAX).map(|_| connect(&server)).collect();
    assert!(get(&server, "/status", "").0.starts_with("http/1.1 200 "));
    drop(flood);
}

#[test]
fn a_newcomer_takes_the_place_of_a_silent_connection_and_of_none_that_is_being_answered() {
    let (reporter, questions) = reporter(crate::net::Wake::nobody());
    let long = Duration::from_secs(300);
    let timeouts = Timeouts { head: long, connection: long };
    let ear = Ear::new(|_, _| false);
    let asker = Asker::new(Some(reporter), Some(ear), Hosts::default());
    let server = serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, timeouts).unwrap();
    let mut asking = connect(&server);
    asking.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let question = questions.recv_timeout(Duration::from_secs(60)).unwrap();
    let mut silent: Vec<_> = (1..CONNECTIONS_MAX).map(|_| connect(&server)).collect();
    // Half a request is silence, too.
    let half = "POST /join HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{";
    silent[3].write_all(half.as_bytes()).unwrap();
    assert!(get(&server, "/", "").0.starts_with("http/1.1 200 "));
    let is_closed = |stream: &StdStream| {
        stream.set_nonblocking(true).unwrap();
        (&*stream).read(&mut [0]).is_ok_and(|n| n == 0)
    };
    assert_eq!(silent.iter().filter(|stream| is_closed(stream)).count(), 1);
    // All others leave before the one that is being answered.
    for _ in 0..2 * CONNECTIONS_MAX {
        assert!(get(&server, "/", "").0.starts_with("http/1.1 200 "));
    }
    question.send(samples::node()).unwrap();
    assert!(rest(&mut asking).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_request_for_another_host_is_refused() {
    let server = server();
    for (host, status) in [("127.0.0.1:9", "200"), ("localhost", "200"), ("evil.local", "400"), ("evil.example", "400")]
    {
        for path in ["/", "/status", "/metrics"] {
            let answer = exchange(&server, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
            assert_eq!(answer.contains("admin_hosts"), status == "400");
        }
    }
    let absolute = "GET http://evil.example/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    assert!(exchange(&server, absolute).starts_with("HTTP/1.1 400 "));
    assert!(exchange(&server, "GET /status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let json = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let foreign = format!("POST /join HTTP/1.1\r\nHost: 127.0.0.1:9\r\nOrigin: http://evil.example\r\n{json}");
    let answer = exchange(&listening(), &foreign);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("another site"), "{answer}");
    let listed = Asker::new(Some(answering(samples::node()).0), None, Hosts::named(&["g.example.org".into()]));
    let server = serve_with(TcpListener::bind(ANY_PORT).unwrap(), listed, SHORT).unwrap();
    let by_name = "GET /status HTTP/1.1\r\nHost: g.example.org:9100\r\n\r\n";
    assert!(exchange(&server, by_name).starts_with("HTTP/1.1 200 "));
}

#[test]
fn clients_that_do_not_read_their_answer_are_cut() {
    let mut report = samples::gateway();
    // More than the kernel keeps for a reader that does not read.
    report.warnings = vec!["x".repeat(1 << 20); 24];
    let asker = Asker::new(Some(answering(report).0), None, Hosts::default());
    let server = serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, SHORT).unwrap();
    let deaf: Vec<_> = (0..ANSWERS_MAX)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    assert!(get(&server, "/", "").0.starts_with("http/1.1 200 "));
    // Those who are not cut keep it for ever. On a busy machine it takes a while to hand each of them its answer.
    assert!(start.elapsed() < Duration::from_secs(100), "{:?}", start.elapsed());
    drop(deaf);
}

#[test]
fn many_clients_at_once_are_all_answered_with_few_questions() {
    let (reporter, asked) = answering(samples::node());
    let server = serve(ANY_PORT.parse().unwrap(), reporter).unwrap();
    thread::scope(|scope| {
        for i in 0..100 {
            let server = &server;
            let path = ["/status", "/metrics"][i % 2];
            scope.spawn(move || assert!(get(server, path, "").0.starts_with("http/1.1 200 "), "{path}"));
        }
    });
    assert!((1..=100).contains(&asked.load(Ordering::SeqCst)));
}

#[test]
fn an_answer_is_never_older_than_its_question() {
    let (reporter, asked) = answering(samples::node());
    let server = serve(ANY_PORT.parse().unwrap(), reporter).unwrap();
    for expected in 1..=5 {
        get(&server, "/status", "");
        assert_eq!(asked.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn dropping_it_closes_the_port_at_once_even_while_the_loop_is_asked() {
    let (reporter, questions) = reporter(crate::net::Wake::nobody());
    let server = serve(ANY_PORT.parse().unwrap(), reporter).unwrap();
    let addr = server.local_addr();
    let mut waiting = connect(&server);
    waiting.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let question = questions.recv_timeout(Duration::from_secs(60)).unwrap();
    drop(server);
    assert!(question.send(samples::node()).is_ok(), "it waited until the question was given up");
    assert_eq!(rest(&mut waiting), "");
    assert_eq!(StdStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn an_address_in_use_is_an_error() {
    let first = server();
    let error = serve(first.local_addr(), answering(samples::node()).0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

fn listening() -> AdminServer {
    let ear = Ear::new(|about, _| about.name == "known");
    serve_both(ANY_PORT.parse().unwrap(), None, Some(ear)).unwrap()
}

fn post(server: &AdminServer, content_type: &str, body: &str) -> String {
    let head = format!("POST /join HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n");
    exchange(server, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

#[test]
fn nodes_announce_themselves_where_somebody_listens() {
    let server = listening();
    let body =
        |name: &str| format!(r#"{{"extent":"{}","address":":7411","size_bytes":1,"name":"{name}"}}"#, "ab".repeat(16));
    for (name, answer) in [("known", r#"{"known":true}"#), ("other", r#"{"known":false}"#)] {
        let text = post(&server, "application/json; charset=utf-8", &body(name));
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with(answer), "{text}");
        let fetched = fetch::post(&target(&server), "/join", body(name).as_bytes(), Duration::from_secs(20)).unwrap();
        assert_eq!(fetched, answer.as_bytes());
    }
    let (head, _) = get(&server, "/status", "");
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

#[test]
fn what_is_no_announcement_is_refused_and_does_no_harm() {
    let server = listening();
    let long = format!("{{\"name\":\"{}\"}}", "n".repeat(5000));
    for (content_type, body, status) in [
        ("text/plain", "{}", "415"),
        ("application/json", "{}", "400"),
        ("application/json", "no json", "400"),
        ("application/json", &long, "413"),
    ] {
        let text = post(&server, content_type, body);
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{body:.20}: {text}");
    }
    assert!(get(&server, "/join", "").0.starts_with("http/1.1 405"));
    let refused = fetch::post(&target(&server), "/join", b"{}", Duration::from_secs(20)).unwrap_err().to_string();
    assert!(refused.contains("missing field"), "{refused}");
}

#[test]
fn a_process_without_an_ear_says_where_to_go() {
    let text = post(&server(), "application/json", "{}");
    assert!(text.starts_with("HTTP/1.1 404") && text.contains("flashmob discover"), "{text}");
}
