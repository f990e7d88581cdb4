//! The folders that lead to a unix socket. A plain socket is for the gateway's own user, and root: nobody else may be able to put one of their own in its
//! place, by a change of any folder on the way.
//!
//! Access control lists count, too: their mask is shown in the bits of the group (acl(5)).

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

use crate::store::overflow_user;

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Most links on the way, as the kernel has it.
const LINKS_MAX: usize = 40;
/// The attribute in which file systems keep access control lists (acl(5)).
const LIST: &str = "system.posix_acl_access";

/// Refuses a socket below folders that others can change.
pub(super) fn check_folders_of(socket: &Path) -> anyhow::Result<()> {
    check_folders(socket, |_| true)
}

/// Refuses such folders among those that are judged.
fn check_folders(socket: &Path, is_judged: impl Fn(&Path) -> bool) -> anyhow::Result<()> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let ways = match ways_to(&std::path::absolute(folder)?) {
        // Listening there fails, and says so.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        ways => ways.with_context(|| format!("cannot look at the folders that lead to {}", socket.display()))?,
    };
    let user = User::own(ways.first());
    for (at, way) in ways.iter().enumerate().filter(|(_, way)| is_judged(&way.path)) {
        let is_last = at + 1 == ways.len();
        let Some(why) = user.trouble(way, is_last) else { continue };
        anyhow::bail!(
            "{why} {path}, and so could put a socket of their own in the place of {}: in a cluster with keys each folder on the way to it must belong to the \
             gateway's user or root, and nobody else may write there (chmod go-w {path}); or use one below /run",
            socket.display(),
            path = way.path.display(),
        );
    }
    Ok(())
}

/// A folder, or a link, on the way.
struct Way {
    path: PathBuf,
    metadata: Metadata,
    has_list: bool,
}

impl Way {
    fn look(path: &Path) -> io::Result<Way> {
        let metadata = fs::symlink_metadata(path)?;
        let list = rustix::fs::lgetxattr(path, LIST, &mut [0; 0]);
        let has_list = !matches!(list, Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP));
        Ok(Way { path: path.to_path_buf(), metadata, has_list })
    }
}

/// All folders, and links, that lead to a folder, from the root on; the folder itself is the last one.
fn ways_to(folder: &Path) -> io::Result<Vec<Way>> {
    let mut here = PathBuf::from("/");
    let mut ways = vec![Way::look(&here)?];
    let names = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<VecDeque<_>>();
    let mut left = names(folder);
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => here = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::Normal(name)) => {
                let next = here.join(name);
                let way = Way::look(&next)?;
                let is_link = way.metadata.is_symlink();
                ways.push(way);
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
    ways.push(Way::look(&here)?);
    Ok(ways)
}

/// The gateway's user.
struct User {
    /// Users that may change a folder: the gateway's, root, and the owner of the root folder. That is root as well, unless a container has no root of its own.
    trusted: [u32; 3],
    /// The user that the kernel shows in place of all that have no number here. Some container's root folder is theirs, and so is what anybody else has made.
    nobody: Option<u32>,
    /// The group that has no other member.
    private_group: Option<u32>,
}

impl User {
    fn own(root: Option<&Way>) -> User {
        let own = rustix::process::geteuid().as_raw();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let private_group = private_group_of(own, &read("/etc/passwd"), &read("/etc/group"));
        User::of(own, root.map_or(0, |way| way.metadata.uid()), overflow_user(), private_group)
    }

    fn of(own: u32, roots_owner: u32, nobody: Option<u32>, private_group: Option<u32>) -> User {
        let roots_owner = if nobody == Some(roots_owner) { 0 } else { roots_owner };
        User { trusted: [own, 0, roots_owner], nobody, private_group }
    }

