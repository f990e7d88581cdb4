//! A volume's map in etcd, read and verified.
//!
//! A signed map is read twice: first it is verified, and not more of it kept than a page; then it is read again, and kept as far as it is what was verified.
//! Nobody who can write to etcd can have a gateway keep more than a gateway of the cluster has signed.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use flashmob_core::copies::{ChainEnd, ChainError, ChainReader, MapImage, Replayed, is_chain, replay};
use flashmob_core::wire::generation::generation_of;
use flashmob_text::harmless;

use super::keys::{Head, Keys};
use super::trust::Trust;
use crate::etcd::{Etcd, EtcdError, KeyValue};
use crate::keys::AnyGateway;

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

/// Which maps in etcd a gateway believes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Believes<'a> {
    /// The keys of the cluster, if it has some.
    pub trust: Option<&'a Trust>,
    /// A map counts that is not signed, or by another key: a person has said so.
    pub accepts_unsigned: bool,
}

/// A map that counts.
#[derive(Debug)]
pub(super) struct Opened {
    pub head: Head,
    /// The value of the head's key.
    pub value: Vec<u8>,
    pub image: MapImage,
    /// Bytes of its snapshot, and of all of it, without signatures.
    pub snapshot_bytes: u64,
    pub bytes: u64,
    /// Where what is signed ends.
    pub end: Option<ChainEnd>,
    /// The map is signed with the gateway's present key, or needs no signature.
    pub is_own: bool,
}

/// The end, the signer and the size of a chain that was read.
struct Scanned {
    end: ChainEnd,
    signed_by: Vec<u8>,
    bytes: u64,
}

/// A map in etcd, of which the head was read.
struct Source<'a> {
    etcd: &'a Etcd,
    keys: &'a Keys,
    /// Where it is, for people.
    name: &'a str,
    head: Head,
}

/// Reads a map. Whoever does has to be in charge, or it may change meanwhile. `name`: where it is, for people.
pub(super) fn read(etcd: &Etcd, keys: &Keys, name: &str, believes: Believes<'_>) -> anyhow::Result<Option<Opened>> {
    let head = etcd.range(&keys.head(), None, 1, READ_DEADLINE)?;
    let Some(found) = head.kvs.into_iter().next() else { return Ok(None) };
    let damaged = || format!("the map in etcd, {}, is damaged; {REMEDY}", String::from_utf8_lossy(&found.key));
    let head: Head = serde_json::from_slice(&found.value).with_context(damaged)?;
    ensure!(head.bytes <= MAP_BYTES_MAX, "{}: it claims {} bytes", damaged(), head.bytes);
    let source = Source { etcd, keys, name, head };
    let (first, is_signed) = source.look()?;
    let opened = match believes.trust {
        None => {
            ensure!(
                !is_signed,
                "the map in {name} is signed, and this cluster has no keys: add keys = \"...\" to the configuration; or recover the map from the nodes"
            );
            source.replay()?
        }
        Some(trust) if is_signed => source.verified(trust, &first, believes.accepts_unsigned)?,
        Some(_) if believes.accepts_unsigned => Opened { is_own: false, ..source.replay()? },
        Some(trust) => {
            return Err(ChainError::Unsigned).with_context(|| at(&first)).with_context(|| {
                format!(
                    "the map in {name} is refused: somebody else may have written it; restore etcd's data, or recover the map from the nodes \
                     (docs/copies.md, \"Two gateways\"). If the cluster had no keys until now, and nobody else can have written to etcd, start once \
                     with --accept-unsigned and the name of the volume with the id {}: the map is signed then",
                    harmless(trust.volume())
                )
            });
        }
    };
    // A key signs no later numbers than its own.
    if let Some(trust) = believes.trust.filter(|_| !opened.is_own) {
        let needed = generation_of(opened.image.epoch(), opened.image.version());
        ensure!(
            needed <= trust.generation(),
            "the map in {name} has numbers of generation {needed} of the keys, and this gateway's key is of generation {}: flashmob key rotate --generation {needed}",
            trust.generation()
        );
    }
    Ok(Some(Opened { value: found.value, ..opened }))
}

fn at(key: &[u8]) -> String {
    format!("key {}", harmless(&String::from_utf8_lossy(key)))
}

