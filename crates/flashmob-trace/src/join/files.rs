//! File names, each valid for a period of time.
//!
//! A name is valid from its report until the inode gets another: a journal lives for milliseconds, and its inode is reused by the next.
//! Requests name bytes of a device; these belong to the file with a reported or observed extent there, or to the one that the thread
//! worked on when it submitted the bio. The file system's own blocks are identified by the kernel's metadata flag.

use std::collections::{HashMap, HashSet};

use flashmob_results::trace::{File, Role};

use crate::surroundings::{BlockDevice, Surroundings};

use super::calls::Calls;
use super::work::{Book, FileKey, Map, Work};

/// Identifies files and numbers those that are used.
#[derive(Debug)]
pub struct Files<'a> {
    calls: &'a Calls,
    surroundings: &'a Surroundings,
    maps: HashMap<u32, Vec<Map>>,
    by_inode: HashMap<(u32, u64), Vec<Named>>,
    journal_threads: Vec<u32>,
    /// Paths that have one of SQLite's files beside them.
    databases: HashSet<String>,
    list: Vec<File>,
    index_of: HashMap<(String, Role), u32>,
}

#[derive(Clone, Debug)]
struct Named {
    from_ns: u64,
    name: String,
    role: Role,
}

impl<'a> Files<'a> {
    pub fn new(calls: &'a Calls, surroundings: &'a Surroundings, book: &Book, threads: &[u32]) -> Files<'a> {
        let mut by_inode: HashMap<(u32, u64), Vec<Named>> = HashMap::new();
        let mut add = |device: u32, inode: u64, named: Named| by_inode.entry((device, inode)).or_default().push(named);
        for file in &surroundings.files {
            add(file.device, file.inode, Named { from_ns: file.from_ns, name: file.path.clone(), role: file.role });
        }
        let told: HashSet<_> = surroundings.files.iter().map(|file| (file.device, file.inode)).collect();
        let is_told = |device: u32, inode: u64| told.contains(&(device, inode));
        let databases = databases(calls);
        let named =
            |path: &str, from_ns: u64| Named { from_ns, name: path.to_string(), role: role_of(path, &databases) };
        for open in &calls.open {
            if let (Some(path), Some((device, inode))) = (&open.path, open.inode)
                && !is_told(device, inode)
            {
                add(device, inode, named(path, open.since_ns));
            }
        }
        for &(path, device, inode, at_ns) in &calls.named {
            if let Some(path) = calls.paths.get(path as usize)
                && !is_told(device, inode)
            {
                add(device, inode, named(path, at_ns));
            }
        }
        by_inode.values_mut().for_each(|list| list.sort_by_key(|named| named.from_ns));
        let mut maps: HashMap<u32, Vec<Map>> = HashMap::new();
        for map in &book.maps {
            maps.entry(map.device).or_default().push(*map);
        }
        let journal_threads =
            threads.iter().copied().filter(|&thread| book.comm(thread).starts_with("jbd2/")).collect();
        let (list, index_of) = (Vec::new(), HashMap::new());
        Files { calls, surroundings, maps, by_inode, journal_threads, databases, list, index_of }
    }

    /// The index of the file that work was about; `None` if it had none.
    pub fn of(&mut self, work: &Work) -> Option<u32> {
        let (name, role) = self.find(work)?;
        if let Some(&index) = self.index_of.get(&(name.clone(), role)) {
            return Some(index);
        }
        let index = u32::try_from(self.list.len()).ok()?;
        self.list.push(File { name: name.clone(), role });
        self.index_of.insert((name, role), index);
        Some(index)
    }

    pub fn into_files(self) -> Vec<File> {
        self.list
    }

    fn find(&self, work: &Work) -> Option<(String, Role)> {
        match work.file {
            FileKey::None => None,
            FileKey::Told(index) => self.surroundings.files.get(index).map(|file| (file.path.clone(), file.role)),
            FileKey::Path(index) => self.calls.paths.get(index as usize).map(|path| self.by_path(path)),
            FileKey::Open(index) => {
                let open = self.calls.open.get(index as usize)?;
                let by_inode = open.inode.and_then(|(device, inode)| self.inode(device, inode, work.end_ns));
                by_inode.or_else(|| Some(self.by_path(open.path.as_ref()?)))
            }
            FileKey::Inode { device, inode, at_ns } => {
                Some(self.inode(device, inode, at_ns.max(work.end_ns)).unwrap_or_else(|| {
                    let device = self.device(device).map_or_else(|| device.to_string(), |device| device.name.clone());
                    (format!("inode {inode} of {device}"), Role::Unknown)
                }))
            }
            FileKey::Device { device, begin_bytes, at_ns, inode, is_metadata, by } => {
                Some(self.on_device(device, begin_bytes, at_ns, inode, is_metadata, by))
            }
            FileKey::Role { role, device } => Some((self.device_words(role, device), role)),
        }
    }

    fn by_path(&self, path: &str) -> (String, Role) {
        let told = self.surroundings.files.iter().find(|file| file.path == path);
        (path.to_string(), told.map_or_else(|| role_of(path, &self.databases), |file| file.role))
    }

    /// The inode's name at that time.
    fn inode(&self, device: u32, inode: u64, at_ns: u64) -> Option<(String, Role)> {
        let list = self.by_inode.get(&(device, inode))?;
        let at = list.partition_point(|named| named.from_ns <= at_ns);
        let named = match at {
            // Before its first name the inode can only have had that one, if it never had another.
            0 if list.iter().all(|named| named.name == list[0].name) => list.first()?,
            0 => return None,
            at => list.get(at - 1)?,
        };
        Some((named.name.clone(), named.role))
    }

    fn device(&self, number: u32) -> Option<&'a BlockDevice> {
        let devices = &self.surroundings.devices;
        devices
            .iter()
            .find(|device| device.number == number)
            .or_else(|| devices.iter().find(|device| device.disk_number == number))
    }

    fn on_device(
        &self,
        device: u32,
        begin: u64,
        at_ns: u64,
        inode: Option<(u32, u64)>,
        is_metadata: bool,
        by: u32,
    ) -> (String, Role) {
        let Some(known) = self.device(device) else { return (self.device_words(Role::Unknown, device), Role::Unknown) };
        let offset = begin.checked_sub(if device == known.number && known.number != known.disk_number {
            0
        } else {
            known.begin_bytes
        });
        let is_journal = |offset: u64| {
            known.journal.iter().any(|e| (e.physical_bytes..e.physical_bytes.saturating_add(e.bytes)).contains(&offset))
        };
        if is_metadata && (self.journal_threads.contains(&by) || offset.is_some_and(is_journal)) {
            return (self.device_words(Role::FilesystemJournal, device), Role::FilesystemJournal);
        }
        if is_metadata {
            return (self.device_words(Role::Metadata, device), Role::Metadata);
        }
        // The inode may be on another disk: the thread was about to reclaim memory, or serves a loop device.
        let is_here = |number: u32| {
            number == known.number || self.device(number).is_some_and(|other| other.disk_number == known.disk_number)
        };
        if let Some(found) =
            inode.filter(|of| is_here(of.0)).and_then(|(number, inode)| self.inode(number, inode, at_ns))
        {
            return found;
        }
        let seen = offset.filter(|_| known.block_bytes > 0).and_then(|offset| {
            let block = offset / known.block_bytes;
            let maps = self.maps.get(&known.number)?;
            let map = maps
                .iter()
                .rev()
                .find(|m| m.since_ns <= at_ns && (m.physical..m.physical.saturating_add(m.blocks)).contains(&block))?;
            self.inode(known.number, map.inode, at_ns)
        });
        let told = || {
            let offset = offset?;
            let lies = |file: &&crate::surroundings::NamedFile| {
                let here = |e: &crate::surroundings::Extent| {
                    (e.physical_bytes..e.physical_bytes.saturating_add(e.bytes)).contains(&offset)
                };
                file.device == known.number && file.extents.iter().any(here)
            };
            self.surroundings.files.iter().find(lies).map(|file| (file.path.clone(), file.role))
        };
        seen.or_else(told).unwrap_or_else(|| (self.device_words(Role::Unknown, device), Role::Unknown))
    }

    fn device_words(&self, role: Role, device: u32) -> String {
        let name =
            self.device(device).map_or_else(|| format!("{}:{}", device >> 20, device & 0xf_ffff), |d| d.name.clone());
        match role {
            Role::Flush => format!("cache of {name}"),
            Role::FilesystemJournal => format!("file system journal of {name}"),
            Role::Metadata => format!("metadata of {name}"),
            _ => format!("somewhere on {name}"),
        }
    }
}

/// Paths that have one of SQLite's files beside them.
fn databases(calls: &Calls) -> HashSet<String> {
    let paths = calls.open.iter().filter_map(|open| open.path.as_ref()).chain(&calls.paths);
    let of = |path: &String| ["-journal", "-wal"].iter().find_map(|end| path.strip_suffix(end)).map(str::to_string);
    paths.filter_map(of).collect()
}

/// The role of a file by SQLite's documented names.
fn role_of(path: &str, databases: &HashSet<String>) -> Role {
    match path {
        _ if path.ends_with("-journal") => Role::Journal,
        _ if path.ends_with("-wal") => Role::Wal,
        _ if path.ends_with("-shm") => Role::SharedMemory,
        _ if databases.contains(path) => Role::Database,
        _ if path.ends_with('/') || path == "." => Role::Directory,
        _ => Role::Other,
    }
}
