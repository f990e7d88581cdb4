//! Redis, asked in pipelines over its own protocol (RESP2): `GET` of values of 4 KiB, `GETRANGE` of one byte of them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::load::Verifier;
use flashmob_bench::load::random::Random;

use crate::measure::WrongBytes;
use crate::native::Done;

/// Bytes of a value.
pub const VALUE_BYTES: u64 = 4096;
/// Requests in a pipeline.
pub const PIPELINE: usize = 100;
/// Values that are set with one send.
const FILL_PIPELINE: u64 = 256;
/// One answer of so many is compared.
const VERIFY_ONE_OF: u64 = 64;
/// Longest silence.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Room for answers: a pipeline of values.
const BUFFER_BYTES: usize = 1 << 20;

/// A reply as far as it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `$`: bytes, or nothing (`$-1`).
    Bulk(Option<&'a [u8]>),
    /// `+`: a word.
    Status(&'a str),
}

/// The first reply in `bytes` and its length; `None` if it is not whole yet. An error if the server sent one, or something
/// that was not asked for.
pub fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Reply<'_>, usize)>> {
    let Some(end) = bytes.windows(2).take(512).position(|pair| pair == b"\r\n") else {
        anyhow::ensure!(bytes.len() < 512, "redis sent a line without an end");
        return Ok(None);
    };
    let line = std::str::from_utf8(&bytes[1..end.max(1)]).context("redis sent a line that is not text")?;
    match bytes[0] {
        b'+' => Ok(Some((Reply::Status(line), end + 2))),
        b'-' => anyhow::bail!("redis answered: {line}"),
        b'$' if line == "-1" => Ok(Some((Reply::Bulk(None), end + 2))),
        b'$' => {
            let len: usize = line.parse().with_context(|| format!("redis sent the length '{line}'"))?;
            anyhow::ensure!(len <= BUFFER_BYTES, "redis sent a value of {len} bytes");
            let (begin, whole) = (end + 2, end + 2 + len + 2);
            if bytes.len() < whole {
                return Ok(None);
            }
            anyhow::ensure!(&bytes[begin + len..whole] == b"\r\n", "redis sent a value without an end");
            Ok(Some((Reply::Bulk(Some(&bytes[begin..begin + len])), whole)))
        }
        other => anyhow::bail!("redis sent a reply that begins with 0x{other:02x}"),
    }
}

/// Appends a command in RESP2.
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Connection {
    fn open(port: u16) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect to redis")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Connection { stream, buffer: vec![0; BUFFER_BYTES], begin: 0, end: 0 })
    }

    /// Waits for a whole reply and hands it over.
    fn reply<T>(&mut self, take: impl FnOnce(Reply<'_>) -> T) -> anyhow::Result<T> {
        loop {
            // Asked again below: the reply borrows the buffer that is received into.
            if parse(&self.buffer[self.begin..self.end])?.is_some() {
                break;
            }
            if self.begin > 0 {
                self.buffer.copy_within(self.begin..self.end, 0);
                self.end -= self.begin;
                self.begin = 0;
            }
            let n = self.stream.read(&mut self.buffer[self.end..]).context("redis does not answer")?;
            anyhow::ensure!(n > 0, "redis closed the connection");
            self.end += n;
        }
        let (reply, len) = parse(&self.buffer[self.begin..self.end])?.context("it was just there")?;
        self.begin += len;
        if self.begin == self.end && len > 0 {
            let taken = take(reply);
            (self.begin, self.end) = (0, 0);
            return Ok(taken);
        }
        Ok(take(reply))
    }
}

fn key(number: u64) -> [u8; 9] {
    let mut key = *b"v00000000";
    for (place, digit) in key[1..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (28 - 4 * place) & 15) as usize];
    }
    key
}

/// Sets values: the first `len_bytes` of the file, each value 4 KiB of it.
pub fn fill(port: u16, file: &Path, len_bytes: u64) -> anyhow::Result<()> {
    let mut connection = Connection::open(port)?;
    let file = File::open(file)?;
    let mut value = vec![0; VALUE_BYTES as usize];
    let count = len_bytes / VALUE_BYTES;
    for first in (0..count).step_by(FILL_PIPELINE as usize) {
        let numbers = first..count.min(first + FILL_PIPELINE);
        let mut out = Vec::with_capacity((FILL_PIPELINE * (VALUE_BYTES + 64)) as usize);
        for number in numbers.clone() {
            file.read_exact_at(&mut value, number * VALUE_BYTES)?;
            command(&mut out, &[b"SET", &key(number), &value]);
        }
        connection.stream.write_all(&out)?;
        for _ in numbers {
            anyhow::ensure!(connection.reply(|reply| reply == Reply::Status("OK"))?, "redis did not set a value");
        }
    }
    Ok(())
}

