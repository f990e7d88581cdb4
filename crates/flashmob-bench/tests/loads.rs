//! Loads against a server that is right: what is asked, what is counted, what is noticed.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Behaviour, Fault, serve, serve_unix};
use flashmob_bench::load::offsets::{Alignment, Pattern};
use flashmob_bench::load::reference::{ImageReference, PatternReference, Reference};
use flashmob_bench::load::{Load, Stop, Target, run, run_on};
use flashmob_bench::progress::Unit;
use flashmob_core::nbd::protocol as p;

const SEED: PatternReference = PatternReference { seed: 42 };

fn requests(count: u64) -> Load {
    Load { stop: Stop::Requests(count), timeout: Duration::from_secs(60), ..Load::default() }
}

#[test]
fn every_request_is_asked_once_and_counted() {
    for (connections, threads, outstanding, count) in
        [(1, 1, 1, 10), (1, 1, 64, 63), (1, 1, 64, 64), (3, 2, 7, 1000), (4, 9, 2, 5), (2, 1, 8, 0)]
    {
        let server = serve(Behaviour::default());
        let load = Load { connections, threads, outstanding, ..requests(count) };
        let result = run(&server.uri, &load, &mut |_| ()).unwrap();
        assert_eq!((result.reads, result.writes, result.bytes), (count, 0, count * 4096), "{load:?}");
        assert_eq!(result.latency_ns.len(), count);
        assert_eq!((result.errors_total(), result.verified_bytes, result.mismatched_bytes), (0, 0, 0));
        assert!(count == 0 || result.elapsed > Duration::ZERO && result.cpu > Duration::ZERO);
        let commands = server.commands.lock().unwrap();
        assert_eq!(commands.iter().filter(|(command, ..)| *command == p::CMD_READ).count() as u64, count);
    }
}

#[test]
fn a_load_stops_when_its_time_is_over() {
    let server = serve(Behaviour::default());
    let limit = Duration::from_millis(500);
    let mut seen = Vec::new();
    let result =
        run(&server.uri, &Load { stop: Stop::After(limit), ..requests(0) }, &mut |progress| seen.push(*progress))
            .unwrap();
    assert!(result.reads > 0 && result.elapsed >= limit / 2, "{:?}", result.elapsed);
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|p| p.unit == Unit::Milliseconds && p.total == 500 && p.done <= 500), "{seen:?}");
}

#[test]
fn equal_seeds_ask_for_equal_offsets() {
    let offsets = |seed| {
        let server = serve(Behaviour::default());
        run(&server.uri, &Load { pattern: Pattern::Random { seed }, ..requests(200) }, &mut |_| ()).unwrap();
        let commands = server.commands.lock().unwrap();
        commands.iter().map(|&(_, offset, _)| offset).take(200).collect::<Vec<_>>()
    };
    let first = offsets(7);
    assert_eq!(first, offsets(7));
    assert_ne!(first, offsets(8));
    assert!(first.iter().any(|offset| offset % 4096 != 0), "any byte");
    assert!(first.iter().all(|offset| offset + 4096 <= 1 << 20));
}

#[test]
fn a_sequential_load_covers_the_export() {
    let server = serve(Behaviour::default());
    let load = Load { connections: 2, pattern: Pattern::Sequential, ..requests(256) };
    run(&server.uri, &load, &mut |_| ()).unwrap();
    let commands = server.commands.lock().unwrap();
    let offsets: BTreeSet<u64> =
        commands.iter().filter(|(command, ..)| *command == p::CMD_READ).map(|&(_, offset, _)| offset).collect();
    assert!(offsets.len() >= 128 && offsets.iter().all(|offset| offset % 4096 == 0));
}

#[test]
fn written_bytes_are_read_back_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let tcp = serve(Behaviour::default());
    let unix = serve_unix(Behaviour::default(), &directory.path().join("s"));
    let structured = serve(Behaviour { structured: true, ..Behaviour::default() });
    let dribbling = serve(Behaviour { dribble: Some(777), ..Behaviour::default() });
    for (server, structured_replies) in [(tcp, false), (unix, false), (structured, true), (dribbling, true)] {
        let fill = Load {
            pattern: Pattern::Sequential,
            block_bytes: 65536,
            read_fraction: 0.0,
            verify: Some(Arc::new(SEED)),
            ..requests(16)
        };
        let result = run(&server.uri, &fill, &mut |_| ()).unwrap();
        assert_eq!((result.writes, result.bytes), (16, 1 << 20));
        assert!(SEED.matches(0, &server.memory.lock().unwrap()));
        for (block_bytes, read_fraction) in [(4096, 1.0), (1, 1.0), (511, 0.5)] {
            let check = Load {
                block_bytes,
                read_fraction,
                structured_replies,
                verify: Some(Arc::new(SEED)),
                connections: 2,
                ..requests(500)
            };
            let result = run(&server.uri, &check, &mut |_| ()).unwrap();
            assert_eq!(result.reads + result.writes, 500);
            assert_eq!(result.verified_bytes, result.reads * u64::from(block_bytes));
            assert_eq!((result.mismatched_bytes, result.first_mismatch_offset_bytes), (0, None));
        }
        assert!(SEED.matches(0, &server.memory.lock().unwrap()), "the mixed load wrote what belongs there");
    }
}

