//! Output while it runs, as iperf3's: a line for each stream and interval, and their sum.

use std::fmt::Write;

use flashmob_results::net::{Direction, Flow, Interval, Parameters, Protocol, Repetition, TcpEnd, Udp};
use flashmob_text::Bytes;
pub use flashmob_text::bits_per_second as bits;

/// The heading above the lines.
pub fn heading(parameters: &Parameters) -> String {
    let mut line = format!("[ ID]{} Interval           Transfer     Bitrate      ", way_title(parameters));
    line.push_str(match parameters.protocol {
        Protocol::Udp => "  Jitter    Lost/Total Datagrams",
        Protocol::Tcp | Protocol::Messages => "   Retr       Cwnd        RTT",
    });
    line
}

fn way_title(parameters: &Parameters) -> &'static str {
    if parameters.direction == Direction::Both { "[Way ]" } else { "" }
}

fn way(parameters: &Parameters, direction: Direction) -> &'static str {
    match direction {
        _ if parameters.direction != Direction::Both => "",
        Direction::Up => "[up  ]",
        _ => "[down]",
    }
}

/// The lines of all streams for one interval.
pub fn intervals(all: &[Interval], parameters: &Parameters) -> String {
    let mut text = String::new();
    for interval in all {
        let is_sender = interval.direction == Direction::Up;
        let id = format!("{:3}", interval.stream);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}{}{}",
            begin(&id, parameters, interval.direction, interval.begin_s, interval.end_s, interval.bytes),
            match (&interval.udp, &interval.tcp) {
                (Some(udp), _) => datagrams(udp, is_sender),
                (None, Some(tcp)) => connection(tcp, is_sender),
                (None, None) => String::new(),
            },
            if interval.omitted { "  (omitted)" } else { "" }
        );
    }
    for direction in [Direction::Up, Direction::Down] {
        let of: Vec<&Interval> = all.iter().filter(|i| i.direction == direction).collect();
        if let (Some(first), true) = (of.first(), of.len() > 1) {
            let bytes = of.iter().map(|i| i.bytes).sum();
            let line = begin("SUM", parameters, direction, first.begin_s, first.end_s, bytes);
            let retransmissions: u64 = of.iter().filter_map(|i| i.tcp.as_ref()).map(|t| t.retransmissions).sum();
            let udp = of.iter().filter_map(|i| i.udp).reduce(|a, b| Udp {
                sent: a.sent + b.sent,
                lost: a.lost + b.lost,
                out_of_order: a.out_of_order + b.out_of_order,
                jitter_ms: a.jitter_ms.max(b.jitter_ms),
            });
            let rest = match udp {
                Some(udp) => datagrams(&udp, direction == Direction::Up),
                None if direction == Direction::Up => format!(" {retransmissions:6}"),
                None => String::new(),
            };
            let _ = writeln!(text, "{line}{rest}");
        }
    }
    text
}

fn begin(id: &str, p: &Parameters, direction: Direction, begin_s: f64, end_s: f64, bytes: u64) -> String {
    let rate = 8.0 * bytes as f64 / (end_s - begin_s).max(1e-9);
    format!("[{id}]{} {begin_s:6.2}-{end_s:<6.2} s  {:>11}  {:>14}", way(p, direction), transfer(bytes), bits(rate))
}

/// A sender's TCP state; of a receiver's only the round-trip time is meaningful.
fn connection(tcp: &TcpEnd, is_sender: bool) -> String {
    if is_sender {
        let window = transfer(tcp.congestion_window_bytes);
        format!(" {:6} {window:>11} {:7.2} ms", tcp.retransmissions, tcp.rtt_ms)
    } else {
        String::new()
    }
}

fn datagrams(udp: &Udp, is_sender: bool) -> String {
    if is_sender {
        return format!("  {:>9}  {}", "", udp.sent);
    }
    format!("  {:6.3} ms  {}/{} ({:.2}%)", udp.jitter_ms, udp.lost, udp.sent, 100.0 * udp.lost_fraction())
}

