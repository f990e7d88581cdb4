//! Whether a connection that paused begins anew with a small window (RFC 5681, section 4.1).
//!
//! It is the kernel's default, and on short paths it costs next to nothing. flashmob's links pause whenever nobody asks for anything; on a
//! long path the first burst after a pause then takes several round trips. So it is wrong only where the path is known and that is long.
//! Controls that pace, as bbr, do without it.

use super::{Finding, sysctl};
use crate::time;
use crate::view::{Target, View};

const NAME: &str = "net.ipv4.tcp_slow_start_after_idle";
/// Packets with which a connection begins (RFC 6928).
const INITIAL_SEGMENTS: f64 = 10.0;
/// What somebody who waits notices.
const COST_S_MIN: f64 = 0.1;

pub(super) fn look(view: &View) -> Finding {
    match view.sysctl_number(NAME) {
        None => return Finding::unknown(format!("{NAME} cannot be read here")),
        Some(0) => return Finding::well("connections that paused go on as they were"),
        Some(_) => {}
    }
    if let Some(control) = view.sysctl("net.ipv4.tcp_congestion_control").filter(|name| name.starts_with("bbr")) {
        return Finding::well(format!("{control} paces by itself, and does not begin anew after a pause"));
    }
    let target = &view.target;
    let (round_trips, lost_s) = cost(target);
    let words = target.words();
    let text = format!(
        "a connection that paused begins anew with 10 packets, and needs {round_trips:.0} round trips, {}, to fill {words}",
        time(lost_s)
    );
    if target.is_assumed || lost_s < COST_S_MIN {
        return Finding::well(text).with_advice(
            "the kernel's default; it is judged where the path is known: --peer HOST, or --rate and --rtt",
        );
    }
    Finding::wrong(
        "a connection that paused begins anew with 10 packets",
        format!(
            "each first burst after a pause takes {round_trips:.0} round trips, {}, longer to fill {words}",
            time(lost_s)
        ),
    )
    .with_change(sysctl(NAME, "0"))
}

/// Round trips that a window needs to double up to what fills the path, and how long they take.
fn cost(target: &Target) -> (f64, f64) {
    let round_trips = (target.window_segments() / INITIAL_SEGMENTS).log2().ceil().max(0.0);
    (round_trips, round_trips * target.rtt_s)
}
