//! A sender, a path and a receiver, simple enough that it is known what holds the sender back; seen from either end.

use std::collections::VecDeque;

use super::{MS, Tcp};

/// Data of a full packet: 1,460 bytes less the timestamps.
pub const FULL_BYTES: i64 = 1448;

/// A flow with a planted cause.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// Both ways together.
    pub rtt_ns: i64,
    /// From the start of one full packet to that of the next on the path.
    pub packet_ns: i64,
    /// What the receiver takes.
    pub window_bytes: i64,
    /// What the sender keeps under way at most.
    pub sender_bytes: i64,
    /// The congestion window does not grow beyond that.
    pub network_bytes: i64,
    /// Of so many packets one is lost; 0 is none.
    pub loses_one_of: u64,
    /// The program writes so much, so often; 0 is all the time.
    pub write_bytes: i64,
    pub write_each_ns: i64,
    pub has_stamps: bool,
}

impl Default for Plant {
    fn default() -> Plant {
        Plant {
            rtt_ns: 16 * MS,
            packet_ns: MS / 5,
            window_bytes: 1 << 20,
            sender_bytes: 1 << 20,
            network_bytes: 1 << 20,
            loses_one_of: 0,
            write_bytes: 0,
            write_each_ns: 0,
            has_stamps: true,
        }
    }
}

/// What a capture holds near the sender, and near the receiver.
pub struct Captured {
    pub near_sender: Vec<(i64, Vec<u8>)>,
    pub near_receiver: Vec<(i64, Vec<u8>)>,
}

/// Something that arrives.
#[derive(Clone, Copy, Debug)]
struct Packet {
    at_ns: i64,
    begin: i64,
    end: i64,
    stamp: u32,
}

/// Steps of a fifth of a millisecond: the path's packets, without anything finer.
const STEP_NS: i64 = MS / 20;
const SCALE: u8 = 7;

