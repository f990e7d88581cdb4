//! Tests that need no etcd: answers that one has given, answers that are made up, and servers that misbehave.

mod answers;
mod endpoints;
mod limits;
mod made_up;
mod refusals;
mod requests;
mod tls;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::*;

/// Nothing here takes that long.
const LONG: Duration = Duration::from_secs(20);
/// What a test waits for that nothing comes.
const SHORT: Duration = Duration::from_millis(600);
/// The beginning of most answers.
const HEADER: &str = r#""header":{"cluster_id":"15875391935852295136","member_id":"7383792418829112008","revision":"3","raft_term":"2"}"#;

/// What a server does with a request.
#[derive(Debug, Clone)]
enum Does {
    /// Answers with these bytes, and takes another.
    Answers(Vec<u8>),
    /// Answers so, and closes the connection.
    AnswersAndCloses(Vec<u8>),
    /// Says nothing until the other end has gone.
    IsSilent,
}

/// With a length, as etcd answers small things.
fn answer(status: &str, body: &str) -> Does {
    let len = body.len();
    Does::Answers(format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes())
}

/// As etcd answers streams, and errors: the trailer comes after the body.
fn chunked(status: &str, body: &str) -> Does {
    let len = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nTrailer: Grpc-Trailer-Content-Type\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{body}\r\n0\r\nGrpc-Trailer-Content-Type: application/grpc\r\n\r\n"
    );
    Does::Answers(text.into_bytes())
}

fn ranged_of(keys: usize) -> String {
    let kv = r#"{"key":"Zm9w","create_revision":"2","mod_revision":"2","version":"1"}"#;
    format!(r#"{{{HEADER},"kvs":[{}]}}"#, vec![kv; keys].join(","))
}

/// A request with its head and its body; `None` if the connection ends first.
fn request(stream: &mut impl Read) -> Option<String> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|len| len.parse());
            if body.len() >= len.unwrap().unwrap() {
                return Some(String::from_utf8(bytes).unwrap());
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&part[..count]),
        }
    }
}

/// Serves as many requests as it has something to do. Returns, for each connection, what was asked over it.
fn serve<S: Read + Write>(accept: impl Fn() -> S, all: Vec<Does>) -> Vec<Vec<String>> {
    let (mut seen, mut all) = (Vec::new(), all.into_iter().peekable());
    while all.peek().is_some() {
        let (mut stream, mut asked) = (accept(), Vec::new());
        while all.peek().is_some() {
            let Some(text) = request(&mut stream) else { break };
            asked.push(text);
            // The other end may have heard enough.
            match all.next() {
                Some(Does::Answers(bytes)) => drop(stream.write_all(&bytes)),
                Some(Does::AnswersAndCloses(bytes)) => {
                    let _ = stream.write_all(&bytes);
                    break;
                }
                _ => drop(stream.read(&mut [0])),
            }
        }
        seen.push(asked);
    }
    seen
}

/// A server in a thread, and its address.
fn server(all: Vec<Does>) -> (String, JoinHandle<Vec<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accept = move || -> TcpStream { listener.accept().unwrap().0 };
    (address, thread::spawn(move || serve(accept, all)))
}

/// An address at which nothing listens.
fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// An address at which connections come about, as at a process that is stopped, and nothing ever answers.
fn stopped() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap().to_string(), listener)
}

fn etcd(endpoints: &[&str]) -> Etcd {
    Etcd::new(&endpoints.iter().map(ToString::to_string).collect::<Vec<_>>(), None).unwrap()
}

/// One that writes.
fn txn() -> Txn {
    let put = TxnOp::Put { key: b"foo".to_vec(), value: b"bar".to_vec(), lease: 0 };
    Txn { success: vec![put], ..Txn::default() }
}

fn txn_done() -> String {
    format!(r#"{{{HEADER},"succeeded":true,"responses":[{{"response_put":{{"header":{{"revision":"3"}}}}}}]}}"#)
}
