//! iperf3's protocol: the first byte says what the others are. What was read is written and read again to the same; limits hold.

use std::time::Duration;

use flashmob_bench::net::protocol::datagram::{Arrivals, Header, answer_to, is_answer};
use flashmob_bench::net::protocol::parameters::Parameters;
use flashmob_bench::net::protocol::results::Results;
use flashmob_bench::net::protocol::{
    COOKIE_BYTES, Cookie, PARAMETERS_BYTES_MAX, STREAMS_MAX, State, framed, json_bytes,
};

/// Gives the input to one of the decoders.
pub fn run(data: &[u8]) {
    let Some((&which, rest)) = data.split_first() else { return };
    assert!(State::of(which).is_none_or(|state| state.byte() == which));
    match which % 4 {
        0 => parameters(rest),
        1 => results(rest),
        2 => datagrams(rest),
        _ => beginnings(rest),
    }
}

fn parameters(text: &[u8]) {
    let Ok(read) = Parameters::parse(text) else { return };
    assert!((1..=STREAMS_MAX).contains(&read.streams) && read.block_bytes > 0);
    let bytes = framed(&read.to_json());
    let len = json_bytes([bytes[0], bytes[1], bytes[2], bytes[3]], PARAMETERS_BYTES_MAX).expect("it is short");
    let again = Parameters::parse(&bytes[4..4 + len]).expect("what was read can be written");
    // What is asked for besides the extension is the same; a client that is no flashmob has none.
    assert_eq!(again, read);
}

fn results(text: &[u8]) {
    let Ok(read) = Results::parse(text) else { return };
    let again = Results::parse(read.to_json().to_string().as_bytes()).expect("what was read can be written");
    assert_eq!(again.streams.len(), read.streams.len());
    for (a, b) in again.streams.iter().zip(&read.streams) {
        assert_eq!((a.id, a.bytes, a.retransmissions, a.packets), (b.id, b.bytes, b.retransmissions, b.packets));
    }
}

fn datagrams(data: &[u8]) {
    let mut arrivals = Arrivals::default();
    for (at, datagram) in data.chunks(17).enumerate() {
        for is_64bit in [false, true] {
            if let Some(header) = Header::read(datagram, is_64bit) {
                let mut again = [0; 16];
                header.write(&mut again, is_64bit);
                let len = if is_64bit { 16 } else { 12 };
                assert_eq!(again[..len], datagram[..len]);
                arrivals.came(&header, Duration::from_micros(at as u64));
            }
        }
    }
    assert!(arrivals.lost <= arrivals.highest && arrivals.jitter_s.is_finite() && arrivals.jitter_s >= 0.0);
}

fn beginnings(data: &[u8]) {
    if let Some(answer) = answer_to(data) {
        assert!(is_answer(&answer));
    }
    if let Some(prefix) = data.first_chunk()
        && let Ok(len) = json_bytes(*prefix, PARAMETERS_BYTES_MAX)
    {
        assert!((1..=PARAMETERS_BYTES_MAX as usize).contains(&len));
    }
    if let Some(bytes) = data.first_chunk::<COOKIE_BYTES>()
        && let Ok(cookie) = Cookie::parse(*bytes)
    {
        assert_eq!(cookie.bytes(), bytes);
    }
}