impl Source<'_> {
    fn damaged(&self) -> String {
        format!("the map in etcd, {}, is damaged; {REMEDY}", String::from_utf8_lossy(&self.keys.head()))
    }

    fn parts(&self) -> Pages<'_> {
        Pages::new(self.etcd, self.keys.parts(&self.head.snapshot), 0)
    }

    fn batches(&self, snapshot_bytes: u64) -> Pages<'_> {
        Pages::new(self.etcd, self.keys.batches(&self.head.snapshot), snapshot_bytes)
    }

    /// The key of the first part, and whether it is signed.
    fn look(&self) -> anyhow::Result<(Vec<u8>, bool)> {
        let first = self.parts().next()?.with_context(|| format!("{}: its snapshot is missing", self.damaged()))?;
        Ok((first.key, is_chain(&first.value)))
    }

    /// Gives all parts to `take`, one after another, and none at last; then they have to be those that the head tells of. Returns their bytes.
    fn each_part(
        &self,
        take: impl FnOnce(&mut dyn FnMut() -> anyhow::Result<Option<Vec<u8>>>) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let mut pages = self.parts();
        let (mut parts, mut bytes) = (0, 0);
        let mut next = || {
            let part = pages.next()?;
            parts += u64::from(part.is_some());
            bytes += part.as_ref().map_or(0, |part| part.value.len() as u64);
            ensure!(
                bytes <= self.head.bytes,
                "{}: its snapshot has more than {} bytes",
                self.damaged(),
                self.head.bytes
            );
            Ok(part.map(|part| part.value))
        };
        let taken = take(&mut next);
        if taken.as_ref().is_err_and(anyhow::Error::is::<EtcdError>) {
            return taken.map(|()| bytes);
        }
        // What is missing is told before what that leads to.
        while next()?.is_some() {}
        if (parts, bytes) != (self.head.parts, self.head.bytes) {
            bail!(
                "{}: of its snapshot's {} parts, {} bytes, {parts} are there with {bytes}",
                self.damaged(),
                self.head.parts,
                self.head.bytes,
            );
        }
        taken.map(|()| bytes)
    }

    /// Gives a reader all that is there. Returns the bytes of the snapshot, without what the chain adds.
    fn feed(&self, reader: &mut ChainReader<'_>, first: &[u8]) -> anyhow::Result<u64> {
        let snapshot_bytes = self.each_part(|next| {
            let pieces = || next().map_err(Failed::Etcd);
            reader.take_pieces(pieces).map_err(|failed| match failed {
                Failed::Etcd(error) => error,
                Failed::Chain(error) => anyhow::Error::new(error).context(at(first)),
            })
        })?;
        let len_bytes = reader.len_bytes();
        let mut batches = self.batches(snapshot_bytes);
        while let Some(batch) = batches.next()? {
            reader.take(&batch.value).with_context(|| at(&batch.key))?;
        }
        Ok(len_bytes)
    }

    /// The map, if it is signed by somebody who is believed.
    fn verified(&self, trust: &Trust, first: &[u8], accepts_any: bool) -> anyhow::Result<Opened> {
        let Scanned { end, signed_by, bytes } = self.scan(trust, first).map_err(|error| self.refused(error))?;
        match trust.whom().judge(&signed_by, &end) {
            later @ Err(ChainError::Later { .. }) => later.with_context(|| format!("the map in {} cannot be used", self.name))?,
            Err(ChainError::Replaced { .. } | ChainError::Forged) if accepts_any => {}
            judged => judged.with_context(|| at(first)).with_context(|| {
                format!(
                    "the map in {} is refused. If the key was replaced while no gateway ran, start the gateway first that has ended last. Otherwise \
                     somebody else may have written it: restore etcd's data, or recover the map from the nodes (docs/copies.md, \"Two gateways\")",
                    self.name
                )
            })?,
        }
        let mut reader = ChainReader::with_limit(Some(&AnyGateway), trust.volume(), bytes);
        let snapshot_bytes = self.feed(&mut reader, first).map_err(|error| self.refused(error))?;
        let bytes = reader.len_bytes();
        let finished =
            reader.finish().and_then(|(image, read)| if read == end { Ok(image) } else { Err(ChainError::Changed) });
        let image = finished.map_err(|error| self.refused(error.into()))?;
        let (head, value) = (self.head.clone(), Vec::new());
        let is_own = trust.is_own(&signed_by);
        Ok(Opened { head, value, image, snapshot_bytes, bytes, end: Some(end), is_own })
    }

    /// An error with advice, if it is one of what is there.
    fn refused(&self, error: anyhow::Error) -> anyhow::Error {
        if error.downcast_ref::<ChainError>().is_none() {
            return error;
        }
        error.context(format!(
            "the map in {} is refused: somebody else may have written it; restore etcd's data, or recover the map from the nodes (docs/copies.md, \"Two \
             gateways\")",
            self.name
        ))
    }

    /// Verifies it, whoever has signed it, and keeps nothing.
    fn scan(&self, trust: &Trust, first: &[u8]) -> anyhow::Result<Scanned> {
        let mut reader = ChainReader::scan(Some(&AnyGateway), trust.volume());
        self.feed(&mut reader, first)?;
        let end = reader.end().ok_or(ChainError::Empty)?;
        Ok(Scanned { end, signed_by: reader.signed_by().to_vec(), bytes: reader.len_bytes() })
    }

    /// A map that is not signed.
    fn replay(&self) -> anyhow::Result<Opened> {
        let mut bytes = Vec::new();
        let snapshot_bytes = self.each_part(|next| {
            while let Some(part) = next()? {
                bytes.extend_from_slice(&part);
            }
            Ok(())
        })?;
        let mut batches = self.batches(snapshot_bytes);
        while let Some(batch) = batches.next()? {
            bytes.extend_from_slice(&batch.value);
        }
        let Replayed { image, torn_bytes, .. } =
            replay(&bytes).with_context(|| format!("the map in {} cannot be used; {REMEDY}", self.name))?;
        // Each batch is there as a whole.
        ensure!(
            torn_bytes == 0,
            "the map in {} cannot be used: its last {torn_bytes} bytes are no changes; {REMEDY}",
            self.name
        );
        let (head, value, bytes) = (self.head.clone(), Vec::new(), bytes.len() as u64);
        Ok(Opened { head, value, image, snapshot_bytes, bytes, end: None, is_own: true })
    }
}

