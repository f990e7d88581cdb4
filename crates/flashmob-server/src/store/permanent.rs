//! Having the flash keep what was written: `fdatasync`, and what else that takes on some file systems.

use std::fs::File;
use std::path::Path;

use flashmob_host::flushes::Flushes;
use flashmob_host::place::locate;
use rustix::io::{Errno, retry_on_intr};

/// How files in one place are made permanent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permanent(Flushes);

impl Permanent {
    /// For files beside `path`. May block.
    pub fn of(path: &Path) -> Permanent {
        Permanent(locate(path).flushes)
    }

    /// The same. Logs what is unusual.
    pub fn at(path: &Path) -> Permanent {
        let permanent = Permanent::of(path);
        let path = path.display();
        match &permanent.0 {
            Flushes::Reach => {}
            Flushes::NeedSyncfs(why) => {
                log::info!(
                    "{path}: {why}: fdatasync may send no flush to the flash, so all of the file system is synced"
                );
            }
            Flushes::Never(why) => log::warn!("{path}: {}", warning(why)),
        }
        permanent
    }

    /// Why a power cut may lose what was flushed.
    pub fn warning(&self) -> Option<String> {
        match &self.0 {
            Flushes::Never(why) => Some(warning(why)),
            Flushes::Reach | Flushes::NeedSyncfs(_) => None,
        }
    }

    /// Whether `fdatasync`, and a durable write, need more.
    pub fn needs_syncfs(&self) -> bool {
        matches!(self.0, Flushes::NeedSyncfs(_))
    }

    /// Makes what was written to a file permanent.
    ///
    /// # Errors
    /// The bytes may not be on the flash, and the next call may succeed without them.
    pub fn sync(&self, file: &File) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(file))?;
        self.finish(file)
    }

    /// What is left to do after `fdatasync` of this file, and of others beside it.
    ///
    /// # Errors
    /// As [`Permanent::sync`].
    pub fn finish(&self, file: &File) -> Result<(), Errno> {
        if self.needs_syncfs() { retry_on_intr(|| rustix::fs::syncfs(file)) } else { Ok(()) }
    }
}

fn warning(why: &str) -> String {
    format!(
        "{why}: a flush does not reach the flash, and a power cut may lose what was flushed; 'flashmob doctor --data PATH' says what to do"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_makes_a_file_permanent_and_only_the_one_that_never_does_warns() {
        let file = tempfile::tempfile().unwrap();
        for (flushes, needs_syncfs, warns) in [
            (Flushes::Reach, false, false),
            (Flushes::NeedSyncfs("f2fs is mounted with fsync_mode=nobarrier".into()), true, false),
            (Flushes::Never("ext4 is mounted with nobarrier".into()), false, true),
        ] {
            let permanent = Permanent(flushes);
            assert_eq!(permanent.sync(&file), Ok(()));
            assert_eq!(
                (permanent.needs_syncfs(), permanent.warning().is_some()),
                (needs_syncfs, warns),
                "{permanent:?}"
            );
        }
        let read_only = File::open("/proc/self/stat").unwrap();
        assert!(Permanent::default().sync(&read_only).is_err(), "files that cannot be synced are told");
    }
}
