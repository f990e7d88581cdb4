//! Which bytes of a file are holes, as its file system tells them by SEEK_DATA and SEEK_HOLE (lseek(2)).

use std::fs::File;

use flashmob_core::wire::map::{MapWriter, put_all_data};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::error::unsupported;
use super::open::Opened;

/// Magic number of FUSE (statfs(2)).
const FUSE_SUPER_MAGIC: u32 = 0x6573_5546;

/// False if the file system of a file may show a hole where bytes wait in the page cache: that of FUSE asks its daemon, which does not have
/// them yet.
pub(super) fn are_coherent(file: &File) -> bool {
    !rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u32 == FUSE_SUPER_MAGIC)
}

/// For each part of the extent of `unit_bytes` whether it may hold something else than zeros: all of them, if its holes cannot be told.
pub(super) fn units_with_data(opened: &Opened, unit_bytes: u64) -> Vec<bool> {
    let size_bytes = opened.size_bytes;
    let mut units = vec![!opened.tells_holes; usize::try_from(size_bytes.div_ceil(unit_bytes)).unwrap_or(usize::MAX)];
    let mut at = 0;
    while opened.tells_holes && at < size_bytes {
        match seek(&opened.file, SeekFrom::Data(at)) {
            Ok(data) if data < size_bytes => {
                let unit = data / unit_bytes;
                units[unit as usize] = true;
                // One call for each unit, however many pieces the file has.
                at = (unit + 1) * unit_bytes;
            }
            Ok(_) | Err(Errno::NXIO) => break,
            Err(_) => {
                units.fill(true);
                break;
            }
        }
    }
    units
}

/// Maps the holes of a range of the extent into `into`. If they cannot be told, all is data. Space that is allocated and was never written
/// counts as a hole: it reads as zeros.
pub(super) fn map(opened: &Opened, offset_bytes: u64, len_bytes: u32, into: &mut [u8]) -> Result<(), Errno> {
    if !opened.tells_holes {
        put_all_data(into, len_bytes);
        return Ok(());
    }
    let file = &opened.file;
    let end = offset_bytes + u64::from(len_bytes);
    let mut map = MapWriter::new(into);
    let mut at = offset_bytes;
    while at < end {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.clamp(at, end),
            // There is no data up to the end of the file.
            Err(Errno::NXIO) => end,
            Err(e) if unsupported(e) => {
                put_all_data(into, len_bytes);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        if !map.push((data - at) as u32, true) || data == end {
            break;
        }
        // Every file ends in a hole, so there is one, unless the file has become shorter meanwhile.
        let hole = seek(file, SeekFrom::Hole(data))?.clamp(data, end);
        if !map.push((hole - data) as u32, false) {
            break;
        }
        at = hole;
    }
    Ok(())
}
