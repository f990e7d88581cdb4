//! A synthetic timeline of INSERTs through all layers, shaped like a real one: SQLite's calls, the work of the file system and its journal
//! thread for them, commands of the driver.

use flashmob_results::trace::{Cause, File, Layer, Operation, Role, Span, Thread, Timeline};

/// The SQLite journal modes that differ here.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Delete,
    Wal,
}

const DATABASE: u32 = 0;
const JOURNAL: u32 = 1;
const FOLDER: u32 = 2;
const FILESYSTEM_JOURNAL: u32 = 3;
const FLUSH: u32 = 4;
const THREAD: u32 = 0;
const JBD2: u32 = 1;
const DEVICE: u32 = 2;

pub struct Builder {
    timeline: Timeline,
    now_ns: u64,
    operation: Option<u64>,
    cause: Cause,
    thread: u32,
}

/// A number of sequential INSERTs.
pub fn inserts(mode: Mode, count: u64) -> Timeline {
    let journal = match mode {
        Mode::Delete => File { name: "/data/test.db-journal".into(), role: Role::Journal },
        Mode::Wal => File { name: "/data/test.db-wal".into(), role: Role::Wal },
    };
    let file = |name: &str, role| File { name: name.into(), role };
    let thread = |name: &str, id| Thread { name: name.into(), id, place: "this device".into(), clock_error_ns: None };
    let mut builder = Builder {
        timeline: Timeline {
            files: vec![
                file("/data/test.db", Role::Database),
                journal,
                file("/data", Role::Directory),
                file("journal of loop0", Role::FilesystemJournal),
                file("flush", Role::Flush),
            ],
            threads: vec![thread("flashmob", 4_711), thread("jbd2/loop0-8", 97), thread("loop0", 0)],
            ..Timeline::default()
        },
        now_ns: 5_000_000_000,
        operation: None,
        cause: Cause::Direct,
        thread: THREAD,
    };
    for number in 0..count {
        builder.insert(mode, number);
        // Unattributed work of another thread.
        if number % 3 == 0 {
            builder.operation = None;
            builder.cause = Cause::Unknown;
            builder.span(Layer::Block, "writeback", Some(DATABASE), 3 << 20, 4_096, |b| b.wait(9_000));
        }
        builder.wait(20_000);
    }
    builder.timeline
}

impl Builder {
    fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn name(&mut self, name: &str) -> u32 {
        let known = self.timeline.names.iter().position(|other| other == name);
        known.unwrap_or_else(|| {
            self.timeline.names.push(name.into());
            self.timeline.names.len() - 1
        }) as u32
    }

    /// A span around `within`.
    fn span(
        &mut self,
        layer: Layer,
        name: &str,
        file: Option<u32>,
        address: u64,
        bytes: u64,
        within: impl FnOnce(&mut Builder),
    ) {
        let name = self.name(name);
        let at = self.timeline.spans.len();
        self.timeline.spans.push(Span {
            layer,
            name,
            thread: if layer == Layer::Driver { DEVICE } else { self.thread },
            begin_ns: self.now_ns,
            end_ns: 0,
            file,
            address_bytes: (bytes > 0).then_some(address),
            bytes,
            operation: self.operation,
            cause: self.cause,
        });
        within(self);
        self.timeline.spans[at].end_ns = self.now_ns;
    }

    /// A block on its way to the device: queued, inserted, issued, completed.
    fn block(&mut self, file: u32, address: u64, bytes: u64, service_ns: u64) {
        let name = if file == FLUSH { "flush" } else { "write" };
        self.span(Layer::Block, name, Some(file), address, bytes, |b| b.wait(3_000));
        self.span(Layer::Driver, name, Some(file), address, bytes, |b| b.wait(service_ns));
        self.wait(6_000);
    }

    fn write(&mut self, file: u32, offset: u64, bytes: u64) {
        self.span(Layer::Sqlite, "xWrite", Some(file), offset, bytes, |b| {
            b.wait(500);
            b.span(Layer::SystemCall, "pwrite64", Some(file), offset, bytes, |b| {
                b.wait(700);
                b.span(Layer::FileSystem, "write", Some(file), offset, bytes, |b| {
                    b.wait(900);
                    b.span(Layer::PageCache, "page added", Some(file), offset, 0, |_| {});
                    b.wait(1_500);
                });
                b.wait(300);
            });
            b.wait(200);
        });
        self.wait(1_000);
    }

