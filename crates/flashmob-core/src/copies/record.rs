//! The changes of a map, and their bytes.

use super::{MapError, Marks, PLACES_MAX, Place};
use crate::enums::listed;
use crate::wire::WireError;
use crate::wire::frame::{Fields, put_text};

/// One change of a map. A map begins with `Begin`, its members and the places of all chunks. Later, a `Member` is one more, and `Places` are those of
/// more chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first record of every file.
    Begin {
        /// Identity of the map, drawn at random when it was made.
        map_id: [u8; 16],
        /// Size of a chunk, in bytes.
        chunk_bytes: u64,
        /// Copies of each chunk.
        copies: u8,
        /// How many chunks the volume has.
        chunks: u32,
        /// How many changes the image has seen that this file begins with. Changes are counted for ever.
        version: u64,
    },
    /// A member, in the order of their numbers.
    Member {
        /// Its number, from 0.
        number: u16,
        /// The identity of its extent.
        extent_id: [u8; 16],
        /// Size of the extent, in bytes.
        size_bytes: u64,
        /// The domain in which it may fail together with others.
        domain: String,
    },
    /// The places of chunks, in order.
    Places {
        /// The first of the chunks.
        first_chunk: u32,
        /// All places of that chunk, then those of the next; whole chunks, at most [`PLACES_MAX`].
        places: Vec<Place>,
    },
    /// A gateway has taken charge.
    Epoch {
        /// Number of its start; larger than every earlier one.
        epoch: u64,
        /// Drawn at random for this start.
        nonce: u64,
    },
    /// A member's device has this start of its operating system.
    Boot {
        /// The member.
        member: u16,
        /// As in the node's welcome.
        boot_id: [u8; 16],
    },
    /// Sets the marks of a run of chunks, whole.
    Marks {
        /// The first of the chunks.
        first_chunk: u32,
        /// How many; at least one.
        count: u32,
        /// Their marks from now on.
        marks: Marks,
    },
    /// How many losses of acknowledged changes there were so far.
    Loss {
        /// The sum of all; it never shrinks.
        count: u64,
    },
    /// For how many of these losses a client got an error.
    Told {
        /// The number of the last of them; it never shrinks.
        count: u64,
    },
    /// A member's extent was replaced by a fresh one: all copies on it are behind, and its boot id is unknown. If its extent was not known
    /// yet ([`unknown_extent`](super::unknown_extent)), it is only named. If it is the extent that the member has, that has grown.
    Extent {
        /// The member.
        member: u16,
        /// The identity of the fresh extent.
        extent_id: [u8; 16],
        /// Its size in bytes, not less than before.
        size_bytes: u64,
    },
    /// A member's extent remembers a gateway's charge that is at least so late. One that remembers an earlier one was restored from an older
    /// copy of itself.
    Seen {
        /// The member.
        member: u16,
        /// The epoch of that charge.
        epoch: u64,
        /// The version of the map in it.
        version: u64,
    },
    /// A gateway had taken charge before the snapshot, or had just done so.
    Start {
        /// Number of its start; larger than every earlier one.
        epoch: u64,
        /// Drawn at random for it.
        nonce: u64,
        /// The version of the map with its record.
        version: u64,
    },
    /// Where the map's file is used from now on. A copy of it elsewhere is not taken for the map.
    Home {
        /// A hash of the machine and the path: the shell's, which alone compares it.
        home: [u8; 16],
    },
    /// The volume was linear: extents that it had then may be converted to members.
    Linear,
    /// A copy of a chunk lies at another place from now on, where it is like one that is current.
    Moved {
        /// The chunk.
        chunk: u32,
        /// Which of its copies.
        copy: u8,
        /// Where it lies now.
        to: Place,
    },
    /// Whether a member is to have no copies any more.
    Leaving {
        /// The member.
        member: u16,
        /// Its copies are to be moved to others, and none to it.
        is_leaving: bool,
    },
    /// Whether members are to be filled evenly.
    Balance {
        /// Copies are to be moved until they are.
        is_wanted: bool,
    },
    /// Where a member's node is.
    Address {
        /// The member.
        member: u16,
        /// `host:port`, 1 to [`ADDRESS_BYTES_MAX`](super::ADDRESS_BYTES_MAX) bytes.
        address: String,
        /// The member was not added: a configuration named it first.
        is_seed: bool,
    },
    /// Whether a member that was added has yet to show that its extent may be used.
    Joining {
        /// The member.
        member: u16,
        /// It gets no copies yet.
        is_joining: bool,
        /// It will once its extent is known, whatever that holds. Only if it is joining.
        overwrites: bool,
    },
    /// A member without copies is removed.
    Gone {
        /// The member.
        member: u16,
    },
    /// Clients may use so many chunks. Others were appended, and mirrors may lack them.
    Shown {
        /// At least as many as before.
        chunks: u32,
    },
    /// The volume has so many chunks from now on. The slots of the others are free.
    Shrunk {
        /// From 1 to as many as there were.
        chunks: u32,
    },
    /// Whether the end of the map was dropped, as it was damaged, and the decisions there may have had effect: see [`MapImage::cut`](super::MapImage::cut).
    Cut {
        /// Nodes are waited for that may know of them.
        is_cut: bool,
    },
}