#[test]
fn a_wrong_byte_is_noticed_and_located() {
    let server = serve(Behaviour { fault: Fault::WrongByte(70_000), ..Behaviour::default() });
    SEED.fill(0, &mut server.memory.lock().unwrap());
    let load = Load {
        pattern: Pattern::Sequential,
        alignment: Alignment::Block,
        verify: Some(Arc::new(SEED)),
        ..requests(256)
    };
    let result = run(&server.uri, &load, &mut |_| ()).unwrap();
    assert_eq!((result.mismatched_bytes, result.first_mismatch_offset_bytes), (1, Some(70_000)));
    assert_eq!(result.verified_bytes, (1 << 20) - 1);
}

#[test]
fn an_image_is_what_reads_are_compared_with() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut image = vec![0; 1 << 20];
    SEED.fill(0, &mut image);
    std::fs::write(file.path(), &image).unwrap();
    let server = serve(Behaviour::default());
    server.memory.lock().unwrap().copy_from_slice(&image);
    let reference = Arc::new(ImageReference::open(file.path()).unwrap());
    let load = Load { verify: Some(reference), read_fraction: 0.8, ..requests(300) };
    let result = run(&server.uri, &load, &mut |_| ()).unwrap();
    assert_eq!((result.verified_bytes, result.mismatched_bytes), (result.reads * 4096, 0));
    assert_eq!(*server.memory.lock().unwrap(), image);
}

#[test]
fn requests_larger_than_every_buffer_work() {
    let server = serve(Behaviour { size_bytes: 40 << 20, ..Behaviour::default() });
    SEED.fill(0, &mut server.memory.lock().unwrap());
    let load = Load {
        block_bytes: 32 << 20,
        outstanding: 3,
        read_fraction: 0.5,
        verify: Some(Arc::new(SEED)),
        timeout: Duration::from_secs(30),
        ..requests(6)
    };
    let result = run(&server.uri, &load, &mut |_| ()).unwrap();
    assert_eq!((result.reads + result.writes, result.mismatched_bytes), (6, 0));
    assert_eq!(result.verified_bytes, result.reads * (32 << 20));
}

