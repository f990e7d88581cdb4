//! A server of HTTP in threads.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Starts a server, and returns its address. What is called with the path and the body of a request returns the status
/// and the body of the answer, or `None`: then the connection is closed.
pub fn start(answer: impl Fn(&str, &[u8]) -> Option<(u16, String)> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(&stream, &*answer));
        }
    });
    address
}

/// Answers requests until the other end, or a failure, ends the connection.
fn serve(mut stream: &TcpStream, answer: &impl Fn(&str, &[u8]) -> Option<(u16, String)>) {
    let mut from = BufReader::new(stream);
    while let Some((path, body)) = request(&mut from) {
        let Some((status, text)) = answer(&path, &body) else { return };
        let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", text.len());
        if stream.write_all((head + &text).as_bytes()).is_err() {
            return;
        }
    }
}

/// The path and the body of a request; `None` if the connection ends first.
fn request(from: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut path, mut len) = (None, 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("post ") {
            path = rest.split(' ').next().map(str::to_string);
        } else if let Some(count) = line.strip_prefix("content-length: ") {
            len = count.parse().ok()?;
        }
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body).ok()?;
    Some((path?, body))
}
