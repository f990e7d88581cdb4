//! Bios, the requests formed from them, and commands of the driver.
//!
//! A block layer event only names a device and a sector. So a request is identified by its first sector, and owns the bios that it covers.
//! Flushes have no sector: the kernel's flush machinery issues a command (`FF`) before or after a bio that asks for one, and then reports
//! the bio as complete. Flushes are never inserted into the scheduler, so "every issue has an insert" does not hold.

use std::collections::{BTreeMap, HashMap, VecDeque};

use flashmob_results::trace::{Layer, Role};

use crate::record::Record;

use super::rules::{Block, device_number};
use super::work::{Book, FileKey, Source, Work};
use crate::layers::BlockStep;

/// Sector size in block layer events, whatever the device's own is.
pub const SECTOR_BYTES: u64 = 512;
/// Maximum pending bios per device: more than any queue holds, so beyond it events have been missed.
const PENDING_MOST: usize = 65_536;

#[derive(Debug, Default)]
pub struct Requests {
    /// All requests, with their submitters.
    pub list: Vec<Request>,
    devices: HashMap<u32, Device>,
    completed: HashMap<u32, Completed>,
    /// The last request issued by each thread.
    issued: HashMap<u32, u32>,
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The thread that submitted its first bio; 0 if that was not seen.
    pub by: u32,
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Completed {
    at_ns: u64,
    thread: u32,
    request: u32,
}

#[derive(Debug, Default)]
struct Device {
    bios: VecDeque<Bio>,
    flushes: Vec<Bio>,
    inserted: BTreeMap<u64, Inserted>,
    in_flight: BTreeMap<u64, InFlight>,
    flushing: Vec<InFlight>,
}

#[derive(Clone, Copy, Debug)]
struct Bio {
    sector: u64,
    sectors: u64,
    by: u32,
    at_ns: u64,
    /// The device and inode that its thread worked on.
    inode: Option<(u32, u64)>,
    is_metadata: bool,
    is_counted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Inserted {
    at_ns: u64,
    thread: u32,
    word: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: u32,
    name: &'static str,
    file: FileKey,
    thread: u32,
    issued_ns: u64,
    sector: u64,
    sectors: u64,
    left: u64,
}

impl Requests {
    /// Handles an event of a bio or request; `in_hand` is the inode that this thread works on.
    pub fn event(&mut self, record: &Record<'_>, rule: &Block<'_>, in_hand: Option<(u32, u64)>, book: &mut Book) {
        let number = |field: &crate::format::Field| field.number(record.data);
        let (Some(id), Some(sector), Some(sectors), Some(kind)) = (
            device_number(record, rule.device),
            number(rule.sector),
            number(rule.sectors),
            rule.kind.text(record.data),
        ) else {
            return;
        };
        if record.thread != 0
            && let Some(comm) = rule.comm.and_then(|field| field.text(record.data))
        {
            book.called(record.thread, &comm);
        }
        match rule.step {
            BlockStep::Queue => {
                let (by, at_ns, is_metadata) = (record.thread, record.time_ns, kind.contains('M'));
                let bio = Bio { sector, sectors, by, at_ns, inode: in_hand, is_metadata, is_counted: false };
                self.devices.entry(id).or_default().queue(bio, kind.starts_with('F'));
            }
            // The bio stays pending: the request that it joined covers it.
            BlockStep::Merge => {}
            BlockStep::Insert => {
                let inserted = Inserted { at_ns: record.time_ns, thread: record.thread, word: word(&kind) };
                self.devices.entry(id).or_default().inserted.insert(sector, inserted);
            }
            BlockStep::Requeue => {
                self.devices.entry(id).or_default().take_back(sector, &kind);
            }
            BlockStep::Issue if kind.starts_with("FF") || (sectors == 0 && kind.contains('F')) => {
                self.flush(record, id, book)
            }
            BlockStep::Issue => self.issue(record, id, (sector, sectors), &kind, book),
            BlockStep::Complete => self.complete(record, id, (sector, sectors), &kind, book),
        }
    }