listed! {
    /// The kind of a record, by its first byte.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Kind {
        Begin = 1 => "begin",
        Member = 2 => "member",
        Places = 3 => "places",
        Epoch = 4 => "epoch",
        Boot = 5 => "boot",
        Marks = 6 => "marks",
        Loss = 7 => "loss",
        Extent = 8 => "extent",
        Seen = 9 => "seen",
        Home = 10 => "home",
        Told = 11 => "told",
        Start = 12 => "start",
        Linear = 13 => "linear",
        Moved = 14 => "moved",
        Leaving = 15 => "leaving",
        Balance = 16 => "balance",
        Address = 17 => "address",
        Joining = 18 => "joining",
        Gone = 19 => "gone",
        Shown = 20 => "shown",
        Shrunk = 21 => "shrunk",
        Cut = 22 => "cut",
    }
}

const MARKS_OPEN: u8 = 1;
const MARKS_TORN: u8 = 2;

impl Record {
    /// Records that set the marks of chunks, given in ascending order: one for each run of neighbours with equal marks.
    pub fn of_marks(marks: impl IntoIterator<Item = (u32, Marks)>) -> Vec<Record> {
        let mut runs: Vec<(u32, u32, Marks)> = Vec::new();
        for (chunk, marks) in marks {
            match runs.last_mut().filter(|run| run.0 + run.1 == chunk && run.2 == marks) {
                Some(run) => run.1 += 1,
                None => runs.push((chunk, 1, marks)),
            }
        }
        runs.into_iter().map(|(first_chunk, count, marks)| Record::Marks { first_chunk, count, marks }).collect()
    }

    fn kind(&self) -> Kind {
        match self {
            Record::Begin { .. } => Kind::Begin,
            Record::Member { .. } => Kind::Member,
            Record::Places { .. } => Kind::Places,
            Record::Epoch { .. } => Kind::Epoch,
            Record::Boot { .. } => Kind::Boot,
            Record::Marks { .. } => Kind::Marks,
            Record::Loss { .. } => Kind::Loss,
            Record::Extent { .. } => Kind::Extent,
            Record::Seen { .. } => Kind::Seen,
            Record::Start { .. } => Kind::Start,
            Record::Home { .. } => Kind::Home,
            Record::Told { .. } => Kind::Told,
            Record::Linear => Kind::Linear,
            Record::Moved { .. } => Kind::Moved,
            Record::Leaving { .. } => Kind::Leaving,
            Record::Balance { .. } => Kind::Balance,
            Record::Address { .. } => Kind::Address,
            Record::Joining { .. } => Kind::Joining,
            Record::Gone { .. } => Kind::Gone,
            Record::Shown { .. } => Kind::Shown,
            Record::Shrunk { .. } => Kind::Shrunk,
            Record::Cut { .. } => Kind::Cut,
        }
    }

