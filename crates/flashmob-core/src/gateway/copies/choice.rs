//! The copy that a read is sent to.

use std::time::Duration;

use super::{Copies, Cx, bit, each, mask};
use crate::planted::{self, Bug};

impl Copies {
    /// The copy that a read is sent to: the chunk's home among those that can answer, unless another is expected to answer in less than
    /// half of the time; of a chunk whose copies are known to differ the first. Neighbouring chunks have different homes, so all nodes are busy, and each page is in one node's memory. After one that
    /// `failed` it is the next, of those that were not `asked` before if there is one that is linked.
    pub(super) fn choose(
        &self,
        cx: &Cx<'_>,
        chunk: u32,
        avoid: u8,
        (failed, asked): (Option<usize>, u8),
    ) -> Option<usize> {
        let current =
            if planted::is(Bug::ReadFromBehind) { !self.image.marks(chunk).doubtful & 3 } else { self.current(chunk) };
        // A copy that is away is waited for rather than one asked again that is corrupt there.
        let good = current & !avoid;
        let current = if good == 0 { current } else { good };
        let usable = self.usable_of(cx, chunk, current);
        if let Some(failed) = failed {
            let linked = mask(each(current & !asked).filter(|&copy| cx.is_linked(self.member_of(chunk, copy))));
            let others = [usable & !asked, linked, usable & !bit(failed), current & !bit(failed), current];
            let others = others.into_iter().find(|mask| *mask != 0)?;
            return each(others).find(|&copy| copy > failed).or(each(others).next());
        }
        let candidates = if usable == 0 { current } else { usable };
        if self.scrub.bad.has_differing(chunk) {
            // The same one each time, or a client would see bytes come and go.
            return each(candidates).next();
        }
        let home = each(candidates).nth(home(chunk, candidates.count_ones()))?;
        let others = candidates & !bit(home);
        if others == 0 || self.is_home_only() {
            return Some(home);
        }
        let expected = self.expected(cx, self.member_of(chunk, home));
        let best = self.fastest(cx, chunk, others);
        Some(best.filter(|(_, best)| expected / 2 > *best).map_or(home, |(copy, _)| copy))
    }

    /// Whether reads go to the home of their chunk, however slow it is.
    pub(super) fn is_home_only(&self) -> bool {
        self.home_only || planted::is(Bug::SlowNodesRead)
    }

    /// Which of some copies is expected to answer a read first, and after what time.
    pub(super) fn fastest(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> Option<(usize, Duration)> {
        let timed = each(copies).map(|copy| (copy, self.expected(cx, self.member_of(chunk, copy))));
        timed.min_by_key(|(_, expected)| *expected)
    }

    /// A member has answered reads, `took` after they were sent.
    pub(super) fn note_speed(&mut self, cx: &Cx<'_>, member: u16, took: Duration) {
        let pieces = cx.pieces_out(member);
        if let Some(state) = self.members.get_mut(usize::from(member)) {
            state.speed.note(cx.now, took, pieces);
        }
    }

    /// How long a member is expected to take for a read that it is given now.
    fn expected(&self, cx: &Cx<'_>, member: u16) -> Duration {
        let Some(state) = self.members.get(usize::from(member)) else { return Duration::MAX };
        state.speed.expected(cx.now, cx.shortest_way(member), cx.pieces_given(member), cx.silence(member))
    }
}

/// Which of so many copies is a chunk's home. By a hash: places repeat after a few chunks, and a count would repeat with them, so that some nodes
/// were the home of none of their chunks.
fn home(chunk: u32, candidates: u32) -> usize {
    // By the golden ratio: neighbours lie far apart, and so does each nth of them.
    ((u64::from(chunk.wrapping_mul(0x9e37_79b1)) * u64::from(candidates)) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::{MapImage, Member};

    #[test]
    fn every_node_is_the_home_of_its_share_of_chunks() {
        for copies in 1..=4 {
            for nodes in copies as u8..=17 {
                let member = |n: u8| Member {
                    extent_id: [n; 16],
                    boot_id: None,
                    seen: None,
                    size_bytes: 200 << 20,
                    domain: format!("node{n}"),
                };
                let image = MapImage::new([9; 16], 1 << 20, copies, (0..nodes).map(member).collect()).unwrap();
                let mut homes = vec![0u32; nodes.into()];
                for chunk in 0..image.chunks() {
                    let copy = home(chunk, copies as u32);
                    homes[usize::from(image.places(chunk)[copy].member)] += 1;
                }
                let share = image.chunks() / u32::from(nodes);
                let is_fair = homes.iter().all(|&count| count >= share / 2 && count <= share * 2);
                assert!(is_fair, "{copies} copies, {nodes} nodes: {homes:?}");
            }
        }
    }
}
