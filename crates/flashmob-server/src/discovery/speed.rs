//! Measures a node's own flash at its start: 4 KiB reads at random places, one at a time, bypassing the page cache, for a
//! fifth of a second.
//!
//! It never writes. A new extent is a file of holes, which the file system reads without its flash: then the program's own
//! file is read, if it is on the same file system, and the result says so. If neither can be measured (O_DIRECT refused,
//! too little to read), there is no result.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, SeekFrom, seek};

use super::MeasuredOver;

/// Bytes of one read, and what it is aligned to.
const BLOCK_BYTES: usize = 4096;
/// Minimum data, in bytes: less may be in the controller's own memory.
const SPAN_BYTES_MIN: u64 = 4 << 20;
/// It ends with the first of these two.
const READS_MAX: u32 = 512;
const TIME_MAX: Duration = Duration::from_millis(200);
/// Minimum number of reads for a result.
const READS_MIN: u32 = 3;
/// Maximum number of ranges: enough places to read, however fragmented the file is.
const RANGES_MAX: usize = 4096;

/// Reads in a second, and over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// 4 KiB reads a second, one at a time.
    pub reads_per_s: u64,
    /// The data that was read.
    pub over: MeasuredOver,
}

/// Measures the device that `data` lies on.
#[must_use]
pub fn measure(data: &Path) -> Option<Speed> {
    let reads = |path: &Path| reads_per_s(path).ok().flatten();
    if let Some(reads_per_s) = reads(data) {
        return Some(Speed { reads_per_s, over: MeasuredOver::Extent });
    }
    let program = std::env::current_exe().ok()?;
    let is_there = std::fs::metadata(data).ok()?.dev() == std::fs::metadata(&program).ok()?.dev();
    let reads_per_s = is_there.then(|| reads(&program)).flatten()?;
    Some(Speed { reads_per_s, over: MeasuredOver::Program })
}

fn reads_per_s(path: &Path) -> std::io::Result<Option<u64>> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(direct).open(path)?;
    let ranges = ranges(&file)?;
    let blocks: u64 = ranges.iter().map(|(start, end)| (end - start) / BLOCK_BYTES as u64).sum();
    if blocks * (BLOCK_BYTES as u64) < SPAN_BYTES_MIN {
        return Ok(None);
    }
    let mut memory = vec![0; 2 * BLOCK_BYTES];
    let lead = memory.as_ptr().align_offset(BLOCK_BYTES);
    let Some(buffer) = memory.get_mut(lead..lead + BLOCK_BYTES) else { return Ok(None) };
    let begin = Instant::now();
    let mut random = u64::from(std::process::id()) << 32 | u64::from(begin.elapsed().subsec_nanos()) | 1;
    let mut reads = 0;
    while reads < READS_MAX && begin.elapsed() < TIME_MAX {
        random = next_random(random);
        file.read_exact_at(buffer, place(&ranges, random % blocks))?;
        reads += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok((reads >= READS_MIN && seconds > 0.0).then(|| (f64::from(reads) / seconds) as u64))
}

/// Marsaglia's xorshift: places only need to be scattered.
fn next_random(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

/// The offset of block number `block`, counted over all ranges.
fn place(ranges: &[(u64, u64)], mut block: u64) -> u64 {
    for (start, end) in ranges {
        let count = (end - start) / BLOCK_BYTES as u64;
        if block < count {
            return start + block * BLOCK_BYTES as u64;
        }
        block -= count;
    }
    0
}

/// The ranges of whole blocks that are not holes, according to the file system.
fn ranges(file: &File) -> std::io::Result<Vec<(u64, u64)>> {
    let block = BLOCK_BYTES as u64;
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        return Ok(vec![(0, seek(file, SeekFrom::End(0))? / block * block)]);
    }
    let mut ranges = Vec::new();
    let mut at = 0;
    while ranges.len() < RANGES_MAX {
        // Past the last data: ENXIO.
        let Ok(start) = seek(file, SeekFrom::Data(at)) else { break };
        let end = seek(file, SeekFrom::Hole(start))?;
        if end <= at {
            break;
        }
        let whole = (start.next_multiple_of(block), end / block * block);
        if whole.0 < whole.1 {
            ranges.push(whole);
        }
        at = end;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn holes_are_not_measured_and_blocks_are_found_by_number() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        assert_eq!(reads_per_s(file.path()).ok().flatten(), None, "a file of holes");
        file.write_all(&vec![1; 8 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let found = ranges(file.as_file()).unwrap();
        assert_eq!(found, [(0, 8 << 20)]);
        assert_eq!(place(&[(4096, 8192), (40960, 49152)], 2), 45056);
    }

    #[test]
    fn what_is_measured_is_a_rate_and_the_file_stays_as_it_is() {
        let mut file = tempfile::NamedTempFile::new_in(".").unwrap();
        file.write_all(&vec![7; 8 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        // A file system without O_DIRECT gives no figure, and that is all right.
        if let Ok(rate) = reads_per_s(file.path()) {
            assert!(rate.is_some_and(|rate| rate > 0));
            assert_eq!(measure(file.path()).map(|speed| speed.over), Some(MeasuredOver::Extent));
        }
        assert!(std::fs::read(file.path()).unwrap().iter().all(|&b| b == 7));
    }
}
