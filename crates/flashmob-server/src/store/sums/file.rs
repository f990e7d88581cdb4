//! The sums file: made, opened, read and written. What its bytes mean is in `format`.
//!
//! It has its full size on the flash before its extent is served, so that a checksum always has room. It is read and written by
//! system calls, not through a mapping: the loop that serves reads must not wait for a page of it, and a failing device must be an
//! error and not a signal.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};

use super::super::error::unsupported;
use super::super::extent_id::ExtentId;
use super::super::open::sync_parent;
use super::super::private::create_anew;
use super::super::spare::spare_path;
use super::super::sys;
use super::super::writeback::Writeback;
use super::error::SumsError;
use super::format::{BadHeader, Change, HEADER_BYTES, Header, SLOT_BYTES, SLOTS, Shape, UNIT_BYTES};

/// Most checksums that are read at once.
pub(in super::super) const LOAD_MAX: usize = 128;
/// Zeros are written in parts of this size.
const ZEROS_BYTES: usize = 64 * 1024;
/// Bytes are copied in parts of this size.
const COPIED_BYTES: usize = 1024 * 1024;

/// The name of a file of checksums while it is made.
pub(crate) fn new_path(path: &Path) -> PathBuf {
    spare_path(path)
}

/// Refuses to make checksums where there are some: they may be right, and those that are made now match whatever is there.
pub(super) fn refuse_taken(path: &Path) -> Result<(), SumsError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(SumsError::Unclaimed { path: path.to_path_buf() }),
        Err(_) => Ok(()),
    }
}

/// An open sums file.
#[derive(Debug)]
pub(super) struct SumsFile {
    file: File,
    path: PathBuf,
    shape: Shape,
}

impl SumsFile {
    /// Makes the file for an extent, with this bitmap of the units that have checksums (all zero: their blocks are zeros), and has it on
    /// the flash, under its [name while it is made](new_path). May block.
    pub fn create(path: &Path, header: &Header, bitmap: &[u8]) -> Result<SumsFile, SumsError> {
        let shape = Shape::new(header.size_bytes);
        let new = new_path(path);
        let make = || -> io::Result<File> {
            let file = create_anew(&new)?;
            reserve(&file, shape.file_bytes())?;
            file.write_all_at(bitmap, shape.bitmap_at())?;
            file.write_all_at(&header.encode(), 0)?;
            file.sync_all()?;
            sync_parent(path)?;
            Ok(file)
        };
        let file = make().map_err(|e| {
            // What is there of it helps nobody, and takes room.
            let _ = std::fs::remove_file(&new);
            SumsError::of("make", path, shape.file_bytes(), e)
        })?;
        Ok(SumsFile { file, path: path.to_path_buf(), shape })
    }

    /// Gives a file that was made its name, on the flash, unless it has it.
    pub fn put_in_place(&self) -> Result<(), SumsError> {
        let failed = |e| SumsError::of("rename", &self.path, self.shape.file_bytes(), e);
        refuse_taken(&self.path)?;
        std::fs::rename(new_path(&self.path), &self.path).and_then(|()| sync_parent(&self.path)).map_err(failed)
    }

