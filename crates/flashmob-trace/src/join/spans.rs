//! Pairs begin events with their end events.

use std::collections::HashMap;

use flashmob_results::trace::Layer;

use crate::record::Record;

use super::commands::{Commands, Served};
use super::requests::Requests;
use super::rules::{Probe, Span, number};
use super::work::{Book, FileKey, Source, Work};

/// Page size in bytes; page cache events count in pages.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug, Default)]
pub struct Spans {
    begun: HashMap<(usize, u32, Vec<u64>), Begun>,
    until_return: HashMap<u32, Vec<Begun>>,
    probes: HashMap<u32, Vec<(String, u64)>>,
    in_hand: HashMap<u32, Vec<(usize, u32, u64)>>,
    /// The file whose pages each thread touched last, within a system call or outside.
    touched: HashMap<u32, (u32, u64)>,
}

#[derive(Clone, Debug)]
struct Begun {
    work: Work,
    name: &'static str,
    /// A number appended to the name.
    code: Option<u64>,
}

impl Begun {
    fn new(record: &Record<'_>, event: &Span<'_>) -> Begun {
        let file = event.file(record).map_or(FileKey::None, |(device, inode)| FileKey::Inode {
            device,
            inode,
            at_ns: record.time_ns,
        });
        let page = number(record, event.page).map(|page| page.saturating_mul(PAGE_BYTES));
        let work = Work {
            file,
            address_bytes: number(record, event.offset).or(page),
            bytes: number(record, event.bytes).unwrap_or(if event.page.is_some() { PAGE_BYTES } else { 0 }),
            ..Work::new(event.rule.layer, record.thread, record.time_ns, record.time_ns)
        };
        Begun { work, name: &event.rule.name, code: None }
    }

    fn serves(&mut self, served: Served) {
        self.work.source = Source::Request(served.request);
        self.work.file = served.file;
        self.work.address_bytes = served.address_bytes;
    }

    fn ends(self, end_ns: u64, book: &mut Book) {
        let work = Work { end_ns, ..self.work };
        match self.code {
            Some(code) => book.add(&format!("{}{code}", self.name), work),
            None => book.add(self.name, work),
        }
    }
}

impl Spans {
    /// Work begins; a driver's command may serve a known request.
    pub fn begin(&mut self, record: &Record<'_>, begin: &Span<'_>, served: Option<Served>) {
        let mut begun = Begun { code: number(record, begin.code), ..Begun::new(record, begin) };
        if let Some(served) = served {
            begun.serves(served);
        }
        if let FileKey::Inode { device, inode, .. } = begun.work.file {
            self.in_hand.entry(record.thread).or_default().push((begin.index, device, inode));
        }
        if begin.rule.end.is_empty() {
            self.until_return.entry(record.thread).or_default().push(begun);
        } else {
            // Replaces an unfinished begin with the same key: its work took an exit without an event.
            self.begun.insert(key(record, begin.index, &begin.keys), begun);
        }
    }

    pub fn end(&mut self, record: &Record<'_>, end: &Span<'_>, requests: &Requests, book: &mut Book) {
        if let Some(hands) = self.in_hand.get_mut(&record.thread)
            && let Some(at) = hands.iter().rposition(|(index, ..)| *index == end.index)
        {
            hands.truncate(at);
        }
        let Some(mut begun) = self.begun.remove(&key(record, end.index, &end.keys)) else { return };
        if let Some(served) = Commands::served(end, begun.work.thread, begun.work.begin_ns, requests) {
            begun.serves(served);
        }
        begun.work.bytes = number(record, end.bytes).unwrap_or(begun.work.bytes);
        begun.ends(record.time_ns, book);
    }

    pub fn point(&mut self, record: &Record<'_>, point: &Span<'_>, book: &mut Book) {
        if let (Layer::PageCache, Some(file)) = (point.rule.layer, point.file(record)) {
            self.touched.insert(record.thread, file);
        }
        Begun::new(record, point).ends(record.time_ns, book);
    }

    /// The thread enters a system call; work outside of calls is over.
    pub fn call_begins(&mut self, record: &Record<'_>) {
        self.touched.remove(&record.thread);
    }

    /// The thread's system call returns; spans without an end event of their own end here.
    pub fn call_returned(&mut self, record: &Record<'_>, book: &mut Book) {
        self.in_hand.remove(&record.thread);
        self.touched.remove(&record.thread);
        for begun in self.until_return.remove(&record.thread).unwrap_or_default() {
            begun.ends(record.time_ns, book);
        }
    }

    /// Device and inode that a thread works on; without file system events, those of the pages that it touched last.
    pub fn inode_in_hand(&self, thread: u32) -> Option<(u32, u64)> {
        let told = self.in_hand.get(&thread).and_then(|hands| hands.last());
        told.map(|&(_, device, inode)| (device, inode)).or_else(|| self.touched.get(&thread).copied())
    }

    /// Entry to or return from a probed function.
    pub fn probe(&mut self, record: &Record<'_>, probe: &Probe<'_>, book: &mut Book) {
        let stack = self.probes.entry(record.thread).or_default();
        if !probe.is_return {
            stack.push((probe.name.to_string(), record.time_ns));
            return;
        }
        // Entries above the caller have been left without a return event.
        let Some(at) = stack.iter().rposition(|(name, _)| name == probe.name) else { return };
        let (name, begin_ns) = stack.swap_remove(at);
        stack.truncate(at);
        book.add(&name, Work::new(Layer::Sqlite, record.thread, begin_ns, record.time_ns));
    }
}

fn key(record: &Record<'_>, index: usize, keys: &[&crate::format::Field]) -> (usize, u32, Vec<u64>) {
    // Ends that are matched by key may occur on any thread.
    let thread = if keys.is_empty() { record.thread } else { 0 };
    (index, thread, keys.iter().filter_map(|field| field.number(record.data)).collect())
}
