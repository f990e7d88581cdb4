//! The file of a volume's scrubs: any bytes are refused, or give what a gateway can go on with, and survive being written.

use std::time::Duration;

use flashmob_core::copies::{CHUNK_BYTES_MIN, COPIES_MAX, MapImage, Member};
use flashmob_core::gateway::{
    BAD_BLOCKS_MAX, BadBlock, CopiesSpec, ExtentSpec, Flaw, Gateway, GatewayConfig, PassKept, ScrubKept, ScrubSpec,
    VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::Time;
use flashmob_server::gateway::scrub_file::{encode, parse};

const MAP: [u8; 16] = [7; 16];
const CLOCK: u64 = 1_700_000_000;
const CHUNKS: u64 = 4;

/// A map of two nodes with a copy of each chunk each.
fn map() -> MapImage {
    let member = |number: u8| Member {
        extent_id: [number + 1; 16],
        boot_id: Some([number; 16]),
        seen: None,
        size_bytes: CHUNKS * CHUNK_BYTES_MIN,
        domain: format!("d{number}"),
    };
    MapImage::new(MAP, CHUNK_BYTES_MIN, 2, (0..2).map(member).collect()).expect("a map")
}

/// The bytes are those of a file.
pub fn run(data: &[u8]) {
    let Some(kept) = parse(data, MAP, CLOCK) else { return };
    assert!(kept.bad.len() <= BAD_BLOCKS_MAX);
    assert_eq!(parse(&encode(&kept, MAP, CLOCK), MAP, CLOCK).as_ref(), Some(&kept));
    let every = Some(Duration::from_secs(3600));
    let scrub = ScrubSpec { verify_every: every, compare_every: every, kept };
    let extent = ExtentSpec { size_bytes: Some(CHUNKS * CHUNK_BYTES_MIN), ..ExtentSpec::new("node".to_string()) };
    let volume = VolumeSpec {
        layout: LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES_MIN },
        copies: Some(Box::new(CopiesSpec { scrub, ..CopiesSpec::new(map()) })),
        ..VolumeSpec::new("v", vec![extent; 2])
    };
    let mut gateway = Gateway::new(GatewayConfig::new([1; 16], 1, vec![volume])).expect("a layout");
    for seconds in [1, 2, 1000, 10_000] {
        gateway.handle_timeout(Time::default() + Duration::from_secs(seconds));
    }
    // Nobody is linked, so nothing was scrubbed; and only blocks of the volume are listed.
    let listed = gateway.bad_ranges(0);
    assert!(listed.iter().all(|(at, bytes, ..)| at + bytes <= CHUNKS * CHUNK_BYTES_MIN));
}

/// Files of gateways.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let pass =
        |age, was_done, place| PassKept { age: Duration::from_secs(age), was_done, place, is_forced: place.is_some() };
    let bad = |chunk, flaw| BadBlock { chunk, block: 0, flaw, copies: 3, hashes: [u64::MAX; COPIES_MAX] };
    let file = |compare, bad: Vec<BadBlock>| {
        let members = vec![pass(5, true, None), pass(700_000, false, Some(1))];
        encode(&ScrubKept { compare, members, bad, move_time: Some(Duration::from_millis(250)) }, MAP, CLOCK)
    };
    vec![
        ("new", encode(&ScrubKept::default(), MAP, CLOCK)),
        ("running", file(pass(3_000_000, true, Some(2)), Vec::new())),
        (
            "bad",
            file(pass(9, true, None), vec![bad(0, Flaw::Unreadable), bad(1, Flaw::Differs), bad(9, Flaw::Differs)]),
        ),
    ]
}
