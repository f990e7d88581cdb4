//! Captures that break a premise: figures stay near those of the whole capture, and the packet that breaks it is named.

use flashmob_results::capture::{Flow, Premise};

use crate::testing::flow::{FULL_BYTES, Plant, play};
use crate::testing::{MS, Tcp, pcapng};
use crate::{Analyzer, Limits, reader::CaptureReader};

type Frames = Vec<(i64, Vec<u8>)>;

fn flows(frames: &Frames) -> Vec<Flow> {
    let bytes = pcapng(frames);
    let mut reader = CaptureReader::open(bytes.as_slice()).unwrap();
    let mut analyzer = Analyzer::new(Limits::default());
    while reader.next_with(|frame| analyzer.take(&frame)) {}
    analyzer.finish().flows
}

fn flow(frames: &Frames) -> Flow {
    let mut flows = flows(frames);
    assert_eq!(flows.len(), 1);
    flows.remove(0)
}

fn premises(flow: &Flow) -> Vec<(Premise, Option<u64>, u64)> {
    flow.up.doubts.iter().map(|doubt| (doubt.premise, doubt.packet, doubt.count)).collect()
}

fn captured() -> Frames {
    let plant = Plant { window_bytes: 20 * FULL_BYTES, ..Plant::default() };
    // Long after 1970, so that no clock steps back before it.
    play(&plant, 1000 * MS).near_sender.into_iter().map(|(at, data)| (at + 1_000_000 * MS, data)).collect()
}

#[test]
fn nothing_is_doubtful_about_a_whole_capture() {
    for loses_one_of in [0, 50] {
        let found = play(&Plant { loses_one_of, ..Plant::default() }, 1000 * MS);
        for frames in [found.near_sender, found.near_receiver] {
            let flow = flow(&frames);
            assert_eq!((premises(&flow), flow.up.missing_bytes, flow.doubts.len()), (vec![], 0, 0), "{loses_one_of}");
        }
    }
}

#[test]
fn a_clock_that_steps_back_is_named_and_no_round_trip_is_negative() {
    let whole = captured();
    let rate = flow(&whole).up.bits_per_second;
    for step_ms in [2, 30, 500, 100_000] {
        let mut frames = whole.clone();
        // A step that is shorter than the pause before it shows nowhere.
        let is_close = |at: &usize| whole[*at].0 - whole[at - 1].0 < MS / 2;
        let half = (frames.len() / 2..).find(is_close).unwrap();
        frames[half..].iter_mut().for_each(|(at, _)| *at -= step_ms * MS);
        // The first packet that is earlier than the one before it by more than the disorder.
        let flow = flow(&frames);
        let [(Premise::Clock, Some(packet), 1)] = premises(&flow)[..] else { panic!("{:?}", flow.up.doubts) };
        assert_eq!(packet, half as u64 + 1, "{step_ms}");
        assert!((flow.up.bits_per_second / rate - 1.0).abs() < 0.03, "{step_ms}: {}", flow.up.bits_per_second);
        let rtt = flow.up.rtt_ms.unwrap();
        assert!(rtt.min > 10.0 && rtt.max < 30.0, "{step_ms}: {rtt:?}");
        assert!(flow.up.is_doubtful("rtt_ms") && flow.is_doubtful("elapsed_s") && !flow.up.is_doubtful("bytes"));
        assert!(flow.up.series.packets.is_sorted_by(|a, b| a.0 <= b.0));
    }
}

#[test]
fn a_step_while_another_connection_is_silent_is_its_too() {
    let mut frames = captured();
    // Another connection sends before the step and after it.
    let other = |sequence| {
        let mut data =
            Tcp { sequence, data_bytes: 10, acknowledgement: Some(1), window: 9, ..Tcp::default() }.ethernet();
        data[35] = 77;
        data
    };
    let end_ns = frames.last().unwrap().0;
    frames.insert(0, (frames[0].0, other(1)));
    frames.push((end_ns - 400 * MS, frames[10].1.clone()));
    frames.push((end_ns + 900 * MS, other(11)));
    let flows = flows(&frames);
    let other = flows.iter().find(|flow| flow.client.ends_with(":40013")).unwrap();
    assert!(other.is_doubtful("elapsed_s"), "{other:?}");
}

