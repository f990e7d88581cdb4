//! Settings of the kernel's TCP.

use super::{Finding, sysctl};
use crate::view::{Target, View};
use crate::{rate, time};

/// Largest window without scaling: the 16 bits of the header.
const WINDOW_BYTES_MAX: u64 = 65_535;
const CONGESTION: &str = "net.ipv4.tcp_congestion_control";
/// Replacements for reno, best first. Not bbr first: it takes bandwidth from other flows, which should be a deliberate choice.
const BETTER: [&str; 2] = ["cubic", "bbr"];
/// Initial window in packets (RFC 6928).
const INITIAL_SEGMENTS: f64 = 10.0;
/// Delay that a waiting user notices.
const COST_S_MIN: f64 = 0.1;

/// A setting that should be on: its name, its words, and the cost if it is off.
fn switch(view: &View, name: &str, what: &str, cost: impl FnOnce(&Target) -> String) -> Finding {
    match view.sysctl_number(name) {
        None => Finding::unknown(format!("{name} cannot be read here")),
        Some(0) => Finding::wrong(format!("{what} is off"), cost(&view.target))
            .with_change(sysctl(name, "1"))
            .with_advice("it applies to connections that are made afterwards, and both ends must have it on"),
        Some(_) => Finding::well(format!("{what} is on")),
    }
}

/// Window scaling (RFC 7323): without it no window is larger than 64 KiB, whatever the buffers.
pub(super) fn window_scaling(view: &View) -> Finding {
    switch(view, "net.ipv4.tcp_window_scaling", "window scaling", |target| {
        // Not capped by the path's rate: the limit binds on the next longer path.
        let cap = WINDOW_BYTES_MAX as f64 * 8.0 / target.rtt_s;
        format!(
            "no window is larger than 64 KiB: no connection carries more than {} over a round trip of {}, in either direction",
            rate(cap),
            time(target.rtt_s)
        )
    })
}

/// Selective acknowledgement (RFC 2018): without it a sender learns of one lost packet per round trip.
pub(super) fn selective_acknowledgement(view: &View) -> Finding {
    switch(view, "net.ipv4.tcp_sack", "selective acknowledgement", |target| {
        format!(
            "when several packets of a window are lost, as on Wi-Fi, each takes a round trip of its own to be sent again: ten take ten times {}",
            time(target.rtt_s)
        )
    })
}

/// The default congestion control.
///
/// Reno adds one packet to its window per round trip: after a loss it needs half a window of round trips to recover. Cubic (RFC 9438), every
/// kernel's default since 2.6.19, is never slower and far faster where windows are large; bbr does not wait for losses.
pub(super) fn congestion_control(view: &View) -> Finding {
    let Some(name) = view.sysctl(CONGESTION).filter(|name| !name.is_empty()) else {
        return Finding::unknown(format!("{CONGESTION} cannot be read here"));
    };
    if name != "reno" {
        return Finding::well(format!("sockets have {name} unless they choose another one"));
    }
    let best_of = |list: &str| {
        let list = view.sysctl(&format!("net.ipv4.tcp_{list}_congestion_control")).unwrap_or_default();
        BETTER.into_iter().find(|better| list.split_whitespace().any(|has| has == *better))
    };
    // Those allowed for all users are also those that a network namespace may be set to.
    let Some(better) = best_of("allowed").or_else(|| best_of("available")) else {
        return Finding::well("sockets have reno, and this kernel has loaded nothing better")
            .with_advice("modprobe tcp_cubic, if the kernel has it as a module");
    };
    let target = &view.target;
    // Half a window, at one packet per round trip.
    let round_trips = (target.window_segments() / 2.0).ceil().max(1.0);
    let cost = format!(
        "after each lost packet on {} reno needs {round_trips:.0} round trips, {}, to send as fast as before",
        target.words(),
        time(round_trips * target.rtt_s)
    );
    Finding::wrong(format!("sockets have reno, though {better} is there"), cost).with_change(sysctl(CONGESTION, better))
}

/// Whether an idle connection restarts with a small window (RFC 5681, section 4.1).
///
/// It is the kernel's default, and costs little on short paths. flashmob's links are idle between requests; on a long path the first burst
/// then takes several round trips. So it is wrong only where the path is known to be long. Paced controls such as bbr do not need it.
pub(super) fn slow_start_after_idle(view: &View) -> Finding {
    const NAME: &str = "net.ipv4.tcp_slow_start_after_idle";
    match view.sysctl_number(NAME) {
        None => return Finding::unknown(format!("{NAME} cannot be read here")),
        Some(0) => return Finding::well("connections keep their window while idle"),
        Some(_) => {}
    }
    if let Some(control) = view.sysctl(CONGESTION).filter(|name| name.starts_with("bbr")) {
        return Finding::well(format!("{control} paces by itself, and keeps its window while idle"));
    }
    let target = &view.target;
    // Each round trip doubles the window.
    let round_trips = (target.window_segments() / INITIAL_SEGMENTS).log2().ceil().max(0.0);
    let lost_s = round_trips * target.rtt_s;
    let (words, lost) = (target.words(), time(lost_s));
    let found = "an idle connection restarts with 10 packets";
    if target.is_assumed || lost_s < COST_S_MIN {
        return Finding::well(format!("{found}, and needs {round_trips:.0} round trips, {lost}, to fill {words}"))
            .with_advice(
                "the kernel's default; it is judged where the path is known: --peer HOST, or --rate and --rtt",
            );
    }
    let cost =
        format!("each first burst after a pause takes {round_trips:.0} round trips, {lost}, longer to fill {words}");
    Finding::wrong(found, cost).with_change(sysctl(NAME, "0"))
}
