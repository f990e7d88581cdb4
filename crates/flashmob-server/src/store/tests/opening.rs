//! What is opened, what is refused, and that the message says what to do.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

const SIZE_BYTES: u64 = 64 * 1024;

fn try_open(config: StoreConfig) -> Result<Store, StoreError> {
    Store::open(config, Instant::now(), || {})
}

fn plain(path: &Path, size_bytes: Option<u64>) -> StoreConfig {
    StoreConfig { size_bytes, ..StoreConfig::new(path) }
}

/// The message of the error that opening gives; it must name the file.
fn refusal(config: StoreConfig) -> (StoreError, String) {
    let path = config.path.display().to_string();
    let error = try_open(config).expect_err("refused");
    let text = error.to_string();
    assert!(text.contains(&path), "names the file: {text}");
    (error, text)
}

#[test]
fn a_missing_file_is_made_sparse_and_an_existing_one_used_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = try_open(plain(&path, Some(SIZE_BYTES))).unwrap();
    assert_eq!(store.size_bytes(), SIZE_BYTES);
    drop(store);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (SIZE_BYTES, 0o600));
    assert_eq!(try_open(plain(&path, None)).unwrap().size_bytes(), SIZE_BYTES);
    assert_eq!(try_open(plain(&path, Some(SIZE_BYTES))).unwrap().size_bytes(), SIZE_BYTES);
    fs::write(&path, b"x").unwrap();
    assert_eq!(try_open(plain(&path, None)).unwrap().size_bytes(), 1);
}

#[test]
fn a_size_is_needed_for_a_new_file_and_must_be_possible() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let (error, text) = refusal(plain(&path, None));
    assert!(matches!(error, StoreError::SizeRequired { .. }) && text.contains("--size"), "{text}");
    for size in [0, 1 << 63, u64::MAX] {
        assert!(matches!(refusal(plain(&path, Some(size))).0, StoreError::SizeImpossible { .. }));
    }
    let (error, text) = refusal(plain(&path, Some(i64::MAX as u64)));
    assert!(matches!(error, StoreError::TooLargeForFileSystem { .. }), "{text}");
    assert!(!path.exists(), "nothing is left behind");
    fs::write(&path, b"").unwrap();
    assert!(matches!(refusal(plain(&path, None)).0, StoreError::Empty { .. }));
    assert_eq!(try_open(plain(&path, Some(1))).unwrap().size_bytes(), 1, "an empty file is as good as none");
}

#[test]
fn another_size_than_asked_for_is_refused_with_both() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, vec![1; 1000]).unwrap();
    for wanted in [1, 999, 1001, 1 << 40] {
        let (error, text) = refusal(plain(&path, Some(wanted)));
        assert!(matches!(error, StoreError::SizeDiffers { .. }), "{text}");
        assert!(text.contains("1000 bytes") && text.contains(&format!("{wanted} (")), "{text}");
    }
    assert_eq!(fs::read(&path).unwrap(), vec![1; 1000]);
}

#[test]
fn what_is_no_file_is_refused_by_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for (path, kind) in [
        (dir.path(), "directory"),
        (fifo.as_path(), "FIFO"),
        (socket.as_path(), "socket"),
        (Path::new("/dev/null"), "character device"),
    ] {
        let (error, text) = refusal(plain(path, Some(SIZE_BYTES)));
        assert!(matches!(error, StoreError::NotAFile { what, .. } if what == kind), "{text}");
    }
}

#[test]
fn a_second_node_on_the_same_file_is_refused_until_the_first_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("data"), dir.path().join("link"));
    let first = try_open(plain(&path, Some(SIZE_BYTES))).unwrap();
    fs::hard_link(&path, &link).unwrap();
    for path in [&path, &link] {
        let (error, text) = refusal(plain(path, Some(SIZE_BYTES)));
        assert!(matches!(error, StoreError::Locked { .. }) && text.contains("another node"), "{text}");
    }
    let by_others = std::process::Command::new("flock").arg("-n").arg(&path).arg("true").status().unwrap();
    assert!(!by_others.success(), "another process is kept away, too");
    drop(first);
    assert!(try_open(plain(&link, None)).is_ok());
}

#[test]
fn a_lock_that_is_given_up_in_a_moment_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let first = try_open(plain(&path, Some(SIZE_BYTES))).unwrap();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(first);
    });
    assert!(try_open(plain(&path, None)).is_ok());
    closing.join().unwrap();
}

