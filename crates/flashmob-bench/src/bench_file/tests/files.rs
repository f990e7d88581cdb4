//! The benchmark's file is created completely or not at all, and is recognised later.

use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::{again, child_path};
use crate::bench_file::{
    BenchFileError, HEADER_BYTES, Header, abandon, make, make_with, open_for_reading, open_for_writing,
    rename_over_placeholder,
};
use crate::load::reference::{PatternReference, Reference};
use crate::progress::Progress;

const SIZE: u64 = (3 << 20) + 4103;

/// Creates a file that is unnamed at first, or has another name.
type Make = fn(&Path, u64, &mut dyn FnMut(&Progress), &AtomicBool) -> Result<Header, BenchFileError>;

const BOTH: [Make; 2] = [
    |path, size, progress, cancel| make(path, size, 7, progress, cancel),
    |path, size, progress, cancel| make_with(path, size, 7, progress, cancel, false),
];

fn simply(path: &Path, size: u64) -> Result<Header, BenchFileError> {
    make(path, size, 7, |_| {}, &AtomicBool::new(false))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn wait_for_line(child: &mut std::process::Child, text: &str) {
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.map_while(Result::ok).any(|line| line.contains(text)), "the child ended early");
}

#[test]
fn a_file_has_real_blocks_its_content_and_its_header() {
    for make in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut seen = Vec::new();
        let header =
            make(&path, SIZE, &mut |progress| seen.push((progress.done, progress.total)), &false.into()).unwrap();
        assert_eq!(header, Header { size_bytes: SIZE, seed: 7 });
        assert_eq!((seen.len(), seen[3]), (4, (SIZE, SIZE)));
        assert_eq!(names(dir.path()), ["file"]);
        let content = std::fs::read(&path).unwrap();
        let mut expected = vec![0; (SIZE - HEADER_BYTES) as usize];
        PatternReference { seed: 7 }.fill(HEADER_BYTES, &mut expected);
        assert!(content[HEADER_BYTES as usize..] == expected);
        assert!(path.metadata().unwrap().blocks() * 512 >= SIZE);
        let opened = open_for_writing(&path, false).unwrap();
        assert_eq!((opened.size_bytes, opened.header, opened.is_block_device), (SIZE, Some(header), false));
    }
}

#[test]
fn nothing_is_left_of_what_was_stopped() {
    for make in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let cancel = AtomicBool::new(false);
        let result = make(&path, SIZE, &mut |_| cancel.store(true, Ordering::Relaxed), &cancel);
        assert!(matches!(result, Err(BenchFileError::Cancelled { .. })), "{result:?}");
        assert_eq!(names(dir.path()), [""; 0]);
        let panicked = std::panic::catch_unwind(|| {
            make(&path, SIZE, &mut |_| std::panic::resume_unwind(Box::new("no message")), &false.into())
        });
        assert!(panicked.is_err());
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn nothing_is_replaced() {
    for make in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        // Another process takes the name meanwhile.
        let result = make(&path, SIZE, &mut |_| std::fs::write(&path, "theirs").unwrap(), &false.into());
        assert!(matches!(result, Err(BenchFileError::Exists { .. })), "{result:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(dir.path()), ["file"]);
        assert!(matches!(make(&path, SIZE, &mut |_| {}, &false.into()), Err(BenchFileError::Exists { .. })));
        let dangling = dir.path().join("link");
        symlink("nowhere", &dangling).unwrap();
        assert!(matches!(make(&dangling, SIZE, &mut |_| {}, &false.into()), Err(BenchFileError::Exists { .. })));
    }
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::write(&from, "new").unwrap();
    std::fs::write(&to, "old").unwrap();
    assert!(rename_over_placeholder(&from, &to).is_err());
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    std::fs::remove_file(&to).unwrap();
    rename_over_placeholder(&from, &to).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"new");
    assert!(rename_over_placeholder(&from, &dir.path().join("other")).is_err());
    assert_eq!(names(dir.path()), ["to"], "no placeholder stays");
}

#[test]
fn what_a_killed_process_left_goes_and_what_is_others_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, partial) = (dir.path().join("file"), dir.path().join(".file.flashmob-partial"));
    let mut child = again(&[], "files::child_that_makes_a_file", &path).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, "half made");
    let busy = simply(&path, SIZE);
    assert!(matches!(busy, Err(BenchFileError::Busy { .. })), "{busy:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(dir.path()), [".file.flashmob-partial"]);
    simply(&path, SIZE).unwrap();
    assert_eq!(names(dir.path()), ["file"]);
    std::fs::remove_file(&path).unwrap();
    for content in ["someone's own", &"x".repeat(5000)] {
        std::fs::write(&partial, content).unwrap();
        assert!(matches!(simply(&path, SIZE), Err(BenchFileError::InTheWay { .. })));
        assert_eq!(std::fs::read_to_string(&partial).unwrap(), content);
    }
    std::fs::remove_file(&partial).unwrap();
    let target = dir.path().join("target");
    std::fs::write(&target, "").unwrap();
    symlink(&target, &partial).unwrap();
    assert!(matches!(simply(&path, SIZE), Err(BenchFileError::InTheWay { .. })), "no link is followed");
    assert_eq!(target.metadata().unwrap().len(), 0);
}

