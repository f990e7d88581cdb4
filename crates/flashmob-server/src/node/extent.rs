//! An extent that is being served: the node's state machine with its store and its identity.
//!
//! The node process has one; a gateway has one for every node that is a local path.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use flashmob_core::checksum::checksum;
use flashmob_core::elevator::IssueOrder;
use flashmob_core::node::{Host, LoopTimes, MirrorDone, Node, NodeConfig, Start, TryRead};
use flashmob_core::units::Time;
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};
use flashmob_core::wire::mirror::Recalled;

use super::{beside, start, sums};
use crate::keys::enroll::{Applicant, ApplyError, Invitation, Request, apply};
use crate::keys::key::KeyError;
use crate::keys::node::{Draw, own_key};
use crate::keys::{Grant, NodeKeys, PublicKey};
use crate::net::{Clock, Wake};
use crate::store::identity::{AdoptError, ClusterPin, Identity, IdentityError, sidecar_path};
use crate::store::sums::SumsStatus;
use crate::store::sync_record::{RecordPlaces, SyncRecord, runtime_dirs};
use crate::store::{MappedStatus, Mirror, MirrorAnswer, ModelStatus, Store, StoreConfig, StoreError, sync_parent};

/// The extent to serve, and how.
#[derive(Debug, Clone)]
pub struct ExtentConfig {
    /// The data file and the way of its system calls.
    pub store: StoreConfig,
    /// Where the identity is kept, if not beside the data.
    pub state_dir: Option<PathBuf>,
    /// Forget the volume that the extent belonged to.
    pub forget: bool,
    /// The cluster that the extent is to belong to, whose gateways have keys.
    pub cluster: Option<PublicKey>,
    /// Also if it belongs to another cluster.
    pub repin: bool,
    /// Its own key is drawn anew.
    pub new_key: bool,
    /// How it gets to a cluster with keys if it belongs to none, or has to show another key.
    pub enroll: Option<Enrollment>,
    /// Limit on the memory that the node holds, in bytes.
    pub memory_bytes: u64,
    /// Most links at once.
    pub links_max: usize,
    /// In which order operations go to the store.
    pub order: IssueOrder,
}

/// How an extent gets to a cluster.
#[derive(Clone)]
pub struct Enrollment {
    /// Says where, and with which secret. Asked when all else is well.
    pub invite: Arc<dyn Fn() -> anyhow::Result<Invitation> + Send + Sync>,
    /// A person is asked: not if the extent belongs to a cluster already.
    pub is_typed: bool,
    /// Where the node serves gateways.
    pub serves_at: SocketAddr,
    /// The device's name, for people.
    pub name: String,
}

impl std::fmt::Debug for Enrollment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrollment")
            .field("serves_at", &self.serves_at)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why an extent cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ExtentError {
    /// The data cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The identity beside it cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its own key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It had keys, and nothing says any more whose it is.
    #[error(
        "{0} is the key of a node, and {1} is missing or names no cluster: was that file lost, or restored from before, or did the node not \
         finish --enroll? Put it back from a backup, or start the node with --cluster KEY or --enroll, which gives the extent to its cluster; \
         delete the key if the extent is to be open to everybody"
    )]
    ClusterUnknown(PathBuf, PathBuf),
    /// It was one of a volume with copies, and nothing says any more which.
    #[error(
        "{0} is missing, and beside it lie checksums or the mirror of a map: {2}. So {1} is an extent of a volume with copies, and is not \
         taken for a new one. Put the missing file back from a backup. If there is none, and no other node needs this one's copies (`flashmob \
         volume show` names nodes with an only copy), start a node on it once with --forget: its data is given up, and the volume gets it as \
         an empty one with `flashmob volume replace`"
    )]
    IdentityLost(PathBuf, PathBuf, String),
    /// A key is of no use without a cluster.
    #[error("the extent belongs to no cluster with keys: --cluster KEY says to which it is to belong")]
    KeyOfNoCluster,
    /// It does not get to a cluster.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// It belongs to another cluster.
    #[error(
        "the extent belongs to cluster {}, not to {}: correct --cluster. If its cluster has another key now, --repin once gives the extent, with its data, to that",
        .0.short(), .1.short()
    )]
    OtherCluster(PublicKey, PublicKey),
}

