//! The map of a volume in etcd, where another gateway finds it when this one is gone.
//!
//! The bytes are those of a map's file: a snapshot, in parts, and batches of changes, each a key ([`keys`]). Each batch is one transaction,
//! which depends on this gateway being the one that took charge last ([`tenure`]): a gateway that was followed by
//! another changes nothing any more, however late its transactions come. A transaction whose outcome is not known is sent again, as long
//! as it takes. So each may be executed a second time, late: parts and batches write what they wrote, under a name that is used once, and a
//! snapshot takes the place of the one before it only, so that it does so once.

mod keys;
mod tenure;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use flashmob_core::copies::{MapImage, Replayed, encode_snapshot, replay};
use flashmob_core::op::Failure;

pub use keys::{Head, Keys};
use tenure::{Exchange, NotExchanged};
pub use tenure::{Keeper, Tenure, Terms};

use super::map_store::{MapFailure, MapStore, is_large};
use crate::etcd::{Etcd, EtcdError, TxnOp};

/// How long a request to read may take.
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of a part of a snapshot. A transaction may have 1.5 MiB.
const PART_BYTES: usize = 512 * 1024;
/// How many keys are read at once, at first.
const PAGE_KEYS: u32 = 5;
/// And at most.
const PAGE_KEYS_MAX: u32 = 1000;
/// Bytes that one page should have: members of etcd before 3.4.17 and 3.5.1 answer with at most 4 MiB.
const PAGE_BYTES: usize = 2 << 20;
/// Most bytes of a map in etcd: more than etcd keeps by default, with its history.
const MAP_BYTES_MAX: u64 = 2 << 30;

/// A volume's map in etcd, of the gateway that is in charge.
#[derive(Debug)]
pub struct EtcdMap {
    tenure: Tenure,
    keys: Keys,
    /// The value of the head, which names the snapshot that counts; none before the first.
    head: Option<Vec<u8>>,
    /// The name of that.
    snapshot: String,
    /// The number that the next one gets. Each attempt gets another: parts of one that failed may still arrive.
    next_snapshot: u64,
    snapshot_bytes: u64,
    bytes: u64,
    /// Whether it is not known what a transaction has left.
    is_spent: bool,
}

impl EtcdMap {
    /// Reads the map of a volume. `None` if there is none.
    pub fn open(tenure: Tenure, keys: Keys) -> anyhow::Result<Option<(EtcdMap, MapImage)>> {
        let found = tenure.patient(|| read(tenure.etcd(), &keys));
        if found.is_err() {
            // It may have been changed while it was read.
            tenure.must_be_in_charge(&keys)?;
        }
        let Some(Found { head, value, bytes }) = found? else { return Ok(None) };
        let name = tenure.name();
        let Replayed { image, torn_bytes, .. } =
            replay(&bytes).with_context(|| format!("the map in {name} cannot be used; {REMEDY}"))?;
        // Each batch is there as a whole.
        ensure!(
            torn_bytes == 0,
            "the map in {name} cannot be used: its last {torn_bytes} bytes are no changes; {REMEDY}"
        );
        let Head { snapshot, bytes: snapshot_bytes, .. } = head;
        let map = EtcdMap {
            tenure,
            keys,
            head: Some(value),
            snapshot,
            next_snapshot: 0,
            snapshot_bytes,
            bytes: bytes.len() as u64,
            is_spent: false,
        };
        Ok(Some((map, image)))
    }

    /// Puts the map of a volume there that has none.
    pub fn create(tenure: Tenure, keys: Keys, image: &MapImage) -> anyhow::Result<EtcdMap> {
        let mut map = EtcdMap {
            tenure,
            keys,
            head: None,
            snapshot: String::new(),
            next_snapshot: 0,
            snapshot_bytes: 0,
            bytes: 0,
            is_spent: false,
        };
        map.rewrite(&encode_snapshot(image)).map_err(Unwritten)?;
        Ok(map)
    }

    fn commit(&mut self, ops: Vec<TxnOp>) -> Result<(), MapFailure> {
        self.tenure.commit(&self.keys, ops).inspect_err(|_| self.is_spent = true)
    }
}

impl MapStore for EtcdMap {
    fn append(&mut self, number: u64, batch: &[u8]) -> Result<(), MapFailure> {
        if self.is_spent {
            let text = format!("the map in {} has to be written anew", self.tenure.name());
            return Err(MapFailure { failure: Failure::Io, text });
        }
        self.commit(vec![put(self.keys.batch(&self.snapshot, number), batch.to_vec())])?;
        self.bytes += batch.len() as u64;
        Ok(())
    }

