//! The rate of the path to a peer, if an iperf3 server answers there.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use flashmob_bench::net::{Length, Plan, Target, run};
use flashmob_results::net::{Direction, Protocol};

use super::args::PORT_DEFAULT;

/// Duration of the transfer.
const TIME: Duration = Duration::from_secs(1);
/// Several streams: small buffers limit a single connection, which would then measure the buffers.
const STREAMS: u32 = 8;

/// Bits per second to the peer; `None` if no iperf3 or flashmob answers there. Other ports are not tried: a node or another program may
/// listen there, and would get bytes that it does not understand.
pub fn measured(address: SocketAddr, timeout: Duration) -> Option<f64> {
    if address.port() != PORT_DEFAULT {
        return None;
    }
    log::info!("measuring the path to {address} for {} s", TIME.as_secs());
    let target = Target { host: address.ip().to_string(), port: address.port(), bind: None, connect_timeout: timeout };
    let plan = Plan {
        protocol: Protocol::Tcp,
        direction: Direction::Up,
        streams: STREAMS,
        congestion: None,
        rate_bits_per_second: None,
        block_bytes: None,
        window_bytes: None,
        messages: None,
        length: Length::Time(TIME),
        omit_s: 0,
        interval: TIME,
    };
    match run(&target, &plan, &AtomicBool::new(false), &mut |_| {}) {
        Ok(run) => run.repetition.flows.first().map(|flow| flow.received_bits_per_second).filter(|rate| *rate > 0.0),
        Err(error) => {
            log::info!("the path's rate was not measured: {error}");
            None
        }
    }
}
