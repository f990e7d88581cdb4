//! What a cell carries if there is always something to carry: the limit for every program on it.

use std::time::Duration;

use flashmob_core::units::Time;

use super::{Air, Attachment, Fate, Frame, Port, Profile};

/// Frames that wait for one node at once: more than one transmission of most airs.
const WAITING_MAX: u32 = 128;
/// Frames that wait in one queue of a station, or for one receiver, and at the access point: what the built-in airs have room for.
const QUEUE_FRAMES: u32 = 512;
const ACCESS_POINT_FRAMES: u32 = 2048;
/// Frames that may be lost one after the other.
const REFUSED_MAX: u32 = 1_000_000;

/// Which way the frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From each node to the gateway, as the answers of reads.
    ToGateway,
    /// From the gateway to each node, as writes.
    ToNodes,
}

/// Streams between a gateway and its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// How the gateway is attached; nodes are stations.
    pub gateway: Attachment,
    /// How many nodes there are.
    pub nodes: u32,
    /// Which way.
    pub direction: Direction,
    /// Size of a frame: [`Frame::len_bytes`].
    pub frame_bytes: u32,
}

/// Frames delivered each second in this much virtual time, after a tenth of it. Nothing is acknowledged but by the air itself. 0 where nothing passes, as
/// where queues have less room than those of the built-in airs.
#[must_use]
pub fn streamed(profile: &Profile, streams: &Streams, time: Duration, seed: u64) -> f64 {
    let Streams { gateway, nodes, direction, frame_bytes } = *streams;
    let mut ports = vec![Attachment::Wireless; nodes as usize + 1];
    ports[0] = gateway;
    let mut air = Air::new(profile, &ports, seed);
    // Those of a wireless gateway, both ways, wait in one queue somewhere.
    let of_queue = match (gateway, direction) {
        (Attachment::Wired, Direction::ToGateway) => QUEUE_FRAMES,
        (Attachment::Wired, Direction::ToNodes) => ACCESS_POINT_FRAMES / nodes.max(1),
        (Attachment::Wireless, _) => QUEUE_FRAMES / nodes.max(1),
    };
    let waiting = WAITING_MAX.min(of_queue).max(1);
    let frame = |node: u32| {
        let (from, to) = match direction {
            Direction::ToGateway => (Port(node), Port(0)),
            Direction::ToNodes => (Port(0), Port(node)),
        };
        Frame { id: u64::from(node), from, to: Some(to), len_bytes: frame_bytes }
    };
    for node in 1..=nodes {
        (0..waiting).for_each(|_| air.submit(Time::default(), frame(node)));
    }
    let (begin, end) = (time / 10, time + time / 10);
    let (mut delivered, mut refused, mut outcomes) = (0_u64, 0, Vec::new());
    while let Some(now) = air.next_event().filter(|now| now.as_nanos() < end.as_nanos() as u64) {
        air.advance(now, &mut outcomes);
        for outcome in outcomes.drain(..) {
            let counts = outcome.fate == Fate::Delivered && now.as_nanos() >= begin.as_nanos() as u64;
            delivered += u64::from(counts);
            // A frame that has no room anywhere would be refused again and again at the same time.
            refused = if outcome.fate == Fate::Delivered { 0 } else { refused + 1 };
            if refused > REFUSED_MAX {
                return 0.0;
            }
            // The id is the node's port.
            air.submit(now, frame(outcome.id as u32));
        }
    }
    delivered as f64 / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_per_s(air: &str, gateway: Attachment, nodes: u32, direction: Direction) -> f64 {
        let streams = Streams { gateway, nodes, direction, frame_bytes: 1514 };
        streamed(&Profile::parse(air).unwrap(), &streams, Duration::from_secs(2), 7)
    }

    #[test]
    fn nine_stations_stream_what_the_document_says() {
        // docs/models.md: 3,982, 17,489, 47,078.
        for (air, told) in [("11n-2014", 3982.0), ("11n", 17_489.0), ("11ac", 47_078.0)] {
            let found = frames_per_s(air, Attachment::Wired, 9, Direction::ToGateway);
            assert!((found / told - 1.0).abs() < 0.03, "{air}: {found}");
        }
    }

    #[test]
    fn where_nothing_passes_it_ends() {
        for air in ["11n,queue=1,ap-queue=1", "wan,loss=100%"] {
            let found = frames_per_s(air, Attachment::Wired, 8, Direction::ToGateway);
            assert!(found < 20_000.0, "{air}: {found}");
        }
    }

    #[test]
    fn a_wireless_gateway_halves_it_and_the_access_point_alone_does_not_collide() {
        for direction in [Direction::ToGateway, Direction::ToNodes] {
            let [wired, wireless] =
                [Attachment::Wired, Attachment::Wireless].map(|gateway| frames_per_s("11n", gateway, 8, direction));
            assert!((0.4..0.65).contains(&(wireless / wired)), "{direction:?}: {wireless} of {wired}");
        }
        let [up, down] = [Direction::ToGateway, Direction::ToNodes]
            .map(|direction| frames_per_s("11n", Attachment::Wired, 8, direction));
        assert!(down > up, "{down}, {up}");
    }
}
