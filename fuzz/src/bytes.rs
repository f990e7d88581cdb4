//! Choices read off the front of an input: bytes in their order, zeros when it has ended.
//!
//! Unlike `arbitrary`'s, lengths are not taken from the end: a seed can be written from front to back, and a byte
//! more or less changes only what follows.

/// What is left of an input.
#[derive(Debug, Clone)]
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// Whether all of it was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 at the end.
    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next two bytes, little-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// The next four bytes, little-endian.
    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// The next eight bytes, little-endian.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// A number below `end`, which is not 0, from one byte.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.u8()) % end
    }

    /// One of `all`, which is not empty.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// At most `n` of the bytes that are left.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// As many bytes as the next byte says, or as are left.
    pub fn some(&mut self) -> &'a [u8] {
        let n = usize::from(self.u8());
        self.take(n)
    }
}

/// Lengths of the chunks in which a stream comes: all at once for 0, else drawn from `seed`, often short.
pub fn chunk_lengths(seed: u8) -> impl Iterator<Item = usize> {
    let mut state = u64::from(seed);
    std::iter::repeat_with(move || {
        if seed == 0 {
            return usize::MAX;
        }
        // Knuth's MMIX constants; only the upper bits are used.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = state >> 40;
        if bits & 0x300 == 0 { 1 + (bits as usize >> 10) % 4096 } else { 1 + bits as usize % 40 }
    })
}

/// Changes an encoded message: one byte, or its length, or nothing. Returns whether it is still as it was.
pub fn mutate(choices: &mut Choices<'_>, message: &mut Vec<u8>) -> bool {
    let kind = choices.u8();
    if kind < 0xc0 || message.is_empty() {
        return true;
    }
    let at = usize::from(choices.u16()) % message.len();
    match kind & 3 {
        0 => message[at] ^= choices.u8().max(1),
        1 => message.truncate(at),
        2 => {
            let more = choices.some();
            message.splice(at..at, more.iter().copied());
            return more.is_empty();
        }
        _ => message[at] = choices.u8(),
    }
    false
}
