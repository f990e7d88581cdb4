//! Which congestion control sockets have that choose none.
//!
//! Reno adds one packet to its window each round trip: after a loss it needs half a window of round trips to be where it was. Cubic (RFC
//! 9438), every kernel's default since 2.6.19, is never slower and far faster where windows are large; bbr does not wait for losses.

use super::{Finding, sysctl};
use crate::time;
use crate::view::{Target, View};

const NAME: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
/// What everybody may choose, and a network namespace of its own may be set to.
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
/// What takes reno's place, the best first. Not bbr: it takes from others what they do not give up, which a device should be told to.
const BETTER: [&str; 2] = ["cubic", "bbr"];

pub(super) fn look(view: &View) -> Finding {
    let Some(name) = view.sysctl(NAME).filter(|name| !name.is_empty()) else {
        return Finding::unknown(format!("{NAME} cannot be read here"));
    };
    if name != "reno" {
        return Finding::well(format!("sockets have {name} unless they choose another one"));
    }
    let listed = |list: &str| view.sysctl(list).unwrap_or_default();
    let (available, allowed) = (listed(AVAILABLE), listed(ALLOWED));
    let best_of = |list: &str| BETTER.into_iter().find(|better| list.split_whitespace().any(|has| has == *better));
    let Some(better) = best_of(&allowed).or_else(|| best_of(&available)) else {
        return Finding::well("sockets have reno, and this kernel has loaded nothing better")
            .with_advice("modprobe tcp_cubic, if the kernel has it as a module");
    };
    let target = &view.target;
    let round_trips = recovery_round_trips(target);
    let cost = format!(
        "after each lost packet on {} reno needs {round_trips:.0} round trips, {}, to send as fast as before",
        target.words(),
        time(round_trips * target.rtt_s)
    );
    Finding::wrong(format!("sockets have reno, though {better} is there"), cost).with_change(sysctl(NAME, better))
}

/// Half a window, at a packet each round trip.
fn recovery_round_trips(target: &Target) -> f64 {
    (target.window_segments() / 2.0).ceil().max(1.0)
}
