//! The counts of both ends, in the form of results.

use std::time::Duration;

use flashmob_core::planted::{self, Bug};
use flashmob_results::latency::Latency;
use flashmob_results::net::{Direction, Exchange, Flow, Protocol, Repetition, Stream, Udp};

use super::protocol::parameters::Parameters;
use super::protocol::results::{Extension, ExtensionStream, Results, StreamResult};
use super::traffic::{Counted, StreamCount};

/// The results that this end sends.
pub(super) fn results(counted: &Counted, parameters: &Parameters, is_client: bool) -> Results {
    let elapsed_s = counted.elapsed.as_secs_f64();
    let percent = |time: Duration| 100.0 * time.as_secs_f64() / elapsed_s.max(1e-9);
    let is_udp = parameters.protocol == Protocol::Udp;
    let sends = |stream: &StreamCount| is_up(stream.stream_id, parameters) == is_client;
    let streams = counted.streams.iter().map(|count| {
        let (udp, omitted) = (count.udp.unwrap_or_default(), count.omitted);
        StreamResult {
            id: count.stream_id,
            bytes: count.bytes,
            retransmissions: count.tcp.as_ref().filter(|_| sends(count)).map(|tcp| tcp.retransmissions),
            jitter_s: udp.jitter_ms / 1000.0,
            errors: udp.lost + omitted.lost,
            omitted_errors: Some(omitted.lost),
            packets: udp.sent + omitted.sent,
            omitted_packets: Some(omitted.sent),
            begin_s: begin_s(count.silent, elapsed_s),
            end_s: elapsed_s,
        }
    });
    let extension = counted.streams.iter().map(|count| ExtensionStream {
        tcp: count.tcp.clone(),
        out_of_order: count.udp.unwrap_or_default().out_of_order,
        answer_bytes: count.answer_bytes,
    });
    Results {
        cpu_percent: percent(counted.cpu.0 + counted.cpu.1),
        cpu_user_percent: percent(counted.cpu.0),
        cpu_system_percent: percent(counted.cpu.1),
        sender_has_retransmits: match counted.streams.iter().any(sends) {
            true if is_udp => 0,
            true => 1,
            false => -1,
        },
        congestion: counted.streams.first().and_then(|s| s.tcp.as_ref()?.congestion.clone()),
        streams: streams.collect(),
        flashmob: Some(Extension { version: env!("CARGO_PKG_VERSION").into(), streams: extension.collect() }),
    }
}

/// When a receiver's time begins: with the first datagram that arrived, because a path's delay is no time of transfer. At most half of the time is left out:
/// one datagram at the very end is no rate.
fn begin_s(silent: Duration, elapsed_s: f64) -> f64 {
    silent.as_secs_f64().min(elapsed_s / 2.0)
}

/// Upward streams come first.
pub(super) fn is_up(id: u32, parameters: &Parameters) -> bool {
    match parameters.direction {
        Direction::Up => true,
        Direction::Down => false,
        Direction::Both => (0..parameters.streams as usize).any(|at| super::protocol::stream_id(at) == id),
    }
}

/// One repetition, from the client's counts and the server's results, if any.
pub(super) fn repetition(counted: &Counted, peer: Option<&Results>, parameters: &Parameters) -> Repetition {
    let elapsed_s = counted.elapsed.as_secs_f64();
    let sides: Vec<Sides> = counted.streams.iter().enumerate().map(|(at, own)| Sides::of(at, own, peer)).collect();
    let streams: Vec<Stream> = sides.iter().map(|sides| sides.stream(parameters)).collect();
    let mut flows: Vec<Flow> = [Direction::Up, Direction::Down]
        .into_iter()
        .filter_map(|direction| flow(direction, &streams, &sides, elapsed_s))
        .collect();
    let exchange = parameters.messages.map(|_| {
        let requests = counted.latencies.len();
        flows.push(answers(&sides, elapsed_s));
        Exchange {
            requests,
            requests_per_second: requests as f64 / elapsed_s.max(1e-9),
            latency_ns: Latency::new(&counted.latencies),
        }
    });
    // Its share of a processor is of its whole time.
    let whole_s = |peer: &StreamResult| Some(peer.end_s).filter(|s| s.is_finite());
    let peer_elapsed_s = sides.iter().filter_map(|s| whole_s(s.peer.as_ref()?)).fold(0.0, f64::max);
    Repetition {
        begin_s: 0.0,
        elapsed_s,
        peer: peer.map_or_else(
            || "unknown".into(),
            |peer| peer.flashmob.as_ref().map_or_else(|| "iperf3".into(), |e| format!("flashmob {}", e.version)),
        ),
        flows,
        streams,
        intervals: Vec::new(),
        exchange,
        cpu_s: (counted.cpu.0 + counted.cpu.1).as_secs_f64(),
        peer_cpu_s: peer.filter(|_| peer_elapsed_s > 0.0).map(|peer| peer.cpu_percent / 100.0 * peer_elapsed_s),
        lateness: None,
        is_void: peer.is_none(),
    }
}

