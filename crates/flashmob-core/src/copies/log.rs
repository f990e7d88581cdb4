//! The map's file: a snapshot, then batches of the records that followed it. docs/map-format.md has the byte tables.
//!
//! A batch is the unit of atomicity: it is applied whole, or not at all. Each record behind the snapshot has a number,
//! which is the image's version once it is applied.

use super::load::Loader;
use super::{BATCH_BYTES_MAX, MapError, MapImage, Record, ReplayError};
use crate::checksum::checksum_of_two;
use crate::enums::listed;
use crate::wire::frame::Fields;

/// First four bytes of every batch: "FMap".
const MAGIC: [u8; 4] = *b"FMap";
/// Version of the format. A file of another version is refused; the error names both.
pub(super) const VERSION: u8 = 1;
/// Bytes of a batch's header.
const HEADER_BYTES: usize = 24;
/// Where the checksum lies in the header. It covers the header before it, and the records.
const CHECKSUM_AT: usize = 20;
/// Most bytes that the search behind a damaged batch takes checksums of. A map that was written by this code needs far
/// less.
const SEARCH_BYTES_MAX: usize = 64 * BATCH_BYTES_MAX;

listed! {
    /// What a batch is a part of.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Part {
        /// The snapshot, which goes on in the next batch.
        Snapshot = 1,
        /// The end of the snapshot.
        SnapshotEnd = 2,
        /// Records that came after the snapshot.
        Changes = 3,
    }
}

/// The records do not fit one batch, so they cannot be applied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes of records do not fit a batch of {BATCH_BYTES_MAX}")]
pub struct BatchTooLarge(pub usize);

/// A map that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The image after the last record.
    pub image: MapImage,
    /// Bytes of all whole batches: where the next one belongs.
    pub valid_bytes: u64,
    /// Bytes behind them, of a batch that was never written whole. They are to be cut off.
    pub torn_bytes: u64,
    /// Bytes of the snapshot that the file begins with.
    pub snapshot_bytes: u64,
    /// How many records there are, those of the snapshot included.
    pub records: u64,
    /// How many batches there are.
    pub batches: u64,
}

/// Appends a batch of records that are applied together. The first has number `first_number`: one more than the version
/// of the image before it. Without records nothing is appended. On an error `out` is as before.
pub fn encode_batch(out: &mut Vec<u8>, first_number: u64, records: &[Record]) -> Result<(), BatchTooLarge> {
    if records.is_empty() {
        return Ok(());
    }
    let start = begin_batch(out, Part::Changes, first_number);
    for record in records {
        record.encode(out);
        let len_bytes = out.len() - start;
        if len_bytes > BATCH_BYTES_MAX {
            out.truncate(start);
            return Err(BatchTooLarge(len_bytes));
        }
    }
    end_batch(out, start);
    Ok(())
}

/// The bytes of a file that begins with this image. The next record has the number `image.version() + 1`.
#[must_use]
pub fn encode_snapshot(image: &MapImage) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = Vec::new();
    let mut start = begin_batch(&mut out, Part::Snapshot, 0);
    for (number, record) in (0u64..).zip(image.snapshot()) {
        bytes.clear();
        record.encode(&mut bytes);
        // No record of an image comes near the limit by itself.
        if out.len() - start + bytes.len() > BATCH_BYTES_MAX {
            end_batch(&mut out, start);
            start = begin_batch(&mut out, Part::Snapshot, number);
        }
        out.extend_from_slice(&bytes);
    }
    if let Some(part) = out.get_mut(start + MAGIC.len() + 1) {
        *part = Part::SnapshotEnd as u8;
    }
    end_batch(&mut out, start);
    out
}

/// Appends a header whose length and checksum are still missing. Returns where it begins.
fn begin_batch(out: &mut Vec<u8>, part: Part, first_number: u64) -> usize {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, part as u8, 0, 0]);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&first_number.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    start
}

