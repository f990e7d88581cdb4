//! Owners and modes of what decides who gets in: secrets, which their owner alone may read, and other files and folders, which their owner alone may change.
//!
//! The owner is the user of this process, or root, who could change everything anyway. Of a file a descriptor is judged, not a name: nothing else can be put in
//! its place before it is read. A folder is judged by a descriptor, too, and then used by its name: whoever can change a folder above it can put another one in
//! its place. The rights that an access control list gives are in the bits of the group, where its mask is shown (acl(5)).

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Rights of others than a file's owner.
const MODE_OF_OTHERS: u32 = 0o077;
/// Rights of others to read a file.
const MODE_OF_OTHER_READERS: u32 = 0o044;
/// Rights of others to change a file.
const MODE_OF_OTHER_WRITERS: u32 = 0o022;
/// The bits that systemd's access control list for the service's user adds to a credential's mode 0400.
const MODE_OF_CREDENTIAL_LIST: u32 = 0o040;
const ROOT: u32 = 0;

/// The use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file whose reader is let in.
    Secret,
    /// A file that decides who is let in.
    Integrity,
}

/// Why a file or folder must not decide who gets in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum Unsafe {
    /// A pipe, a device, a folder.
    #[error("{0} is no regular file: look at what it is, and restore the file from a backup")]
    Special(PathBuf),
    /// Another user made it, and can change it.
    #[error(
        "{path} belongs to {}; or, if nobody else had a hand in it, chown {user} {path}. \
         A file system that keeps no owners, such as /sdcard or a memory card, cannot hold keys",
        whose(*owner, *user, overflow_user())
    )]
    Foreign { path: PathBuf, owner: u32, user: u32 },
    /// Others may read a secret.
    #[error(
        "others may read {path} (mode {mode:o}): chmod 600 {path}, and replace the key if somebody may have read it"
    )]
    Readable { path: PathBuf, mode: u32 },
    /// Others may change what decides.
    #[error(
        "others may change {path} (mode {mode:o}), which decides who gets in: look at whether somebody has, then chmod go-w {path}"
    )]
    Writable { path: PathBuf, mode: u32 },
}

/// Why such a file or folder cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    Io(io::Error),
    Unsafe(Unsafe),
}

impl Unusable {
    /// As the error of a module, which tells of other failures in its own way.
    pub fn or<E: From<Unsafe>>(self, failed: impl FnOnce(io::Error) -> E) -> E {
        match self {
            Unusable::Io(error) => failed(error),
            Unusable::Unsafe(why) => why.into(),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::Io(error)
    }
}

/// Opens a file for reading, if its owner and mode are those of its kind.
pub(crate) fn open_owned(path: &Path, kind: Kind) -> Result<File, Unusable> {
    // A pipe would wait for somebody who writes to it.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Unusable::Unsafe(Unsafe::Special(path.to_path_buf())));
    }
    let mut judged = Judged::of(&metadata);
    if is_credential(path, &metadata, std::env::var_os("CREDENTIALS_DIRECTORY").as_deref()) {
        judged.mode &= !MODE_OF_CREDENTIAL_LIST;
    }
    judge(path, &judged, kind, rustix::process::geteuid().as_raw()).map_err(Unusable::Unsafe)?;
    Ok(file)
}

/// Reads such a file up to one byte more than it may have.
pub(crate) fn read_owned(path: &Path, kind: Kind, bytes_max: u64) -> Result<Vec<u8>, Unusable> {
    let mut bytes = Vec::new();
    open_owned(path, kind)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a folder whose files decide who gets in.
pub(crate) fn open_owned_folder(path: &Path) -> Result<File, Unusable> {
    let flags = rustix::fs::OFlags::DIRECTORY;
    let folder = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let judged = Judged::of(&folder.metadata()?);
    judge(path, &judged, Kind::Integrity, rustix::process::geteuid().as_raw()).map_err(Unusable::Unsafe)?;
    Ok(folder)
}

/// Whether a file that was just made is its owner's alone. File systems without modes or owners give each file the same.
pub(crate) fn keeps_secrets(file: &File) -> io::Result<bool> {
    let Judged { owner, mode } = Judged::of(&file.metadata()?);
    Ok(mode & MODE_OF_OTHERS == 0 && owner == rustix::process::geteuid().as_raw())
}

/// Whether it is a credential that systemd has made for this service (systemd.exec(5)): root's and root's group's, which may read it anyway, with a list that
/// names the service's user alone.
fn is_credential(path: &Path, metadata: &Metadata, folder: Option<&OsStr>) -> bool {
    let is_roots = metadata.uid() == ROOT && metadata.gid() == ROOT;
    is_roots && path.is_absolute() && folder.is_some_and(|folder| path.parent() == Some(Path::new(folder)))
}

/// The trouble with a secret that others than this user, root and, for a credential of systemd, the service may read or change: what comes behind its name.
#[must_use]
pub fn trouble_of_secret(path: &Path) -> Option<&'static str> {
    match open_owned(path, Kind::Secret) {
        Err(Unusable::Unsafe(Unsafe::Foreign { .. })) => Some("belongs to another user"),
        Err(Unusable::Unsafe(Unsafe::Readable { mode, .. })) if mode & MODE_OF_OTHER_READERS != 0 => {
            Some("can be read by others")
        }
        Err(Unusable::Unsafe(Unsafe::Readable { mode, .. })) if mode & MODE_OF_OTHER_WRITERS != 0 => {
            Some("can be changed by others")
        }
        _ => None,
    }
}

