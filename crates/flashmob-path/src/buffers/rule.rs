//! The buffer size that a path needs, and the remedy for a buffer that is too small.
//!
//! It decides from observations, and changes nothing. A buffer that does not limit its path, or that the kernel may still grow, is left alone:
//! the kernel knows more than an observation per second. A buffer set by a program does not grow any more.

use super::{Autotuning, Buffer};

/// A receive window limits the sender if this fraction of it is used in each round trip.
const WINDOW_USED_MIN: f64 = 0.75;
/// A send buffer limits the sender if it was full for this fraction of the time with data in flight.
const FULL_FRACTION_MIN: f64 = 0.25;
/// Least fraction of the time with data in flight; below it windows do not matter.
const BUSY_FRACTION_MIN: f64 = 0.1;
/// Growth of a buffer that limits its path.
const STEP: u64 = 4;
/// Sizes are whole pages.
const PAGE_BYTES: f64 = 4096.0;

/// Observations of one direction of a connection since the last time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Rate in this direction.
    pub bytes_per_second: f64,
    /// Minimum round-trip time.
    pub min_rtt_s: f64,
    /// Whether this end's buffer limited it: [`is_window_used_up`], [`is_buffer_full`].
    pub is_held_back: bool,
    /// This end's buffer as the kernel counts it, about twice its capacity.
    pub buffer_bytes: u64,
    /// Its size was set by a program.
    pub is_set: bool,
}

/// Limits of a buffer's growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Limit of autotuning; `None`: not known.
    pub autotuning_max_bytes: Option<u64>,
    /// Limit for a program, which the kernel doubles; `None`: not known, it is tried.
    pub limit_bytes: Option<u64>,
    /// This connection's share of the memory of its process, as the kernel counts it; 0: nothing is set.
    pub share_bytes: u64,
}

/// The advice for a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Leave it: it suffices, or the kernel still grows it.
    Leave,
    /// Set it to this size, which the kernel doubles.
    Set(u64),
    /// It limits the path and cannot be enlarged; the least size needed, as the kernel counts it.
    Limited(u64),
}

/// Whether the receive window limits the sender: then about a window arrives in each round trip.
#[must_use]
pub fn is_window_used_up(bytes_per_second: f64, min_rtt_s: f64, window_bytes: u64) -> bool {
    window_used_fraction(bytes_per_second, min_rtt_s, window_bytes) >= WINDOW_USED_MIN
}

/// The fraction of a window that is used in each round trip: 0 to 1.
#[must_use]
pub fn window_used_fraction(bytes_per_second: f64, min_rtt_s: f64, window_bytes: u64) -> f64 {
    if window_bytes == 0 { 0.0 } else { (bytes_per_second * min_rtt_s / window_bytes as f64).min(1.0) }
}

/// Whether the send buffer limits the sender. Both are fractions of the time since the last observation.
#[must_use]
pub fn is_buffer_full(full_fraction: f64, busy_fraction: f64) -> bool {
    busy_fraction >= BUSY_FRACTION_MIN && full_fraction >= FULL_FRACTION_MIN * busy_fraction
}

/// The advice for one buffer.
#[must_use]
pub fn advise(seen: &Seen, room: &Room) -> Advice {
    if !seen.is_held_back {
        return Advice::Leave;
    }
    let may_grow_bytes = if seen.is_set { 0 } else { room.autotuning_max_bytes.unwrap_or(u64::MAX) };
    // The kernel stops a little below its maximum.
    if seen.buffer_bytes < may_grow_bytes - may_grow_bytes / 8 {
        return Advice::Leave;
    }
    // The observed rate of a limited path is that of its buffer: it needs more.
    let wanted_bytes = wanted_bytes(seen).max(seen.buffer_bytes.saturating_mul(2));
    let allowed_bytes = room.limit_bytes.map_or(u64::MAX, |limit| limit.saturating_mul(2)).min(room.share_bytes);
    if allowed_bytes <= seen.buffer_bytes {
        return Advice::Limited(wanted_bytes);
    }
    // How much more is not known yet. Unused room costs nothing, and every step takes another observation.
    Advice::Set(wanted_bytes.max(seen.buffer_bytes.saturating_mul(STEP)).min(allowed_bytes) / 2)
}

