//! The gateway's event loop: one thread that moves bytes between clients, the state machine and links.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_core::gateway::{ClientId, Gateway, GatewayConfig, LinkId, Sampling};
use flashmob_core::strangers::{self, Unproven};
use flashmob_core::units::Time;
use mio::{Events, Poll, Token};
use slab::Slab;

use super::claims::Claims;
use super::diagnose::Diagnosed;
use super::divided::{Between, Clients};
use super::etcd_map::{Tenure, Terms, Unwritten};
use super::from_nodes::take_over;
use super::identity::{derived_id, named_id, session};
use super::inside::{Inside, Resident};
use super::lease::{Deposed, LeaseSeen};
use super::links::{Links, exact};
use super::maps::{Known, Maps};
use super::members::{Note, with_members};
use super::memory::ExtentMemory;
use super::native::{NativeCalls, NativeHandle, native};
use super::newcomers::Newcomers;
use super::open::{named_extents, open_place, volume_spec};
use super::recorded::Unrecorded as UnrecordedChange;
use super::resize::Shrinks;
use super::secure::{NbdDoor, Secrecy, WayIn};
use super::shares::{Settled, to_give};
use super::surplus::{Surplus, give_back};
use super::volumes::Unrecorded;
use super::whereabouts::{Marks, Sighting, Whereabouts, whereabouts};
use crate::config::{Config, VolumeConfig};
use crate::etcd::EtcdError;
use crate::keys::{Client, Folder, GatewayKeys, GrantInUse, KnownAddresses, thread_time};
use crate::net::path::LOOK_EVERY;
use crate::net::stream::refuse_unknown_congestion;
use crate::net::{Clock, Filled, ListenAddr, Listener, Patience, Readiness, SocketOptions, Stream, TurnedAway, Wake};
use crate::status::change::Change;
use crate::status::report::Report;
use crate::status::trace::TraceReport;
use crate::status::volumes::{PauseAnswer, PauseRequest, ResyncAnswer, ResyncRequest};
use crate::status::{LiveQuestion, Reporter, VolumeQuestion, reporter};
use crate::store::extent_id::unique_id;

const WAKE: Token = Token(0);
const FIRST_LISTENER: usize = 1;
const FIRST_LINK: usize = 1024;
/// More links than there can be are before it.
const FIRST_CLIENT: usize = 1 << 28;
/// Timeout of requests in progress when the gateway shuts down.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Silence after which the kernel probes a client.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Timeout of a client's last answers.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most clients that have not chosen an export, beside `connections` that have.
pub const CHOOSING_MAX: usize = 64;
/// The socket buffers of all links together may take this part of the gateway's memory: they belong to the kernel and are not
/// counted in the budget, but bounded by it.
const BUFFERS_PART: u64 = 4;

/// The keys of the cluster, if it has keys.
pub(super) fn load_keys(config: &Config) -> anyhow::Result<Option<GatewayKeys>> {
    config
        .keys
        .as_ref()
        .map(|path| Folder::at(path).load())
        .transpose()
        .context("the keys of the cluster cannot be used")
}

/// One NBD client's connection.
#[derive(Debug)]
pub(super) struct ClientConn {
    pub stream: Stream,
    pub id: ClientId,
    pub readiness: Readiness,
    /// How far it is with TLS, if it has to begin that.
    pub secrecy: Secrecy,
    /// When its handshake may begin, if too many others have lately.
    pub waits_until: Option<Instant>,
    /// Who it is, if it has proven that.
    pub who: Option<Client>,
    /// Close when everything is written, at the latest then.
    pub closing: Option<Instant>,
    /// When it last came nearer to being let in: see [`strangers`].
    pub stepped: Instant,
    /// No export was chosen yet, as far as was seen.
    is_choosing: bool,
}

impl ClientConn {
    fn may_be_read(&self) -> bool {
        self.readiness.is_readable() && self.secrecy != Secrecy::Starting
    }
}

/// No user.
const NOBODY: u64 = 0;

/// The user of clients at an address that have proven nothing, as a number.
fn user_at(address: Option<IpAddr>) -> u64 {
    number_of(&strangers::origin(address))
}

