//! C26: with the receive maximum raised, the packets and their acknowledgements are nearly those of the system that was fast before.
//!
//! Two captures of the same transfer: with the tenfold maximum, and with the system's own, which on a PC is a few MiB (told apart by the words `tenfold` and
//! `own` in their labels). Of each the way that carried most data is looked at: packets with data per second within 10 % of each other, and the median round trip of
//! acknowledgements within 25 %, because it is mostly a queue, whose length varies with each loss. That phones were sold with the small maximum is a fact
//! about phones: `flashmob doctor` shows a device's own.

use super::few_packets_in_flight::{labelled, seen};
use super::{Definition, Finding, Judged, Missing};
use crate::entry::Entry;
use crate::words;

const PACKETS_MAX: f64 = 1.10;
const RTT_MAX: f64 = 1.25;

pub(super) const CLAIM: Definition = Definition {
    id: "C26",
    source: "P4, Fig. 15, table 2",
    words: "After tuning, packet totals and ACK times are nearly those of the other system; the small maximum is the one that phones were sold with.",
    short: "Tuned: packets as on the other system",
    criterion: "Captures with the tenfold receive maximum and with the system's own: packets with data per second within 10 % of each other, median ACK round trips within 25 %. What phones are sold with is not judged here: flashmob doctor shows it.",
    paper: "packet totals and ACK times nearly Ubuntu's (no figures in the text)",
    judge: judged,
    ..Definition::NETWORK
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    let (tenfold, own) = (labelled(entries, "tenfold"), labelled(entries, "own"));
    match (tenfold.first(), own.first()) {
        (Some(tuned), Some(own)) => match of_pair(entries, *tuned, *own) {
            Ok(finding) => judged.findings.push(finding),
            Err(what) => judged.missing.push((*own, what)),
        },
        _ => {
            let what = "there is no pair of captures with the tenfold receive maximum and with the system's own (labels with 'tenfold' and 'own' tell)";
            let first = (0..entries.len()).find(|at| entries[*at].capture().is_some());
            judged.missing.extend(first.map(|at| (at, what.into())));
        }
    }
    judged
}

fn of_pair(entries: &[Entry], tuned: usize, own: usize) -> Result<Finding, Missing> {
    let (a, b) = (seen(entries[tuned].capture(), "tenfold")?, seen(entries[own].capture(), "system's own")?);
    let ratio = |a: f64, b: f64| (a / b).max(b / a);
    let rate = |seen: &super::few_packets_in_flight::Seen| seen.way.bits_per_second / (seen.way.packet_bytes * 8.0);
    let (packets, rtt) = (ratio(rate(&a), rate(&b)), ratio(a.rtt.median, b.rtt.median));
    let holds = packets <= PACKETS_MAX && rtt <= RTT_MAX;
    let numbers = format!(
        "{} packets/s with the tenfold maximum, {} with the system's own (a factor of {}); ACK round trip {} against {} ({} times)",
        words::number(rate(&a)),
        words::number(rate(&b)),
        words::number(packets),
        words::time_ms(a.rtt.median),
        words::time_ms(b.rtt.median),
        words::number(rtt),
    );
    Ok(Finding::of_captures(entries, [tuned, own], holds, numbers))
}
