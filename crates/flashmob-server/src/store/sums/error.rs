//! Why the checksums of an extent cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use flashmob_core::units::Bytes;
use rustix::io::Errno;

use super::format::BadHeader;

/// What to do about an extent whose checksums cannot be trusted. Not to make them anew: wrong bytes would get matching ones.
const REMEDY: &str = "nothing can tell whether its bytes are right. Restore the file of checksums. Start the node with \
                      --forget, which gives up the extent's data, only if `flashmob volume show` says that it has no only copy: \
                      then the other copies have it";
/// The same where the identity may be what is wrong.
const REMEDY_IDENTITY: &str = "put back from a backup what belongs together. Start the node with --forget, which gives up the extent's \
                               data and removes this file, only if `flashmob volume show` says that it has no only copy: then the other \
                               copies have it";

/// Why the checksums of an extent cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum SumsError {
    /// The identity has them, the file is gone.
    #[error("the checksums of the extent, {path}, are missing; {REMEDY}")]
    Missing { path: PathBuf },
    /// Unreadable: cut short, damaged or of another program.
    #[error("the checksums of the extent, {path}, are damaged: {why}; {REMEDY}")]
    Damaged { path: PathBuf, why: String },
    /// Written by a newer program.
    #[error("the checksums of the extent, {path}, cannot be read: {why}; use a newer flashmob")]
    Newer { path: PathBuf, why: BadHeader },
    /// Of another extent, or of one of another size.
    #[error("{path} has the checksums of another extent than the identity beside it: {REMEDY_IDENTITY}")]
    Foreign { path: PathBuf },
    /// Of another start of the node than the identity: one of the two was restored from a copy.
    #[error(
        "{path} and the identity of the extent are of different starts of the node: the extent or one of the two was \
         restored from an older copy; {REMEDY}"
    )]
    Older { path: PathBuf },
    /// The identity does not know it.
    #[error(
        "{path} is not known to the identity beside it, which was made anew or restored: {REMEDY_IDENTITY}. New checksums are not made \
         where there are some: they would match wrong bytes"
    )]
    Unclaimed { path: PathBuf },
    /// There is no room for them.
    #[error(
        "no space left for the checksums of the extent, {path} ({wanted_bytes} bytes, {}); free some on its file system",
        Bytes(*wanted_bytes)
    )]
    NoSpace { path: PathBuf, wanted_bytes: u64 },
    /// Anything else.
    #[error("cannot {action} the checksums of the extent, {path}: {source}; check that its directory is writable")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl SumsError {
    /// The error of trying to `action` the file at `path`, which has or needs `wanted_bytes`.
    pub(in super::super) fn of(action: &'static str, path: &Path, wanted_bytes: u64, source: io::Error) -> SumsError {
        let path = path.to_path_buf();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => SumsError::NoSpace { path, wanted_bytes },
            _ => SumsError::Io { action, path, source },
        }
    }
}
