//! Which blocks are being changed together with their checksums, each by one thread at a time.
//!
//! A section takes a range of blocks for itself, and waits while another has one of them. Its number is the slot of the sums file in
//! which its change is noted. Reads take none: they verify what they read, and only one that does not match is looked at again within
//! a section, where no change can be under way.

use std::sync::{Condvar, Mutex, PoisonError};

use super::super::completions::lock;
use super::format::SLOTS;

/// The sections in use.
#[derive(Debug)]
pub(super) struct Sections {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    /// First block and end.
    ranges: [Option<(u64, u64)>; SLOTS],
    /// Threads that wait. Without any, nothing has to be woken.
    waiting: usize,
}

/// Blocks that one thread has for itself until it is dropped.
#[derive(Debug)]
pub(in super::super) struct Section<'a> {
    sections: &'a Sections,
    slot: usize,
}

impl Sections {
    pub fn new() -> Sections {
        Sections { state: Mutex::new(State { ranges: [None; SLOTS], waiting: 0 }), freed: Condvar::new() }
    }

    /// Takes `count` blocks from `first` on, as soon as nobody else has one of them. A thread must not enter a second section.
    pub fn enter(&self, first: u64, count: u64) -> Section<'_> {
        let end = first.saturating_add(count);
        let mut state = lock(&self.state);
        loop {
            let is_taken = state.ranges.iter().flatten().any(|&(start, until)| first < until && start < end);
            let free = state.ranges.iter().position(Option::is_none);
            match free {
                Some(slot) if !is_taken => {
                    state.ranges[slot] = Some((first, end));
                    return Section { sections: self, slot };
                }
                _ => {
                    state.waiting += 1;
                    state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
            }
        }
    }
}

impl Section<'_> {
    /// The slot of its change.
    pub fn slot(&self) -> usize {
        self.slot
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.sections.state);
        state.ranges[self.slot] = None;
        if state.waiting > 0 {
            self.sections.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn ranges_that_overlap_exclude_each_other_and_others_do_not() {
        let sections = Arc::new(Sections::new());
        let first = sections.enter(10, 5);
        let beside = [sections.enter(9, 1), sections.enter(15, 1)];
        assert!(first.slot() != beside[0].slot() && beside[0].slot() != beside[1].slot());
        let (entered, has_entered) = channel();
        let other = Arc::clone(&sections);
        let thread = std::thread::spawn(move || {
            let _section = other.enter(14, 1);
            entered.send(()).unwrap();
        });
        assert!(has_entered.recv_timeout(Duration::from_millis(30)).is_err());
        drop(first);
        has_entered.recv_timeout(Duration::from_secs(20)).expect("entered");
        thread.join().unwrap();
    }

    #[test]
    fn as_many_as_there_are_slots_and_then_one_waits() {
        let sections = Arc::new(Sections::new());
        let mut all: Vec<_> = (0..SLOTS as u64).map(|block| sections.enter(block, 1)).collect();
        let (entered, has_entered) = channel();
        let other = Arc::clone(&sections);
        let thread = std::thread::spawn(move || entered.send(other.enter(1000, 1).slot()).unwrap());
        assert!(has_entered.recv_timeout(Duration::from_millis(30)).is_err());
        let slot = all.swap_remove(7).slot;
        assert_eq!(has_entered.recv_timeout(Duration::from_secs(20)), Ok(slot));
        thread.join().unwrap();
    }
}
