//! C25: of datagrams about as many arrive from the server whichever system receives them, and one system sends more of them than the other, at every
//! round-trip time.
//!
//! UDP without loss, a client with the small receive maximum (in P4 Android-x86's) and one with at least four times as much (Ubuntu's), with the same server. Down: medians
//! within 10 % of each other at every RTT. Up: the client with the large one sends 10 % more or more at every RTT. A receive maximum does not bound what a
//! host sends, so between two hosts of one system the second part is not to be expected: it is about two systems.

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Point, Protocol};

use super::networks::{Groups, common_rtts, each_of, high, much_smaller};
use super::{Definition, Finding, Missing};
use crate::stats::DIFFERENCE_MIN;
use crate::ways::RttSeries;
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C25",
    source: "P4, Fig. 8",
    words: "UDP over the round-trip time: about equal when the server sends; Ubuntu sends more than Android-x86 throughout.",
    short: "UDP: received alike, sent differently",
    criterion: "UDP without loss, a client with a small receive maximum and one with at least four times as much, up to an RTT of 16 ms or more: what the server sends arrives at both within 10 % at every RTT, and the large one sends at least 10 % more at every RTT.",
    paper: "about equal from the server; Ubuntu sends more than Android-x86 at every RTT (no figures in the text)",
    judge: |entries| each_of(entries, |way| way.setting.is_plain_load() && way.ends().is_some(), judged),
    ..Definition::NETWORK
};

fn judged(ways: &[&RttSeries]) -> Result<Groups, Missing> {
    let fit = |w: &&RttSeries| w.setting.protocol == Protocol::Udp && w.setting.loss_percent <= 0.0;
    let udp: Vec<&RttSeries> = ways.iter().copied().filter(fit).collect();
    let clients: Vec<u64> = udp.iter().filter_map(|w| w.setting.client_receive_max_bytes).collect();
    let nothing = "UDP was not measured over several round-trip times with two receive maxima of the client";
    let (small, large) = clients.iter().min().zip(clients.iter().max()).ok_or(nothing)?;
    if !much_smaller(*small, *large) {
        return Err(nothing.into());
    }
    let find = |direction: Direction, client: u64| {
        let found = udp
            .iter()
            .copied()
            .find(|w| w.setting.direction == direction && w.setting.receive_maxima() == Some((client, *large)));
        found.ok_or_else(|| {
            format!("UDP {direction} with a client's receive maximum of {} was not measured", words::bytes(client))
        })
    };
    let (down, up) = (Direction::Down, Direction::Up);
    let [down_small, down_large] = [find(down, *small)?, find(down, *large)?];
    let [up_small, up_large] = [find(up, *small)?, find(up, *large)?];
    let all = [down_small, down_large, up_small, up_large];
    let rtts = common_rtts(&all);
    let greatest = high(*rtts.last().ok_or("both clients were not measured at the same round-trip times")?)?;
    let ratios = |a: &RttSeries, b: &RttSeries| {
        Spread::of(rtts.iter().filter_map(|rtt| Some(a.at(*rtt)?.rate.median / b.at(*rtt)?.rate.median)))
    };
    let (received, sent) = (ratios(down_large, down_small), ratios(up_large, up_small));
    let differs = sent.min >= 1.0 + DIFFERENCE_MIN;
    let holds = received.max.max(received.min.recip()) <= 1.0 + DIFFERENCE_MIN && differs;
    let is_lab = ways[0].setting.path_bits_per_second.is_some();
    let why = if differs || !is_lab {
        ""
    } else {
        "; both hosts are the same system here, and a receive maximum does not bound what is sent"
    };
    let numbers = format!(
        "from RTT {} to {} the client with {} receives {} to {} of what the one with {} does, and sends {} to {}{why}",
        words::time_ms(rtts[0]),
        words::time_ms(greatest),
        words::bytes(*large),
        words::percent(received.min),
        words::percent(received.max),
        words::bytes(*small),
        words::percent(sent.min),
        words::percent(sent.max),
    );
    let points: Vec<&Point> = all.iter().flat_map(|w| rtts.iter().filter_map(|rtt| Some(w.at(*rtt)?.point))).collect();
    Ok(vec![(String::new(), Ok(Finding::of_net(&[ways[0].entry], holds, numbers, &points)))])
}
