//! What a node calls on ARM, held against what Android lets apps call.
//!
//! The tables lie in `data/android/`: what releases allow (`RELEASE-WIDTH.txt`, by `derive.py`), what the binaries were seen to call
//! (`calls-*.txt`, by tests/android/syscalls), and which of it can be done without (`done-without.txt`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const RELEASES: [&str; 4] = ["8", "10", "13", "15"];
/// An architecture, the width of its lists, and a call that qemu does not show: how musl on 32-bit ARM sets where a thread's memory is.
const ARCHITECTURES: [(&str, &str, Option<&str>); 2] =
    [("armv7", "32", Some("__ARM_NR_set_tls")), ("aarch64", "64", None)];

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/android").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn list(name: &str) -> BTreeSet<String> {
    let list: BTreeSet<String> = text(name).lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect();
    assert!(list.len() > 40, "{name} has {} names", list.len());
    list
}

/// What is called in the place of a call that is forbidden.
fn done_without() -> BTreeMap<String, Vec<String>> {
    let text = text("done-without.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (calls, reason) = line.split_once(": ").expect("a reason");
            let (call, instead) = calls.split_once(' ').expect("what is called instead");
            assert!(reason.len() > 20, "{call}: a reason is a sentence");
            (call.to_string(), instead.split(',').map(str::to_string).collect())
        })
        .collect()
}

/// Calls of `made` that `allowed` does not have and that nothing is done in the place of.
fn forbidden<'a>(
    made: &'a BTreeSet<String>,
    allowed: &BTreeSet<String>,
    instead: &BTreeMap<String, Vec<String>>,
) -> Vec<&'a str> {
    let is_fine = |call: &&String| {
        allowed.contains(*call)
            || instead.get(*call).is_some_and(|instead| instead.iter().any(|call| allowed.contains(call)))
    };
    made.iter().filter(|call| !is_fine(call)).map(String::as_str).collect()
}

#[test]
fn a_node_calls_what_every_release_allows_or_does_without() {
    let instead = done_without();
    let mut needed = BTreeSet::new();
    for (architecture, width, unseen) in ARCHITECTURES {
        let mut made = list(&format!("calls-{architecture}.txt"));
        made.extend(unseen.map(str::to_string));
        for release in RELEASES {
            let allowed = list(&format!("{release}-{width}.txt"));
            let forbidden = forbidden(&made, &allowed, &instead);
            assert!(
                forbidden.is_empty(),
                "{architecture} on Android {release}: {forbidden:?} would be answered ENOSYS; do without, and say in done-without.txt how"
            );
            needed.extend(made.difference(&allowed).cloned());
        }
    }
    assert_eq!(
        needed,
        instead.keys().cloned().collect(),
        "done-without.txt names what is made, and is forbidden somewhere"
    );
}

#[test]
fn a_call_that_nothing_is_known_of_is_found() {
    let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_string()).collect() };
    let made = set(&["read", "statx", "io_uring_setup"]);
    let instead = BTreeMap::from([("statx".to_string(), vec!["newfstatat".to_string()])]);
    assert_eq!(forbidden(&made, &set(&["read", "newfstatat"]), &instead), ["io_uring_setup"]);
    assert_eq!(forbidden(&made, &set(&["read"]), &instead), ["io_uring_setup", "statx"], "nothing to do instead");
}

#[test]
fn lists_say_what_is_known_of_android() {
    for release in RELEASES {
        for width in ["64", "32"] {
            let allowed = list(&format!("{release}-{width}.txt"));
            let is_later = ["13", "15"].contains(&release);
            for call in ["read", "openat", "futex", "preadv2", "pwritev2", "epoll_pwait", "accept4", "mincore"] {
                assert!(allowed.contains(call), "{call}, Android {release}, {width}");
            }
            for call in ["io_uring_setup", "openat2", "rseq", "set_robust_list", "accept", "cachestat"] {
                assert!(!allowed.contains(call), "{call}, Android {release}, {width}");
            }
            assert_eq!(allowed.contains("statx"), is_later, "statx, Android {release}, {width}");
            assert_eq!(allowed.contains("clone3"), release == "15");
            assert_eq!(allowed.contains("clock_gettime64"), is_later && width == "32");
        }
    }
}

#[test]
fn every_call_of_the_lists_has_a_number() {
    let table = text("numbers.txt");
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
    let rows: BTreeMap<&str, Vec<&str>> =
        lines.map(|l| (l.split(' ').next().unwrap(), l.split(' ').collect())).collect();
    for (width, machine) in [("64", "arm64"), ("32", "arm")] {
        let column = head.iter().position(|name| *name == machine).unwrap();
        for name in RELEASES.iter().flat_map(|release| list(&format!("{release}-{width}.txt"))) {
            assert!(rows[name.as_str()][column].parse::<u32>().is_ok(), "{name} on {machine}");
        }
    }
}