/// An extent that is being served.
#[derive(Debug)]
pub struct Extent {
    /// The state machine.
    pub node: Node,
    host: FileHost,
    mirror: Mirror,
    /// For whom it is served, if the cluster has keys.
    keys: Option<NodeKeys>,
    done: Vec<flashmob_core::node::StoreDone>,
    /// The boot of the kernel, and the start of the device that this process began with.
    boot_id: Option<[u8; 16]>,
    start: Start,
}

/// The surroundings of the state machine: the store and the identity.
#[derive(Debug)]
pub(crate) struct FileHost {
    store: Store,
    identity: Identity,
    clock: Clock,
    has_fast_reads: bool,
    /// Answers without I/O: it has no bytes that could be wrong.
    no_io: bool,
    /// How old the extent was when the process began, if its checksums did not tell.
    age_at_first: Option<(u64, u64)>,
    /// Why its checksums cannot be used, so that it cannot be served to its volume.
    sums_trouble: Option<String>,
}

/// The keys of an extent, which is given to a cluster first if it is to be.
fn open_keys(identity: &mut Identity, config: &ExtentConfig) -> Result<Option<NodeKeys>, ExtentError> {
    let (known, path) = (identity.cluster(), identity.key_path());
    match (known, &config.enroll) {
        (Some(pin), Some(enrollment)) if !config.new_key && !config.repin => {
            // A token that is gone is not needed any more. One that is there may be another cluster's.
            let named = (!enrollment.is_typed).then(|| (enrollment.invite)().ok()?.cluster).flatten();
            if let Some(other) = named.filter(|named| *named != pin.key) {
                return Err(ExtentError::OtherCluster(pin.key, other));
            }
            log::info!(
                "the extent belongs to cluster {} already: no code is needed. If its gateway has lost the key of this node, see below how it is pinned",
                pin.key.short()
            );
        }
        (_, Some(enrollment)) => return Ok(Some(enroll(identity, config, enrollment)?)),
        _ => {}
    }
    let draw = if config.new_key { Draw::Anew } else { Draw::Never };
    match (known, config.cluster) {
        (None, None) if NodeKeys::are_at(&path)? => {
            Err(ExtentError::ClusterUnknown(path, identity.path().to_path_buf()))
        }
        (None, None) if config.new_key => Err(ExtentError::KeyOfNoCluster),
        (None, None) => Ok(None),
        (Some(pin), wanted) if wanted.is_none_or(|wanted| wanted == pin.key) => {
            Ok(Some(NodeKeys::open(&path, pin.key, draw)?))
        }
        (Some(pin), Some(wanted)) if !config.repin => Err(ExtentError::OtherCluster(pin.key, wanted)),
        (known, wanted) => {
            let Some(cluster) = wanted else { return Ok(None) };
            // Before the pin: an extent that has one is not served without its key.
            let draw = if known.is_none() && draw == Draw::Never { Draw::IfMissing } else { draw };
            let keys = NodeKeys::open(&path, cluster, draw)?;
            identity.pin_cluster(ClusterPin { key: cluster, generation: 0 })?;
            log::info!("{}: given to cluster {}", identity.path().display(), cluster.short());
            Ok(Some(keys))
        }
    }
}

