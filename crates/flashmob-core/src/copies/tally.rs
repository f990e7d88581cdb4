//! Counts of marks that are kept up with each change, so that nobody has to look at all chunks for them.

use super::{COPIES_MAX, Marks};

/// How many chunks have which marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapCounts {
    /// Chunks that are open.
    pub open: u32,
    /// Chunks with a copy that is behind.
    pub behind: u32,
    /// Chunks with a doubtful copy.
    pub doubtful: u32,
    /// Copies that are behind, of all chunks.
    pub behind_copies: u32,
    /// How many copies the worst chunk has that are neither behind nor doubtful.
    pub fewest_current: usize,
}

/// The counters behind [`MapCounts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    open: u32,
    behind: u32,
    doubtful: u32,
    behind_copies: u32,
    /// How many chunks have so many copies that are neither behind nor doubtful.
    current: [u32; COPIES_MAX + 1],
}

impl Tally {
    /// What they say.
    pub fn counts(&self) -> MapCounts {
        let &Tally { open, behind, doubtful, behind_copies, current } = self;
        let fewest_current = current.iter().position(|&chunks| chunks > 0).unwrap_or(0);
        MapCounts { open, behind, doubtful, behind_copies, fewest_current }
    }

    /// Adds chunks with these marks.
    pub fn count(&mut self, marks: Marks, copies: usize, chunks: u32) {
        self.each(marks, copies, |counter| *counter = counter.saturating_add(chunks));
    }

    /// A chunk had marks `old` and has `new`.
    pub fn move_one(&mut self, old: Marks, new: Marks, copies: usize) {
        self.forget(old, copies);
        self.count(new, copies, 1);
    }

    /// A chunk with these marks is gone.
    pub fn forget(&mut self, marks: Marks, copies: usize) {
        self.each(marks, copies, |counter| *counter = counter.saturating_sub(1));
    }

    /// Calls `change` for each counter of chunks with these marks.
    fn each(&mut self, marks: Marks, copies: usize, change: impl Fn(&mut u32)) {
        let Marks { is_open, behind, doubtful, .. } = marks;
        if is_open {
            change(&mut self.open);
        }
        if behind != 0 {
            change(&mut self.behind);
        }
        if doubtful != 0 {
            change(&mut self.doubtful);
        }
        for _ in 0..behind.count_ones() {
            change(&mut self.behind_copies);
        }
        let current = copies.saturating_sub((behind | doubtful).count_ones() as usize);
        if let Some(chunks) = self.current.get_mut(current) {
            change(chunks);
        }
    }
}