/// A number that is the same for all clients of one user.
fn number_of(user: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.hash(&mut hasher);
    hasher.finish().max(NOBODY + 1)
}

impl ClientConn {
    /// The user of the client: by the name of its certificate, or its address.
    pub(super) fn user(&self) -> u64 {
        self.who.as_ref().map_or_else(|| user_at(self.stream.peer_ip()), |who| number_of(&who.name))
    }
}

/// A gateway, ready to run.
#[derive(Debug)]
pub struct GatewayServer {
    pub(super) gateway: Gateway,
    pub(super) links: Links,
    pub(super) clients: Slab<ClientConn>,
    pub(super) clock: Clock,
    pub(super) poll: Poll,
    pub(super) wake: Wake,
    listeners: Vec<Listener>,
    native_calls: NativeCalls,
    native_handle: NativeHandle,
    reporter: Reporter,
    questions: Receiver<SyncSender<Report>>,
    trace_questions: Receiver<SyncSender<TraceReport>>,
    volume_questions: Receiver<VolumeQuestion>,
    live_questions: Receiver<LiveQuestion>,
    /// Differs between starts.
    pub(super) start: u64,
    whereabouts: Whereabouts,
    sightings: Receiver<Sighting>,
    pub(super) marks: Marks,
    stop: Arc<AtomicBool>,
    busy_poll: Duration,
    pub(super) dirty_clients: Vec<ClientId>,
    dirty_links: Vec<LinkId>,
    /// For [`GatewayServer::attend`].
    pub(super) between: Between,
    /// Where each client's connection is, by the client's place in the gateway.
    conn_of_client: Vec<usize>,
    /// Kept by a gateway that has a configuration file.
    pub(super) memory: Option<ExtentMemory>,
    /// The maps of volumes with copies.
    pub(super) maps: Maps,
    /// Replaced extents of which somebody waits to hear that the map has them.
    pub(super) unrecorded: Vec<Unrecorded>,
    /// Nodes that have joined, and are in no volume.
    pub(super) newcomers: Newcomers,
    /// The same of moves, and of nodes that are added or removed.
    pub(super) unrecorded_changes: Vec<UnrecordedChange>,
    /// Volumes that are to be made smaller.
    pub(super) shrinks: Shrinks,
    /// The volumes as configured, and the limit of each buffer of a link: for nodes that are added.
    pub(super) volumes: Vec<VolumeConfig>,
    pub(super) share_bytes: u64,
    /// Nodes to be paused, once others have shown that they are alive, and until when they have to.
    pub(super) pauses: Vec<(Change<PauseRequest, PauseAnswer>, Time)>,
    /// Requests to have a node's copies made equal to others, that wait likewise.
    pub(super) resyncs: Vec<(Change<ResyncRequest, ResyncAnswer>, Time)>,
    /// When these are tried again.
    pub(super) pauses_again: Time,
    surplus: Surplus,
    pub(super) turned_away: TurnedAway,
    /// Most clients.
    connections: usize,
    /// What clients over TCP have to prove, if the cluster has keys.
    pub(super) nbd: Option<NbdDoor>,
    /// Addresses that were let in, if the cluster has keys and there is a configuration file.
    known: Option<KnownAddresses>,
    /// When paths are looked at again, if the loop runs then.
    next_look: Time,
    pub(super) diagnosed: Diagnosed,
    /// By the name of a node: the generation of the gateway's key when it was last linked.
    pub(super) key_generations: HashMap<String, u64>,
    /// Claims of nodes that are being verified.
    pub(super) claims: Claims,
    /// What was last seen of the lease, where maps are in etcd.
    pub(super) lease: LeaseSeen,
    /// The members of an etcd that others can use, in a cluster with keys.
    pub(super) open_etcd: Option<String>,
}

/// Stops a running loop, from any thread; requests in progress are answered first.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    pub(super) wake: Wake,
}

impl Stopper {
    /// Stops the loop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.wake();
    }
}

