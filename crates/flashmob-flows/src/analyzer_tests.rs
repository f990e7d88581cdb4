//! Connections: which packets are whose, what is kept of too many, and that any packets add up.

use proptest::prelude::*;

use super::*;
use crate::testing::{MS, Tcp};

fn take(analyzer: &mut Analyzer, time_ns: i64, tcp: &Tcp, port_byte: u8) {
    let mut data = tcp.ethernet();
    // The client's port: in the one place or the other.
    let at = if tcp.is_from_server { 37 } else { 35 };
    data[at] = port_byte;
    let original_bytes = data.len() as u32;
    analyzer.take(&Frame { time_ns: Some(time_ns), link: LinkType::ETHERNET, data: &data, original_bytes });
}

fn syn(sequence: u32) -> Tcp {
    Tcp { is_syn: true, sequence, window: 1000, ..Tcp::default() }
}

fn data(sequence: u32, data_bytes: usize) -> Tcp {
    Tcp { sequence, data_bytes, acknowledgement: Some(1), window: 1000, ..Tcp::default() }
}

#[test]
fn ports_that_are_used_again_begin_a_new_connection() {
    let mut analyzer = Analyzer::new(Limits::default());
    take(&mut analyzer, 0, &syn(100), 1);
    take(&mut analyzer, MS, &syn(100), 1);
    take(&mut analyzer, 2 * MS, &data(101, 10), 1);
    take(&mut analyzer, 3 * MS, &syn(9000), 1);
    take(&mut analyzer, 4 * MS, &data(9001, 20), 1);
    take(&mut analyzer, 5 * MS, &data(9021, 5), 2);
    let flows = analyzer.finish().flows;
    let told: Vec<_> = flows.iter().map(|f| (f.number, f.up.packets, f.up.unique_bytes)).collect();
    assert_eq!(
        told,
        [(1, 2, 20), (0, 3, 10), (2, 1, 5)],
        "those with most bytes first; a SYN sent again is no new one"
    );
}

#[test]
fn of_too_many_connections_the_silent_one_is_closed() {
    for (at_once, numbers) in [(2, 4), (3, 3), (4, 3)] {
        let mut analyzer = Analyzer::new(Limits { flows_at_once: at_once, ..Limits::default() });
        for (at, port) in [1, 2, 3, 1].into_iter().enumerate() {
            take(&mut analyzer, at as i64 * MS, &data(1, 10), port);
        }
        assert_eq!(analyzer.open.len().max(1), at_once.min(3));
        let summary = analyzer.finish();
        assert_eq!((summary.flows.len(), summary.left_out), (numbers, 0), "at most {at_once}");
    }
}

#[test]
fn a_connection_that_was_open_before_the_capture_ends_where_its_ports_are_opened_again() {
    let mut analyzer = Analyzer::new(Limits::default());
    take(&mut analyzer, 0, &data(5_000_000, 10), 1);
    take(&mut analyzer, MS, &syn(100), 1);
    take(&mut analyzer, 2 * MS, &data(101, 20), 1);
    let told: Vec<_> = analyzer.finish().flows.iter().map(|f| (f.number, f.up.unique_bytes)).collect();
    assert_eq!(told, [(1, 20), (0, 10)]);
}

#[test]
fn of_very_many_connections_those_heard_last_are_kept() {
    let mut analyzer = Analyzer::new(Limits { flows_at_once: 40, ..Limits::default() });
    for at in 0..200_u8 {
        take(&mut analyzer, i64::from(at) * MS, &data(1, 10), at);
        // The first ones are never silent.
        take(&mut analyzer, i64::from(at) * MS, &data(11, 10), at % 4);
    }
    let mut numbers: Vec<_> = analyzer.open.values().map(|connection| connection.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..4).chain(164..200).collect::<Vec<_>>());
}

