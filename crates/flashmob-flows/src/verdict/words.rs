//! Verdicts in words: what they rest on, and what would mend it.

use flashmob_results::capture::Cause;
use flashmob_text::bits_per_second as rate;

use super::Signs;
use crate::way::Way;

/// A window that closed so often did not close by chance: the receiving program lets data lie.
const SLOW_READER_MIN: u64 = 3;

/// Sentences with figures.
pub(super) fn evidence(way: &Way, cause: Cause, fraction: f64, signs: &Signs, are_windows_known: bool) -> Vec<String> {
    let percent = 100.0 * fraction;
    let mut sentences = Vec::new();
    let path = format!("The least round trip is {:.1} ms, the usual one {:.1} ms.", signs.least_rtt_ms, signs.rtt_ms);
    let window = way.window_bytes.quantile(0.5);
    match cause {
        Cause::ReceiverLimited => {
            let flight = way.rounds.full_flight.quantile(0.5);
            // One that is closed most of the time was filled when it was open.
            let window = if window > 0.0 { window } else { way.window_bytes.quantile(1.0) };
            sentences.push(format!(
                "For {percent:.0} % of the time the sender had filled the window: {} under way of {} that the receiver took.",
                bytes(flight),
                bytes(window)
            ));
            if way.counts.zero_windows > 0 {
                sentences.push(format!(
                    "The receiver offered a window of nothing {} times: its program reads too slowly.",
                    way.counts.zero_windows
                ));
            }
            sentences.push(path);
            if signs.rtt_ms > 0.0 && window > 0.0 {
                sentences.push(format!(
                    "A window of {} each {:.1} ms is {} at most.",
                    bytes(window),
                    signs.least_rtt_ms,
                    rate(window * 8.0 / (signs.least_rtt_ms / 1e3).max(1e-6))
                ));
            }
        }
        Cause::SenderLimited => {
            let ceiling = way.rounds.clocked_flight.quantile(0.5);
            sentences.push(format!(
                "For {percent:.0} % of the time each acknowledgement let data go, and no more than {} were ever under way, round after round.",
                bytes(ceiling)
            ));
            if are_windows_known {
                sentences.push(format!("The receiver would have taken {}.", bytes(window)));
            }
            sentences.push(format!("{} {}", losses(way), path));
        }
        Cause::CongestionLimited => {
            sentences.push(format!("For {percent:.0} % of the time the network decided how much was under way."));
            sentences.push(losses(way));
            sentences.push(if signs.is_queued {
                format!("{path} The difference is waiting in a queue: the path is full.")
            } else {
                path
            });
            if !signs.is_lossy && !signs.is_queued {
                sentences.push(
                    "More went with every round trip until the end: it was still finding out what the path carries."
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
                    "{} times all was acknowledged and nothing followed, mostly for {:.1} ms.",
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
        sentences.push("The opening was not captured, so windows are known only up to a factor: whether one was full cannot be seen.".into());
    }
    sentences
}

/// One sentence.
pub(super) fn remedy(way: &Way, cause: Cause, signs: &Signs) -> String {
    match cause {
        Cause::ReceiverLimited if way.counts.zero_windows >= SLOW_READER_MIN => {
            "Let the receiving program read faster, or on a thread of its own; a larger buffer only delays the same.".into()
        }
        Cause::ReceiverLimited => "On the receiver: sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456' or a larger third value, and no SO_RCVBUF in the \
            program (it ends the kernel's own tuning, and net.core.rmem_max cuts it)."
            .into(),
        Cause::SenderLimited => "On the sender: no SO_SNDBUF in the program (or a larger one, and net.core.wmem_max as large), and sysctl -w \
            net.ipv4.tcp_wmem='4096 16384 4194304' or a larger third value."
            .into(),
        Cause::CongestionLimited if signs.is_queued => {
            "The path carries no more: send less, or shorten the queue (tc qdisc replace dev DEV root fq_codel; TCP_CONGESTION bbr).".into()
        }
        Cause::CongestionLimited if signs.is_lossy => {
            "Mend the loss (radio, cable, an overfull queue); on the sender TCP_CONGESTION bbr (sysctl net.ipv4.tcp_congestion_control) minds it less.".into()
        }
        Cause::CongestionLimited => {
            "Keep connections open and send more on each (sysctl -w net.ipv4.tcp_slow_start_after_idle=0): a new one begins slowly.".into()
        }
        Cause::ApplicationLimited => {
            "Look at the sending program: larger writes, more requests outstanding, TCP_NODELAY where it waits for answers.".into()
        }
    }
}

fn losses(way: &Way) -> String {
    let percent = 100.0 * way.counts.resent as f64 / way.counts.data_packets.max(1) as f64;
    match way.counts.resent {
        0 => "Nothing was sent again.".into(),
        count => format!("{count} of {} packets were sent again ({percent:.2} %).", way.counts.data_packets),
    }
}

fn bytes(value: f64) -> String {
    flashmob_text::Bytes(value.round() as u64).to_string()
}