/// What a gateway is told for one start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a> {
    /// Accept the extents that nodes have now, whatever is recorded.
    pub forget: bool,
    /// Use maps that were last used on another machine, or at another path, and make those that are missing from the nodes' mirrors.
    pub take_over: bool,
    /// Where maps are in etcd, in a cluster with keys: use those of the volumes with these names though no gateway of the cluster has signed them, and
    /// sign them.
    pub accept_unsigned: &'a [String],
    /// Where maps are in etcd: wait as long as another gateway is in charge.
    pub stand_by: bool,
    /// The decisions that maps lack cannot be taken from mirrors: an attempt has failed. Other volumes are served.
    pub stays_behind: bool,
    /// Ends that wait, with [`GatewayServer::open`] returning `None`.
    pub stop: Option<&'a Arc<AtomicBool>>,
}

/// What a gateway with a configuration file keeps beside it.
struct Kept<'a> {
    memory: ExtentMemory,
    config_path: &'a Path,
    known: Known,
}

impl GatewayServer {
    /// Opens local extents and listens for NBD clients, as configured. Extents must be those of earlier starts with this
    /// configuration, unless the `start` forgets them. Where maps are in etcd, it waits until no other gateway is in charge.
    pub fn open(config: &Config, config_path: &Path, start: Start<'_>) -> anyhow::Result<Option<GatewayServer>> {
        let never = Arc::default();
        let is_stopped = || start.stop.is_some_and(|stop| stop.load(Ordering::SeqCst));
        let mut tenure = None;
        if let Some(etcd) = &config.etcd {
            anyhow::ensure!(
                !start.take_over,
                "--take-over is for maps in files. With etcd a gateway takes over by itself once the other one's lease is over: --standby"
            );
            let name = config.name.as_deref().unwrap_or("without a name");
            let stop = start.stop.unwrap_or(&never);
            let terms = Terms { config: etcd, volumes: &config.volumes, name, stands_by: start.stand_by, stop };
            let Some(begun) = Tenure::begin(&terms)? else { return Ok(None) };
            tenure = Some(begun);
        } else if start.take_over {
            match take_over(config, config_path, start.stop.map(|stop| &**stop)) {
                Err(_) if is_stopped() => return Ok(None),
                taken => taken?,
            }
        }
        let known = match Known::read(config, config_path, tenure, start.accept_unsigned) {
            Err(_) if is_stopped() => return Ok(None),
            known => known?,
        };
        let (config, notes) = with_members(config, config_path, &known)?;
        notes.iter().for_each(Note::log);
        let config = &config;
        let mut memory = ExtentMemory::load(config, config_path, start.forget)?;
        let id = memory.begin_session(config.name.as_deref().map(named_id), derived_id(config_path), session());
        let kept = Kept { memory, config_path, known };
        let mut server = match GatewayServer::open_with(config, id, start.take_over, Some(kept)) {
            Err(_) if is_stopped() => return Ok(None),
            server => server?,
        };
        // Before anybody can connect.
        server.known =
            config.keys.as_ref().map(|_| KnownAddresses::load(&KnownAddresses::path_of_gateway(config_path)));
        server.nbd = NbdDoor::open(config, server.known.clone())?;
        server.lease.stays_behind = start.stays_behind;
        let open_etcd = config.etcd.as_ref().filter(|etcd| config.keys.is_some() && etcd.is_open());
        server.open_etcd = open_etcd.map(|etcd| etcd.endpoints.join(", "));
        let mut listeners = Vec::new();
        for addr in &config.listen {
            let mut listener = Listener::bind(addr)
                .with_context(|| format!("cannot listen on {addr}; change 'listen' in {}", config_path.display()))?;
            listener.register(server.poll.registry(), Token(FIRST_LISTENER + listeners.len()))?;
            listeners.push(listener);
        }
        server.listeners = listeners;
        Ok(Some(server))
    }

    /// Opens local extents; serves native clients only.
    pub fn open_native(config: &Config) -> anyhow::Result<GatewayServer> {
        GatewayServer::open_with(config, (unique_id(), session()), false, None)
    }

