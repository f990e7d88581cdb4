//! C14: a host with a small receive maximum keeps sending at full speed as the round trip grows, and hardly receives any more.
//!
//! One TCP connection, no loss, between a host with a small receive maximum and one whose maximum is at least four times that (P4's: ten times), both ways. At the
//! greatest round-trip time, 16 ms or more, what arrives at the small one is at most half of what arrives at the least, and no more than the window
//! that it offers lets through each round trip (5 % more are tolerated: see `ABOVE_BOUND_MAX`). What it sends is at least three quarters
//! (`KEPT_MIN`). P4's figure shows a line that stays and one that falls to a small part; a half and three quarters tell them apart with room on both sides.

use flashmob_results::net::Direction;

use super::networks::{
    ABOVE_BOUND_MAX, COLLAPSED_MAX, Groups, KEPT_MIN, common_rtts, each, high, much_smaller, points, speed, window,
};
use super::{Definition, Finding, Missing};
use crate::groups::grouped;
use crate::ways::{RttPoint, RttSeries, SYSTEM_RECEIVE_MAX_BYTES, Setting, bound_bits_per_second};
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C14",
    source: "P4, Fig. 7",
    words: "A host with a small receive maximum keeps its throughput as the round trip grows when it sends, and collapses when it receives.",
    short: "Small receive maximum: sends on, hardly receives",
    criterion: "One TCP connection without loss, receive maxima at least four times apart: at the greatest RTT (16 ms or more) the small one receives half or less of what it does at the least RTT, and no more than its window / RTT; it sends three quarters or more.",
    paper: "sending from Android stays, receiving collapses (no figures in the text); maxima ten times apart",
    judge: |entries| each(entries, judged),
    ..Definition::NETWORK
};

fn judged(ways: &[&RttSeries]) -> Result<Groups, Missing> {
    let lossless = ways.iter().copied().filter(|w| w.setting.loss_percent <= 0.0);
    let maximum = |max: Option<u64>| max.unwrap_or(SYSTEM_RECEIVE_MAX_BYTES);
    let mut groups = grouped(lossless, |w| Setting { direction: Direction::Up, ..w.setting.clone() });
    groups.retain(|(s, _)| {
        let (client, server) = (maximum(s.client_receive_max_bytes), maximum(s.server_receive_max_bytes));
        much_smaller(client, server) || much_smaller(server, client)
    });
    if groups.is_empty() {
        return Err("no host had a receive maximum of a quarter of the other's or less".into());
    }
    let named = |(setting, group): (Setting, Vec<&RttSeries>)| {
        let client_is_small = maximum(setting.client_receive_max_bytes) < maximum(setting.server_receive_max_bytes);
        let words = format!("congestion control {}, {}", setting.congestion_words(), setting.maxima_words());
        (words, of_pair(&group, client_is_small))
    };
    Ok(groups.into_iter().map(named).collect())
}

fn of_pair(group: &[&RttSeries], client_is_small: bool) -> Result<Finding, Missing> {
    let (inwards, outwards, who) = if client_is_small {
        (Direction::Down, Direction::Up, "client")
    } else {
        (Direction::Up, Direction::Down, "server")
    };
    let way = |direction, does: &str| {
        let found = group.iter().copied().find(|w| w.setting.direction == direction);
        found.ok_or_else(|| format!("how the {who}, which has the small receive maximum, {does} was not measured"))
    };
    let (receiving, sending) = (way(inwards, "receives")?, way(outwards, "sends")?);
    let rtts = common_rtts(&[receiving, sending]);
    let nothing = || "both ways were not measured at the same round-trip times".to_string();
    let (least, greatest) = rtts.first().zip(rtts.last()).ok_or_else(nothing)?;
    let greatest = high(*greatest)?;
    let (near_in, far_in) = receiving.at(*least).zip(receiving.at(greatest)).ok_or_else(nothing)?;
    let (near_out, far_out) = sending.at(*least).zip(sending.at(greatest)).ok_or_else(nothing)?;
    let window = window(receiving, &far_in)?;
    let bound = bound_bits_per_second(window, greatest).unwrap_or(f64::INFINITY);
    let part = |near: &RttPoint, far: &RttPoint| far.rate.median / near.rate.median;
    let (kept_in, kept_out) = (part(&near_in, &far_in), part(&near_out, &far_out));
    let holds = kept_in <= COLLAPSED_MAX && kept_out >= KEPT_MIN && far_in.rate.median <= bound * ABOVE_BOUND_MAX;
    let numbers = format!(
        "from RTT {} to {} the {who} (receive maximum {}) receives {}, then {}: {} of it is left, where a window of {} lets {} through; it sends {}, then {}: {}",
        words::time_ms(*least),
        words::time_ms(greatest),
        words::bytes(receiving.setting.receive_max_bytes()),
        speed(&near_in),
        speed(&far_in),
        words::percent(kept_in),
        words::bytes(window as u64),
        words::bits_per_second(bound),
        speed(&near_out),
        speed(&far_out),
        words::percent(kept_out),
    );
    Ok(Finding::of_net(&[receiving.entry], holds, numbers, &points(&[near_in, far_in, near_out, far_out])))
}