/// Why pieces of a chain were not taken.
enum Failed {
    Etcd(anyhow::Error),
    Chain(ChainError),
}

impl From<ChainError> for Failed {
    fn from(error: ChainError) -> Failed {
        Failed::Chain(error)
    }
}

/// All keys in a range, of which no more than a page is kept.
struct Pages<'a> {
    etcd: &'a Etcd,
    /// Where the next page begins; `None` behind the last.
    from: Option<Vec<u8>>,
    to: Vec<u8>,
    limit: u32,
    /// Bytes so far, with those before the range.
    bytes: u64,
    page: VecDeque<KeyValue>,
}

impl<'a> Pages<'a> {
    /// The keys of a range, behind so many bytes of the map.
    fn new(etcd: &'a Etcd, (from, to): (Vec<u8>, Vec<u8>), bytes: u64) -> Pages<'a> {
        Pages { etcd, from: Some(from), to, limit: PAGE_KEYS, bytes, page: VecDeque::new() }
    }

    fn next(&mut self) -> anyhow::Result<Option<KeyValue>> {
        while let Some(from) = self.from.take_if(|_| self.page.is_empty()) {
            let page = match self.etcd.range(&from, Some(&self.to), self.limit, READ_DEADLINE) {
                Err(EtcdError::TooLarge) if self.limit > 1 => {
                    self.limit /= 2;
                    self.from = Some(from);
                    continue;
                }
                page => page?,
            };
            let longest = page.kvs.iter().map(|found| found.value.len()).max().unwrap_or(0);
            self.bytes += page.kvs.iter().map(|found| found.value.len() as u64).sum::<u64>();
            ensure!(self.bytes <= MAP_BYTES_MAX, "the map in etcd has more than {MAP_BYTES_MAX} bytes; {REMEDY}");
            self.limit = ((PAGE_BYTES / longest.max(1)) as u32).clamp(1, PAGE_KEYS_MAX);
            // The next key that there can be.
            self.from = page.kvs.last().filter(|_| page.more).map(|last| last.key.iter().copied().chain([0]).collect());
            self.page = page.kvs.into();
        }
        Ok(self.page.pop_front())
    }
}