/// The user that the kernel shows as the owner of what belongs to users without a number here, as in a user namespace (user_namespaces(7)). None where each user
/// has one.
pub(crate) fn overflow_user() -> Option<u32> {
    const USUAL: u32 = 65_534;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if has_all_users(&map) {
        return None;
    }
    let set = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    Some(set.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL))
}

/// Whether a map has all users, as outside of any user namespace.
fn has_all_users(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The middle of a sentence about a file of another user.
fn whose(owner: u32, user: u32, overflow: Option<u32>) -> String {
    if overflow == Some(owner) {
        return format!(
            "a user that this process, which runs as user {user}, does not know: run it as the owner, not in a sandbox with few users"
        );
    }
    format!("user {owner}, and this process runs as user {user}: run it as that user")
}

/// The owner and mode of a file or folder.
#[derive(Clone, Copy)]
struct Judged {
    owner: u32,
    mode: u32,
}

impl Judged {
    fn of(metadata: &Metadata) -> Judged {
        Judged { owner: metadata.uid(), mode: metadata.mode() & 0o777 }
    }
}

fn judge(path: &Path, judged: &Judged, kind: Kind, user: u32) -> Result<(), Unsafe> {
    let (path, Judged { owner, mode }) = (path.to_path_buf(), *judged);
    if owner != user && owner != ROOT {
        return Err(Unsafe::Foreign { path, owner, user });
    }
    match kind {
        Kind::Secret if mode & MODE_OF_OTHERS != 0 => Err(Unsafe::Readable { path, mode }),
        Kind::Integrity if mode & MODE_OF_OTHER_WRITERS != 0 => Err(Unsafe::Writable { path, mode }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    const MODES: [u32; 12] = [0o600, 0o400, 0o700, 0o640, 0o604, 0o610, 0o601, 0o644, 0o620, 0o602, 0o664, 0o666];

    fn why<T>(opened: Result<T, Unusable>) -> Option<Unsafe> {
        match opened {
            Ok(_) => None,
            Err(Unusable::Unsafe(why)) => Some(why),
            Err(Unusable::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn others_may_neither_read_a_secret_nor_change_what_decides() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        for mode in MODES {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let readable = Some(Unsafe::Readable { path: path.clone(), mode });
            assert_eq!(why(open_owned(&path, Kind::Secret)), readable.filter(|_| mode & 0o077 != 0), "{mode:o}");
            let writable = Some(Unsafe::Writable { path: path.clone(), mode });
            assert_eq!(why(open_owned(&path, Kind::Integrity)), writable.filter(|_| mode & 0o022 != 0), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_owned(&path, Kind::Integrity, 2).ok(), Some(b"tex".to_vec()));
        assert!(matches!(open_owned(&dir.path().join("absent"), Kind::Secret), Err(Unusable::Io(_))));
        for (mode, is_good) in [(0o700, true), (0o755, true), (0o770, false), (0o707, false), (0o1777, false)] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(why(open_owned_folder(dir.path())).is_none(), is_good, "{mode:o}");
        }
        assert!(matches!(open_owned_folder(&path), Err(Unusable::Io(_))), "a file is no folder");
    }

    #[test]
    fn the_owner_is_the_user_or_root() {
        let judged = |owner, user| judge(Path::new("k"), &Judged { owner, mode: 0o600 }, Kind::Integrity, user);
        for (owner, user) in [(0, 0), (7, 7), (0, 7)] {
            assert_eq!(judged(owner, user), Ok(()));
        }
        for (owner, user) in [(7, 0), (7, 8)] {
            let error = judged(owner, user).unwrap_err();
            assert!(error.to_string().contains(&format!("k belongs to user {owner}")), "{error}");
            assert!(error.to_string().contains(&format!("chown {user} k")), "{error}");
        }
    }

    #[test]
    fn an_owner_without_a_number_is_told_as_such() {
        assert!(
            whose(65_534, 7, Some(65_534)).starts_with("a user that this process, which runs as user 7, does not know")
        );
        for overflow in [None, Some(65_533)] {
            assert!(whose(65_534, 7, overflow).starts_with("user 65534, and"), "it may be a user as others");
        }
        assert!(has_all_users("         0          0 4294967295\n"));
        for few in ["", "0 0 1\n61234 61234 1\n", "0 100000 65536\n"] {
            assert!(!has_all_users(few), "{few}");
        }
    }

    #[test]
    fn the_trouble_with_a_token_is_told_in_its_own_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "text").unwrap();
        let (read, changed) = (Some("can be read by others"), Some("can be changed by others"));
        for (mode, expected) in [(0o600, None), (0o640, read), (0o604, read), (0o666, read), (0o620, changed)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(trouble_of_secret(&path), expected, "{mode:o}");
        }
        assert_eq!(trouble_of_secret(&dir.path().join("absent")), None);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_nobody_waits_for_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, file, link) = (dir.path().join("pipe"), dir.path().join("file"), dir.path().join("link"));
        mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
        fs::write(&file, "text").unwrap();
        for special in [&pipe, &dir.path().to_path_buf()] {
            assert_eq!(why(open_owned(special, Kind::Integrity)), Some(Unsafe::Special(special.clone())));
        }
        // What a link leads to is judged: secrets of Kubernetes are links.
        symlink(&file, &link).unwrap();
        assert_eq!(why(open_owned(&link, Kind::Integrity)), None);
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(why(open_owned(&link, Kind::Integrity)), Some(Unsafe::Writable { .. })));
    }

    #[test]
    fn a_new_file_keeps_secrets_where_there_are_modes() {
        let dir = tempfile::tempdir().unwrap();
        let file = super::super::create_anew(&dir.path().join("file")).unwrap();
        assert!(keeps_secrets(&file).unwrap());
        file.set_permissions(Permissions::from_mode(0o660)).unwrap();
        assert!(!keeps_secrets(&file).unwrap());
    }

    mod privileged {
        use super::*;

        const OTHER: u32 = 61_234;

        #[test]
        #[ignore = "needs root"]
        fn a_credential_may_have_a_list_that_shows_in_the_bits_of_roots_group() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("key");
            fs::write(&path, "text").unwrap();
            let is =
                |folder: Option<&Path>| is_credential(&path, &path.metadata().unwrap(), folder.map(Path::as_os_str));
            assert!(is(Some(dir.path())));
            assert!(!is(None) && !is(dir.path().parent()));
            std::os::unix::fs::chown(&path, None, Some(OTHER)).unwrap();
            assert!(!is(Some(dir.path())), "another group");
            std::os::unix::fs::chown(&path, Some(OTHER), Some(0)).unwrap();
            assert!(!is(Some(dir.path())), "another owner");
        }

        #[test]
        #[ignore = "needs root"]
        fn what_another_user_made_is_refused() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let file = super::super::super::create_anew(&path).unwrap();
            for kind in [Kind::Secret, Kind::Integrity] {
                assert_eq!(why(open_owned(&path, kind)), None);
            }
            std::os::unix::fs::chown(&path, Some(OTHER), None).unwrap();
            assert!(!keeps_secrets(&file).unwrap());
            let foreign = |path: &Path| Some(Unsafe::Foreign { path: path.to_path_buf(), owner: OTHER, user: 0 });
            for kind in [Kind::Secret, Kind::Integrity] {
                assert_eq!(why(open_owned(&path, kind)), foreign(&path));
            }
            assert_eq!(trouble_of_secret(&path), Some("belongs to another user"));
            std::os::unix::fs::chown(dir.path(), Some(OTHER), None).unwrap();
            assert_eq!(why(open_owned_folder(dir.path())), foreign(dir.path()));
        }
    }
}