#[test]
fn times_that_jump_by_centuries_again_and_again_add_up_to_something() {
    let mut analyzer = Analyzer::new(Limits::default());
    for at in 0..100 {
        let time_ns = if at % 2 == 0 { i64::MIN } else { i64::MAX };
        take(&mut analyzer, time_ns, &data(1 + at * 10, 10), 1);
    }
    let flow = analyzer.finish().flows.remove(0);
    assert!(flow.elapsed_s.is_finite() && flow.up.bits_per_second.is_finite() && flow.up.verdict.is_none());
}

#[test]
fn of_too_many_to_tell_those_with_most_bytes_stay() {
    for (told, numbers) in [(1, vec![2]), (2, vec![2, 0]), (3, vec![2, 0, 1]), (4, vec![2, 0, 1])] {
        let mut analyzer = Analyzer::new(Limits { flows_told: told, ..Limits::default() });
        for (port, bytes) in [(1, 50), (2, 10), (3, 90)] {
            take(&mut analyzer, i64::from(port) * MS, &data(1, bytes), port);
        }
        let summary = analyzer.finish();
        assert_eq!(summary.flows.iter().map(|f| f.number).collect::<Vec<_>>(), numbers);
        assert_eq!(summary.left_out, 3_u64.saturating_sub(told as u64));
    }
}

#[test]
fn other_ports_are_left_out_if_asked() {
    let mut analyzer = Analyzer::new(Limits::default());
    analyzer.only_port(Some(5002));
    take(&mut analyzer, 0, &data(1, 10), 1);
    let summary = analyzer.finish();
    assert_eq!((summary.tcp_packets, summary.flows.len()), (1, 0));
}

fn any_tcp() -> impl Strategy<Value = (Tcp, u8, i64)> {
    let numbers = prop_oneof![0_u32..3000, any::<u32>()];
    let flags = (any::<bool>(), proptest::bool::weighted(0.05), proptest::bool::weighted(0.05), any::<bool>());
    let ends = (proptest::option::of(numbers.clone()), proptest::option::of((any::<u32>(), any::<u32>())), 0_u16..4);
    (numbers, flags, ends, 0_usize..200, 0_u8..3, -1_000_000_i64..20_000_000).prop_map(
        |(
            sequence,
            (is_from_server, is_syn, is_fin, is_pushed),
            (acknowledgement, stamps, window),
            data_bytes,
            port,
            gap,
        )| {
            let window_scale = is_syn.then_some(7);
            let tcp = Tcp {
                is_from_server,
                sequence,
                acknowledgement,
                is_syn,
                is_fin,
                is_pushed,
                window,
                data_bytes,
                window_scale,
                stamps,
            };
            (tcp, port, gap)
        },
    )
}

proptest! {
    #[test]
    fn any_packets_add_up(packets in proptest::collection::vec(any_tcp(), 1..200)) {
        let mut analyzer = Analyzer::new(Limits { flows_at_once: 2, ..Limits::default() });
        let mut now_ns = 0;
        for (tcp, port, gap) in &packets {
            now_ns += gap;
            take(&mut analyzer, now_ns, tcp, *port);
        }
        let summary = analyzer.finish();
        prop_assert_eq!(summary.tcp_packets, packets.len() as u64);
        let ways = || summary.flows.iter().flat_map(|flow| [&flow.up, &flow.down]);
        if summary.left_out == 0 {
            prop_assert_eq!(ways().map(|w| w.packets).sum::<u64>(), packets.len() as u64);
        }
        for way in ways() {
            prop_assert!(way.data_packets <= way.packets && way.unique_bytes <= way.bytes);
            prop_assert!(way.retransmissions + way.out_of_order <= way.data_packets && way.resent <= way.data_packets);
            prop_assert!(way.rtt_ms.as_ref().is_none_or(|q| q.count <= way.data_packets));
            prop_assert!(way.verdict.as_ref().is_none_or(|v| (0.0..=1.0).contains(&v.fraction)));
            prop_assert!(way.bits_per_second.is_finite() && way.segments_per_acknowledgement.is_finite());
            prop_assert!(way.series.packets.len() <= 2000);
        }
    }
}