#[test]
fn packets_that_the_capture_lost_are_counted_by_their_acknowledgements() {
    let whole = captured();
    let rate = flow(&whole).up.bits_per_second;
    let is_data = |data: &[u8]| data.len() > 1000;
    let (mut nth, mut lost) = (0, 0);
    let frames: Frames = (whole.into_iter())
        .filter(|(_, data)| {
            nth += u64::from(is_data(data));
            let is_lost = is_data(data) && nth % 5 == 0 && nth < 500;
            lost += u64::from(is_lost);
            !is_lost
        })
        .collect();
    let flow = flow(&frames);
    assert_eq!(flow.up.missing_bytes, lost * FULL_BYTES.cast_unsigned());
    let doubt = &flow.up.doubts[0];
    assert!(doubt.premise == Premise::Complete && doubt.packet.is_some() && flow.up.doubts.len() == 1, "{doubt:?}");
    assert!(flow.up.bits_per_second < rate * 0.95 && flow.up.is_doubtful("bits_per_second"));
    let told = flashmob_text::bits_per_second(rate);
    assert!(doubt.message.contains(&format!("with them the rate is {told}")), "{told}: {}", doubt.message);
    assert_eq!(flow.up.resent, 0, "what the network did not lose is not retransmitted");
}

#[test]
fn loss_that_an_empty_packet_shows_is_a_retransmission() {
    let tcp = |is_from_server, sequence, acknowledgement, data_bytes| Tcp {
        is_from_server,
        sequence,
        acknowledgement: Some(acknowledgement),
        window: 60_000,
        data_bytes,
        ..Tcp::default()
    };
    let syn = Tcp { is_syn: true, window: 60_000, ..Tcp::default() };
    let mut frames = vec![
        (0, syn.ethernet()),
        (MS / 10, Tcp { is_from_server: true, acknowledgement: Some(1), ..syn }.ethernet()),
        (20 * MS, tcp(false, 1, 1, 0).ethernet()),
    ];
    // Near the receiver: the tail of each burst is lost, and only an acknowledgement with its number shows it.
    for (burst, at) in (0..10).zip((1..).map(|n| n * 400 * MS)) {
        let begin = 1 + burst * 3000;
        let (told, answered) = (1 + burst * 50, 51 + burst * 50);
        frames.push((at, tcp(false, begin, told, 1000).ethernet()));
        frames.push((at + MS, tcp(false, begin + 1000, told, 1000).ethernet()));
        frames.push((at + 2 * MS, tcp(true, told, begin + 2000, 50).ethernet()));
        frames.push((at + 22 * MS, tcp(false, begin + 3000, answered, 0).ethernet()));
        frames.push((at + 322 * MS, tcp(false, begin + 2000, answered, 1000).ethernet()));
        frames.push((at + 323 * MS, tcp(true, answered, begin + 3000, 0).ethernet()));
    }
    let flow = flow(&frames);
    assert_eq!((flow.up.retransmissions, flow.up.resent, flow.up.unique_bytes), (10, 10, 30_000));
    assert_eq!((flow.up.missing_bytes, premises(&flow)), (0, vec![]));
}

#[test]
fn a_second_syn_ack_opens_no_second_connection() {
    let whole = captured();
    let original = flow(&whole);
    let rival = |sequence, is_from_server| Tcp {
        is_from_server,
        is_syn: true,
        sequence,
        acknowledgement: Some(1),
        window: 65_535,
        window_scale: Some(2),
        ..Tcp::default()
    };
    // Behind the client's acknowledgement, between the other SYN-ACK and that, and before both.
    for at in [3, 2, 1] {
        let mut frames = whole.clone();
        frames.insert(at, (frames[at - 1].0, rival(99_000_000, true).ethernet()));
        let flow = flow(&frames);
        let packet = if at == 1 { 3 } else { at as u64 + 1 };
        assert_eq!(premises(&flow), [(Premise::OneConnection, Some(packet), 1)], "{at}");
        let figures = |flow: &Flow| (flow.up.unique_bytes, flow.up.window_bytes, flow.up.rtt_ms, flow.has_opening);
        assert_eq!(figures(&flow), figures(&original), "{at}");
        assert!(flow.is_doubtful("opening_rtt_ms"));
    }
    // That of another SYN, which was not captured.
    let mut frames = whole.clone();
    let other = Tcp { acknowledgement: Some(5_000_000), ..rival(99_000_000, true) };
    frames.push((frames.last().unwrap().0, other.ethernet()));
    assert_eq!(flows(&frames).len(), 2);
}

