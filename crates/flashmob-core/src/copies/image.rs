//! The map in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{self, History, Start};
use super::load::Loader;
use super::placement::{PlacementError, place};
use super::slots::Slots;
use super::tally::{MapCounts, Tally};
use super::{MapError, PLACES_MAX, Record, is_unknown_extent};
use crate::planted::{self, Bug};
use crate::wire::mirror::decisions;

/// The place of one copy of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The member that has it.
    pub member: u16,
    /// Where in the member's extent: it begins at byte `slot * chunk_bytes`.
    pub slot: u32,
}

/// What is known about the copies of a chunk. Bit `i` of a mask is copy `i`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Changes may be under way or unsynced: the copies may differ.
    pub is_open: bool,
    /// All copies that were current lost power while the chunk was open, and were not compared since: a block may be torn on each.
    pub is_torn: bool,
    /// The copies that lack something. Never all of them.
    pub behind: u8,
    /// The copies whose device restarted while the chunk was open.
    pub doubtful: u8,
}

/// An extent that holds copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The identity of the extent.
    pub extent_id: [u8; 16],
    /// The last known start of the device's operating system.
    pub boot_id: Option<[u8; 16]>,
    /// The epoch and the version of the latest charge that the extent is known to remember.
    pub seen: Option<(u64, u64)>,
    /// Size of the extent, in bytes.
    pub size_bytes: u64,
    /// Members of one domain may fail together: 1 to [`DOMAIN_BYTES_MAX`](super::DOMAIN_BYTES_MAX) bytes.
    pub domain: String,
}

/// Members, places and marks of a volume with copies, after some number of records. Every chunk has its places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapImage {
    pub(super) map_id: [u8; 16],
    pub(super) chunk_bytes: u64,
    pub(super) copies: usize,
    pub(super) version: u64,
    epoch: u64,
    nonce: u64,
    /// The last starts of gateways, oldest first. The last is the present one, if any is known.
    starts: Vec<Start>,
    losses: u64,
    home: Option<[u8; 16]>,
    pub(super) was_linear: bool,
    losses_told: u64,
    pub(super) members: Vec<Member>,
    /// All places of chunk 0, then those of chunk 1, and so on.
    pub(super) places: Vec<Place>,
    /// The slots in these places.
    pub(super) taken: Slots,
    /// Members that are to have no copies any more.
    pub(super) leaving: BTreeSet<u16>,
    /// Members are to be filled evenly.
    pub(super) is_balancing: bool,
    /// Where members' nodes are, as far as that is on record, and whether a configuration named them first.
    pub(super) addresses: BTreeMap<u16, (String, bool)>,
    /// Members that get no copies yet, and whether they will whatever their extents hold.
    pub(super) joining: BTreeMap<u16, bool>,
    /// Members that were removed.
    pub(super) gone: BTreeSet<u16>,
    /// How many chunks clients may use.
    pub(super) shown: u32,
    /// Decisions at its end may have been lost.
    is_cut: bool,
    /// Of each chunk.
    marks: Vec<Marks>,
    tally: Tally,
}

impl MapImage {
    /// The map of a new volume: as many chunks as the members have room for, all settled and current. No change is
    /// counted yet.
    pub fn new(
        map_id: [u8; 16],
        chunk_bytes: u64,
        copies: usize,
        members: Vec<Member>,
    ) -> Result<MapImage, PlacementError> {
        MapImage::placed(map_id, chunk_bytes, copies, members, None)
    }

    /// The same with so many chunks. What the members have room for beyond is left free.
    pub fn with_chunks(
        map_id: [u8; 16],
        chunk_bytes: u64,
        copies: usize,
        members: Vec<Member>,
        chunks: u32,
    ) -> Result<MapImage, PlacementError> {
        MapImage::placed(map_id, chunk_bytes, copies, members, Some(chunks))
    }