    /// The name of the record's kind, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Appends the record's bytes. A record that no image accepts may be appended cut short.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind() as u8);
        match self {
            Record::Begin { map_id, chunk_bytes, copies, chunks, version } => {
                out.extend_from_slice(map_id);
                out.extend_from_slice(&chunk_bytes.to_le_bytes());
                out.push(*copies);
                out.extend_from_slice(&chunks.to_le_bytes());
                out.extend_from_slice(&version.to_le_bytes());
            }
            Record::Member { number, extent_id, size_bytes, domain } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(extent_id);
                out.extend_from_slice(&size_bytes.to_le_bytes());
                put_text(out, domain);
            }
            Record::Places { first_chunk, places } => {
                let places = &places[..places.len().min(PLACES_MAX)];
                out.extend_from_slice(&first_chunk.to_le_bytes());
                out.extend_from_slice(&(places.len() as u32).to_le_bytes());
                for place in places {
                    out.extend_from_slice(&place.member.to_le_bytes());
                    out.extend_from_slice(&place.slot.to_le_bytes());
                }
            }
            Record::Epoch { epoch, nonce } => {
                out.extend_from_slice(&epoch.to_le_bytes());
                out.extend_from_slice(&nonce.to_le_bytes());
            }
            Record::Start { epoch, nonce, version } => {
                out.extend_from_slice(&epoch.to_le_bytes());
                out.extend_from_slice(&nonce.to_le_bytes());
                out.extend_from_slice(&version.to_le_bytes());
            }
            Record::Boot { member, boot_id } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.extend_from_slice(boot_id);
            }
            Record::Marks { first_chunk, count, marks } => {
                out.extend_from_slice(&first_chunk.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
                let open = if marks.is_open { MARKS_OPEN } else { 0 };
                let flags = open | if marks.is_torn { MARKS_TORN } else { 0 };
                out.extend_from_slice(&[flags, marks.behind, marks.doubtful]);
            }
            Record::Loss { count } | Record::Told { count } => out.extend_from_slice(&count.to_le_bytes()),
            Record::Extent { member, extent_id, size_bytes } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.extend_from_slice(extent_id);
                out.extend_from_slice(&size_bytes.to_le_bytes());
            }
            Record::Seen { member, epoch, version } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.extend_from_slice(&epoch.to_le_bytes());
                out.extend_from_slice(&version.to_le_bytes());
            }
            Record::Home { home } => out.extend_from_slice(home),
            Record::Linear => {}
            Record::Moved { chunk, copy, to } => {
                out.extend_from_slice(&chunk.to_le_bytes());
                out.push(*copy);
                out.extend_from_slice(&to.member.to_le_bytes());
                out.extend_from_slice(&to.slot.to_le_bytes());
            }
            Record::Leaving { member, is_leaving } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.push(u8::from(*is_leaving));
            }
            Record::Balance { is_wanted: flag } | Record::Cut { is_cut: flag } => out.push(u8::from(*flag)),
            Record::Address { member, address, is_seed } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.push(u8::from(*is_seed));
                put_text(out, address);
            }
            Record::Joining { member, is_joining, overwrites } => {
                out.extend_from_slice(&member.to_le_bytes());
                out.push(if *is_joining { 1 + u8::from(*overwrites) } else { 0 });
            }
            Record::Gone { member } => out.extend_from_slice(&member.to_le_bytes()),
            Record::Shown { chunks } | Record::Shrunk { chunks } => out.extend_from_slice(&chunks.to_le_bytes()),
        }
    }

    /// Reads a record off the front of `fields`. Whether it fits an image is not checked here.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Record, MapError> {
        let kind = fields.u8().map_err(malformed)?;
        let kind = Kind::from_wire(kind).ok_or(MapError::Malformed("record: unknown kind"))?;
        let record = Record::decode_fields(kind, fields).map_err(malformed)?;
        match record {
            Some(record) => Ok(record),
            None => Err(MapError::Malformed("record: a field out of range")),
        }
    }

    /// `None` for a field with a value that has no meaning.
    fn decode_fields(kind: Kind, fields: &mut Fields<'_>) -> Result<Option<Record>, WireError> {
        Ok(Some(match kind {
            Kind::Begin => Record::Begin {
                map_id: fields.array()?,
                chunk_bytes: fields.u64()?,
                copies: fields.u8()?,
                chunks: fields.u32()?,
                version: fields.u64()?,
            },
            Kind::Member => Record::Member {
                number: fields.u16()?,
                extent_id: fields.array()?,
                size_bytes: fields.u64()?,
                domain: fields.text()?,
            },
            Kind::Places => {
                let (first_chunk, count) = (fields.u32()?, fields.u32()? as usize);
                if count > PLACES_MAX {
                    return Ok(None);
                }
                let mut bytes = Fields::new(fields.bytes(6 * count)?, "places");
                let mut places = Vec::with_capacity(count);
                while !bytes.is_empty() {
                    places.push(Place { member: bytes.u16()?, slot: bytes.u32()? });
                }
                Record::Places { first_chunk, places }
            }
            Kind::Epoch => Record::Epoch { epoch: fields.u64()?, nonce: fields.u64()? },
            Kind::Start => Record::Start { epoch: fields.u64()?, nonce: fields.u64()?, version: fields.u64()? },
            Kind::Boot => Record::Boot { member: fields.u16()?, boot_id: fields.array()? },
            Kind::Marks => {
                let (first_chunk, count, flags) = (fields.u32()?, fields.u32()?, fields.u8()?);
                let (is_open, is_torn) = (flags & MARKS_OPEN != 0, flags & MARKS_TORN != 0);
                let marks = Marks { is_open, is_torn, behind: fields.u8()?, doubtful: fields.u8()? };
                if flags & !(MARKS_OPEN | MARKS_TORN) != 0 {
                    return Ok(None);
                }
                Record::Marks { first_chunk, count, marks }
            }
            Kind::Loss => Record::Loss { count: fields.u64()? },
            Kind::Told => Record::Told { count: fields.u64()? },
            Kind::Extent => {
                Record::Extent { member: fields.u16()?, extent_id: fields.array()?, size_bytes: fields.u64()? }
            }
            Kind::Seen => Record::Seen { member: fields.u16()?, epoch: fields.u64()?, version: fields.u64()? },
            Kind::Home => Record::Home { home: fields.array()? },
            Kind::Linear => Record::Linear,
            Kind::Moved => Record::Moved {
                chunk: fields.u32()?,
                copy: fields.u8()?,
                to: Place { member: fields.u16()?, slot: fields.u32()? },
            },
            Kind::Leaving => {
                let (member, flag) = (fields.u16()?, fields.u8()?);
                return Ok((flag <= 1).then_some(Record::Leaving { member, is_leaving: flag == 1 }));
            }
            Kind::Balance => {
                let flag = fields.u8()?;
                return Ok((flag <= 1).then_some(Record::Balance { is_wanted: flag == 1 }));
            }
            Kind::Address => {
                let (member, flag, address) = (fields.u16()?, fields.u8()?, fields.text()?);
                return Ok((flag <= 1).then_some(Record::Address { member, address, is_seed: flag == 1 }));
            }
            Kind::Joining => {
                let (member, flag) = (fields.u16()?, fields.u8()?);
                let joining = Record::Joining { member, is_joining: flag > 0, overwrites: flag == 2 };
                return Ok((flag <= 2).then_some(joining));
            }
            Kind::Gone => Record::Gone { member: fields.u16()? },
            Kind::Shown => Record::Shown { chunks: fields.u32()? },
            Kind::Shrunk => Record::Shrunk { chunks: fields.u32()? },
            Kind::Cut => {
                let flag = fields.u8()?;
                return Ok((flag <= 1).then_some(Record::Cut { is_cut: flag == 1 }));
            }
        }))
    }
}

