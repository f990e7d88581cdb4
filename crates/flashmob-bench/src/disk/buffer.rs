//! Memory that direct I/O accepts.

/// Bytes at an address that is a multiple of [`Buffer::ALIGN_BYTES`].
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    lead: usize,
    len_bytes: usize,
}

impl Buffer {
    /// Sufficient for every disk: logical blocks are 512 or 4,096 bytes.
    pub const ALIGN_BYTES: usize = 4096;

    /// `len_bytes` of arbitrary content.
    pub fn new(len_bytes: usize) -> Buffer {
        let mut memory = vec![0; len_bytes + Buffer::ALIGN_BYTES];
        // Otherwise the kernel would allocate each page during the first request, as a part of its latency.
        memory.chunks_mut(Buffer::ALIGN_BYTES).for_each(|page| page[0] = 1);
        let address = memory.as_ptr().addr();
        Buffer { lead: address.next_multiple_of(Buffer::ALIGN_BYTES) - address, memory, len_bytes }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.lead..self.lead + self.len_bytes]
    }

    /// Fills it with incompressible bytes.
    pub fn fill(&mut self, random: &mut crate::load::random::Random) {
        for chunk in self.bytes().chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_is_there_before_the_first_request() {
        let faults = || {
            // SAFETY: all zeros is a valid `rusage`: it holds numbers only.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: `usage` is a live, writable `rusage`, and the kernel writes nothing beyond it.
            assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
            usage.ru_minflt
        };
        let mut buffer = Buffer::new(1 << 20);
        let before = faults();
        buffer.bytes().fill(7);
        assert!(faults() - before < 10, "{} pages of 256 were not there", faults() - before);
        assert_eq!(buffer.bytes()[99], 7);
    }

    #[test]
    fn every_length_is_aligned() {
        for len_bytes in [0, 1, 511, 4096, 1 << 20] {
            let mut buffer = Buffer::new(len_bytes);
            assert_eq!((buffer.bytes().len(), buffer.bytes().as_ptr().addr() % 4096), (len_bytes, 0));
        }
    }
}
