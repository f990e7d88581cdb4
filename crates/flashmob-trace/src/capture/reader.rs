//! Reads whole pages from the kernel's buffers while they fill, up to a memory limit. A single thread reads all of them and wakes rarely, to disturb the
//! traced workload as little as possible.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::format::PageLayout;
use crate::record::Page;

/// Pages are kept in chunks of about this size, so that none is moved when more arrive.
const CHUNK_BYTES: usize = 1 << 20;
/// Pause between two rounds, since some kernels wake at every event. Buffers hold far more than arrives meanwhile.
const PAUSE: Duration = Duration::from_millis(10);
/// Longest wait for a wake-up before buffers are checked anyway.
const TIMEOUT: Duration = Duration::from_millis(500);

/// One CPU's buffer.
#[derive(Debug)]
pub struct Buffer {
    pub cpu: u32,
    pub file: File,
    /// Whole pages, in chunks.
    pub pages: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Vec<Buffer>>>,
}

#[derive(Debug)]
struct Shared {
    is_over: AtomicBool,
    was_full: AtomicBool,
    wake: OwnedFd,
}

/// The memory left for pages.
struct Room {
    layout: PageLayout,
    left_bytes: u64,
}

impl Reader {
    pub fn start(files: Vec<(u32, File)>, layout: PageLayout, limit_bytes: u64) -> std::io::Result<Reader> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { is_over: AtomicBool::new(false), was_full: AtomicBool::new(false), wake });
        let buffers = files.into_iter().map(|(cpu, file)| Buffer { cpu, file, pages: Vec::new() }).collect();
        let room = Room { layout, left_bytes: limit_bytes };
        let for_thread = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("trace reader".into());
        let thread = builder.spawn(move || run(&for_thread, buffers, room))?;
        Ok(Reader { shared, thread: Some(thread) })
    }

    /// Reads the rest. Returns the buffers in the order of the files, and whether the memory limit was reached.
    pub fn finish(mut self) -> (Vec<Buffer>, bool) {
        (self.end(), self.shared.was_full.load(Ordering::Relaxed))
    }

    fn end(&mut self) -> Vec<Buffer> {
        self.shared.is_over.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(shared: &Shared, mut buffers: Vec<Buffer>, mut room: Room) -> Vec<Buffer> {
    loop {
        let is_over = shared.is_over.load(Ordering::Acquire);
        for buffer in &mut buffers {
            room.drain(buffer, is_over);
        }
        shared.was_full.store(room.is_full(), Ordering::Relaxed);
        if is_over {
            return buffers;
        }
        wait(&shared.wake, &[], PAUSE);
        // At the limit nothing is read; the kernel drops further events and counts them.
        let readable: &[Buffer] = if room.is_full() { &[] } else { &buffers };
        if !shared.is_over.load(Ordering::Acquire) {
            wait(&shared.wake, readable, TIMEOUT);
        }
    }
}

fn wait(wake: &OwnedFd, buffers: &[Buffer], at_most: Duration) {
    let mut wanted = vec![PollFd::new(wake, PollFlags::IN)];
    wanted.extend(buffers.iter().map(|buffer| PollFd::new(&buffer.file, PollFlags::IN)));
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(at_most.subsec_nanos()) };
    // There may be data to read even after EINTR.
    let _ = poll(&mut wanted, Some(&timeout));
}

impl Room {
    fn is_full(&self) -> bool {
        self.left_bytes < self.layout.page_bytes() as u64
    }

    /// Reads a buffer until it is empty, or until a page that is still being filled.
    fn drain(&mut self, buffer: &mut Buffer, is_over: bool) {
        let page_bytes = self.layout.page_bytes();
        while !self.is_full() {
            let has_room = buffer.pages.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= page_bytes);
            if !has_room {
                buffer.pages.push(Vec::with_capacity(CHUNK_BYTES.max(page_bytes)));
            }
            let Some(chunk) = buffer.pages.last_mut() else { return };
            let begin = chunk.len();
            chunk.resize(begin + page_bytes, 0);
            let read = loop {
                match buffer.file.read(&mut chunk[begin..]) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            let is_read = matches!(read, Ok(bytes) if bytes > self.layout.data_offset);
            if !is_read {
                chunk.truncate(begin);
                return;
            }
            self.left_bytes -= page_bytes as u64;
            let used = Page::parse(&self.layout, &chunk[begin..]).map_or(0, |page| page.declared_bytes);
            if !is_over && used < self.layout.data_bytes / 2 {
                return;
            }
        }
    }
}
