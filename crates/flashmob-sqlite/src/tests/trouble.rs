//! Disks that report errors, and cancelled runs.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::*;

/// Names the folder for a test that runs in its own process.
const FOLDER: &str = "FLASHMOB_SQLITE_TEST_FOLDER";

#[test]
fn stopped_in_the_middle_it_tells_what_there_is_and_leaves_nothing() {
    for journal_mode in [JournalMode::Delete, JournalMode::Wal] {
        let folder = tempfile::tempdir().unwrap();
        let cancel = AtomicBool::new(false);
        let mut on_progress = |done| cancel.store(done == 7, Ordering::Relaxed);
        let report = run(&Workload { journal_mode, ..workload(folder.path()) }, &cancel, &mut on_progress).unwrap();
        assert_eq!((report.inserts.len(), report.is_stopped), (7, true));
        assert_eq!(count(&report, CallKind::Read, FileKind::Other), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = done(&workload(&folder.path().join("absent"))).unwrap_err().to_string();
    assert!(message.contains("absent/trace.db") && message.contains("name a place"), "{message}");
}

#[test]
fn a_limit_in_the_middle_is_told_with_what_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::trouble::within_a_limit", "--ignored", "--nocapture"]).env(FOLDER, folder.path());
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
        // SAFETY: both calls are safe between fork and exec, and get valid arguments.
        unsafe {
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        Ok(())
    };
    // SAFETY: the closure does nothing but system calls.
    let output = unsafe { command.pre_exec(limit) }.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "removed, though it failed");
}

/// The body of the test above: in its own process, because the limit applies to the whole process.
#[test]
#[ignore = "run by another test, in a process with a limit"]
fn within_a_limit() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let failed = done(&Workload { inserts: 100_000, ..workload(Path::new(&folder)) }).unwrap_err();
    let message = failed.to_string();
    let Error::Io(_, inserts, _, errno) = failed else { panic!("{message}") };
    assert!(inserts > 100 && errno == libc::EFBIG && message.contains("File too large"), "{message}");
}

#[test]
fn somebody_without_rights_is_told_so() {
    // SAFETY: it takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    assert!(matches!(done(&workload(folder.path())), Err(Error::ReadOnly { .. })));
}

mod privileged {
    use super::*;

    #[test]
    #[ignore = "needs root: it mounts a small file system"]
    fn a_full_disk_is_called_full() {
        let folder = tempfile::tempdir().unwrap();
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).arg(folder.path()).status().unwrap();
            assert!(status.success());
        };
        mount(&["-t", "tmpfs", "-o", "size=128k", "none"]);
        let failed = done(&Workload { inserts: 100_000, ..workload(folder.path()) });
        mount(&["-o", "remount,ro"]);
        let read_only = done(&workload(folder.path()));
        assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Error::Full(_, inserts) if inserts > 100), "{failed}");
        assert!(failed.to_string().contains("no space is left there"), "{failed}");
        assert!(matches!(read_only, Err(Error::ReadOnly { .. })), "{read_only:?}");
    }
}
