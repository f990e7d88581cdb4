//! `/live`: from which second on, where, and to whom.

use std::sync::Mutex;

use flashmob_core::gateway::LiveSlots;

use super::*;
use crate::net::Wake;
use crate::status::LiveQuestion;
use crate::status::finding::{Cause, Finding, Severity};

/// A gateway's server, and the seconds that its loop was asked for.
fn live_server(warning: Option<Finding>) -> (AdminServer, Arc<Mutex<Vec<u64>>>) {
    let (reporter, questions) = reporter(Wake::nobody()).0.with_live();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    thread::spawn(move || {
        for LiveQuestion { since, answer } in questions {
            seen.lock().unwrap().push(since);
            let _ = answer.send((samples::live(2, 0), LiveSlots::default()));
        }
    });
    let asker = Asker::new(Some(reporter), None, Hosts::default()).with_warning(warning);
    (serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, SHORT).unwrap(), asked)
}

#[test]
fn the_query_names_the_first_second() {
    let (server, asked) = live_server(None);
    for path in ["/live", "/live?", "/live?since=0", "/live?since=17", "/live?since=18446744073709551615"] {
        let (head, body) = get(&server, path, "");
        assert!(head.starts_with("http/1.1 200") && head.contains("content-type: application/json"), "{path}: {head}");
        assert_eq!(serde_json::from_str::<LiveReport>(&body).unwrap(), samples::live(2, 0));
    }
    assert_eq!(*asked.lock().unwrap(), [0, 0, 0, 17, u64::MAX]);
}

#[test]
fn other_queries_are_refused_with_the_right_form() {
    let (server, asked) = live_server(None);
    for query in [
        "since=",
        "since=x",
        "since=-1",
        "since=+1",
        "since=1.5",
        "since=18446744073709551616",
        "since=1&since=2",
        "until=3",
    ] {
        let (head, body) = get(&server, &format!("/live?{query}"), "");
        assert!(head.starts_with("http/1.1 400") && body.contains("since=SECOND"), "{query}: {head}");
    }
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn it_is_read_only_and_not_for_other_hosts() {
    let (server, asked) = live_server(None);
    assert!(exchange(&server, "POST /live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").contains(" 405 "));
    assert!(exchange(&server, "GET /live HTTP/1.1\r\nHost: elsewhere.example.com\r\n\r\n").contains(" 400 "));
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn a_node_has_no_history() {
    let (head, body) = get(&server(), "/live", "");
    assert!(head.starts_with("http/1.1 404") && body.contains("from the gateway"), "{head}");
}

#[test]
fn the_warning_of_an_open_port_is_among_those_of_the_gateway() {
    let (server, _) = live_server(Some(Finding::new(Cause::Insecure, Severity::Wrong, "insecure: anyone", "")));
    let report: LiveReport = serde_json::from_str(&get(&server, "/live", "").1).unwrap();
    assert_eq!(report.warnings.last().map(String::as_str), Some("insecure: anyone"));
    assert_eq!(report.findings.last().map(|finding| finding.cause), Some(Cause::Insecure));
}
