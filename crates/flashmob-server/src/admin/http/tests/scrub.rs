//! `/volumes/scrub`: the answer to each outcome, and who is refused before the event loop is asked.

use std::sync::mpsc::Receiver;

use super::*;
use crate::net::Wake;
use crate::status::VolumeQuestion;
use crate::status::change::Change;
use crate::status::replace::Refusal;
use crate::status::volumes::{ScrubAnswer, ScrubRequest};

const BODY: &str = r#"{"volume":"pool","now":true}"#;

fn asked() -> (AdminServer, Receiver<VolumeQuestion>) {
    let (reporter, questions) = reporter(Wake::nobody()).0.with_volumes();
    (serve(ANY_PORT.parse().unwrap(), reporter).unwrap(), questions)
}

fn request(body: &str) -> String {
    format!(
        "POST /volumes/scrub HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Status line and body of the answer to a request that the loop answers so.
fn answered(body: &str, expected: ScrubRequest, outcome: Result<ScrubAnswer, Refusal>) -> (String, String) {
    let (server, questions) = asked();
    let the_loop = thread::spawn(move || match questions.recv() {
        Ok(VolumeQuestion::Scrub(Change { request, claim, answer })) => {
            assert!(claim.take() && request == expected, "{request:?}");
            answer.send(outcome).unwrap();
        }
        other => panic!("{other:?}"),
    });
    let answer = exchange(&server, &request(body));
    the_loop.join().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.lines().next().unwrap_or_default().to_string(), body.to_string())
}

#[test]
fn the_loop_is_asked_to_begin_or_to_stop_and_its_answer_is_passed_on() {
    let answer = |is_running| ScrubAnswer { volume: "pool".to_string(), is_running };
    let wanted = |now, stop| ScrubRequest { volume: "pool".to_string(), now, stop };
    for (body, expected, is_running) in [
        (BODY, wanted(true, false), true),
        (r#"{"volume":"pool"}"#, wanted(false, false), true),
        (r#"{"volume":"pool","stop":true}"#, wanted(false, true), false),
    ] {
        let (status, body) = answered(body, expected, Ok(answer(is_running)));
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert_eq!(serde_json::from_str::<ScrubAnswer>(&body).unwrap(), answer(is_running));
    }
    for (refusal, status) in [
        (Refusal::Bad("no such thing".to_string()), "HTTP/1.1 400 Bad Request"),
        (Refusal::Unknown("no such thing".to_string()), "HTTP/1.1 404 Not Found"),
        (Refusal::Conflict("no such thing".to_string()), "HTTP/1.1 409 Conflict"),
    ] {
        let refused = answered(BODY, wanted(true, false), Err(refusal));
        assert_eq!(refused, (status.to_string(), "no such thing\n".to_string()));
    }
}

#[test]
fn a_loop_that_is_gone_is_told() {
    let (server, questions) = asked();
    drop(questions);
    let answer = exchange(&server, &request(BODY));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn a_loop_that_ends_with_the_request_in_hand_may_have_carried_it_out() {
    let (server, questions) = asked();
    let the_loop = thread::spawn(move || match questions.recv() {
        Ok(VolumeQuestion::Scrub(change)) => assert!(change.claim.take()),
        other => panic!("{other:?}"),
    });
    let answer = exchange(&server, &request(BODY));
    the_loop.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("Look at /volumes"), "{answer}");
}

#[test]
fn what_is_no_such_request_is_refused_before_the_loop_is_asked() {
    let (server, questions) = asked();
    let too_long = format!("{}{}", BODY, " ".repeat(crate::status::volumes::REQUEST_BYTES_MAX));
    for (request, status) in [
        (request("{}"), "400"),
        (request(&BODY.replace("now", "soon")), "400"),
        (request(&too_long), "413"),
        (request(BODY).replace("POST", "GET"), "405"),
        (request(BODY).replace("application/json", "text/plain"), "415"),
        (request(BODY).replace("127.0.0.1", "example.org"), "400"),
    ] {
        let answer = exchange(&server, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(questions.try_recv().is_err());
}
