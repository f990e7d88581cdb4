//! The path to a peer: its answer, round-trip time, interface and MTU.
//!
//! Nothing needs to run at the peer: a refused connection has the same round-trip time.

mod connect;
mod probe;
mod route;

use std::net::SocketAddr;
use std::time::Duration;

use crate::view::{Interface, Rate, Target, View};

pub use probe::PathMtu;

/// Round-trip time within a building, where the interface's speed may be that of the path.
const NEAR_RTT_S: f64 = 0.005;

/// The question about a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The peer as the user named it.
    pub peer: String,
    /// Its address.
    pub address: SocketAddr,
    /// The user named a port, so that a program should listen there.
    pub is_port_named: bool,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Its rate according to the user.
    pub said_bits_per_second: Option<f64>,
}

/// The peer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Connections are accepted.
    Open,
    /// It refuses connections: nothing listens.
    Refused,
    /// No answer within this time.
    Silent(Duration),
    /// The system's error.
    Failed(String),
}

/// The findings about a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The question.
    pub asked: Asked,
    /// Its answer.
    pub answer: Answer,
    /// Minimum round-trip time.
    pub rtt_s: Option<f64>,
    /// The interface that leads there.
    pub interface: Option<String>,
    /// Its rate.
    pub rate: Option<Rate>,
    /// Its MTU.
    pub mtu: PathMtu,
}

/// Measures the rate of a path, in bits per second; `None` if the peer does not support it.
pub type MeasureRate<'a> = &'a dyn Fn(SocketAddr) -> Option<f64>;

impl View {
    /// Adds the findings about a path. `measure_rate` is called if the user gave no rate and the peer answers.
    pub fn add_path(&mut self, asked: &Asked, measure_rate: Option<MeasureRate<'_>>) {
        let (answer, rtt_s) = connect::round_trip(asked.address, asked.timeout);
        let is_there = matches!(answer, Answer::Open | Answer::Refused);
        // The name is used in commands: invalid ones are ignored.
        let interface = route::interface(asked.address).filter(|name| crate::change::interface::is_name(name));
        let described = interface.as_deref().and_then(|name| self.interface(name));
        let mtu = match &described {
            Some(Interface { mtu_bytes: Some(mtu_bytes), is_loopback: false, .. }) if is_there => {
                probe::path_mtu(asked.address.ip(), *mtu_bytes, rtt_s.unwrap_or_default())
            }
            Some(Interface { mtu_bytes: Some(mtu_bytes), is_loopback: true, .. }) => PathMtu::Whole(*mtu_bytes),
            _ => PathMtu::Unknown,
        };
        let measured = || measure_rate.filter(|_| is_there)?(asked.address).map(Rate::Measured);
        // The speed of the first hop is only an upper bound on a long path.
        let is_near = rtt_s.is_some_and(|seconds| seconds <= NEAR_RTT_S);
        let is_telling = |bits: &f64| is_near || *bits <= Target::default().bits_per_second;
        let rate =
            asked.said_bits_per_second.map(Rate::Said).or_else(measured).or_else(|| {
                described.as_ref().and_then(|each| self.link_rate(each)).filter(is_telling).map(Rate::Link)
            });
        self.path = Some(Found { asked: asked.clone(), answer, rtt_s, interface, rate, mtu });
    }

    /// The interface's speed; for Wi-Fi the rate on the air, of which only a part is available.
    fn link_rate(&self, interface: &Interface) -> Option<f64> {
        if !interface.is_wireless {
            return interface.speed_bits_per_second;
        }
        let crate::view::Answer::Said(text) = self.ask("iw", &["dev", &interface.name, "link"]) else { return None };
        let line = text.lines().find_map(|line| line.trim().strip_prefix("tx bitrate:"))?;
        let mut words = line.split_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        let is_sound = words.next()? == "MBit/s" && value.is_finite() && value > 0.0;
        is_sound.then_some(value * 1e6)
    }
}
