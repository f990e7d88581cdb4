//! Requests and answers over TCP, with a fixed number outstanding, like a link of flashmob.
//!
//! The client never blocks in a write while answers can be read, so that the ends cannot deadlock.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flashmob_results::latency::LATENCY_NS_MAX;
use flashmob_results::net::Messages;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::stream::{Counters, LOOKS_UP, Shared};

/// Most bytes per read or write.
const BUFFER_BYTES: usize = 256 << 10;

/// The client: sends requests, and records the latency of each answer.
pub(super) fn ask(
    socket: &TcpStream,
    messages: Messages,
    shared: &Shared,
    counters: &Counters,
    latencies: &mut Histogram<u64>,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut socket = socket;
    let (request, answer) = (u64::from(messages.request_bytes), u64::from(messages.answer_bytes));
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut asked: VecDeque<Instant> = VecDeque::with_capacity(messages.depth as usize);
    let (mut to_write, mut written) = (0_u64, 0_u64);
    let mut read = 0_u64;
    let mut was_counting = false;
    while !shared.is_stopped() {
        let is_counting = shared.is_counting.load(Ordering::Relaxed);
        if is_counting && !was_counting {
            latencies.reset();
            was_counting = true;
        }
        if asked.len() < messages.depth as usize {
            let now = Instant::now();
            while asked.len() < messages.depth as usize && shared.claim(request as usize) {
                asked.push_back(now);
                to_write += request;
            }
            if asked.is_empty() {
                return Ok(());
            }
        }
        let mut is_stuck = true;
        if to_write > 0 {
            let bytes = to_write.min(shared.block.len() as u64) as usize;
            if let Some(bytes) = some(socket.write(&shared.block[..bytes]))? {
                written += bytes as u64;
                to_write -= bytes as u64;
                counters.bytes.store(written, Ordering::Relaxed);
                is_stuck = false;
            }
        }
        match some(socket.read(&mut buffer))? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(bytes) => {
                let before = read / answer;
                read += bytes as u64;
                counters.answer_bytes.store(read, Ordering::Relaxed);
                let now = Instant::now();
                for begun in asked.drain(..((read / answer - before) as usize).min(asked.len())) {
                    let ns = u64::try_from((now - begun).as_nanos()).unwrap_or(LATENCY_NS_MAX);
                    latencies.saturating_record(ns.clamp(1, LATENCY_NS_MAX));
                }
                is_stuck = false;
            }
            None => {}
        }
        if is_stuck {
            let flags = if to_write > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOKS_UP.subsec_nanos()) };
            // The next turn reports errors.
            let _ = poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), flags)], Some(&wait));
        }
    }
    Ok(())
}

/// The server: answers.
pub(super) fn answer(socket: &TcpStream, messages: Messages, shared: &Shared, counters: &Counters) -> io::Result<()> {
    let mut socket = socket;
    let (request, answer) = (u64::from(messages.request_bytes), u64::from(messages.answer_bytes));
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut read, mut written) = (0_u64, 0_u64);
    while !shared.is_stopped() {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => read += bytes as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        counters.bytes.store(read, Ordering::Relaxed);
        let mut due = (read / request).saturating_mul(answer) - written;
        while due > 0 && !shared.is_stopped() {
            let bytes = due.min(shared.block.len() as u64) as usize;
            socket.write_all(&shared.block[..bytes])?;
            due -= bytes as u64;
            written += bytes as u64;
            counters.answer_bytes.store(written, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The outcome of a call on a non-blocking socket; `None` if it would block.
fn some(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
