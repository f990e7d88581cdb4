//! Reading what the flash has, past the page cache: for scrubs, which look for damage under pages that are right, and for measuring it.
//!
//! An open file of its own has O_DIRECT. The kernel writes dirty pages of a range before it reads the range so, and leaves the pages where
//! they are: what others find in the page cache stays there. Where that cannot be had, clean pages of the range are dropped first, and dirty
//! ones, which the flash does not have yet, are read as they are.

use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use flashmob_core::op::Failure;
use rustix::fs::{Advice, AtFlags, OFlags, StatxAttributes, StatxFlags};

use super::super::open::direct_alignment;
use super::super::sums::format::BLOCK_BYTES;
use super::Medium;

/// How the flash is read.
#[derive(Debug)]
pub(super) struct Flash {
    /// The medium with O_DIRECT, and the alignment that it wants.
    direct: Option<(File, u64)>,
    /// Pages are dropped first: the kernel may read through the page cache although O_DIRECT is set.
    drops_pages: bool,
}

impl Medium {
    fn flash(&self) -> &Flash {
        self.flash.get_or_init(|| {
            let direct = self.open_direct();
            let drops_pages = direct.as_ref().is_none_or(|(file, _)| may_be_encrypted(file));
            if drops_pages {
                log::info!("{}: scrubs drop pages from the page cache: O_DIRECT is not to be had", self.path.display());
            }
            Flash { direct, drops_pages }
        })
    }

    /// Opens the medium once more, with O_DIRECT, if blocks with a checksum can be read one by one then.
    fn open_direct(&self) -> Option<(File, u64)> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).ok()?;
        let (ours, theirs) = (self.opened.file.metadata().ok()?, file.metadata().ok()?);
        // Somebody may have put another file in its place.
        let is_same = (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino());
        let align_bytes = direct_alignment(&file, self.is_device()).filter(|align| align.is_power_of_two())?;
        (is_same && align_bytes <= BLOCK_BYTES as u64).then_some((file, align_bytes))
    }

    /// Whether the bytes that [`Medium::read_flash`] gives are those of the flash, whatever the page cache has.
    pub(super) fn reads_past_cache(&self) -> bool {
        self.is_direct() || self.flash().direct.is_some()
    }

    /// Reads blocks from the flash. `blocks` begins where a block with a checksum begins in memory, too.
    pub(super) fn read_flash(&self, start_bytes: u64, blocks: &mut [u8]) -> Result<(), Failure> {
        if self.is_direct() {
            return self.read_exact(start_bytes, blocks);
        }
        let flash = self.flash();
        if flash.drops_pages {
            self.drop_pages(start_bytes, blocks.len() as u64);
        }
        match &flash.direct {
            Some((file, align_bytes)) => self.read_exact_by(file, *align_bytes, start_bytes, blocks),
            None => self.read_exact(start_bytes, blocks),
        }
    }

    /// Drops clean pages from the page cache. Bytes that the flash does not have yet stay.
    pub(super) fn drop_pages(&self, start_bytes: u64, len_bytes: u64) {
        self.forget_mapped(start_bytes, len_bytes);
        let _ = rustix::fs::fadvise(&self.opened.file, start_bytes, NonZeroU64::new(len_bytes), Advice::DontNeed);
    }
}

/// Whether a file is encrypted by its file system, or that is not known: then some kernels read it through the page cache, whatever was asked for.
fn may_be_encrypted(file: &File) -> bool {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::ENCRYPTED)) || stat.is_err()
}
