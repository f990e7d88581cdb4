//! `/volumes/replace`: the answer to each outcome, and who is refused before the event loop is asked.

use std::sync::mpsc::Receiver;

use super::*;
use crate::net::Wake;
use crate::status::VolumeQuestion;
use crate::status::replace::{News, Refusal, Replacement};
use crate::status::volumes::ReplaceAnswer;

const BODY: &str = r#"{"volume":"pool","node":2,"extent":"00000000000000000000000000000000"}"#;

fn asked() -> (AdminServer, Receiver<VolumeQuestion>) {
    let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
    (serve(ANY_PORT.parse().unwrap(), reporter).unwrap(), questions)
}

fn request(body: &str) -> String {
    format!(
        "POST /volumes/replace HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn taken(questions: &Receiver<VolumeQuestion>) -> Replacement {
    match questions.recv() {
        Ok(VolumeQuestion::Replace(replacement)) => replacement,
        other => panic!("{other:?}"),
    }
}

/// Status line and body of the answer, if the loop takes the request and tells `news` of it.
fn answered(news: Vec<News>) -> (String, String) {
    let (server, questions) = asked();
    let the_loop = thread::spawn(move || {
        let replacement = taken(&questions);
        assert_eq!((replacement.request.volume.as_str(), replacement.request.node), ("pool", 2));
        assert!(replacement.claim.take());
        for news in news {
            replacement.news.send(news).unwrap();
        }
    });
    let answer = exchange(&server, &request(BODY));
    the_loop.join().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.lines().next().unwrap_or_default().to_string(), body.to_string())
}

fn decided() -> News {
    News::Decided(ReplaceAnswer {
        given_up: "1".repeat(32),
        taken: "0".repeat(32),
        copies: 8,
        is_named_in_configuration: false,
        is_recorded: false,
        accepted_chunks: 0,
        accepted_ranges: Vec::new(),
        unlisted_chunks: 0,
    })
}

#[test]
fn it_is_ok_once_it_is_durable_and_accepted_before() {
    let is_recorded = |body: &str| serde_json::from_str::<ReplaceAnswer>(body).unwrap().is_recorded;
    let (status, body) = answered(vec![decided(), News::Recorded]);
    assert_eq!((status.as_str(), is_recorded(&body)), ("HTTP/1.1 200 OK", true));
    // The loop has ended before the map had it.
    let (status, body) = answered(vec![decided()]);
    assert_eq!((status.as_str(), is_recorded(&body)), ("HTTP/1.1 202 Accepted", false));
}

#[test]
fn a_refusal_says_whether_something_is_missing_or_in_the_way() {
    for (refusal, status) in [
        (Refusal::Bad("no such thing".to_string()), "HTTP/1.1 400 Bad Request"),
        (Refusal::Unknown("no such thing".to_string()), "HTTP/1.1 404 Not Found"),
        (Refusal::Conflict("no such thing".to_string()), "HTTP/1.1 409 Conflict"),
    ] {
        assert_eq!(answered(vec![News::Refused(refusal)]), (status.to_string(), "no such thing\n".to_string()));
    }
    let (status, body) = answered(vec![]);
    assert_eq!(status, "HTTP/1.1 504 Gateway Timeout");
    assert!(body.contains("Look at /volumes"), "{body}");
}

#[test]
fn a_loop_that_is_gone_changes_nothing_and_the_answer_says_so() {
    let (server, questions) = asked();
    drop(questions);
    let answer = exchange(&server, &request(BODY));
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("Nothing was changed.\n"), "{answer}");
}

#[test]
fn only_one_is_replaced_at_a_time() {
    let (server, questions) = asked();
    let mut first = connect(&server);
    first.write_all(request(BODY).as_bytes()).unwrap();
    let replacement = taken(&questions);
    assert!(replacement.claim.take());
    let answer = exchange(&server, &request(BODY));
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("Nothing was changed"), "{answer}");
    replacement.news.send(News::Refused(Refusal::Conflict("not now".to_string()))).unwrap();
    assert!(rest(&mut first).starts_with("HTTP/1.1 409 "));
    assert!(questions.try_recv().is_err(), "the loop is asked once");
}

#[test]
fn a_client_that_leaves_gives_its_request_up() {
    let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
    let asker = Asker::new(Some(reporter), None, Hosts::default());
    let server = serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, SHORT).unwrap();
    let mut stream = connect(&server);
    stream.write_all(request(BODY).as_bytes()).unwrap();
    let replacement = taken(&questions);
    // The connection ends at its time limit, and with it the request.
    assert_eq!(rest(&mut stream), "");
    drop(server);
    assert!(!replacement.claim.take(), "the loop must not carry it out");
}

#[test]
fn what_is_no_such_request_is_refused_before_the_loop_is_asked() {
    let (server, questions) = asked();
    let too_long = format!("{}{}", BODY, " ".repeat(crate::status::volumes::REQUEST_BYTES_MAX));
    let most = format!("{}{}", BODY, " ".repeat(crate::status::volumes::REQUEST_BYTES_MAX - BODY.len() - 1));
    for (request, status) in [
        (request("{}"), "400"),
        (request(&BODY.replace("node", "nodes")), "400"),
        (request(&too_long), "413"),
        (request(&format!("{most}!")), "400"),
        (request(BODY).replace("POST", "PUT"), "405"),
        (request(BODY).replace("application/json", "text/plain"), "415"),
        (request(BODY).replace("127.0.0.1", "example.org"), "400"),
    ] {
        let answer = exchange(&server, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(questions.try_recv().is_err());
}
