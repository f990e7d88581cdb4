//! The map of a volume in etcd, where another gateway finds it when this one is gone.
//!
//! The bytes are those of a map's file: a snapshot, in parts, and batches of changes, each a key ([`keys`]). Each batch is one transaction,
//! which depends on this gateway being the one that took charge last ([`tenure`]): a gateway that was followed by
//! another changes nothing any more, however late its transactions come. A transaction whose outcome is not known is sent again, as long
//! as it takes. So each may be executed a second time, late: parts and batches write what they wrote, under a name that is used once, and a
//! snapshot takes the place of the one before it only, so that it does so once.
//!
//! In a cluster with keys what lies there is a signed chain ([`flashmob_core::copies::ChainReader`]): the snapshot in parts is one part of it, each batch
//! another. Leader and term are not signed: who can write to etcd decides who serves, or that nobody does, and changes no map ([`trust`]).

mod keys;
mod read;
mod tenure;
#[cfg(test)]
mod tests;
mod trust;

use anyhow::bail;
use flashmob_core::copies::{ChainEnd, MapImage, encode_snapshot};
use flashmob_core::op::Failure;

pub use keys::{Head, Keys};
use read::{Believes, Opened, read};
use tenure::{Exchange, NotExchanged};
pub use tenure::{Keeper, Tenure, Terms};
pub use trust::{MapKeys, Trust};

use super::map_store::{MapFailure, MapStore, is_large};
use crate::etcd::TxnOp;

/// Bytes of a part of a snapshot. A transaction may have 1.5 MiB.
const PART_BYTES: usize = 512 * 1024;
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
    /// The keys that sign the map, in a cluster with keys.
    trust: Option<Trust>,
    /// The end of what is signed.
    end: Option<ChainEnd>,
}

impl EtcdMap {
    /// Reads the map of a volume. `None` if there is none. In a cluster with keys it is refused unless a gateway of the cluster has signed it, or
    /// `accepts_unsigned`. If another key than the gateway's own has signed it, or none, it is signed at once.
    pub fn open(
        tenure: Tenure,
        keys: Keys,
        trust: Option<Trust>,
        accepts_unsigned: bool,
    ) -> anyhow::Result<Option<(EtcdMap, MapImage)>> {
        let believes = Believes { trust: trust.as_ref(), accepts_unsigned };
        let opened = tenure.patient(|| read(tenure.etcd(), &keys, tenure.name(), believes));
        if opened.is_err() {
            // It may have been changed while it was read.
            tenure.must_be_in_charge(&keys)?;
        }
        let Some(opened) = opened? else { return Ok(None) };
        let Opened { head, value, image, snapshot_bytes, bytes, end, is_own } = opened;
        let mut map = EtcdMap::new(tenure, keys, trust);
        (map.head, map.snapshot, map.end) = (Some(value), head.snapshot, end);
        (map.snapshot_bytes, map.bytes) = (snapshot_bytes, bytes);
        if is_own {
            map.keep();
        } else {
            map.rewrite(&encode_snapshot(&image)).map_err(Unwritten)?;
        }
        Ok(Some((map, image)))
    }

    /// Puts the map of a new volume there. Refused if this gateway has signed a map of the volume before.
    pub fn create_first(tenure: Tenure, keys: Keys, trust: Option<Trust>, image: &MapImage) -> anyhow::Result<EtcdMap> {
        if let Some(signed) = trust.as_ref().and_then(Trust::signed_before) {
            bail!(
                "the key {} is missing in {}, and {} says that this gateway has signed a map there: restore etcd's data; or, while no gateway runs, remove what \
                 is left of the volume's keys (`etcdctl del --prefix {}`) and recover the map from the nodes: `flashmob volume recover`. If the volume is to \
                 begin anew, remove the file, too",
                String::from_utf8_lossy(&keys.head()),
                tenure.name(),
                signed.display(),
                keys.base()
            );
        }
        EtcdMap::create(tenure, keys, trust, image)
    }

    /// Puts the map of a volume there that has none in etcd.
    pub fn create(tenure: Tenure, keys: Keys, trust: Option<Trust>, image: &MapImage) -> anyhow::Result<EtcdMap> {
        let mut map = EtcdMap::new(tenure, keys, trust);
        map.rewrite(&encode_snapshot(image)).map_err(Unwritten)?;
        Ok(map)
    }

