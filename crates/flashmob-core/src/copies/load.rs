//! Makes an image out of the records of a snapshot.

use super::slots::Slots;
use super::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNKS_MAX, COPIES_MAX, DOMAIN_BYTES_MAX, MEMBERS_MAX, MapError, MapImage,
    Member, PLACES_MAX, Place, Record,
};

/// Takes the records of a snapshot in their order: `Begin`, members, places, then whatever changes an image.
///
/// It takes memory for records that came, never for what the first one announces. After an error it is of no use.
#[derive(Debug, Default)]
pub(super) struct Loader {
    /// From `Begin` on. Its chunks have no marks until all have places.
    image: Option<MapImage>,
    /// As many as `Begin` said.
    chunks: u32,
    is_complete: bool,
    /// Of each member, the first member with the same domain.
    domains: Vec<usize>,
    taken: Slots,
}

impl Loader {
    /// Adds the next record.
    pub fn add(&mut self, record: &Record) -> Result<(), MapError> {
        match (record, &mut self.image) {
            (&Record::Begin { map_id, chunk_bytes, copies, chunks, version }, None) => {
                let copies = usize::from(copies);
                check_sizes(chunk_bytes, copies, chunks)?;
                self.image = Some(MapImage::empty(map_id, chunk_bytes, copies, version));
                self.chunks = chunks;
                Ok(())
            }
            (&Record::Member { number, extent_id, size_bytes, ref domain }, Some(image)) if image.places.is_empty() => {
                let expected = image.members.len();
                if usize::from(number) != expected {
                    return Err(MapError::MemberNumber { number, expected });
                }
                let member = Member { extent_id, boot_id: None, seen: None, size_bytes, domain: domain.clone() };
                check_member(&image.members, &member)?;
                let same = image.members.iter().position(|other| other.domain == member.domain);
                self.domains.push(same.unwrap_or(expected));
                image.members.push(member);
                Ok(())
            }
            (Record::Places { first_chunk, places }, Some(_)) if !self.is_complete => {
                self.add_places(*first_chunk, places)
            }
            // A snapshot says where a member's extent is by the member's record, and where a copy is by its chunk's places.
            (Record::Extent { .. } | Record::Moved { .. } | Record::Member { .. }, _)
            | (Record::Places { .. } | Record::Shrunk { .. }, _) => Err(MapError::Order(record.name())),
            (_, Some(image)) if self.is_complete => image.change(record),
            _ => Err(MapError::Order(record.name())),
        }
    }

    fn add_places(&mut self, first_chunk: u32, places: &[Place]) -> Result<(), MapError> {
        let Some(image) = &mut self.image else { return Err(MapError::Order("places")) };
        let copies = image.copies;
        let count = places.len();
        if count == 0 || count > PLACES_MAX || !count.is_multiple_of(copies) {
            return Err(MapError::PlacesCount { count, copies });
        }
        // At most CHUNKS_MAX until now.
        let expected = (image.places.len() / copies) as u32;
        if first_chunk != expected {
            return Err(MapError::PlacesOrder { first_chunk, expected });
        }
        let added = (count / copies) as u64;
        if u64::from(expected) + added > u64::from(self.chunks) {
            return Err(MapError::UnknownChunks { first_chunk, count: added, chunks: self.chunks });
        }
        for (chunk, copies_of_it) in (first_chunk..).zip(places.chunks_exact(copies)) {
            for (copy, &place) in copies_of_it.iter().enumerate() {
                check_place(chunk, place, image)?;
                let earlier = copies_of_it.iter().take(copy);
                for other in earlier {
                    check_apart(chunk, *other, place, |member| self.domains.get(usize::from(member)))?;
                }
                self.taken.take(chunk, place)?;
            }
        }
        image.places.extend_from_slice(places);
        if u64::from(expected) + added == u64::from(self.chunks) {
            self.is_complete = true;
            image.places.shrink_to_fit();
            image.settle_all();
            image.taken = std::mem::take(&mut self.taken);
        }
        Ok(())
    }

    /// The image, if every chunk has its places.
    pub fn finish(self) -> Result<MapImage, MapError> {
        match self.image {
            Some(image) if self.is_complete => Ok(image),
            Some(image) => {
                let placed = (image.places.len() / image.copies.max(1)) as u64;
                Err(MapError::Incomplete { placed, chunks: self.chunks })
            }
            None => Err(MapError::Incomplete { placed: 0, chunks: 0 }),
        }
    }
}

fn check_sizes(chunk_bytes: u64, copies: usize, chunks: u32) -> Result<(), MapError> {
    if !is_chunk_bytes(chunk_bytes) {
        return Err(MapError::ChunkBytes(chunk_bytes));
    }
    if !(1..=COPIES_MAX).contains(&copies) {
        return Err(MapError::Copies(copies));
    }
    if !(1..=CHUNKS_MAX).contains(&chunks) {
        return Err(MapError::Chunks(chunks));
    }
    Ok(())
}

/// Whether chunks may have this size.
pub(super) fn is_chunk_bytes(chunk_bytes: u64) -> bool {
    chunk_bytes.is_power_of_two() && (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes)
}

/// Whether one more member may follow these.
pub(super) fn check_member(members: &[Member], member: &Member) -> Result<(), MapError> {
    if members.len() >= MEMBERS_MAX {
        return Err(MapError::TooManyMembers);
    }
    let len_bytes = member.domain.len();
    if !(1..=DOMAIN_BYTES_MAX).contains(&len_bytes) {
        return Err(MapError::Domain { member: members.len(), len_bytes });
    }
    match members.iter().position(|other| other.extent_id == member.extent_id) {
        Some(first) => Err(MapError::ExtentTwice { first, second: members.len() }),
        None => Ok(()),
    }
}

/// Whether the place lies in an extent.
pub(super) fn check_place(chunk: u32, place: Place, image: &MapImage) -> Result<(), MapError> {
    let Place { member, slot } = place;
    let size_bytes = image.members.get(usize::from(member)).ok_or(MapError::UnknownMember(member))?.size_bytes;
    // Below 2^32 slots of at most CHUNK_BYTES_MAX.
    if (u64::from(slot) + 1) * image.chunk_bytes > size_bytes {
        return Err(MapError::SlotBeyond { chunk, member, slot, size_bytes });
    }
    Ok(())
}

/// Whether two copies of a chunk cannot fail together: `domain` is that of a member.
pub(super) fn check_apart<D: PartialEq>(
    chunk: u32,
    one: Place,
    other: Place,
    domain: impl Fn(u16) -> Option<D>,
) -> Result<(), MapError> {
    if one.member == other.member {
        return Err(MapError::SameMember { chunk, member: one.member });
    }
    if domain(one.member) == domain(other.member) {
        return Err(MapError::SameDomain { chunk, first: one.member, second: other.member });
    }
    Ok(())
}
