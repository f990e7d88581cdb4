//! A twin of a node's storage: what a reader sees now, and what would be left if the power failed.
//!
//! Operations take time and end out of order. A write reaches the live bytes when it begins or when it ends; the
//! flash it reaches for sure only by a flush that began afterwards, or at once with FUA. It must do nothing that a real disk
//! would not do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flashmob_core::checksum::checksum;
use flashmob_core::node::{FailedSyncs, StoreDone, StoreOp, TryRead};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::planted::{self, Bug};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::{
    Corrupt, DIGEST_BLOCK_BYTES, expected_of, is_mark, mark_of, put_corrupt, put_digest, put_expected,
};
use flashmob_core::wire::map::MapWriter;
use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

/// The unit that flash writes atomically, in bytes: torn writes are torn at its boundaries.
const SECTOR_BYTES: u64 = 512;

/// What has a checksum.
pub(super) const BLOCK_BYTES: u64 = DIGEST_BLOCK_BYTES as u64;

/// How a store behaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreQuality {
    /// The shortest time that an operation takes, in nanoseconds.
    pub base_ns: u64,
    /// How much longer it may take, in nanoseconds.
    pub jitter_ns: u64,
    /// How often a read is found in memory.
    pub hit_rate: f64,
    /// How often an operation fails while the store is ill.
    pub error_rate: f64,
}

/// A run of bytes that changed: where, what was there, what is there.
pub(super) type Changed = (u64, Vec<u8>, Vec<u8>);

#[derive(Debug)]
struct Unflushed {
    serial: u64,
    offset: u64,
    data: Vec<u8>,
}

#[derive(Debug)]
struct Flight {
    op: StoreOp,
    started: Time,
    /// Reaches the live bytes (or, for a read, is taken from them) when it begins, not when it ends.
    is_early: bool,
    fails: bool,
    /// A sync failed before: nothing happens.
    is_refused: bool,
    is_corrupt: bool,
    /// A flush covers all writes below it.
    serial: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    pub quality: StoreQuality,
    /// How many times longer everything takes.
    pub slowness: u64,
    /// Operations fail now and then until this time.
    pub ill_until: Time,
    /// Until this time flushes and FUA are confirmed and not done.
    pub lies_until: Time,
    /// Nothing ends before this time.
    pub stalled_until: Time,
    /// Flushes that begin before this time do not end before it.
    pub flushes_slow_until: Time,
    /// Flushes and FUA fail, and what they did not write counts as written.
    pub syncs_fail: bool,
    /// One has failed: the process lets none succeed any more.
    pub is_sync_broken: bool,
    /// What the process has recorded of that.
    pub recorded: FailedSyncs,
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Blocks whose bytes do not match their checksums.
    corrupt: BTreeSet<u64>,
    /// Those that would be so after a loss of power.
    durable_corrupt: BTreeSet<u64>,
    /// CRC-32 that the bytes of corrupt blocks should have. Others are of no use.
    expected: BTreeMap<u64, u32>,
    /// Those of them that are right in memory and count as written, as the sync of that failed.
    unwritten: BTreeSet<u64>,
    /// Bits that have flipped on the flash under pages that are right: by block, the byte and the bits.
    cold: BTreeMap<u64, (usize, u8)>,
    /// What blocks had before they were last changed.
    older: BTreeMap<u64, Vec<u8>>,
    /// Blocks that were written again because the flash had other bytes than the page cache.
    pub rewritten: u64,
    /// Blocks that were marked as unreadable.
    pub marked: u64,
    /// It keeps checksums.
    pub has_sums: bool,
    /// The age of the extent, which is stored with them.
    pub age: Option<(u64, u64)>,
    unflushed: Vec<Unflushed>,
    next_serial: u64,
    flights: Vec<Option<Flight>>,
}

