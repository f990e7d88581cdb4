//! The oracle: which bytes a read may return, and which flushes may succeed, given all that clients saw.
//!
//! It knows only what clients asked and were answered, and when devices lost power. It must never look into a
//! gateway or a node.
//!
//! # Bytes
//!
//! Every byte is a register. Each write leaves bytes that name it, so an answer tells which write it saw. The
//! *candidates* of a byte are the writes whose value a read may return; a write becomes one when it is asked for, and stops
//! being one for reads that begin after it was *superseded*:
//!
//! - a write was acknowledged: everything that had ended (well or badly) before that write was asked for is
//!   superseded. This holds for failed writes too: the gateway lets no later overlapping change overtake them;
//! - a read returned write b: superseded is what had ended before b was asked for; what was acknowledged, or seen by
//!   a read that ended, before this read began. So nobody sees an old value after a new one, and a write that takes
//!   effect twice is caught.
//!
//! A trim may take effect or not, so it supersedes nothing by being acknowledged. A failed or unanswered write
//! may take effect at any time, until it is superseded.
//!
//! # Power
//!
//! When a device loses power, superseded writes become candidates again, except what was superseded before the
//! last successful flush was asked for, or by a FUA write. Nothing is concluded from an answer to what was asked for before.
//! If an acknowledged write was in fact lost, the next flush of every client that was connected must fail.
//!
//! With copies, a chunk of the volume takes the place of a node: it loses power when all of its copies have. What is lost is told even by
//! a gateway that started later, as the map says which chunks had changes.

use std::collections::{BTreeMap, BTreeSet};

/// A moment in the order of all that clients do: stamps are given out one by one.
pub(crate) type Stamp = u64;
/// Later than everything.
const NEVER: Stamp = Stamp::MAX;
/// Bytes of writes are never zero; so many kinds are left.
const CLASSES: u64 = 255;

/// Names a write, in the order of asking. 0 is what was there at first.
pub(crate) type WriteId = u32;

/// The bytes after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Bytes that name it.
    Pattern,
    Zeros,
    /// Zeros, or what was there.
    MaybeZeros,
}

#[derive(Debug)]
struct Write {
    leaves: Leaves,
    range: (u64, u64),
    asked: Stamp,
    /// Answered, or known to its client as no longer executed.
    ended: Stamp,
    /// Acknowledged: has taken effect by then, if it does at all.
    settled: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    write: WriteId,
    superseded: Stamp,
    /// The first end of a read that returned it.
    seen: Stamp,
    /// Superseded by something that is on the flash.
    gone: bool,
}

/// Bytes of one node, or of one chunk with copies, with the same history.
#[derive(Clone, Debug)]
struct Cell {
    end: u64,
    entries: Vec<Entry>,
}

#[derive(Debug, Default, Clone)]
struct ClientState {
    unflushed: Vec<WriteId>,
    /// When the first acknowledged write that was lost, and of which it was not told, was acknowledged.
    lost: Option<Stamp>,
    /// When a flush of it failed last.
    flush_failed: Stamp,
    /// Flushes that may still fail because of losses.
    flush_failures_due: u32,
}

/// State that a change to cells may read.
#[derive(Debug)]
struct Known {
    writes: Vec<Write>,
    /// First byte and node of each stretch of the volume; with copies, the chunk.
    owners: Vec<(u64, usize)>,
    /// By node, or chunk: when it last lost power.
    power_lost: Vec<Stamp>,
}

impl Known {
    /// Whether the device that holds a byte has lost power since then.
    fn lost_power_since(&self, stamp: Stamp, at: u64) -> bool {
        let (_, node) = self.owners[self.owners.partition_point(|&(start, _)| start <= at).saturating_sub(1)];
        self.power_lost[node] > stamp
    }
}