/// Gets the extent to the cluster whose code somebody has given. Returns when somebody has said yes, or no.
fn enroll(identity: &mut Identity, config: &ExtentConfig, how: &Enrollment) -> Result<NodeKeys, ExtentError> {
    let (known, path) = (identity.cluster(), identity.key_path());
    let mut staged = path.clone();
    staged.as_mut_os_string().push(".next");
    let key = match (config.new_key, known) {
        // The one that is there stays until the gateway has taken the new one; that one is not lost meanwhile.
        (true, _) => own_key(&staged, Draw::IfMissing)?,
        (false, None) => own_key(&path, Draw::IfMissing)?,
        (false, Some(_)) => own_key(&path, Draw::Never)?,
    };
    let request = Request {
        nonce: Default::default(),
        extent: identity.extent_id(),
        size_bytes: identity.size_bytes(),
        port: how.serves_at.port(),
        name: how.name.clone(),
    };
    let cluster = known.filter(|_| !config.repin).map(|pin| pin.key);
    let applicant = Applicant { key: &key, request, serves_at: Some(how.serves_at.ip()), cluster };
    let mut keep = |grant: &Grant| -> anyhow::Result<()> {
        if config.new_key {
            std::fs::rename(&staged, &path)?;
            sync_parent(&path)?;
        }
        let seen = known.filter(|pin| pin.key == grant.cluster).map_or(0, |pin| pin.generation);
        Ok(identity.pin_cluster(ClusterPin { key: grant.cluster, generation: seen.max(grant.generation) })?)
    };
    let invitation = (how.invite)().map_err(ApplyError::Own)?;
    let cluster = apply(&invitation, &applicant, &mut keep).inspect_err(|_| {
        // A later new key is to be new.
        let _ = std::fs::remove_file(&staged);
    })?;
    log::info!("{}: given to cluster {}", identity.path().display(), cluster.short());
    Ok(NodeKeys::of(&key, cluster, &path)?)
}

impl Extent {
    /// Opens the data, locks it, and reads or makes its identity. `wake` is called, from any thread, when
    /// the store has finished something.
    pub fn open(config: &ExtentConfig, clock: Clock, wake: Wake) -> Result<Extent, ExtentError> {
        let path = &config.store.path;
        let had_data = std::fs::metadata(path).is_ok_and(|m| m.len() > 0);
        let store_wake = wake.clone();
        let sidecar = sidecar_path(path, config.state_dir.as_deref());
        beside::check(config)?;
        if config.store.grow {
            Identity::check_growth(&sidecar)?;
        }
        let is_lost = std::fs::metadata(path).map_or(true, |m| m.is_file() && m.len() == 0);
        if let Some(size_bytes) = config.store.size_bytes.filter(|_| config.forget && is_lost) {
            Identity::forget_lost(&sidecar, size_bytes)?;
        }
        let how = StoreConfig { gives_up: config.forget, ..config.store.clone() };
        let store = Store::open(how, clock.started(), move || store_wake.wake())?;
        let mut identity = match config.forget {
            true => Identity::load_to_forget(&sidecar, store.size_bytes())?,
            false => Identity::load_or_create(&sidecar, store.size_bytes(), config.store.grow)?,
        };
        if had_data && identity.is_new() {
            log::warn!(
                "{}: the data exists but {} does not; if that file is elsewhere, stop this node and restore it",
                path.display(),
                sidecar.display()
            );
        }
        // Before anything is given up.
        let keys = open_keys(&mut identity, config)?;
        if config.forget {
            beside::forget(&mut identity)?;
        }
        let boot_id = start::boot_id(path);
        let start = start::begin(boot_id, path, identity.path(), &identity.end_path());
        if !start.is_proven {
            log::info!(
                "{}: the system does not tell whether what is in memory outlives this process: if it is killed, gateways take that for a restart of the device",
                path.display()
            );
        }
        let record = SyncRecord::load(boot_id, sync_places(&identity));
        let sums_path = identity.sums().map(|_| identity.sums_path());
        store.begin(record, sums_path.as_deref())?;
        let mut sums_trouble = None;
        if !config.store.no_io
            && let Err(error) = sums::open(&store, &mut identity)
        {
            log::error!("{error}");
            sums_trouble = Some(error.to_string());
        }
        let mut node = Node::new(NodeConfig {
            no_io: config.store.no_io,
            modelled: store.is_modelled(),
            memory_bytes: config.memory_bytes,
            links_max: config.links_max,
            align_bytes: store.alignment_bytes(),
            store_depth: store.depth(),
            order: config.order,
            keeps_mirror: !config.store.no_io,
            ..NodeConfig::new(identity.extent_id().0, store.shown_boot_id(start.id), store.size_bytes())
        });
        node.set_clock_start(clock.start_monotonic_ns());
        let (mirror, found) = Mirror::open(identity.mirror_path(), store.age_keeper(), move || wake.wake());
        node.set_mirror(found, identity.charge().as_ref());
        // An earlier build kept none: then the mirror is as old as the extent.
        let age_at_first = node.mirror_age().filter(|_| store.age().is_none());
        let has_fast_reads = config.store.no_io || !(config.store.direct || store.is_modelled());
        let no_io = config.store.no_io;
        let host = FileHost { store, identity, clock, has_fast_reads, no_io, age_at_first, sums_trouble };
        Ok(Extent { node, host, mirror, keys, done: Vec::new(), boot_id, start })
    }

