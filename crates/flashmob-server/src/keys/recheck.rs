//! Whether a gateway that runs could be started again with the keys that lie there: others may have got a right to read or change them since, or a file is
//! gone. What runs goes on; whoever changed them is told at once, and not when it is started.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::folder::Folder;

/// The files of the folder that are looked at, by name.
const FILES: [&str; 10] = [
    "",
    "cluster.key",
    "cluster.key.new",
    "cluster.pub",
    "gateway.key",
    "gateway.grant",
    "previous.grant",
    "nodes",
    "gateway-ca.key",
    "client-ca.key",
];
const CLIENTS: &str = "clients";

/// Inode and time of the last change, of owner, mode and content, of each file.
type Seen = Vec<Option<(u64, i64, i64)>>;

/// Findings of the last looks.
#[derive(Debug)]
pub struct Recheck {
    folder: Folder,
    seen: Seen,
    /// They were as that at a look, and were not judged: a command may change one after the other.
    is_new: bool,
    trouble: Option<String>,
}

/// News of the folder that are to be told.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// A gateway would not start with what is there.
    Trouble(String),
    /// It would again.
    Mended,
}

impl Recheck {
    /// Of a folder whose keys were loaded just now.
    pub(super) fn of(folder: &Folder) -> Recheck {
        Recheck { folder: folder.clone(), seen: seen(folder), is_new: false, trouble: None }
    }

    /// Looks at them: once a second. Tells only what is news.
    pub fn look(&mut self) -> Option<News> {
        let now = seen(&self.folder);
        if now != self.seen {
            (self.seen, self.is_new) = (now, true);
            return None;
        }
        if !std::mem::take(&mut self.is_new) {
            return None;
        }
        let trouble = self.folder.load().err().map(|error| error.to_string());
        if trouble == self.trouble {
            return None;
        }
        self.trouble.clone_from(&trouble);
        Some(trouble.map_or(News::Mended, News::Trouble))
    }
}

fn seen(folder: &Folder) -> Seen {
    let of = |name: &&str| {
        let metadata = fs::symlink_metadata(folder.path(name)).ok()?;
        Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    FILES.iter().chain([&CLIENTS]).map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn whoever_gets_a_right_to_keys_while_a_gateway_runs_is_told_once_and_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        folder.create().unwrap();
        let mut recheck = folder.load().unwrap().recheck();
        assert_eq!((recheck.look(), recheck.look()), (None, None));
        for (name, mode, kept) in
            [("nodes", 0o660, 0o600), ("gateway.key", 0o640, 0o600), ("", 0o770, 0o700), ("clients", 0o602, 0o600)]
        {
            let set = |mode| fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
            set(mode);
            assert_eq!(recheck.look(), None, "a command may be in its middle");
            match recheck.look() {
                Some(News::Trouble(text)) => assert!(text.contains("chmod") && text.contains(name), "{text}"),
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!((recheck.look(), recheck.look()), (None, None), "it is told once");
            set(kept);
            assert_eq!((recheck.look(), recheck.look()), (None, Some(News::Mended)), "{name}");
        }
        let (key, away) = (folder.path("gateway.key"), dir.path().join("away"));
        fs::rename(&key, &away).unwrap();
        assert_eq!(recheck.look(), None);
        assert!(matches!(recheck.look(), Some(News::Trouble(text)) if text.contains("gateway.key")));
        fs::rename(&away, &key).unwrap();
        assert_eq!((recheck.look(), recheck.look()), (None, Some(News::Mended)));
    }
}
