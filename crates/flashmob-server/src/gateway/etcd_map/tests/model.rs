//! A model of etcd: keys, transactions and leases over HTTP and JSON, with failures that a test asks for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http;

/// Most bytes of a request, as etcd has it by default.
const REQUEST_BYTES_MAX: usize = 3 << 19;

/// A key that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub value: Vec<u8>,
    pub create_revision: i64,
    pub mod_revision: i64,
    /// How many times it was written since it was created.
    pub version: i64,
    pub lease: i64,
}

/// What becomes of a transaction that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is executed, and the answer is that there is no room.
    AnswersFull,
    Executed,
    /// It is executed, and the connection closed without an answer.
    LosesAnswer,
    /// It is not executed, and the connection closed.
    Lost,
    /// As if lost; but [`Model::arrive`] executes it.
    Late,
}

/// An error that etcd answers with: the HTTP status, the code of gRPC, and the message.
type Refused = (u16, u8, &'static str);

const NO_SPACE: Refused = (429, 8, "etcdserver: mvcc: database space exceeded");
const NO_LEASE: Refused = (404, 5, "etcdserver: requested lease not found");
const TOO_LARGE: Refused = (400, 3, "etcdserver: request is too large");
const DENIED: Refused = (403, 7, "etcdserver: permission denied");
const DUPLICATE: Refused = (400, 3, "etcdserver: duplicate key given in txn request");

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Vec<u8>, Kept>,
    revision: i64,
    /// Leases do not end by themselves.
    leases: BTreeMap<i64, i64>,
    last_lease: i64,
    is_away: bool,
    /// After so many more reads others are denied.
    denied_after: Option<usize>,
    /// What becomes of the next transactions that write; all others are executed.
    fates: VecDeque<Fate>,
    late: Vec<Value>,
    /// How many more puts there is room for.
    room: Option<usize>,
    txns: usize,
}

/// A server of its own, which lasts as long as the process.
#[derive(Debug)]
pub struct Model {
    state: Arc<Mutex<State>>,
    pub address: String,
}

impl Model {
    pub fn start() -> Model {
        let state = Arc::new(Mutex::new(State { revision: 1, ..State::default() }));
        let shared = Arc::clone(&state);
        let address = http::start(move |path, body| {
            let answer = lock(&shared).answer(path, &serde_json::from_slice(body).unwrap(), body.len())?;
            Some(match answer {
                Ok(value) => (200, value.to_string()),
                Err((status, code, words)) => (status, json!({ "error": words, "code": code }).to_string()),
            })
        });
        Model { state, address }
    }

    /// Ends all leases, as their time would. Their keys go.
    pub fn end_leases(&self) {
        let mut state = self.state();
        let leases = std::mem::take(&mut state.leases);
        leases.keys().for_each(|lease| state.remove_keys_of(*lease));
    }

    /// The leases that there are.
    pub fn leases(&self) -> Vec<i64> {
        self.state().leases.keys().copied().collect()
    }

    /// Whether connections are closed, and nothing is executed.
    pub fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Denies each read behind so many.
    pub fn set_denied(&self, after: Option<usize>) {
        self.state().denied_after = after;
    }

    /// What becomes of the next transactions that write.
    pub fn set_fates(&self, fates: &[Fate]) {
        self.state().fates = fates.iter().copied().collect();
    }

    /// How many transactions have a fate that is to come.
    pub fn fates(&self) -> usize {
        self.state().fates.len()
    }

    /// The database is full after so many puts.
    pub fn set_room(&self, puts: Option<usize>) {
        self.state().room = puts;
    }

    /// Executes what is late. Returns how many transactions those are.
    pub fn arrive(&self) -> usize {
        let mut state = self.state();
        let late = std::mem::take(&mut state.late);
        late.iter().for_each(|txn| drop(state.txn(txn)));
        late.len()
    }

    /// All keys that there are, in order.
    pub fn keys(&self) -> Vec<String> {
        self.state().keys.keys().map(|key| String::from_utf8(key.clone()).unwrap()).collect()
    }

    pub fn get(&self, key: &[u8]) -> Option<Kept> {
        self.state().keys.get(key).cloned()
    }

    /// Damages a value.
    pub fn set(&self, key: &[u8], value: &[u8]) {
        self.state().put(key.to_vec(), value.to_vec(), 0);
    }

    pub fn remove(&self, key: &[u8]) {
        self.state().keys.remove(key).unwrap();
    }