    fn sync(&mut self, file: u32, blocks: &[(u64, u64)], commits: bool) {
        self.span(Layer::Sqlite, "xSync", Some(file), 0, 0, |b| {
            b.wait(300);
            b.span(Layer::SystemCall, "fdatasync", Some(file), 0, 0, |b| {
                b.wait(800);
                b.span(Layer::FileSystem, "sync", Some(file), 0, 0, |b| {
                    b.wait(2_000);
                    for (address, bytes) in blocks {
                        b.block(file, *address, *bytes, 40_000);
                    }
                    if commits {
                        b.commit();
                    }
                    b.wait(4_000);
                });
                b.wait(900);
            });
            b.wait(200);
        });
        self.wait(1_500);
    }

    /// The file system's journal, written by its thread while the caller waits.
    fn commit(&mut self) {
        (self.cause, self.thread) = (Cause::Waited, JBD2);
        self.span(Layer::FileSystem, "commit", Some(FILESYSTEM_JOURNAL), 0, 0, |b| {
            b.wait(5_000);
            for at in 0..4 {
                b.block(FILESYSTEM_JOURNAL, (8 << 20) + at * 4_096, 4_096, 22_000);
            }
            b.block(FLUSH, 0, 0, 60_000);
            b.wait(3_000);
        });
        (self.cause, self.thread) = (Cause::Direct, THREAD);
    }

    fn insert(&mut self, mode: Mode, number: u64) {
        (self.operation, self.cause) = (Some(number), Cause::Direct);
        let (begin_ns, first) = (self.now_ns, self.timeline.spans.len());
        // The last quarter of each 40 operations is slower, so that phases are visible.
        let slow = if number % 40 >= 30 { 4 } else { 1 };
        self.span(Layer::Application, "insert", None, 0, 0, |b| {
            b.wait(2_000);
            b.span(Layer::Sqlite, "step", None, 0, 0, |b| {
                b.wait(6_000 * slow);
                match mode {
                    Mode::Delete => b.rollback_journal(number),
                    Mode::Wal => {
                        b.write(JOURNAL, number * 4_120, 24);
                        b.write(JOURNAL, number * 4_120 + 24, 4_096);
                        b.sync(JOURNAL, &[((64 << 20) + number * 8_192, 8_192)], false);
                    }
                }
                b.wait(3_000);
            });
            b.wait(1_000);
        });
        let name = self.name("insert");
        self.timeline.operations.push(Operation {
            number,
            name,
            thread: THREAD,
            begin_ns,
            end_ns: self.now_ns,
            layers_ns: Vec::new(),
            unattributed_ns: 0,
        });
        self.attribute(first);
    }

    fn rollback_journal(&mut self, number: u64) {
        self.span(Layer::Sqlite, "xOpen", Some(JOURNAL), 0, 0, |b| {
            b.span(Layer::SystemCall, "openat", Some(JOURNAL), 0, 0, |b| b.wait(9_000));
        });
        for page in 0..4 {
            self.write(JOURNAL, page * 4_104, 4_096);
        }
        self.sync(JOURNAL, &[(1 << 20, 16_384)], true);
        self.sync(FOLDER, &[], true);
        self.write(DATABASE, 4_096 * (number % 7), 4_096);
        self.write(DATABASE, 8_192, 4_096);
        self.sync(DATABASE, &[((32 << 20) - number % 1_000 * 4_096, 4_096), (2 << 20, 4_096)], false);
        self.span(Layer::Sqlite, "xDelete", Some(JOURNAL), 0, 0, |b| {
            b.span(Layer::SystemCall, "unlink", Some(JOURNAL), 0, 0, |b| b.wait(14_000));
        });
    }

    /// Attributes each moment to the lowest active layer. Slow, but simple enough to be evidently correct.
    fn attribute(&mut self, first: usize) {
        let Some(operation) = self.timeline.operations.last_mut() else { return };
        let own: Vec<&Span> = self.timeline.spans[first..].iter().collect();
        let mut times: Vec<u64> = own.iter().flat_map(|span| [span.begin_ns, span.end_ns]).collect();
        times.extend([operation.begin_ns, operation.end_ns]);
        times.sort_unstable();
        times.dedup();
        for pair in times.windows(2) {
            let at_work = own.iter().filter(|span| span.begin_ns <= pair[0] && span.end_ns >= pair[1]);
            let time_ns = pair[1] - pair[0];
            match at_work.map(|span| span.layer).max() {
                None => operation.unattributed_ns += time_ns,
                Some(lowest) => match operation.layers_ns.iter_mut().find(|(layer, _)| *layer == lowest) {
                    Some((_, sum)) => *sum += time_ns,
                    None => operation.layers_ns.push((lowest, time_ns)),
                },
            }
        }
        operation.layers_ns.sort_unstable();
    }
}