/// The size, as the kernel counts it, for twice the bandwidth-delay product: queued and in flight.
fn wanted_bytes(seen: &Seen) -> u64 {
    let path_bytes = seen.bytes_per_second * seen.min_rtt_s;
    ((2.0 * path_bytes / PAGE_BYTES).ceil() * PAGE_BYTES) as u64
}

/// The command that lets the kernel grow a buffer to `wanted_bytes`.
#[must_use]
pub fn remedy(buffer: Buffer, now: Option<Autotuning>, wanted_bytes: u64) -> String {
    let (min, default) = now.map_or((4096, 131_072), |now| (now.min_bytes, now.default_bytes));
    let max = wanted_bytes.checked_next_power_of_two().unwrap_or(wanted_bytes);
    format!("sysctl -w {}=\"{min} {default} {max}\"", buffer.autotuning_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;
    const ROOM: Room =
        Room { autotuning_max_bytes: Some(128 * KIB), limit_bytes: Some(1024 * KIB), share_bytes: 4096 * KIB };

    fn held_back(buffer_bytes: u64) -> Seen {
        Seen { bytes_per_second: 2.6e6, min_rtt_s: 0.032, is_held_back: true, buffer_bytes, is_set: false }
    }

    #[test]
    fn what_holds_nothing_back_or_may_still_grow_is_left_alone() {
        let free = Seen { is_held_back: false, ..held_back(128 * KIB) };
        assert_eq!(advise(&free, &ROOM), Advice::Leave);
        assert_eq!(advise(&held_back(112 * KIB - 1), &ROOM), Advice::Leave, "below what the kernel grows it to");
        assert_eq!(advise(&held_back(112 * KIB), &ROOM), Advice::Set(224 * KIB), "at it");
        let unknown = Room { autotuning_max_bytes: None, ..ROOM };
        assert_eq!(advise(&held_back(128 * KIB), &unknown), Advice::Leave, "nobody knows how far it grows");
    }

    #[test]
    fn it_is_set_to_what_the_path_wants_below_at_and_above_what_is_allowed() {
        assert_eq!(
            advise(&held_back(128 * KIB), &ROOM),
            Advice::Set(256 * KIB),
            "four times as much, doubled by the kernel"
        );
        let fast = Seen { bytes_per_second: 12.5e6, ..held_back(128 * KIB) };
        assert_eq!(advise(&fast, &ROOM), Advice::Set(401_408), "twice bandwidth times delay, in pages");
        let faster = Seen { bytes_per_second: 125e6, ..held_back(128 * KIB) };
        assert_eq!(advise(&faster, &ROOM), Advice::Set(1024 * KIB), "the system's limit");
        let small = Room { share_bytes: 512 * KIB, ..ROOM };
        assert_eq!(advise(&faster, &small), Advice::Set(256 * KIB), "the process's memory");
        let set = Seen { is_set: true, ..held_back(2048 * KIB - 1) };
        assert_eq!(advise(&set, &ROOM), Advice::Set(1024 * KIB), "one byte is missing");
        assert_eq!(advise(&held_back(2048 * KIB), &ROOM), Advice::Limited(4096 * KIB), "as large as it may be");
        assert_eq!(advise(&held_back(128 * KIB), &Room { share_bytes: 0, ..ROOM }), Advice::Limited(256 * KIB));
        let untold = Room { limit_bytes: None, ..ROOM };
        assert_eq!(advise(&faster, &untold), Advice::Set(2048 * KIB), "it is tried");
    }

    #[test]
    fn what_holds_back_is_told_below_at_and_above() {
        assert!(!is_window_used_up(749.0, 1.0, 1000) && is_window_used_up(750.0, 1.0, 1000));
        assert!(!is_window_used_up(1e9, 1.0, 0), "a window that nobody knows");
        assert!((window_used_fraction(5e9, 1.0, 1000) - 1.0).abs() < 1e-9);
        assert!(!is_buffer_full(0.09, 0.09), "hardly anything was sent");
        assert!(is_buffer_full(0.025, 0.1) && !is_buffer_full(0.024, 0.1) && !is_buffer_full(0.24, 1.0));
    }

    #[test]
    fn the_remedy_is_a_command() {
        let now = Autotuning { min_bytes: 4096, default_bytes: 65_536, max_bytes: 131_072 };
        assert_eq!(remedy(Buffer::Receive, Some(now), 262_144), "sysctl -w net.ipv4.tcp_rmem=\"4096 65536 262144\"",);
        assert!(remedy(Buffer::Send, None, 300_000).ends_with("524288\""));
    }
}