    fn placed(
        map_id: [u8; 16],
        chunk_bytes: u64,
        copies: usize,
        members: Vec<Member>,
        chunks: Option<u32>,
    ) -> Result<MapImage, PlacementError> {
        let places = place(chunk_bytes, copies, &members, chunks)?;
        let mut image = MapImage::empty(map_id, chunk_bytes, copies, 0);
        (image.members, image.places) = (members, places);
        image.count_slots();
        image.settle_all();
        Ok(image)
    }

    /// The image that [`MapImage::snapshot`] made these records of.
    pub fn from_records(records: &[Record]) -> Result<MapImage, MapError> {
        let mut loader = Loader::default();
        records.iter().try_for_each(|record| loader.add(record))?;
        loader.finish()
    }

    /// Without members and chunks, for those who fill it.
    pub(super) fn empty(map_id: [u8; 16], chunk_bytes: u64, copies: usize, version: u64) -> MapImage {
        let (members, places, marks, starts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (epoch, nonce, losses, losses_told, home, tally) = (0, 0, 0, 0, None, Tally::default());
        MapImage {
            map_id,
            chunk_bytes,
            copies,
            version,
            epoch,
            nonce,
            starts,
            losses,
            losses_told,
            home,
            was_linear: false,
            members,
            places,
            taken: Slots::default(),
            leaving: BTreeSet::new(),
            is_balancing: false,
            addresses: BTreeMap::new(),
            joining: BTreeMap::new(),
            gone: BTreeSet::new(),
            shown: 0,
            is_cut: false,
            marks,
            tally,
        }
    }

    /// Gives each chunk that has places its first marks.
    pub(super) fn settle_all(&mut self) {
        let chunks = self.places.len() / self.copies.max(1);
        self.marks = vec![Marks::default(); chunks];
        self.tally = Tally::default();
        // At most CHUNKS_MAX.
        self.tally.count(Marks::default(), self.copies, chunks as u32);
        self.shown = chunks as u32;
    }

    /// Identity of the map.
    #[must_use]
    pub fn map_id(&self) -> [u8; 16] {
        self.map_id
    }

    /// Number of the gateway's start that is in charge; 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What was decided in it, apart from starts: see [`decisions`](crate::wire::mirror::decisions).
    #[must_use]
    pub fn decisions(&self) -> u64 {
        decisions(self.epoch, self.version)
    }

    /// The starts that it knows of, and how much it has now.
    #[must_use]
    pub fn history(&self) -> History {
        let present = (self.epoch, self.nonce);
        History { present, starts: self.starts.clone(), decisions: self.decisions() }
    }

    /// The nonce of that start.
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// How many records were applied since the map was made. It is the number of the last one, and grows for ever.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many losses of acknowledged changes there were.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The last of these losses for which a client got an error.
    #[must_use]
    pub fn losses_told(&self) -> u64 {
        self.losses_told
    }

    /// Whether its end was dropped: see [`MapImage::cut`].
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Bytes behind its last whole batch were dropped when it was opened. A batch that was not written whole has had no effect; one that was
    /// damaged later has, and the two look alike. So all chunks are open, and nodes are waited for whose mirrors may have what is missing. A volume
    /// with one copy has nothing that could differ.
    pub fn cut(&mut self) -> Result<(), MapError> {
        if self.copies == 1 || planted::is(Bug::CutMapTrusted) {
            return Ok(());
        }
        self.is_cut = true;
        self.open_all()
    }

    /// The record that counts a start which the map may have lost with its end, before the present one: a node that was linked in that start takes another
    /// with its number for a second gateway. No decision is counted by it.
    #[must_use]
    pub fn lost_start(&self, nonce: u64) -> Option<Record> {
        self.is_cut.then(|| Record::Epoch { epoch: self.epoch + 1, nonce })
    }

    /// Takes copies for behind that are so in an earlier state of the map, unless none would be left.
    pub(super) fn fall_behind_as_in(&mut self, map: &MapImage) -> Result<(), MapError> {
        for chunk in 0..self.chunks().min(map.chunks()) {
            let marks = self.marks(chunk);
            let behind = marks.behind | map.marks(chunk).behind;
            let all = ((1u16 << self.copies) - 1) as u8;
            if behind != marks.behind && behind & all != all && self.places(chunk) == map.places(chunk) {
                self.change(&Record::Marks { first_chunk: chunk, count: 1, marks: Marks { behind, ..marks } })?;
            }
        }
        Ok(())
    }

    /// Takes all chunks for open: their copies are compared.
    pub(super) fn open_all(&mut self) -> Result<(), MapError> {
        let all = (0..self.chunks()).map(|chunk| (chunk, Marks { is_open: true, ..self.marks(chunk) }));
        Record::of_marks(all).iter().try_for_each(|record| self.change(record))
    }

    /// Where its file was last used; `None` if that was never noted.
    #[must_use]
    pub fn home(&self) -> Option<[u8; 16]> {
        self.home
    }

    /// Whether it was made of a linear volume: [`MapImage::of_linear`].
    #[must_use]
    pub fn was_linear(&self) -> bool {
        self.was_linear
    }

    /// Size of a chunk, in bytes.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Copies of each chunk.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// How many chunks there are, with those that clients may not use yet.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        // At most CHUNKS_MAX.
        self.marks.len() as u32
    }

