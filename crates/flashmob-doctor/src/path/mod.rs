//! The path to a peer: does it answer, how long is a round trip, which interface leads there, how large may packets be.
//!
//! Nothing needs to run at the peer: a connection that is refused tells the round trip as well as one that is made.

mod connect;
mod probe;
mod route;

use std::net::SocketAddr;
use std::time::Duration;

use crate::view::{Interface, Rate, Target, View};

pub use probe::PathMtu;

/// Whoever is no further away is in the same building, and the interface's speed may well be the path's.
const NEAR_RTT_S: f64 = 0.005;

/// What is asked of a path.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The peer as the user named it.
    pub peer: String,
    /// Its address.
    pub address: SocketAddr,
    /// The user named a port, so that somebody should listen there.
    pub is_port_named: bool,
    /// How long one answer is waited for.
    pub timeout: Duration,
    /// What the user says that it carries.
    pub said_bits_per_second: Option<f64>,
}

/// How the peer answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Connections are made.
    Open,
    /// It is there, and nothing listens.
    Refused,
    /// Nothing came back for so long.
    Silent(Duration),
    /// The system says why not.
    Failed(String),
}

/// What was found of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The peer as the user named it.
    pub peer: String,
    /// Its address.
    pub address: SocketAddr,
    /// The user named a port.
    pub is_port_named: bool,
    /// How it answered.
    pub answer: Answer,
    /// Least round-trip time.
    pub rtt_s: Option<f64>,
    /// The interface that leads there.
    pub interface: Option<String>,
    /// What it carries.
    pub rate: Option<Rate>,
    /// How large its packets may be.
    pub mtu: PathMtu,
}

/// Measures what a path carries, in bits a second; `None` if nothing at the peer helps to.
pub type MeasureRate<'a> = &'a dyn Fn(SocketAddr) -> Option<f64>;

impl View {
    /// Looks at a path. `measure_rate` is asked if the user said no rate and the peer answers.
    pub fn add_path(&mut self, asked: &Asked, measure_rate: Option<MeasureRate<'_>>) {
        let (answer, rtt_s) = connect::round_trip(asked.address, asked.timeout);
        let is_there = matches!(answer, Answer::Open | Answer::Refused);
        // It gets into commands: what can be none is none.
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
        // The first hop of a long way says only that there is no more than that.
        let is_near = rtt_s.is_some_and(|seconds| seconds <= NEAR_RTT_S);
        let is_telling = |bits: &f64| is_near || *bits <= Target::default().bits_per_second;
        let rate =
            asked.said_bits_per_second.map(Rate::Said).or_else(measured).or_else(|| {
                described.as_ref().and_then(|each| self.link_rate(each)).filter(is_telling).map(Rate::Link)
            });
        self.path = Some(Found {
            peer: asked.peer.clone(),
            address: asked.address,
            is_port_named: asked.is_port_named,
            answer,
            rtt_s,
            interface,
            rate,
            mtu,
        });
    }

    /// What an interface calls its speed: for Wi-Fi the rate on the air, of which less than this arrives.
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
