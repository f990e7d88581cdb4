//! How large the receive buffer of a connection may grow, against what a path has under way.
//!
//! P4's finding: a device whose maximum was ten times smaller received less and less the longer the round trip, for a sender never has more
//! under way than the receiver offers. The window is at most what of the buffer holds data, and that over the round trip is the most that
//! is carried.

use flashmob_path::buffers::{Buffer, parse};

use super::{Finding, sysctl};
use crate::view::View;
use crate::{bytes, rate, time};

/// The kernel's own maximum on machines with enough memory: what is raised is raised to this at least.
const RAISED_BYTES_MIN: u64 = 6 << 20;
/// The kernel keeps these in 32 bits with a sign.
const MAX_BYTES: u64 = 1 << 30;
/// What the kernel takes for `tcp_adv_win_scale` unless told otherwise: half of the buffer is for data.
const SCALE_DEFAULT: i64 = 1;

pub(super) fn look(view: &View) -> Finding {
    let name = Buffer::Receive.autotuning_name();
    let Some(limits) = view.sysctl(name).as_deref().and_then(parse) else {
        return Finding::unknown(format!("{name} cannot be read here"));
    };
    let target = &view.target;
    let scale = view.sysctl_number("net.ipv4.tcp_adv_win_scale").unwrap_or(SCALE_DEFAULT);
    let usable = usable_bytes(limits.max_bytes, scale);
    let needed = target.window_bytes();
    let found = format!(
        "receive buffers grow to {}, of which {} hold data; {} has {} under way",
        bytes(limits.max_bytes),
        bytes(usable),
        target.words(),
        bytes(needed)
    );
    if usable >= needed {
        return Finding::well(found);
    }
    let cost = format!(
        "at most {} come in of {}, over a round trip of {}",
        rate(target.cap_bits_per_second(usable)),
        rate(target.bits_per_second),
        time(target.rtt_s)
    );
    // Where less than half of a buffer is for data it takes more.
    let mut max_bytes = raised_bytes(needed);
    while usable_bytes(max_bytes, scale) < needed && max_bytes < MAX_BYTES {
        max_bytes = (max_bytes * 2).min(MAX_BYTES);
    }
    Finding::wrong(found, cost)
        .with_change(sysctl(name, format!("{} {} {max_bytes}", limits.min_bytes, limits.default_bytes)))
        .with_advice("it goes for connections that are made afterwards; memory is taken only by those that need it")
}

/// What of a buffer is offered as a window, as the kernel reckons.
pub(super) fn usable_bytes(buffer_bytes: u64, scale: i64) -> u64 {
    match u32::try_from(scale) {
        Ok(0) => buffer_bytes,
        Ok(scale) => buffer_bytes - buffer_bytes.checked_shr(scale).unwrap_or(0),
        Err(_) => u32::try_from(scale.unsigned_abs()).ok().and_then(|by| buffer_bytes.checked_shr(by)).unwrap_or(0),
    }
}

/// A maximum that is enough, in whole MiB: half of a buffer is for data.
pub(super) fn raised_bytes(needed_bytes: u64) -> u64 {
    needed_bytes
        .saturating_mul(2)
        .checked_next_multiple_of(1 << 20)
        .map_or(MAX_BYTES, |bytes| bytes.clamp(RAISED_BYTES_MIN, MAX_BYTES))
}
