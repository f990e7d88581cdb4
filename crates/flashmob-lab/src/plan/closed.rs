//! Rates without a simulation. Estimates alone also decide whether a formula applies.
//!
//! - **Little's law** (J. D. C. Little, 1961): requests outstanding are requests each second times the time of one. With a single one
//!   outstanding nobody waits for anybody, and its time is the sum of its parts.
//! - **Bianchi** ([`saturation`]): where every frame is a transmission of its own and there is always something to send, the cell carries so
//!   many transmissions each second, and each request is as many of them as it has hops.
//! - **Flash alone**: where air and processors have much to spare and every node always has many requests in hand, the nodes serve what their
//!   slots serve. The node sorts what it has in hand, so a sweep over `q` waiting requests steps downward once.

use flashmob_core::gateway::BatchMode;

use super::{Settings, SettingsError};
use crate::air::bianchi::saturation;
use crate::air::{Attachment, Dcf, Medium, Profile};
use crate::cluster::limit::own_limit;
use crate::flash;

/// A batch with one read, and its answer without the bytes that were read (docs/wire-protocol.md).
const ASK_BYTES: u32 = 44;
const ANSWER_BYTES: u32 = 35;
/// The bytes that each further read adds to a batch and to its answer, at most.
const ASK_MORE_BYTES: f64 = 8.0;
const ANSWER_MORE_BYTES: f64 = 6.0;
/// The headers of a packet: Ethernet, IP and TCP.
const PACKET_HEADERS_BYTES: u32 = 66;
/// Reads whose answers fit one packet.
const ONE_PACKET_BYTES: u32 = 1400;
const FULL_PACKET_BYTES: u32 = 1514;
/// Air and processors have much to spare below this part of what they can do.
const SPARE_BELOW: f64 = 0.35;
/// A node has many requests in hand with so many for each of its slots.
const IN_HAND_PER_SLOT: u32 = 24;

/// The requests per second of the flash of all loaded nodes alone, unsorted; `None` without flash.
///
/// # Errors
/// The flash cannot be.
pub fn flash_limit(settings: &Settings) -> Result<Option<f64>, SettingsError> {
    let Some(profile) = &settings.flash else { return Ok(None) };
    let one = own_limit(profile, settings.extent_bytes, settings.block_bytes, settings.read_percent)?;
    Ok(Some(one * f64::from(settings.loaded_nodes)))
}

/// The requests per second by a formula, and its name; `None` if none applies to this cluster.
#[must_use]
pub fn estimate(settings: &Settings) -> Option<(f64, &'static str)> {
    if settings.outstanding == 1 {
        return Some((1e9 / alone_ns(settings)?, "Little's law with one request outstanding"));
    }
    if let Some(rate) = air_bound(settings) {
        return Some((rate, "Bianchi's cell, always full"));
    }
    Some((flash_bound(settings)?, "flash alone, sorted"))
}

/// Reads each second of nodes that always have many in hand, where nothing else could hold them back.
fn flash_bound(settings: &Settings) -> Option<f64> {
    let profile = settings.flash.filter(|p| p.rotation.is_none() && settings.read_percent >= 100.0)?;
    let in_hand = settings.outstanding / settings.loaded_nodes;
    if settings.batch != BatchMode::Auto || in_hand < IN_HAND_PER_SLOT * profile.slots || loss_ppm(settings) > 0 {
        return None;
    }
    // Behind a long line much of what is outstanding is on its way, and not in hand.
    if matches!(settings.air.medium, Medium::Lines(_)) {
        return None;
    }
    let per_node = sorted_rate(&profile, settings.block_bytes, in_hand - profile.store_depth() as u32);
    let rate = per_node * f64::from(settings.loaded_nodes);
    let gateway_ns = settings.gateway_cost.of_turn(0, 2, settings.block_bytes as usize) as f64;
    let node_ns = settings.node_cost.of_turn(1, 2, settings.block_bytes as usize) as f64;
    let is_spare = rate / carried_alone(settings)? < SPARE_BELOW
        && rate * gateway_ns * 1e-9 < SPARE_BELOW
        && per_node * node_ns * 1e-9 < SPARE_BELOW;
    is_spare.then_some(rate)
}