/// Completes the header of the batch that begins at `start` and ends at the end.
fn end_batch(out: &mut [u8], start: usize) {
    let Some((header, records)) = out.get_mut(start..).and_then(|batch| batch.split_at_mut_checked(HEADER_BYTES))
    else {
        return;
    };
    // At most BATCH_BYTES_MAX.
    header[8..12].copy_from_slice(&(records.len() as u32).to_le_bytes());
    let sum = checksum_of_two(&header[..CHECKSUM_AT], records);
    header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// A batch in a file.
#[derive(Debug, Clone, Copy)]
struct Batch<'a> {
    part: Part,
    first_number: u64,
    /// The header up to its checksum.
    header: &'a [u8],
    records: &'a [u8],
    sum: u32,
}

impl<'a> Batch<'a> {
    /// The batch that `bytes` begins with, if it is there whole.
    fn decode(bytes: &'a [u8]) -> Option<Batch<'a>> {
        Batch::parse(bytes).filter(Batch::is_undamaged)
    }

    /// The same without a look at the checksum.
    fn parse(bytes: &'a [u8]) -> Option<Batch<'a>> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let mut fields = Fields::new(header, "batch");
        let is_ours = fields.array().ok()? == MAGIC && fields.u8().ok()? == VERSION;
        let part = Part::from_wire(fields.u8().ok()?)?;
        let zero = fields.u16().ok()?;
        let len_bytes = fields.u32().ok()? as usize;
        let (first_number, sum) = (fields.u64().ok()?, fields.u32().ok()?);
        if !is_ours || zero != 0 || len_bytes == 0 || len_bytes > BATCH_BYTES_MAX - HEADER_BYTES {
            return None;
        }
        Some(Batch { part, first_number, header: &header[..CHECKSUM_AT], records: rest.get(..len_bytes)?, sum })
    }

    fn is_undamaged(&self) -> bool {
        checksum_of_two(self.header, self.records) == self.sum
    }

    fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.records.len()
    }

    /// Calls `take` with each record and the byte of the batch at which it begins, until one is refused. Returns how
    /// many there are.
    fn each(&self, mut take: impl FnMut(&Record) -> Result<(), MapError>) -> Result<u64, BadRecord> {
        let mut fields = Fields::new(self.records, "records");
        let mut count = 0;
        while !fields.is_empty() {
            let at_bytes = self.len_bytes() - fields.len();
            Record::decode(&mut fields).and_then(|record| take(&record)).map_err(|source| BadRecord {
                index: count,
                at_bytes,
                source,
            })?;
            count += 1;
        }
        Ok(count)
    }
}

/// A record that does not fit.
struct BadRecord {
    /// Which of its batch.
    index: u64,
    /// Where it begins in its batch.
    at_bytes: usize,
    source: MapError,
}

impl BadRecord {
    fn error(self, first_number: u64, offset_bytes: usize) -> ReplayError {
        let record = first_number.saturating_add(self.index);
        ReplayError::Record { record, offset_bytes: (offset_bytes + self.at_bytes) as u64, source: self.source }
    }
}

/// Reads a map's file.
///
/// What follows the last whole batch is a torn tail, and is left out: if it is no longer than a batch and has no whole
/// one anywhere in it, it can only be the batch that was being written when the power failed. Any other damage is an
/// error.
pub fn replay(bytes: &[u8]) -> Result<Replayed, ReplayError> {
    let (mut image, snapshot_bytes, mut batches, mut records) = read_snapshot(bytes)?;
    let mut offset_bytes = snapshot_bytes;
    let mut rest = bytes.get(offset_bytes..).unwrap_or_default();
    while !rest.is_empty() {
        let expected = image.version().saturating_add(1);
        let Some(batch) = Batch::decode(rest) else {
            let whole = |bytes: &[u8]| Batch::parse(bytes).map(|batch| (batch.len_bytes(), batch.is_undamaged()));
            if is_torn(rest, &MAGIC, BATCH_BYTES_MAX, whole) {
                break;
            }
            return Err(ReplayError::Damaged { record: expected, offset_bytes: offset_bytes as u64 });
        };
        if batch.part != Part::Changes {
            return Err(ReplayError::Damaged { record: expected, offset_bytes: offset_bytes as u64 });
        }
        let found = batch.first_number;
        if found != expected {
            return Err(ReplayError::Gap { expected, found, offset_bytes: offset_bytes as u64 });
        }
        let applied = batch.each(|record| image.apply(record));
        records += applied.map_err(|bad| bad.error(expected, offset_bytes))?;
        batches += 1;
        offset_bytes += batch.len_bytes();
        rest = rest.get(batch.len_bytes()..).unwrap_or_default();
    }
    Ok(Replayed {
        image,
        valid_bytes: offset_bytes as u64,
        torn_bytes: rest.len() as u64,
        snapshot_bytes: snapshot_bytes as u64,
        records,
        batches,
    })
}

