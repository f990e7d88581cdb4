//! Whether receive buffers grow by themselves. Without it they stay what they begin with, however large they might become.

use flashmob_path::buffers::{Buffer, parse};

use super::receive_buffer::usable_bytes;
use super::{Finding, sysctl};
use crate::view::View;
use crate::{bytes, rate, time};

const NAME: &str = "net.ipv4.tcp_moderate_rcvbuf";

pub(super) fn look(view: &View) -> Finding {
    match view.sysctl_number(NAME) {
        None => return Finding::unknown(format!("{NAME} cannot be read here")),
        Some(0) => {}
        Some(_) => return Finding::well("receive buffers grow by themselves"),
    }
    let Some(limits) = view.sysctl(Buffer::Receive.autotuning_name()).as_deref().and_then(parse) else {
        return Finding::unknown("receive buffers do not grow by themselves, and what they begin with cannot be read");
    };
    let target = &view.target;
    let usable = usable_bytes(limits.default_bytes, view.sysctl_number("net.ipv4.tcp_adv_win_scale").unwrap_or(1));
    let begin = bytes(limits.default_bytes);
    if usable >= target.window_bytes() {
        let found =
            format!("receive buffers do not grow by themselves, and begin with {begin}, enough for {}", target.words());
        return Finding::well(found);
    }
    let cost = format!(
        "at most {} come in of {}, over a round trip of {}",
        rate(target.cap_bits_per_second(usable)),
        rate(target.bits_per_second),
        time(target.rtt_s)
    );
    Finding::wrong(format!("receive buffers do not grow by themselves, and stay at {begin}"), cost)
        .with_change(sysctl(NAME, "1"))
}
