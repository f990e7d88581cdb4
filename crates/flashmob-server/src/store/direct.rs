//! O_DIRECT at any alignment: whole blocks through an aligned buffer.
//!
//! Reads are widened to whole blocks and cut. Writes that begin or end within a block read that block,
//! change it and write it whole. Two operations on one block must therefore never be under way at once,
//! even if their bytes do not overlap: the caller keeps them apart, by [`super::Store::alignment_bytes`].

/// Maximum bytes of one direct system call, and the size of a bounce buffer: large enough for the full rate of eMMC, small
/// enough that 64 of them fit a node's memory.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// The whole blocks that the next part of an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// First byte of the first block.
    pub start_bytes: u64,
    /// Bytes of all the blocks, at most [`CHUNK_BYTES`].
    pub len_bytes: usize,
    /// Bytes of the first block that lie before the operation.
    pub skip_bytes: usize,
    /// Bytes of the operation within the window, at least 1.
    pub take_bytes: usize,
}

impl Window {
    /// The window at the beginning of `len_bytes` (at least 1) bytes at `offset_bytes`, in blocks of
    /// `align_bytes`: a power of two that is at most [`CHUNK_BYTES`].
    pub fn first(offset_bytes: u64, len_bytes: usize, align_bytes: u64) -> Window {
        let start_bytes = offset_bytes - offset_bytes % align_bytes;
        let skip_bytes = (offset_bytes - start_bytes) as usize;
        let take_bytes = len_bytes.min(CHUNK_BYTES - skip_bytes);
        let len_bytes = (skip_bytes + take_bytes).next_multiple_of(align_bytes as usize);
        Window { start_bytes, len_bytes, skip_bytes, take_bytes }
    }

    /// Bytes of the window after the operation's last byte in it.
    pub fn rest_bytes(&self) -> usize {
        self.len_bytes - self.skip_bytes - self.take_bytes
    }
}

/// A buffer whose memory is aligned. It holds nothing until it is used, then [`CHUNK_BYTES`].
#[derive(Debug)]
pub(super) struct Bounce {
    memory: Vec<u8>,
    align_bytes: usize,
}

impl Bounce {
    /// A buffer aligned to `align_bytes`, a power of two.
    pub fn new(align_bytes: u64) -> Bounce {
        Bounce { memory: Vec::new(), align_bytes: align_bytes.max(1) as usize }
    }

    /// The first `len_bytes` of it; at most [`CHUNK_BYTES`].
    pub fn slice(&mut self, len_bytes: usize) -> &mut [u8] {
        if self.memory.is_empty() {
            // From calloc: pages that no operation is large enough to touch cost nothing.
            self.memory = vec![0; CHUNK_BYTES + self.align_bytes];
        }
        let address = self.memory.as_ptr().addr();
        let lead = address.next_multiple_of(self.align_bytes) - address;
        &mut self.memory[lead..lead + len_bytes]
    }
}

/// Reads `buf.len()` bytes at `offset_bytes` through `bounce`. `read` fills its buffer from the file at that
/// offset, and both are aligned.
pub(super) fn read<E>(
    offset_bytes: u64,
    buf: &mut [u8],
    align_bytes: u64,
    bounce: &mut Bounce,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = 0;
    while done < buf.len() {
        let window = Window::first(offset_bytes + done as u64, buf.len() - done, align_bytes);
        let blocks = bounce.slice(window.len_bytes);
        read(window.start_bytes, blocks)?;
        let part = &blocks[window.skip_bytes..window.skip_bytes + window.take_bytes];
        buf[done..done + part.len()].copy_from_slice(part);
        done += part.len();
    }
    Ok(())
}

/// One aligned transfer of a direct write.
pub(super) enum Transfer<'a> {
    /// Fill the buffer from the file.
    Read(u64, &'a mut [u8]),
    /// Write the buffer to the file.
    Write(u64, &'a [u8]),
}

/// Writes `data` at `offset_bytes` through `bounce`. `transfer` moves whole blocks, all of them or fails.
pub(super) fn write<E>(
    offset_bytes: u64,
    data: &[u8],
    align_bytes: u64,
    bounce: &mut Bounce,
    mut transfer: impl FnMut(Transfer<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let block = align_bytes as usize;
    let mut done = 0;
    while done < data.len() {
        let window = Window::first(offset_bytes + done as u64, data.len() - done, align_bytes);
        let blocks = bounce.slice(window.len_bytes);
        let last = window.len_bytes - block;
        if window.skip_bytes > 0 {
            transfer(Transfer::Read(window.start_bytes, &mut blocks[..block]))?;
        }
        if window.rest_bytes() > 0 && (last > 0 || window.skip_bytes == 0) {
            transfer(Transfer::Read(window.start_bytes + last as u64, &mut blocks[last..]))?;
        }
        let part = &data[done..done + window.take_bytes];
        blocks[window.skip_bytes..window.skip_bytes + part.len()].copy_from_slice(part);
        transfer(Transfer::Write(window.start_bytes, blocks))?;
        done += part.len();
    }
    Ok(())
}

/// How many of `moved_bytes` count of `wanted_bytes`: a short direct transfer continues at a block boundary.
pub(super) fn counted(moved_bytes: usize, wanted_bytes: usize, align_bytes: u64) -> usize {
    if moved_bytes == wanted_bytes { moved_bytes } else { moved_bytes - moved_bytes % align_bytes as usize }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bounce_buffer_is_aligned_and_empty_until_used() {
        for align in [1, 512, 4096, 65536] {
            let mut bounce = Bounce::new(align);
            assert_eq!(bounce.memory.capacity(), 0);
            assert_eq!(bounce.slice(CHUNK_BYTES).as_ptr().addr() % align as usize, 0);
            assert_eq!(bounce.slice(CHUNK_BYTES).len(), CHUNK_BYTES);
        }
    }

    #[test]
    fn a_short_transfer_is_taken_up_at_a_block() {
        assert_eq!(counted(4096 + 511, 8192, 512), 4096);
        assert_eq!(counted(512, 8192, 512), 512);
        assert_eq!(counted(511, 8192, 512), 0);
        assert_eq!(counted(511, 511, 1), 511);
        assert_eq!(counted(100, 511, 1), 100);
    }

    proptest! {
        #[test]
        fn windows_are_aligned_and_cover_the_operation(offset in 0u64..1 << 40, len in 1usize..1 << 20, shift in 9u32..17) {
            let align = 1u64 << shift;
            let mut done = 0;
            while done < len {
                let at = offset + done as u64;
                let w = Window::first(at, len - done, align);
                prop_assert!(w.start_bytes.is_multiple_of(align) && (w.len_bytes as u64).is_multiple_of(align));
                prop_assert!(w.len_bytes <= CHUNK_BYTES && w.take_bytes > 0);
                prop_assert_eq!(w.start_bytes + w.skip_bytes as u64, at);
                prop_assert!(w.skip_bytes < align as usize && w.rest_bytes() < align as usize);
                done += w.take_bytes;
            }
            prop_assert_eq!(done, len);
        }
    }
}
