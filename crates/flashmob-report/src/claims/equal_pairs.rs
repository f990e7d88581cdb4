//! C24: between two equal systems TCP carries about as much whichever system it is, UDP as much as well, and between two different ones it is no different.
//!
//! At the least round-trip time, without loss: a pair of hosts with the small receive maximum, a pair with one at least four times as large, and one of each, both
//! ways. P4's own pairs differ by 5.6 % in TCP and not in UDP, so 10 % count as alike; and UDP, which has no acknowledgements, carries no less than TCP
//! (5 % less are tolerated: a run of some seconds varies by about as much).

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Point, Protocol};

use super::networks::{Groups, congestion_rank, each_of, much_smaller, speed};
use super::{Definition, Finding, Missing};
use crate::stats::DIFFERENCE_MIN;
use crate::ways::{RttPoint, RttSeries};
use crate::words;

const UDP_OVER_TCP_MIN: f64 = 0.95;

pub(super) const CLAIM: Definition = Definition {
    id: "C24",
    source: "P4, Fig. 6",
    words: "Between equal systems TCP and UDP carry about as much whichever system it is, and a mixed pair is no different.",
    short: "Equal and mixed pairs carry the same",
    criterion: "At the least RTT without loss, with two small receive maxima, two large ones (at least four times as large) and one of each, both ways: the four TCP rates within 10 % of each other, UDP of the two equal pairs within 10 %, and no less than their TCP (5 % tolerated).",
    paper: "TCP 10.8 Mbit/s (Android-x86) and 11.4 (Ubuntu), UDP 14.1 both; a mixed pair is no different",
    judge: |entries| each_of(entries, |way| way.setting.is_plain_load(), judged),
    ..Definition::NETWORK
};

fn judged(ways: &[&RttSeries]) -> Result<Groups, Missing> {
    let all: Vec<&RttSeries> = ways.iter().copied().filter(|w| w.setting.loss_percent <= 0.0).collect();
    let rtts = all.iter().flat_map(|w| &w.places).filter_map(|p| p.rtt_ms);
    let least = rtts.reduce(f64::min).ok_or("no round-trip time is known")?;
    let pairs = all.iter().filter_map(|w| w.setting.receive_maxima());
    let equal: Vec<u64> = pairs.filter(|(client, server)| client == server).map(|(client, _)| client).collect();
    let (small, large) =
        equal.iter().min().zip(equal.iter().max()).ok_or("no two hosts had the same receive maximum")?;
    if !much_smaller(*small, *large) {
        return Err("no two hosts both had a receive maximum of a quarter of another pair's or less".into());
    }
    let find = |protocol: Protocol, direction: Direction, maxima: (u64, u64)| {
        let fit = all.iter().copied().filter(|w| {
            let s = &w.setting;
            s.protocol == protocol
                && s.direction == direction
                && s.receive_maxima() == Some(maxima)
                && w.at(least).is_some()
        });
        let best = fit.min_by_key(|w| congestion_rank(&w.setting)).and_then(|w| w.at(least));
        best.ok_or_else(|| {
            let (client, server) = (words::bytes(maxima.0), words::bytes(maxima.1));
            let protocol = if protocol == Protocol::Udp { "UDP" } else { "TCP" };
            format!("{protocol} {direction} with receive maxima of {client} (client) and {server} (server) was not measured at RTT {}", words::time_ms(least))
        })
    };
    let (up, down) = (Direction::Up, Direction::Down);
    let tcp = [
        find(Protocol::Tcp, up, (*small, *small))?,
        find(Protocol::Tcp, up, (*large, *large))?,
        find(Protocol::Tcp, up, (*small, *large))?,
        find(Protocol::Tcp, down, (*small, *large))?,
    ];
    let udp = [find(Protocol::Udp, up, (*small, *small))?, find(Protocol::Udp, up, (*large, *large))?];
    let median = |place: &RttPoint| place.rate.median;
    let apart = |places: &[RttPoint]| {
        let rates = Spread::of(places.iter().map(median));
        rates.max / rates.min
    };
    let over = udp.iter().zip(&tcp).map(|(udp, tcp)| median(udp) / median(tcp)).fold(f64::INFINITY, f64::min);
    let holds = apart(&tcp) <= 1.0 + DIFFERENCE_MIN && apart(&udp) <= 1.0 + DIFFERENCE_MIN && over >= UDP_OVER_TCP_MIN;
    let numbers = format!(
        "RTT {}: TCP {} ({} both), {} ({} both), mixed {} and {}: they differ by a factor of {}; UDP {} and {}",
        words::time_ms(least),
        speed(&tcp[0]),
        words::bytes(*small),
        speed(&tcp[1]),
        words::bytes(*large),
        speed(&tcp[2]),
        speed(&tcp[3]),
        words::number(apart(&tcp)),
        speed(&udp[0]),
        speed(&udp[1]),
    );
    let points: Vec<&Point> = tcp.iter().chain(&udp).map(|place| place.point).collect();
    Ok(vec![(String::new(), Ok(Finding::of_net(&[ways[0].entry], holds, numbers, &points)))])
}
