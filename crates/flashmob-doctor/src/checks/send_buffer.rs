//! How large the send buffer of a connection may grow, against what a path has under way.
//!
//! What is sent stays in the buffer until it is acknowledged, a round trip later. The kernel grows it to twice the window, for its own records
//! count as well: half of it holds data.

use flashmob_path::buffers::{Buffer, parse};

use super::receive_buffer::raised_bytes;
use super::{Finding, sysctl};
use crate::view::View;
use crate::{bytes, rate, time};

pub(super) fn look(view: &View) -> Finding {
    let name = Buffer::Send.autotuning_name();
    let Some(limits) = view.sysctl(name).as_deref().and_then(parse) else {
        return Finding::unknown(format!("{name} cannot be read here"));
    };
    let target = &view.target;
    let usable = limits.max_bytes / 2;
    let needed = target.window_bytes();
    let found = format!(
        "send buffers grow to {}, of which about {} hold data; {} has {} under way",
        bytes(limits.max_bytes),
        bytes(usable),
        target.words(),
        bytes(needed)
    );
    if usable >= needed {
        return Finding::well(found);
    }
    let cost = format!(
        "about {} leave at most, of {}, over a round trip of {}",
        rate(target.cap_bits_per_second(usable)),
        rate(target.bits_per_second),
        time(target.rtt_s)
    );
    let max_bytes = raised_bytes(needed);
    Finding::wrong(found, cost)
        .with_change(sysctl(name, format!("{} {} {max_bytes}", limits.min_bytes, limits.default_bytes)))
        .with_advice("it goes for connections that are made afterwards; memory is taken only by those that need it")
}