/// Whether bytes behind the last whole batch, which have at most `most_bytes`, are one that was not written whole. `parse` gives the length of the batch
/// that bytes begin with, if all of it is there, and whether it is undamaged.
pub(super) fn is_torn(
    rest: &[u8],
    magic: &[u8; 4],
    most_bytes: usize,
    parse: impl Fn(&[u8]) -> Option<(usize, bool)>,
) -> bool {
    if rest.len() > most_bytes {
        return false;
    }
    let mut budget_bytes = SEARCH_BYTES_MAX;
    for start in 1..rest.len() {
        let behind = rest.get(start..).unwrap_or_default();
        let Some((len_bytes, is_undamaged)) = Some(behind).filter(|behind| behind.starts_with(magic)).and_then(&parse)
        else {
            continue;
        };
        // Without a budget, bytes that were made for it could take minutes. It is never wrong to refuse.
        let Some(left_bytes) = budget_bytes.checked_sub(len_bytes) else { return false };
        if is_undamaged {
            return false;
        }
        budget_bytes = left_bytes;
    }
    true
}

/// The identity and the version of the map that a snapshot shows, by its first record; `None` if it begins with none.
#[must_use]
pub fn identity_of(snapshot: &[u8]) -> Option<([u8; 16], u64)> {
    let batch = Batch::parse(snapshot).filter(|batch| batch.part != Part::Changes)?;
    match Record::decode(&mut Fields::new(batch.records, "records")).ok()? {
        Record::Begin { map_id, version, .. } => Some((map_id, version)),
        _ => None,
    }
}

/// Reads the snapshot. Returns its image, and how many bytes, batches and records it has.
fn read_snapshot(bytes: &[u8]) -> Result<(MapImage, usize, u64, u64), ReplayError> {
    if bytes.is_empty() {
        return Err(ReplayError::Empty);
    }
    match bytes.strip_prefix(&MAGIC) {
        None => return Err(ReplayError::NotAMap),
        Some([version, ..]) if *version != VERSION => return Err(ReplayError::Version(*version)),
        Some(_) => {}
    }
    let mut loader = Loader::default();
    let (mut offset_bytes, mut batches, mut records) = (0, 0, 0);
    loop {
        let rest = bytes.get(offset_bytes..).unwrap_or_default();
        let is_next = |batch: &Batch<'_>| batch.part != Part::Changes && batch.first_number == records;
        let Some(batch) = Batch::decode(rest).filter(is_next) else {
            return Err(ReplayError::Snapshot { record: records, offset_bytes: offset_bytes as u64 });
        };
        let added = batch.each(|record| loader.add(record));
        records += added.map_err(|bad| bad.error(records, offset_bytes))?;
        offset_bytes += batch.len_bytes();
        batches += 1;
        if batch.part == Part::SnapshotEnd {
            let incomplete =
                |source| ReplayError::Record { record: records, offset_bytes: offset_bytes as u64, source };
            let image = loader.finish().map_err(incomplete)?;
            return Ok((image, offset_bytes, batches, records));
        }
    }
}

#[cfg(test)]
#[path = "tests/log.rs"]
mod tests;