    /// The outstanding request that covers this sector; `None` if there are several, on different devices.
    pub fn with_sector(&self, sector: u64) -> Option<(u32, FileKey)> {
        let mut found = self.devices.values().filter_map(|device| {
            let (begin, request) = device.in_flight.range(..=sector).next_back()?;
            (sector - begin < request.left).then_some((request.request, request.file))
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// An outstanding request, by its number.
    pub fn in_flight(&self, request: u32) -> Option<(u32, FileKey)> {
        self.all_in_flight().find(|of| of.0 == request)
    }

    /// The outstanding request or flush, if there is exactly one.
    pub fn only_one(&self) -> Option<(u32, FileKey)> {
        let mut all = self.all_in_flight();
        all.next().filter(|_| all.next().is_none())
    }

    pub fn just_issued(&self, thread: u32) -> Option<(u32, FileKey)> {
        self.in_flight(*self.issued.get(&thread)?)
    }

    /// The first request issued by this thread since `since_ns`, if still outstanding.
    pub fn issued_next(&self, thread: u32, since_ns: u64) -> Option<(u32, FileKey)> {
        let by_thread = |request: &&InFlight| request.thread == thread && request.issued_ns >= since_ns;
        let first = self.in_flight_now().filter(by_thread).min_by_key(|request| request.issued_ns)?;
        Some((first.request, first.file))
    }

    fn in_flight_now(&self) -> impl Iterator<Item = &InFlight> {
        self.devices.values().flat_map(|device| device.in_flight.values().chain(&device.flushing))
    }

    fn all_in_flight(&self) -> impl Iterator<Item = (u32, FileKey)> {
        self.in_flight_now().map(|request| (request.request, request.file))
    }

    /// The request whose completion this thread handled last on this CPU, if since `since_ns`.
    pub fn just_completed(&self, cpu: u32, thread: u32, since_ns: u64) -> Option<u32> {
        let completed = self.completed.get(&cpu)?;
        (completed.thread == thread && completed.at_ns >= since_ns).then_some(completed.request)
    }

    fn add(&mut self, by: u32, at_ns: u64) -> u32 {
        self.list.push(Request { by, at_ns });
        u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
    }

    fn flush(&mut self, record: &Record<'_>, id: u32, book: &mut Book) {
        let device = self.devices.entry(id).or_default();
        let oldest = device.flushes.first().copied();
        let (by, at_ns) = oldest.map_or((0, record.time_ns), |bio| (bio.by, bio.at_ns));
        let request = self.add(by, at_ns);
        self.issued.insert(record.thread, request);
        let device = self.devices.entry(id).or_default();
        let file = FileKey::Role { role: Role::Flush, device: id };
        if let Some(bio) = device.flushes.first_mut().filter(|bio| bio.sectors == 0 && !bio.is_counted) {
            bio.is_counted = true;
            book.add("bio", block_work(*bio, record.time_ns, file, request));
        }
        let (name, thread, issued_ns) = ("flush", record.thread, record.time_ns);
        device.flushing.push(InFlight { request, name, file, thread, issued_ns, sector: 0, sectors: 0, left: 0 });
    }

    fn issue(&mut self, record: &Record<'_>, id: u32, (sector, sectors): (u64, u64), kind: &str, book: &mut Book) {
        let end = sector.saturating_add(sectors);
        let device = self.devices.entry(id).or_default();
        let covered = |bio: &Bio| bio.sector >= sector && bio.sector < end && bio.sectors > 0;
        let first = device.bios.iter().filter(|bio| covered(bio)).min_by_key(|bio| bio.at_ns).copied();
        let (by, at_ns) = first.map_or((0, record.time_ns), |bio| (bio.by, bio.at_ns));
        let is_metadata = kind.contains('M') || first.is_some_and(|bio| bio.is_metadata);
        let file = FileKey::Device {
            device: id,
            begin_bytes: sector.saturating_mul(SECTOR_BYTES),
            at_ns,
            inode: first.and_then(|bio| bio.inode),
            is_metadata,
            by,
        };
        let request = self.add(by, at_ns);
        self.issued.insert(record.thread, request);
        let device = self.devices.entry(id).or_default();
        for bio in device.bios.iter_mut().filter(|bio| bio.sector >= sector && bio.sector < end && bio.sectors > 0) {
            if !bio.is_counted {
                bio.is_counted = true;
                book.add("bio", block_work(*bio, record.time_ns, file, request));
            }
            // The rest of a bio belongs to a later request.
            let taken = end.min(bio.sector.saturating_add(bio.sectors)) - bio.sector;
            bio.sector += taken;
            bio.sectors -= taken;
        }
        device.bios.retain(|bio| bio.sectors > 0);
        let inserted = device.inserted.remove(&sector);
        // Requests that were inserted separately and then merged into this one are never issued.
        let merged = device.inserted.range(sector..end).filter(|(_, inserted)| inserted.word == word(kind));
        for begin in merged.map(|(begin, _)| *begin).collect::<Vec<_>>() {
            device.inserted.remove(&begin);
        }
        if let Some(Inserted { at_ns: inserted_ns, thread, .. }) = inserted {
            let own = Work::new(Layer::Block, thread, inserted_ns, record.time_ns);
            book.add("elevator", served(own, sector, sectors, file, request));
        }
        let (name, thread, issued_ns) = (word(kind), record.thread, record.time_ns);
        let in_flight = InFlight { request, name, file, thread, issued_ns, sector, sectors, left: sectors };
        device.in_flight.insert(sector, in_flight);
    }

    fn complete(&mut self, record: &Record<'_>, id: u32, (sector, sectors): (u64, u64), kind: &str, book: &mut Book) {
        let device = self.devices.entry(id).or_default();
        let done = if kind.starts_with("FF") {
            if device.flushing.is_empty() { None } else { Some(device.flushing.remove(0)) }
        } else if let Some(mut in_flight) = device.in_flight.remove(&sector) {
            in_flight.left = in_flight.left.saturating_sub(sectors);
            if in_flight.left > 0 && sectors > 0 {
                // Partial completion: the remainder completes under its own first sector.
                device.in_flight.insert(sector.saturating_add(sectors), in_flight);
                return;
            }
            Some(in_flight)
        } else {
            None
        };
        let request = match done {
            Some(done) => {
                let own = Work::new(Layer::Driver, done.thread, done.issued_ns, record.time_ns);
                book.add(done.name, served(own, done.sector, done.sectors, done.file, done.request));
                done.request
            }
            // The final completion of a bio that asked for a flush; it is not a command.
            None if sectors == 0 => {
                let Some(at) = device.flushes.iter().position(|bio| bio.sectors == 0 || bio.sector == sector) else {
                    return;
                };
                let bio = device.flushes.remove(at);
                let request = self.add(bio.by, bio.at_ns);
                let file = FileKey::Role { role: Role::Flush, device: id };
                let work = block_work(Bio { at_ns: record.time_ns, ..bio }, record.time_ns, file, request);
                book.add("flush done", Work { bytes: 0, ..work });
                request
            }
            None => return,
        };
        self.completed.insert(record.cpu, Completed { at_ns: record.time_ns, thread: record.thread, request });
    }

    /// At the end of the capture, outstanding requests are dropped; bios without a request are kept.
    pub fn finish(&mut self, book: &mut Book) {
        for (id, device) in std::mem::take(&mut self.devices) {
            for bio in device.bios.into_iter().chain(device.flushes).filter(|bio| !bio.is_counted) {
                let request = self.add(bio.by, bio.at_ns);
                book.add("bio", block_work(bio, bio.at_ns, bio.file(id, bio.is_metadata), request));
            }
        }
    }
}

impl Bio {
    fn file(&self, device: u32, is_metadata: bool) -> FileKey {
        let begin_bytes = self.sector.saturating_mul(SECTOR_BYTES);
        FileKey::Device { device, begin_bytes, at_ns: self.at_ns, inode: self.inode, is_metadata, by: self.by }
    }
}

impl Device {
    fn queue(&mut self, bio: Bio, has_flush: bool) {
        if has_flush {
            // A thread has one such bio at a time. An older one completed without an event, because the device has no cache.
            self.flushes.retain(|old| old.by != bio.by);
            self.flushes.push(bio);
        }
        if bio.sectors > 0 {
            if self.bios.len() >= PENDING_MOST {
                self.bios.pop_front();
            }
            self.bios.push_back(bio);
        }
    }

    /// The driver requeued the request: it will be issued again, with the same submitter.
    fn take_back(&mut self, sector: u64, kind: &str) {
        if kind.starts_with("FF") {
            self.flushing.pop();
            return;
        }
        let Some(back) = self.in_flight.remove(&sector) else { return };
        let FileKey::Device { at_ns, inode, is_metadata, by, .. } = back.file else { return };
        let bio = Bio { sector, sectors: back.left, by, at_ns, inode, is_metadata, is_counted: true };
        self.queue(bio, false);
    }
}

fn block_work(bio: Bio, end_ns: u64, file: FileKey, request: u32) -> Work {
    served(Work::new(Layer::Block, bio.by, bio.at_ns, end_ns), bio.sector, bio.sectors, file, request)
}

/// Adds request, address and size to work; a flush has no address.
fn served(work: Work, sector: u64, sectors: u64, file: FileKey, request: u32) -> Work {
    let address_bytes = (sectors > 0).then(|| sector.saturating_mul(SECTOR_BYTES));
    let bytes = sectors.saturating_mul(SECTOR_BYTES);
    Work { file, address_bytes, bytes, source: Source::Request(request), ..work }
}

/// The operation name for the kernel's flags: a leading `F` asks for a preceding flush.
fn word(kind: &str) -> &'static str {
    match kind.trim_start_matches('F').chars().next() {
        Some('R') => "read",
        Some('W') => "write",
        Some('D') => "discard",
        Some('Z') => "zero",
        _ => "other command",
    }
}