/// The sums of a repetition: the counts of each end.
pub fn sums(repetition: &Repetition, parameters: &Parameters) -> String {
    let mut text = String::from("- - - - - - - - - - - - - - - - - - - - - - - - -\n");
    let s = repetition.elapsed_s;
    if repetition.streams.len() > 1 && repetition.exchange.is_none() {
        for stream in &repetition.streams {
            let id = format!("{:3}", stream.id);
            let sent = begin(&id, parameters, stream.direction, 0.0, s, stream.sent_bytes);
            let received = begin(&id, parameters, stream.direction, 0.0, s, stream.received_bytes);
            let retransmissions = stream.sender.as_ref().map_or(String::new(), |t| format!(" {:6}", t.retransmissions));
            let lost = stream.udp.map_or(String::new(), |udp| datagrams(&udp, false));
            let _ = writeln!(text, "{sent}{retransmissions:7}  sender\n{received}{lost:7}  receiver");
        }
    }
    let id = if repetition.streams.len() > repetition.flows.len() { "SUM" } else { "   " };
    for flow in &repetition.flows {
        flow_sums(&mut text, id, flow, parameters, s);
    }
    for (title, tcp, is_sender) in ends(repetition) {
        let _ = writeln!(text, "{title}: {}", end(tcp, is_sender));
    }
    if let Some(exchange) = &repetition.exchange {
        let ms = |percent| exchange.latency_ns.percentile_ns(percent).unwrap_or(0) as f64 / 1e6;
        let _ = writeln!(
            text,
            "{} replies, {:.0}/s; latency p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, max {:.3} ms",
            exchange.requests,
            exchange.requests_per_second,
            ms(50.0),
            ms(99.0),
            ms(99.9),
            exchange.latency_ns.max as f64 / 1e6
        );
    }
    let peer = repetition.peer_cpu_s.map_or(String::new(), |cpu| format!(", {cpu:.2} s at the other end"));
    let other =
        if repetition.peer == "unknown" { String::new() } else { format!("; the other end is {}", repetition.peer) };
    let _ = writeln!(text, "CPU time: {:.2} s at this end{peer}{other}", repetition.cpu_s);
    text
}

fn flow_sums(text: &mut String, id: &str, flow: &Flow, parameters: &Parameters, s: f64) {
    let line = |bytes: u64, rate: f64| {
        format!(
            "[{id}]{} {:6.2}-{s:<6.2} s  {:>11}  {:>14}",
            // Answers of messages go down, whatever the direction.
            if parameters.messages.is_some() {
                if flow.direction == Direction::Up { "[asks]" } else { "[says]" }
            } else {
                way(parameters, flow.direction)
            },
            0.0,
            transfer(bytes),
            bits(rate)
        )
    };
    let retransmissions = flow.retransmissions.map_or(String::new(), |count| format!(" {count:6}"));
    let _ = writeln!(text, "{}{retransmissions:7}  sender", line(flow.sent_bytes, flow.sent_bits_per_second));
    let lost = flow.udp.map_or(String::new(), |udp| {
        let order = if udp.out_of_order > 0 { format!(", {} out of order", udp.out_of_order) } else { String::new() };
        format!("{}{order}", datagrams(&udp, false))
    });
    let _ = writeln!(text, "{}{lost:7}  receiver", line(flow.received_bytes, flow.received_bits_per_second));
}

/// Each end of each stream with data; of many streams only the first, as an example.
fn ends(repetition: &Repetition) -> Vec<(String, &TcpEnd, bool)> {
    let mut ends = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        let mut of = repetition.streams.iter().filter(|s| s.direction == direction);
        if let Some(stream) = of.next() {
            let which = if of.next().is_some() { format!(" of stream {}", stream.id) } else { String::new() };
            ends.extend(stream.sender.as_ref().map(|tcp| (format!("sender{which}"), tcp, true)));
            ends.extend(stream.receiver.as_ref().map(|tcp| (format!("receiver{which}"), tcp, false)));
        }
    }
    ends
}

fn end(tcp: &TcpEnd, is_sender: bool) -> String {
    let mut parts = Vec::new();
    if is_sender {
        let congestion = tcp.congestion.as_deref().unwrap_or("unknown");
        parts.push(format!("{congestion}, cwnd {}", transfer(tcp.congestion_window_bytes)));
        parts.push(format!("RTT {:.3} ms (+-{:.3}, min {:.3})", tcp.rtt_ms, tcp.rtt_variation_ms, tcp.min_rtt_ms));
        parts.push(format!("delivery rate {}", bits(tcp.delivery_rate_bits_per_second)));
        parts.push(format!(
            "peer's window {} (max {})",
            transfer(tcp.send_window_bytes),
            transfer(tcp.send_window_max_bytes)
        ));
        parts.push(format!(
            "busy {:.2} s, of which limited by that window {:.2} s, by its send buffer {:.2} s",
            tcp.busy_s, tcp.receiver_limited_s, tcp.send_buffer_limited_s
        ));
    } else {
        if tcp.receive_window_bytes > 0 {
            parts.push(format!("advertised window {}", transfer(tcp.receive_window_bytes)));
        }
        parts.push(format!("receive buffer {}", transfer(tcp.receive_buffer_bytes)));
    }
    parts.push(format!(
        "{} packets sent, {} received, {:.0} B per data packet",
        tcp.packets_sent, tcp.packets_received, tcp.packet_bytes
    ));
    parts.join("; ")
}

/// Bytes, in iperf3's binary units.
pub fn transfer(bytes: u64) -> String {
    match Bytes(bytes).to_string() {
        text if text.ends_with("iB") => text.replace("iB", "Bytes"),
        text => text.replace('B', "Bytes"),
    }
}
