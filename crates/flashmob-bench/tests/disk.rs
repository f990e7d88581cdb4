//! Sweeps over real files and over a model: what is asked for is done, no more and no less, and what goes wrong is said.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_bench::bench_file;
use flashmob_bench::disk::limit::Stop;
use flashmob_bench::disk::plan::Grid;
use flashmob_bench::disk::{self, DiskError, FileSubject, ModelSubject, Plan, Subject, Swept};
use flashmob_results::disk::{Cache, Engine, Operation, Pattern, Sync};
use flashmob_results::warning::Code;

const MIB: u64 = 1 << 20;

fn grid() -> Grid {
    Grid {
        operation: Operation::Read,
        patterns: vec![Pattern::Random],
        block_bytes: vec![4096],
        threads: vec![1],
        depths: vec![1],
        engine: Engine::Pread,
        cache: Cache::Cold,
        sync: Sync::None,
        schedulers: vec![],
        range_bytes: None,
        stop: Stop::Requests(100),
    }
}

/// A file of `size_bytes` that the benchmark made, in a folder that goes with it.
fn made(size_bytes: u64) -> (tempfile::TempDir, Subject) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench");
    bench_file::make(&path, size_bytes, 1, |_| {}, &AtomicBool::new(false)).unwrap();
    let inode = FileSubject::inode_of(&path.metadata().unwrap());
    let subject =
        FileSubject { path, size_bytes, made_by_benchmark: true, place: Default::default(), disk: None, inode };
    (folder, Subject::File(subject))
}

fn path(subject: &Subject) -> &Path {
    match subject {
        Subject::File(file) => &file.path,
        Subject::Model(_) => panic!("a model has no path"),
    }
}