#[derive(Debug)]
pub(crate) struct Oracle {
    stamp: Stamp,
    known: Known,
    cells: BTreeMap<u64, Cell>,
    /// Asked before it and superseded: on the flash, or superseded by what is.
    flushed: Stamp,
    /// Stamps of requests without an answer.
    open: BTreeSet<Stamp>,
    open_flushes: usize,
    clients: Vec<ClientState>,
    size_bytes: u64,
    /// A loss that nobody was told of.
    untold: Option<Stamp>,
    /// Since when the gateway runs.
    session: Stamp,
    /// A gateway learns from the map what its predecessor's clients may have lost.
    has_map: bool,
    losses: u32,
    /// A gateway that is not in charge any more may acknowledge changes, too.
    is_shared: bool,
    /// Superseded writes are kept even if those that replaced them are on the flash: an older copy may become current.
    keeps_all: bool,
    /// Changes that ended badly meanwhile, by the gateway in charge: it may carry them out after what the other has acknowledged.
    going_on: Vec<WriteId>,
}

/// The byte that a write leaves at a place: all writes differ there, until there are 255 of them.
pub(crate) fn pattern(write: WriteId, at: u64) -> u8 {
    ((u64::from(write) % CLASSES + place(at)) % CLASSES) as u8 + 1
}

