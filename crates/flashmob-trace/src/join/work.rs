//! Pieces of work as the join collects them, and the names that they share.

use std::collections::HashMap;

use flashmob_results::trace::{Layer, Role, Thread};

use crate::record::Record;
use crate::surroundings::{AppOperation, AppSpan, Surroundings};

use super::rules::MapFields;

/// Something that was done.
#[derive(Clone, Debug)]
pub struct Work {
    /// The layer that did it.
    pub layer: Layer,
    /// What, an index of the book's names.
    pub name: u32,
    /// By which thread, by the kernel's number.
    pub thread: u32,
    /// When.
    pub begin_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Of which file.
    pub file: FileKey,
    /// Where in the file, or on the device.
    pub address_bytes: Option<u64>,
    /// Bytes moved.
    pub bytes: u64,
    /// By which its operation is found.
    pub source: Source,
    /// A system call that is an operation by itself if nobody tells of any.
    pub is_operation: bool,
}

/// By what the operation of a piece of work is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the thread that did it.
    Thread,
    /// By the thread that handed the first bio of this request over.
    Request(u32),
}

/// By what a file is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKey {
    /// It is about none, or about one that nobody knows.
    None,
    /// A descriptor while it was open.
    Open(u32),
    /// An inode at that time.
    Inode { device: u32, inode: u64, at_ns: u64 },
    /// One that was told, an index of the surroundings' files.
    Told(usize),
    /// A path that a system call was given, an index of the calls' paths.
    Path(u32),
    /// Bytes of a device, as a request has them; the device and inode that its thread had in hand, if so.
    Device { device: u32, begin_bytes: u64, at_ns: u64, inode: Option<(u32, u64)>, is_metadata: bool, by: u32 },
    /// No file, but known by what it is.
    Role { role: Role, device: u32 },
}

/// Everything that was done, and what it is called.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order of their ends, until they are sorted.
    pub works: Vec<Work>,
    /// Where files lie, as events told.
    pub maps: Maps,
    names: Vec<String>,
    index_of_name: HashMap<String, u32>,
    threads: Vec<u32>,
    index_of_thread: HashMap<u32, u32>,
    comms: HashMap<u32, String>,
}

impl Book {
    /// An empty one that knows the names of threads that were told.
    pub fn new(surroundings: &Surroundings) -> Book {
        Book { comms: surroundings.thread_names.iter().cloned().collect(), ..Book::default() }
    }

    /// The number of a name.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index_of_name.get(name) {
            return index;
        }
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_string());
        self.index_of_name.insert(name.to_string(), index);
        index
    }

    /// A name by its number.
    pub fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", String::as_str)
    }

    /// The timeline's number of a thread.
    pub fn thread(&mut self, id: u32) -> u32 {
        if let Some(&index) = self.index_of_thread.get(&id) {
            return index;
        }
        let index = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.threads.push(id);
        self.index_of_thread.insert(id, index);
        index
    }

    /// Learns what a thread is called: the last name counts, for it gets another when it becomes another program.
    pub fn called(&mut self, id: u32, comm: &str) {
        match self.comms.get_mut(&id) {
            Some(known) if known == comm => {}
            Some(known) => comm.clone_into(known),
            None => drop(self.comms.insert(id, comm.to_string())),
        }
    }

    /// What a thread is called.
    pub fn comm(&self, id: u32) -> &str {
        self.comms.get(&id).map_or("", String::as_str)
    }

    /// What the application or SQLite told.
    pub fn add_told(&mut self, span: &AppSpan) {
        let name = self.intern(&span.name);
        self.works.push(Work {
            layer: span.layer,
            name,
            thread: span.thread,
            begin_ns: span.begin_ns,
            end_ns: span.end_ns,
            file: span.file.map_or(FileKey::None, FileKey::Told),
            address_bytes: span.offset_bytes,
            bytes: span.bytes,
            source: Source::Thread,
            is_operation: false,
        });
    }

    /// An operation as work of the application.
    pub fn add_application(&mut self, operation: &AppOperation) {
        let name = self.intern(&operation.name);
        self.works.push(Work {
            layer: Layer::Application,
            name,
            thread: operation.thread,
            begin_ns: operation.begin_ns,
            end_ns: operation.end_ns,
            file: FileKey::None,
            address_bytes: None,
            bytes: 0,
            source: Source::Thread,
            is_operation: false,
        });
    }

    /// Names and threads as a timeline has them.
    pub fn into_tables(self) -> (Vec<String>, Vec<Thread>) {
        let name = |id: u32| match self.comms.get(&id) {
            Some(comm) => comm.clone(),
            None if id == 0 => "idle".to_string(),
            None => format!("thread {id}"),
        };
        let place = || "this device".to_string();
        let thread = |&id: &u32| Thread { name: name(id), id, place: place(), clock_error_ns: None };
        (self.names.clone(), self.threads.iter().map(thread).collect())
    }
}

/// Blocks of files, each from a time on.
#[derive(Debug, Default)]
pub struct Maps {
    /// `(device, first physical block, blocks, inode, since)`, in the order of time.
    pub list: Vec<Map>,
}

/// Blocks of one file.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The file system's device.
    pub device: u32,
    /// Its inode.
    pub inode: u64,
    /// First block on the device.
    pub physical: u64,
    /// How many.
    pub blocks: u64,
    /// Since when.
    pub since_ns: u64,
}

impl Maps {
    /// What an event says.
    pub fn add(&mut self, record: &Record<'_>, fields: &MapFields<'_>) {
        let number = |field: &crate::format::Field| field.number(record.data);
        let (Some(device), Some(inode), Some(physical), Some(blocks)) =
            (number(fields.device), number(fields.inode), number(fields.physical), number(fields.length))
        else {
            return;
        };
        let (device, since_ns) = (u32::try_from(device).unwrap_or(0), record.time_ns);
        self.list.push(Map { device, inode, physical, blocks, since_ns });
    }
}