    fn open_with(
        config: &Config,
        (id, session): ([u8; 16], u64),
        takes_over: bool,
        kept: Option<Kept<'_>>,
    ) -> anyhow::Result<GatewayServer> {
        let clock = Clock::start();
        let poll = Poll::new()?;
        let wake = Wake::new(poll.registry(), WAKE)?;
        let keys = load_keys(config)?;
        let (mut places, mut extents) = (Vec::new(), Vec::new());
        let links_count: usize = config.volumes.iter().map(|volume| volume.links * volume.nodes.len()).sum();
        let share_bytes = config.memory_bytes / BUFFERS_PART / (2 * links_count.max(1)) as u64;
        for volume in &config.volumes {
            if let Some(name) = &volume.socket.congestion {
                refuse_unknown_congestion(name).with_context(|| format!("volume '{}': 'congestion'", volume.name))?;
            }
            for node in &volume.nodes {
                places.push(open_place(volume, node, &mut extents, clock, &wake, share_bytes, keys.as_ref())?);
            }
        }
        // Nobody can ask without an administrative port, which a gateway inside a program does not serve.
        let is_watched = config.admin.is_some() && kept.is_some();
        let (memory, config_path, known) = match kept {
            Some(Kept { memory, config_path, known }) => (Some(memory), Some(config_path), known),
            None => (None, None, Known::default()),
        };
        let (maps, copies) = Maps::open(config, config_path, takes_over, known, keys.as_ref(), &wake)?;
        let volumes = config.volumes.iter().zip(copies).map(volume_spec).collect();
        let mut gateway = Gateway::new(GatewayConfig {
            memory_bytes: config.memory_bytes,
            clients_max: config.connections + CHOOSING_MAX,
            keeps_live: is_watched,
            config_name: config_path.map_or_else(|| "CONFIG".to_string(), |path| path.display().to_string()),
            extent_ids: memory.as_ref().map_or_else(|| named_extents(config), ExtentMemory::extent_ids),
            ..GatewayConfig::new(id, session, volumes)
        })?;
        gateway.set_sampling(Sampling { one_in: config.trace_one_in, clock_start_ns: clock.start_monotonic_ns() });
        if let Some(keys) = &keys {
            gateway.sign_mirrors(clock.now(), || Some(keys.mirror_signer()));
            gateway.verify_claims(keys.generation());
        }
        let links_count = gateway.links_count();
        let links = Links::new(links_count, FIRST_LINK, places, extents, clock, wake.clone(), keys);
        let (native_handle, native_calls) = native(wake.clone(), config.volumes.len());
        let (reporter, questions) = reporter(wake.clone());
        let (reporter, trace_questions) = reporter.with_traces();
        let (reporter, volume_questions) = reporter.with_volumes();
        let (reporter, live_questions) = if is_watched { reporter.with_live() } else { (reporter, channel().1) };
        let (whereabouts, sightings) = whereabouts(wake.clone());
        Ok(GatewayServer {
            gateway,
            links,
            clients: Slab::new(),
            clock,
            poll,
            wake,
            listeners: Vec::new(),
            native_calls,
            native_handle,
            reporter,
            questions,
            trace_questions,
            volume_questions,
            live_questions,
            start: session,
            whereabouts,
            sightings,
            marks: Marks::default(),
            stop: Arc::new(AtomicBool::new(false)),
            busy_poll: Duration::from_micros(config.busy_poll_us),
            dirty_clients: Vec::new(),
            dirty_links: Vec::new(),
            between: Between::default(),
            conn_of_client: Vec::new(),
            memory,
            maps,
            unrecorded: Vec::new(),
            newcomers: Newcomers::default(),
            unrecorded_changes: Vec::new(),
            shrinks: Shrinks::default(),
            volumes: config.volumes.clone(),
            share_bytes,
            pauses: Vec::new(),
            resyncs: Vec::new(),
            pauses_again: Time::default(),
            surplus: Surplus::default(),
            turned_away: TurnedAway::default(),
            connections: config.connections,
            nbd: None,
            known: None,
            next_look: Time::default(),
            diagnosed: Diagnosed::default(),
            key_generations: HashMap::new(),
            claims: Claims::default(),
            lease: LeaseSeen::default(),
            open_etcd: None,
        })
    }

