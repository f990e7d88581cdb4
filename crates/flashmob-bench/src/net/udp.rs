//! Sending and receiving datagrams.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pace::Pacer;
use super::protocol::DATAGRAM_BYTES_MAX;
use super::protocol::datagram::{Arrivals, Header};
use super::stream::{Counters, LOOKS_UP, Shared, wait_turn};
use crate::disk::now_ns;

/// Pause after the system's queue was full.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// The monotonic clock, of which only differences are used.
fn clock() -> Duration {
    Duration::from_nanos(now_ns())
}

pub(super) fn send(socket: &UdpSocket, mut pacer: Pacer, shared: &Shared, counters: &Counters) -> io::Result<()> {
    let mut datagram = shared.block.clone();
    let mut number = 0;
    while wait_turn(&pacer, shared) {
        if !shared.claim(datagram.len()) {
            return Ok(());
        }
        Header { sent: clock(), number: number + 1 }.write(&mut datagram, shared.counters_64bit);
        match socket.send(&datagram) {
            Ok(bytes) => {
                number += 1;
                Counters::add(&counters.bytes, bytes as u64);
                counters.packets.store(number, Ordering::Relaxed);
                pacer.sent(bytes);
            }
            Err(error) => match error.raw_os_error() {
                // An ICMP error for an earlier datagram: this one was not sent.
                Some(libc::ECONNREFUSED | libc::EINTR) => {}
                Some(libc::ENOBUFS | libc::EAGAIN) => std::thread::sleep(FULL_PAUSE),
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

pub(super) fn receive(socket: &UdpSocket, shared: &Shared, counters: &Counters) -> io::Result<()> {
    socket.set_read_timeout(Some(LOOKS_UP))?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX as usize];
    let mut arrivals = Arrivals::default();
    while !shared.is_stopped() {
        let bytes = match socket.recv(&mut buffer) {
            Ok(bytes) => bytes,
            Err(error) => match error.raw_os_error() {
                Some(libc::ECONNREFUSED | libc::EINTR | libc::EAGAIN) => continue,
                _ => return Err(error),
            },
        };
        // A repeated hello, for example.
        let Some(header) = Header::read(&buffer[..bytes], shared.counters_64bit) else { continue };
        arrivals.came(&header, clock());
        counters.arrived(bytes);
        counters.packets.store(arrivals.highest, Ordering::Relaxed);
        counters.lost.store(arrivals.lost, Ordering::Relaxed);
        counters.out_of_order.store(arrivals.out_of_order, Ordering::Relaxed);
        counters.set_jitter_s(arrivals.jitter_s);
    }
    Ok(())
}