    /// The keys without which nobody is let in; `None` if everybody is.
    #[must_use]
    pub fn keys(&self) -> Option<&NodeKeys> {
        self.keys.as_ref()
    }

    /// The latest generation of grants that it has seen.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.host.identity.cluster().map_or(0, |pin| pin.generation)
    }

    /// Records a later generation, on the flash when this returns.
    pub fn raise_generation(&mut self, generation: u64) -> Result<(), IdentityError> {
        match self.host.identity.cluster() {
            Some(pin) => self.host.identity.pin_cluster(ClusterPin { generation, ..pin }),
            None => Ok(()),
        }
    }

    /// Decodes what was received on a link.
    pub fn process(&mut self, now: Time, link: flashmob_core::node::LinkId) {
        self.host.store.tick(now);
        self.node.process(now, link, &mut self.host);
    }

    /// Takes what the store finished, serves what is in hand, and hands new operations to the store.
    pub fn turn(&mut self, now: Time) {
        self.host.store.tick(now);
        if self.host.store.take_progress() {
            self.node.store_progressed(now);
        }
        while let Some(answer) = self.mirror.take_done() {
            let done = self.host.mirror_done(answer);
            self.node.mirror_done(done);
        }
        self.mirror.begin(self.node.mirror_ops());
        loop {
            self.host.store.take_done(&mut self.done);
            let had_done = !self.done.is_empty();
            for done in self.done.drain(..) {
                self.node.store_done(done);
            }
            self.node.turn(now, &mut self.host);
            let ops = self.node.store_ops();
            if ops.is_empty() && !had_done {
                break;
            }
            // Operations that complete at once (no-I/O mode) are answered in the same turn.
            self.host.store.submit(ops);
        }
    }

    /// A turn of the loop has ended.
    pub fn end_turn(&mut self) {
        self.host.store.end_turn();
    }

    /// The process ends in order, and serves nothing any more. Where nothing else tells the next one that no byte was lost, everything is flushed,
    /// and that recorded. May block.
    pub fn end(&mut self) {
        if !self.start.is_proven && self.host.store.sync() {
            start::end(&self.host.identity.end_path(), self.boot_id, self.start.id);
        }
    }

    /// Reads without blocking, or says that it cannot.
    pub fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        if !self.host.has_fast_reads {
            return TryRead::Miss;
        }
        self.host.store.try_read(offset_bytes, into)
    }

    /// Whether the data is damaged, so that only a restart helps.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.host.store.is_damaged()
    }

    /// Why a power cut may lose what was flushed, if the file system is mounted so.
    #[must_use]
    pub fn flush_warning(&self) -> Option<String> {
        self.host.store.flush_warning()
    }

    /// Statistics of the memory mapping; `None` without one.
    #[must_use]
    pub fn mapped_status(&self) -> Option<MappedStatus> {
        self.host.store.mapped_status()
    }

    /// The state of its checksums; `None` without any.
    #[must_use]
    pub fn sums_status(&self) -> Option<SumsStatus> {
        self.host.store.sums_status()
    }

    /// Why it is not served to its volume, with the remedy: its checksums cannot be used.
    #[must_use]
    pub fn sums_trouble(&self) -> Option<&str> {
        self.host.sums_trouble.as_deref()
    }

    /// What is wrong with its flushes, with the remedy.
    #[must_use]
    pub fn sync_trouble(&self) -> Option<String> {
        self.host.store.sync_trouble()
    }

    /// Statistics of the modelled flash; `None` without one.
    #[must_use]
    pub fn model_status(&self) -> Option<ModelStatus> {
        self.host.store.model_status()
    }

    /// The identity kept beside the data.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.host.identity
    }
}

