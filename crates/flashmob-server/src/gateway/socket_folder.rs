//! The folders that lead to a unix socket. A plain socket is for the gateway's own user, and root: nobody else may be able to put one of their own in its
//! place, by a change of any folder on the way.
//!
//! What access control lists allow is seen, too: their mask is shown in the bits of the group (acl(5)).

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Most links on the way, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Refuses a socket below folders that others can change.
pub(super) fn check_folders_of(socket: &Path) -> anyhow::Result<()> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that is missing is told by whoever listens there.
    let Ok(ways) = ways_to(&std::path::absolute(folder)?) else { return Ok(()) };
    let user = User::own(ways.first());
    for (at, (way, metadata)) in ways.iter().enumerate() {
        let is_last = at + 1 == ways.len();
        let Some(why) = user.trouble(metadata, is_last) else { continue };
        anyhow::bail!(
            "{why} {}, and so could put a socket of their own in the place of {}: in a cluster with keys each folder on the way to it must belong to the \
             gateway's user or root, and nobody else may write there (chmod go-w {}); or use one below /run",
            way.display(),
            socket.display(),
            way.display()
        );
    }
    Ok(())
}

/// All folders, and links, that lead to a folder, from the root on; the folder itself is the last one.
fn ways_to(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut here = PathBuf::from("/");
    let mut ways = vec![(here.clone(), fs::symlink_metadata(&here)?)];
    let names = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut left = names(folder);
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => here = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::Normal(name)) => {
                let next = here.join(name);
                let metadata = fs::symlink_metadata(&next)?;
                let is_link = metadata.is_symlink();
                ways.push((next.clone(), metadata));
                if is_link {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(rustix::io::Errno::LOOP.into());
                    }
                    let mut target = names(&fs::read_link(&next)?);
                    target.append(&mut left);
                    left = target;
                } else {
                    here = next;
                }
            }
            _ => {}
        }
    }
    // Out of a link, or by `..`, it may not be the one that was looked at last.
    ways.push((here.clone(), fs::symlink_metadata(&here)?));
    Ok(ways)
}

/// The gateway's user.
struct User {
    /// Who may change a folder: the user itself, root, and whose the root folder is. That is root as well, unless a container has no root of its own.
    trusted: [u32; 3],
    /// The group that has no other member.
    private_group: Option<u32>,
}

impl User {
    fn own(root: Option<&(PathBuf, Metadata)>) -> User {
        let own = rustix::process::geteuid().as_raw();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let private_group = private_group_of(own, &read("/etc/passwd"), &read("/etc/group"));
        User { trusted: [own, 0, root.map_or(0, |(_, metadata)| metadata.uid())], private_group }
    }

    /// Who else could change what is in a folder; or where a link leads to.
    fn trouble(&self, metadata: &Metadata, is_last: bool) -> Option<String> {
        let (owner, mode) = (metadata.uid(), metadata.mode());
        if !self.trusted.contains(&owner) {
            return Some(format!("user {owner} owns"));
        }
        if metadata.is_symlink() {
            return None;
        }
        let mut of_others = OTHERS_WRITE;
        // Many systems give each user a group of its own, which may write where its user may.
        if self.private_group != Some(metadata.gid()) {
            of_others |= GROUP_WRITES;
        }
        // In a folder with the sticky bit nobody replaces what somebody else has; but a socket that is not there yet is nobody's.
        let is_open = mode & of_others != 0 && (is_last || mode & STICKY == 0);
        let who =
            if mode & OTHERS_WRITE != 0 { "other users".to_string() } else { format!("group {}", metadata.gid()) };
        is_open.then(|| format!("{who} can write to"))
    }
}

/// The user's own group, if it has the user's name and nobody else is in it, by the texts of passwd(5) and group(5). Users and groups that are kept elsewhere
/// have none.
fn private_group_of(user: u32, passwd: &str, groups: &str) -> Option<u32> {
    let users: Vec<(&str, u32, u32)> = passwd.lines().filter_map(user_of).collect();
    let &(name, _, group) = users.iter().find(|(_, id, _)| *id == user)?;
    let is_shared = users.iter().any(|(_, other, primary)| *primary == group && *other != user);
    let mut same = groups.lines().filter_map(group_of).filter(|(_, id, _)| *id == group);
    let (group_name, _, members) = same.next()?;
    let is_private = group_name == name && members.split(',').all(|member| member.is_empty() || member == name);
    (is_private && !is_shared && same.next().is_none()).then_some(group)
}

