//! Finds a place for each copy of a new volume.
//!
//! Two decisions come first, because taking one chunk after the other cannot make them. A volume of `n` chunks fits if
//! the domains have `copies * n` slots together, of which no domain counts more than `n`: each chunk uses it once at
//! most. The largest such `n` is the number of chunks. Each domain then has a share of the copies, in proportion to its
//! slots, so that equal domains differ by one.
//!
//! Then chunk after chunk takes the domains with the greatest fraction of their share left, and in each the member with
//! the greatest fraction of its slots free. A domain that has as much of its share left as there are chunks left is in
//! every chunk from there on. So the shares always work out: no domain ever has more left than there are chunks.
//!
//! Among equals a hash decides, each time anew. So neighbouring chunks lie on different members, and each member shares
//! chunks with all others: when one is lost, all others answer in its place, and its copies are made again from all of
//! them. By number, equal members would be partners for ever.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use super::load::{check_member, is_chunk_bytes};
use super::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNKS_MAX, COPIES_MAX, MapError, Member, Place};

/// Why members cannot hold a volume with copies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum PlacementError {
    /// An empty list.
    #[error("a volume needs at least one member")]
    NoMembers,
    /// A chunk that is not a power of two or out of range.
    #[error("a chunk of {0} bytes is not a power of two between {CHUNK_BYTES_MIN} and {CHUNK_BYTES_MAX}")]
    ChunkBytes(u64),
    /// No copies, or more than [`COPIES_MAX`].
    #[error("{0} copies are not between 1 and {COPIES_MAX}")]
    Copies(usize),
    /// Two copies of each chunk would fail together.
    #[error(
        "{copies} copies need members in {copies} domains, there {}",
        if *domains == 1 { "is 1".to_string() } else { format!("are {domains}") }
    )]
    Domains { copies: usize, domains: usize },
    /// An extent without room for a chunk.
    #[error("member {member} has {size_bytes} bytes, less than one chunk of {chunk_bytes}")]
    ExtentBelowChunk { member: usize, size_bytes: u64, chunk_bytes: u64 },
    /// An extent of a linear volume that is to be converted has a part of a chunk at its end.
    #[error("member {member} has {size_bytes} bytes, which are not a multiple of the chunk of {chunk_bytes}")]
    PartOfChunk { member: usize, size_bytes: u64, chunk_bytes: u64 },
    /// A volume that is larger than its members.
    #[error("{chunks} chunks of {chunk_bytes} bytes are not between 1 and the {fit} that the members have room for")]
    TooLarge { chunks: u32, chunk_bytes: u64, fit: u64 },
    /// A linear volume that is to be converted has more than [`CHUNKS_MAX`].
    #[error("{chunks} chunks of {chunk_bytes} bytes are more than {CHUNKS_MAX}")]
    Chunks { chunks: u64, chunk_bytes: u64 },
    /// Too many members, an extent that is there twice, or a domain without a usable name.
    #[error(transparent)]
    Member(MapError),
}

/// The places of all chunks: those of chunk 0, then those of chunk 1, and so on. As many as there is room for, or so many.
pub(super) fn place(
    chunk_bytes: u64,
    copies: usize,
    members: &[Member],
    wanted: Option<u32>,
) -> Result<Vec<Place>, PlacementError> {
    check(chunk_bytes, copies, members)?;
    let mut domains = domains_of(chunk_bytes, members);
    if domains.len() < copies {
        return Err(PlacementError::Domains { copies, domains: domains.len() });
    }
    let slots: Vec<u64> = domains.iter().map(|domain| domain.slots).collect();
    let fit = most_chunks(&slots, copies as u64);
    let chunks = wanted.map_or(fit, u64::from);
    if chunks == 0 || chunks > fit {
        // Without a number there is one at least.
        return Err(PlacementError::TooLarge { chunks: wanted.unwrap_or(0), chunk_bytes, fit });
    }
    for (domain, share) in domains.iter_mut().zip(shares(&slots, chunks, chunks * copies as u64)) {
        domain.share = share;
        domain.left = share;
    }
    // At most CHUNKS_MAX.
    let mut places = Vec::with_capacity(chunks as usize * copies);
    let mut order = Order::new(&domains, chunks);
    for chunk in 0..chunks {
        order.next_chunk(chunk, copies, &mut domains, &mut places);
    }
    debug_assert_eq!(places.len() as u64, chunks * copies as u64);
    Ok(places)
}

