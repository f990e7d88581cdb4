//! Ordinary files in place of sysfs: they accept any value, and return the last one written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::trees::{self, Tree};
use super::{again, child_path};
use crate::place::Disk;
use crate::scheduler::{SchedulerError, SchedulerGuard};

fn disk(root: &Path) -> Disk {
    Disk { name: "mmcblk0".into(), sysfs: root.join("sys/devices/mmc0/mmcblk0") }
}

fn current(tree: &Tree) -> String {
    std::fs::read_to_string(disk(tree.root()).scheduler_path()).unwrap()
}

#[test]
fn the_old_one_comes_back_by_request_by_drop_and_by_panic() {
    let tree = trees::nexus7();
    let disk = disk(tree.root());
    let guard = SchedulerGuard::set(Some(&disk), "deadline").unwrap();
    assert_eq!((guard.current(), guard.warning()), ("deadline", None));
    assert_eq!(current(&tree), "deadline");
    guard.restore().unwrap();
    assert_eq!(current(&tree), "row");
    drop(SchedulerGuard::set(Some(&disk), "noop").unwrap());
    assert_eq!(current(&tree), "row");
    let panicked = std::panic::catch_unwind(|| {
        let _guard = SchedulerGuard::set(Some(&disk), "noop").unwrap();
        std::panic::resume_unwind(Box::new("no message"));
    });
    assert!(panicked.is_err());
    assert_eq!(current(&tree), "row");
}

#[test]
fn nothing_is_written_if_it_is_so_already() {
    let tree = trees::nexus7();
    let guard = SchedulerGuard::set(Some(&disk(tree.root())), "row").unwrap();
    assert_eq!(current(&tree), "noop deadline [row] cfq \n");
    guard.restore().unwrap();
    assert_eq!(current(&tree), "noop deadline [row] cfq \n");
}

#[test]
fn failures_say_what_to_do() {
    let tree = trees::pc();
    let error = SchedulerGuard::set(None, "none").unwrap_err();
    assert!(matches!(error, SchedulerError::NoDisk { .. }), "{error}");
    let silent = Disk { name: "sdb".into(), sysfs: tree.path("sys/devices/usb1/sdb") };
    let error = SchedulerGuard::set(Some(&silent), "none").unwrap_err();
    assert!(matches!(error, SchedulerError::NoScheduler { .. }), "{error}");
    let unknown = SchedulerError::Unknown {
        disk: "sda".into(),
        wanted: "deadlin".into(),
        offered: vec!["none".into(), "mq-deadline".into()],
        suggestion: Some("mq-deadline".into()),
    };
    let text = "the kernel offers no scheduler 'deadlin' for sda, only none, mq-deadline; did you mean 'mq-deadline'?";
    assert_eq!(unknown.to_string(), text);
}

#[test]
fn a_killed_process_leaves_the_old_one_behind() {
    let tree = trees::nexus7();
    let mut child = again(&[], "scheduler::child_with_a_guard", tree.root()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, "guarded");
    assert_eq!(current(&tree), "deadline");
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while current(&tree) != "row" {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", current(&tree));
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn wait_for_line(child: &mut std::process::Child, text: &str) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(text)), "the child ended early");
}

#[test]
#[ignore = "started by a_killed_process_leaves_the_old_one_behind"]
fn child_with_a_guard() {
    let Some(root) = child_path() else { return };
    let _guard = SchedulerGuard::set(Some(&disk(&root)), "deadline").unwrap();
    println!("guarded");
    std::thread::sleep(Duration::from_secs(60));
}
