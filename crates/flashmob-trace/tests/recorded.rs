//! What was recorded on other kernels is read as it was there: six INSERTs of the `sqlite3` program on ext4 with a journal, on a loop device.
//!
//! `data/linux-VERSION/` is what the example `record` saved; `record.sh` records one more. `expected.txt` beside it has the counts of others for the same run or the same work: of
//! `strace` for system calls, of the kernel's own text in another instance for everything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashmob_trace::capture::Capture;
use flashmob_trace::capture::names::file_name;
use flashmob_trace::record::Record;

fn recordings() -> Vec<(PathBuf, Capture)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.into_iter().map(|path| (path.clone(), Capture::load(&path).unwrap())).collect()
}

/// Those of the six INSERTs, with what others counted; of other work other tests know what it was.
fn counted() -> Vec<(PathBuf, Capture)> {
    let mut all = recordings();
    all.retain(|(path, _)| path.join("expected.txt").exists());
    assert!(!all.is_empty());
    all
}

fn name(record: &Record<'_>) -> String {
    format!("{}:{}", record.format.system, record.format.name)
}

#[test]
fn counts_are_those_of_strace_and_of_the_kernels_own_text() {
    for (path, capture) in counted() {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for record in capture.records() {
            *counts.entry(name(&record)).or_default() += 1;
        }
        let expected = std::fs::read_to_string(path.join("expected.txt")).unwrap();
        assert!(expected.lines().count() > 10, "{}", path.display());
        for line in expected.lines() {
            let (count, name) = line.split_once(' ').unwrap();
            let found = counts.get(name).copied().unwrap_or(0);
            assert_eq!(found, count.parse::<u64>().unwrap(), "{name} in {}", path.display());
        }
    }
}

#[test]
fn all_of_it_is_understood_and_in_order() {
    for (path, capture) in recordings() {
        let records = capture.records();
        assert_eq!((capture.losses.lost, capture.losses.unreadable_bytes), (0, 0), "{}", path.display());
        assert_eq!(records.len() as u64, capture.losses.events, "{}", path.display());
        assert!(records.is_sorted_by_key(|record| record.time_ns));
        let span_ns = records[records.len() - 1].time_ns - records[0].time_ns;
        assert!((1_000_000..60_000_000_000).contains(&span_ns), "six inserts took {span_ns} ns");
        for record in &records {
            assert_eq!(record.number("common_type"), Some(u64::from(record.format.id)));
            assert_eq!(record.number("common_pid"), Some(u64::from(record.thread)));
        }
    }
}

#[test]
fn a_system_call_ends_before_its_thread_begins_another() {
    for (path, capture) in recordings() {
        let mut inside: BTreeMap<u32, &str> = BTreeMap::new();
        for record in capture.records().iter().filter(|record| record.format.system == "syscalls") {
            let number = record.number("__syscall_nr").unwrap();
            if let Some(call) = record.format.name.strip_prefix("sys_enter_") {
                assert_eq!(inside.insert(record.thread, call), None, "{call} {number} in {}", path.display());
            } else {
                let call = record.format.name.strip_prefix("sys_exit_").unwrap();
                assert_eq!(inside.remove(&record.thread), Some(call), "{}", path.display());
                assert!((record.number("ret").unwrap() as i64) < 1 << 20);
            }
        }
    }
}

#[test]
fn commands_have_addresses_and_end_after_they_began() {
    for (path, capture) in recordings() {
        let mut issued: BTreeMap<u64, u64> = BTreeMap::new();
        let mut ended = 0;
        for record in &capture.records() {
            let is_flush = || record.text("rwbs").is_some_and(|kind| kind == "FF");
            if record.is("block", "block_rq_issue") && !is_flush() {
                assert_eq!(record.number("bytes").unwrap(), record.number("nr_sector").unwrap() * 512);
                issued.insert(record.number("sector").unwrap(), record.time_ns);
            }
            if record.is("block", "block_rq_complete")
                && let Some(begun) = issued.remove(&record.number("sector").unwrap())
            {
                assert!(record.time_ns > begun, "{}", path.display());
                ended += 1;
            }
        }
        assert!(ended > 10, "{}", path.display());
    }
}

/// Where the kernel has eBPF: each name comes within its call.
#[test]
fn names_come_within_their_calls() {
    let mut with_names = 0;
    for (path, capture) in counted() {
        let is_used = capture.sources.iter().any(|source| source.name == "names of files" && source.is_used);
        let (mut inside, mut journals): (BTreeMap<u32, &str>, u32) = (BTreeMap::new(), 0);
        for record in &capture.records() {
            if let Some(name) = file_name(record) {
                if matches!(&*name.call, "openat" | "unlink") {
                    assert_eq!(inside.get(&record.thread), Some(&&*name.call), "{name:?} in {}", path.display());
                }
                assert!(!name.path.is_empty(), "{name:?}");
                journals += u32::from(name.call == "unlink" && name.path.ends_with("/db-journal"));
            } else if let Some(call) = record.format.name.strip_prefix("sys_enter_") {
                inside.insert(record.thread, call);
            } else if record.format.name.starts_with("sys_exit_") {
                inside.remove(&record.thread);
            }
        }
        assert_eq!(journals, if is_used { 6 } else { 0 }, "{}", path.display());
        with_names += u32::from(is_used);
    }
    assert!(with_names > 0);
}

#[test]
fn what_is_saved_is_what_was_loaded() {
    let dir = tempfile::tempdir().unwrap();
    for (path, capture) in recordings() {
        let copy = dir.path().join(path.file_name().unwrap());
        capture.save(&copy).unwrap();
        let again = Capture::load(&copy).unwrap();
        let all = |capture: &Capture| -> Vec<(u64, u32, String, Vec<u8>)> {
            capture.records().iter().map(|one| (one.time_ns, one.cpu, name(one), one.data.to_vec())).collect()
        };
        assert!(all(&again) == all(&capture), "{}", path.display());
        assert_eq!(
            (&again.formats, &again.losses, &again.sources),
            (&capture.formats, &capture.losses, &capture.sources)
        );
        assert_eq!(again.kernel, capture.kernel);
    }
}

#[test]
fn what_is_no_recording_is_refused_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let refused = || Capture::load(dir.path()).unwrap_err().to_string();
    assert!(refused().contains("capture.json: No such file"), "{}", refused());
    recordings()[0].1.save(dir.path()).unwrap();
    let break_file = |file: &str, from: &str, to: &str| {
        let path = dir.path().join(file);
        let whole = std::fs::read_to_string(&path).unwrap();
        assert!(whole.contains(from), "{file}");
        std::fs::write(&path, whole.replace(from, to)).unwrap();
        let why = refused();
        std::fs::write(&path, whole).unwrap();
        why
    };
    let why = break_file("capture.json", "\"threads\"", "\"../threads\"");
    assert!(why.ends_with("pages of '../threads', which is neither 'threads' nor 'devices'"), "{why}");
    assert!(break_file("capture.json", "\"kernel\"", "\"krnl\"").contains("record it anew"));
    let why = break_file("events/header_page", "timestamp", "stamp");
    assert!(why.ends_with("header_page: the kernel's layout of pages has no usable field 'timestamp'"), "{why}");
    std::fs::remove_file(dir.path().join("threads-cpu0.raw")).unwrap();
    assert!(refused().contains("threads-cpu0.raw: No such file"), "{}", refused());
}
