//! The throughput of a saturated cell, in closed form.
//!
//! G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE Journal on Selected
//! Areas in Communications 18(3), 2000. With the correction that the published ns-3 validation makes: a station that has
//! sent and draws no backoff sends again at once, so that what was won is a row of `1 / (1 - 1/(CWmin + 1))`
//! transmissions. Retries are without limit in it, and nothing is lost but by collisions.

use super::exchange::ETHERNET_HEADER_BYTES;
use super::profile::{Dcf, Medium, Profile};

/// A cell all of whose stations always have something to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// The chance that a station begins to send in a slot.
    pub tau: f64,
    /// The chance that what it sends collides.
    pub p: f64,
    /// Transmissions that succeed, of the whole cell.
    pub transmissions_per_second: f64,
    /// Frames in them.
    pub frames_per_second: f64,
    /// Bits of what these frames carry behind their Ethernet headers.
    pub payload_bits_per_second: f64,
}

/// The throughput of the cell of `profile` with `stations` that always have frames of `len_bytes` (of Ethernet, header included)
/// for one receiver each, as many in each transmission as the profile lets them. The access point is one of them if it
/// sends. None without a cell, or without stations.
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
    // With a window of one slot every backoff is none, and the row would never end.
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

/// The chance to begin in a slot, and that to collide then: each follows from the other.
fn attempts(dcf: &Dcf, stations: u32) -> (f64, f64) {
    let window = f64::from(dcf.cw_min) + 1.0;
    let doublings = ((f64::from(dcf.cw_max) + 1.0) / window).log2().ceil() as i32;
    let collides = |tau: f64| 1.0 - (1.0 - tau).powf(f64::from(stations) - 1.0);
    let begins = |p: f64| {
        let sum: f64 = (0..doublings).map(|i| (2.0 * p).powi(i)).sum();
        2.0 / (1.0 + window + p * window * sum)
    };
    // The more one begins the more one collides, and the less one begins: there is one solution.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..64 {
        let tau = f64::midpoint(low, high);
        if begins(collides(tau)) > tau { low = tau } else { high = tau }
    }
    let tau = f64::midpoint(low, high);
    (tau, collides(tau))
}