/// What to ask, over how many connections, and for how long.
pub struct Asking {
    pub port: u16,
    /// Bytes that there are values of.
    pub len_bytes: u64,
    /// 4096 for whole values, otherwise so many bytes at a random place of one.
    pub block_bytes: u32,
    /// Connections; each has one pipeline out.
    pub connections: usize,
    pub time: Duration,
    pub seed: u64,
}

/// Asks in pipelines of 100 and compares a sample with the file that the values came from.
pub fn run(asking: &Asking, reference: &Verifier) -> anyhow::Result<Done> {
    let mut connections = Vec::new();
    for number in 0..asking.connections {
        let connection = Connection::open(asking.port)?;
        connections.push((
            connection,
            Vec::with_capacity(PIPELINE),
            Instant::now(),
            Random::new(asking.seed, number as u64),
        ));
    }
    let mut done = Done::new();
    let mut out = Vec::new();
    let mut sample = Random::new(asking.seed, u64::MAX);
    let begun = Instant::now();
    for (connection, offsets, sent, random) in &mut connections {
        *sent = Instant::now();
        ask(asking, connection, offsets, random, &mut out)?;
    }
    loop {
        let going_on = begun.elapsed() < asking.time;
        for (connection, offsets, sent, random) in &mut connections {
            for &offset in offsets.iter() {
                let right = connection.reply(|reply| match reply {
                    Reply::Bulk(Some(bytes)) if bytes.len() == asking.block_bytes as usize => {
                        if sample.below(VERIFY_ONE_OF) == 0 {
                            done.verified_bytes += bytes.len() as u64;
                            reference.matches(offset, bytes)
                        } else {
                            true
                        }
                    }
                    _ => false,
                })?;
                if !right {
                    return Err(WrongBytes(format!("from redis, for offset {offset}")).into());
                }
            }
            done.requests += offsets.len() as u64;
            done.latency_ns.saturating_record(sent.elapsed().as_nanos() as u64);
            offsets.clear();
            if going_on {
                *sent = Instant::now();
                ask(asking, connection, offsets, random, &mut out)?;
            }
        }
        if !going_on {
            break;
        }
    }
    done.elapsed = begun.elapsed();
    Ok(done)
}

/// Sends one pipeline.
fn ask(
    asking: &Asking,
    connection: &mut Connection,
    offsets: &mut Vec<u64>,
    random: &mut Random,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    out.clear();
    for _ in 0..PIPELINE {
        let value = random.below(asking.len_bytes / VALUE_BYTES);
        if u64::from(asking.block_bytes) == VALUE_BYTES {
            offsets.push(value * VALUE_BYTES);
            command(out, &[b"GET", &key(value)]);
        } else {
            let begin = random.below(VALUE_BYTES - u64::from(asking.block_bytes) + 1);
            offsets.push(value * VALUE_BYTES + begin);
            let last = begin + u64::from(asking.block_bytes) - 1;
            command(out, &[b"GETRANGE", &key(value), begin.to_string().as_bytes(), last.to_string().as_bytes()]);
        }
    }
    connection.stream.write_all(out).context("cannot send to redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"v\r\n"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nv\r\n\r\n");
    }

    #[test]
    fn replies_are_taken_whole_or_not_at_all() {
        let bytes = b"$5\r\na\r\nbc\r\n+OK\r\n";
        for cut in 0..11 {
            assert_eq!(parse(&bytes[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(parse(bytes).unwrap(), Some((Reply::Bulk(Some(b"a\r\nbc")), 11)));
        assert_eq!(parse(&bytes[11..]).unwrap(), Some((Reply::Status("OK"), 5)));
        assert_eq!(parse(b"$-1\r\n").unwrap(), Some((Reply::Bulk(None), 5)));
        assert_eq!(parse(b"$0\r\n\r\n").unwrap(), Some((Reply::Bulk(Some(b"")), 6)));
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for (bytes, reason) in [
            (&b"-ERR unknown command\r\n"[..], "unknown command"),
            (b"$x\r\n", "the length 'x'"),
            (b"$99999999\r\n", "99999999 bytes"),
            (b"$1\r\nabc", "without an end"),
            (b":5\r\n", "0x3a"),
            (b"\r\n", "0x0d"),
            (&[b'+'; 600], "a line without an end"),
        ] {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn keys_differ() {
        assert_eq!(&key(0x1f), b"v0000001f");
        assert_eq!(&key(0xabc_def0), b"v0abcdef0");
    }
}