#[test]
fn a_missing_directory_and_a_link_to_nothing_are_told_apart_from_a_missing_file() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("none/data"), dir.path().join("file/data")] {
        fs::write(dir.path().join("file"), b"x").unwrap();
        let (error, text) = refusal(plain(&path, Some(SIZE_BYTES)));
        assert!(matches!(error, StoreError::ParentMissing { .. }), "{text}");
    }
    let link = dir.path().join("link");
    symlink(dir.path().join("gone"), &link).unwrap();
    assert!(matches!(refusal(plain(&link, Some(SIZE_BYTES))).0, StoreError::DanglingLink { .. }));
    assert!(!dir.path().join("gone").exists());
}

#[test]
fn the_kernels_refusals_become_messages_with_a_remedy() {
    use rustix::io::Errno;
    let path = Path::new("/some/file");
    for (errno, remedy) in [
        (Errno::ACCESS, "owner"),
        (Errno::PERM, "owner"),
        (Errno::ROFS, "remount"),
        (Errno::NOSPC, "free some"),
        (Errno::NOENT, "create it"),
        (Errno::ISDIR, "give a file"),
        (Errno::MFILE, "cannot open"),
    ] {
        let text = error::open_error("open", path, errno.into()).to_string();
        assert!(text.contains("/some/file") && text.contains(remedy), "{text}");
    }
    for error in [
        StoreError::IoUringRefused(Errno::PERM.into()),
        StoreError::IoUringRefused(Errno::NOSYS.into()),
        StoreError::IoUringTooOld,
        StoreError::IoUringAbsent,
    ] {
        assert!(error.to_string().contains("--engine threads"), "{error}");
    }
}

#[test]
fn a_file_without_permission_is_refused() {
    if rustix::process::geteuid().is_root() {
        // Root may do everything: drop to nobody in a process of its own.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("data");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // The test binary may lie where nobody can go: hand it over as an open file.
        let script =
            "exec 9<\"$1\"; shift; exec setpriv --reuid 65534 --regid 65534 --clear-groups /proc/self/fd/9 \"$@\"";
        in_child(script, "opening::child_without_permission", &path);
    } else {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        fs::write(&path, b"x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(matches!(refusal(plain(&path, None)).0, StoreError::Permission { .. }));
    }
}

#[test]
#[ignore = "started by a_file_without_permission_is_refused"]
fn child_without_permission() {
    let Some(path) = child_path() else { return };
    assert!(matches!(refusal(plain(&path, None)).0, StoreError::Permission { .. }));
    let new = path.with_file_name("new");
    assert!(matches!(refusal(plain(&new, Some(SIZE_BYTES))).0, StoreError::Permission { .. }));
}

#[test]
fn direct_wants_whole_blocks() {
    if is_left_out("direct") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let (error, text) = refusal(config(&path, SIZE_BYTES + 1, (Engine::Threads, true)));
    assert!(matches!(error, StoreError::UnalignedSize { .. }) && text.contains("--direct"), "{text}");
    assert!(!path.exists(), "a file that was made for it");
    std::fs::write(&path, "").unwrap();
    refusal(config(&path, SIZE_BYTES + 1, (Engine::Threads, true)));
    assert_eq!(path.metadata().unwrap().len(), 0, "an empty file stays empty");
}

#[test]
fn the_number_of_threads_has_limits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    for (engine, direct) in variants() {
        for (threads, fits) in [(0, false), (1, true), (64, true), (65, false), (usize::MAX, false)] {
            let opened = try_open(StoreConfig { threads, ..config(&path, SIZE_BYTES, (engine, direct)) });
            assert_eq!(opened.is_ok(), fits, "{threads}");
            assert!(fits || matches!(opened, Err(StoreError::Threads { .. })));
        }
    }
}

#[test]
fn no_empty_file_is_made_where_an_identity_says_that_there_was_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    drop(try_open(plain(&path, Some(SIZE_BYTES))).unwrap());
    let sidecar = super::super::identity::sidecar_path(&path, None);
    super::super::identity::Identity::load_or_create(&sidecar, SIZE_BYTES, false).unwrap();
    for empty in [false, true] {
        fs::remove_file(&path).unwrap();
        if empty {
            fs::write(&path, b"").unwrap();
        }
        for size in [None, Some(SIZE_BYTES)] {
            let (error, text) = refusal(plain(&path, size));
            assert!(matches!(error, StoreError::DataLost { .. }), "{text}");
            assert!(text.contains(".flashmob"), "{text}");
        }
        assert_eq!(path.exists(), empty);
        fs::write(&path, vec![1; SIZE_BYTES as usize]).unwrap();
        assert!(try_open(plain(&path, None)).is_ok(), "brought back");
    }
}
