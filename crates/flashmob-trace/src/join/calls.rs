//! System calls, their descriptors and path arguments; markers written by the application.

use std::collections::HashMap;

use flashmob_results::trace::Layer;

use crate::capture::names::file_name;
use crate::format::Field;
use crate::record::Record;
use crate::surroundings::{AppOperation, Surroundings};

use super::rules::{Call, NewTask, Span, number};
use super::work::{Book, FileKey, Work};

/// `clone` flag: the child is a thread, and shares memory and descriptors.
const CLONE_THREAD: u64 = 0x0001_0000;
/// `clone` flag: the child is a process that shares descriptors.
const CLONE_FILES: u64 = 0x0000_0400;
/// A path belongs to a system call within this time.
const NAME_NEAR_NS: u64 = 1_000_000;

/// A descriptor, from open to close.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// The path that it was opened by, if known.
    pub path: Option<String>,
    /// Device and inode, if an event reported them.
    pub inode: Option<(u32, u64)>,
    pub since_ns: u64,
}

#[derive(Debug, Default)]
pub struct Calls {
    /// All descriptors ever open; numbers are reused, entries are not.
    pub open: Vec<Open>,
    /// Path arguments of calls.
    pub paths: Vec<String>,
    /// Operations marked by the application.
    pub marked: Vec<AppOperation>,
    /// Inodes of calls by path: path, device, inode, time.
    pub named: Vec<(u32, u32, u64, u64)>,
    in_call: HashMap<u32, InCall>,
    /// By group of threads that share descriptors: number to index in `open`.
    descriptors: HashMap<u32, HashMap<u64, u32>>,
    group_of: HashMap<u32, u32>,
    names_ahead: HashMap<u32, (u64, u32)>,
    markers: HashMap<u32, Vec<(String, u64)>>,
}

#[derive(Debug)]
struct InCall {
    begin_ns: u64,
    file: Option<u32>,
    path: Option<u32>,
    offset: Option<u64>,
    inode: Option<(u32, u64)>,
    descriptor: Option<u64>,
    closes_to: Option<u64>,
    copies: bool,
}

impl Calls {
    /// Tracks these threads and their future children.
    pub fn new(surroundings: &Surroundings) -> Calls {
        // Threads that exist at the start belong to one program.
        let group = surroundings.threads.first().copied().unwrap_or(0);
        let group_of = surroundings.threads.iter().map(|&thread| (thread, group)).collect();
        Calls { group_of, ..Calls::default() }
    }

    fn group(&self, thread: u32) -> u32 {
        self.group_of.get(&thread).copied().unwrap_or(thread)
    }

    pub fn new_task(&mut self, record: &Record<'_>, rule: &NewTask<'_>) {
        let (Some(child), Some(flags)) = (rule.thread.number(record.data), rule.flags.number(record.data)) else {
            return;
        };
        let (Ok(child), parent) = (u32::try_from(child), self.group(record.thread)) else { return };
        if flags & (CLONE_THREAD | CLONE_FILES) != 0 {
            self.group_of.insert(child, parent);
        } else {
            let copies = self.descriptors.get(&parent).cloned().unwrap_or_default();
            self.group_of.insert(child, child);
            self.descriptors.insert(child, copies);
        }
    }

    pub fn enter(&mut self, record: &Record<'_>, call: &Call<'_>) {
        let group = self.group(record.thread);
        let descriptor = number(record, call.file);
        // The first number of a range to close need not be an open descriptor.
        let about = descriptor.filter(|_| call.rule.closes_to.is_none());
        let file = about.map(|fd| self.descriptor(group, fd, record.time_ns));
        let path = if call.rule.path { self.name_ahead(record) } else { None };
        let offset = number(record, call.offset);
        let begin_ns = record.time_ns;
        let closes_to = number(record, call.closes_to);
        let copies = call.rule.copies
            && (call.rule.copies_by.is_none()
                || number(record, call.copies_by).is_some_and(|how| call.rule.copies_if.contains(&how)));
        let inside = InCall { begin_ns, file, path, offset, inode: None, descriptor, closes_to, copies };
        self.in_call.insert(record.thread, inside);
    }

    fn descriptor(&mut self, group: u32, fd: u64, now_ns: u64) -> u32 {
        let known = self.descriptors.entry(group).or_default();
        *known.entry(fd).or_insert_with(|| push(&mut self.open, Open { since_ns: now_ns, ..Open::default() }))
    }

    fn name_ahead(&mut self, record: &Record<'_>) -> Option<u32> {
        let (time_ns, path) = self.names_ahead.remove(&record.thread)?;
        (record.time_ns.saturating_sub(time_ns) < NAME_NEAR_NS).then_some(path)
    }

