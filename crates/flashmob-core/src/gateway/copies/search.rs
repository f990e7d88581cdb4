//! What work there is: which copies are compared, and which are made current.
//!
//! Beside what clients wait for, few jobs run at a time, and fewer to and from one member.

use super::jobs::{Goal, Job};
use super::{Copies, Cx, bit, each, mask};

/// Most jobs at once that nobody waits for, and of all.
pub(super) const JOBS_MAX: usize = 4;
const JOBS_WANTED_MAX: usize = 64;
/// Most resyncs at once to one member, and from one: they share its flash and its way.
const TO_ONE_MAX: usize = 2;
const FROM_ONE_MAX: usize = 2;
/// Most chunks in doubt that are looked at at a time: all of a new volume are, and most may have to wait for a member.
const SEARCHED_MAX: usize = 1024;

/// The order in which chunks are visited: neighbours lie far apart, so that at each time those that were visited are like the others, and tell how
/// long these will take.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    chunks: u32,
    stride: u32,
}

impl Order {
    pub fn of(chunks: u32) -> Order {
        // By the golden ratio. Without a common divisor each chunk has one place.
        let first = (f64::from(chunks) * 0.618_034) as u32;
        let stride = (first..=first.max(1) + chunks).find(|&stride| greatest_common_divisor(stride, chunks) == 1);
        Order { chunks, stride: stride.unwrap_or(1) }
    }

    /// The chunk at a place.
    fn chunk(self, place: u32) -> u32 {
        (u64::from(place) * u64::from(self.stride) % u64::from(self.chunks)) as u32
    }
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Copies {
    /// There are other chunks than before.
    pub(super) fn order_anew(&mut self) {
        (self.order, self.next_search) = (Order::of(self.image.chunks()), 0);
    }

    /// Somebody waits for a chunk that is on hold.
    pub(super) fn compare_soon(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.len() < JOBS_WANTED_MAX {
            self.compare(cx, chunk);
        }
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// Begins to compare the current copies of a chunk in doubt, if they can be used.
    fn compare(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let is_due = self.doubt.contains(&chunk) && !self.doubtful.contains(&chunk) && !self.serves_nothing();
        if !is_due || self.jobs.contains_key(&chunk) {
            return;
        }
        let current = self.current(chunk);
        let (out, present) = (self.out_of(chunk, current), self.usable_of(cx, chunk, current));
        let left = current & !out;
        if out != 0 {
            if present == 0 {
                return;
            }
            self.open_chunk(cx, chunk);
            // Fewer may be left than changes need, which wait then. Reads need not, and those that are behind can be made equal.
            self.fall_behind(chunk, out);
        }
        if left & !present != 0 {
            return;
        }
        let Some(source) = each(present & left).next() else { return };
        self.begin_job(cx, chunk, Goal::Compare, source, present & left & !bit(source));
    }

    /// Begins to make copies current that are behind, where a source and a target can be used. `to`: members to which copies may be made now.
    fn resync(&mut self, cx: &mut Cx<'_>, chunk: u32, to: &[u16]) {
        if self.is_on_hold(chunk) || self.jobs.contains_key(&chunk) || self.is_stuck(cx, chunk) {
            return;
        }
        let behind = self.image.marks(chunk).behind;
        let targets = mask(each(behind).filter(|&copy| to.contains(&self.member_of(chunk, copy))));
        if targets == 0 {
            return;
        }
        let has_room = |copy: &usize| self.has_room_from(self.member_of(chunk, *copy));
        let sources = mask(each(self.usable_of(cx, chunk, self.current(chunk))).filter(has_room));
        let corrupt = self.corrupt_of(chunk);
        let Some(source) = each(sources & !corrupt).next().or(each(sources).next()) else { return };
        self.begin_job(cx, chunk, Goal::Resync, source, targets);
    }

    /// Whether one more copy may be made from a member.
    pub(super) fn has_room_from(&self, member: u16) -> bool {
        let is_from = |(chunk, job): &(&u32, &Job)| self.member_of(**chunk, job.source) == member;
        self.jobs.iter().filter(|(_, job)| job.goal.is_copying()).filter(is_from).count() < FROM_ONE_MAX
    }

    /// The members on which one more copy may be made.
    pub(super) fn targets_with_room(&self, cx: &Cx<'_>) -> Vec<u16> {
        let mut count = vec![0; self.members.len()];
        for (&chunk, job) in self.jobs.iter().filter(|(_, job)| job.goal.is_copying()) {
            self.members_of(chunk, job.targets).into_iter().for_each(|member| count[usize::from(member)] += 1);
        }
        let may_take = |&member: &u16| {
            let state = &self.members[usize::from(member)];
            count[usize::from(member)] < TO_ONE_MAX && self.is_usable(cx, member) && state.is_calm(cx.now)
        };
        (0..self.members.len() as u16).filter(may_take).collect()
    }

    /// Starts jobs that nobody waits for, as many as may run.
    pub(super) fn search_work(&mut self, cx: &mut Cx<'_>) {
        if self.serves_nothing() {
            return;
        }
        let in_doubt = self.doubt.range(self.next_compare..).chain(self.doubt.range(..self.next_compare));
        for chunk in in_doubt.take(SEARCHED_MAX).copied().collect::<Vec<_>>() {
            // Clients wait for the comparison, and this job for the lane. What it has done may be in doubt as well.
            if self.jobs.get(&chunk).is_some_and(Job::waits_for_lane) {
                self.give_up(cx, chunk);
            }
            if self.jobs.len() >= JOBS_MAX {
                return;
            }
            self.compare(cx, chunk);
            self.next_compare = chunk + 1;
        }
        self.search_rot(cx);
        self.search_behind(cx);
        self.search_moves(cx);
    }

    /// Begins to make copies current that are behind.
    fn search_behind(&mut self, cx: &mut Cx<'_>) {
        if self.image.counts().behind == 0 {
            return;
        }
        let (chunks, first) = (self.image.chunks(), self.next_search);
        let (mut to, mut tried) = (self.targets_with_room(cx), 0);
        for step in 0..chunks {
            if self.jobs.len() >= JOBS_MAX || to.is_empty() || tried >= SEARCHED_MAX {
                return;
            }
            let place = (first + step) % chunks;
            let chunk = self.order.chunk(place);
            if self.image.marks(chunk).behind != 0 {
                let jobs = self.jobs.len();
                self.resync(cx, chunk, &to);
                self.next_search = place + 1;
                tried += 1;
                if self.jobs.len() > jobs {
                    to = self.targets_with_room(cx);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_visited_once_and_each_tenth_of_them_is_like_all() {
        for chunks in [1, 2, 3, 4, 10, 64, 89, 1000, 4096, 262_144] {
            let order = Order::of(chunks);
            let visited: Vec<u32> = (0..chunks).map(|place| order.chunk(place)).collect();
            let mut sorted = visited.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..chunks).collect::<Vec<_>>(), "{chunks} chunks");
            for tenth in visited.chunks_exact((chunks / 10).max(20) as usize) {
                let in_first_half = tenth.iter().filter(|&&chunk| chunk < chunks / 2).count();
                let share = in_first_half as f64 / tenth.len() as f64;
                assert!((0.4..=0.6).contains(&share), "{chunks} chunks: {share}");
            }
        }
    }
}