    /// Others that could change what is in a folder; or where a link leads to.
    fn trouble(&self, way: &Way, is_last: bool) -> Option<String> {
        let (owner, group, mode) = (way.metadata.uid(), way.metadata.gid(), way.metadata.mode());
        let is_nobodys = self.nobody == Some(owner);
        let is_trusted = self.trusted.contains(&owner) || (is_nobodys && way.path == Path::new("/"));
        if !is_trusted {
            let known = if is_nobodys { ", whom this process does not know," } else { "" };
            return Some(format!("user {owner}{known} owns"));
        }
        if way.metadata.is_symlink() {
            return None;
        }
        let mut of_others = OTHERS_WRITE;
        // Many systems give each user a group of its own, which may write where its user may. With a list the bits are of all who are in it.
        if way.has_list || self.private_group != Some(group) {
            of_others |= GROUP_WRITES;
        }
        // In a folder with the sticky bit nobody replaces what somebody else has; but a socket that is not there yet is nobody's.
        let is_open = mode & of_others != 0 && (is_last || mode & STICKY == 0);
        let who = match (mode & OTHERS_WRITE != 0, way.has_list) {
            (true, _) => "other users".to_string(),
            (false, true) => "others, by an access control list,".to_string(),
            (false, false) => format!("group {group}"),
        };
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

    /// Only what is below the temporary folder is the tests' own.
    fn check(socket: &Path, dir: &tempfile::TempDir) -> anyhow::Result<()> {
        let top = dir.path().canonicalize().unwrap();
        check_folders(socket, |way| way.starts_with(&top))
    }

    fn is_good(socket: &Path, dir: &tempfile::TempDir) -> bool {
        check(socket, dir).is_ok()
    }

    /// Lets another user write by an access control list, by its bytes (acl(5)). Not all file systems have them.
    fn let_write(path: &Path) -> bool {
        const USER: u32 = 61_234;
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, u32::MAX), (2, 7, USER), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 5, u32::MAX)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        match rustix::fs::setxattr(path, LIST, &list, rustix::fs::XattrFlags::empty()) {
            Err(rustix::io::Errno::NOTSUP) => false,
            set => set.map(|()| true).unwrap(),
        }
    }

    #[test]
    fn nobody_else_can_put_a_socket_in_the_place_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("gateway.sock");
        let modes = [(0o700, true), (0o755, true), (0o1755, true), (0o772, false), (0o777, false), (0o1777, false)];
        for (mode, expected) in modes {
            set_mode(dir.path(), mode);
            assert_eq!(is_good(&socket, &dir), expected, "{mode:o}");
        }
        assert!(check_folders_of(Path::new("/no/such/folder/sock")).is_ok());
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
            assert_eq!(is_good(&inner.join("sock"), &dir), expected, "{mode:o}");
        }
        set_mode(&parent, 0o777);
        let error = check(&inner.join("sock"), &dir).unwrap_err().to_string();
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
            assert_eq!(is_good(&safe.join("link/sock"), &dir), expected, "{mode:o}");
            assert_eq!(is_good(&inner.join("sock"), &dir), expected, "{mode:o}");
            assert_eq!(is_good(&inner.join("../../safe/sock"), &dir), expected, "{mode:o}");
        }
        symlink("loop", safe.join("loop")).unwrap();
        let error = format!("{:#}", check(&safe.join("loop/sock"), &dir).unwrap_err());
        assert!(error.contains("cannot look at the folders that lead to") && error.contains("loop/sock"), "{error}");
        fs::write(safe.join("file"), "").unwrap();
        assert!(!is_good(&safe.join("file/inner/sock"), &dir), "what cannot be looked at is not taken for good");
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
        let look = || Way::look(dir.path()).unwrap();
        let (user, group) = (look().metadata.uid(), look().metadata.gid());
        let (own, shared) = (User::of(user, 0, None, Some(group)), User::of(user, 0, None, None));
        assert_eq!(own.trouble(&look(), true), None);
        assert!(shared.trouble(&look(), true).is_some_and(|why| why.starts_with("group ")));
        assert!(shared.trouble(&look(), false).is_some());
        let foreign = User::of(user + 1, user + 1, None, None);
        set_mode(dir.path(), 0o700);
        assert!(user == 0 || foreign.trouble(&look(), false).is_some_and(|why| why.starts_with("user ")));
    }

    #[test]
    fn an_access_control_list_lets_others_in_also_where_the_group_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let look = || Way::look(dir.path()).unwrap();
        let own = User::of(look().metadata.uid(), 0, None, Some(look().metadata.gid()));
        assert!(!look().has_list);
        if !let_write(dir.path()) {
            return println!("not tried: the temporary folder takes no access control lists");
        }
        assert!(look().has_list);
        assert!(own.trouble(&look(), false).is_some_and(|why| why.contains("access control list")));
        // The remedy that the message has: it changes the list's mask.
        set_mode(dir.path(), 0o750);
        assert!(look().has_list);
        assert_eq!(own.trouble(&look(), false), None);
    }

    #[test]
    fn users_without_a_number_own_nothing_but_a_containers_root() {
        let dir = tempfile::tempdir().unwrap();
        let nobody = dir.path().metadata().unwrap().uid();
        let folder = |path: &str| Way { path: path.into(), ..Way::look(dir.path()).unwrap() };
        let other = nobody + 1;
        // Of the tests' own folder, as that of users without a number.
        let user = User { trusted: [other; 3], nobody: Some(nobody), private_group: None };
        assert_eq!(user.trouble(&folder("/"), false), None);
        assert!(user.trouble(&folder("/home"), false).is_some_and(|why| why.contains("does not know")));
        assert_eq!(User::of(other, 65_534, Some(65_534), None).trusted, [other, 0, 0]);
        assert_eq!(User::of(other, 7, Some(65_534), None).trusted, [other, 0, 7], "a container's root");
    }
}