#[test]
fn who_ends_at_once_leaves_nothing_either() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = again(&[], "files::child_that_ends_at_once", &dir.path().join("file")).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(77));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
#[ignore = "started by who_ends_at_once_leaves_nothing_either"]
fn child_that_ends_at_once() {
    let Some(path) = child_path() else { return };
    let end = |_: &Progress| {
        assert_eq!(names(path.parent().unwrap()), [".file.flashmob-partial"]);
        abandon();
        std::process::exit(77);
    };
    let _ = make_with(&path, SIZE, 7, end, &AtomicBool::new(false), false);
}

#[test]
fn a_name_that_only_a_directory_can_have_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file/");
    let refused = make(&path, SIZE, 7, |_| panic!("nothing is written"), &AtomicBool::new(false));
    assert!(matches!(refused, Err(BenchFileError::IsDirectory { .. })), "{refused:?}");
}

#[test]
#[ignore = "started by what_a_killed_process_left_goes_and_what_is_others_stays"]
fn child_that_makes_a_file() {
    let Some(path) = child_path() else { return };
    let wait = |_: &Progress| {
        println!("half made");
        std::thread::sleep(std::time::Duration::from_secs(60));
    };
    let _ = make_with(&path, SIZE, 7, wait, &AtomicBool::new(false), false);
}

#[test]
fn failures_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    assert!(matches!(simply(&path, HEADER_BYTES), Err(BenchFileError::TooSmall { .. })));
    assert!(matches!(simply(dir.path(), SIZE), Err(BenchFileError::IsDirectory { .. })));
    let error = simply(&path, 1 << 60).unwrap_err();
    assert!(matches!(error, BenchFileError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("for a file of 1 EiB"), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
    let error = simply(&dir.path().join("missing/file"), SIZE).unwrap_err().to_string();
    assert!(error.contains("missing does not exist; create it"), "{error}");
    assert!(matches!(simply(Path::new("/proc/file"), SIZE), Err(BenchFileError::Io { .. })));
    assert!(matches!(simply(Path::new("/"), SIZE), Err(BenchFileError::IsDirectory { .. })));
}

#[test]
fn only_the_benchmarks_own_files_are_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(open_for_reading(&path), Err(BenchFileError::Empty { .. })));
    std::fs::write(&path, "theirs").unwrap();
    let opened = open_for_reading(&path).unwrap();
    assert_eq!((opened.size_bytes, opened.header), (6, None));
    assert!(opened.file.write_at(b"x", 0).is_err());
    assert!(matches!(open_for_writing(&path, false), Err(BenchFileError::NotOurs { .. })));
    assert!(open_for_writing(&path, true).unwrap().file.write_at(b"x", 0).is_ok());
    for (what, allow) in [("/dev/null", false), ("/dev/null", true)] {
        assert!(matches!(open_for_writing(Path::new(what), allow), Err(BenchFileError::NotAFile { .. })));
        assert!(matches!(open_for_reading(Path::new(what)), Err(BenchFileError::NotAFile { .. })));
    }
    assert!(matches!(open_for_reading(dir.path()), Err(BenchFileError::IsDirectory { .. })));
    assert!(matches!(open_for_reading(&dir.path().join("none")), Err(BenchFileError::Io { .. })));
    // A truncated or extended file is not recognised.
    std::fs::remove_file(&path).unwrap();
    simply(&path, SIZE).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(SIZE - 1).unwrap();
    assert_eq!(open_for_reading(&path).unwrap().header, None);
    assert!(matches!(open_for_writing(&path, false), Err(BenchFileError::NotOurs { .. })));
}

proptest! {
    #[test]
    fn headers_survive_and_any_other_block_is_refused(size in any::<u64>(), seed in any::<u64>(), at in 0usize..4096, bit in 0u8..8) {
        let header = Header { size_bytes: size, seed };
        let mut block = header.encode();
        prop_assert_eq!(Header::decode(&block), Some(header));
        block[at] ^= 1 << bit;
        prop_assert_eq!(Header::decode(&block), None);
    }
}
