//! Window scaling (RFC 7323): without it no window is larger than its 16 bits in the header, whatever the buffers.

use super::{Finding, sysctl};
use crate::view::View;
use crate::{rate, time};

const NAME: &str = "net.ipv4.tcp_window_scaling";
/// The most that 16 bits say.
const WINDOW_BYTES_MAX: u64 = 65_535;

pub(super) fn look(view: &View) -> Finding {
    match view.sysctl_number(NAME) {
        None => Finding::unknown(format!("{NAME} cannot be read here")),
        Some(0) => {
            let target = &view.target;
            let cap = WINDOW_BYTES_MAX as f64 * 8.0 / target.rtt_s;
            // Where the path is slower than that it does not bind there, but it does on the next longer one.
            let cost = format!(
                "no connection carries more than {} over a round trip of {}, in either direction",
                rate(cap),
                time(target.rtt_s)
            );
            Finding::wrong("window scaling is off, so that no window is larger than 64 KiB", cost)
                .with_change(sysctl(NAME, "1"))
                .with_advice("it goes for connections that are made afterwards, and both ends must have it on")
        }
        Some(_) => Finding::well("window scaling is on"),
    }
}
