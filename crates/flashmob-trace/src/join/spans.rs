//! Begins that find their ends.

use std::collections::HashMap;

use flashmob_results::trace::Layer;

use crate::record::Record;

use super::commands::{Commands, Served};
use super::requests::Requests;
use super::rules::{Begin, End, Fields, Point, Probe};
use super::work::{Book, FileKey, Source, Work};

/// Bytes of a page, in which the page cache's events count.
const PAGE_BYTES: u64 = 4096;

/// Work that has begun.
#[derive(Debug, Default)]
pub struct Spans {
    begun: HashMap<(usize, u32, Vec<u64>), Begun>,
    until_return: HashMap<u32, Vec<Begun>>,
    probes: HashMap<u32, Vec<(String, u64)>>,
    in_hand: HashMap<u32, Vec<(usize, u32, u64)>>,
    /// What each thread did something to last, within a system call or outside.
    touched: HashMap<u32, (u32, u64)>,
}

#[derive(Clone, Debug)]
struct Begun {
    layer: Layer,
    name: &'static str,
    thread: u32,
    begin_ns: u64,
    file: FileKey,
    address_bytes: Option<u64>,
    bytes: u64,
    source: Source,
    /// What ends its name.
    code: Option<u64>,
}

impl Begun {
    fn serves(&mut self, served: Served) {
        self.source = Source::Request(served.request);
        self.file = served.file;
        self.address_bytes = served.address_bytes;
    }
}

impl Spans {
    /// Work begins; a driver's command serves a request, if that is known.
    pub fn begin(&mut self, record: &Record<'_>, begin: &Begin<'_>, served: Option<Served>) {
        let mut begun = begun(record, begin.rule.layer, &begin.rule.name, &begin.fields);
        begun.code = begin.command.code.and_then(|field| field.number(record.data));
        if let Some(served) = served {
            begun.serves(served);
        }
        if let FileKey::Inode { device, inode, .. } = begun.file {
            self.in_hand.entry(record.thread).or_default().push((begin.index, device, inode));
        }
        if begin.rule.end.is_empty() {
            self.until_return.entry(record.thread).or_default().push(begun);
        } else {
            // A begin whose end never came is forgotten: it took another way out.
            self.begun.insert(key(record, begin.index, &begin.keys), begun);
        }
    }

    /// Work ends.
    pub fn end(&mut self, record: &Record<'_>, end: &End<'_>, requests: &Requests, book: &mut Book) {
        if let Some(hands) = self.in_hand.get_mut(&record.thread)
            && let Some(at) = hands.iter().rposition(|(index, ..)| *index == end.index)
        {
            hands.truncate(at);
        }
        let Some(mut begun) = self.begun.remove(&key(record, end.index, &end.keys)) else { return };
        if let Some(served) = Commands::served(end, begun.thread, begun.begin_ns, requests) {
            begun.serves(served);
        }
        let bytes = end.bytes.and_then(|field| field.number(record.data)).unwrap_or(begun.bytes);
        push(book, &Begun { bytes, ..begun }, record.time_ns);
    }

    /// A moment.
    pub fn point(&mut self, record: &Record<'_>, point: &Point<'_>, book: &mut Book) {
        let begun = begun(record, point.layer, point.name, &point.fields);
        if let FileKey::Inode { device, inode, .. } = begun.file
            && point.layer == Layer::PageCache
        {
            self.touched.insert(record.thread, (device, inode));
        }
        push(book, &begun, record.time_ns);
    }

    /// The thread begins a system call, and has done with what it did outside of one.
    pub fn call_begins(&mut self, record: &Record<'_>) {
        self.touched.remove(&record.thread);
    }

    /// The thread's system call returns, and with it what lasts until then.
    pub fn call_returned(&mut self, record: &Record<'_>, book: &mut Book) {
        self.in_hand.remove(&record.thread);
        self.touched.remove(&record.thread);
        for begun in self.until_return.remove(&record.thread).unwrap_or_default() {
            push(book, &begun, record.time_ns);
        }
    }

    /// Device and inode that a thread works on; where no file system tells, those whose pages it handled last.
    pub fn inode_in_hand(&self, thread: u32) -> Option<(u32, u64)> {
        let told = self.in_hand.get(&thread).and_then(|hands| hands.last());
        told.map(|&(_, device, inode)| (device, inode)).or_else(|| self.touched.get(&thread).copied())
    }

    /// A probed function begins or returns.
    pub fn probe(&mut self, record: &Record<'_>, probe: &Probe<'_>, book: &mut Book) {
        let stack = self.probes.entry(record.thread).or_default();
        if !probe.is_return {
            stack.push((probe.name.to_string(), record.time_ns));
            return;
        }
        // Functions that were left by another way lie above their callers.
        let Some(at) = stack.iter().rposition(|(name, _)| name == probe.name) else { return };
        let (name, begin_ns) = stack.swap_remove(at);
        stack.truncate(at);
        let name = book.intern(&name);
        book.works.push(Work {
            layer: Layer::Sqlite,
            name,
            thread: record.thread,
            begin_ns,
            end_ns: record.time_ns,
            file: FileKey::None,
            address_bytes: None,
            bytes: 0,
            source: Source::Thread,
            is_operation: false,
        });
    }
}

fn key(record: &Record<'_>, index: usize, keys: &[&crate::format::Field]) -> (usize, u32, Vec<u64>) {
    // Ends that are told by address come from any thread.
    let thread = if keys.is_empty() { record.thread } else { 0 };
    (index, thread, keys.iter().filter_map(|field| field.number(record.data)).collect())
}

fn begun(record: &Record<'_>, layer: Layer, name: &'static str, fields: &Fields<'_>) -> Begun {
    let number = |field: Option<&crate::format::Field>| field.and_then(|field| field.number(record.data));
    let file = match (number(fields.device), number(fields.inode)) {
        (Some(device), Some(inode)) => {
            FileKey::Inode { device: u32::try_from(device).unwrap_or(0), inode, at_ns: record.time_ns }
        }
        _ => FileKey::None,
    };
    let page = number(fields.page).map(|page| page.saturating_mul(PAGE_BYTES));
    Begun {
        layer,
        name,
        thread: record.thread,
        begin_ns: record.time_ns,
        file,
        address_bytes: number(fields.offset).or(page),
        bytes: number(fields.bytes).unwrap_or(if fields.page.is_some() { PAGE_BYTES } else { 0 }),
        source: Source::Thread,
        code: None,
    }
}

fn push(book: &mut Book, begun: &Begun, end_ns: u64) {
    let name = match begun.code {
        Some(code) => book.intern(&format!("{}{code}", begun.name)),
        None => book.intern(begun.name),
    };
    book.works.push(Work {
        layer: begun.layer,
        name,
        thread: begun.thread,
        begin_ns: begun.begin_ns,
        end_ns,
        file: begun.file,
        address_bytes: begun.address_bytes,
        bytes: begun.bytes,
        source: begun.source,
        is_operation: false,
    });
}