    /// How many transactions and reads were executed.
    pub fn txns(&self) -> usize {
        self.state().txns
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The answer to a request; `None` if the connection is closed instead.
    fn answer(&mut self, path: &str, body: &Value, bytes: usize) -> Option<Result<Value, Refused>> {
        if self.is_away {
            return None;
        }
        let id = int(&body["ID"]);
        let header = self.header();
        let answer = match path {
            "/v3/kv/range" => {
                if let Some(left) = &mut self.denied_after {
                    let Some(less) = left.checked_sub(1) else { return Some(Err(DENIED)) };
                    *left = less;
                }
                self.txns += 1;
                Ok(self.range(body))
            }
            "/v3/kv/txn" if bytes > REQUEST_BYTES_MAX => Err(TOO_LARGE),
            // Of etcd 3.4 even those that only read.
            "/v3/kv/txn" if self.room == Some(0) => Err(NO_SPACE),
            "/v3/kv/txn" => {
                let writes = list(&body["success"]).any(|op| op.get("request_range").is_none());
                let fate = if writes { self.fates.pop_front() } else { None };
                match fate.unwrap_or(Fate::Executed) {
                    Fate::Executed => self.txn(body),
                    Fate::LosesAnswer => return self.txn(body).ok().and(None),
                    Fate::Lost => return None,
                    Fate::AnswersFull => self.txn(body).and(Err(NO_SPACE)),
                    Fate::Late => {
                        self.late.push(body.clone());
                        return None;
                    }
                }
            }
            "/v3/lease/grant" => {
                self.last_lease += 1;
                let (id, ttl) = (self.last_lease, int(&body["TTL"]));
                self.leases.insert(id, ttl);
                Ok(json!({ "header": header, "ID": id.to_string(), "TTL": ttl.to_string() }))
            }
            "/v3/lease/keepalive" => {
                let ttl = self.leases.get(&id).copied().unwrap_or(0).to_string();
                Ok(json!({ "result": { "header": header, "ID": id.to_string(), "TTL": ttl } }))
            }
            "/v3/lease/revoke" => match self.leases.remove(&id) {
                None => Err(NO_LEASE),
                Some(_) => {
                    self.remove_keys_of(id);
                    Ok(json!({ "header": header }))
                }
            },
            _ => Err((404, 5, "Not Found")),
        };
        Some(answer)
    }

    fn txn(&mut self, txn: &Value) -> Result<Value, Refused> {
        let succeeds = list(&txn["compare"]).all(|compare| self.holds(compare));
        let ops = &txn[if succeeds { "success" } else { "failure" }];
        let puts: Vec<&Value> = list(ops).filter_map(|op| op.get("request_put")).collect();
        if puts.iter().any(|put| int(&put["lease"]) != 0 && !self.leases.contains_key(&int(&put["lease"]))) {
            return Err(NO_LEASE);
        }
        let removes: Vec<&Value> = list(ops).filter_map(|op| op.get("request_delete_range")).collect();
        let written: BTreeSet<Vec<u8>> = puts.iter().map(|put| bytes(&put["key"])).collect();
        if written.len() < puts.len() || written.iter().any(|key| removes.iter().any(|range| is_in(key, range))) {
            return Err(DUPLICATE);
        }
        if let Some(room) = self.room.as_mut().filter(|_| !puts.is_empty()) {
            *room = room.checked_sub(puts.len()).ok_or(NO_SPACE)?;
        }
        self.txns += 1;
        let responses: Vec<Value> = list(ops).map(|op| self.execute(op)).collect();
        Ok(json!({ "header": self.header(), "succeeded": succeeds, "responses": responses }))
    }

    fn execute(&mut self, op: &Value) -> Value {
        if let Some(asked) = op.get("request_range") {
            return json!({ "response_range": self.range(asked) });
        }
        if let Some(put) = op.get("request_put") {
            self.put(bytes(&put["key"]), bytes(&put["value"]), int(&put["lease"]));
            return json!({ "response_put": { "header": self.header() } });
        }
        let count = self.keys.len();
        self.keys.retain(|key, _| !is_in(key, &op["request_delete_range"]));
        let deleted = (count - self.keys.len()).to_string();
        json!({ "response_delete_range": { "header": self.header(), "deleted": deleted } })
    }

    fn holds(&self, compare: &Value) -> bool {
        let kept = self.keys.get(&bytes(&compare["key"]));
        assert_eq!(compare["result"], "EQUAL");
        match compare["target"].as_str() {
            Some("CREATE") => kept.map_or(0, |kept| kept.create_revision) == int(&compare["create_revision"]),
            Some("MOD") => kept.map_or(0, |kept| kept.mod_revision) == int(&compare["mod_revision"]),
            Some("VALUE") => kept.is_some_and(|kept| kept.value == bytes(&compare["value"])),
            _ => panic!("{compare}"),
        }
    }

    fn range(&self, asked: &Value) -> Value {
        let limit = usize::try_from(int(&asked["limit"])).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let found: Vec<_> = self.keys.iter().filter(|(key, _)| is_in(key, asked)).collect();
        let kv = |(key, kept): &(&Vec<u8>, &Kept)| {
            json!({
                "key": STANDARD.encode(key),
                "value": STANDARD.encode(&kept.value),
                "create_revision": kept.create_revision.to_string(),
                "mod_revision": kept.mod_revision.to_string(),
                "version": kept.version.to_string(),
                "lease": kept.lease.to_string(),
            })
        };
        let kvs: Vec<Value> = found.iter().take(limit).map(kv).collect();
        json!({ "header": self.header(), "more": found.len() > limit, "kvs": kvs, "count": found.len().to_string() })
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>, lease: i64) {
        self.revision += 1;
        let (created, version) = self.keys.get(&key).map_or((self.revision, 0), |k| (k.create_revision, k.version));
        let mod_revision = self.revision;
        self.keys.insert(key, Kept { value, create_revision: created, mod_revision, version: version + 1, lease });
    }

    fn remove_keys_of(&mut self, lease: i64) {
        self.keys.retain(|_, kept| kept.lease != lease);
    }

    fn header(&self) -> Value {
        json!({ "cluster_id": "7", "member_id": "8", "revision": self.revision.to_string(), "raft_term": "2" })
    }
}

/// Whether a range, or a single key, has this key.
fn is_in(key: &[u8], range: &Value) -> bool {
    let from = bytes(&range["key"]);
    range.get("range_end").map_or(key == from, |end| key >= from.as_slice() && key < bytes(end).as_slice())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()
}

/// A number, which is a text in JSON.
fn int(value: &Value) -> i64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
