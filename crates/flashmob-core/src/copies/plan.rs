//! Which copies are to move: away from members that are leaving, and from full members to empty ones.
//!
//! Copies of leaving members come first. Each goes to the member with the greatest fraction of its slots free, of those in whose domain the chunk has
//! no other copy. To balance, the copies are shared out as for a new volume ([`super::placement`]), and members with more than their share give to
//! those with less; nothing moves while none is off by more than a twentieth of its slots.
//!
//! Where no copy can go directly from one member to another, it goes by way of others: one of them gives a copy of another chunk away, and takes this
//! one. Such chains are found by a search over members, so they are as short as can be. Their last step comes first: it makes room for those
//! before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::placement::shares;
use super::{COPIES_MAX, MapImage};

/// A copy of a chunk is to move from one member to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The chunk.
    pub chunk: u32,
    /// The member that has the copy.
    pub from: u16,
    /// The member that is to have it.
    pub to: u16,
}

/// What is to move, in an order in which there is always room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// One after the other.
    pub steps: Vec<Step>,
    /// Copies for which there is no room elsewhere, by the leaving member that they are on.
    pub stranded: BTreeMap<u16, u32>,
}

impl Plan {
    /// Copies for which there is no room, of all members.
    #[must_use]
    pub fn all_stranded(&self) -> u32 {
        self.stranded.values().sum()
    }
}

/// A member is off its share if it is so by more than this fraction of its slots.
const OFF: u32 = 20;

impl MapImage {
    /// The copies that are to move so that `leaving` members have none, and, if `is_balanced`, the others have their share. Nothing moves to
    /// `closed` members, nor to joining ones, nor to even them out.
    #[must_use]
    pub fn plan(&self, leaving: &BTreeSet<u16>, is_balanced: bool, closed: &BTreeSet<u16>) -> Plan {
        let closed = closed.iter().chain(self.joining.keys()).copied().collect();
        let mut planner = Planner::new(self, leaving, &closed);
        planner.empty_leaving();
        if is_balanced {
            planner.balance();
        }
        planner.plan
    }
}

struct Planner<'a> {
    image: &'a MapImage,
    leaving: &'a BTreeSet<u16>,
    closed: &'a BTreeSet<u16>,
    /// Of each member.
    domains: Vec<u16>,
    slots: Vec<u32>,
    used: Vec<u32>,
    /// The members of copies that are to move elsewhere than they are: by chunk and copy.
    moved: BTreeMap<(u32, usize), u16>,
    /// The chunks of each member, once they are needed; what has moved away stays in it.
    chunks: Option<Vec<Vec<u32>>>,
    /// Members from which no chain leads to one that takes copies, as long as nothing is planned.
    dead_ends: BTreeSet<u16>,
    plan: Plan,
}

/// The members of the copies of a chunk.
#[derive(Debug, Clone, Copy)]
struct Holders {
    members: [u16; COPIES_MAX],
    count: usize,
}

impl Holders {
    fn all(&self) -> &[u16] {
        &self.members[..self.count]
    }
}

