//! The durable changes of the map that came last, for mirrors that lack no more than these.

use std::collections::VecDeque;

use crate::units::MIB;
use crate::wire::mirror::MIRROR_FRAME_BYTES_MAX;

/// Bytes of changes that are kept for nodes that lack them.
pub const RECENT_BYTES_MAX: usize = MIB as usize;
/// The same of signed ones: a small change is four times as long.
pub const RECENT_SIGNED_BYTES_MAX: usize = 4 * MIB as usize;

/// The durable changes that came last.
#[derive(Debug, Default)]
pub struct Recent {
    bytes: VecDeque<u8>,
    most_bytes: usize,
    /// Bytes of changes before the first that is kept, and the version there.
    pub first: (u64, u64),
    /// Where batches end, and the version there.
    ends: VecDeque<(u64, u64)>,
}

impl Recent {
    /// None yet: the map has this version.
    pub fn new(version: u64) -> Recent {
        Recent { first: (0, version), most_bytes: RECENT_BYTES_MAX, ..Recent::default() }
    }

    pub fn end(&self) -> (u64, u64) {
        self.ends.back().copied().unwrap_or(self.first)
    }

    pub fn push(&mut self, bytes: &[u8], version: u64) {
        let at = self.end().0 + bytes.len() as u64;
        self.bytes.extend(bytes);
        self.ends.push_back((at, version));
        while self.bytes.len() > self.most_bytes
            && let Some(end) = self.ends.pop_front()
        {
            self.bytes.drain(..(end.0 - self.first.0) as usize);
            self.first = end;
        }
    }

    /// Forgets all: what follows does not continue it.
    pub fn begin_anew(&mut self, version: u64) {
        self.first = (self.end().0 + 1, version);
        (self.bytes, self.ends) = (VecDeque::new(), VecDeque::new());
    }

    /// Whether those to come are signed.
    pub fn set_signed(&mut self, is_signed: bool) {
        self.most_bytes = if is_signed { RECENT_SIGNED_BYTES_MAX } else { RECENT_BYTES_MAX };
    }

    /// Where the changes behind a version begin.
    pub fn after(&self, version: u64) -> Option<u64> {
        std::iter::once(&self.first).chain(&self.ends).find(|(_, v)| *v == version).map(|(at, _)| *at)
    }

    /// The bytes from there on, as many as fit a frame, and the last version that is whole with them, with its place.
    pub fn part(&self, at: u64) -> (Vec<u8>, Option<(u64, u64)>) {
        let skip = (at - self.first.0) as usize;
        let bytes: Vec<u8> = self.bytes.range(skip..).take(MIRROR_FRAME_BYTES_MAX).copied().collect();
        let to = at + bytes.len() as u64;
        (bytes, self.ends.iter().rev().find(|(end, _)| *end > at && *end <= to).copied())
    }
}