/// Plays it for so long.
pub fn play(plant: &Plant, time_ns: i64) -> Captured {
    let mut captured = Captured { near_sender: Vec::new(), near_receiver: Vec::new() };
    let half = plant.rtt_ns / 2;
    let stamps = |now_ns: i64, echoed: u32| plant.has_stamps.then_some(((now_ns / MS) as u32 + 1, echoed));
    let tcp = |is_from_server| Tcp { is_from_server, window: 65_535, ..Tcp::default() };
    let mut put = |sent_ns: i64, is_data: bool, arrived_ns: Option<i64>, bytes: Vec<u8>| {
        let (sender_ns, receiver_ns) = if is_data { (Some(sent_ns), arrived_ns) } else { (arrived_ns, Some(sent_ns)) };
        captured.near_sender.extend(sender_ns.map(|at| (at, bytes.clone())));
        captured.near_receiver.extend(receiver_ns.map(|at| (at, bytes)));
    };
    let opening = |is_from_server, acknowledgement| Tcp {
        is_syn: true,
        window_scale: Some(SCALE),
        acknowledgement,
        stamps: stamps(0, 0),
        ..tcp(is_from_server)
    };
    put(0, true, Some(half), opening(false, None).ethernet());
    put(half, false, Some(2 * half), opening(true, Some(1)).ethernet());
    let first = Tcp { sequence: 1, acknowledgement: Some(1), stamps: stamps(0, 0), window: 512, ..tcp(false) };
    put(2 * half, true, Some(3 * half), first.ethernet());

    let window = (plant.window_bytes >> SCALE) as u16;
    let (mut next, mut acknowledged, mut congestion) = (1_i64, 1_i64, 10 * FULL_BYTES);
    let (mut under_way, mut back) = (VecDeque::<Packet>::new(), VecDeque::<Packet>::new());
    let (mut path_free_ns, mut sent, mut echoed) = (0, 0_u64, 0);
    let mut lost: Option<(i64, i64)> = None;
    let mut received: i64 = 1;
    let mut beyond: Vec<(i64, i64)> = Vec::new();
    let (mut unanswered, mut answer_ns) = (0, i64::MAX);
    let mut now_ns = 2 * half;
    while now_ns < time_ns {
        now_ns += STEP_NS;
        // The receiver.
        let mut answers = Vec::new();
        while let Some(packet) = under_way.front().copied().filter(|p| p.at_ns <= now_ns) {
            under_way.pop_front();
            if packet.begin > received {
                beyond.push((packet.begin, packet.end));
                answers.push((received, packet.stamp));
                continue;
            }
            let was_beyond = !beyond.is_empty();
            received = received.max(packet.end);
            beyond.sort_unstable();
            while let Some(&(begin, end)) = beyond.first().filter(|(begin, _)| *begin <= received) {
                debug_assert!(begin <= received);
                received = received.max(end);
                beyond.remove(0);
            }
            unanswered += 1;
            answer_ns = answer_ns.min(now_ns + 10 * MS);
            if unanswered >= 2 || was_beyond {
                answers.push((received, packet.stamp));
            }
        }
        if answers.is_empty() && now_ns >= answer_ns {
            answers.push((received, (now_ns / MS) as u32));
        }
        for (number, stamp) in answers {
            (unanswered, answer_ns) = (0, i64::MAX);
            let answer = Tcp {
                sequence: 1,
                acknowledgement: Some(number as u32),
                window,
                stamps: stamps(now_ns, stamp),
                ..tcp(true)
            };
            put(now_ns, false, Some(now_ns + half), answer.ethernet());
            back.push_back(Packet { at_ns: now_ns + half, begin: 0, end: number, stamp: (now_ns / MS) as u32 + 1 });
        }
        // The sender.
        while let Some(answer) = back.front().copied().filter(|p| p.at_ns <= now_ns) {
            back.pop_front();
            echoed = answer.stamp;
            if answer.end > acknowledged {
                congestion = (congestion + answer.end - acknowledged).min(plant.network_bytes);
                acknowledged = answer.end;
            }
        }
        let written = match plant.write_bytes {
            0 => i64::MAX / 2,
            bytes => 1 + bytes * (1 + (now_ns - 2 * half) / plant.write_each_ns),
        };
        let mut again = None;
        if let Some((begin, at_ns)) = lost.filter(|(_, at_ns)| now_ns >= *at_ns) {
            // Asked for by then, as long as something follows.
            debug_assert!(at_ns <= now_ns);
            again = Some(begin);
            lost = None;
            congestion = (congestion / 2).max(4 * FULL_BYTES);
        }
        loop {
            let begin = again.unwrap_or(next);
            let limit = plant.window_bytes.min(plant.sender_bytes).min(congestion);
            let room = acknowledged + limit - begin;
            let bytes = FULL_BYTES.min(written - begin);
            if again.is_none() && (bytes <= 0 || room < bytes) {
                break;
            }
            let end = begin + bytes;
            sent += 1;
            let is_lost =
                plant.loses_one_of > 0 && again.is_none() && lost.is_none() && sent.is_multiple_of(plant.loses_one_of);
            let data = Tcp {
                sequence: begin as u32,
                acknowledgement: Some(1),
                window: 512,
                data_bytes: bytes as usize,
                is_pushed: end == written,
                stamps: stamps(now_ns, echoed),
                ..tcp(false)
            };
            path_free_ns = path_free_ns.max(now_ns) + plant.packet_ns;
            let arrives_ns = path_free_ns + half;
            if is_lost {
                lost = Some((begin, now_ns + plant.rtt_ns + 3 * MS));
                put(now_ns, true, None, data.ethernet());
            } else {
                put(now_ns, true, Some(arrives_ns), data.ethernet());
                let stamp = (now_ns / MS) as u32 + 1;
                under_way.push_back(Packet { at_ns: arrives_ns, begin, end, stamp });
            }
            next = next.max(end);
            if again.take().is_some() {
                break;
            }
        }
    }
    // In the order in which they passed.
    captured.near_sender.sort_by_key(|(at, _)| *at);
    captured.near_receiver.sort_by_key(|(at, _)| *at);
    captured
}
