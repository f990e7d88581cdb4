//! Published results are reproduced, within bounds that the model's simplifications explain.

use super::*;
use crate::air::bianchi::saturation;

const PAYLOAD_BYTES: u32 = 1500;

fn off(measured: f64, expected: f64) -> f64 {
    (measured / expected - 1.0).abs()
}

/// Mbit/s of the whole cell, 54 Mbit/s OFDM, 1,500 bytes: the published ns-3 validation of the Bianchi model.
const PUBLISHED: [(u32, f64); 4] = [(5, 29.2861), (10, 27.3763), (15, 26.2078), (20, 25.3325)];

#[test]
fn the_closed_form_gives_the_published_figures() {
    for (stations, published) in PUBLISHED {
        let closed = saturation(&profile("11a"), stations, PAYLOAD_BYTES + 14).unwrap().payload_bits_per_second / 1e6;
        assert!(off(closed, published) < 0.002, "{stations} stations: {closed:.3} of {published} Mbit/s");
    }
}

#[test]
fn saturated_stations_carry_what_was_published_and_what_the_closed_form_says() {
    for stations in [1, 5, 10, 15, 20] {
        let per_second = saturated_per_second("11a", stations as usize, PAYLOAD_BYTES + 14, 20);
        let carried = per_second * f64::from(PAYLOAD_BYTES) * 8.0 / 1e6;
        let closed = saturation(&profile("11a"), stations, PAYLOAD_BYTES + 14).unwrap().payload_bits_per_second / 1e6;
        assert!(off(carried, closed) < 0.02, "{stations} stations: {carried:.2}, closed form {closed:.2} Mbit/s");
        if let Some((_, published)) = PUBLISHED.iter().find(|(n, _)| *n == stations) {
            assert!(off(carried, *published) < 0.02, "{stations} stations: {carried:.2} of {published} Mbit/s");
        }
    }
}

#[test]
fn small_frames_alone_fill_the_air_and_together_they_do_not() {
    let alone = saturated_per_second("11n,ampdu=1", 9, 100, 10);
    let together = saturated_per_second("11n,ampdu=16", 9, 100, 10);
    assert!((4_000.0..=5_500.0).contains(&alone), "{alone:.0} frames/s");
    assert!(together > 5.0 * alone, "{together:.0} frames/s against {alone:.0}");
}

#[test]
fn the_closed_form_says_of_other_airs_what_the_model_gives() {
    for (text, stations, len_bytes) in [
        ("11g", 5, 1514),
        ("11n,ampdu=1", 9, 100),
        ("11n-2014", 9, 1514),
        ("11n", 2, 1514),
        ("11n", 20, 1514),
        ("11ac", 9, 100),
        ("11ax", 9, 1514),
        ("11n,cwmin=7", 5, 300),
        ("11a,cwmin=31,cwmax=31", 20, 1514),
    ] {
        let closed = saturation(&profile(text), stations, len_bytes).unwrap().frames_per_second;
        let modelled = saturated_per_second(text, stations as usize, len_bytes, 10);
        assert!(off(modelled, closed) < 0.04, "{text}, {stations} stations: {modelled:.0} of {closed:.0} frames/s");
    }
}

#[test]
fn the_closed_form_has_an_answer_for_every_cell_and_for_nothing_else() {
    assert_eq!(saturation(&profile("wan"), 5, 100), None);
    assert_eq!(saturation(&profile("ideal"), 5, 100), None);
    assert_eq!(saturation(&profile("11n"), 0, 100), None);
    for text in ["11a", "11n,cwmin=0,cwmax=0", "11n,cwmin=0", "11n,cwmin=32767,cwmax=32767", "11ax,rate=1Mbit"] {
        for stations in [1, 2, 60, 1_000_000] {
            for len_bytes in [0, 1514, u32::MAX] {
                let found = saturation(&profile(text), stations, len_bytes).unwrap();
                assert!((0.0..=1.0).contains(&found.tau) && (0.0..=1.0).contains(&found.p), "{text}: {found:?}");
                assert!(found.frames_per_second.is_finite() && found.frames_per_second >= 0.0, "{text}: {found:?}");
                assert_eq!(stations == 1, found.p == 0.0, "{text}: {found:?}");
            }
        }
    }
}

/// Each node has this many frames outstanding to the gateway: returns how many arrive from each in `seconds`.
fn closed_loop(text: &str, ports: &[Attachment], outstanding: u64, seconds: u64) -> Vec<u64> {
    let mut air = Air::new(&profile(text), ports, 9);
    for node in 1..ports.len() as u32 {
        (0..outstanding).for_each(|_| air.submit(Time(0), frame(u64::from(node), node, 0, 1514)));
    }
    let (mut outcomes, mut arrived) = (Vec::new(), vec![0; ports.len()]);
    while let Some(at) = air.next_event().filter(|at| at.0 <= seconds * 1_000_000_000) {
        air.advance(at, &mut outcomes);
        for outcome in outcomes.drain(..) {
            arrived[outcome.id as usize] += 1;
            air.submit(outcome.at, frame(outcome.id, outcome.id as u32, 0, 1514));
        }
    }
    arrived
}

#[test]
fn a_gateway_that_is_a_station_halves_what_the_cell_carries() {
    for text in ["11a", "11n,ampdu=1", "11n-2014"] {
        let wired: u64 = closed_loop(text, &with_wired_gateway(6), 4, 5).iter().sum();
        let wireless: u64 = closed_loop(text, &[Attachment::Wireless; 7], 4, 5).iter().sum();
        let ratio = wireless as f64 / wired as f64;
        assert!((0.42..0.62).contains(&ratio), "{text}: {ratio:.2}");
    }
}

#[test]
fn stations_get_equal_shares() {
    let arrived = closed_loop("11a", &with_wired_gateway(8), 4, 30);
    let mean = arrived.iter().sum::<u64>() as f64 / 8.0;
    assert!(arrived[1..].iter().all(|&n| off(n as f64, mean) < 0.05), "{arrived:?}");
}