    fn rewrite(&mut self, snapshot: &[u8]) -> Result<(), MapFailure> {
        let name = format!("{}-{}", self.tenure.term(), self.next_snapshot);
        self.next_snapshot += 1;
        let parts = snapshot.chunks(PART_BYTES);
        let head = Head { snapshot: name.clone(), parts: parts.len() as u64, bytes: snapshot.len() as u64 };
        for (part, bytes) in (0..).zip(parts) {
            self.commit(vec![put(self.keys.part(&name, part), bytes.to_vec())])?;
        }
        let value = serde_json::to_vec(&head).unwrap_or_default();
        let removed = self.keys.others(&name).map(|(key, end)| TxnOp::Delete { key, range_end: Some(end) });
        let exchange = Exchange { key: self.keys.head(), from: self.head.take(), to: value.clone() };
        let exchanged = self.tenure.exchange(&self.keys, &exchange, removed.into());
        self.head = exchange.from;
        if let Err(NotExchanged { failure, found }) = exchanged {
            self.is_spent = true;
            // An attempt before, which seemed to fail, has come about: the next one replaces that.
            let is_ours = |found: &Vec<u8>| {
                let head = serde_json::from_slice::<Head>(found);
                head.is_ok_and(|head| head.snapshot.starts_with(self.tenure.term()))
            };
            self.head = found.filter(is_ours).or(self.head.take());
            return Err(failure);
        }
        self.head = Some(value);
        self.snapshot = name;
        (self.snapshot_bytes, self.bytes) = (head.bytes, head.bytes);
        self.is_spent = false;
        Ok(())
    }

    fn wants_compaction(&self) -> bool {
        is_large(self.bytes, self.snapshot_bytes)
    }

    fn give_up(&mut self) {
        self.is_spent = true;
    }

    fn name(&self) -> String {
        self.tenure.name().to_string()
    }
}

fn put(key: Vec<u8>, value: Vec<u8>) -> TxnOp {
    TxnOp::Put { key, value, lease: 0 }
}

/// What is to be done about a map that is damaged.
const REMEDY: &str = "restore etcd's data, or, while no gateway runs, remove the volume's keys (`etcdctl del --prefix` with that name) and recover the map from the nodes: `flashmob volume recover`";

/// A change that could not be made when a gateway started.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub struct Unwritten(pub MapFailure);

/// A map, as it was found.
struct Found {
    head: Head,
    /// That of the head's key.
    value: Vec<u8>,
    bytes: Vec<u8>,
}

/// Reads a map. Whoever does has to be in charge, or it may change meanwhile.
fn read(etcd: &Etcd, keys: &Keys) -> anyhow::Result<Option<Found>> {
    let head = etcd.range(&keys.head(), None, 1, READ_DEADLINE)?;
    let Some(found) = head.kvs.into_iter().next() else { return Ok(None) };
    let damaged = || format!("the map in etcd, {}, is damaged; {REMEDY}", String::from_utf8_lossy(&found.key));
    let head: Head = serde_json::from_slice(&found.value).with_context(damaged)?;
    ensure!(head.bytes <= MAP_BYTES_MAX, "{}: it claims {} bytes", damaged(), head.bytes);
    let mut bytes = Vec::new();
    let parts = read_all(etcd, keys.parts(&head.snapshot), &mut bytes)?;
    if (parts, bytes.len() as u64) != (head.parts, head.bytes) {
        bail!(
            "{}: of its snapshot's {} parts, {} bytes, {parts} are there with {}",
            damaged(),
            head.parts,
            head.bytes,
            bytes.len()
        );
    }
    read_all(etcd, keys.batches(&head.snapshot), &mut bytes)?;
    Ok(Some(Found { head, value: found.value, bytes }))
}

/// Appends the values of all keys in a range. Returns how many there are.
fn read_all(etcd: &Etcd, (from, to): (Vec<u8>, Vec<u8>), into: &mut Vec<u8>) -> anyhow::Result<u64> {
    let (mut from, mut count, mut limit) = (from, 0, PAGE_KEYS);
    loop {
        let page = match etcd.range(&from, Some(&to), limit, READ_DEADLINE) {
            Err(EtcdError::TooLarge) if limit > 1 => {
                limit /= 2;
                continue;
            }
            page => page?,
        };
        let longest = page.kvs.iter().map(|found| found.value.len()).max().unwrap_or(0);
        for found in &page.kvs {
            into.extend_from_slice(&found.value);
            ensure!(
                into.len() as u64 <= MAP_BYTES_MAX,
                "the map in etcd has more than {MAP_BYTES_MAX} bytes; {REMEDY}"
            );
        }
        count += page.kvs.len() as u64;
        limit = ((PAGE_BYTES / longest.max(1)) as u32).clamp(1, PAGE_KEYS_MAX);
        match page.kvs.last() {
            // The next key that there can be.
            Some(last) if page.more => from = last.key.iter().copied().chain([0]).collect(),
            _ => return Ok(count),
        }
    }
}