/// Reads each second that the air would carry in batches that grow with the load, at least: in full packets with as many of
/// them in a transmission as the profile lets, a quarter of which is given to acknowledgements and half-full ones.
fn carried_alone(settings: &Settings) -> Option<f64> {
    if let Medium::Ideal { .. } = settings.air.medium {
        return Some(f64::INFINITY);
    }
    let bytes = 1.33 * (f64::from(settings.block_bytes) + ANSWER_MORE_BYTES + ASK_MORE_BYTES);
    let of_a_cell = saturation(&settings.air, 2, FULL_PACKET_BYTES)?.payload_bits_per_second / 8.0;
    Some(of_a_cell * f64::from(settings.cells) / hops(settings) / bytes)
}

/// Requests each second of a cell in which every frame is a transmission of its own, and nobody ever waits for anything else.
fn air_bound(settings: &Settings) -> Option<f64> {
    let Medium::Cell(dcf) = &settings.air.medium else { return None };
    let BatchMode::Fixed(1) = settings.batch else { return None };
    let reply_bytes = ANSWER_BYTES + settings.block_bytes;
    let is_simple = settings.read_percent >= 100.0
        && reply_bytes <= ONE_PACKET_BYTES
        && loss_ppm(settings) == 0
        // Frames for one receiver never wait for each other: the access point's, where a node has one link; not a wireless gateway's.
        && (dcf.ampdu_frames == 1 || (settings.links == 1 && settings.gateway == Attachment::Wired))
        && settings.cells == 1;
    if !is_simple {
        return None;
    }
    // Whoever passes on everything sends half of it: beside the access point there is on the mean one station that wants to send
    // behind a cable, and two without.
    let stations = match settings.gateway {
        Attachment::Wired => 2,
        Attachment::Wireless => 3,
    };
    let medium = Medium::Cell(Dcf { ampdu_frames: 1, ..*dcf });
    let alone = Profile { medium, ..settings.air.clone() };
    let of = |bytes: u32| Some(saturation(&alone, stations, PACKET_HEADERS_BYTES + bytes)?.transmissions_per_second);
    let pair_s = 1.0 / of(ASK_BYTES)? + 1.0 / of(reply_bytes)?;
    let rate = 1.0 / (hops(settings) * pair_s);
    // So many may be out, and so many a node's flash and processor serve.
    let out = settings.outstanding.min(settings.loaded_nodes * u32::from(settings.links));
    // Where queues overflow TCP holds back.
    if out > dcf.queue_frames / 4 {
        return None;
    }
    let alone_ns = node_ns_alone(settings, reply_bytes) + 1e9 / rate;
    let latency_bound = f64::from(out) * 1e9 / alone_ns;
    let served = settings
        .flash
        .map_or(f64::INFINITY, |p| sorted_rate(&p, settings.block_bytes, 1) * f64::from(settings.loaded_nodes));
    let node_ns = settings.node_cost.of_turn(2, 2, 0) as f64 + settings.node_cost.turn_ns as f64;
    let processed = f64::from(settings.loaded_nodes) * 1e9 / node_ns;
    let gateway = 1e9 / settings.gateway_cost.of_turn(2, 1, reply_bytes as usize) as f64;
    let most = latency_bound.min(served).min(processed).min(gateway);
    (rate < SPARE_BELOW * most).then_some(rate)
}

fn hops(settings: &Settings) -> f64 {
    match settings.gateway {
        Attachment::Wired => 1.0,
        Attachment::Wireless => 2.0,
    }
}

/// How long a read takes with nothing else in the cluster, in nanoseconds, on the mean; `None` where that is no simple sum: writes, several
/// packets, a disk that turns, several cells, a lossy or no air.
fn alone_ns(settings: &Settings) -> Option<f64> {
    let is_simple = settings.read_percent >= 100.0
        && settings.block_bytes <= ONE_PACKET_BYTES
        && loss_ppm(settings) == 0
        && settings.cells == 1
        && !matches!(settings.air.medium, Medium::Ideal { .. });
    if !is_simple || settings.flash.is_some_and(|p| p.rotation.is_some()) {
        return None;
    }
    let reply_bytes = ANSWER_BYTES + settings.block_bytes;
    let gateway = settings.gateway_cost.of_turn(2, 1, (ASK_BYTES + reply_bytes) as usize) as f64;
    let node = node_ns_alone(settings, reply_bytes);
    Some(node + gateway + on_the_air_ns(settings, reply_bytes, gateway, node)?)
}

