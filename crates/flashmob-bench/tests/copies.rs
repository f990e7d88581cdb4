//! Images into an export and back: the same bytes, holes kept, a flush at the end.

mod common;

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use common::{Behaviour, serve};
use flashmob_bench::copy::{read_image, write_image};
use flashmob_bench::load::reference::{PatternReference, Reference};
use flashmob_core::nbd::protocol as p;

const MIB: u64 = 1 << 20;

/// A file of `len` bytes with data at 1 MiB and at its last 10,000 bytes, and holes elsewhere.
fn sparse_image(directory: &tempfile::TempDir, len: u64) -> (PathBuf, Vec<u8>) {
    let path = directory.path().join("image");
    let file = File::create(&path).unwrap();
    file.set_len(len).unwrap();
    let mut bytes = vec![0; 300_000];
    PatternReference { seed: 1 }.fill(0, &mut bytes);
    file.write_all_at(&bytes, MIB).unwrap();
    file.write_all_at(&bytes[..10_000], len - 10_000).unwrap();
    let whole = std::fs::read(&path).unwrap();
    (path, whole)
}

#[test]
fn an_image_goes_in_and_comes_out_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(Behaviour { size_bytes: 8 << 20, ..Behaviour::default() });
    server.memory.lock().unwrap().fill(0xff);
    let (path, whole) = sparse_image(&directory, 8 << 20);
    let mut last = None;
    let result = write_image(&server.uri, &path, &mut |progress| last = Some(*progress)).unwrap();
    assert_eq!(result.image_bytes, 8 << 20);
    assert!(result.data_bytes < 2 << 20, "holes do not travel: {}", result.data_bytes);
    assert_eq!(*server.memory.lock().unwrap(), whole);
    let last = last.unwrap();
    assert_eq!((last.done, last.total), (8 << 20, 8 << 20));
    let commands: Vec<u16> = server.commands.lock().unwrap().iter().map(|&(command, ..)| command).collect();
    let flush = commands.iter().rposition(|&c| c == p::CMD_FLUSH).expect("a flush");
    assert!(commands[flush + 1..].iter().all(|&c| c == p::CMD_DISC), "the flush is the last");

    let back = directory.path().join("back");
    std::fs::write(&back, vec![9; 9 << 20]).unwrap();
    let result = read_image(&server.uri, &back, &mut |_| ()).unwrap();
    assert_eq!(result.image_bytes, 8 << 20);
    assert_eq!(std::fs::read(&back).unwrap(), whole);
    assert!(std::fs::metadata(&back).unwrap().blocks() * 512 < 2 << 20, "zeroes become holes");
}

#[test]
fn without_write_zeroes_or_flush_an_image_goes_in_as_data() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(Behaviour { size_bytes: 4 << 20, flags: p::FLAG_HAS_FLAGS, ..Behaviour::default() });
    server.memory.lock().unwrap().fill(0xff);
    let (path, whole) = sparse_image(&directory, 4 << 20);
    let result = write_image(&server.uri, &path, &mut |_| ()).unwrap();
    assert_eq!(result.data_bytes, 4 << 20);
    assert_eq!(*server.memory.lock().unwrap(), whole);
    let commands = server.commands.lock().unwrap();
    assert!(commands.iter().all(|(c, ..)| [p::CMD_WRITE, p::CMD_DISC].contains(c)));
}

#[test]
fn images_of_any_size_up_to_the_exports_fit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    for len in [0, 1, 262_143, 262_144, 262_145, (1 << 20) - 1, 1 << 20] {
        let server = serve(Behaviour::default());
        server.memory.lock().unwrap().fill(7);
        std::fs::write(&path, vec![3; len]).unwrap();
        write_image(&server.uri, &path, &mut |_| ()).unwrap();
        let memory = server.memory.lock().unwrap();
        assert!(memory[..len].iter().all(|&b| b == 3) && memory[len..].iter().all(|&b| b == 7), "{len}");
    }
    let server = serve(Behaviour::default());
    std::fs::write(&path, vec![3; (1 << 20) + 1]).unwrap();
    let error = write_image(&server.uri, &path, &mut |_| ()).expect_err("one byte too many").to_string();
    assert!(error.contains("1048577 bytes, the export only 1048576"), "{error}");
}

#[test]
fn block_sizes_of_the_export_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = Some((8192, 8192, 100_000));
    let server = serve(Behaviour { size_bytes: 4 << 20, blocks, ..Behaviour::default() });
    let (path, whole) = sparse_image(&directory, 4 << 20);
    write_image(&server.uri, &path, &mut |_| ()).unwrap();
    assert_eq!(*server.memory.lock().unwrap(), whole);
    read_image(&server.uri, &directory.path().join("back"), &mut |_| ()).unwrap();
    for &(command, offset, len) in server.commands.lock().unwrap().iter() {
        assert!(offset % 8192 == 0 && len % 8192 == 0, "{command} {offset} {len}");
        assert!(len <= 100_000 || command == p::CMD_WRITE_ZEROES);
    }
    std::fs::write(&path, [1; 10_000]).unwrap();
    let error = write_image(&server.uri, &path, &mut |_| ()).expect_err("no multiple").to_string();
    assert!(error.contains("no multiple of the export's 8192"), "{error}");
}

#[test]
fn files_and_exports_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(Behaviour { flags: p::FLAG_HAS_FLAGS | p::FLAG_READ_ONLY, ..Behaviour::default() });
    let missing = directory.path().join("missing");
    let error = write_image(&server.uri, &missing, &mut |_| ()).expect_err("no file").to_string();
    assert!(error.contains("missing"), "{error}");
    let error = read_image(&server.uri, directory.path(), &mut |_| ()).expect_err("a directory").to_string();
    assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
    std::fs::write(&missing, [1]).unwrap();
    let error = write_image(&server.uri, &missing, &mut |_| ()).expect_err("read-only").to_string();
    assert!(error.contains("read-only"), "{error}");
    let error = read_image(&server.uri, std::path::Path::new("/dev/full"), &mut |_| ()).expect_err("full").to_string();
    assert!(error.contains("cannot write /dev/full"), "{error}");
}
