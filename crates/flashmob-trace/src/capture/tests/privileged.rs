//! The kernel's own tracing, which needs root. Whatever these do, nothing may stay in the kernel.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::names::{EVENT, file_name};
use super::super::sqlite::{SYSTEM, find_sqlite};
use super::super::tracefs::{self, Tracefs};
use super::*;

const CHILD: &str = "FLASHMOB_TEST_CHILD";

fn thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Calls that nothing else in these tests makes.
fn calls(count: u32) {
    let file = tempfile::tempfile().unwrap();
    (0..count).for_each(|at| file.write_all_at(b"four", u64::from(at) * 4).unwrap());
}

fn own(events: &[&str]) -> Wanted {
    let events = events.iter().map(|name| event("syscalls", name, Scope::Threads)).collect();
    Wanted { events, threads: vec![thread()], ..Wanted::default() }
}

const WRITES: [&str; 2] = ["sys_enter_pwrite64", "sys_exit_pwrite64"];

/// Instances and probes of a process that are in the kernel.
fn left_by(process: u32) -> Vec<String> {
    let tracefs = Tracefs::find().unwrap();
    let instances = std::fs::read_dir(tracefs.instances()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<String> = instances.map(|name| name.to_string_lossy().into_owned()).collect();
    left.extend(tracefs::read(&tracefs.root().join("uprobe_events")).unwrap_or_default().lines().map(str::to_string));
    left.retain(|name| {
        name.contains(&format!("flashmob-{process}-")) || name.contains(&format!("flashmob_{process}_"))
    });
    left
}

#[test]
#[ignore = "needs root and tracefs"]
fn calls_of_the_wanted_thread_are_captured_and_nobody_elses() {
    let mut session = Session::open(&own(&WRITES)).unwrap();
    assert!(session.sources()[0].is_used, "{:?}", session.sources());
    calls(3);
    session.start().unwrap();
    let begun = now_ns();
    calls(100);
    std::thread::spawn(|| calls(50)).join().unwrap();
    let ended = now_ns();
    let capture = session.stop();
    let records = capture.records();
    assert_eq!((records.len(), capture.losses.events, capture.losses.lost), (200, 200, 0));
    for pair in records.chunks(2) {
        assert!(pair[0].is("syscalls", WRITES[0]) && pair[1].is("syscalls", WRITES[1]));
        assert_eq!((pair[0].number("count"), pair[1].number("ret")), (Some(4), Some(4)));
        assert!(pair.iter().all(|one| one.thread == thread() && (begun..ended).contains(&one.time_ns)));
    }
}

#[test]
#[ignore = "needs root and tracefs"]
fn markers_have_the_time_at_which_they_were_written() {
    let mut session = Session::open(&own(&WRITES)).unwrap();
    session.start().unwrap();
    let mut marker = std::fs::OpenOptions::new().write(true).open(session.marker().unwrap()).unwrap();
    let mut times = Vec::new();
    for at in 0..10 {
        let before = now_ns();
        marker.write_all(format!("marker {at}").as_bytes()).unwrap();
        times.push(before..=now_ns());
    }
    drop(marker);
    let capture = session.stop();
    let records = capture.records();
    let markers: Vec<_> = records.iter().filter(|record| record.is("ftrace", "print")).collect();
    assert_eq!(markers.len(), 10);
    for (at, (record, times)) in markers.iter().zip(times).enumerate() {
        assert_eq!(record.text("buf").unwrap().trim_end(), format!("marker {at}"));
        assert!(times.contains(&record.time_ns), "{} is not within {times:?}", record.time_ns);
    }
}

#[test]
#[ignore = "needs root and tracefs"]
fn an_instance_whose_marker_is_still_open_goes_when_it_is_closed() {
    let session = Session::open(&own(&WRITES)).unwrap();
    // Through a mount of the test's own: where tracefs is not mounted, the session's ends with the session.
    let tracefs = Tracefs::find().unwrap();
    let instance = session.marker().unwrap().parent().unwrap().file_name().unwrap().to_owned();
    let path = tracefs.instances().join(instance).join("trace_marker");
    let marker = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    drop(session);
    assert!(path.exists());
    drop(marker);
    let begun = Instant::now();
    while path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs root and tracefs"]
fn what_does_not_fit_is_counted_to_the_last_event() {
    for (buffer_bytes, memory_bytes) in [(8 << 10, 0), (0, 64 << 10)] {
        let mut session = Session::open(&Wanted { buffer_bytes, memory_bytes, ..own(&WRITES) }).unwrap();
        session.start().unwrap();
        calls(200_000);
        let capture = session.stop();
        let losses = &capture.losses;
        assert!(losses.lost > 0 && losses.events > 0, "{losses:?}");
        assert_eq!(capture.is_memory_full, memory_bytes > 0);
        assert_eq!(losses.events + losses.lost, 400_000, "{losses:?}");
        assert_eq!((capture.records().len() as u64, losses.unreadable_bytes), (losses.events, 0));
    }
    // All of them fit, whether anybody reads meanwhile or not.
    let mut session = Session::open(&Wanted { buffer_bytes: 32 << 20, ..own(&WRITES) }).unwrap();
    session.start().unwrap();
    calls(200_000);
    let losses = session.stop().losses;
    assert_eq!((losses.events, losses.lost), (400_000, 0));
}

#[test]
#[ignore = "needs root and tracefs"]
fn what_the_kernel_lacks_is_named_and_the_rest_works() {
    let mut wanted = own(&["sys_enter_pwrite64", "sys_enter_nonsense"]);
    wanted.events.push(event("nonsense", "never", Scope::All));
    wanted.events.push(Event { filter: Some("nonsense == 1".into()), ..event("syscalls", WRITES[1], Scope::Threads) });
    wanted.sqlite = vec!["/nowhere".into()];
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    calls(1);
    let capture = session.stop();
    assert_eq!(capture.records().len(), 1);
    let source = |name: &str| capture.sources.iter().find(|source| source.name == name).unwrap();
    let why = source("syscalls").why.as_deref().unwrap();
    assert!(source("syscalls").is_used && why.contains("sys_enter_nonsense"), "{why}");
    assert!(why.contains("refuses the filter 'nonsense == 1'"), "{why}");
    assert!(!source("nonsense").is_used && source("nonsense").why.as_deref().unwrap().contains("modprobe nonsense"));
    assert!(!source("SQLite's functions").is_used);
    assert!(source("SQLite's functions").why.as_deref().unwrap().contains("/nowhere: No such file"));
}

/// A command that waits for a line before it does anything.
fn waiting(script: &str) -> std::process::Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read _; {script}")]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().unwrap()
}

#[test]
#[ignore = "needs root, tracefs and eBPF"]
fn names_of_files_are_known_of_children_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a name with blanks");
    // Kept to the end: where tracefs is not mounted, the path leads through its descriptor.
    let tracefs = Tracefs::find().unwrap();
    let switch = tracefs.root().join("events").join(EVENT.0).join(EVENT.1).join("enable");
    let before = tracefs::read(&switch).unwrap();
    let mut child = waiting(&format!("echo >'{0}'; rm '{0}'; true", path.display()));
    let mut wanted = own(&["sys_enter_openat", "sys_exit_openat", "sys_enter_unlinkat", "sys_exit_unlinkat"]);
    (wanted.threads, wanted.follow_children, wanted.names) = (vec![child.id()], true, true);
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
    let capture = session.stop();
    assert!(capture.sources.iter().all(|source| source.is_used), "{:?}", capture.sources);
    let records = capture.records();
    let found: Vec<(u32, String)> = records
        .iter()
        .filter_map(|record| Some((record.thread, file_name(record)?)))
        .filter(|(_, name)| Path::new(&name.path) == path)
        .map(|(thread, name)| (thread, name.call))
        .collect();
    let [(opener, opened), (remover, removed)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((*opener, opened.as_str()), (child.id(), "openat"));
    assert!(*remover != child.id() && removed.starts_with("unlink"), "{found:?}");
    // Another program on this machine may be about to turn it off.
    let begun = Instant::now();
    while tracefs::read(&switch).unwrap() != before {
        assert!(begun.elapsed() < Duration::from_secs(60), "the event of everybody is not as it was: {before}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs root, tracefs and the sqlite3 program"]
fn functions_of_sqlite_are_seen_with_what_they_were_asked() {
    let files = find_sqlite(Path::new("sqlite3"));
    assert!(!files.is_empty(), "sqlite3 is needed (make deps-test)");
    let mut child = waiting("exec sqlite3 :memory: 'select 1 + 1'");
    let wanted = Wanted { threads: vec![child.id()], follow_children: true, sqlite: files, ..Wanted::default() };
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
    let capture = session.stop();
    assert!(capture.sources.iter().any(|source| source.is_used), "{:?}", capture.sources);
    let records = capture.records();
    let asked = records.iter().filter(|record| record.is(SYSTEM, "sqlite3_prepare_v2"));
    let asked: Vec<String> = asked.filter_map(|record| record.text("sql").map(|sql| sql.into_owned())).collect();
    assert!(asked.iter().any(|sql| sql == "select 1 + 1"), "{asked:?}");
    // A row, and the end.
    let steps = records.iter().filter(|record| record.is(SYSTEM, "sqlite3_step_return"));
    let results: Vec<u64> = steps.filter_map(|record| record.number("result")).collect();
    assert!(results.ends_with(&[100, 101]), "{results:?}");
    assert_eq!(left_by(std::process::id()).iter().filter(|name| name.contains("sqlite3")).count(), 0);
}

#[test]
#[ignore = "needs root, tracefs and a loop device"]
fn events_of_other_devices_are_left_out_and_none_of_the_own_is() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let shell = |script: String| {
        let output = Command::new("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let device = PathBuf::from(shell(format!("losetup -f --show {}", image.display())));
    let number = shell(format!("stat -c '%t %T' {}", device.display()));
    let (major, minor) = number.split_once(' ').unwrap();
    let part = |text: &str| u32::from_str_radix(text, 16).unwrap();
    let number = part(major) << 20 | part(minor);
    let names = ["block_rq_issue", "block_rq_complete"];
    let wanted = Wanted {
        events: names.map(|name| event("block", name, Scope::Devices)).to_vec(),
        devices: vec![number],
        ..Wanted::default()
    };
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    shell(format!("dd if=/dev/zero of={} bs=64k count=100 oflag=direct conv=notrunc 2>&1", device.display()));
    let capture = session.stop();
    shell(format!("losetup -d {}", device.display()));
    let records = capture.records();
    assert!(records.iter().all(|record| record.number("dev") == Some(u64::from(number))));
    for name in names {
        let of_dd = |record: &&crate::record::Record<'_>| {
            record.format.name == name && record.text("rwbs").as_deref() == Some("WS")
        };
        let sectors: u64 = records.iter().filter(of_dd).filter_map(|record| record.number("nr_sector")).sum();
        assert_eq!(sectors, 100 * 128, "{name}");
    }
}

/// This program again, with one test of this module and a word for it.
fn again(before: &[&str], test: &str) -> Command {
    let mut words: Vec<std::ffi::OsString> = before.iter().map(Into::into).collect();
    words.push(std::env::current_exe().unwrap().into());
    let mut command = Command::new(words.remove(0));
    command.args(words).args(["--ignored", "--exact", "--nocapture"]);
    command.arg(format!("capture::tests::privileged::{test}")).env(CHILD, "1").stdout(Stdio::piped());
    command
}

#[test]
#[ignore = "needs root and tracefs"]
fn nothing_stays_in_the_kernel_after_a_kill() {
    for signal in ["KILL", "TERM", "INT"] {
        let mut child = again(&[], "child_that_traces").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("tracing")), "{signal}");
        assert!(left_by(child.id()).len() >= 2, "{:?}", left_by(child.id()));
        let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        child.wait().unwrap();
        let begun = Instant::now();
        while !left_by(child.id()).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{signal}: {:?}", left_by(child.id()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
#[ignore = "started by nothing_stays_in_the_kernel_after_a_kill"]
fn child_that_traces() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut wanted = own(&WRITES);
    wanted.events.push(event("block", "block_rq_issue", Scope::All));
    wanted.sqlite = find_sqlite(Path::new("sqlite3"));
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    println!("tracing");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "needs root and tracefs"]
fn what_a_dead_run_left_is_removed_by_the_next() {
    let tracefs = Tracefs::find().unwrap();
    // No process has that number.
    let dead = [
        tracefs.instances().join("flashmob-4194305-1-0-threads"),
        tracefs.instances().join("flashmob-4194305-1-0-devices"),
    ];
    dead.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let program = std::env::current_exe().unwrap();
    let list = tracefs.root().join("uprobe_events");
    tracefs::append(&list, &format!("p:flashmob_4194305_1_0_0/sqlite3_step {}:0x1000", program.display())).unwrap();
    // Another test's session may have found them before this one.
    drop(Session::open(&own(&WRITES)).unwrap());
    assert_eq!(left_by(4_194_305), Vec::<String>::new());
}

#[test]
#[ignore = "needs root to become someone else"]
fn who_has_no_rights_gets_a_session_that_says_so() {
    let before = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"];
    let output = again(&before, "child_without_rights").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "started by who_has_no_rights_gets_a_session_that_says_so"]
fn child_without_rights() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let wanted = Wanted { names: true, sqlite: vec!["/bin/sh".into()], ..own(&WRITES) };
    let mut session = Session::open(&wanted).unwrap();
    session.start().unwrap();
    let capture = session.stop();
    assert_eq!((capture.records().len(), capture.sources.len()), (0, 3));
    for source in &capture.sources {
        assert!(!source.is_used && !source.layers.is_empty());
        assert!(source.why.as_deref().unwrap().contains("root"), "{source:?}");
    }
}

#[test]
#[ignore = "needs root and a mount namespace"]
fn where_tracefs_is_not_mounted_it_is_used_all_the_same() {
    let hide = "umount -l /sys/kernel/tracing 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; exec \"$@\"";
    let output = again(&["unshare", "-m", "sh", "-c", hide, "sh"], "child_without_tracefs").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "started by where_tracefs_is_not_mounted_it_is_used_all_the_same"]
fn child_without_tracefs() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    assert!(!Path::new("/sys/kernel/tracing/events").exists());
    let mut session = Session::open(&own(&WRITES)).unwrap();
    session.start().unwrap();
    calls(10);
    assert!(session.marker().unwrap().exists());
    assert_eq!(session.stop().records().len(), 20);
    assert_eq!(left_by(std::process::id()), Vec::<String>::new());
}
