//! Tests of the model in virtual time: published results (`calibration`), invariants for all frames
//! (`properties`), medium access (`medium`), each limit (`limits`), the lines, invalid profiles (`names`), and the
//! agreement of the document's numbers with the code.

mod calibration;
mod document;
mod limits;
mod lines;
mod medium;
mod names;
mod properties;

use flashmob_core::units::Time;

use super::*;

fn profile(text: &str) -> Profile {
    Profile::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn cell(text: &str) -> Dcf {
    let Medium::Cell(dcf) = profile(text).medium else { panic!("{text} is no cell") };
    dcf
}

fn frame(id: u64, from: u32, to: u32, len_bytes: u32) -> Frame {
    Frame { id, from: Port(from), to: Some(Port(to)), len_bytes }
}

/// A wired port, number 0, and this many wireless ones.
fn with_wired_gateway(stations: usize) -> Vec<Attachment> {
    let mut ports = vec![Attachment::Wireless; stations + 1];
    ports[0] = Attachment::Wired;
    ports
}

/// Runs until nothing is left to do.
fn finish(air: &mut Air) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while let Some(at) = air.next_event() {
        air.advance(at, &mut outcomes);
    }
    outcomes
}

/// Throughput in frames per second from `stations` saturated with frames of `len_bytes` to a wired port.
fn saturated_per_second(text: &str, stations: usize, len_bytes: u32, seconds: u64) -> f64 {
    let mut air = Air::new(&profile(text), &with_wired_gateway(stations), 7);
    let ahead = 2 * profile(text).frames_per_access(len_bytes);
    for station in 1..=stations as u32 {
        (0..ahead).for_each(|_| air.submit(Time(0), frame(u64::from(station), station, 0, len_bytes)));
    }
    let end = Time(seconds * 1_000_000_000);
    let (mut outcomes, mut arrived) = (Vec::new(), 0u64);
    while let Some(at) = air.next_event().filter(|at| *at <= end) {
        air.advance(at, &mut outcomes);
        for outcome in outcomes.drain(..) {
            arrived += u64::from(outcome.fate == Fate::Delivered);
            air.submit(outcome.at, frame(outcome.id, outcome.id as u32, 0, len_bytes));
        }
    }
    arrived as f64 / seconds as f64
}
