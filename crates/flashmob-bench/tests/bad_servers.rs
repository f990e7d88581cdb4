//! Whatever a server does wrong, the client ends with an error that says so, and never panics.

mod common;

use std::time::Duration;

use common::blocking::Client;
use common::{Behaviour, Fault, serve};
use flashmob_bench::copy::{read_image, write_image};
use flashmob_bench::load::{Load, Stop, run};
use flashmob_bench::nbd::connection::Options;
use flashmob_bench::{Error, Uri};

/// For errors that must be timeouts.
const SHORT: Duration = Duration::from_millis(400);
/// For all others: a busy machine must not turn them into timeouts.
const LONG: Duration = Duration::from_secs(60);

fn load() -> Load {
    Load { stop: Stop::Requests(2000), outstanding: 16, timeout: LONG, ..Load::default() }
}

/// Runs a load against the server and returns its error, having checked that it names the server.
fn failure_of(behaviour: Behaviour, load: &Load) -> Error {
    let server = serve(behaviour.clone());
    let error = run(&server.uri, load, &mut |_| ()).expect_err(&format!("{behaviour:?}"));
    let text = error.to_string();
    assert!(text.contains(&server.uri.to_string()), "{behaviour:?}: {text}");
    error
}

fn failure(fault: Fault) -> Error {
    failure_of(Behaviour { fault, ..Behaviour::default() }, &load())
}

#[test]
fn a_server_that_never_answers_is_a_timeout() {
    for fault in [Fault::SilentHandshake, Fault::NeverAnswers, Fault::NeverReads, Fault::LosesOne] {
        let error = failure_of(Behaviour { fault, ..Behaviour::default() }, &Load { timeout: SHORT, ..load() });
        assert!(matches!(error, Error::Timeout { .. }), "{fault:?}: {error}");
    }
}

#[test]
fn a_server_that_takes_no_more_writes_is_a_timeout() {
    let load = Load { read_fraction: 0.0, block_bytes: 1 << 20, timeout: SHORT, ..load() };
    let error = failure_of(Behaviour { fault: Fault::NeverReads, ..Behaviour::default() }, &load);
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
}

#[test]
fn a_server_that_closes_is_said_to_have_closed() {
    for fault in [Fault::CloseInGreeting, Fault::CloseInReply] {
        let error = failure(fault);
        assert!(matches!(error, Error::Closed { .. }), "{fault:?}: {error}");
    }
}

#[test]
fn a_server_that_speaks_something_else_is_a_protocol_error() {
    for fault in [
        Fault::NotNbd,
        Fault::Oldstyle,
        Fault::EndlessInfo,
        Fault::HugeOptionReply,
        Fault::WrongMagic,
        Fault::UnknownCookie,
        Fault::RepliesTwice,
        Fault::WrongKind,
    ] {
        let error = failure(fault);
        assert!(matches!(error, Error::Protocol { .. }), "{fault:?}: {error}");
    }
}

#[test]
fn structured_replies_with_wrong_data_are_protocol_errors() {
    for fault in [Fault::LeavesOut, Fault::Overlaps, Fault::Outside, Fault::WrongKind] {
        let behaviour = Behaviour { structured: true, fault, ..Behaviour::default() };
        let error = failure_of(behaviour, &Load { structured_replies: true, ..load() });
        assert!(matches!(error, Error::Protocol { .. }), "{fault:?}: {error}");
    }
}

#[test]
fn a_refused_export_is_reported_in_the_servers_words() {
    let error = failure(Fault::RefuseExport);
    assert!(error.to_string().contains("no such export (\"try 'backup'\")"), "{error}");
}

#[test]
fn nobody_there_is_an_error_that_says_so() {
    for uri in [Uri::unix("/nonexistent/socket", ""), Uri::tcp("127.0.0.1", 1, "")] {
        let error = Client::connect(&uri).expect_err("nobody listens");
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        assert!(error.to_string().contains(&uri.to_string()), "{error}");
    }
    let long = Uri::unix("/".repeat(300), "");
    assert!(matches!(Client::connect(&long), Err(Error::Connect { .. })));
}

#[test]
fn a_unix_socket_that_nobody_accepts_on_is_a_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    let options = Options { timeout: SHORT, ..Options::default() };
    // A queue of length 0 holds one connection.
    let held = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let error = Client::connect_with(&Uri::unix(&path, ""), &options).expect_err("nobody accepts");
    assert!(error.to_string().contains("0.4 s"), "{error}");
    drop(held);
}

#[test]
fn the_blocking_client_reports_the_servers_errors_and_lives_on() {
    let server = serve(Behaviour { fault: Fault::Errors(28), ..Behaviour::default() });
    let mut client = Client::connect(&server.uri).unwrap();
    for _ in 0..3 {
        let error = client.read_at(7, &mut [0; 9]).expect_err("every request is refused");
        assert!(error.to_string().contains("ENOSPC to read of 9 bytes at 7"), "{error}");
        assert!(client.write_at(0, b"x", true).is_err());
        assert!(client.flush().is_err());
    }
}

#[test]
fn the_blocking_client_does_not_wait_for_ever() {
    // Long enough for the handshake on a busy machine.
    let options = Options { timeout: Duration::from_secs(3), ..Options::default() };
    let server = serve(Behaviour { fault: Fault::NeverAnswers, ..Behaviour::default() });
    let mut client = Client::connect_with(&server.uri, &options).unwrap();
    assert!(matches!(client.flush(), Err(Error::Timeout { .. })));
}

#[test]
fn a_load_counts_errors_and_goes_on() {
    let server = serve(Behaviour { fault: Fault::Errors(5), ..Behaviour::default() });
    let result = run(&server.uri, &load(), &mut |_| ()).unwrap();
    assert_eq!((result.reads, result.bytes, result.errors_total()), (0, 0, 2000));
    assert_eq!(result.errors[&flashmob_bench::Errno(5)], 2000);
    assert!(result.first_error.unwrap().starts_with("EIO to the read of 4096 bytes at "));
}

#[test]
fn a_copy_stops_at_the_first_error() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    std::fs::write(&image, vec![1; 1 << 20]).unwrap();
    let server = serve(Behaviour { fault: Fault::Errors(28), ..Behaviour::default() });
    let error = write_image(&server.uri, &image, &mut |_| ()).expect_err("it is full");
    assert!(error.to_string().contains("ENOSPC to the write of 262144 bytes at 0"), "{error}");
    let error = read_image(&server.uri, &directory.path().join("out"), &mut |_| ()).expect_err("it is bad");
    assert!(error.to_string().contains("ENOSPC to the read"), "{error}");
    let server = serve(Behaviour { fault: Fault::CloseInReply, ..Behaviour::default() });
    assert!(matches!(write_image(&server.uri, &image, &mut |_| ()), Err(Error::Closed { .. })));
}