#[test]
fn loads_that_make_no_sense_are_refused() {
    let server = serve(Behaviour::default());
    let base = requests(1);
    for (part, load) in [
        ("0 connections", Load { connections: 0, ..base.clone() }),
        ("65 connections", Load { connections: 65, ..base.clone() }),
        ("no thread", Load { threads: 0, ..base.clone() }),
        ("0 outstanding", Load { outstanding: 0, ..base.clone() }),
        ("65537 outstanding", Load { outstanding: 65_537, ..base.clone() }),
        ("0 bytes", Load { block_bytes: 0, ..base.clone() }),
        ("fraction of 1.5", Load { read_fraction: 1.5, ..base.clone() }),
        ("fraction of NaN", Load { read_fraction: f64::NAN, ..base.clone() }),
        ("do not fit", Load { block_bytes: (1 << 20) + 1, ..base.clone() }),
    ] {
        let error = run(&server.uri, &load, &mut |_| ()).expect_err(part).to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    for load in [
        Load { connections: 64, ..requests(64) },
        Load { outstanding: 65_536, ..base.clone() },
        Load { block_bytes: 1 << 20, ..base.clone() },
    ] {
        assert!(run(&server.uri, &load, &mut |_| ()).is_ok(), "{load:?}");
    }
}

#[test]
fn an_exports_limits_are_kept() {
    let blocks = Some((512, 4096, 65536));
    let server = serve(Behaviour { blocks, ..Behaviour::default() });
    let aligned = Load { alignment: Alignment::Block, ..requests(10) };
    for (part, load) in [
        ("multiples of 512", Load { block_bytes: 511, ..aligned.clone() }),
        ("align the offsets", Load { block_bytes: 512, alignment: Alignment::Byte, ..aligned.clone() }),
        ("at most 65536", Load { block_bytes: 66048, ..aligned.clone() }),
    ] {
        let error = run(&server.uri, &load, &mut |_| ()).expect_err(part).to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    for block_bytes in [512, 65536] {
        assert!(run(&server.uri, &Load { block_bytes, ..aligned.clone() }, &mut |_| ()).is_ok());
    }
    let read_only = serve(Behaviour { flags: p::FLAG_HAS_FLAGS | p::FLAG_READ_ONLY, ..Behaviour::default() });
    let error = run(&read_only.uri, &Load { read_fraction: 0.9, ..requests(1) }, &mut |_| ()).expect_err("it writes");
    assert!(error.to_string().contains("read-only"), "{error}");
    let short = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(short.path(), [0; 1000]).unwrap();
    let verify = Some(Arc::new(ImageReference::open(short.path()).unwrap()) as _);
    let error = run(&server.uri, &Load { verify, ..aligned }, &mut |_| ()).expect_err("the image is short");
    assert!(error.to_string().contains("only 1000"), "{error}");
}

#[test]
fn a_warm_up_is_not_counted_but_its_wrong_bytes_are() {
    let server = serve(Behaviour { fault: Fault::WrongByte(100), ..Behaviour::default() });
    SEED.fill(0, &mut server.memory.lock().unwrap());
    let load =
        Load { warmup: Duration::from_millis(200), verify: Some(Arc::new(SEED)), outstanding: 4, ..requests(50) };
    // Only at the very beginning of a sequential load is the wrong byte met: in the warm-up.
    let load = Load { pattern: Pattern::Sequential, ..load };
    let result = run(&server.uri, &load, &mut |_| ()).unwrap();
    assert_eq!((result.reads, result.latency_ns.len()), (50, 50));
    assert!(server.commands.lock().unwrap().len() > 51, "it warmed up");
    assert!(result.mismatched_bytes > 0);
    assert_eq!(result.first_mismatch_offset_bytes, Some(100));
}

#[test]
fn a_sample_of_the_answers_is_compared() {
    let server = serve(Behaviour::default());
    SEED.fill(0, &mut server.memory.lock().unwrap());
    let load = Load { verify: Some(Arc::new(SEED)), verify_one_of: 10, block_bytes: 16, ..requests(5000) };
    let result = run(&server.uri, &load, &mut |_| ()).unwrap();
    assert!((16 * 350..16 * 650).contains(&result.verified_bytes), "{}", result.verified_bytes);
    assert_eq!(result.mismatched_bytes, 0);
}

#[test]
fn a_cancelled_load_ends_with_the_figures_so_far() {
    let server = serve(Behaviour::default());
    let cancel = Arc::new(AtomicBool::new(false));
    let load = Load { cancel: Some(cancel.clone()), stop: Stop::After(Duration::from_secs(600)), ..requests(0) };
    let result = run(&server.uri, &load, &mut |_| cancel.store(true, Ordering::Relaxed)).unwrap();
    assert!(result.reads > 0);
}

#[test]
fn a_load_over_several_exports_compares_each_with_its_own() {
    let servers = [1, 2, 3].map(|seed| {
        let server = serve(Behaviour::default());
        PatternReference { seed }.fill(0, &mut server.memory.lock().unwrap());
        (server, PatternReference { seed })
    });
    let targets = servers
        .each_ref()
        .map(|(server, reference)| Target { uri: server.uri.clone(), verify: Some(Arc::new(*reference)) });
    let load = Load { connections: 6, ..requests(3000) };
    let result = run_on(&targets, &load, &mut |_| ()).unwrap();
    assert_eq!((result.reads, result.verified_bytes, result.mismatched_bytes), (3000, 3000 * 4096, 0));
    assert!(servers.iter().all(|(server, _)| server.commands.lock().unwrap().len() > 100));
    let error = run_on(&targets, &Load { connections: 2, ..load }, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("2 connections to 3 exports"), "{error}");
}

#[test]
fn requests_stay_inside_their_range() {
    let server = serve(Behaviour::default());
    let load = Load { range_bytes: Some(1000..20_000), block_bytes: 512, ..requests(1000) };
    run(&server.uri, &load, &mut |_| ()).unwrap();
    let commands = server.commands.lock().unwrap();
    let mut reads = commands.iter().filter(|(command, ..)| *command == p::CMD_READ);
    assert!(reads.all(|&(_, offset, len)| offset >= 1000 && offset + u64::from(len) <= 20_000));
    for (range, reason) in [(5..5, "is empty"), (0..1 << 30, "the range ends"), (0..100, "no request of 512")] {
        let load = Load { range_bytes: Some(range), ..load.clone() };
        let error = run(&server.uri, &load, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn fewer_requests_than_are_outstanding_count_as_many_as_they_are_after_warming_up() {
    for (connections, threads, outstanding, count) in [(1, 1, 64, 5), (3, 1, 16, 40), (2, 2, 16, 3), (1, 1, 4, 0)] {
        let server = serve(Behaviour::default());
        let warmup = Duration::from_millis(100);
        let load = Load { connections, threads, outstanding, warmup, ..requests(count) };
        let result = run(&server.uri, &load, &mut |_| ()).unwrap();
        assert_eq!((result.reads, result.latency_ns.len()), (count, count), "{load:?}");
    }
}
