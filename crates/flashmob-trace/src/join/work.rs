//! Pieces of work as collected by the join, and their interned names.

use std::collections::HashMap;

use flashmob_results::trace::{Layer, Role, Thread};

use crate::record::Record;
use crate::surroundings::{AppOperation, Surroundings};

use super::rules::{MapFields, device_number};

/// A piece of work: what was done, by which thread, when.
#[derive(Clone, Debug)]
pub struct Work {
    pub layer: Layer,
    /// An index of the book's names.
    pub name: u32,
    /// The kernel's thread ID.
    pub thread: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub file: FileKey,
    /// Offset in the file, or address on the device.
    pub address_bytes: Option<u64>,
    pub bytes: u64,
    pub source: Source,
    /// A system call that counts as an operation if no operations are known.
    pub is_operation: bool,
}

impl Work {
    /// Work without a file or data; [`Book::add`] names it.
    pub fn new(layer: Layer, thread: u32, begin_ns: u64, end_ns: u64) -> Work {
        let (file, source) = (FileKey::None, Source::Thread);
        Work {
            layer,
            name: 0,
            thread,
            begin_ns,
            end_ns,
            file,
            address_bytes: None,
            bytes: 0,
            source,
            is_operation: false,
        }
    }
}

/// How the operation of a piece of work is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the thread that did it.
    Thread,
    /// From the thread that submitted the first bio of this request.
    Request(u32),
}

/// How a file is identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKey {
    /// None, or an unknown one.
    None,
    /// By descriptor, while it was open.
    Open(u32),
    /// By inode at that time.
    Inode { device: u32, inode: u64, at_ns: u64 },
    /// By index of the surroundings' files.
    Told(usize),
    /// By path argument of a system call, as index of the calls' paths.
    Path(u32),
    /// By bytes of a device, from a request; `inode` is the device and inode that the submitting thread worked on.
    Device { device: u32, begin_bytes: u64, at_ns: u64, inode: Option<(u32, u64)>, is_metadata: bool, by: u32 },
    /// No file, only a role.
    Role { role: Role, device: u32 },
}

/// All work, with its names and threads.
#[derive(Debug, Default)]
pub struct Book {
    /// In the order of ends, until sorted.
    pub works: Vec<Work>,
    /// Mapped blocks of files, in the order of time.
    pub maps: Vec<Map>,
    names: Vec<String>,
    index_of_name: HashMap<String, u32>,
    threads: Vec<u32>,
    index_of_thread: HashMap<u32, u32>,
    comms: HashMap<u32, String>,
}

impl Book {
    /// An empty book with the reported thread names.
    pub fn new(surroundings: &Surroundings) -> Book {
        Book { comms: surroundings.thread_names.iter().cloned().collect(), ..Book::default() }
    }

    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index_of_name.get(name) {
            return index;
        }
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_string());
        self.index_of_name.insert(name.to_string(), index);
        index
    }

    pub fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", String::as_str)
    }

    /// The timeline's index of a thread.
    pub fn thread(&mut self, id: u32) -> u32 {
        if let Some(&index) = self.index_of_thread.get(&id) {
            return index;
        }
        let index = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        self.threads.push(id);
        self.index_of_thread.insert(id, index);
        index
    }

    /// Records a thread's name: the last one counts, because exec changes it.
    pub fn called(&mut self, id: u32, comm: &str) {
        match self.comms.get_mut(&id) {
            Some(known) if known == comm => {}
            Some(known) => comm.clone_into(known),
            None => drop(self.comms.insert(id, comm.to_string())),
        }
    }

    pub fn comm(&self, id: u32) -> &str {
        self.comms.get(&id).map_or("", String::as_str)
    }

    pub fn add(&mut self, name: &str, work: Work) {
        let name = self.intern(name);
        self.works.push(Work { name, ..work });
    }

    /// Adds an operation as work of the application.
    pub fn add_application(&mut self, operation: &AppOperation) {
        let AppOperation { name, thread, begin_ns, end_ns } = operation;
        self.add(name, Work::new(Layer::Application, *thread, *begin_ns, *end_ns));
    }

    /// Names and threads in the timeline's form.
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

/// Blocks of one file, valid from a time on.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The file system's device.
    pub device: u32,
    pub inode: u64,
    /// First block on the device.
    pub physical: u64,
    pub blocks: u64,
    pub since_ns: u64,
}

impl Map {
    pub fn of(record: &Record<'_>, fields: &MapFields<'_>) -> Option<Map> {
        let number = |field: &crate::format::Field| field.number(record.data);
        Some(Map {
            device: device_number(record, fields.device)?,
            inode: number(fields.inode)?,
            physical: number(fields.physical)?,
            blocks: number(fields.length)?,
            since_ns: record.time_ns,
        })
    }
}
