//! Socket buffers: how large they may grow, against the bandwidth-delay product of a path.
//!
//! P4's finding: a device whose maximum was ten times smaller received less and less the longer the round trip, because a sender never has
//! more in flight than the receiver's window. The window is at most the part of the buffer that holds data, and one window per round trip is
//! the maximum rate. Sent data stays in the send buffer until it is acknowledged, a round trip later; the kernel grows it to twice the
//! window, because its own records count as well.

use flashmob_path::buffers::{Buffer, parse};

use super::{Finding, sysctl};
use crate::view::{Target, View};
use crate::{bytes, rate, time};

/// The kernel's own maximum on machines with enough memory: the least that is recommended.
const RAISED_BYTES_MIN: u64 = 6 << 20;
/// The kernel keeps sizes in 32 bits with a sign.
const MAX_BYTES: u64 = 1 << 30;
/// The kernel's default of `tcp_adv_win_scale`: half of the buffer is for data.
const SCALE_DEFAULT: i64 = 1;
/// The smallest default limit of any kernel: 128 KiB, less the byte that some left out.
const LIMIT_BYTES_MIN: u64 = (128 << 10) - 1;
/// The default limit of current kernels.
const LIMIT_BYTES_DEFAULT: u64 = 212_992;
const AUTOTUNING: &str = "net.ipv4.tcp_moderate_rcvbuf";
const LATER: &str = "it applies to connections that are made afterwards; memory is taken only by those that need it";

/// How large the receive buffer of a connection may grow.
pub(super) fn receive(view: &View) -> Finding {
    let scale = receive_scale(view);
    growing(view, Buffer::Receive, |size| usable_bytes(size, scale))
}

/// How large the send buffer of a connection may grow.
pub(super) fn send(view: &View) -> Finding {
    growing(view, Buffer::Send, |size| size / 2)
}

fn growing(view: &View, buffer: Buffer, usable_of: impl Fn(u64) -> u64) -> Finding {
    let name = buffer.autotuning_name();
    let Some(limits) = view.sysctl(name).as_deref().and_then(parse) else {
        return Finding::unknown(format!("{name} cannot be read here"));
    };
    let target = &view.target;
    let (usable, needed) = (usable_of(limits.max_bytes), target.window_bytes());
    let (which, verb) = match buffer {
        Buffer::Receive => ("receive", "received"),
        Buffer::Send => ("send", "sent"),
    };
    let found = format!(
        "{which} buffers grow to {}, of which {} hold data; {} has {} in flight",
        bytes(limits.max_bytes),
        bytes(usable),
        target.words(),
        bytes(needed)
    );
    if usable >= needed {
        return Finding::well(found);
    }
    let mut max_bytes = raised_bytes(needed);
    // Where less than half of a buffer is for data it takes more.
    while usable_of(max_bytes) < needed && max_bytes < MAX_BYTES {
        max_bytes = (max_bytes * 2).min(MAX_BYTES);
    }
    Finding::wrong(found, carried(target, usable, verb))
        .with_change(sysctl(name, format!("{} {} {max_bytes}", limits.min_bytes, limits.default_bytes)))
        .with_advice(LATER)
}

/// Whether receive buffers grow. If not, they keep their initial size, whatever the maximum.
pub(super) fn receive_autotuning(view: &View) -> Finding {
    match view.sysctl_number(AUTOTUNING) {
        None => return Finding::unknown(format!("{AUTOTUNING} cannot be read here")),
        Some(0) => {}
        Some(_) => return Finding::well("receive buffers grow by themselves"),
    }
    let Some(limits) = view.sysctl(Buffer::Receive.autotuning_name()).as_deref().and_then(parse) else {
        return Finding::unknown("receive buffers do not grow by themselves, and their initial size cannot be read");
    };
    let target = &view.target;
    let usable = usable_bytes(limits.default_bytes, receive_scale(view));
    let found = format!("receive buffers do not grow by themselves, and stay at {}", bytes(limits.default_bytes));
    if usable >= target.window_bytes() {
        return Finding::well(format!("{found}, enough for {}", target.words()));
    }
    Finding::wrong(found, carried(target, usable, "received")).with_change(sysctl(AUTOTUNING, "1"))
}

/// The largest buffer that a program may set.
///
/// A limit below the maximum of autotuning is normal: kernels allow 208 KiB, and it binds only programs that set a size. A limit below that
/// of all kernels of the last twenty years was set on purpose, and a program that sets a size gets less than one that does not.
pub(super) fn limits(view: &View) -> Finding {
    let (mut said, mut low) = (Vec::new(), Vec::new());
    for name in [Buffer::Receive, Buffer::Send].map(Buffer::limit_name) {
        let Some(limit) = view.sysctl(name).and_then(|text| text.parse::<u64>().ok()) else {
            return Finding::unknown(format!("{name} cannot be read here, as in network namespaces of their own"));
        };
        said.push(format!("{name} is {}", bytes(limit)));
        if limit < LIMIT_BYTES_MIN {
            low.push((limit, name));
        }
    }
    let found = said.join(", ");
    let Some((least, _)) = low.iter().min() else {
        return Finding::well(format!("programs may set their buffers: {found}"));
    };
    let target = &view.target;
    let cost = format!(
        "a program that sets the size of its buffers gets at most {} over a round trip of {}, less than one that sets none",
        rate(target.cap_bits_per_second(*least)),
        time(target.rtt_s)
    );
    let wanted = LIMIT_BYTES_DEFAULT.max(target.window_bytes().min(MAX_BYTES));
    let finding = Finding::wrong(format!("programs may set less than kernels allow by default: {found}"), cost);
    low.iter().fold(finding, |finding, (_, name)| finding.with_change(sysctl(name, wanted.to_string())))
}

/// The maximum rate with a window of `usable` bytes.
fn carried(target: &Target, usable: u64, verb: &str) -> String {
    let cap = target.cap_bits_per_second(usable);
    let (cap, full) = (rate(cap), rate(target.bits_per_second));
    format!("at most {cap} of {full} can be {verb}, over a round trip of {}", time(target.rtt_s))
}

fn receive_scale(view: &View) -> i64 {
    view.sysctl_number("net.ipv4.tcp_adv_win_scale").unwrap_or(SCALE_DEFAULT)
}

/// The part of a receive buffer that is offered as a window, as the kernel computes it.
fn usable_bytes(buffer_bytes: u64, scale: i64) -> u64 {
    match u32::try_from(scale) {
        Ok(0) => buffer_bytes,
        Ok(scale) => buffer_bytes - buffer_bytes.checked_shr(scale).unwrap_or(0),
        Err(_) => u32::try_from(scale.unsigned_abs()).ok().and_then(|by| buffer_bytes.checked_shr(by)).unwrap_or(0),
    }
}

/// A sufficient maximum, in whole MiB: half of a buffer is for data.
fn raised_bytes(needed_bytes: u64) -> u64 {
    let doubled = needed_bytes.saturating_mul(2).checked_next_multiple_of(1 << 20);
    doubled.map_or(MAX_BYTES, |bytes| bytes.clamp(RAISED_BYTES_MIN, MAX_BYTES))
}