pub(super) fn check(chunk_bytes: u64, copies: usize, members: &[Member]) -> Result<(), PlacementError> {
    if !is_chunk_bytes(chunk_bytes) {
        return Err(PlacementError::ChunkBytes(chunk_bytes));
    }
    if !(1..=COPIES_MAX).contains(&copies) {
        return Err(PlacementError::Copies(copies));
    }
    if members.is_empty() {
        return Err(PlacementError::NoMembers);
    }
    for (number, member) in members.iter().enumerate() {
        check_member(members.get(..number).unwrap_or_default(), member).map_err(PlacementError::Member)?;
        if member.size_bytes < chunk_bytes {
            let size_bytes = member.size_bytes;
            return Err(PlacementError::ExtentBelowChunk { member: number, size_bytes, chunk_bytes });
        }
    }
    Ok(())
}

/// A part of something that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    left: u64,
    /// What there was at first; not 0.
    whole: u64,
    number: usize,
}

impl Part {
    /// Decides among equals: all of them have another after each chunk that they take.
    fn lot(&self) -> u64 {
        let mut lot = (self.left ^ ((self.number as u64) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lot = (lot ^ (lot >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        lot ^ (lot >> 32)
    }
}

/// By the fraction that is left, then by lot.
impl Ord for Part {
    fn cmp(&self, other: &Part) -> Ordering {
        // Both at most CHUNKS_MAX.
        let by_fraction = (self.left * other.whole).cmp(&(other.left * self.whole));
        by_fraction.then_with(|| self.lot().cmp(&other.lot())).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Members that may fail together.
#[derive(Debug, Default)]
struct Domain {
    /// All slots of its members.
    slots: u64,
    /// How many chunks shall have a copy here.
    share: u64,
    /// How many of those have none yet.
    left: u64,
    /// The members that have a free slot.
    free: BinaryHeap<Part>,
}

impl Domain {
    /// Takes a slot of the member with the greatest fraction free.
    fn take(&mut self) -> Option<Place> {
        let Part { left, whole, number } = self.free.pop()?;
        if left > 1 {
            self.free.push(Part { left: left - 1, whole, number });
        }
        self.left = self.left.saturating_sub(1);
        // Fewer than MEMBERS_MAX members and at most CHUNKS_MAX slots.
        Some(Place { member: number as u16, slot: (whole - left) as u32 })
    }
}

/// The domains, in the order of their first members.
fn domains_of(chunk_bytes: u64, members: &[Member]) -> Vec<Domain> {
    let mut domains: Vec<Domain> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, member) in members.iter().enumerate() {
        let at = *by_name.entry(&member.domain).or_insert(domains.len());
        if at == domains.len() {
            domains.push(Domain::default());
        }
        // One member cannot have more chunks than there are.
        let whole = (member.size_bytes / chunk_bytes).min(u64::from(CHUNKS_MAX));
        if let Some(domain) = domains.get_mut(at) {
            domain.slots += whole;
            domain.free.push(Part { left: whole, whole, number });
        }
    }
    domains
}

/// The largest number of chunks that fit: see the module's documentation.
fn most_chunks(slots: &[u64], copies: u64) -> u64 {
    let fits = |chunks: u64| slots.iter().map(|&slots| slots.min(chunks)).sum::<u64>() >= copies * chunks;
    // If a number fits, all below do: both sides are equal at 0, and the left one grows less and less.
    let (mut fitting, mut beyond) = (0, u64::from(CHUNKS_MAX) + 1);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    fitting
}

/// How many copies each domain has: `wanted` together, each at most one of each chunk, in proportion to the slots.
pub(super) fn shares(slots: &[u64], chunks: u64, wanted: u64) -> Vec<u64> {
    /// Levels are fractions of 2^48: finer than a slot, of which a domain has at most 2^36.
    const LEVEL_BITS: u32 = 48;
    let share = |slots: u64, level: u64| {
        let filled = (u128::from(slots) * u128::from(level)) >> LEVEL_BITS;
        u64::try_from(filled).unwrap_or(u64::MAX).min(chunks)
    };
    let sum = |level: u64| slots.iter().map(|&slots| share(slots, level)).sum::<u64>();
    // The lowest level that is enough. From the level below it no share differs by more than one.
    let (mut below, mut enough) = (0u64, 1u64 << LEVEL_BITS);
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if sum(middle) >= wanted {
            enough = middle;
        } else {
            below = middle;
        }
    }
    let mut surplus = sum(enough).saturating_sub(wanted);
    let mut shares: Vec<u64> = slots.iter().map(|&slots| share(slots, enough)).collect();
    for (share_of_it, &slots) in shares.iter_mut().zip(slots).rev() {
        if surplus > 0 && share(slots, below) < *share_of_it {
            *share_of_it -= 1;
            surplus -= 1;
        }
    }
    shares
}

/// Which domains the next chunk takes.
#[derive(Debug)]
struct Order {
    chunks: u64,
    /// The domains that each chunk from now on needs.
    always: Vec<usize>,
    /// Whether a domain is in `always`.
    is_always: Vec<bool>,
    /// The other domains that have some of their share left.
    sometimes: BinaryHeap<Part>,
    /// For each domain a chunk from which on it may be needed always, and not before.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Domains of the present chunk that go back to `sometimes`.
    used: Vec<usize>,
}

impl Order {
    fn new(domains: &[Domain], chunks: u64) -> Order {
        let with_share = || domains.iter().enumerate().filter(|(_, domain)| domain.share > 0);
        let part = |(number, domain): (usize, &Domain)| Part { left: domain.left, whole: domain.share, number };
        Order {
            chunks,
            always: Vec::new(),
            is_always: vec![false; domains.len()],
            sometimes: with_share().map(part).collect(),
            due: with_share().map(|(number, domain)| Reverse((chunks - domain.share, number))).collect(),
            used: Vec::new(),
        }
    }

    /// Appends the places of a chunk. Chunks come in order.
    fn next_chunk(&mut self, chunk: u64, copies: usize, domains: &mut [Domain], places: &mut Vec<Place>) {
        while let Some(&Reverse((at, number))) = self.due.peek()
            && at <= chunk
        {
            self.due.pop();
            let Some(domain) = domains.get(number) else { continue };
            // It was in chunks meanwhile, so it is due later than it seemed.
            let due_at = self.chunks - domain.left;
            if due_at > chunk {
                self.due.push(Reverse((due_at, number)));
            } else if let Some(is_always) = self.is_always.get_mut(number) {
                *is_always = true;
                self.always.push(number);
            }
        }
        let mut missing = copies;
        for &number in &self.always {
            places.extend(domains.get_mut(number).and_then(Domain::take));
            missing = missing.saturating_sub(1);
        }
        while missing > 0
            && let Some(Part { number, .. }) = self.sometimes.pop()
        {
            if self.is_always.get(number) == Some(&false) {
                places.extend(domains.get_mut(number).and_then(Domain::take));
                self.used.push(number);
                missing -= 1;
            }
        }
        for number in self.used.drain(..) {
            if let Some(domain) = domains.get(number).filter(|domain| domain.left > 0) {
                self.sometimes.push(Part { left: domain.left, whole: domain.share, number });
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/placement.rs"]
mod tests;