impl Store {
    pub fn new(content: Vec<u8>, quality: StoreQuality) -> Store {
        Store {
            quality,
            slowness: 1,
            ill_until: Time::default(),
            lies_until: Time::default(),
            stalled_until: Time::default(),
            flushes_slow_until: Time::default(),
            syncs_fail: false,
            is_sync_broken: false,
            recorded: FailedSyncs::default(),
            durable: content.clone(),
            live: content,
            corrupt: BTreeSet::new(),
            durable_corrupt: BTreeSet::new(),
            expected: BTreeMap::new(),
            unwritten: BTreeSet::new(),
            cold: BTreeMap::new(),
            older: BTreeMap::new(),
            rewritten: 0,
            marked: 0,
            has_sums: false,
            age: None,
            unflushed: Vec::new(),
            next_serial: 0,
            flights: Vec::new(),
        }
    }

    /// A store with what is on the flash of this one.
    pub fn copied(&self) -> Store {
        let mut store = Store::new(self.durable.clone(), self.quality.clone());
        (store.slowness, store.has_sums, store.age) = (self.slowness, self.has_sums, self.age);
        let corrupt: BTreeSet<u64> = self.durable_corrupt.iter().chain(self.cold.keys()).copied().collect();
        (store.corrupt, store.durable_corrupt) = (corrupt.clone(), corrupt);
        store.expected.clone_from(&self.expected);
        store
    }

    /// A store with what a reader of this one sees, as if that were on the flash.
    pub fn copied_live(&self) -> Store {
        let mut store = Store::new(self.live.clone(), self.quality.clone());
        (store.slowness, store.has_sums, store.age) = (self.slowness, self.has_sums, self.age);
        (store.corrupt, store.durable_corrupt) = (self.corrupt.clone(), self.corrupt.clone());
        store.expected.clone_from(&self.expected);
        store
    }

    pub fn live(&self) -> &[u8] {
        &self.live
    }

    /// What would be left if the power failed now and took all that is not flushed.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Puts bytes there, before anything happens.
    pub fn fill(&mut self, offset: u64, bytes: &[u8]) {
        let range = offset as usize..offset as usize + bytes.len();
        self.live[range.clone()].copy_from_slice(bytes);
        self.durable[range].copy_from_slice(bytes);
    }

    /// Bits of a block flip, in memory and on the flash.
    pub fn rot(&mut self, rng: &mut SmallRng, in_holes: bool) {
        let at = rng.random_range(0..self.live.len());
        let flip = 1 << rng.random_range(0..8);
        if !in_holes && self.block(at as u64 / BLOCK_BYTES).iter().all(|byte| *byte == 0) {
            return;
        }
        self.flip(at, flip);
    }

    fn flip(&mut self, at: usize, flip: u8) {
        let block = at as u64 / BLOCK_BYTES;
        self.expect(block);
        self.live[at] ^= flip;
        self.durable[at] ^= flip;
        self.corrupt.insert(block);
        self.durable_corrupt.insert(block);
    }

    /// A bit of a block flips, in memory and on the flash, if all of the block is there and it is no hole. False if not.
    pub fn rot_block(&mut self, block: u64, byte: usize, flip: u8) -> bool {
        let is_struck = self.is_settled(block) && self.block(block).iter().any(|byte| *byte != 0);
        if is_struck {
            self.flip(self.block_range(block).start + byte, flip);
        }
        is_struck
    }

    /// Takes the bytes of a block for those that it should have from now on, unless it is corrupt.
    fn expect(&mut self, block: u64) {
        if !self.corrupt.contains(&block) {
            let sum = checksum(self.block(block));
            self.expected.insert(block, sum);
        }
    }

    /// A corrupt block, as the store knows it.
    fn corrupt_of(&self, block: u64) -> Corrupt {
        let expected = self.expected.get(&block).copied().unwrap_or_default();
        Corrupt { expected, is_marked: is_mark(self.block(block), expected) }
    }

    /// A bit flips on the flash alone, under a page that stays in memory until the power fails. Nothing happens where the flash lacks something.
    pub fn rot_cold(&mut self, rng: &mut SmallRng) {
        let at = rng.random_range(0..self.live.len());
        let (block, flip) = (at as u64 / BLOCK_BYTES, 1 << rng.random_range(0..8));
        if self.is_settled(block) {
            self.expect(block);
            self.durable[at] ^= flip;
            self.cold.insert(block, (at, flip));
        }
    }