    pub fn exit(&mut self, record: &Record<'_>, call: &Call<'_>, book: &mut Book) {
        // Otherwise the call began before the capture.
        let Some(inside) = self.in_call.remove(&record.thread) else { return };
        let result = number(record, call.result).map_or(0, u64::cast_signed);
        let group = self.group(record.thread);
        let mut file = inside.file;
        if call.rule.opens && result >= 0 {
            let path = inside.path.and_then(|path| self.paths.get(path as usize).cloned());
            let index = push(&mut self.open, Open { path, inode: inside.inode, since_ns: inside.begin_ns });
            self.descriptors.entry(group).or_default().insert(result.cast_unsigned(), index);
            file = Some(index);
        }
        if let Some(open) = file.filter(|_| inside.copies && result >= 0) {
            self.descriptors.entry(group).or_default().insert(result.cast_unsigned(), open);
        }
        if let (Some(path), Some((device, inode))) = (inside.path, inside.inode) {
            self.named.push((path, device, inode, inside.begin_ns));
        }
        if call.rule.closes
            && let Some(fd) = inside.descriptor
        {
            self.descriptors.entry(group).or_default().remove(&fd);
        }
        if let (Some(first), Some(last)) = (inside.descriptor, inside.closes_to)
            && result >= 0
        {
            self.descriptors.entry(group).or_default().retain(|fd, _| !(first..=last).contains(fd));
        }
        let key = match (file, inside.path) {
            (Some(open), _) => FileKey::Open(open),
            (None, Some(path)) => FileKey::Path(path),
            (None, None) => FileKey::None,
        };
        book.add(
            call.name,
            Work {
                file: key,
                address_bytes: inside.offset,
                bytes: if call.rule.moves { u64::try_from(result).unwrap_or(0) } else { 0 },
                is_operation: call.rule.file.is_some() || call.rule.path || call.rule.many,
                ..Work::new(Layer::SystemCall, record.thread, inside.begin_ns, record.time_ns)
            },
        );
    }

    /// A file system event reports an inode: that of the call's descriptor, if the thread is in a call.
    pub fn saw_inode(&mut self, record: &Record<'_>, event: &Span<'_>) {
        let Some(found) = event.file(record) else { return };
        let Some(inside) = self.in_call.get_mut(&record.thread) else { return };
        // Pages may belong to other files, such as a directory or an index, so file system events take precedence.
        if event.rule.layer == Layer::FileSystem && inside.inode.is_none() {
            inside.inode = Some(found);
            let Some(open) = inside.file.and_then(|open| self.open.get_mut(open as usize)) else { return };
            if *open.inode.get_or_insert(found) != found {
                // The descriptor was reassigned in an untracked way: by exec, or passed in a message.
                let (fd, since_ns) = (inside.descriptor, inside.begin_ns);
                let next = push(&mut self.open, Open { path: None, inode: Some(found), since_ns });
                inside.file = Some(next);
                let group = self.group(record.thread);
                if let Some(fd) = fd {
                    self.descriptors.entry(group).or_default().insert(fd, next);
                }
            }
        }
    }

    /// A path argument, of the thread's current call or its next one.
    pub fn name(&mut self, record: &Record<'_>) {
        let Some(name) = file_name(record) else { return };
        let path = name.path.trim_end();
        if path.is_empty() {
            return;
        }
        let index = push(&mut self.paths, path.to_string());
        match self.in_call.get_mut(&record.thread) {
            Some(inside) if inside.path.is_none() && inside.file.is_none() => inside.path = Some(index),
            _ => {
                self.names_ahead.insert(record.thread, (record.time_ns, index));
            }
        }
    }

    /// A marker in Android's format: `B|pid|name` begins, `E|pid` or `E` ends.
    pub fn marker(&mut self, record: &Record<'_>, field: &Field, book: &mut Book) {
        let Some(text) = record.data.get(field.offset..) else { return };
        let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
        let Ok(text) = std::str::from_utf8(text) else { return };
        let text = text.trim_end();
        let stack = self.markers.entry(record.thread).or_default();
        if let Some(rest) = text.strip_prefix("B|") {
            let name = rest.split_once('|').map_or(rest, |(_, name)| name);
            stack.push((name.to_string(), record.time_ns));
        } else if text == "E" || text.starts_with("E|") {
            let Some((name, begin_ns)) = stack.pop() else { return };
            let operation = AppOperation { name, thread: record.thread, begin_ns, end_ns: record.time_ns };
            book.add_application(&operation);
            if stack.is_empty() {
                self.marked.push(operation);
            }
        }
    }
}

/// Appends an item; returns its index.
fn push<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
}