fn run(subject: &Subject, grid: &Grid, repeat: u32) -> Result<Swept, DiskError> {
    let plan = Plan { points: grid.points(subject.size_bytes())?, repeat, seed: 7, commands: false };
    disk::run(subject, &plan, Instant::now(), &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn exactly_as_many_requests_as_asked_for() {
    let (_folder, subject) = made(8 * MIB);
    let pread = Grid {
        patterns: Pattern::ALL.to_vec(),
        block_bytes: vec![1, 4096, 10_000],
        threads: vec![1, 7],
        stop: Stop::Requests(1001),
        ..grid()
    };
    let uring = Grid { engine: Engine::IoUring, depths: vec![1, 16], ..pread.clone() };
    let mut points = run(&subject, &pread, 2).unwrap().points;
    match run(&subject, &uring, 2) {
        Ok(swept) => points.extend(swept.points),
        // A container may forbid it; then the error says what to do.
        Err(error) => assert!(error.to_string().contains("--engine pread"), "{error}"),
    }
    assert!(points.len() >= 30);
    for point in &points {
        assert_eq!(point.repetitions.len(), 2);
        for repetition in &point.repetitions {
            assert_eq!((repetition.requests, repetition.errors), (1001, 0), "{:?}", point.parameters);
            assert_eq!(repetition.bytes, 1001 * point.parameters.block_bytes);
            assert_eq!(repetition.latency_ns.count, 1001);
            assert!(repetition.elapsed_s > 0.0 && repetition.requests_per_second > 0.0);
        }
    }
}

#[test]
fn what_lies_behind_the_end_of_a_cut_file_is_counted_as_failed() {
    for engine in [Engine::Pread, Engine::IoUring] {
        let (_folder, subject) = made(MIB);
        let cut = std::fs::OpenOptions::new().write(true).open(path(&subject)).unwrap();
        cut.set_len(MIB / 2).unwrap();
        let grid = Grid { patterns: vec![Pattern::Sequential], engine, stop: Stop::Requests(256), ..grid() };
        let Ok(swept) = run(&subject, &grid, 1) else { continue };
        let repetition = &swept.points[0].repetitions[0];
        assert_eq!((repetition.requests, repetition.errors), (128, 128), "{engine}");
        let first = repetition.first_error.as_deref().unwrap();
        assert!(first.starts_with("read at 524288: "), "{first}");
        assert!(swept.points[0].warnings.iter().any(|w| w.code == Code::Errors && w.message.contains(first)));
    }
}

#[test]
fn cancelling_leaves_what_there_is() {
    let (_folder, subject) = made(8 * MIB);
    let grid = Grid { threads: vec![2], stop: Stop::After(Duration::from_secs(600)), ..grid() };
    let plan = Plan { points: grid.points(8 * MIB).unwrap(), repeat: 3, seed: 1, commands: false };
    let cancel = AtomicBool::new(false);
    let mut seen = 0;
    let swept = disk::run(&subject, &plan, Instant::now(), &cancel, &mut |event| {
        if let disk::Event::Progress { .. } = event {
            seen += 1;
            cancel.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(seen > 0 && swept.interrupted);
    assert_eq!(swept.points[0].repetitions.len(), 1);
    assert!(swept.points[0].repetitions[0].interrupted && swept.points[0].repetitions[0].requests > 0);
    assert_eq!(swept.points[0].summary.repetitions, 1, "better than none");
}

#[test]
fn writes_change_the_file_and_leave_its_mark() {
    for (engine, sync) in [
        (Engine::Pread, Sync::None),
        (Engine::Pread, Sync::Fdatasync),
        (Engine::Pread, Sync::Dsync),
        (Engine::IoUring, Sync::Fdatasync),
    ] {
        let (_folder, subject) = made(MIB);
        let before = std::fs::read(path(&subject)).unwrap();
        let grid = Grid {
            operation: Operation::Write,
            patterns: vec![Pattern::Sequential, Pattern::Random, Pattern::Sort],
            // One alone writes each block once; of two the faster one may come round before the other is done.
            threads: vec![1, 2],
            engine,
            sync,
            stop: Stop::Requests(255),
            ..grid()
        };
        let Ok(swept) = run(&subject, &grid, 1) else {
            assert_eq!(engine, Engine::IoUring);
            continue;
        };
        assert!(swept.points.iter().all(|p| p.repetitions[0].requests == 255 && p.repetitions[0].errors == 0));
        let after = std::fs::read(path(&subject)).unwrap();
        assert_eq!((after.len(), &after[..4096]), (before.len(), &before[..4096]));
        let same = before[4096..].chunks(4096).zip(after[4096..].chunks(4096)).filter(|(b, a)| b == a).count();
        assert_eq!(same, 0, "{engine} {sync}: each block behind the mark was written");
        assert!(bench_file::open_for_reading(path(&subject)).unwrap().header.is_some());
    }
}

#[test]
fn a_scheduler_that_cannot_be_had_is_said_and_done_without() {
    let (_folder, subject) = made(MIB);
    let both = Grid { schedulers: vec!["bfq".into(), "none".into()], ..grid() };
    let swept = run(&subject, &both, 1).unwrap();
    assert_eq!(swept.points.len(), 1, "both would be the same");
    assert_eq!(swept.points[0].parameters.scheduler, None);
    assert!(swept.warnings.iter().any(|w| w.code == Code::Scheduler), "{:?}", swept.warnings);

    let model = Subject::Model(ModelSubject::new("nvme", 64 * MIB, 1).unwrap());
    let some = Grid { schedulers: vec!["none".into(), "kyber".into(), "bfq".into()], ..grid() };
    let swept = run(&model, &some, 1).unwrap();
    let named: Vec<_> = swept.points.iter().map(|p| p.parameters.scheduler.as_deref().unwrap()).collect();
    assert_eq!(named, ["none", "bfq"]);
    assert!(swept.warnings.iter().any(|w| w.message.contains("not measured with kyber")), "{:?}", swept.warnings);
    assert!(swept.points.iter().all(|p| p.repetitions[0].upward_fraction.is_some()));
}

#[test]
fn the_same_seed_asks_for_the_same_and_another_for_something_else() {
    // The model's steps tell the order of the offsets: with one thread it is all there is.
    let upward = |seed| {
        let model = Subject::Model(ModelSubject::new("nvme", 64 * MIB, 1).unwrap());
        let plan = Plan { points: grid().points(64 * MIB).unwrap(), repeat: 1, seed, commands: false };
        let swept = disk::run(&model, &plan, Instant::now(), &AtomicBool::new(false), &mut |_| {}).unwrap();
        swept.points[0].repetitions[0].upward_fraction.unwrap()
    };
    assert!((upward(1) - upward(1)).abs() < 1e-12);
    assert!((1..20).any(|seed| (upward(seed) - upward(0)).abs() > 1e-12));
}

#[test]
fn what_was_measured_before_a_failure_is_kept() {
    let (folder, subject) = made(MIB);
    let plan = Plan { points: grid().points(MIB).unwrap(), repeat: 3, seed: 1, commands: false };
    let mut folder = Some(folder);
    let swept = disk::run(&subject, &plan, Instant::now(), &AtomicBool::new(false), &mut |event| {
        if matches!(event, disk::Event::Repetition { .. }) {
            folder.take();
        }
    })
    .unwrap();
    assert_eq!(swept.points[0].repetitions.len(), 1);
    assert!(swept.interrupted && swept.failure.unwrap().to_string().contains("bench: "));
    assert!(swept.warnings.iter().any(|w| w.code == Code::Interrupted && w.message.contains("ended by an error")));
}

#[test]
fn a_file_that_is_gone_is_named() {
    let (folder, subject) = made(MIB);
    drop(folder);
    let error = run(&subject, &grid(), 1).unwrap_err().to_string();
    assert!(error.contains("bench: cannot be opened: "), "{error}");
}

#[test]
fn a_file_that_takes_the_place_of_the_measured_one_is_neither_written_nor_removed() {
    let writes = Grid { operation: Operation::Write, stop: Stop::Requests(50), ..grid() };
    for grid in [writes, grid()] {
        let (folder, subject) = made(MIB);
        let Subject::File(file) = &subject else { unreachable!() };
        let letter = folder.path().join("letter");
        std::fs::write(&letter, vec![b'x'; MIB as usize]).unwrap();
        std::fs::rename(&file.path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(&letter, &file.path).unwrap();
        let error = run(&subject, &grid, 1).unwrap_err().to_string();
        assert!(error.contains("another file has taken its place"), "{error}");
        assert!(file.remove().is_err());
        assert!(std::fs::read(&letter).unwrap().iter().all(|&byte| byte == b'x'));
        // And a pipe makes nobody wait.
        std::fs::remove_file(&file.path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file.path, rustix::fs::Mode::RWXU).unwrap();
        assert!(run(&subject, &grid, 1).is_err());
    }
}

#[test]
fn what_is_removed_is_the_file_and_not_a_link_to_it() {
    let (folder, subject) = made(MIB);
    let Subject::File(mut file) = subject else { unreachable!() };
    let (real, link) = (file.path.clone(), folder.path().join("link"));
    std::os::unix::fs::symlink(&real, &link).unwrap();
    file.path.clone_from(&link);
    file.remove().unwrap();
    assert!(!real.exists() && link.is_symlink());
}

#[test]
fn holes_and_memory_are_no_disk() {
    let warned = |subject: &Subject, cache| {
        let swept = run(subject, &Grid { cache, ..grid() }, 1).ok()?;
        Some(swept.warnings.iter().map(|w| (w.code, w.message.clone())).collect::<Vec<_>>())
    };
    let says = |warned: &[(Code, String)], part: &str| warned.iter().any(|(_, message)| message.contains(part));
    let (_folder, subject) = made(MIB);
    let is_memory = says(&warned(&subject, Cache::Cold).unwrap(), "tmpfs");
    let cut = std::fs::OpenOptions::new().write(true).open(path(&subject)).unwrap();
    for cache in [Cache::Cold, Cache::Direct] {
        // A file system may have no direct I/O.
        let Some(before) = warned(&subject, cache) else { continue };
        assert!(!says(&before, "no blocks on the disk"), "{before:?}");
        cut.set_len(4 * MIB).unwrap();
        let with_hole = warned(&subject, cache).unwrap();
        assert!(is_memory || says(&with_hole, "75 % of the file have no blocks on the disk"), "{with_hole:?}");
        cut.set_len(MIB).unwrap();
    }
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        let path = folder.path().join("bench");
        bench_file::make(&path, MIB, 1, |_| {}, &AtomicBool::new(false)).unwrap();
        let inode = FileSubject::inode_of(&path.metadata().unwrap());
        let (size_bytes, place) = (MIB, Default::default());
        let subject =
            Subject::File(FileSubject { path, size_bytes, made_by_benchmark: true, place, disk: None, inode });
        if let Some(direct) = warned(&subject, Cache::Direct) {
            assert!(says(&direct, "there is no disk to measure"), "{direct:?}");
        }
    }
}

#[test]
fn a_model_tells_of_its_commands_step_by_step() {
    let subject = Subject::Model(ModelSubject::new("nexus7-emmc", 256 * MIB, 1).unwrap());
    let grid = Grid {
        threads: vec![8],
        schedulers: vec!["none".into(), "mq-deadline".into()],
        cache: Cache::Direct,
        stop: Stop::Requests(400),
        ..grid()
    };
    let plan = Plan { points: grid.points(subject.size_bytes()).unwrap(), repeat: 2, seed: 7, commands: true };
    let swept = disk::run(&subject, &plan, Instant::now(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    let of = |at: usize| swept.points[at].commands.clone().unwrap();
    let (none, deadline) = (of(0), of(1));
    for commands in [&none, &deadline] {
        assert_eq!((commands.count, commands.list.len()), (800, 800));
        let (up, down) = (commands.forward.unwrap(), commands.backward.unwrap());
        // The first of each of the two repetitions has no step.
        assert_eq!(up.count + down.count, 798);
        assert!(down.p50_us > 1.1 * up.p50_us, "{up:?} {down:?}");
        assert!(commands.list.iter().all(|c| c.bytes == 4096 && (1..=4).contains(&c.outstanding)));
    }
    let (few, many) = (none.upward_fraction().unwrap(), deadline.upward_fraction().unwrap());
    assert!(many > few + 0.05, "{few} {many}");
}

#[test]
fn without_commands_being_asked_for_there_are_none() {
    let subject = Subject::Model(ModelSubject::new("nvme", 16 * MIB, 1).unwrap());
    let swept = run(&subject, &Grid { cache: Cache::Direct, ..grid() }, 1).unwrap();
    assert!(swept.points[0].commands.is_none());
}

#[test]
fn a_file_whose_disk_is_not_known_is_measured_all_the_same() {
    let (_folder, subject) = made(2 * MIB);
    let plan = Plan { points: grid().points(subject.size_bytes()).unwrap(), repeat: 1, seed: 7, commands: true };
    let swept = disk::run(&subject, &plan, Instant::now(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!((swept.points[0].summary.repetitions, swept.points[0].commands.is_none()), (1, true));
    let warning = swept.warnings.iter().find(|warning| warning.code == Code::Incomplete).unwrap();
    assert!(warning.message.contains("not on a single disk"), "{}", warning.message);
}