impl<'a> Planner<'a> {
    fn new(image: &'a MapImage, leaving: &'a BTreeSet<u16>, closed: &'a BTreeSet<u16>) -> Planner<'a> {
        let mut by_name: BTreeMap<&str, u16> = BTreeMap::new();
        let numbered = || (0u16..).zip(image.members());
        let domains = numbered().map(|(number, member)| *by_name.entry(&member.domain).or_insert(number)).collect();
        let slots = numbered().map(|(number, _)| image.slots(number)).collect();
        let used = numbered().map(|(number, _)| image.copies_on(number)).collect();
        let (moved, chunks, dead_ends, plan) = (BTreeMap::new(), None, BTreeSet::new(), Plan::default());
        Planner { image, leaving, closed, domains, slots, used, moved, chunks, dead_ends, plan }
    }

    fn members(&self) -> impl Iterator<Item = u16> + use<> {
        // At most MEMBERS_MAX.
        0..self.domains.len() as u16
    }

    fn domain(&self, member: u16) -> u16 {
        self.domains.get(usize::from(member)).copied().unwrap_or(member)
    }

    /// The members of a chunk's copies, as planned so far.
    fn holders(&self, chunk: u32) -> Holders {
        let places = self.image.places(chunk);
        let mut holders = Holders { members: [0; COPIES_MAX], count: places.len() };
        for ((copy, place), holder) in places.iter().enumerate().zip(&mut holders.members) {
            *holder = self.moved.get(&(chunk, copy)).copied().unwrap_or(place.member);
        }
        holders
    }

    /// Whether copies may move to a member at all.
    fn is_open(&self, member: u16) -> bool {
        !self.leaving.contains(&member) && !self.closed.contains(&member)
    }

    fn free(&self, member: u16) -> u32 {
        let at = usize::from(member);
        let free = self.slots.get(at).copied().unwrap_or(0).saturating_sub(self.used.get(at).copied().unwrap_or(0));
        if self.is_open(member) { free } else { 0 }
    }

    /// Whether the copy of a chunk with these `holders` on `from` may lie on `to`: no other copy of the chunk shares its domain.
    fn may_move(&self, holders: &Holders, from: u16, to: u16) -> bool {
        let is_apart = |&holder: &u16| holder == from || self.domain(holder) != self.domain(to);
        to != from && holders.all().iter().all(is_apart) && self.is_open(to)
    }

    fn step(&mut self, step: Step) {
        let Step { chunk, from, to } = step;
        let Some(copy) = self.holders(chunk).all().iter().position(|&holder| holder == from) else { return };
        self.moved.insert((chunk, copy), to);
        if let Some(used) = self.used.get_mut(usize::from(from)) {
            *used = used.saturating_sub(1);
        }
        if let Some(used) = self.used.get_mut(usize::from(to)) {
            *used += 1;
        }
        if let Some(chunks) = self.chunks.as_mut().and_then(|chunks| chunks.get_mut(usize::from(to))) {
            chunks.push(chunk);
        }
        self.dead_ends.clear();
        self.plan.steps.push(step);
    }

    fn empty_leaving(&mut self) {
        for &from in self.leaving {
            for (chunk, _) in self.image.chunks_of(from).collect::<Vec<_>>() {
                let holders = self.holders(chunk);
                let fitting = self.members().filter(|&to| self.free(to) > 0 && self.may_move(&holders, from, to));
                // By the fraction that is free.
                let weight =
                    |&to: &u16| u64::from(self.free(to)) * (1 << 32) / u64::from(self.slots[usize::from(to)].max(1));
                let chain = match fitting.max_by_key(weight) {
                    Some(to) => Some(vec![Step { chunk, from, to }]),
                    None => self.chain(from, Some(chunk), |planner, member| planner.free(member) > 0),
                };
                match chain {
                    Some(chain) => chain.into_iter().for_each(|step| self.step(step)),
                    None => {
                        *self.plan.stranded.entry(from).or_default() += 1;
                    }
                }
            }
        }
    }

    /// The shortest chain of steps from a member, of one of its chunks if only one may go, to a member that `takes` one: the last step first.
    fn chain(&mut self, from: u16, chunk: Option<u32>, takes: impl Fn(&Planner<'_>, u16) -> bool) -> Option<Vec<Step>> {
        if !self.members().any(|member| takes(self, member)) {
            return None;
        }
        self.list_chunks();
        let open = self.members().filter(|&member| member != from && self.is_open(member)).count();
        let mut reached: BTreeMap<u16, Step> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front() {
            let of_member = self.chunks.as_ref()?.get(usize::from(at))?;
            let only = chunk.filter(|_| at == from);
            let chunks = only.iter().chain(of_member.iter().filter(|_| only.is_none()));
            for &chunk in chunks {
                if reached.len() >= open {
                    break;
                }
                let holders = self.holders(chunk);
                if !holders.all().contains(&at) || reached.values().any(|step| step.chunk == chunk) {
                    continue;
                }
                for to in self.members() {
                    let is_of_no_use = reached.contains_key(&to) || self.dead_ends.contains(&to);
                    if to == from || is_of_no_use || !self.may_move(&holders, at, to) {
                        continue;
                    }
                    reached.insert(to, Step { chunk, from: at, to });
                    if takes(self, to) {
                        return Some(unwound(&reached, from, to));
                    }
                    next.push_back(to);
                }
            }
        }
        self.dead_ends.extend(reached.keys());
        None
    }

    fn list_chunks(&mut self) {
        if self.chunks.is_some() {
            return;
        }
        let mut chunks = vec![Vec::new(); self.domains.len()];
        for chunk in 0..self.image.chunks() {
            for holder in self.holders(chunk).all() {
                if let Some(chunks) = chunks.get_mut(usize::from(*holder)) {
                    chunks.push(chunk);
                }
            }
        }
        self.chunks = Some(chunks);
    }

    /// How many copies each member that takes part should have; of the others, what it has.
    fn shares(&self) -> Vec<u32> {
        let mut wanted = self.used.clone();
        let mut domains: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
        for member in self.members().filter(|&member| self.is_open(member)) {
            domains.entry(self.domain(member)).or_default().push(member);
        }
        let slots_of = |members: &[u16]| members.iter().map(|&m| u64::from(self.slots[usize::from(m)])).sum::<u64>();
        let used_of = |members: &[u16]| members.iter().map(|&m| u64::from(self.used[usize::from(m)])).sum::<u64>();
        let slots: Vec<u64> = domains.values().map(|members| slots_of(members)).collect();
        let used: u64 = domains.values().map(|members| used_of(members)).sum();
        let chunks = u64::from(self.image.chunks());
        if slots.iter().map(|&slots| slots.min(chunks)).sum::<u64>() < used {
            return wanted;
        }
        for (members, share) in domains.values().zip(shares(&slots, chunks, used)) {
            let slots: Vec<u64> = members.iter().map(|&m| u64::from(self.slots[usize::from(m)])).collect();
            for (&member, share) in members.iter().zip(shares(&slots, u64::from(u32::MAX), share)) {
                wanted[usize::from(member)] = u32::try_from(share).unwrap_or(u32::MAX);
            }
        }
        wanted
    }

    fn balance(&mut self) {
        let wanted = self.shares();
        let off = |member: &u16| {
            let at = usize::from(*member);
            self.used[at].abs_diff(wanted[at]) > (self.slots[at] / OFF).max(1)
        };
        if !self.members().any(|member| off(&member)) {
            return;
        }
        let lacks = |planner: &Planner<'_>, member: u16| {
            planner.used[usize::from(member)] < wanted[usize::from(member)] && planner.free(member) > 0
        };
        for from in self.members().filter(|&member| self.is_open(member)).collect::<Vec<_>>() {
            if self.used[usize::from(from)] <= wanted[usize::from(from)] {
                continue;
            }
            self.list_chunks();
            let of_member = self.chunks.as_ref().and_then(|chunks| chunks.get(usize::from(from))).cloned();
            for chunk in of_member.unwrap_or_default() {
                if self.used[usize::from(from)] <= wanted[usize::from(from)] {
                    break;
                }
                let holders = self.holders(chunk);
                let fitting = self.members().filter(|&to| lacks(self, to) && self.may_move(&holders, from, to));
                let weight = |&to: &u16| {
                    let at = usize::from(to);
                    u64::from(wanted[at] - self.used[at]) * (1 << 32) / u64::from(self.slots[at].max(1))
                };
                if let Some(to) = fitting.max_by_key(weight) {
                    self.step(Step { chunk, from, to });
                }
            }
            while self.used[usize::from(from)] > wanted[usize::from(from)] {
                // Others may be what leads nowhere from here.
                self.dead_ends.clear();
                let Some(chain) = self.chain(from, None, lacks) else { break };
                chain.into_iter().for_each(|step| self.step(step));
            }
        }
    }
}

/// The steps that lead from a member to another, the last first.
fn unwound(reached: &BTreeMap<u16, Step>, from: u16, to: u16) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), to);
    while at != from
        && let Some(&step) = reached.get(&at)
    {
        steps.push(step);
        at = step.from;
    }
    steps
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