/// A number below [`CLASSES`] that hardly repeats from place to place.
fn place(at: u64) -> u64 {
    ((at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * CLASSES) >> 32
}

/// Which writes a byte names: their number modulo 255; `None` for a zero.
fn class(byte: u8, at: u64) -> Option<u64> {
    (byte != 0).then(|| {
        let sum = u64::from(byte) - 1 + CLASSES - place(at);
        if sum < CLASSES { sum } else { sum - CLASSES }
    })
}

impl Oracle {
    /// A volume whose stretches begin at these places and belong to these nodes. It has a size, and may grow to another one: zeros follow.
    pub fn new(
        (first_bytes, size_bytes): (u64, u64),
        owners: Vec<(u64, usize)>,
        clients: usize,
        has_map: bool,
    ) -> Oracle {
        let nodes = owners.iter().map(|&(_, node)| node + 1).max().unwrap_or(0);
        let first = Write { leaves: Leaves::Pattern, range: (0, first_bytes), asked: 0, ended: 0, settled: 0 };
        let zeros = Write { leaves: Leaves::Zeros, range: (first_bytes, size_bytes), ..first };
        let entry = |start: u64| {
            let write = WriteId::from(start >= first_bytes);
            Entry { write, superseded: NEVER, seen: 0, gone: false }
        };
        let mut writes = vec![first];
        writes.extend((size_bytes > first_bytes).then_some(zeros));
        let ends = owners.iter().skip(1).map(|&(start, _)| start).chain([size_bytes]);
        let cells = owners
            .iter()
            .zip(ends)
            .map(|(&(start, _), end)| (start, Cell { end, entries: vec![entry(start)] }))
            .collect();
        Oracle {
            stamp: 1,
            known: Known { writes, owners, power_lost: vec![0; nodes] },
            cells,
            flushed: 0,
            open: BTreeSet::new(),
            open_flushes: 0,
            clients: vec![ClientState::default(); clients],
            size_bytes,
            untold: None,
            session: 0,
            has_map,
            losses: 0,
            is_shared: false,
            keeps_all: false,
            going_on: Vec::new(),
        }
    }

    fn tick(&mut self) -> Stamp {
        self.stamp += 1;
        self.stamp
    }

    /// The nodes that hold bytes of a range.
    pub fn nodes_of(&self, offset: u64, len: u64) -> impl Iterator<Item = usize> + '_ {
        let first = self.known.owners.partition_point(|&(start, _)| start <= offset).saturating_sub(1);
        self.known.owners[first..].iter().take_while(move |(start, _)| *start < offset + len).map(|&(_, node)| node)
    }

    /// The stretches of the volume that a node holds, in the order of the volume: first byte, end.
    pub fn stretches(&self, node: usize) -> Vec<(u64, u64)> {
        let ends = self.known.owners.iter().skip(1).map(|&(start, _)| start).chain([self.size_bytes]);
        self.known
            .owners
            .iter()
            .zip(ends)
            .filter(|((_, n), _)| *n == node)
            .map(|(&(start, _), end)| (start, end))
            .collect()
    }

    /// The bytes that write 0 has left, at first.
    pub fn first_bytes(&self) -> u64 {
        self.known.writes.first().map_or(0, |write| write.range.1)
    }

    pub fn asked(&mut self) -> Stamp {
        let stamp = self.tick();
        self.open.insert(stamp);
        stamp
    }

    /// A write is asked for; follows [`Oracle::asked`].
    pub fn write_asked(&mut self, client: usize, asked: Stamp, range: (u64, u64), leaves: Leaves) -> WriteId {
        let id = self.add_write(asked, range, leaves);
        self.clients[client].unflushed.push(id);
        id
    }

    /// A range is to be zeros, which no client has asked for; follows [`Oracle::asked`].
    pub fn zeros_asked(&mut self, asked: Stamp, range: (u64, u64)) -> WriteId {
        self.add_write(asked, range, Leaves::Zeros)
    }

    fn add_write(&mut self, asked: Stamp, range: (u64, u64), leaves: Leaves) -> WriteId {
        let id = self.known.writes.len() as WriteId;
        self.known.writes.push(Write { leaves, range, asked, ended: NEVER, settled: NEVER });
        let keeps_all = self.keeps_all;
        let (flushed, oldest) = (self.flushed, self.open.first().copied().unwrap_or(asked));
        self.for_cells(range, |_, cell, _| {
            if cell.entries.len() > 2 && !keeps_all {
                cell.entries.retain(|e| !(e.superseded < oldest && (e.gone || e.superseded <= flushed)));
            }
            cell.entries.push(Entry { write: id, superseded: NEVER, seen: NEVER, gone: false });
        });
        id
    }

    /// Whether a gateway that is not in charge any more runs.
    pub fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
        if !is_shared {
            let now = self.tick();
            for id in std::mem::take(&mut self.going_on) {
                self.known.writes[id as usize].ended = now;
            }
        }
    }

    /// A change at the gateway in charge failed, or its client is gone: until the other gateway is gone as well, nothing follows from that.
    pub fn goes_on(&mut self, id: WriteId, asked: Stamp) {
        if self.is_shared {
            self.open.remove(&asked);
            self.going_on.push(id);
        } else {
            self.write_ended(id, false, false);
        }
    }

    /// A write was answered. `fua` says whether an acknowledgement means that it is on the flash.
    pub fn write_ended(&mut self, id: WriteId, fua: bool, ok: bool) {
        let now = self.tick();
        let write = &mut self.known.writes[id as usize];
        self.open.remove(&write.asked);
        write.ended = now;
        if !ok {
            return;
        }
        write.settled = now;
        let (asked, range) = (write.asked, write.range);
        let settles = write.leaves != Leaves::MaybeZeros;
        if !settles {
            return;
        }
        self.for_cells(range, |start, cell, known| {
            if known.lost_power_since(asked, start) && !fua {
                return;
            }
            for e in cell.entries.iter_mut().filter(|e| e.write != id) {
                let before = known.writes[e.write as usize].ended < asked;
                if before && e.superseded == NEVER {
                    e.superseded = now;
                }
                e.gone |= fua && (before || e.superseded < asked);
            }
        });
    }

    /// The client is gone, and the gateway knows it: the request will not be answered.
    pub fn abandoned(&mut self, asked: Stamp, write: Option<WriteId>, is_flush: bool) {
        self.open.remove(&asked);
        if let Some(write) = write {
            self.known.writes[write as usize].ended = self.tick();
        }
        if is_flush {
            self.open_flushes -= 1;
            self.untold = None;
        }
    }

    pub fn read_failed(&mut self, asked: Stamp) {
        self.open.remove(&asked);
    }

    /// A read was answered with these bytes.
    pub fn read_ended(&mut self, asked: Stamp, offset: u64, data: &[u8]) -> Result<(), String> {
        self.open.remove(&asked);
        self.seen(asked, offset, data)
    }

    /// A map that was asked for shows these bytes as a hole. The request ends with [`Oracle::read_failed`].
    pub fn hole_seen(&mut self, asked: Stamp, offset: u64, len: u32) -> Result<(), String> {
        self.seen(asked, offset, &vec![0; len as usize]).map_err(|text| format!("a map shows a hole: {text}"))
    }

    /// Whether bytes of a range may have become zeros by a request that was not answered at that time.
    pub fn is_zeroed_since(&self, asked: Stamp, range: (u64, u64)) -> bool {
        let overlaps = |w: &Write| w.range.0 < range.1 && range.0 < w.range.1;
        self.known.writes.iter().any(|w| w.leaves != Leaves::Pattern && w.ended > asked && overlaps(w))
    }

    fn seen(&mut self, asked: Stamp, offset: u64, data: &[u8]) -> Result<(), String> {
        let now = self.tick();
        let mut at = 0;
        while at < data.len() {
            let position = offset + at as u64;
            let (&start, cell) = self.cells.range(..=position).next_back().ok_or("read beyond the volume")?;
            let end = ((cell.end - offset) as usize).min(data.len());
            let seen = class(data[at], position);
            let run = data[at..end].iter().zip(position..).take_while(|&(&b, p)| class(b, p) == seen).count();
            let range = (position, position + run as u64);
            self.check_run(now, asked, (start, range), seen)?;
            at += run;
        }
        Ok(())
    }

    /// All bytes of a run, which lies in the cell at `start`, were seen to be of one kind.
    fn check_run(&mut self, now: Stamp, asked: Stamp, run: (u64, (u64, u64)), seen: Option<u64>) -> Result<(), String> {
        let (start, range) = run;
        let cell = &self.cells[&start];
        let matches = |e: &Entry| {
            let leaves = self.known.writes[e.write as usize].leaves;
            e.superseded >= asked
                && match seen {
                    Some(class) => leaves == Leaves::Pattern && u64::from(e.write) % CLASSES == class,
                    None => leaves != Leaves::Pattern,
                }
        };
        let mut count = 0;
        let mut first_asked = NEVER;
        for e in cell.entries.iter().filter(|e| matches(e)) {
            count += 1;
            first_asked = first_asked.min(self.known.writes[e.write as usize].asked);
        }
        if count == 0 {
            return Err(self.explain(cell, range, seen, asked));
        }
        if self.known.lost_power_since(asked, range.0) {
            return Ok(());
        }
        let updated: Vec<Entry> = cell
            .entries
            .iter()
            .map(|e| {
                let (mut e, write) = (*e, &self.known.writes[e.write as usize]);
                if matches(&e) {
                    if count == 1 && e.superseded == NEVER {
                        e.seen = e.seen.min(now);
                    }
                } else if e.superseded == NEVER
                    && (write.ended < first_asked || write.settled < asked || e.seen < asked)
                {
                    e.superseded = now;
                }
                e
            })
            .collect();
        if updated != cell.entries {
            self.for_cells(range, |_, cell, _| cell.entries.clone_from(&updated));
        }
        Ok(())
    }

    fn explain(&self, cell: &Cell, range: (u64, u64), seen: Option<u64>, asked: Stamp) -> String {
        let describe = |id: WriteId| {
            let w = &self.known.writes[id as usize];
            let state = match (w.settled, w.ended) {
                (NEVER, NEVER) => "unanswered",
                (NEVER, _) => "failed",
                _ => "acknowledged",
            };
            format!("write {id} ({state}, bytes {}..{})", w.range.0, w.range.1)
        };
        let allowed: Vec<String> =
            cell.entries.iter().filter(|e| e.superseded >= asked).map(|e| describe(e.write)).collect();
        let got = match seen {
            None => "zeros".to_string(),
            Some(class) => {
                let named = (0..self.known.writes.len() as WriteId)
                    .rev()
                    .find(|&id| u64::from(id) % CLASSES == class && self.covers(id, range))
                    .map(describe);
                named.unwrap_or_else(|| "bytes that were never written there".to_string())
            }
        };
        format!("bytes {}..{} read as {got}; allowed: {}", range.0, range.1, allowed.join(", "))
    }

    fn covers(&self, id: WriteId, range: (u64, u64)) -> bool {
        let w = &self.known.writes[id as usize];
        w.leaves == Leaves::Pattern && w.range.0 <= range.0 && range.1 <= w.range.1
    }

    /// A flush is asked for; follows [`Oracle::asked`].
    pub fn flush_asked(&mut self) {
        self.open_flushes += 1;
    }

    /// A flush was answered. Earlier requests of its client must have ended by now. `by_fault`: if it failed,
    /// there may be another reason than lost changes.
    pub fn flush_ended(&mut self, client: usize, asked: Stamp, ok: bool, by_fault: bool) -> Result<(), String> {
        self.open.remove(&asked);
        self.open_flushes -= 1;
        if !ok {
            let now = self.tick();
            let state = &mut self.clients[client];
            (state.lost, state.flush_failed) = (None, now);
            state.flush_failures_due = state.flush_failures_due.saturating_sub(u32::from(!by_fault));
            self.untold = None;
            return Ok(());
        }
        if self.clients[client].lost.is_some_and(|lost| lost < asked) {
            return Err("a flush succeeded although acknowledged changes were lost".to_string());
        }
        let unflushed = std::mem::take(&mut self.clients[client].unflushed);
        let (covered, later): (Vec<_>, Vec<_>) =
            unflushed.into_iter().partition(|&id| self.known.writes[id as usize].asked < asked);
        self.clients[client].unflushed = later;
        for id in covered {
            let write = &self.known.writes[id as usize];
            if write.ended == NEVER && !self.going_on.contains(&id) {
                return Err(format!("a flush was answered before write {id}, which the client had sent earlier"));
            }
            if write.settled != NEVER && write.ended > asked && write.leaves != Leaves::MaybeZeros {
                self.harden(id);
            }
        }
        self.flushed = self.flushed.max(asked);
        Ok(())
    }

    /// A write that ended while the flush behind it was waiting is on the flash.
    fn harden(&mut self, id: WriteId) {
        let (asked, range) = (self.known.writes[id as usize].asked, self.known.writes[id as usize].range);
        self.for_cells(range, |start, cell, known| {
            if known.lost_power_since(asked, start) {
                return;
            }
            for e in cell.entries.iter_mut().filter(|e| e.write != id) {
                e.gone |= known.writes[e.write as usize].ended < asked || e.superseded < asked;
            }
        });
    }

    pub fn client_opened(&mut self, client: usize) {
        let lost = if self.open_flushes == 0 { self.untold } else { None };
        self.clients[client] = ClientState { lost, flush_failures_due: self.losses, ..ClientState::default() };
    }

    /// Whether a flush of this client may fail because some device lost power.
    pub fn may_flush_fail(&self, client: usize) -> bool {
        self.clients[client].flush_failures_due > 0
    }

    /// A node's device lost power. `changed` are runs of volume bytes that changed by it: where, before, after.
    pub fn power_lost(&mut self, node: usize, changed: &[(u64, Vec<u8>, Vec<u8>)]) {
        let acknowledged = changed.iter().filter_map(|(at, before, after)| self.lost(*at, before, after)).min();
        let now = self.tick();
        self.lose(node, acknowledged, now);
    }

    /// All copies of a chunk that are not behind lost power. `copies`: what each copy has now, of those that are behind, too.
    pub fn all_copies_lost_power(&mut self, chunk: usize, copies: &[&[u8]]) {
        let acknowledged = self.lost_of(chunk, copies);
        let now = self.tick();
        self.lose(chunk, acknowledged, now);
    }

    /// When the first write of a chunk was acknowledged that none of its copies has.
    fn lost_of(&self, chunk: usize, copies: &[&[u8]]) -> Option<Stamp> {
        let starts = self.stretches(chunk).into_iter().map(|(start, _)| start);
        let has_none = |at: u64, index: usize, write: WriteId| {
            copies.iter().all(|copy| class(copy[index], at) != Some(u64::from(write) % CLASSES))
        };
        let len = copies.first().map_or(0, |copy| copy.len());
        starts
            .flat_map(|start| (start..).zip(0..len))
            .filter_map(|(at, index)| {
                let (only, write) = self.only_candidate(at)?;
                has_none(at, index, only).then_some(write.settled)
            })
            .min()
    }

    /// Copies that are behind may become current: no write is forgotten from now on.
    pub fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// A moment that is later than all before it.
    pub fn moment(&mut self) -> Stamp {
        self.tick()
    }

    /// The only current copies of a chunk are given up, and others are current, which fell behind at that moment and have these bytes. They had
    /// everything by then; what was superseded later may be what they have. Clients may be told from the decision on, before that is durable.
    pub fn loss_accepted(&mut self, chunk: usize, (behind_since, decided): (Stamp, Stamp), copies: &[&[u8]]) {
        let acknowledged = self.lost_of(chunk, copies);
        for range in self.stretches(chunk) {
            self.for_cells(range, |_, cell, _| {
                for e in cell.entries.iter_mut().filter(|e| e.superseded > behind_since) {
                    (e.superseded, e.gone) = (NEVER, false);
                }
            });
        }
        self.lose(chunk, acknowledged, decided);
    }

    /// A node lost power, and with it changes, the first of which was acknowledged then. Clients whose flush failed since that moment know it.
    fn lose(&mut self, node: usize, acknowledged: Option<Stamp>, told_since: Stamp) {
        let now = self.tick();
        if let Some(acknowledged) = acknowledged {
            let earlier = |known: Option<Stamp>| Some(known.map_or(acknowledged, |k| k.min(acknowledged)));
            let knows = |client: &ClientState| client.flush_failed >= told_since;
            if !self.clients.iter().any(knows) {
                self.untold = earlier(self.untold);
            }
            self.clients.iter_mut().filter(|client| !knows(client)).for_each(|c| c.lost = earlier(c.lost));
        }
        self.losses += 1;
        self.clients.iter_mut().for_each(|c| c.flush_failures_due += 1);
        self.known.power_lost[node] = now;
        let flushed = self.flushed;
        for range in self.stretches(node) {
            self.for_cells(range, |_, cell, known| {
                for e in &mut cell.entries {
                    if !e.gone && e.superseded > flushed {
                        e.superseded = NEVER;
                    }
                    // What is still unanswered may take effect a second time now that the first is undone.
                    if known.writes[e.write as usize].ended == NEVER {
                        e.seen = NEVER;
                    }
                }
            });
        }
    }

    /// When a write was acknowledged that surely was lost in a changed run.
    fn lost(&self, at: u64, before: &[u8], after: &[u8]) -> Option<Stamp> {
        (at..)
            .zip(before.iter().zip(after))
            .filter_map(|(position, (&before, &after))| {
                let (only, write) = self.only_candidate(position)?;
                let names = |byte| class(byte, position) == Some(u64::from(only) % CLASSES);
                (names(before) && !names(after)).then_some(write.settled)
            })
            .min()
    }

    /// The write whose bytes a place must show, if it was acknowledged and its loss has to be told.
    fn only_candidate(&self, at: u64) -> Option<(WriteId, &Write)> {
        let (_, cell) = self.cells.range(..=at).next_back()?;
        let mut alive = cell.entries.iter().filter(|e| e.superseded == NEVER);
        let (only, None) = (alive.next()?, alive.next()) else { return None };
        let write = &self.known.writes[only.write as usize];
        let is_told = write.asked > self.session || self.has_map;
        (write.settled != NEVER && is_told && only.write != 0 && write.leaves == Leaves::Pattern)
            .then_some((only.write, write))
    }

    /// A gateway is gone, and what it knew of losses with it. Its successor cannot know what its predecessor
    /// acknowledged and did not flush: if that is lost, nobody is told. A map remembers it.
    pub fn gateway_lost(&mut self) {
        self.session = self.tick();
        if !self.has_map {
            self.untold = None;
        }
        self.clients.iter_mut().for_each(|c| c.lost = None);
    }

    /// Nothing is on its way any more: what has ended has taken effect by now, or never will.
    pub fn settle(&mut self) {
        let now = self.tick();
        self.known.writes.iter_mut().filter(|w| w.ended != NEVER).for_each(|w| w.settled = w.settled.min(now));
    }

    /// Does `change` to every cell of a range, after cutting cells at its ends.
    fn for_cells(&mut self, range: (u64, u64), mut change: impl FnMut(u64, &mut Cell, &Known)) {
        self.cut(range.0);
        self.cut(range.1);
        for (&start, cell) in self.cells.range_mut(range.0..range.1) {
            change(start, cell, &self.known);
        }
    }

    fn cut(&mut self, at: u64) {
        if at == 0 || at >= self.size_bytes {
            return;
        }
        if let Some((&start, cell)) = self.cells.range_mut(..at).next_back()
            && cell.end > at
            && start < at
        {
            let later = Cell { end: cell.end, entries: cell.entries.clone() };
            cell.end = at;
            self.cells.insert(at, later);
        }
    }
}
