//! The least that two hops can take: the bytes of one read there and back through a relay that does nothing else.
//!
//! ```text
//!  client ── 28 bytes ──▶ relay ── 60 ──▶ server
//!  client ◀── 4,112 ───── relay ◀── 4,160 ── server      each side a thread, TCP over loopback
//! ```
//!
//! The relay waits as a gateway does: it polls both sockets, yields in between, and sleeps only when nothing has come for a while. The
//! server sleeps, as nodes do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::native::Done;

/// A read of 4 KiB over NBD, and as a batch of one piece; their answers.
const ASK_BYTES: usize = 28;
const PASSED_BYTES: usize = 60;
const ANSWER_BYTES: usize = 4096 + 64;
const REPLY_BYTES: usize = 4096 + 16;
/// How long the relay polls: a gateway's default.
const POLL_FOR: Duration = Duration::from_micros(100);

/// Asks, and waits for the answer, for so long.
pub fn run(time: Duration) -> anyhow::Result<Done> {
    let ((mut client, relayed), (relaying, server)) = (pair()?, pair()?);
    std::thread::scope(|scope| {
        let served = scope.spawn(move || serve(server));
        let passed = scope.spawn(move || relay(relayed, relaying));
        let asked = ask(&mut client, time);
        drop(client);
        for side in [served, passed] {
            side.join().map_err(|_| anyhow::anyhow!("the ping-pong panicked"))??;
        }
        Ok(asked?)
    })
}

/// Both ends of a connection.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

fn ask(stream: &mut TcpStream, time: Duration) -> io::Result<Done> {
    let mut done = Done::new();
    let mut reply = [0; REPLY_BYTES];
    let begun = Instant::now();
    while begun.elapsed() < time {
        let asked = Instant::now();
        stream.write_all(&[1; ASK_BYTES])?;
        stream.read_exact(&mut reply)?;
        done.latency_ns.saturating_record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
        done.requests += 1;
    }
    done.elapsed = begun.elapsed();
    Ok(done)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let (mut asked, answer) = ([0; PASSED_BYTES], [2; ANSWER_BYTES]);
    while read_whole(&mut stream, &mut asked)? {
        stream.write_all(&answer)?;
    }
    Ok(())
}

/// Passes on until the client has gone.
fn relay(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let (mut ask, mut answer) = ([0; ASK_BYTES], [0; ANSWER_BYTES]);
    loop {
        poll_for(&client)?;
        if !read_whole(&mut client, &mut ask)? {
            return Ok(());
        }
        server.write_all(&[1; PASSED_BYTES])?;
        poll_for(&server)?;
        read_whole(&mut server, &mut answer)?;
        client.write_all(&answer[..REPLY_BYTES])?;
    }
}

/// Waits for bytes without sleeping, but not for ever: then the next read sleeps.
fn poll_for(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let begun = Instant::now();
    while begun.elapsed() < POLL_FOR {
        match stream.peek(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    stream.set_nonblocking(false)
}

/// Fills the buffer. False if the other end has gone.
fn read_whole(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_and_has_counted_each_answer() {
        let done = run(Duration::from_millis(30)).unwrap();
        assert!(
            done.requests > 0 && done.latency_ns.len() == done.requests && done.elapsed >= Duration::from_millis(30)
        );
    }
}
