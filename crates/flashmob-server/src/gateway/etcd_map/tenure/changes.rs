//! Changes of a volume's map, by the gateway that was the last to take charge of it.

use flashmob_core::op::Failure;

use super::{AGAIN_AFTER, DEADLINE, Tenure, leader_in, range};
use crate::etcd::{Compare, EtcdError, Txn, TxnOp};
use crate::gateway::etcd_map::{Keys, Unwritten};
use crate::gateway::map_store::MapFailure;

impl Tenure {
    /// Carries out a change of a volume's map, if this gateway was the last that took charge of it. Waits for etcd as long as it takes, or until the end.
    /// It may be executed more than once.
    pub fn commit(&self, keys: &Keys, ops: Vec<TxnOp>) -> Result<(), MapFailure> {
        self.carry_out(keys, None, ops).map_err(|failed| failed.failure)
    }

    /// The same, once only: a key's value is exchanged for another one.
    pub fn exchange(&self, keys: &Keys, exchange: &Exchange, ops: Vec<TxnOp>) -> Result<(), NotExchanged> {
        self.carry_out(keys, Some(exchange), ops)
    }

    /// Refuses to go on if another gateway has taken charge of a volume.
    pub fn must_be_in_charge(&self, keys: &Keys) -> anyhow::Result<()> {
        Ok(self.commit(keys, Vec::new()).map_err(Unwritten)?)
    }

    fn carry_out(&self, keys: &Keys, exchange: Option<&Exchange>, ops: Vec<TxnOp>) -> Result<(), NotExchanged> {
        let shared = &*self.0;
        let failed = |failure, text: String| Err(NotExchanged { failure: MapFailure { failure, text }, found: None });
        let term = self.term().as_bytes();
        let mut txn = Txn {
            compare: vec![Compare::Value(keys.term(), term.to_vec())],
            success: ops,
            failure: vec![range(keys.leader()), range(keys.term())],
        };
        if let Some(Exchange { key, from, to }) = exchange {
            txn.compare.push(match from {
                Some(from) => Compare::Value(key.clone(), from.clone()),
                None => Compare::CreateRevision(key.clone(), 0),
            });
            txn.success.push(TxnOp::Put { key: key.clone(), value: to.clone(), lease: 0 });
            txn.failure.push(range(key.clone()));
        }
        loop {
            let error = match shared.etcd.txn(&txn, DEADLINE) {
                Ok(done) => {
                    shared.note_answer();
                    let found = |key: &[u8], value: &[u8]| {
                        done.responses.iter().flat_map(|found| &found.kvs).any(|kv| kv.key == key && kv.value == value)
                    };
                    // An attempt of which no answer came was executed.
                    let is_done = exchange.is_some_and(|exchange| found(&exchange.key, &exchange.to));
                    return match (done.succeeded, found(&keys.term(), term)) {
                        (true, _) => Ok(()),
                        (false, true) if is_done => Ok(()),
                        (false, true) => {
                            let key = exchange.map_or_else(Vec::new, |exchange| exchange.key.clone());
                            let text = format!(
                                "{}: the map was written by an attempt that seemed to fail, or somebody else has changed {}",
                                shared.name,
                                String::from_utf8_lossy(&key)
                            );
                            let mut values = done.responses.iter().flat_map(|found| &found.kvs);
                            let found = values.find(|kv| kv.key == key).map(|kv| kv.value.clone());
                            let failure = MapFailure { failure: Failure::Io, text };
                            Err(NotExchanged { failure, found: Some(found) })
                        }
                        (false, false) => {
                            shared.depose(done.responses.iter().find_map(leader_in));
                            failed(Failure::Io, format!("{}: another gateway has taken charge", shared.name))
                        }
                    };
                }
                Err(error) => error,
            };
            match error {
                EtcdError::Unknown { .. } | EtcdError::NotSent { .. } => shared.note_trouble(&error),
                EtcdError::NoSpace => return failed(Failure::NoSpace, format!("{}: {error}", shared.name)),
                error => return failed(Failure::Io, format!("{}: {error}", shared.name)),
            }
            if shared.is_over() {
                return failed(Failure::Io, format!("{}: the gateway ends", shared.name));
            }
            shared.sleep(AGAIN_AFTER);
        }
    }
}

/// A key's value, and the one that it gets; none is that there is no key.
#[derive(Debug)]
pub struct Exchange {
    pub key: Vec<u8>,
    pub from: Option<Vec<u8>>,
    pub to: Vec<u8>,
}

/// A key's value was not exchanged.
#[derive(Debug)]
pub struct NotExchanged {
    pub failure: MapFailure,
    /// The value that it has, if that is another one; `Some(None)` is that there is no key.
    pub found: Option<Option<Vec<u8>>>,
}