    /// How many of them clients may use.
    #[must_use]
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Size of the volume for clients, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.shown) * self.chunk_bytes
    }

    /// The members, by their numbers.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The places of a chunk, by the numbers of its copies. Empty if there is no such chunk.
    #[inline]
    #[must_use]
    pub fn places(&self, chunk: u32) -> &[Place] {
        if chunk >= self.chunks() {
            return &[];
        }
        let first = chunk as usize * self.copies;
        self.places.get(first..first + self.copies).unwrap_or_default()
    }

    /// The marks of a chunk; none if there is no such chunk.
    #[inline]
    #[must_use]
    pub fn marks(&self, chunk: u32) -> Marks {
        self.marks.get(chunk as usize).copied().unwrap_or_default()
    }

    /// The chunks that have marks. It looks at all chunks.
    pub fn chunks_marked(&self) -> impl Iterator<Item = (u32, Marks)> {
        let marked = |&(_, marks): &(u32, Marks)| marks != Marks::default();
        (0u32..).zip(self.marks.iter().copied()).filter(marked)
    }

    /// The chunks that have a copy on a member, and which copy it is. It looks at all places.
    pub fn chunks_of(&self, member: u16) -> impl Iterator<Item = (u32, usize)> {
        let chunks = (0u32..).zip(self.places.chunks_exact(self.copies.max(1)));
        chunks.filter_map(move |(chunk, places)| {
            let copy = places.iter().position(|place| place.member == member)?;
            Some((chunk, copy))
        })
    }

    /// How many chunks have which marks. It looks at none of them.
    #[must_use]
    pub fn counts(&self) -> MapCounts {
        self.tally.counts()
    }

    /// Applies the next record, and counts it. An error leaves the image as it was.
    pub fn apply(&mut self, record: &Record) -> Result<(), MapError> {
        let version = self.version.checked_add(1).ok_or(MapError::Version)?;
        match *record {
            Record::Start { .. } => return Err(MapError::Order(record.name())),
            Record::Epoch { epoch, nonce } => self.start(Start { epoch, nonce, version })?,
            _ => self.change(record)?,
        }
        self.version = version;
        Ok(())
    }

    /// A gateway takes charge.
    fn start(&mut self, start: Start) -> Result<(), MapError> {
        self.set_charge(start.epoch, start.nonce)?;
        history::add(&mut self.starts, start);
        Ok(())
    }

    fn set_charge(&mut self, epoch: u64, nonce: u64) -> Result<(), MapError> {
        if epoch <= self.epoch {
            return Err(MapError::Epoch { given: epoch, current: self.epoch });
        }
        (self.epoch, self.nonce) = (epoch, nonce);
        Ok(())
    }

    /// It is a recovered map from now on, with these numbers. Mirrors of earlier starts are judged by their decisions only: those that were
    /// not recovered are given up.
    pub(super) fn recovered(&mut self, epoch: u64, version: u64) -> Result<(), MapError> {
        self.starts.clear();
        self.start(Start { epoch, nonce: 0, version })?;
        self.version = version;
        // Somebody may have been shown more than the mirror says.
        self.shown = self.chunks();
        self.is_cut = false;
        Ok(())
    }

    /// What a member's extent remembers is not known any more.
    pub(super) fn forget_seen(&mut self, member: u16) {
        if let Some(member) = self.members.get_mut(usize::from(member)) {
            member.seen = None;
        }
    }

    /// Applies a record that is not counted, as one of a snapshot.
    pub(super) fn change(&mut self, record: &Record) -> Result<(), MapError> {
        match *record {
            Record::Begin { .. } => Err(MapError::Order(record.name())),
            Record::Places { first_chunk, ref places } => self.append(first_chunk, places),
            Record::Member { number, extent_id, size_bytes, ref domain } => {
                let domain = domain.clone();
                self.add_member(number, Member { extent_id, boot_id: None, seen: None, size_bytes, domain })
            }
            // Of a snapshot of an earlier build, which does not say when it was.
            Record::Epoch { epoch, nonce } => {
                self.set_charge(epoch, nonce)?;
                self.starts.clear();
                Ok(())
            }
            Record::Start { epoch, nonce, version } => {
                let earlier = self.starts.last().map_or(0, |last| last.version);
                if version <= earlier || version > self.version {
                    return Err(MapError::Start { given: version, earlier, version: self.version });
                }
                self.start(Start { epoch, nonce, version })
            }
            Record::Boot { member, boot_id } => {
                let known = self.members.get_mut(usize::from(member)).ok_or(MapError::UnknownMember(member))?;
                known.boot_id = Some(boot_id);
                Ok(())
            }
            Record::Marks { first_chunk, count, marks } => self.mark(first_chunk, count, marks),
            Record::Loss { count } if count < self.losses => {
                Err(MapError::Losses { given: count, current: self.losses })
            }
            Record::Loss { count } => {
                self.losses = count;
                Ok(())
            }
            Record::Told { count } if count < self.losses_told || count > self.losses => {
                Err(MapError::Told { given: count, current: self.losses_told, losses: self.losses })
            }
            Record::Told { count } => {
                self.losses_told = count;
                Ok(())
            }
            Record::Seen { member, epoch, version } => {
                let known = self.members.get_mut(usize::from(member)).ok_or(MapError::UnknownMember(member))?;
                known.seen = known.seen.max(Some((epoch, version)));
                Ok(())
            }
            Record::Home { home } => {
                self.home = Some(home);
                Ok(())
            }
            Record::Linear => {
                self.was_linear = true;
                Ok(())
            }
            Record::Extent { member, extent_id, size_bytes } => self.replace(member, extent_id, size_bytes),
            Record::Moved { chunk, copy, to } => self.move_copy(chunk, copy, to),
            Record::Leaving { member, is_leaving } => self.set_leaving(member, is_leaving),
            Record::Balance { is_wanted } => {
                self.is_balancing = is_wanted;
                Ok(())
            }
            Record::Address { member, ref address, is_seed } => self.set_address(member, address, is_seed),
            Record::Joining { member, is_joining, overwrites } => self.set_joining(member, is_joining, overwrites),
            Record::Gone { member } => self.remove_member(member),
            Record::Shown { chunks } => self.show(chunks),
            Record::Shrunk { chunks } => self.shrink(chunks),
            Record::Cut { is_cut } => {
                self.is_cut = is_cut;
                Ok(())
            }
        }
    }

    /// So many chunks more have their places.
    pub(super) fn add_marks(&mut self, chunks: u32, marks: Marks) {
        self.marks.resize(self.marks.len() + chunks as usize, marks);
        self.tally.count(marks, self.copies, chunks);
    }

    /// The last so many chunks are gone, with their places.
    pub(super) fn drop_last(&mut self, chunks: u32) {
        let left = self.chunks().saturating_sub(chunks);
        for marks in self.marks.drain(left as usize..) {
            self.tally.forget(marks, self.copies);
        }
        for place in self.places.drain(left as usize * self.copies..) {
            self.taken.free(place);
        }
    }

    pub(super) fn set_marks(&mut self, chunk: u32, marks: Marks) {
        if let Some(old) = self.marks.get_mut(chunk as usize).filter(|old| **old != marks) {
            self.tally.move_one(*old, marks, self.copies);
            *old = marks;
        }
    }

    fn mark(&mut self, first_chunk: u32, count: u32, marks: Marks) -> Result<(), MapError> {
        let all = mask_of_all(self.copies);
        let Marks { behind, doubtful, .. } = marks;
        if (behind | doubtful) & !all != 0 {
            return Err(MapError::Masks { behind, doubtful, copies: self.copies });
        }
        if behind == all {
            return Err(MapError::LastCopy { chunk: first_chunk });
        }
        let chunks = self.chunks();
        if count == 0 || u64::from(first_chunk) + u64::from(count) > u64::from(chunks) {
            return Err(MapError::UnknownChunks { first_chunk, count: count.into(), chunks });
        }
        let run = self.marks.iter_mut().skip(first_chunk as usize).take(count as usize);
        for old in run.filter(|old| **old != marks) {
            self.tally.move_one(*old, marks, self.copies);
            *old = marks;
        }
        Ok(())
    }

    /// The bytes of a member's extent that copies are in, those before them counted: it must not be smaller.
    #[must_use]
    pub fn used_bytes(&self, member: u16) -> u64 {
        u64::from(self.taken.end(member)) * self.chunk_bytes
    }

    /// The most bytes that an extent can have: room for every chunk of the largest map.
    #[must_use]
    pub fn extent_bytes_max(&self) -> u64 {
        u64::from(super::CHUNKS_MAX) * self.chunk_bytes
    }

    /// A fresh extent holds nothing, so all copies on it are behind, in the same step: no order of records can show it
    /// as current.
    fn replace(&mut self, member: u16, extent_id: [u8; 16], size_bytes: u64) -> Result<(), MapError> {
        self.check_present(member)?;
        let current = self.members.get(usize::from(member)).ok_or(MapError::UnknownMember(member))?;
        let is_same = extent_id == current.extent_id;
        if is_same && size_bytes != current.size_bytes && size_bytes >= self.used_bytes(member) {
            if let Some(member) = self.members.get_mut(usize::from(member)) {
                member.size_bytes = size_bytes;
            }
            return Ok(());
        }
        if size_bytes < current.size_bytes {
            let current_bytes = current.size_bytes;
            return Err(MapError::ExtentShrinks { member, given_bytes: size_bytes, current_bytes });
        }
        if let Some(first) = self.members.iter().position(|other| other.extent_id == extent_id) {
            return Err(MapError::ExtentTwice { first, second: usize::from(member) });
        }
        if is_unknown_extent(&current.extent_id) {
            // It is there for the first time, and replaces none.
            if let Some(member) = self.members.get_mut(usize::from(member)) {
                (member.extent_id, member.size_bytes) = (extent_id, size_bytes);
            }
            return Ok(());
        }
        let all = mask_of_all(self.copies);
        let is_last = |&(chunk, copy): &(u32, usize)| self.marks(chunk).behind | 1 << copy == all;
        if let Some((chunk, _)) = self.chunks_of(member).find(is_last) {
            return Err(MapError::LastCopy { chunk });
        }
        let places = self.places.chunks_exact(self.copies.max(1));
        for (places, marks) in places.zip(&mut self.marks) {
            let Some(copy) = places.iter().position(|place| place.member == member) else { continue };
            let (old, bit) = (*marks, 1u8 << copy);
            (marks.behind, marks.doubtful) = (old.behind | bit, old.doubtful & !bit);
            self.tally.move_one(old, *marks, self.copies);
        }
        if let Some(member) = self.members.get_mut(usize::from(member)) {
            (member.extent_id, member.size_bytes) = (extent_id, size_bytes);
            (member.boot_id, member.seen) = (None, None);
        }
        Ok(())
    }

    /// The records that make an equal image out of nothing, with [`MapImage::from_records`].
    #[must_use]
    pub fn snapshot(&self) -> Vec<Record> {
        let &MapImage { map_id, chunk_bytes, copies, version, epoch, nonce, losses, losses_told, .. } = self;
        let mut records = Vec::new();
        // At most COPIES_MAX.
        records.push(Record::Begin { map_id, chunk_bytes, copies: copies as u8, chunks: self.chunks(), version });
        let numbered = || (0u16..).zip(&self.members);
        records.extend(numbered().map(|(number, member)| {
            let Member { extent_id, size_bytes, .. } = *member;
            Record::Member { number, extent_id, size_bytes, domain: member.domain.clone() }
        }));
        let chunks_at_once = PLACES_MAX / copies.max(1);
        let parts = self.places.chunks(chunks_at_once * copies.max(1));
        let firsts = (0u32..).step_by(chunks_at_once);
        let places = firsts.zip(parts).map(|(first_chunk, part)| Record::Places { first_chunk, places: part.to_vec() });
        records.extend(places);
        let starts = self.starts.iter();
        records.extend(starts.map(|&Start { epoch, nonce, version }| Record::Start { epoch, nonce, version }));
        if epoch > 0 && self.starts.is_empty() {
            records.push(Record::Epoch { epoch, nonce });
        }
        records.extend(self.home.map(|home| Record::Home { home }));
        records.extend(self.was_linear.then_some(Record::Linear));
        records.extend(self.is_cut.then_some(Record::Cut { is_cut: true }));
        records.extend(self.leaving().map(|member| Record::Leaving { member, is_leaving: true }));
        records.extend(self.is_balancing.then_some(Record::Balance { is_wanted: true }));
        records.extend(self.addresses.iter().map(|(&member, (address, is_seed))| Record::Address {
            member,
            address: address.clone(),
            is_seed: *is_seed,
        }));
        records.extend(self.joining.iter().map(|(&member, &overwrites)| Record::Joining {
            member,
            is_joining: true,
            overwrites,
        }));
        records.extend(self.gone.iter().map(|&member| Record::Gone { member }));
        records.extend((self.shown < self.chunks()).then_some(Record::Shown { chunks: self.shown }));
        let boots = numbered().filter_map(|(member, known)| Some(Record::Boot { member, boot_id: known.boot_id? }));
        records.extend(boots);
        let seen = numbered().filter_map(|(member, known)| {
            let (epoch, version) = known.seen?;
            Some(Record::Seen { member, epoch, version })
        });
        records.extend(seen);
        if losses > 0 {
            records.push(Record::Loss { count: losses });
        }
        if losses_told > 0 {
            records.push(Record::Told { count: losses_told });
        }
        records.extend(Record::of_marks(self.chunks_marked()));
        records
    }
}

/// The mask with a bit for each copy.
fn mask_of_all(copies: usize) -> u8 {
    // At most COPIES_MAX.
    (1u8 << copies) - 1
}

#[cfg(test)]
#[path = "tests/image.rs"]
mod tests;