#[test]
fn packets_that_were_captured_twice_count_once() {
    let mut frames = captured();
    for (at, (_, data)) in frames.iter_mut().enumerate() {
        data[18..20].copy_from_slice(&(at as u16 + 1).to_be_bytes());
    }
    let once = flow(&frames);
    let twice: Frames = frames.iter().flat_map(|(at, data)| [(*at, data.clone()), (at + 3000, data.clone())]).collect();
    let flow = flow(&twice);
    assert_eq!(flow.up.copies + flow.down.copies, frames.len() as u64);
    assert_eq!(premises(&flow), [(Premise::Once, Some(2), flow.up.copies)]);
    let figures = |flow: &Flow| {
        let way = &flow.up;
        (way.data_packets, way.bytes, way.retransmissions, way.resent, way.duplicate_acknowledgements, way.rtt_ms)
    };
    assert_eq!(figures(&flow), figures(&once));
    // Retransmissions have identifications of their own.
    let lossy = play(&Plant { loses_one_of: 30, ..Plant::default() }, 1000 * MS).near_sender;
    let numbered: Frames = (lossy.iter().zip(1_u16..))
        .map(|((at, data), number)| {
            let mut data = data.clone();
            data[18..20].copy_from_slice(&number.to_be_bytes());
            (*at, data)
        })
        .collect();
    let flow = self::flow(&numbered);
    assert!(flow.up.copies == 0 && flow.up.resent > 5, "{}", flow.up.resent);
}

#[test]
fn without_its_handshake_windows_are_doubtful() {
    let frames = captured().split_off(3);
    let flow = flow(&frames);
    assert_eq!(premises(&flow), [(Premise::Handshake, None, 0)]);
    assert!(flow.up.is_doubtful("window_bytes") && !flow.up.is_doubtful("bits_per_second"));
}

#[test]
fn of_one_direction_what_is_missing_is_told() {
    let mut frames = captured();
    frames.retain(|(_, data)| data[26..30] == crate::testing::CLIENT.0);
    assert_eq!(premises(&flow(&frames)), [(Premise::BothDirections, None, 0)]);
    let mut frames = captured();
    frames.retain(|(_, data)| data[26..30] != crate::testing::CLIENT.0);
    let flow = flow(&frames);
    assert!(flow.up.data_packets == 0 && flow.up.missing_bytes > 100_000, "{}", flow.up.missing_bytes);
    assert_eq!(flow.up.doubts[0].premise, Premise::Complete);
}

#[test]
fn data_that_end_before_the_first_acknowledgement_are_of_both_directions() {
    let request = Tcp { sequence: 100, acknowledgement: Some(500), window: 1000, data_bytes: 300, ..Tcp::default() };
    let answer =
        Tcp { is_from_server: true, sequence: 500, acknowledgement: Some(400), window: 1000, ..Tcp::default() };
    let frames = vec![(0, request.ethernet()), (40 * MS, answer.ethernet())];
    let flow = flow(&frames);
    assert_eq!(premises(&flow), [(Premise::Handshake, None, 0)]);
    assert!((flow.up.rtt_ms.unwrap().median - 40.0).abs() < 0.1 && flow.up.verdict.is_none());
}

#[test]
fn keep_alives_and_their_answers_are_no_duplicate_acknowledgements() {
    let tcp = |is_from_server: bool, sequence| Tcp {
        is_from_server,
        sequence,
        acknowledgement: Some(if is_from_server { 101 } else { 501 }),
        window: 1000,
        ..Tcp::default()
    };
    let second = 1000 * MS;
    // The capture begins between two packets, and each end sends its own, sometimes at once.
    let mut frames = Frames::new();
    for n in 0..5 {
        frames.push((n * 75 * second, tcp(false, 100).ethernet()));
        frames.push((n * 75 * second + MS, tcp(true, 501).ethernet()));
        frames.push((n * 75 * second + 20 * second, tcp(false, 100).ethernet()));
        frames.push((n * 75 * second + 20 * second, tcp(true, 500).ethernet()));
        frames.push((n * 75 * second + 20 * second + MS, tcp(false, 101).ethernet()));
        frames.push((n * 75 * second + 20 * second + MS, tcp(true, 501).ethernet()));
    }
    let flow = flow(&frames);
    assert_eq!((flow.up.duplicate_acknowledgements, flow.down.duplicate_acknowledgements), (0, 0));
    assert_eq!((flow.up.data_packets, flow.up.missing_bytes, flow.down.missing_bytes), (0, 0, 0));
}