fn malformed(_: WireError) -> MapError {
    MapError::Malformed("record: cut short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::testing::any_record;
    use proptest::prelude::*;

    fn encoded(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn records_round_trip_and_are_wanted_whole(record in any_record(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&record);
            let mut fields = Fields::new(&bytes, "record");
            prop_assert_eq!(Record::decode(&mut fields), Ok(record));
            prop_assert!(fields.is_empty());
            let cut = &bytes[..cut.index(bytes.len())];
            prop_assert!(Record::decode(&mut Fields::new(cut, "record")).is_err());
        }

        #[test]
        fn garbage_never_panics(kind in 0u8..23, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&[kind][..], &bytes].concat();
            let _ = Record::decode(&mut Fields::new(&bytes, "record"));
        }
    }

    #[test]
    fn places_are_bounded_before_memory_is_taken() {
        for (count, is_ok) in [(PLACES_MAX - 1, true), (PLACES_MAX, true), (PLACES_MAX + 1, false)] {
            let mut bytes = vec![Kind::Places as u8, 0, 0, 0, 0];
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
            bytes.resize(bytes.len() + 6 * count, 0);
            assert_eq!(Record::decode(&mut Fields::new(&bytes, "record")).is_ok(), is_ok, "{count}");
        }
        let mut huge = vec![Kind::Places as u8, 0, 0, 0, 0];
        huge.extend_from_slice(&u32::MAX.to_le_bytes());
        assert!(Record::decode(&mut Fields::new(&huge, "record")).is_err());
    }

    #[test]
    fn unknown_kinds_and_flags_are_refused() {
        assert!(Record::decode(&mut Fields::new(&[0; 60], "record")).is_err());
        assert!(Record::decode(&mut Fields::new(&[23; 60], "record")).is_err());
        let mut bytes = encoded(&Record::Marks { first_chunk: 0, count: 1, marks: Marks::default() });
        assert!(Record::decode(&mut Fields::new(&bytes, "record")).is_ok());
        bytes[9] = 4;
        assert!(Record::decode(&mut Fields::new(&bytes, "record")).is_err());
        for (bytes, is_ok) in [
            (&[15, 3, 0, 0][..], true),
            (&[15, 3, 0, 1], true),
            (&[15, 3, 0, 2], false),
            (&[16, 1], true),
            (&[16, 2], false),
            (&[18, 3, 0, 1], true),
            (&[18, 3, 0, 2], true),
            (&[18, 3, 0, 3], false),
            (&[17, 3, 0, 1, 1, 0, 97], true),
            (&[17, 3, 0, 2, 1, 0, 97], false),
            (&[22, 0], true),
            (&[22, 1], true),
            (&[22, 2], false),
        ] {
            assert_eq!(Record::decode(&mut Fields::new(bytes, "record")).is_ok(), is_ok, "{bytes:?}");
        }
    }
}
