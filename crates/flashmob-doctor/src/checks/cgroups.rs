//! Where this process's control groups are: version 1 has a hierarchy for each controller, version 2 one for all.

use crate::view::View;

/// Groups are not nested deeper; what is would be a loop.
const DEPTH_MAX: usize = 64;

/// Which version a folder belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// This process's group for a controller and all above it, the nearest first, relative to the view's root; empty if there are none.
pub(super) fn folders(view: &View, controller: &str) -> Vec<(Version, String)> {
    let text = view.text("proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if path.split('/').any(|part| part == "..") {
            continue;
        }
        if controllers.is_empty() {
            for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                if view.root().join(mount).join("cgroup.controllers").exists() {
                    found.extend(upwards(mount, path).map(|folder| (Version::Two, folder)));
                    break;
                }
            }
        } else if controllers.split(',').any(|each| each == controller) {
            // Both names occur: that of all controllers that are mounted together, and each one's own.
            let mounts = [controllers, controller].map(|name| format!("sys/fs/cgroup/{name}"));
            if let Some(mount) = mounts.iter().find(|mount| view.root().join(mount).is_dir()) {
                found.extend(upwards(mount, path).map(|folder| (Version::One, folder)));
            }
        }
    }
    // In a container the path is the host's, and the mount shows the group itself as its top.
    found.retain(|(_, folder)| view.root().join(folder).is_dir());
    found
}

fn upwards(mount: &str, path: &str) -> impl Iterator<Item = String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).take(DEPTH_MAX).collect();
    let mount = mount.to_string();
    let paths: Vec<String> =
        (0..=parts.len()).rev().map(|len| [&[mount.as_str()], &parts[..len]].concat().join("/")).collect();
    paths.into_iter()
}