    /// Whether an attempt to open one failed because etcd was away, or another gateway took charge meanwhile: the next one may succeed.
    #[must_use]
    pub fn may_pass(error: &anyhow::Error) -> bool {
        let is_away = |error: &EtcdError| matches!(error, EtcdError::Unknown { .. } | EtcdError::NotSent { .. });
        error.chain().any(|cause| cause.is::<Unwritten>() || cause.downcast_ref().is_some_and(is_away))
    }

    /// Why it has ended, if nobody has stopped it.
    #[must_use]
    pub fn deposed(&self) -> Option<&Deposed> {
        self.lease.deposed.as_ref()
    }

    /// The addresses that it listens on.
    pub fn local_addrs(&self) -> io::Result<Vec<ListenAddr>> {
        self.listeners.iter().map(Listener::local_addr).collect()
    }

    /// Makes calls to the running loop from inside the process.
    #[must_use]
    pub fn native_handle(&self) -> NativeHandle {
        self.native_handle.clone()
    }

    /// Asks the running loop for reports.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Reports places of extents to the running loop.
    #[must_use]
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts.clone()
    }

    /// The grant that its links use.
    #[must_use]
    pub fn grant_in_use(&self) -> GrantInUse {
        self.links.grant_in_use.clone()
    }

    /// Addresses that were let in, if the cluster has keys.
    #[must_use]
    pub fn known(&self) -> Option<KnownAddresses> {
        self.known.clone()
    }

    /// Ends the running loop.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: Arc::clone(&self.stop), wake: self.wake.clone() }
    }

    /// Serves until stopped.
    pub fn run(&mut self) -> io::Result<()> {
        let result = self.run_loop(None);
        self.maps.keep_scrubs(&self.gateway, self.clock.now(), true);
        self.links.end_extents();
        result
    }

    /// Serves until `resident` has finished, or until stopped.
    pub fn run_with(&mut self, resident: &mut dyn Resident) -> io::Result<()> {
        self.run_loop(Some(resident))
    }

    fn run_loop<'r>(&mut self, mut resident: Option<&mut (dyn Resident + 'r)>) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut drain_until: Option<Instant> = None;
        let mut patience = Patience::new(self.busy_poll);
        self.gateway.handle_timeout(self.clock.now());
        self.do_actions();
        loop {
            let timeout = self.poll_timeout(drain_until.is_some(), resident.as_deref());
            match patience.poll(&mut self.poll, &mut events, timeout) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            self.turn(&events, resident.as_deref_mut());
            if self.is_deposed() {
                return Ok(());
            }
            if resident.as_ref().is_some_and(|resident| resident.is_over()) {
                return Ok(());
            }
            if self.stop.load(Ordering::SeqCst) {
                // Calls from before the stop are still carried out.
                self.native_calls.take_calls(&mut self.gateway, &mut self.links, self.clock.now());
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_TIMEOUT);
                self.gateway.drain();
                if self.gateway.is_idle() || Instant::now() >= until {
                    return Ok(());
                }
            }
        }
    }

    /// How long the loop may sleep.
    fn poll_timeout(&mut self, draining: bool, resident: Option<&(dyn Resident + '_)>) -> Option<Duration> {
        let readable = self.clients.iter().any(|(_, c)| c.may_be_read() && self.gateway.client_wants_bytes(c.id));
        if readable || self.links.is_any_readable() || self.gateway.wants_turn() {
            return Some(Duration::ZERO);
        }
        if self.links.has_local_work(&self.gateway) || (resident.is_some() && !self.gateway.completions().is_empty()) {
            return Some(Duration::ZERO);
        }
        let closing = draining
            || self.listeners.iter().any(Listener::must_retry)
            || self.clients.iter().any(|(_, c)| c.closing.is_some());
        let soon = closing.then_some(Duration::from_millis(20));
        let surplus = self.surplus.due(self.gateway.memory_used_bytes());
        let dues = self
            .gateway
            .next_timeout()
            .into_iter()
            .chain(surplus)
            .chain(self.maps.scrubs_due(&self.gateway))
            .chain(self.links.local_due())
            .chain(self.pauses_due());
        // Whose rights were revoked is out within a second, though nobody asks for anything.
        let dues = dues.chain(self.links.keys().map(|_| self.next_look));
        let due = dues.min().map(|at| self.clock.until(at));
        let due = due.into_iter().chain(self.tls_due());
        soon.into_iter().chain(due).chain(self.turned_away.due_in()).chain(resident.map(Resident::wakes_in)).min()
    }

    /// One turn: receives, lets the state machine work, sends.
    fn turn(&mut self, events: &Events, resident: Option<&mut (dyn Resident + '_)>) {
        self.note_events(events);
        for listener in 0..self.listeners.len() {
            if self.listeners[listener].must_retry() {
                self.accept_all(listener);
            }
        }
        self.renew_lease();
        let now = self.read_links();
        // Behind it: it may have noted that something woke the loop.
        while let Ok(sighting) = self.sightings.try_recv() {
            self.take_sighting(now, sighting);
        }
        self.links.take_answers(&mut self.gateway, self.poll.registry(), now);
        self.begin_waiting();
        self.read_clients(Clients::All);
        self.native_calls.take_calls(&mut self.gateway, &mut self.links, now);
        self.maps.take_done(&mut self.gateway, now);
        self.tell_recorded();
        if self.pauses_due().is_some_and(|due| now >= due) {
            self.try_pauses(now);
        }
        self.gateway.handle_timeout(now);
        let is_lived_in = resident.is_some();
        if let Some(resident) = resident {
            resident.turn(now, &mut Inside { gateway: &mut self.gateway, links: &mut self.links });
        }
        loop {
            let now = exact(&self.gateway, self.clock, now);
            self.gateway.turn(now, &mut self.links);
            self.do_actions();
            let carried = self.links.carry_local(&mut self.gateway, now);
            // Completions belong to the resident, which takes them in the next turn.
            let given = !is_lived_in && self.native_calls.give_results(&mut self.gateway);
            if !carried && !given {
                break;
            }
        }
        self.links.end_turn();
        self.write_dirty();
        self.do_actions();
        self.close_written();
        if self.surplus.is_due(now, self.gateway.memory_used_bytes()) {
            give_back();
        }
        self.maps.keep_scrubs(&self.gateway, now, false);
        self.turned_away.sum_up();
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.links.look(&self.gateway);
            if self.links.refresh_keys(&mut self.gateway, now)
                && let Some(keys) = self.links.keys()
            {
                self.maps.sign_with(keys);
            }
            self.maps.look();
            self.end_revoked();
        }
        self.take_claims(now);
        while let Ok(answer) = self.questions.try_recv() {
            // The receiver may have timed out.
            let _ = answer.try_send(self.report());
        }
        while let Ok(answer) = self.trace_questions.try_recv() {
            let _ = answer.try_send(self.trace_report());
        }
        while let Ok(question) = self.volume_questions.try_recv() {
            self.answer_about_volumes(now, question);
        }
        while let Ok(LiveQuestion { since, answer }) = self.live_questions.try_recv() {
            if let Some(report) = self.live_report(since) {
                let _ = answer.try_send(report);
            }
        }
    }

    pub(super) fn note_events(&mut self, events: &Events) {
        let now = self.clock.now();
        for event in events {
            match event.token() {
                WAKE => {}
                Token(token) if token < FIRST_LINK => self.accept_all(token - FIRST_LISTENER),
                Token(token) if token < FIRST_CLIENT => {
                    self.links.note_event(&mut self.gateway, now, LinkId(token - FIRST_LINK), event);
                    if event.is_writable() {
                        self.dirty_links.push(LinkId(token - FIRST_LINK));
                    }
                }
                Token(token) => {
                    if let Some(conn) = self.clients.get_mut(token - FIRST_CLIENT) {
                        conn.readiness.note(event);
                        if event.is_writable() {
                            self.dirty_clients.push(conn.id);
                        }
                    }
                }
            }
        }
    }

    fn accept_all(&mut self, listener: usize) {
        let socket = SocketOptions { keepalive: Some(KEEPALIVE), ..SocketOptions::default() };
        while let Some(stream) = self.listeners[listener].accept(&socket) {
            self.add_client(stream);
        }
    }

    fn add_client(&mut self, mut stream: Stream) {
        let way_in = self.way_in(&stream);
        if let WayIn::Closed(why) = &way_in {
            return self.turned_away.note(&format!("client {}", stream.peer()), why);
        }
        // With keys it is known later who it is: then another user may have to give way.
        if self.is_full() && !self.may_give_way(way_in == WayIn::Open, user_at(stream.peer_ip())) {
            return self.turned_away.note(&format!("client {}", stream.peer()), &self.full());
        }
        self.make_room();
        let key = self.clients.vacant_key();
        if let Err(error) = stream.register(self.poll.registry(), Token(FIRST_CLIENT + key)) {
            log::warn!("client {}: {error}", stream.peer());
            return;
        }
        let now = self.clock.now();
        let opened = match way_in {
            WayIn::Tls => self.gateway.client_opened_for_tls(now),
            _ => self.gateway.client_opened(now),
        };
        let Some(id) = opened else {
            return self.turned_away.note(&format!("client {}", stream.peer()), &self.full());
        };
        if self.conn_of_client.len() <= id.index {
            self.conn_of_client.resize(id.index + 1, usize::MAX);
        }
        self.conn_of_client[id.index] = key;
        self.gateway.client_is_of(id, user_at(stream.peer_ip()));
        let (readiness, secrecy) = (Readiness::unknown(), Secrecy::Settled);
        let (stepped, is_choosing) = (Instant::now(), true);
        let (waits_until, who, closing) = (None, None, None);
        let conn = ClientConn { stream, id, readiness, secrecy, waits_until, who, closing, stepped, is_choosing };
        self.clients.insert(conn);
    }

    fn is_full(&self) -> bool {
        self.clients.iter().filter(|(_, conn)| !conn.is_choosing).count() >= self.connections
    }

    /// The clients that have chosen an export.
    fn settled(&self) -> Vec<Settled<Instant>> {
        let settled = self.clients.iter().filter(|(_, conn)| !conn.is_choosing);
        let of = |(key, conn): (usize, &ClientConn)| Settled {
            key,
            user: conn.user(),
            is_idle: self.gateway.is_client_idle(conn.id),
            since: conn.stepped,
        };
        settled.map(of).collect()
    }

    /// Whether somebody would give way to a newcomer; if it is not `known` whose that is, to anybody who has nothing yet.
    fn may_give_way(&self, is_known: bool, user: u64) -> bool {
        to_give(&self.settled(), if is_known { user } else { NOBODY }).is_some()
    }

    fn full(&self) -> String {
        format!("refused: {} clients are connected; see 'connections'", self.connections)
    }

    /// If as many clients as may have not chosen an export, one of them is dropped for a newcomer.
    fn make_room(&mut self) {
        let unproven = self.clients.iter().filter(|(_, conn)| conn.is_choosing).map(|(key, conn)| {
            let from = conn.stream.peer_ip();
            let was_let_in = self.nbd.as_ref().is_some_and(|door| door.was_let_in(from));
            Unproven { key, from, was_let_in, stepped: conn.stepped }
        });
        if unproven.clone().count() < CHOOSING_MAX {
            return;
        }
        let Some(key) = strangers::to_replace(unproven) else { return };
        let peer = self.clients[key].stream.peer();
        self.turned_away.note(&format!("client {peer}"), "dropped for a newcomer: it has not chosen an export");
        self.remove_client(key);
    }

    /// Counts clients that have chosen an export; there are no more than may be.
    fn note_chosen(&mut self) {
        let has_chosen =
            |(_, conn): &(usize, &ClientConn)| conn.is_choosing && !self.gateway.is_client_choosing(conn.id);
        let chosen: Vec<usize> = self.clients.iter().filter(has_chosen).map(|(key, _)| key).collect();
        for key in chosen {
            if self.is_full()
                && let Some(user) = self.clients.get(key).map(ClientConn::user)
                && let Some(given) = to_give(&self.settled(), user)
            {
                self.turn_away_client(
                    given,
                    "its connection ended for one of another user: its own has the most; see 'connections'",
                );
            }
            if self.is_full() {
                self.turn_away_client(key, &self.full());
            } else if let Some(conn) = self.clients.get_mut(key) {
                conn.is_choosing = false;
            }
        }
    }

    pub(super) fn read_clients(&mut self, which: Clients) {
        let now = self.clock.now();
        let (mut ended, mut failed, mut proven) = (Vec::new(), Vec::new(), Vec::new());
        for (key, conn) in &mut self.clients {
            if which == Clients::Modest && !self.gateway.is_client_modest(conn.id) {
                continue;
            }
            if self.gateway.is_client_paused(conn.id) {
                self.gateway.process_client(now, conn.id, &mut self.links);
                continue;
            }
            if !conn.may_be_read() || !self.gateway.client_wants_bytes(conn.id) {
                continue;
            }
            let is_choosing = self.gateway.is_client_choosing(conn.id);
            let Some(rx) = self.gateway.client_rx(conn.id) else { continue };
            let before = (conn.secrecy == Secrecy::Proving).then(thread_time);
            let filled = if is_choosing { conn.stream.fill_little(rx) } else { conn.stream.fill(rx, 0) };
            if let (Some(before), Some(door)) = (before, &mut self.nbd) {
                door.took(conn.stream.peer_ip(), thread_time().saturating_sub(before));
            }
            match filled {
                Ok(Filled::More(_)) => {}
                Ok(Filled::Drained(_)) => conn.readiness.drained(),
                Ok(Filled::End) | Err(_) if conn.secrecy == Secrecy::Settled => ended.push(key),
                Ok(Filled::End) => failed.push((key, "it left before it had proven its key".to_string())),
                Err(error) => failed.push((key, error.to_string())),
            }
            match conn.secrecy {
                Secrecy::Settled => self.gateway.process_client(now, conn.id, &mut self.links),
                _ if conn.stream.is_secured() => proven.push(key),
                _ => {}
            }
        }
        for key in ended {
            self.remove_client(key);
        }
        for (key, why) in failed {
            self.turn_away_client(key, &format!("not let in: {why}"));
        }
        for key in proven {
            self.let_in(now, key);
        }
        self.note_chosen();
    }

    fn write_dirty(&mut self) {
        let (mut clients, mut links) = (std::mem::take(&mut self.dirty_clients), std::mem::take(&mut self.dirty_links));
        let now = self.clock.now();
        for id in clients.drain(..) {
            self.write_client(id);
        }
        for id in links.drain(..) {
            self.links.write(&mut self.gateway, now, id);
        }
        self.gateway.take_dirty(&mut clients, &mut links);
        for id in clients.drain(..) {
            self.write_client(id);
        }
        for id in links.drain(..) {
            self.links.write(&mut self.gateway, now, id);
        }
        (self.dirty_clients, self.dirty_links) = (clients, links);
    }

    pub(super) fn write_client(&mut self, id: ClientId) {
        let Some(&key) = self.conn_of_client.get(id.index) else { return };
        let Some(conn) = self.clients.get_mut(key).filter(|c| c.id == id) else { return };
        while let Some(out) = self.gateway.client_out(id).filter(|out| !out.is_empty()) {
            match conn.stream.drain_once(out) {
                Ok(0) => return,
                Ok(n) => self.gateway.client_wrote(id, n),
                Err(_) => return self.remove_client(key),
            }
        }
        self.begin_tls(key);
    }

    fn close_written(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (key, conn) in &self.clients {
            if let Some(until) = conn.closing
                && (now >= until || self.gateway.client_out(conn.id).is_none_or(|out| out.is_empty()))
            {
                due.push(key);
            }
        }
        for key in due {
            self.remove_client(key);
        }
    }

    pub(super) fn remove_client(&mut self, key: usize) {
        if let Some(conn) = self.clients.try_remove(key) {
            self.gateway.client_closed(conn.id);
        }
    }
}
