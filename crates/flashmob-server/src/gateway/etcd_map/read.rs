//! A volume's map in etcd, read and verified.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use flashmob_core::copies::{ChainEnd, ChainReader, MapImage, Replayed, is_chain, replay};
use flashmob_text::harmless;

use super::keys::{Head, Keys};
use super::trust::Trust;
use crate::etcd::{Etcd, EtcdError, KeyValue};

/// How long a request to read may take.
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// How many keys are read at once, at first.
const PAGE_KEYS: u32 = 5;
/// Most keys that are read at once.
const PAGE_KEYS_MAX: u32 = 1000;
/// Bytes that one page should have: members of etcd before 3.4.17 and 3.5.1 answer with at most 4 MiB.
const PAGE_BYTES: usize = 2 << 20;
/// Most bytes of a map in etcd: more than etcd keeps by default, with its history.
const MAP_BYTES_MAX: u64 = 2 << 30;

/// Advice about a map that is damaged.
const REMEDY: &str = "restore etcd's data, or, while no gateway runs, remove the volume's keys (`etcdctl del --prefix` with that name) and recover the map from the nodes: `flashmob volume recover`";

/// Advice about a map that no gateway of the cluster has signed.
const UNSIGNED: &str = "somebody else may have written it: restore etcd's data, or recover the map from the nodes (docs/copies.md, \"Two gateways\"). If the \
    cluster had no keys until now, or its key was replaced while no gateway ran, and nobody else can have written to etcd, start once with --accept-unsigned: \
    the map is signed then";

/// A map, as it was found.
pub(super) struct Found {
    pub head: Head,
    /// The value of the head's key.
    pub value: Vec<u8>,
    /// The key of the snapshot's first part, and the bytes of all of them.
    snapshot: (Vec<u8>, Vec<u8>),
    /// Each with its key.
    batches: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A map that counts.
#[derive(Debug)]
pub(super) struct Opened {
    pub image: MapImage,
    /// Bytes of its snapshot, and of all of it, without signatures.
    pub snapshot_bytes: u64,
    pub bytes: u64,
    /// Where what is signed ends.
    pub end: Option<ChainEnd>,
    /// The map is signed with the gateway's present key, or needs no signature.
    pub is_own: bool,
}

impl Found {
    /// The map, if it is what it has to be. `name`: where it is, for people.
    pub fn open(&self, name: &str, trust: Option<&Trust>, accepts_unsigned: bool) -> anyhow::Result<Opened> {
        let is_signed = is_chain(&self.snapshot.1);
        let Some(trust) = trust else {
            ensure!(
                !is_signed,
                "the map in {name} is signed, and this cluster has no keys: add keys = \"...\" to the configuration; or recover the map from the nodes"
            );
            return self.replay(name);
        };
        let opened = self.verify(trust.reader(), trust);
        if !accepts_unsigned {
            let opened = opened
                .with_context(|| format!("the map in {name} is refused, as it is not this cluster's; {UNSIGNED}"))?;
            let found = opened.end.map_or(0, |end| end.generation);
            ensure!(
                found <= trust.generation(),
                "the map in {name} is signed with a key of generation {found}, and this gateway's is of generation {}: copy the folder of keys from the \
                 machine where it was replaced",
                trust.generation()
            );
            return Ok(opened);
        }
        ensure!(opened.is_err(), "the map in {name} is signed by this cluster: start without --accept-unsigned");
        let opened = if is_signed { self.verify(trust.reader_of_any(), trust) } else { self.replay(name) };
        Ok(Opened { is_own: false, ..opened.with_context(|| format!("the map in {name} cannot be used; {REMEDY}"))? })
    }

    fn verify(&self, mut reader: ChainReader<'_>, trust: &Trust) -> anyhow::Result<Opened> {
        let at = |key: &[u8]| format!("key {}", harmless(&String::from_utf8_lossy(key)));
        reader.take(&self.snapshot.1).with_context(|| at(&self.snapshot.0))?;
        let snapshot_bytes = reader.len_bytes() as u64;
        for (key, batch) in &self.batches {
            reader.take(batch).with_context(|| at(key))?;
        }
        let (bytes, is_own) = (reader.len_bytes() as u64, trust.is_own(reader.signed_by()));
        let (image, end) = reader.finish()?;
        Ok(Opened { image, snapshot_bytes, bytes, end: Some(end), is_own })
    }

