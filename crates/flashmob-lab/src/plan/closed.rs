//! Rates by formula, without a simulation. Whether a formula applies is decided by estimates too.
//!
//! - **Little's law** (J. D. C. Little, 1961): requests outstanding equal the rate times the latency. With a single one outstanding there is no
//!   queueing, and its latency is the sum of its parts.
//! - **Bianchi** ([`saturation`]): if every frame is its own transmission and the cell is saturated, it carries a known number of transmissions per
//!   second, and a request takes one transmission per packet and hop.
//! - **Flash alone**: if air and processors have ample headroom and every node always has many requests queued, the rate is that of the flash slots.
//!   A node sorts its queue, so a sweep over `q` waiting requests steps downward once.

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
/// Air and processors have ample headroom below this utilization.
const SPARE_BELOW: f64 = 0.35;
/// Requests queued per flash slot for a node to count as busy.
const IN_HAND_PER_SLOT: u32 = 24;

/// The requests per second of the flash of all loaded nodes alone, unsorted; `None` without flash.
///
/// # Errors
/// The flash profile is invalid.
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

/// Reads per second of nodes that always have many requests queued, if nothing else limits them.
fn flash_bound(settings: &Settings) -> Option<f64> {
    let profile = settings.flash.filter(|p| p.rotation.is_none() && settings.read_percent >= 100.0)?;
    let in_hand = settings.outstanding / settings.loaded_nodes;
    if settings.batch != BatchMode::Auto || in_hand < IN_HAND_PER_SLOT * profile.slots || loss_ppm(settings) > 0 {
        return None;
    }
    // With a long line many outstanding requests are in transit, not queued at the nodes.
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

/// A lower bound of the reads per second that the air carries in batches that grow with the load: full packets, as many per transmission as the profile
/// allows, less a quarter for acknowledgements and partly filled packets.
fn carried_alone(settings: &Settings) -> Option<f64> {
    if let Medium::Ideal { .. } = settings.air.medium {
        return Some(f64::INFINITY);
    }
    let bytes = 1.33 * (f64::from(settings.block_bytes) + ANSWER_MORE_BYTES + ASK_MORE_BYTES);
    let of_a_cell = saturation(&settings.air, 2, FULL_PACKET_BYTES)?.payload_bits_per_second / 8.0;
    Some(of_a_cell * f64::from(settings.cells) / hops(settings) / bytes)
}

/// Requests per second of a saturated cell in which every frame is its own transmission and nothing else limits the rate.
fn air_bound(settings: &Settings) -> Option<f64> {
    let Medium::Cell(dcf) = &settings.air.medium else { return None };
    let BatchMode::Fixed(1) = settings.batch else { return None };
    let reply_bytes = ANSWER_BYTES + settings.block_bytes;
    let is_simple = settings.read_percent >= 100.0
        && reply_bytes <= ONE_PACKET_BYTES
        && loss_ppm(settings) == 0
        // Frames to one receiver are never aggregated: true of the access point if each node has one link, not of a wireless gateway.
        && (dcf.ampdu_frames == 1 || (settings.links == 1 && settings.gateway == Attachment::Wired))
        && settings.cells == 1;
    if !is_simple {
        return None;
    }
    // A relay sends half of all frames: besides the access point, on average one other station contends if the gateway is wired,
    // and two if it is wireless.
    let stations = match settings.gateway {
        Attachment::Wired => 2,
        Attachment::Wireless => 3,
    };
    let medium = Medium::Cell(Dcf { ampdu_frames: 1, ..*dcf });
    let alone = Profile { medium, ..settings.air.clone() };
    let of = |bytes: u32| Some(saturation(&alone, stations, PACKET_HEADERS_BYTES + bytes)?.transmissions_per_second);
    let pair_s = 1.0 / of(ASK_BYTES)? + 1.0 / of(reply_bytes)?;
    let rate = 1.0 / (hops(settings) * pair_s);
    // The limits by outstanding requests, and by flash and processor of the nodes.
    let out = settings.outstanding.min(settings.loaded_nodes * u32::from(settings.links));
    // If queues overflow, TCP backs off.
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

/// Mean latency of a read in an idle cluster, in nanoseconds; `None` if it is not a simple sum: writes, several packets, a rotating disk, several
/// cells, a lossy or an ideal air.
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

/// Time of a single read in a node, in nanoseconds.
fn node_ns_alone(settings: &Settings, reply_bytes: u32) -> f64 {
    let cost = settings.node_cost;
    match &settings.flash {
        Some(p) => {
            // Half of the steps go down. The flash starts once the node has decoded the batch, in parallel with the rest of its turn.
            let flash = p.read.access_ns as f64 * (1.0 + f64::from(p.backward_percent) / 200.0);
            let begin = cost.of_turn(1, 1, ASK_BYTES as usize) as f64;
            flash.max(begin) + cost.of_turn(1, 1, reply_bytes as usize) as f64
        }
        None => cost.of_turn(2, 0, (ASK_BYTES + reply_bytes) as usize) as f64,
    }
}

/// Time of a single read's packets in both directions, with medium access; `None` if it is too close which station sends first.
fn on_the_air_ns(settings: &Settings, reply_bytes: u32, gateway_ns: f64, node_ns: f64) -> Option<f64> {
    let there = settings.air.arrival_ns(PACKET_HEADERS_BYTES + ASK_BYTES) as f64;
    let back = settings.air.arrival_ns(PACKET_HEADERS_BYTES + reply_bytes) as f64;
    let Medium::Cell(dcf) = &settings.air.medium else { return Some(hops(settings) * (there + back)) };
    let wire = dcf.wire_ns as f64;
    let access = |since_ns: f64| access_after_ns(settings, dcf, since_ns);
    Some(match settings.gateway {
        // An arrival at the gateway crosses the cable, and so does the next request.
        Attachment::Wired => there + back + access(2.0 * wire + gateway_ns)? + access(node_ns)?,
        // The access point relays at once.
        Attachment::Wireless => {
            2.0 * (there + back - 2.0 * wire) + access(gateway_ns)? + access(node_ns)? + 2.0 * access(0.0)?
        }
    })
}

/// Access delay of a station whose frame is ready `since_ns` after the end of the last frame. Until the acknowledgement and the interframe space are
/// over it draws a backoff; later it may send in the next slot. `None` within two slots of that moment.
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

/// Reads per second of one device, if the program sorts its requests with `waiting` of them queued.
#[must_use]
pub fn sorted_rate(profile: &flash::Profile, block_bytes: u32, waiting: u32) -> f64 {
    let blocks = u64::from(block_bytes).div_ceil(flash::BLOCK_BYTES);
    let upward_ns = (profile.read.access_ns + profile.read.block_ns * (blocks - 1)) as f64;
    let downward_ns = profile.read.access_ns as f64 * f64::from(profile.backward_percent) / 100.0;
    // One step of a sweep leads back to its beginning.
    let mean_ns = upward_ns + downward_ns / (f64::from(waiting) + 1.0);
    f64::from(profile.slots) * 1e9 / mean_ns
}
