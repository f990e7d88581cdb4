//! Verdicts in words: evidence and remedy.

use flashmob_results::capture::Cause;
use flashmob_text::bits_per_second as rate;

use super::Signs;
use crate::way::Way;

/// Number of zero windows from which the receiving program is too slow, and not by chance.
const SLOW_READER_MIN: u64 = 3;

/// The evidence as sentences with figures.
pub(super) fn evidence(way: &Way, cause: Cause, fraction: f64, signs: &Signs, are_windows_known: bool) -> Vec<String> {
    let percent = 100.0 * fraction;
    let mut sentences = Vec::new();
    let path = format!("The minimum round trip is {:.1} ms, the median {:.1} ms.", signs.least_rtt_ms, signs.rtt_ms);
    let window = way.window_bytes.quantile(0.5);
    match cause {
        Cause::ReceiverLimited => {
            let flight = way.rounds.full_flight.quantile(0.5);
            // If it is closed most of the time, the open window counts.
            let window = if window > 0.0 { window } else { way.window_bytes.quantile(1.0) };
            sentences.push(format!(
                "For {percent:.0} % of the time the window was full: {} in flight, window {}.",
                bytes(flight),
                bytes(window)
            ));
            if way.counts.zero_windows > 0 {
                sentences.push(format!(
                    "The receiver advertised a zero window {} times: its program reads too slowly.",
                    way.counts.zero_windows
                ));
            }
            sentences.push(path);
            if signs.rtt_ms > 0.0 && window > 0.0 {
                sentences.push(format!(
                    "A window of {} per {:.1} ms is at most {}.",
                    bytes(window),
                    signs.least_rtt_ms,
                    rate(window * 8.0 / (signs.least_rtt_ms / 1e3).max(1e-6))
                ));
            }
        }
        Cause::SenderLimited => {
            let ceiling = way.rounds.clocked_flight.quantile(0.5);
            sentences.push(format!(
                "For {percent:.0} % of the time each acknowledgement triggered the next data, and at most {} were in flight in each round trip.",
                bytes(ceiling)
            ));
            if are_windows_known {
                sentences.push(format!("The receiver's window was {}.", bytes(window)));
            }
            sentences.push(format!("{} {}", losses(way), path));
        }
        Cause::CongestionLimited => {
            sentences.push(format!("For {percent:.0} % of the time the network limited the bytes in flight."));
            sentences.push(losses(way));
            sentences.push(if signs.is_queued {
                format!("{path} The difference is delay in a queue: the path is saturated.")
            } else {
                path
            });
            if !signs.is_lossy && !signs.is_queued {
                sentences.push(
                    "The bytes in flight grew until the end: the sender was still probing the capacity of the path."
                        .into(),
                );
            }
        }
        Cause::ApplicationLimited => {
            sentences.push(format!(
                "For {percent:.0} % of the time the sender had nothing to send, although window and path were free."
            ));
            if way.rounds.idle_ms.count() > 0 {
                sentences.push(format!(
                    "All data were acknowledged and nothing followed {} times, for a median of {:.1} ms.",
                    way.rounds.idle_ms.count(),
                    way.rounds.idle_ms.quantile(0.5)
                ));
            }
            sentences.push(format!(
                "Packets have {} of data on average, the largest {}. {path}",
                bytes(way.counts.bytes as f64 / way.counts.data_packets.max(1) as f64),
                bytes(way.counts.largest_packet_bytes.into())
            ));
        }
    }
    if !are_windows_known {
        sentences.push(
            "The handshake was not captured, so the scale of windows is unknown, and with it whether they were full."
                .into(),
        );
    }
    sentences
}

/// The remedy as a sentence.
pub(super) fn remedy(way: &Way, cause: Cause, signs: &Signs) -> String {
    match cause {
        Cause::ReceiverLimited if way.counts.zero_windows >= SLOW_READER_MIN => {
            "Let the receiving program read faster, or on a thread of its own; a larger buffer only postpones the stall.".into()
        }
        Cause::ReceiverLimited => "On the receiver: sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' or a larger third value, and no SO_RCVBUF in the \
            program (it disables the kernel's autotuning and is capped by net.core.rmem_max)."
            .into(),
        Cause::SenderLimited => "On the sender: no SO_SNDBUF in the program (or a larger one, and net.core.wmem_max as large), and sysctl -w \
            net.ipv4.tcp_wmem='4096 16384 4194304' or a larger third value."
            .into(),
        Cause::CongestionLimited if signs.is_queued => {
            "The path carries no more: send less, or shorten the queue (tc qdisc replace dev DEV root fq_codel; TCP_CONGESTION bbr).".into()
        }
        Cause::CongestionLimited if signs.is_lossy => {
            "Reduce the loss (radio, cable, an overfull queue); on the sender, TCP_CONGESTION bbr (sysctl net.ipv4.tcp_congestion_control) is less sensitive to it.".into()
        }
        Cause::CongestionLimited => {
            "Keep connections open and send more on each (sysctl -w net.ipv4.tcp_slow_start_after_idle=0): new connections begin with slow start.".into()
        }
        Cause::ApplicationLimited => {
            "Look at the sending program: larger writes, more requests outstanding, TCP_NODELAY where it waits for answers.".into()
        }
    }
}

fn losses(way: &Way) -> String {
    let percent = 100.0 * way.counts.resent as f64 / way.counts.data_packets.max(1) as f64;
    match way.counts.resent {
        0 => "Nothing was retransmitted.".into(),
        count => format!("{count} of {} packets were retransmitted ({percent:.2} %).", way.counts.data_packets),
    }
}

fn bytes(value: f64) -> String {
    flashmob_text::Bytes(value.round() as u64).to_string()
}