/// The counts of both ends for one stream.
struct Sides {
    index: usize,
    own: StreamCount,
    peer: Option<StreamResult>,
    extension: Option<ExtensionStream>,
}

impl Sides {
    fn of(index: usize, own: &StreamCount, peer: Option<&Results>) -> Sides {
        // An iperf3 with other stream numbers still has them in order.
        let theirs = peer.and_then(|p| p.stream(own.stream_id).or_else(|| p.streams.get(index)));
        let extension = peer.and_then(|p| p.flashmob.as_ref()?.streams.get(index));
        Sides { index, own: own.clone(), peer: theirs.cloned(), extension: extension.cloned() }
    }

    fn stream(&self, parameters: &Parameters) -> Stream {
        let up = is_up(self.own.stream_id, parameters);
        let theirs = self.peer.as_ref().map_or(0, |peer| peer.bytes);
        let own_tcp = self.own.tcp.clone();
        let peer_tcp = self.extension.as_ref().and_then(|e| e.tcp.clone());
        let surplus = |bytes: u64| if planted::is(Bug::BytesOvercounted) { bytes / 20 } else { 0 };
        let (own, theirs) = (self.own.bytes + surplus(self.own.bytes), theirs + surplus(theirs));
        let (sent_bytes, received_bytes) = if up { (own, theirs) } else { (theirs, own) };
        let (sender, receiver) = if up { (own_tcp, peer_tcp) } else { (peer_tcp, own_tcp) };
        Stream {
            id: self.index as u32 + 1,
            direction: if up { Direction::Up } else { Direction::Down },
            sent_bytes,
            received_bytes,
            sender,
            receiver,
            udp: self.own.udp.map(|own| self.udp(own, up, parameters)),
        }
    }

    /// The sender knows how many it sent, the receiver how many arrived.
    fn udp(&self, own: Udp, up: bool, parameters: &Parameters) -> Udp {
        let Some(peer) = &self.peer else { return own };
        let all = peer.packets.saturating_sub(peer.omitted_packets.unwrap_or(0));
        // Versions of iperf3 that do not report omitted packets include them in the packets, but not in the bytes.
        let is_untold = peer.omitted_packets.is_none() && parameters.omit_s > 0;
        let sent = if is_untold { peer.bytes / u64::from(parameters.block_bytes.max(1)) } else { all };
        let counted = if up {
            Udp {
                sent: own.sent,
                lost: peer.errors.saturating_sub(peer.omitted_errors.unwrap_or(0)),
                out_of_order: self.extension.as_ref().map_or(0, |e| e.out_of_order),
                jitter_ms: 1000.0 * peer.jitter_s,
            }
        } else {
            Udp { sent: sent.max(own.sent), ..own }
        };
        if parameters.bytes.is_none() {
            return counted;
        }
        // The receiver does not know of losses after the last arrival; here none is in flight any more.
        let highest = if up { all } else { own.sent };
        Udp { lost: counted.sent.saturating_sub(highest.saturating_sub(counted.lost)), ..counted }
    }
}