    /// A write lands in the place of another block, and is missing in its own.
    pub fn misdirect(&mut self, rng: &mut SmallRng) {
        let blocks = self.live.len() as u64 / BLOCK_BYTES;
        let (from, to) = (rng.random_range(0..blocks), rng.random_range(0..blocks));
        if from == to || !self.is_settled(from) || !self.is_settled(to) {
            return;
        }
        self.expect(from);
        self.expect(to);
        let bytes = self.block(from).to_vec();
        self.replace_block(to, &bytes);
        let mut struck = vec![to];
        if let Some(older) = self.older.get(&from).cloned() {
            self.replace_block(from, &older);
            struck.push(from);
        }
        self.corrupt.extend(&struck);
        self.durable_corrupt.extend(&struck);
    }

    /// A block turns into what it was before it was last changed, checksum and all: the flash has lost that write. Returns the block, if there
    /// is one that has changed.
    pub fn lose_write(&mut self, rng: &mut SmallRng) -> Option<u64> {
        let has_changed =
            |&(&block, older): &(&u64, &Vec<u8>)| self.is_settled(block) && self.block(block) != &older[..];
        let changed: Vec<u64> = self.older.iter().filter(has_changed).map(|(&block, _)| block).collect();
        let block = *changed.get(rng.random_range(0..changed.len().max(1)))?;
        let older = self.older[&block].clone();
        self.replace_block(block, &older);
        Some(block)
    }

    fn block_range(&self, block: u64) -> std::ops::Range<usize> {
        let at = (block * BLOCK_BYTES) as usize;
        at..self.live.len().min(at + BLOCK_BYTES as usize)
    }

    /// The bytes of a block.
    pub fn block(&self, block: u64) -> &[u8] {
        &self.live[self.block_range(block)]
    }

    fn replace_block(&mut self, block: u64, bytes: &[u8]) {
        let range = self.block_range(block);
        self.live[range.clone()].copy_from_slice(bytes);
        self.durable[range].copy_from_slice(bytes);
    }

    /// Whether all of a block is on the flash, and right.
    pub fn is_settled(&self, block: u64) -> bool {
        let is_of = |u: &Unflushed| Store::blocks(u.offset, u.data.len() as u64).contains(&block);
        let is_bad = self.corrupt.contains(&block) || self.durable_corrupt.contains(&block);
        !is_bad && !self.cold.contains_key(&block) && !self.unflushed.iter().any(is_of)
    }

    /// The page of a block is written again: the flash has the right bytes.
    fn rewrite(&mut self, block: u64) {
        if let Some((at, flip)) = self.cold.remove(&block) {
            self.durable[at] ^= flip;
        }
    }

    /// Whether a byte does not match its checksum, or would not after a loss of power.
    pub fn is_rotten(&self, at: u64) -> bool {
        let block = at / BLOCK_BYTES;
        self.corrupt.contains(&block) || self.durable_corrupt.contains(&block) || self.cold.contains_key(&block)
    }

