//! The header of datagrams, with time and number, and the hello that opens a flow.

use std::time::Duration;

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 4;

/// A client's first datagram; iperf3 sends it in native byte order.
const HELLO: u32 = 0x3637_3839;
/// A server's answer.
const ANSWER: u32 = 0x3938_3736;
/// The same of versions before 3.11.
const HELLO_OLD: u32 = 123_456_789;
const ANSWER_OLD: u32 = 987_654_321;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// When it was sent, by the sender's clock.
    pub sent: Duration,
    /// Its number, from 1.
    pub number: u64,
}

/// Bytes of a header.
#[must_use]
pub fn header_bytes(is_64bit: bool) -> usize {
    if is_64bit { 16 } else { 12 }
}

impl Header {
    /// Writes it to the beginning of `datagram`, which has room for [`header_bytes`].
    pub fn write(&self, datagram: &mut [u8], is_64bit: bool) {
        let seconds = self.sent.as_secs() as u32;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.sent.subsec_micros().to_be_bytes());
        if is_64bit {
            datagram[8..16].copy_from_slice(&self.number.to_be_bytes());
        } else {
            datagram[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }

    /// Reads it; `None` if the datagram is too short for one or holds no time.
    #[must_use]
    pub fn read(datagram: &[u8], is_64bit: bool) -> Option<Header> {
        if datagram.len() < header_bytes(is_64bit) {
            return None;
        }
        let u32_at = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| datagram[at + i]));
        let micros = u32_at(4);
        let number = if is_64bit { u64::from(u32_at(8)) << 32 | u64::from(u32_at(12)) } else { u64::from(u32_at(8)) };
        let sent = Duration::new(u64::from(u32_at(0)), micros.checked_mul(1000).filter(|&ns| ns < 1_000_000_000)?);
        Some(Header { sent, number })
    }
}

/// The hello of a client.
#[must_use]
pub fn hello() -> [u8; HELLO_BYTES] {
    HELLO.to_ne_bytes()
}

/// A server's answer to a datagram; `None` if that is not a hello. An old client gets the old answer, in its byte order.
#[must_use]
pub fn answer_to(datagram: &[u8]) -> Option<[u8; HELLO_BYTES]> {
    let bytes: [u8; HELLO_BYTES] = datagram.try_into().ok()?;
    for (hello, answer) in [(HELLO, ANSWER), (HELLO_OLD, ANSWER_OLD)] {
        if bytes == hello.to_le_bytes() {
            return Some(answer.to_le_bytes());
        }
        if bytes == hello.to_be_bytes() {
            return Some(answer.to_be_bytes());
        }
    }
    None
}

/// True if that is a server's answer.
#[must_use]
pub fn is_answer(datagram: &[u8]) -> bool {
    [ANSWER, ANSWER_OLD].iter().any(|answer| datagram == answer.to_le_bytes() || datagram == answer.to_be_bytes())
}

/// A receiver's counts of the datagrams of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// The highest number received.
    pub highest: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams missing so far.
    pub lost: u64,
    /// Datagrams received after a later one.
    pub out_of_order: u64,
    /// RFC 3550, section 6.4.1.
    pub jitter_s: f64,
    transit_s: Option<f64>,
}

impl Arrivals {
    /// Counts a datagram that was received at `now` by the receiver's clock. Only differences of either clock are used.
    pub fn came(&mut self, header: &Header, now: Duration) {
        self.received += 1;
        if header.number > self.highest {
            self.lost += header.number - self.highest - 1;
            self.highest = header.number;
        } else {
            self.out_of_order += 1;
            // It was counted as lost when the later one arrived.
            self.lost = self.lost.saturating_sub(1);
        }
        let transit_s = now.as_secs_f64() - header.sent.as_secs_f64();
        if let Some(before_s) = self.transit_s.replace(transit_s) {
            self.jitter_s += ((transit_s - before_s).abs() - self.jitter_s) / 16.0;
        }
    }
}