    /// Opens a map that is not signed.
    fn replay(&self, name: &str) -> anyhow::Result<Opened> {
        let batches = self.batches.iter().map(|(_, batch)| &batch[..]);
        let bytes = std::iter::once(&self.snapshot.1[..]).chain(batches).collect::<Vec<_>>().concat();
        let Replayed { image, torn_bytes, .. } =
            replay(&bytes).with_context(|| format!("the map in {name} cannot be used; {REMEDY}"))?;
        // Each batch is there as a whole.
        ensure!(
            torn_bytes == 0,
            "the map in {name} cannot be used: its last {torn_bytes} bytes are no changes; {REMEDY}"
        );
        let snapshot_bytes = self.snapshot.1.len() as u64;
        Ok(Opened { image, snapshot_bytes, bytes: bytes.len() as u64, end: None, is_own: true })
    }
}

/// Reads a map. Whoever does has to be in charge, or it may change meanwhile.
pub(super) fn read(etcd: &Etcd, keys: &Keys) -> anyhow::Result<Option<Found>> {
    let head = etcd.range(&keys.head(), None, 1, READ_DEADLINE)?;
    let Some(found) = head.kvs.into_iter().next() else { return Ok(None) };
    let damaged = || format!("the map in etcd, {}, is damaged; {REMEDY}", String::from_utf8_lossy(&found.key));
    let head: Head = serde_json::from_slice(&found.value).with_context(damaged)?;
    ensure!(head.bytes <= MAP_BYTES_MAX, "{}: it claims {} bytes", damaged(), head.bytes);
    let (mut parts, mut batches) = (Vec::new(), Vec::new());
    let snapshot_bytes = read_all(etcd, keys.parts(&head.snapshot), 0, &mut parts)?;
    if (parts.len() as u64, snapshot_bytes) != (head.parts, head.bytes) {
        bail!(
            "{}: of its snapshot's {} parts, {} bytes, {} are there with {snapshot_bytes}",
            damaged(),
            head.parts,
            head.bytes,
            parts.len(),
        );
    }
    read_all(etcd, keys.batches(&head.snapshot), snapshot_bytes, &mut batches)?;
    let first = parts.first().map_or_else(|| keys.head(), |part| part.key.clone());
    let snapshot = (first, parts.iter().map(|part| &part.value[..]).collect::<Vec<_>>().concat());
    let batches = batches.into_iter().map(|batch| (batch.key, batch.value)).collect();
    Ok(Some(Found { head, value: found.value, snapshot, batches }))
}

/// Adds all keys in a range to those that were read before, with `bytes`. Returns how many bytes they have together.
fn read_all(etcd: &Etcd, (from, to): (Vec<u8>, Vec<u8>), bytes: u64, into: &mut Vec<KeyValue>) -> anyhow::Result<u64> {
    let (mut from, mut bytes, mut limit) = (from, bytes, PAGE_KEYS);
    loop {
        let page = match etcd.range(&from, Some(&to), limit, READ_DEADLINE) {
            Err(EtcdError::TooLarge) if limit > 1 => {
                limit /= 2;
                continue;
            }
            page => page?,
        };
        let longest = page.kvs.iter().map(|found| found.value.len()).max().unwrap_or(0);
        bytes += page.kvs.iter().map(|found| found.value.len() as u64).sum::<u64>();
        ensure!(bytes <= MAP_BYTES_MAX, "the map in etcd has more than {MAP_BYTES_MAX} bytes; {REMEDY}");
        limit = ((PAGE_BYTES / longest.max(1)) as u32).clamp(1, PAGE_KEYS_MAX);
        let next = page.kvs.last().filter(|_| page.more).map(|last| last.key.iter().copied().chain([0]).collect());
        into.extend(page.kvs);
        match next {
            // The next key that there can be.
            Some(next) => from = next,
            None => return Ok(bytes),
        }
    }
}