    fn blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
        offset / BLOCK_BYTES..(offset + len).div_ceil(BLOCK_BYTES)
    }

    fn is_corrupt(&self, offset: u64, len: u64) -> bool {
        self.corrupt.range(Store::blocks(offset, len)).next().is_some()
    }

    /// Whether an operation would need the bytes of a corrupt block: a read, or a change of a part of it.
    fn hits_corrupt(&self, op: &StoreOp) -> bool {
        let (from, end) = (op.offset_bytes, op.offset_bytes + u64::from(op.len_bytes));
        let is_hit = |&block: &u64| match op.op {
            // A mark has no bytes that could be the right ones.
            Op::Read => !op.flags.has(OpFlags::UNVERIFIED) || self.corrupt_of(block).is_marked,
            Op::Write | Op::WriteZeroes | Op::Trim => !heals(block, from, end - from),
            Op::Flush | Op::Digest | Op::Map => false,
        };
        self.corrupt.range(Store::blocks(from, end - from)).any(is_hit)
    }

    pub fn try_read(&self, rng: &mut SmallRng, offset: u64, into: &mut [u8]) -> TryRead {
        if self.is_corrupt(offset, into.len() as u64) {
            return TryRead::Miss;
        }
        if !rng.random_bool(self.quality.hit_rate) {
            return TryRead::Miss;
        }
        match self.live.get(offset as usize..offset as usize + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                TryRead::Hit
            }
            None => TryRead::Failed(Failure::Io),
        }
    }

    /// Writes at once, until chance says that it would have to wait. Extents with checksums never do. Returns how many are written.
    pub fn try_writes<'w>(
        &mut self,
        now: Time,
        rng: &mut SmallRng,
        writes: impl Iterator<Item = (u64, &'w [u8])>,
    ) -> usize {
        let (hit_rate, is_well) = (self.quality.hit_rate, now >= self.ill_until && now >= self.stalled_until);
        if self.has_sums || !is_well || hit_rate == 0.0 {
            return 0;
        }
        let mut written = 0;
        for (offset_bytes, bytes) in writes {
            let (flags, len_bytes) = (OpFlags::NONE, bytes.len() as u32);
            let mut op = StoreOp { id: 0, op: Op::Write, flags, offset_bytes, len_bytes, data: bytes.to_vec() };
            if !rng.random_bool(hit_rate) || !self.apply(rng, &mut op) {
                break;
            }
            written += 1;
        }
        written
    }

    /// Begins an operation. Returns what [`Store::finish`] needs, and when to call it.
    pub fn start(&mut self, now: Time, rng: &mut SmallRng, mut op: StoreOp) -> (usize, Time) {
        let fails = now < self.ill_until && rng.random_bool(self.quality.error_rate);
        let is_early = rng.random_bool(0.5);
        let is_flush = op.op == Op::Flush;
        let jitter = if self.quality.jitter_ns == 0 { 0 } else { rng.random_range(0..self.quality.jitter_ns) };
        let took = (self.quality.base_ns + jitter) * self.slowness * if is_flush { 4 } else { 1 };
        let serial = self.next_serial;
        let is_refused = self.is_sync_broken && (is_flush || op.flags.has(OpFlags::FUA) && op.op.mutates());
        let mut is_corrupt = false;
        if is_early && !fails && !is_refused {
            is_corrupt = !self.apply(rng, &mut op);
        }
        let flight = Flight { op, started: now, is_early, fails, is_refused, is_corrupt, serial };
        let slot = self.flights.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[slot] = Some(flight);
        let at_last = if is_flush { self.stalled_until.max(self.flushes_slow_until) } else { self.stalled_until };
        (slot, (now + Duration::from_nanos(took)).max(at_last))
    }

    /// Whether a flush is under way.
    pub fn is_flushing(&self) -> bool {
        self.flights.iter().flatten().any(|flight| flight.op.op == Op::Flush)
    }

    pub fn finish(&mut self, now: Time, rng: &mut SmallRng, slot: usize) -> Option<StoreDone> {
        let flight = self.flights.get_mut(slot)?.take()?;
        let Flight { mut op, started, is_early, mut fails, is_refused, mut is_corrupt, serial } = flight;
        if is_refused {
            return Some(StoreDone { id: op.id, result: Err(Failure::Io), data: op.data, started, finished: now });
        }
        if fails {
            self.apply_partly(rng, &op);
        } else {
            if !is_early {
                is_corrupt = !self.apply(rng, &mut op);
            }
            let is_sync = op.op == Op::Flush || op.flags.has(OpFlags::FUA) && op.op.mutates();
            if now < self.lies_until {
                // It will do it some day.
            } else if is_sync && (self.syncs_fail || self.is_sync_broken) {
                fails = true;
                self.sync_fails(rng, &op, serial);
            } else if op.op == Op::Flush {
                self.flush_below(serial);
            } else if is_sync {
                self.flush_range(op.offset_bytes, u64::from(op.len_bytes));
            }
        }
        let failure = if op.op.mutates() && rng.random_bool(0.3) { Failure::NoSpace } else { Failure::Io };
        let result = match (fails, is_corrupt) {
            (true, _) => Err(failure),
            (false, true) => Err(Failure::Corrupt),
            (false, false) => Ok(()),
        };
        Some(StoreDone { id: op.id, result, data: op.data, started, finished: now })
    }

    /// A sync fails. What it should have written counts as clean, and is on the flash in part, or not at all.
    fn sync_fails(&mut self, rng: &mut SmallRng, op: &StoreOp, serial: u64) {
        let (from, end) = (op.offset_bytes, op.offset_bytes + u64::from(op.len_bytes));
        let is_covered = |u: &Unflushed| match op.op {
            Op::Flush => u.serial < serial,
            _ => u.offset < end && from < u.offset + u.data.len() as u64,
        };
        let (covered, others) = std::mem::take(&mut self.unflushed).into_iter().partition(is_covered);
        self.unflushed = others;
        let keep = [0.0, 0.5, 0.9][rng.random_range(0..3)];
        let blocks: Vec<u64> = covered.iter().flat_map(|u| Store::blocks(u.offset, u.data.len() as u64)).collect();
        self.keep_partly(rng, covered, keep);
        self.unwritten.extend(blocks.into_iter().filter(|block| self.durable_corrupt.contains(block)));
        if !std::mem::replace(&mut self.is_sync_broken, true) {
            self.recorded.note_failure();
        }
    }

    /// The kernel writes what it knows to be dirty, and forgets the rest of what it has in memory. Returns what changed by that.
    pub fn drop_cached(&mut self) -> Vec<Changed> {
        self.write_back();
        self.read_flash_again()
    }

    fn read_flash_again(&mut self) -> Vec<Changed> {
        self.durable_corrupt.extend(std::mem::take(&mut self.cold).into_keys());
        let changed = differences(&self.live, &self.durable);
        self.live.clone_from(&self.durable);
        self.corrupt.clone_from(&self.durable_corrupt);
        self.unwritten.clear();
        changed
    }

    /// Each sector of some writes reaches the flash or not.
    fn keep_partly(&mut self, rng: &mut SmallRng, writes: Vec<Unflushed>, keep: f64) {
        for u in writes {
            if let Some(block) = self.marked_by(&u) {
                // Its bytes and its checksum never match.
                if rng.random_bool(keep) {
                    self.durable[u.offset as usize..u.offset as usize + u.data.len()].copy_from_slice(&u.data);
                    self.durable_corrupt.insert(block);
                }
                continue;
            }
            if self.has_sums && keep > 0.0 && rng.random_bool(0.3) {
                // Bytes and checksum did not both reach the flash.
                for block in Store::blocks(u.offset, u.data.len() as u64) {
                    self.expect(block);
                }
                self.durable_corrupt.extend(Store::blocks(u.offset, u.data.len() as u64));
            }
            for (offset, sector) in sectors(u.offset, &u.data) {
                if rng.random_bool(keep) {
                    self.durable[offset as usize..offset as usize + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }

    /// The block that a write marks as unreadable, and that is still as it left it.
    fn marked_by(&self, write: &Unflushed) -> Option<u64> {
        let block = write.offset / BLOCK_BYTES;
        (self.corrupt.contains(&block) && self.corrupt_of(block).is_marked && write.data == self.block(block))
            .then_some(block)
    }

    /// Marks blocks as unreadable. Those that have the expected checksum are right.
    fn mark(&mut self, op: &StoreOp) {
        let blocks = Store::blocks(op.offset_bytes, op.len_bytes.into());
        for (block, expected) in blocks.zip(expected_of(&op.data)) {
            let has = self.block(block).to_vec();
            if checksum(&has) == expected {
                self.write(block * BLOCK_BYTES, has);
                continue;
            }
            self.write(block * BLOCK_BYTES, mark_of(expected));
            self.expected.insert(block, expected);
            self.corrupt.insert(block);
            self.marked += 1;
        }
    }

    /// Carries an operation out. False if bytes that it needs do not match their checksums: then nothing has happened.
    fn apply(&mut self, rng: &mut SmallRng, op: &mut StoreOp) -> bool {
        if self.hits_corrupt(op) {
            return false;
        }
        let blocks = Store::blocks(op.offset_bytes, op.len_bytes.into());
        let is_adopted = op.op == Op::Read && op.flags.has(OpFlags::UNVERIFIED);
        if is_adopted {
            // It gets new checksums, which have to reach the flash.
            for block in self.corrupt.range(blocks.clone()).copied().collect::<Vec<_>>() {
                let at = (block * BLOCK_BYTES) as usize;
                self.write(at as u64, self.live[at..self.live.len().min(at + BLOCK_BYTES as usize)].to_vec());
            }
        }
        if op.op.mutates() || is_adopted {
            // It has whole blocks of them.
            self.corrupt.retain(|block| !blocks.contains(block));
        }
        let at = op.offset_bytes as usize;
        let range = at..at + op.len_bytes as usize;
        match op.op {
            Op::Read => op.data.copy_from_slice(&self.live[range]),
            Op::Write if op.flags.marks_unreadable(op.op) => self.mark(op),
            Op::Write => self.write(op.offset_bytes, op.data.clone()),
            Op::WriteZeroes => self.write(op.offset_bytes, vec![0; op.len_bytes as usize]),
            Op::Trim if rng.random_bool(0.7) => self.write(op.offset_bytes, vec![0; op.len_bytes as usize]),
            Op::Trim | Op::Flush => {}
            Op::Digest => {
                if op.flags.has(OpFlags::FROM_FLASH) {
                    for block in self.cold.range(blocks.clone()).map(|(&block, _)| block).collect::<Vec<_>>() {
                        self.rewrite(block);
                        self.rewritten += 1;
                    }
                    for block in self.unwritten.range(blocks.clone()).copied().collect::<Vec<_>>() {
                        self.write(block * BLOCK_BYTES, self.block(block).to_vec());
                        self.rewritten += 1;
                    }
                }
                put_digest(&self.live[range], &mut op.data);
                for block in self.corrupt.range(blocks.clone()) {
                    let index = (block - blocks.start) as usize;
                    if op.flags.has(OpFlags::EXPECTED) {
                        put_expected(&mut op.data, index, self.corrupt_of(*block));
                    } else {
                        put_corrupt(&mut op.data, index);
                    }
                }
            }
            Op::Map => {
                let mut map = MapWriter::new(&mut op.data);
                let runs = self.live[range].chunk_by(|a, b| (*a == 0) == (*b == 0));
                for run in runs {
                    if !map.push(run.len() as u32, run[0] == 0) {
                        break;
                    }
                }
            }
        }
        true
    }

    /// Applies a failed or interrupted change: not at all, in part, or as a whole.
    fn apply_partly(&mut self, rng: &mut SmallRng, op: &StoreOp) {
        let bytes = match op.op {
            Op::Write => op.data.clone(),
            Op::WriteZeroes | Op::Trim => vec![0; op.len_bytes as usize],
            Op::Read | Op::Flush | Op::Map | Op::Digest => return,
        };
        if self.hits_corrupt(op) {
            return;
        }
        if op.flags.marks_unreadable(op.op) {
            if rng.random_bool(0.5) {
                let blocks = Store::blocks(op.offset_bytes, op.len_bytes.into());
                self.corrupt.retain(|block| !blocks.contains(block));
                self.mark(op);
            }
            return;
        }
        for (offset, sector) in sectors(op.offset_bytes, &bytes) {
            if rng.random_bool(0.5) {
                self.write(offset, sector.to_vec());
            }
        }
    }

    fn write(&mut self, offset: u64, data: Vec<u8>) {
        let at = offset as usize;
        for block in Store::blocks(offset, data.len() as u64) {
            // Pages are written whole.
            self.rewrite(block);
            self.unwritten.remove(&block);
            let before = self.block(block).to_vec();
            // A mark is no version of a block.
            if self.expected.get(&block).is_some_and(|&expected| is_mark(&before, expected)) {
                self.older.remove(&block);
            } else {
                self.older.insert(block, before);
            }
        }
        self.live[at..at + data.len()].copy_from_slice(&data);
        self.unflushed.push(Unflushed { serial: self.next_serial, offset, data });
        self.next_serial += 1;
    }

    /// Everything reaches the flash by itself.
    pub fn write_back(&mut self) {
        self.flush_below(self.next_serial);
    }

    fn flush_below(&mut self, serial: u64) {
        let durable = &mut self.durable;
        self.unflushed.retain(|u| {
            let flushed = u.serial < serial;
            if flushed {
                durable[u.offset as usize..u.offset as usize + u.data.len()].copy_from_slice(&u.data);
            }
            !flushed
        });
        self.sums_reach_flash();
    }

    /// Blocks all of whose changes are on the flash match their checksums there, if they do here.
    fn sums_reach_flash(&mut self) {
        let marked: Vec<u64> = self.corrupt.iter().copied().filter(|&block| self.corrupt_of(block).is_marked).collect();
        let Store { durable_corrupt, corrupt, unwritten, unflushed, .. } = self;
        let is_changed =
            |block: &u64| unflushed.iter().any(|u| Store::blocks(u.offset, u.data.len() as u64).contains(block));
        durable_corrupt.extend(marked.into_iter().filter(|block| !is_changed(block)));
        durable_corrupt.retain(|block| corrupt.contains(block) || unwritten.contains(block) || is_changed(block));
    }

    fn flush_range(&mut self, start: u64, len: u64) {
        let end = start + len;
        self.cold.retain(|_, (at, _)| !(start..end).contains(&(*at as u64)));
        self.durable[start as usize..end as usize].copy_from_slice(&self.live[start as usize..end as usize]);
        for u in std::mem::take(&mut self.unflushed) {
            let u_end = u.offset + u.data.len() as u64;
            if u_end <= start || u.offset >= end {
                self.unflushed.push(u);
                continue;
            }
            if u.offset < start {
                let data = u.data[..(start - u.offset) as usize].to_vec();
                self.unflushed.push(Unflushed { data, ..u });
            }
            if u_end > end {
                let data = u.data[(end - u.offset) as usize..].to_vec();
                self.unflushed.push(Unflushed { serial: u.serial, offset: end, data });
            }
        }
        self.sums_reach_flash();
    }

    /// The process dies; operations in flight end somewhere.
    pub fn kill(&mut self, rng: &mut SmallRng) {
        for flight in std::mem::take(&mut self.flights).into_iter().flatten() {
            if !flight.is_early {
                self.apply_partly(rng, &flight.op);
            }
        }
    }

    /// The power fails: each sector of each unflushed write has reached the flash or not.
    pub fn lose_power(&mut self, rng: &mut SmallRng) -> Vec<Changed> {
        self.kill(rng);
        let keep = [0.0, 0.5, 0.9][rng.random_range(0..3)];
        let unflushed = std::mem::take(&mut self.unflushed);
        self.keep_partly(rng, unflushed, keep);
        self.read_flash_again()
    }
}

/// Whether a block matches its checksum once a range of it was changed: if the range has all of it.
fn heals(block: u64, offset: u64, len: u64) -> bool {
    let (start, end) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
    let is_touched = offset < end && start < offset + len;
    (offset <= start && end <= offset + len) || (is_touched && planted::is(Bug::PartialWriteLaundersRot))
}

/// Cuts bytes at `offset` where sectors end.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let position = offset + at as u64;
        let len = ((SECTOR_BYTES - position % SECTOR_BYTES) as usize).min(bytes.len() - at);
        let sector = bytes.get(at..at + len).filter(|s| !s.is_empty())?;
        at += len;
        Some((position, sector))
    })
}

fn differences(before: &[u8], after: &[u8]) -> Vec<Changed> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(skip) = before[at..].iter().zip(&after[at..]).position(|(a, b)| a != b) {
        let start = at + skip;
        let len = before[start..].iter().zip(&after[start..]).take_while(|(a, b)| a != b).count();
        at = start + len;
        runs.push((start as u64, before[start..at].to_vec(), after[start..at].to_vec()));
    }
    runs
}