fn flow(direction: Direction, streams: &[Stream], sides: &[Sides], elapsed_s: f64) -> Option<Flow> {
    let of: Vec<(&Stream, &Sides)> = streams.iter().zip(sides).filter(|(s, _)| s.direction == direction).collect();
    if of.is_empty() {
        return None;
    }
    let peer_s = of.iter().filter_map(|(_, s)| s.peer.as_ref()?.elapsed_s()).fold(0.0, f64::max);
    let peer_s = if peer_s > 0.0 { peer_s } else { elapsed_s };
    let (sent_s, received_s) = if direction == Direction::Up { (elapsed_s, peer_s) } else { (peer_s, elapsed_s) };
    let sum = |what: fn(&Stream) -> u64| of.iter().map(|(stream, _)| what(stream)).sum::<u64>();
    let (sent_bytes, received_bytes) = (sum(|s| s.sent_bytes), sum(|s| s.received_bytes));
    let retransmissions = of.iter().map(|(stream, sides)| match (&stream.sender, &sides.peer) {
        (Some(sender), _) => Some(sender.retransmissions),
        (None, Some(peer)) if direction == Direction::Down => peer.retransmissions,
        (None, _) => None,
    });
    let udp: Vec<Udp> = of.iter().filter_map(|(stream, _)| stream.udp).collect();
    Some(Flow {
        direction,
        sent_bytes,
        received_bytes,
        sent_bits_per_second: 8.0 * sent_bytes as f64 / sent_s.max(1e-9),
        received_bits_per_second: 8.0 * received_bytes as f64 / received_s.max(1e-9),
        retransmissions: if udp.is_empty() { retransmissions.sum() } else { None },
        udp: (!udp.is_empty()).then(|| Udp {
            sent: udp.iter().map(|u| u.sent).sum(),
            lost: udp.iter().map(|u| u.lost).sum(),
            out_of_order: udp.iter().map(|u| u.out_of_order).sum(),
            jitter_ms: udp.iter().map(|u| u.jitter_ms).sum::<f64>() / udp.len() as f64,
        }),
    })
}

/// The answers of messages, which use the same streams in the other direction.
fn answers(sides: &[Sides], elapsed_s: f64) -> Flow {
    let received_bytes = sides.iter().map(|s| s.own.answer_bytes).sum();
    let sent_bytes = sides.iter().map(|s| s.extension.as_ref().map_or(0, |e| e.answer_bytes)).sum();
    let retransmissions = sides.iter().map(|s| Some(s.extension.as_ref()?.tcp.as_ref()?.retransmissions));
    Flow {
        direction: Direction::Down,
        sent_bytes,
        received_bytes,
        sent_bits_per_second: 8.0 * sent_bytes as f64 / elapsed_s.max(1e-9),
        received_bits_per_second: 8.0 * received_bytes as f64 / elapsed_s.max(1e-9),
        retransmissions: retransmissions.sum(),
        udp: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_s_time_begins_with_the_first_datagram() {
        let after_ms = |ms| begin_s(Duration::from_millis(ms), 1.0);
        assert_eq!([0, 128, 500, 501, 5_000].map(after_ms), [0.0, 0.128, 0.5, 0.5, 0.5]);
    }

    #[test]
    fn datagrams_that_are_lost_behind_the_last_that_came_are_lost() {
        let ended = |text: &str, highest: u64| {
            let own = Udp { sent: highest, lost: 1, out_of_order: 0, jitter_ms: 0.0 };
            let peer = StreamResult { packets: 160, ..StreamResult::default() };
            let (omitted, tcp) = (Udp::default(), None);
            let own = StreamCount {
                stream_id: 1,
                silent: Duration::ZERO,
                bytes: 0,
                answer_bytes: 0,
                tcp,
                udp: Some(own),
                omitted,
            };
            let sides = Sides { index: 0, own, peer: Some(peer), extension: None };
            let parameters = Parameters::parse(text.as_bytes()).unwrap();
            let udp = sides.stream(&parameters).udp.unwrap();
            (udp.sent, udp.lost)
        };
        assert_eq!(ended(r#"{"udp":true,"reverse":true,"num":160000,"len":1000}"#, 6), (160, 155), "five came");
        assert_eq!(ended(r#"{"udp":true,"reverse":true,"num":160000,"len":1000}"#, 160), (160, 1));
        assert_eq!(ended(r#"{"udp":true,"num":160000,"len":1000}"#, 200), (200, 40), "the receiver is the other end");
        assert_eq!(ended(r#"{"udp":true,"reverse":true,"time":1}"#, 6), (160, 1), "they may be under way");
    }
}
