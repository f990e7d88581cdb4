//! Tests of the model in virtual time: invariants for all requests (`properties`), the papers' findings
//! (`calibration`), the order of each scheduler, the cache, invalid input, and the
//! agreement of the document's numbers with the code.

mod cache;
mod calibration;
mod document;
mod names;
mod properties;
mod schedulers;

use std::time::Duration;

use flashmob_core::units::Time;

use super::{Completion, Counters, FlashModel, Op, Profile, Request, Scheduler};
use crate::random::Random;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn read(id: u64, submitter: u32, offset_bytes: u64, len_bytes: u64) -> Request {
    Request { id, submitter, op: Op::Read, offset_bytes, len_bytes }
}

fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap()
}

/// A device with round numbers and no jitter: 1 ms upward, 2 ms for 1 GiB or more downward, 0.1 ms sequential.
fn plain(slots: u32) -> Profile {
    let cost = super::Cost { access_ns: 1_000_000, sequential_ns: 100_000, block_ns: 10_000 };
    Profile {
        name: "plain",
        description: "",
        slots,
        read: cost,
        write: super::Cost { access_ns: 3_000_000, ..cost },
        flush_ns: 5_000_000,
        flush_clean_ns: 50_000,
        backward_percent: 100,
        backward_full_at_bytes: GIB,
        jitter_percent: 0,
        rotation: None,
    }
}

/// Runs until nothing is left to do.
fn finish(model: &mut FlashModel) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
    }
    model.advance(Time::default(), &mut done);
    done
}

struct Loop {
    per_second: f64,
    counters: Counters,
    slowest: Duration,
}

/// `threads` with one outstanding read each, `count` reads in total; `place` returns the addresses.
fn closed_loop(
    model: &mut FlashModel,
    threads: u32,
    count: u64,
    len_bytes: u64,
    mut place: impl FnMut(u64) -> u64,
) -> Loop {
    let mut issued = 0;
    let mut issue = |model: &mut FlashModel, now: Time, submitter: u32| {
        if issued < count {
            let id = issued << 16 | u64::from(submitter);
            model.submit(now, read(id, submitter, place(issued), len_bytes)).unwrap();
            issued += 1;
        }
    };
    for submitter in 0..threads {
        issue(model, Time::default(), submitter);
    }
    let (mut done, mut served, mut slowest, mut last) = (Vec::new(), 0, Duration::ZERO, Time::default());
    while let Some(at) = model.next_event() {
        model.advance(at, &mut done);
        for completion in done.drain(..) {
            served += 1;
            last = completion.at;
            slowest = slowest.max(completion.at.since(completion.submitted));
            issue(model, completion.at, (completion.id & 0xffff) as u32);
        }
    }
    assert_eq!(served, count);
    Loop { per_second: served as f64 / (last.as_nanos() as f64 / 1e9), counters: model.counters(), slowest }
}

/// Random blocks of 4 KiB, or single bytes, over the whole device.
fn random_loop(profile: &Profile, scheduler: Scheduler, size_bytes: u64, threads: u32, len_bytes: u64) -> Loop {
    let mut model = FlashModel::new(profile, scheduler, size_bytes, 7).unwrap();
    let mut random = Random::new(11);
    let places = size_bytes / len_bytes;
    closed_loop(&mut model, threads, 4_000, len_bytes, |_| random.next() % places * len_bytes)
}