/// Name, id and primary group of a line of passwd(5).
fn user_of(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.split(':');
    let (name, id, group) = (fields.next()?, fields.nth(1)?, fields.next()?);
    Some((name, id.parse().ok()?, group.parse().ok()?))
}

/// Name, id and members of a line of group(5).
fn group_of(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.split(':');
    let (name, id, members) = (fields.next()?, fields.nth(1)?, fields.next()?);
    Some((name, id.parse().ok()?, members))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn is_good(socket: &Path) -> bool {
        check_folders_of(socket).is_ok()
    }

    #[test]
    fn nobody_else_can_put_a_socket_in_the_place_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("gateway.sock");
        let modes = [(0o700, true), (0o755, true), (0o1755, true), (0o772, false), (0o777, false), (0o1777, false)];
        for (mode, expected) in modes {
            set_mode(dir.path(), mode);
            assert_eq!(is_good(&socket), expected, "{mode:o}");
        }
        assert!(is_good(Path::new("/no/such/folder/sock")));
    }

    #[test]
    fn a_folder_further_up_counts_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let (parent, inner) = (dir.path().join("parent"), dir.path().join("parent/inner"));
        create_dir(&parent).unwrap();
        create_dir(&inner).unwrap();
        set_mode(&inner, 0o700);
        for (mode, expected) in [(0o700, true), (0o755, true), (0o777, false), (0o707, false), (0o1777, true)] {
            set_mode(&parent, mode);
            assert_eq!(is_good(&inner.join("sock")), expected, "{mode:o}");
        }
        set_mode(&parent, 0o777);
        let error = check_folders_of(&inner.join("sock")).unwrap_err().to_string();
        assert!(error.contains("other users can write to") && error.contains("chmod go-w"), "{error}");
    }

    #[test]
    fn folders_that_a_link_passes_count_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let (open, safe) = (dir.path().join("open"), dir.path().join("safe"));
        let inner = open.join("inner");
        for folder in [&open, &safe, &inner] {
            create_dir(folder).unwrap();
        }
        // From a safe folder by an open one to a safe one.
        symlink(&safe, open.join("back")).unwrap();
        symlink("../open/back", safe.join("link")).unwrap();
        for (mode, expected) in [(0o755, true), (0o777, false)] {
            set_mode(&open, mode);
            assert_eq!(is_good(&safe.join("link/sock")), expected, "{mode:o}");
            assert_eq!(is_good(&inner.join("sock")), expected, "{mode:o}");
            assert_eq!(is_good(&inner.join("../../safe/sock")), expected, "{mode:o}");
        }
        symlink("loop", safe.join("loop")).unwrap();
        assert!(ways_to(&safe.join("loop")).is_err());
    }

    #[test]
    fn a_group_is_private_if_it_has_its_users_name_and_nobody_else() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\nnoise\n";
        let groups = |alice: &str| format!("root:x:0:\nusers:x:100:\n{alice}\n");
        let of = |user, alice: &str| private_group_of(user, passwd, &groups(alice));
        assert_eq!(of(1000, "alice:x:1000:"), Some(1000));
        assert_eq!(of(1000, "alice:x:1000:alice"), Some(1000));
        assert_eq!(of(0, ""), Some(0));
        for shared in
            ["alice:x:1000:bob", "alice:x:1000:alice,bob", "staff:x:1000:", "alice:x:1000:\nother:x:1000:bob", ""]
        {
            assert_eq!(of(1000, shared), None, "{shared}");
        }
        assert_eq!(of(1001, ""), None, "users is not bob's");
        assert_eq!(of(7, ""), None, "a user that is kept elsewhere");
        let second = format!("{passwd}carol:x:1002:1000::/:/bin/sh\n");
        assert_eq!(private_group_of(1000, &second, &groups("alice:x:1000:")), None, "carol's, too");
    }

    #[test]
    fn the_group_counts_as_others_unless_it_is_private() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o770);
        let metadata = dir.path().metadata().unwrap();
        let own = User { trusted: [metadata.uid(), 0, 0], private_group: Some(metadata.gid()) };
        assert_eq!(own.trouble(&metadata, true), None);
        let shared = User { private_group: None, ..own };
        assert!(shared.trouble(&metadata, true).is_some_and(|why| why.starts_with("group ")));
        assert!(shared.trouble(&metadata, false).is_some());
        let foreign = User { trusted: [metadata.uid() + 1; 3], private_group: None };
        set_mode(dir.path(), 0o700);
        assert!(foreign.trouble(&dir.path().metadata().unwrap(), false).is_some_and(|why| why.starts_with("user ")));
    }
}