impl Host for FileHost {
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        self.store.try_read(offset_bytes, into)
    }

    fn try_writes<'a>(&mut self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        self.store.try_writes(writes)
    }

    fn prefetch(&mut self, offset_bytes: u64) {
        self.store.prefetch(offset_bytes);
    }

    fn has_fast_reads(&self) -> bool {
        self.has_fast_reads
    }

    fn charge(&self) -> Option<Charge> {
        self.identity.charge()
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        self.identity.accepted().to_vec()
    }

    fn age(&self) -> Option<(u64, u64)> {
        self.store.age().or(self.age_at_first)
    }

    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        if self.store.is_damaged() {
            return Err((RefuseReason::Store, "the node's data file is damaged; see its log".to_string()));
        }
        if let Some(trouble) = &self.sums_trouble {
            return Err((RefuseReason::Identity, trouble.clone()));
        }
        let charge = hello.charge.as_ref();
        let place = (hello.volume_id.as_str(), hello.extent, hello.extents, hello.layout.as_str());
        let is_news = charge.is_some() && self.identity.charge().as_ref() != charge;
        let stamp = match sums::renew(&self.store, &self.identity, is_news) {
            Ok(stamp) => stamp,
            Err(error) => {
                log::error!("{error}");
                return Err((RefuseReason::Store, error.to_string()));
            }
        };
        let adopted = self.convert(hello).and_then(|()| self.identity.adopt_stamped(place, charge, stamp));
        match adopted {
            Ok(_) => self.ensure_sums(),
            Err(AdoptError::NotInCharge(reason, text)) => Err((reason, text)),
            Err(AdoptError::Identity(error)) => {
                log::error!("cannot write the identity: {error}");
                Err((RefuseReason::Store, error.to_string()))
            }
            Err(error) => {
                let path = self.identity.path().display();
                Err((
                    RefuseReason::Identity,
                    format!(
                        "{error} (recorded in {path}; start the node with --forget to give up its data, if that is nowhere the only copy)"
                    ),
                ))
            }
        }
    }

    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn loop_times(&mut self) -> Option<LoopTimes> {
        let (running, starved) = flashmob_host::threads::own_times()?;
        Some(LoopTimes { running, starved })
    }
}

impl FileHost {
    /// What the state machine is told of an operation on the mirror.
    fn mirror_done(&self, answer: MirrorAnswer) -> MirrorDone {
        match answer {
            MirrorAnswer::Put { link, put, is_kept } => MirrorDone::Put { link, put, is_kept },
            MirrorAnswer::Read { link, mirror_bytes, bytes } => {
                let (extent_id, size_bytes) = (self.identity.extent_id().0, self.identity.size_bytes());
                let volume = self.identity.place().map(|place| (place.volume_id.clone(), place.extent_index));
                let charge = self.identity.charge();
                let layout = self.identity.layout_without_copies();
                let is_linked = false;
                let recalled = Recalled { extent_id, size_bytes, mirror_bytes, volume, charge, layout, is_linked };
                MirrorDone::Recalled { link, recalled, bytes }
            }
        }
    }

    /// An extent of a linear volume becomes one of the volume with copies that was made of it, if its checksums are likely to find room.
    fn convert(&mut self, hello: &Hello) -> Result<(), AdoptError> {
        if self.identity.may_convert(hello) {
            let room = self.store.check_room_for_sums(&self.identity.sums_path());
            room.map_err(|error| AdoptError::Refused(format!("it cannot be converted: {error}")))?;
            self.identity.convert(hello)?;
        }
        Ok(())
    }

    /// Makes checksums for an extent that has just been adopted, or that an earlier program adopted without.
    fn ensure_sums(&mut self) -> Result<(), (RefuseReason, String)> {
        if self.no_io {
            return Ok(());
        }
        sums::ensure(&self.store, &mut self.identity).map_err(|error| {
            log::error!("{error}");
            (RefuseReason::Store, error.to_string())
        })
    }
}

/// Where failed syncs of an extent are recorded: in memory and beside it. A copy of it on this machine has another place.
fn sync_places(identity: &Identity) -> RecordPlaces {
    let of_path = checksum(identity.path().as_os_str().as_bytes());
    let name = format!("flashmob-{}-{of_path:08x}.syncs", identity.extent_id());
    let in_memory = runtime_dirs().into_iter().map(|dir| dir.join(&name)).collect();
    RecordPlaces { in_memory, beside: vec![identity.syncs_path()], spare: Some(identity.spare_path()) }
}
