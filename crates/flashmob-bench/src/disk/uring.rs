//! The loop of one thread with an io_uring of its own, and several outstanding requests.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use flashmob_results::disk::{Operation, Sync};
use io_uring::{IoUring, opcode, squeue, types};

use super::buffer::Buffer;
use super::limit::Turnstile;
use super::offsets::Offsets;
use super::worker::{Tally, now_ns, stamp};

/// Marks completions of a write that is followed by an fdatasync.
const FIRST_HALF: u64 = 1 << 63;

/// The ring of one thread, and the buffers of its requests.
pub(super) struct Ring {
    ring: IoUring,
    slots: Vec<Slot>,
}

struct Slot {
    buffer: Buffer,
    begun_ns: u64,
    offset_bytes: u64,
    /// The result of the write before an fdatasync.
    written: Option<i32>,
}

/// The common parameters of a repetition's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind<'a> {
    pub file: &'a File,
    pub operation: Operation,
    pub sync: Option<Sync>,
}

impl Ring {
    /// A ring for `depth` requests of `block_bytes`.
    ///
    /// # Errors
    /// The kernel's: io_uring may be forbidden, or memory may not suffice.
    pub fn new(depth: u32, block_bytes: usize) -> io::Result<Ring> {
        // A write and its fdatasync are two entries.
        let ring = IoUring::new(depth.saturating_mul(2).next_power_of_two())?;
        let slot = |_| Slot { buffer: Buffer::new(block_bytes), begun_ns: 0, offset_bytes: 0, written: None };
        Ok(Ring { ring, slots: (0..depth).map(slot).collect() })
    }

    /// The buffer of each slot, to be filled before writes.
    pub fn buffers(&mut self) -> impl Iterator<Item = &mut Buffer> {
        self.slots.iter_mut().map(|s| &mut s.buffer)
    }

    /// Issues requests until the turnstile closes, and waits for all completions.
    ///
    /// # Errors
    /// The ring itself failed; requests that fail are counted.
    pub fn run(
        &mut self,
        kind: Kind<'_>,
        verb: &str,
        offsets: &mut Offsets,
        turnstile: &mut Turnstile<'_>,
    ) -> io::Result<Tally> {
        let mut tally = Tally::new();
        let mut idle: Vec<usize> = (0..self.slots.len()).collect();
        let mut now = now_ns();
        tally.begun_ns = now;
        let mut open = true;
        while open || idle.len() < self.slots.len() {
            while let Some(&slot) = idle.last() {
                open = open && turnstile.lets_through(now);
                if !open {
                    break;
                }
                idle.pop();
                self.submit(kind, slot, offsets.next_offset(), now);
            }
            if idle.len() == self.slots.len() {
                break;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The kernel may still write into the buffers: their memory must not be reused.
                Err(error) => {
                    std::mem::forget(std::mem::take(&mut self.slots));
                    return Err(error);
                }
            }
            now = now_ns();
            tally.ended_ns = now;
            for completion in self.ring.completion() {
                let data = completion.user_data();
                let at = (data & !FIRST_HALF) as usize;
                let slot = &mut self.slots[at];
                if data & FIRST_HALF != 0 {
                    slot.written = Some(completion.result());
                    continue;
                }
                // The result of the transfer comes first: an fdatasync after a failed write is cancelled.
                let transferred = slot.written.take();
                let len_bytes = slot.buffer.bytes().len();
                let outcome = match (transferred, completion.result()) {
                    (Some(result), sync) if result == len_bytes as i32 && sync >= 0 => Ok(()),
                    (Some(result), sync) if result == len_bytes as i32 => Err(io::Error::from_raw_os_error(-sync)),
                    (None, result) if result == len_bytes as i32 => Ok(()),
                    (Some(result), _) | (None, result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                    _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "only a part was transferred")),
                };
                match outcome {
                    Ok(()) => tally.answered(now - slot.begun_ns, len_bytes as u64),
                    Err(error) => tally.failed(verb, slot.offset_bytes, &error),
                }
                idle.push(at);
            }
        }
        Ok(tally)
    }

    fn submit(&mut self, kind: Kind<'_>, at: usize, offset_bytes: u64, now: u64) {
        let slot = &mut self.slots[at];
        (slot.begun_ns, slot.offset_bytes) = (now, offset_bytes);
        let fd = types::Fd(kind.file.as_raw_fd());
        let bytes = slot.buffer.bytes();
        let entries: [Option<squeue::Entry>; 2] = match kind.operation {
            Operation::Read => {
                let read = opcode::Read::new(fd, bytes.as_mut_ptr(), bytes.len() as u32).offset(offset_bytes);
                [Some(read.build().user_data(at as u64)), None]
            }
            Operation::Write => {
                stamp(bytes);
                let write = opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32).offset(offset_bytes).build();
                if kind.sync == Some(Sync::Fdatasync) {
                    let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(at as u64);
                    [Some(write.flags(squeue::Flags::IO_LINK).user_data(at as u64 | FIRST_HALF)), Some(sync)]
                } else {
                    [Some(write.user_data(at as u64)), None]
                }
            }
        };
        for entry in entries.iter().flatten() {
            // SAFETY: the buffer belongs to its slot, which lives in the ring's own vector, is not touched before its completion
            // has come, and is never dropped before: `run` returns when all are answered, or leaks it. The file outlives the call.
            let pushed = unsafe { self.ring.submission().push(entry) };
            // There are two entries for each slot.
            debug_assert!(pushed.is_ok(), "the submission queue has room for all slots");
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("depth", &self.slots.len()).finish_non_exhaustive()
    }
}
