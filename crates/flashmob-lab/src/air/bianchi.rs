//! The throughput of a saturated cell, in closed form.
//!
//! G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE Journal on Selected
//! Areas in Communications 18(3), 2000. With the correction of the published ns-3 validation: a station that draws a
//! backoff of 0 after a success sends again at once, so that a success is a row of `1 / (1 - 1/(CWmin + 1))`
//! transmissions. Retries are unlimited, and only collisions cause losses.

use super::exchange::ETHERNET_HEADER_BYTES;
use super::profile::{Dcf, Medium, Profile};

/// The throughput of a saturated cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// Probability that a station begins to send in a slot.
    pub tau: f64,
    /// Probability that a transmission collides.
    pub p: f64,
    /// Successful transmissions per second of the whole cell.
    pub transmissions_per_second: f64,
    /// Frames per second in them.
    pub frames_per_second: f64,
    /// Payload bits per second of these frames, without Ethernet headers.
    pub payload_bits_per_second: f64,
}

/// The throughput of the cell of `profile` with `stations` saturated with Ethernet frames of `len_bytes` (including the header)
/// for one receiver each, with the profile's maximum of frames per transmission. The access point is one of them if it
/// sends. `None` without a cell or without stations.
#[must_use]
pub fn saturation(profile: &Profile, stations: u32, len_bytes: u32) -> Option<Saturation> {
    let Medium::Cell(dcf) = &profile.medium else { return None };
    if stations == 0 {
        return None;
    }
    let frames = profile.frames_per_access(len_bytes);
    let success_ns = (profile.exchange_ns(frames, len_bytes) + dcf.aifs_ns()) as f64;
    let collision_ns =
        (profile.exchange_ns(frames, len_bytes) - dcf.ack_ns(frames) + dcf.ack_ns(1) + dcf.aifs_ns()) as f64;

    let (tau, p) = attempts(dcf, stations);
    let window = f64::from(dcf.cw_min) + 1.0;
    // With a window of one slot every backoff is 0, and the row would be infinite.
    let row = if dcf.cw_min == 0 { 1.0 } else { 1.0 / (1.0 - 1.0 / window) };
    let slot_ns = dcf.slot_ns as f64;
    let idle = (1.0 - tau).powf(f64::from(stations));
    let success = f64::from(stations) * tau * (1.0 - tau).powf(f64::from(stations) - 1.0);
    let collision = (1.0 - idle - success).max(0.0);
    let mean_ns = idle * slot_ns + success * (success_ns * row + slot_ns) + collision * collision_ns;
    let transmissions_per_second = success * row * 1e9 / mean_ns;
    let frames_per_second = transmissions_per_second * f64::from(frames);
    let payload_bits = 8.0 * f64::from(len_bytes.saturating_sub(ETHERNET_HEADER_BYTES));
    Some(Saturation {
        tau,
        p,
        transmissions_per_second,
        frames_per_second,
        payload_bits_per_second: frames_per_second * payload_bits,
    })
}

/// The probabilities of beginning in a slot and of a collision: each depends on the other.
fn attempts(dcf: &Dcf, stations: u32) -> (f64, f64) {
    let window = f64::from(dcf.cw_min) + 1.0;
    let doublings = ((f64::from(dcf.cw_max) + 1.0) / window).log2().ceil() as i32;
    let collides = |tau: f64| 1.0 - (1.0 - tau).powf(f64::from(stations) - 1.0);
    let begins = |p: f64| {
        let sum: f64 = (0..doublings).map(|i| (2.0 * p).powi(i)).sum();
        2.0 / (1.0 + window + p * window * sum)
    };
    // Collisions increase with the probability of beginning, which decreases with collisions: there is one solution.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..64 {
        let tau = f64::midpoint(low, high);
        if begins(collides(tau)) > tau { low = tau } else { high = tau }
    }
    let tau = f64::midpoint(low, high);
    (tau, collides(tau))
}
