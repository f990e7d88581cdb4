//! Selective acknowledgement (RFC 2018): without it a sender learns of one lost packet each round trip.

use super::{Finding, sysctl};
use crate::time;
use crate::view::View;

const NAME: &str = "net.ipv4.tcp_sack";

pub(super) fn look(view: &View) -> Finding {
    match view.sysctl_number(NAME) {
        None => Finding::unknown(format!("{NAME} cannot be read here")),
        Some(0) => {
            let rtt = time(view.target.rtt_s);
            let cost = format!(
                "when several packets of a window are lost, as on Wi-Fi, each takes a round trip of its own to be sent again: ten take ten times {rtt}"
            );
            Finding::wrong("selective acknowledgement is off", cost)
                .with_change(sysctl(NAME, "1"))
                .with_advice("it goes for connections that are made afterwards, and both ends must have it on")
        }
        Some(_) => Finding::well("selective acknowledgement is on"),
    }
}