    /// Gives the file its name if an earlier process had made it for the identity with one of `nonces`, and ended before it did that.
    pub fn finish(path: &Path, extent_id: [u8; 16], size_bytes: u64, nonces: &[ExtentId]) -> Result<(), SumsError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Ok(());
        }
        let Ok((made, header)) = SumsFile::open(&new_path(path), extent_id, size_bytes) else { return Ok(()) };
        // One with a former number, or an age, was in use, and is none that was just made.
        let is_made = nonces.contains(&ExtentId(header.nonce)) && header.before.is_none() && header.age.is_none();
        match is_made {
            true => SumsFile { path: path.to_path_buf(), ..made }.put_in_place(),
            false => Ok(()),
        }
    }

    /// Opens the file of an extent, which may have grown since. Returns it with its header.
    pub fn open(path: &Path, extent_id: [u8; 16], size_bytes: u64) -> Result<(SumsFile, Header), SumsError> {
        let mut shape = Shape::new(size_bytes);
        let most_bytes = shape.file_bytes();
        let failed = |action, e| SumsError::of(action, path, most_bytes, e);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => SumsError::Missing { path: path.into() },
            _ => failed("open", e),
        })?;
        let damaged = |why: String| SumsError::Damaged { path: path.into(), why };
        let found_bytes = file.metadata().map_err(|e| failed("examine", e))?.len();
        let mut bytes = vec![0; HEADER_BYTES.min(usize::try_from(found_bytes).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut bytes, 0).map_err(|e| failed("read", e))?;
        let header = Header::decode(&bytes).map_err(|why| match why {
            BadHeader::Damaged(why) => damaged(why.to_string()),
            BadHeader::Version(_) => SumsError::Newer { path: path.into(), why },
        })?;
        if header.extent_id != extent_id || header.size_bytes > size_bytes {
            return Err(SumsError::Foreign { path: path.into() });
        }
        shape = Shape::new(header.size_bytes);
        let wanted_bytes = shape.file_bytes();
        if found_bytes < wanted_bytes {
            return Err(damaged(format!("it has {found_bytes} bytes, and should have {wanted_bytes}")));
        }
        Ok((SumsFile { file, path: path.to_path_buf(), shape }, header))
    }

    /// Makes the file anew for its extent, which has grown. Blocks keep their checksums; units that are new, or were not whole, have none yet. It takes
    /// the place of the old one once it is on the flash. May block.
    pub fn enlarged(&self, header: &Header) -> Result<SumsFile, SumsError> {
        let (old, shape) = (self.shape, Shape::new(header.size_bytes));
        let path = new_path(&self.path);
        let _ = std::fs::remove_file(&path);
        check_room(&path, shape.file_bytes())?;
        let make = || -> io::Result<File> {
            let file = create_anew(&path)?;
            reserve(&file, shape.file_bytes())?;
            let mut bitmap = vec![0; old.units().div_ceil(8) as usize];
            self.file.read_exact_at(&mut bitmap, old.bitmap_at())?;
            if !old.size_bytes().is_multiple_of(UNIT_BYTES)
                && let Some(byte) = bitmap.last_mut()
            {
                *byte &= !(1 << ((old.units() - 1) % 8));
            }
            file.write_all_at(&bitmap, shape.bitmap_at())?;
            copy(&self.file, (old.slot_at(0), shape.slot_at(0)), (SLOTS * SLOT_BYTES) as u64, &file)?;
            copy(&self.file, (old.sum_at(0), shape.sum_at(0)), 4 * old.blocks(), &file)?;
            file.write_all_at(&header.encode(), 0)?;
            file.sync_all()?;
            std::fs::rename(&path, &self.path)?;
            sync_parent(&self.path)?;
            Ok(file)
        };
        let file = make().map_err(|e| {
            let _ = std::fs::remove_file(&path);
            SumsError::of("make", &path, shape.file_bytes(), e)
        })?;
        Ok(SumsFile { file, path: self.path.clone(), shape })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the header, and has it on the flash.
    pub fn store_header(&self, header: &Header) -> Result<(), SumsError> {
        let bytes = header.encode();
        let stored = match self.write_durable(&bytes, 0) {
            Ok(true) => Ok(()),
            Ok(false) => self.write(&bytes, 0).and_then(|()| self.sync()),
            Err(e) => Err(e),
        };
        stored.map_err(|e| SumsError::of("write", &self.path, self.shape.file_bytes(), e.into()))
    }

    /// The bitmap of units that have checksums.
    pub fn load_bitmap(&self) -> Result<Vec<u8>, SumsError> {
        let mut bitmap = vec![0; self.shape.units().div_ceil(8) as usize];
        let read = self.file.read_exact_at(&mut bitmap, self.shape.bitmap_at());
        read.map_err(|e| SumsError::of("read", &self.path, self.shape.file_bytes(), e))?;
        Ok(bitmap)
    }

    /// Writes a byte of the bitmap.
    pub fn store_bitmap(&self, index: u64, byte: u8) -> Result<(), Errno> {
        self.write(&[byte], self.shape.bitmap_at() + index)
    }

    /// The changes that were under way when the file was last used, with the slots that they are in.
    pub fn load_changes(&self) -> Result<Vec<(usize, Change)>, SumsError> {
        let mut slots = vec![0; SLOTS * SLOT_BYTES];
        let read = self.file.read_exact_at(&mut slots, self.shape.slot_at(0));
        read.map_err(|e| SumsError::of("read", &self.path, self.shape.file_bytes(), e))?;
        let changes = slots.chunks_exact(SLOT_BYTES).enumerate();
        Ok(changes.filter_map(|(slot, bytes)| Some((slot, Change::decode(bytes, self.shape)?))).collect())
    }

    /// Writes a change into a slot, or empties it.
    pub fn store_change(&self, slot: usize, change: Option<&Change>) -> Result<(), Errno> {
        match change {
            Some(change) => self.write(&change.encode(), self.shape.slot_at(slot)),
            // It is enough that its checksum does not match.
            None => self.write(&[0; 24], self.shape.slot_at(slot)),
        }
    }

    /// Reads the checksums of the blocks from `first` on, at most [`LOAD_MAX`]. May wait for the device.
    pub fn load(&self, first: u64, sums: &mut [u32]) -> Result<(), Errno> {
        let mut bytes = [0; 4 * LOAD_MAX];
        let Some(bytes) = bytes.get_mut(..4 * sums.len()) else { return Err(Errno::INVAL) };
        self.file.read_exact_at(bytes, self.shape.sum_at(first)).map_err(errno)?;
        fill(sums, bytes);
        Ok(())
    }

    /// Reads them if the page cache has them. False: it has not, or cannot tell.
    pub fn load_cached(&self, first: u64, sums: &mut [u32]) -> bool {
        let mut bytes = [0; 4 * LOAD_MAX];
        let Some(bytes) = bytes.get_mut(..4 * sums.len()) else { return false };
        let read = sys::read_cached(&self.file, &mut [IoSliceMut::new(bytes)], self.shape.sum_at(first));
        if read != Ok(bytes.len()) {
            return false;
        }
        fill(sums, bytes);
        true
    }

    /// Writes the checksums of the blocks from `first` on, at most [`LOAD_MAX`].
    pub fn store(&self, first: u64, sums: &[u32]) -> Result<(), Errno> {
        let mut bytes = [0; 4 * LOAD_MAX];
        let bytes = encode(sums, &mut bytes)?;
        self.write(bytes, self.shape.sum_at(first))
    }

    /// The same, and has them on the flash; not the rest of the file, as a sync would. False: the system cannot, and nothing was written.
    pub fn store_durably(&self, first: u64, sums: &[u32]) -> Result<bool, Errno> {
        let mut bytes = [0; 4 * LOAD_MAX];
        let bytes = encode(sums, &mut bytes)?;
        self.write_durable(bytes, self.shape.sum_at(first))
    }

    /// False: the system cannot, or not all of it is written.
    fn write_durable(&self, bytes: &[u8], at: u64) -> Result<bool, Errno> {
        match sys::write_durable(&self.file, bytes, at) {
            Ok(n) => Ok(n == bytes.len()),
            Err(Errno::INTR) => Ok(false),
            Err(e) if unsupported(e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Writes back what is dirty, in parts that make progress.
    pub fn write_back(&self, writeback: &Writeback) -> Result<(), Errno> {
        writeback.write_beside(&self.file, self.shape.file_bytes())
    }

    /// Has everything that was written on the flash.
    pub fn sync(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(&self.file))
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), Errno> {
        self.file.write_all_at(bytes, at).map_err(errno)
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Copies bytes from one place of a file to another place of another one.
fn copy(from: &File, (mut at, mut to_at): (u64, u64), len_bytes: u64, to: &File) -> io::Result<()> {
    let (end, mut buffer) = (at + len_bytes, vec![0; COPIED_BYTES]);
    while at < end {
        let part = (end - at).min(COPIED_BYTES as u64);
        let bytes = &mut buffer[..part as usize];
        from.read_exact_at(bytes, at)?;
        to.write_all_at(bytes, to_at)?;
        (at, to_at) = (at + part, to_at + part);
    }
    Ok(())
}

/// The bytes of checksums, in `room`.
fn encode<'a>(sums: &[u32], room: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let bytes = room.get_mut(..4 * sums.len()).ok_or(Errno::INVAL)?;
    for (sum, place) in sums.iter().zip(bytes.chunks_exact_mut(4)) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    Ok(bytes)
}

fn fill(sums: &mut [u32], bytes: &[u8]) {
    for (sum, place) in sums.iter_mut().zip(bytes.chunks_exact(4)) {
        *sum = place.try_into().map_or(0, u32::from_le_bytes);
    }
}

/// Refuses a file for which there is certainly no room, before memory is taken for what would be in it.
pub(super) fn check_room(path: &Path, wanted_bytes: u64) -> Result<(), SumsError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match rustix::fs::statvfs(parent) {
        Ok(fs) if fs.f_bavail.saturating_mul(fs.f_frsize) < wanted_bytes => {
            Err(SumsError::NoSpace { path: path.into(), wanted_bytes })
        }
        _ => Ok(()),
    }
}

/// Takes the room for a file that is empty. Where the file system cannot reserve it, zeros are written.
fn reserve(file: &File, len_bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
        Ok(()) => return Ok(()),
        Err(e) if unsupported(e) => {}
        Err(e) => return Err(e.into()),
    }
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = 0;
    while at < len_bytes {
        let part = ZEROS_BYTES.min(usize::try_from(len_bytes - at).unwrap_or(ZEROS_BYTES));
        file.write_all_at(&zeros[..part], at)?;
        at += part as u64;
    }
    Ok(())
}