/// How long a node has a read that is alone.
fn node_ns_alone(settings: &Settings, reply_bytes: u32) -> f64 {
    let cost = settings.node_cost;
    match &settings.flash {
        Some(p) => {
            // Half of the steps go down. The flash begins when the node has decoded the batch, beside the rest of its turn.
            let flash = p.read.access_ns as f64 * (1.0 + f64::from(p.backward_percent) / 200.0);
            let begin = cost.of_turn(1, 1, ASK_BYTES as usize) as f64;
            flash.max(begin) + cost.of_turn(1, 1, reply_bytes as usize) as f64
        }
        None => cost.of_turn(2, 0, (ASK_BYTES + reply_bytes) as usize) as f64,
    }
}

/// The packets of a read alone, there and back, with their waits for the medium; `None` where it is too close who comes first.
fn on_the_air_ns(settings: &Settings, reply_bytes: u32, gateway_ns: f64, node_ns: f64) -> Option<f64> {
    let there = settings.air.arrival_ns(PACKET_HEADERS_BYTES + ASK_BYTES) as f64;
    let back = settings.air.arrival_ns(PACKET_HEADERS_BYTES + reply_bytes) as f64;
    let Medium::Cell(dcf) = &settings.air.medium else { return Some(hops(settings) * (there + back)) };
    let wire = dcf.wire_ns as f64;
    let access = |since_ns: f64| access_after_ns(settings, dcf, since_ns);
    Some(match settings.gateway {
        // An arrival at the gateway crosses the cable, and so does what follows it.
        Attachment::Wired => there + back + access(2.0 * wire + gateway_ns)? + access(node_ns)?,
        // The access point passes on at once what it has received.
        Attachment::Wireless => {
            2.0 * (there + back - 2.0 * wire) + access(gateway_ns)? + access(node_ns)? + 2.0 * access(0.0)?
        }
    })
}

/// How long somebody waits for the medium who has something to send so long after the end of the last frame: while that is being
/// acknowledged, and the gap behind it lasts, they draw a backoff; later they may send in the next slot. `None` within two slots of that.
fn access_after_ns(settings: &Settings, dcf: &Dcf, since_ns: f64) -> Option<f64> {
    let frame_bytes = PACKET_HEADERS_BYTES + ASK_BYTES;
    let frame = settings.air.arrival_ns(frame_bytes) - dcf.wire_ns;
    let gap = (dcf.sifs_ns + u64::from(dcf.aifs_slots) * dcf.slot_ns) as f64;
    let busy = (settings.air.exchange_ns(1, frame_bytes) - frame) as f64 + gap;
    let slot = dcf.slot_ns as f64;
    if (since_ns - busy).abs() < 2.0 * slot {
        return None;
    }
    Some(if since_ns < busy { busy - since_ns + f64::from(dcf.cw_min) / 2.0 * slot } else { slot / 2.0 })
}

fn loss_ppm(settings: &Settings) -> u32 {
    match &settings.air.medium {
        Medium::Ideal { .. } => 0,
        Medium::Lines(line) => line.loss_ppm,
        Medium::Cell(dcf) => dcf.loss_ppm,
    }
}

/// Reads each second of one device whose requests are sorted by a program that has `waiting` of them.
#[must_use]
pub fn sorted_rate(profile: &flash::Profile, block_bytes: u32, waiting: u32) -> f64 {
    let blocks = u64::from(block_bytes).div_ceil(flash::BLOCK_BYTES);
    let upward_ns = (profile.read.access_ns + profile.read.block_ns * (blocks - 1)) as f64;
    let downward_ns = profile.read.access_ns as f64 * f64::from(profile.backward_percent) / 100.0;
    // One step of a sweep leads back to its beginning.
    let mean_ns = upward_ns + downward_ns / (f64::from(waiting) + 1.0);
    f64::from(profile.slots) * 1e9 / mean_ns
}
