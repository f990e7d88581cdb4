//! Maps of holes, on every engine.

use super::*;
use flashmob_core::wire::map::{MAP_BYTES, MAP_RUNS_MAX, Map};
use proptest::prelude::*;

const SIZE_BYTES: u64 = 1 << 20;

/// The runs of a range: their lengths, and whether they are holes.
fn map(rig: &mut Rig, offset: u64, len: u32) -> Vec<(u32, bool)> {
    let done = rig.one(StoreOp { data: vec![9; MAP_BYTES], ..bare(Op::Map, offset, len) });
    assert_eq!(done.result, Ok(()));
    Map::decode(&done.data, len).unwrap().runs().collect()
}

/// Whether the file system below a folder reports holes in blocks of 4 KiB, and can punch them; not all do.
fn has_fine_holes(dir: &Path) -> bool {
    use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(dir.join("probe")).unwrap();
    file.set_len(SIZE_BYTES).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 512 << 10).unwrap();
    let data = (512 << 10)..(512 << 10) + 4096;
    seek(&file, SeekFrom::Data(0)) == Ok(data.start)
        && seek(&file, SeekFrom::Hole(data.start)) == Ok(data.end)
        && fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, SIZE_BYTES).is_ok()
}

#[test]
fn a_new_file_is_a_hole_and_what_is_written_is_not() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        if !has_fine_holes(dir.path()) {
            return;
        }
        let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, variant));
        assert_eq!(map(&mut rig, 0, SIZE_BYTES as u32), [(SIZE_BYTES as u32, true)], "{variant:?}");
        rig.result(write(1, 512 << 10, pattern(1, 100_000))).unwrap();
        let runs = map(&mut rig, 0, SIZE_BYTES as u32);
        assert_eq!(runs.iter().map(|run| run.1).collect::<Vec<_>>(), [true, false, true], "{variant:?}: {runs:?}");
        assert_eq!(runs[0].0, 512 << 10);
        // Whole blocks are told, or pages of the cache.
        assert!((100_000..100_000 + (64 << 10)).contains(&runs[1].0), "{variant:?}: {runs:?}");
        assert_eq!(map(&mut rig, (512 << 10) + 7, 1), [(1, false)]);
        // Trimmed again.
        rig.result(bare(Op::Trim, 0, SIZE_BYTES as u32)).unwrap();
        assert_eq!(map(&mut rig, 3, SIZE_BYTES as u32 - 3), [(SIZE_BYTES as u32 - 3, true)], "{variant:?}");
        // Beyond the end, or with another buffer.
        let beyond = StoreOp { data: vec![0; MAP_BYTES], ..bare(Op::Map, 1, SIZE_BYTES as u32) };
        assert_eq!(rig.result(beyond), Err(Failure::Invalid));
        let short = StoreOp { data: vec![0; MAP_BYTES - 1], ..bare(Op::Map, 0, 1) };
        assert_eq!(rig.result(short), Err(Failure::Invalid));
    }
}

#[test]
fn a_map_ends_where_it_has_no_room_for_another_run() {
    let dir = tempfile::tempdir().unwrap();
    if !has_fine_holes(dir.path()) {
        return;
    }
    let size = 64 << 20;
    let mut rig = Rig::open(config(&dir.path().join("data"), size, variants()[0]));
    let step = 256 << 10;
    for n in 0..100 {
        rig.result(write(n, n * step, vec![1])).unwrap();
    }
    let runs = map(&mut rig, 0, size as u32);
    assert_eq!(runs.len(), MAP_RUNS_MAX);
    let covered: u64 = runs.iter().map(|run| u64::from(run.0)).sum();
    assert_eq!(covered, 64 * step, "data and a hole each");
    assert_eq!(map(&mut rig, covered, (size - covered) as u32).len(), 2 * (100 - 64));
}

#[test]
fn a_truncated_file_has_no_holes_to_tell() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let mut rig = Rig::open(config(&path, SIZE_BYTES, variants()[0]));
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let asked = StoreOp { data: vec![0; MAP_BYTES], ..bare(Op::Map, 0, SIZE_BYTES as u32) };
    assert_eq!(rig.result(asked), Err(Failure::Io));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn what_is_told_as_a_hole_reads_as_zeros(
        ops in prop::collection::vec((0u8..4, 0u64..SIZE_BYTES, 1u64..200_000), 1..30),
        from in 0u64..SIZE_BYTES,
        variant in prop::sample::select(variants()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, variant));
        for (n, &(kind, offset, len)) in ops.iter().enumerate() {
            let len = len.min(SIZE_BYTES - offset);
            let op = match kind {
                0 | 1 => write(n as u64, offset, vec![1 + n as u8; len as usize]),
                2 => bare(Op::Trim, offset, len as u32),
                _ => bare(Op::WriteZeroes, offset, len as u32),
            };
            prop_assert_eq!(rig.result(op), Ok(()));
        }
        let runs = map(&mut rig, from, (SIZE_BYTES - from) as u32);
        let bytes = rig.read(from, (SIZE_BYTES - from) as usize).unwrap();
        let mut at = 0;
        for (len, is_hole) in runs {
            let run = &bytes[at..at + len as usize];
            prop_assert!(!is_hole || run.iter().all(|&byte| byte == 0), "{variant:?}: a hole at {} has data", from + at as u64);
            at += len as usize;
        }
        prop_assert_eq!(at, bytes.len());
    }
}