    fn new(tenure: Tenure, keys: Keys, trust: Option<Trust>) -> EtcdMap {
        EtcdMap {
            tenure,
            keys,
            head: None,
            snapshot: String::new(),
            next_snapshot: 0,
            snapshot_bytes: 0,
            bytes: 0,
            is_spent: false,
            trust,
            end: None,
        }
    }

    /// Remembers that this gateway goes on with the map.
    fn keep(&mut self) {
        if let (Some(trust), Some(end)) = (&mut self.trust, &self.end) {
            trust.keep(end);
        }
    }

    fn must_be_written_anew(&self) -> MapFailure {
        let text = format!("the map in {} has to be written anew", self.tenure.name());
        MapFailure { failure: Failure::Io, text }
    }

    fn commit(&mut self, ops: Vec<TxnOp>) -> Result<(), MapFailure> {
        self.tenure.commit(&self.keys, ops).inspect_err(|_| self.is_spent = true)
    }
}

impl MapStore for EtcdMap {
    fn append(&mut self, number: u64, batch: &[u8]) -> Result<(), MapFailure> {
        if self.is_spent {
            return Err(self.must_be_written_anew());
        }
        let (number, value, end) = match (&self.trust, &self.end) {
            (None, _) => (number, batch.to_vec(), None),
            (Some(trust), Some(end)) => {
                let (part, end) = trust.go_on(end, number, batch);
                (end.number, part, Some(end))
            }
            (Some(_), None) => return Err(self.must_be_written_anew()),
        };
        self.commit(vec![put(self.keys.batch(&self.snapshot, number), value)])?;
        self.end = end;
        self.bytes += batch.len() as u64;
        Ok(())
    }

    fn rewrite(&mut self, snapshot: &[u8]) -> Result<(), MapFailure> {
        let name = format!("{}-{}", self.tenure.term(), self.next_snapshot);
        self.next_snapshot += 1;
        let signed = self.trust.as_mut().map(|trust| trust.begin(snapshot));
        if signed.as_ref().is_some_and(Option::is_none) {
            self.is_spent = true;
            return Err(self.must_be_written_anew());
        }
        let signed = signed.flatten();
        let stored = signed.as_ref().map_or(snapshot, |(signed, _)| signed);
        let parts = stored.chunks(PART_BYTES);
        let head = Head { snapshot: name.clone(), parts: parts.len() as u64, bytes: stored.len() as u64 };
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
            // An attempt before, which seemed to fail, has come about; or somebody else has written there, though this gateway is in charge. The next one
            // replaces that.
            self.head = found.unwrap_or(self.head.take());
            return Err(failure);
        }
        self.head = Some(value);
        self.snapshot = name;
        (self.snapshot_bytes, self.bytes) = (snapshot.len() as u64, snapshot.len() as u64);
        let end = signed.map(|(_, end)| end);
        let generation = |end: Option<ChainEnd>| end.map(|end| end.generation);
        if let Some(generation) = generation(end).filter(|_| generation(self.end) != generation(end)) {
            log::info!("{}: the map is signed with a key of generation {generation}", self.tenure.name());
        }
        self.end = end;
        self.is_spent = false;
        self.keep();
        Ok(())
    }

    fn sign_with(&mut self, keys: MapKeys) -> bool {
        self.trust.as_mut().is_some_and(|trust| trust.renew(keys))
    }

    fn look(&mut self) -> Option<String> {
        let (Some(trust), Some(end)) = (&mut self.trust, &self.end) else { return None };
        trust.retry(end).map(str::to_string)
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

impl Drop for EtcdMap {
    fn drop(&mut self) {
        // If it is another state by now, as a change was executed that seemed to fail, that one is not the one that was left.
        if let (Some(trust), Some(end)) = (&mut self.trust, &self.end)
            && self.tenure.deposed().is_none()
        {
            trust.leave(end);
        }
    }
}

fn put(key: Vec<u8>, value: Vec<u8>) -> TxnOp {
    TxnOp::Put { key, value, lease: 0 }
}

/// A change that could not be made when a gateway started.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text)]
pub struct Unwritten(pub MapFailure);
