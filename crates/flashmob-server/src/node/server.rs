//! The node's event loop: one thread that moves bytes between gateways' connections and the state machine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use flashmob_core::node::{LinkId, NodeEvent};
use flashmob_core::strangers::{self, Unproven};
use flashmob_core::units::Time;
use mio::{Events, Poll, Token};
use slab::Slab;

use super::extent::{Extent, ExtentConfig};
use crate::device::{DeviceOptions, DeviceWatch};
use crate::keys::{Door, Doorman, Grants, KnownAddresses};
use crate::net::path::LOOK_EVERY;
use crate::net::stream::refuse_unknown_congestion;
use crate::net::{
    Clock, Filled, ListenAddr, Listener, Means, PathWatch, Readiness, Sizing, SocketOptions, Stream, TurnedAway, Wake,
};
use crate::status::report::Report;
use crate::status::{Reporter, reporter};

const WAKE: Token = Token(0);
const LISTEN: Token = Token(1);
const FIRST_CONN: usize = 2;
/// How long answers may take to leave when the node shuts down, or a link is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which links are logged.
const LINKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Timeout of a peer's hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections without a hello, beside the links.
pub const UNPROVEN_MAX: usize = 64;
/// The socket buffers of all links together may take this part of the node's memory: they belong to the kernel and are not
/// counted in the budget, but bounded by it.
const BUFFERS_PART: u64 = 4;
/// Silence after which the kernel probes a gateway.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Options of a node process.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The extent to serve.
    pub extent: ExtentConfig,
    /// Where gateways connect.
    pub listen: SocketAddr,
    /// The congestion control of links; `None`: the system's.
    pub congestion: Option<String>,
    /// How link buffers are sized.
    pub sizing: Sizing,
    /// Options for watching the device.
    pub device: DeviceOptions,
}

/// One gateway's connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub stream: Stream,
    pub link: LinkId,
    pub readiness: Readiness,
    opened: Instant,
    /// When its peer last came nearer to being let in: see [`strangers`].
    pub stepped: Instant,
    /// Where it waits until it has shown its keys, if it has to.
    pub door: Option<Door>,
    /// When its handshake may begin, if too many others have lately.
    pub waits_until: Option<Instant>,
    /// That of its grant.
    pub generation: u64,
    /// Close when everything is written, at the latest then.
    closing: Option<Instant>,
    pub path: PathWatch,
}

impl Conn {
    /// Whether there may be bytes that may be read.
    fn is_due(&self) -> bool {
        self.readiness.is_readable() && self.waits_until.is_none_or(|at| Instant::now() >= at)
    }

    pub fn note(&mut self, filled: Filled) {
        if matches!(filled, Filled::Drained(_)) {
            self.readiness.drained();
        }
    }
}

/// A node, ready to run.
#[derive(Debug)]
pub struct NodeServer {
    pub(super) extent: Extent,
    pub(super) options: NodeOptions,
    pub(super) clock: Clock,
    pub(super) device: DeviceWatch,
    poll: Poll,
    wake: Wake,
    listener: Listener,
    pub(super) conns: Slab<Conn>,
    reporter: Reporter,
    questions: Receiver<SyncSender<Report>>,
    pub(super) grants: Option<Grants>,
    stop: Arc<AtomicBool>,
    /// When paths are looked at again, if the loop runs then.
    next_look: Time,
    /// When a condition that was held back is sent to gateways.
    tell_again: Option<Time>,
    /// When a gateway last linked.
    last_linked: Option<Instant>,
    pub(super) turned_away: TurnedAway,
    pub(super) doorman: Doorman,
    /// If the node has keys.
    pub(super) known: Option<KnownAddresses>,
}

impl NodeServer {
    /// Opens the extent and listens.
    pub fn open(options: NodeOptions) -> anyhow::Result<NodeServer> {
        use anyhow::Context;
        if let Some(name) = &options.congestion {
            refuse_unknown_congestion(name).context("--congestion")?;
        }
        let clock = Clock::start();
        let poll = Poll::new()?;
        let wake = Wake::new(poll.registry(), WAKE)?;
        // Before a new extent is made, which would stay behind if the port is taken.
        let addr = ListenAddr::Tcp(options.listen);
        let mut listener = Listener::bind(&addr)
            .with_context(|| format!("cannot listen on {addr}; choose another address with --listen"))?;
        listener.register(poll.registry(), LISTEN)?;
        let mut extent = options.extent.clone();
        if let (Some(enrollment), Ok(ListenAddr::Tcp(address))) = (&mut extent.enroll, listener.local_addr()) {
            enrollment.serves_at = address;
        }
        let extent = Extent::open(&extent, clock, wake.clone())?;
        let (reporter, questions) = reporter(wake.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let device = DeviceWatch::start(options.device.clone(), &options.extent.store.path, wake.clone())?;
        let known = extent.keys().map(|_| KnownAddresses::load(&extent.identity().known_path()));
        let grants = extent.keys().map(|keys| Grants::of(keys.cluster, wake.clone()));
        Ok(NodeServer {
            extent,
            options,
            clock,
            device,
            poll,
            wake,
            listener,
            conns: Slab::new(),
            reporter,
            questions,
            grants,
            stop,
            next_look: Time::default(),
            tell_again: None,
            last_linked: None,
            turned_away: TurnedAway::default(),
            doorman: Doorman::knowing(known.iter().flat_map(KnownAddresses::all)),
            known,
        })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        self.listener.local_addr()
    }

    /// The extent that it serves.
    #[must_use]
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// The configuration of its store.
    #[must_use]
    pub fn store(&self) -> &crate::store::StoreConfig {
        &self.options.extent.store
    }

    /// Asks the running loop for reports.
    #[must_use]
    pub fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Ends the running loop when called, from any thread: what is in hand is answered first.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let (stop, wake) = (Arc::clone(&self.stop), self.wake.clone());
        move || {
            stop.store(true, Ordering::SeqCst);
            wake.wake();
        }
    }

    /// Takes grants that were heard of beside its links, if the node has keys.
    #[must_use]
    pub fn grants(&self) -> Option<Grants> {
        self.grants.clone()
    }

    /// Addresses that were let in, if the node has keys.
    #[must_use]
    pub fn known(&self) -> Option<KnownAddresses> {
        self.known.clone()
    }

    /// Serves until stopped.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut drain_until: Option<Instant> = None;
        loop {
            let busy = self.extent.node.wants_turn()
                || self.conns.iter().any(|(_, c)| c.is_due() && self.extent.node.wants_bytes(c.link));
            let busy = busy && drain_until.is_none();
            let closing = self.listener.must_retry() || self.conns.iter().any(|(_, c)| c.closing.is_some());
            let timeout = match (busy, closing || drain_until.is_some()) {
                (true, _) => Some(Duration::ZERO),
                (false, true) => Some(Duration::from_millis(50)),
                (false, false) if self.has_strangers() => Some(HELLO_TIMEOUT / 10),
                (false, false) => None,
            };
            let due = self.extent.node.next_timeout().into_iter().chain(self.tell_again).min();
            let due = due.map(|at| self.clock.until(at));
            let timeout = timeout
                .into_iter()
                .chain(due)
                .chain(self.turned_away.due_in())
                .chain(self.door_due(drain_until.is_some()))
                .min();
            match self.poll.poll(&mut events, timeout) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            self.note_events(&events);
            if self.listener.must_retry() {
                self.accept_all();
            }
            self.take_grants();
            if drain_until.is_none() {
                self.read_all();
            }
            let now = self.clock.now();
            self.extent.turn(now);
            self.extent.end_turn();
            self.tell_condition(now);
            self.write_all();
            self.handle_node_events();
            self.close_written();
            self.close_strangers();
            self.turned_away.sum_up();
            if now >= self.next_look {
                self.next_look = now + LOOK_EVERY;
                self.look();
            }
            self.answer_questions();
            if self.stop.load(Ordering::SeqCst) {
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_TIMEOUT);
                self.extent.node.drain();
                if self.extent.node.is_idle() || Instant::now() >= until {
                    self.extent.end();
                    return Ok(());
                }
            }
        }
    }

    /// When the next handshake may begin that has to wait.
    fn door_due(&self, is_draining: bool) -> Option<Duration> {
        self.extent.keys().filter(|_| !is_draining)?;
        let waits = self.conns.iter().filter_map(|(_, conn)| conn.waits_until).min()?;
        Some(waits.saturating_duration_since(Instant::now()))
    }

    /// Sends the condition of the device to gateways when it has changed; later to those for which it is too early.
    fn tell_condition(&mut self, now: Time) {
        let news = self.device.turned(self.extent.node.batches_received());
        let again = self.tell_again.is_some_and(|at| now >= at).then(|| self.device.condition());
        if let Some(condition) = news.or(again) {
            self.tell_again = self.extent.node.set_condition(now, condition);
        }
    }

    fn note_events(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKE => {}
                LISTEN => self.accept_all(),
                Token(token) => {
                    if let Some(conn) = self.conns.get_mut(token - FIRST_CONN) {
                        conn.readiness.note(event);
                    }
                }
            }
        }
    }

    fn accept_all(&mut self) {
        let congestion = self.options.congestion.clone();
        let socket = SocketOptions { keepalive: Some(KEEPALIVE), congestion, ..SocketOptions::default() };
        while let Some(stream) = self.listener.accept(&socket) {
            self.add_conn(stream);
        }
    }

    fn add_conn(&mut self, mut stream: Stream) {
        if !self.has_room() {
            let reason = format!("refused: {} connections are open; see --links", self.conns.len());
            return self.turned_away.note(&stream.peer(), &reason);
        }
        let entry = self.conns.vacant_entry();
        let token = Token(entry.key() + FIRST_CONN);
        if let Err(error) = stream.register(self.poll.registry(), token) {
            log::warn!("{}: {error}", stream.peer());
            return;
        }
        let link = self.extent.node.link_opened();
        let (readiness, opened, path) = (Readiness::unknown(), Instant::now(), PathWatch::default());
        let door = self.extent.keys().map(|_| Door::default());
        let (waits_until, generation, closing) = (None, 0, None);
        let stepped = opened;
        entry.insert(Conn { stream, link, readiness, opened, stepped, door, waits_until, generation, closing, path });
    }

    /// Whether there is room for a newcomer, for which one without a hello may be dropped. Links have places of their own.
    fn has_room(&mut self) -> bool {
        let strangers = self.conns.iter().filter(|(_, c)| !self.extent.node.is_greeted(c.link));
        let strangers = strangers.map(|(key, c)| {
            let from = c.stream.peer_ip();
            Unproven { key, from, was_let_in: self.doorman.was_let_in(from), stepped: c.stepped }
        });
        let count = strangers.clone().count();
        if count < UNPROVEN_MAX && self.conns.len() < 2 * self.options.extent.links_max + UNPROVEN_MAX {
            return true;
        }
        let Some(key) = strangers::to_replace(strangers) else { return false };
        self.turned_away.note(&self.conns[key].stream.peer(), "dropped for a newcomer: it has sent no hello");
        self.remove(key, "replaced");
        true
    }

    /// Reads once from every connection that has bytes and whose link may take them.
    fn read_all(&mut self) {
        let now = self.clock.now();
        let (mut ended, mut at_door) = (Vec::new(), Vec::new());
        for (key, conn) in &mut self.conns {
            if !conn.is_due() || !self.extent.node.wants_bytes(conn.link) {
                continue;
            }
            if conn.door.is_some() {
                at_door.push(key);
                continue;
            }
            let is_greeted = self.extent.node.is_greeted(conn.link);
            let wanted = self.extent.node.rx_wanted(conn.link);
            let Some(rx) = self.extent.node.rx(conn.link) else { continue };
            let filled = if is_greeted { conn.stream.fill(rx, wanted) } else { conn.stream.fill_little(rx) };
            match filled {
                Ok(Filled::More(_)) => {}
                Ok(Filled::Drained(_)) => conn.readiness.drained(),
                Ok(Filled::End) => ended.push((key, "the gateway closed the link".to_string(), true)),
                Err(error) => ended.push((key, error.to_string(), false)),
            }
            self.extent.process(now, conn.link);
        }
        for (key, reason, is_wanted) in ended {
            self.lose(key, &reason, is_wanted);
        }
        if at_door.len() > 1 {
            at_door.sort_by_cached_key(|key| {
                let conn = &self.conns[*key];
                self.doorman.turn_of(conn.stream.peer_ip(), conn.stepped)
            });
        }
        for key in at_door {
            self.step_door(now, key);
        }
    }

    fn write_all(&mut self) {
        let mut broken = Vec::new();
        for (key, conn) in &mut self.conns {
            while let Some(out) = self.extent.node.out(conn.link).filter(|out| !out.is_empty()) {
                match conn.stream.drain_once(out) {
                    Ok(0) => break,
                    Ok(n) => self.extent.node.wrote(conn.link, n),
                    Err(error) => {
                        broken.push((key, error.to_string()));
                        break;
                    }
                }
            }
        }
        for (key, reason) in broken {
            self.lose(key, &reason, false);
        }
    }

    fn handle_node_events(&mut self) {
        while let Some(event) = self.extent.node.poll_event() {
            match event {
                NodeEvent::Linked { link, volume_id, extent } => {
                    let peer = self.conn_of(link).map(|key| self.conns[key].stream.peer()).unwrap_or_default();
                    let text = format!("linked to the gateway at {peer} as extent {extent} of volume '{volume_id}'");
                    // A gateway that expects another node links again and again: logged once in a while.
                    let level = if self.last_linked.is_some_and(|at| at.elapsed() < LINKED_AGAIN_AFTER) {
                        log::Level::Debug
                    } else {
                        log::Level::Info
                    };
                    log::log!(level, "{text}");
                    self.last_linked = Some(Instant::now());
                    self.device.linked();
                }
                NodeEvent::Close { link, reason } => {
                    if let Some(key) = self.conn_of(link) {
                        // Also behind the door: who has a key can send as many malformed frames as anybody.
                        self.turned_away.note(&self.conns[key].stream.peer(), &reason);
                        self.conns[key].closing = Some(Instant::now() + DRAIN_TIMEOUT);
                    }
                }
            }
        }
    }

    fn conn_of(&self, link: LinkId) -> Option<usize> {
        self.conns.iter().find(|(_, c)| c.link == link).map(|(key, _)| key)
    }

    /// Closes connections whose last bytes are written, or whose time for that is over.
    fn close_written(&mut self) {
        let node = &mut self.extent.node;
        let now = Instant::now();
        let mut due = Vec::new();
        for (key, conn) in &self.conns {
            if let Some(until) = conn.closing
                && (now >= until || node.out(conn.link).is_none_or(|out| out.is_empty()))
            {
                due.push(key);
            }
        }
        for key in due {
            self.remove(key, "closed");
        }
    }

    /// Whether there are connections without a hello.
    fn has_strangers(&self) -> bool {
        self.conns.iter().any(|(_, c)| !self.extent.node.is_greeted(c.link))
    }

    /// Closes connections whose hello is overdue.
    fn close_strangers(&mut self) {
        let node = &self.extent.node;
        let is_late = |c: &Conn| !node.is_greeted(c.link) && c.opened.elapsed() >= HELLO_TIMEOUT;
        let late: Vec<usize> = self.conns.iter().filter(|(_, c)| is_late(c)).map(|(key, _)| key).collect();
        for key in late {
            self.turned_away.note(&self.conns[key].stream.peer(), "dropped: it sent no hello");
            self.remove(key, "no hello");
        }
    }

    /// Handles a lost connection; unless the gateway closed it, the network may be down.
    pub(super) fn lose(&mut self, key: usize, reason: &str, is_wanted: bool) {
        let was_greeted = self.conns.get(key).is_some_and(|conn| self.extent.node.is_greeted(conn.link));
        self.remove(key, reason);
        if was_greeted && !is_wanted && self.conns.is_empty() {
            self.device.links_lost(reason);
        }
    }

    pub(super) fn remove(&mut self, key: usize, reason: &str) {
        if let Some(conn) = self.conns.try_remove(key) {
            log::debug!("{}: {reason}", conn.stream.peer());
            self.extent.node.link_closed(conn.link);
        }
    }

    /// Looks at the paths of all links. Their buffers together may become a part of the node's memory.
    pub(super) fn look(&mut self) {
        let share_bytes = self.options.extent.memory_bytes / BUFFERS_PART / (2 * self.conns.len().max(1)) as u64;
        let sizing = self.options.sizing;
        let means = Means { sizing, is_receive_set: false, is_send_set: false, share_bytes };
        for (_, conn) in &mut self.conns {
            if let Some(fd) = conn.stream.tcp_fd() {
                conn.path.look(fd, &conn.stream.peer(), &means);
            }
        }
    }

    fn answer_questions(&mut self) {
        while let Ok(answer) = self.questions.try_recv() {
            // The receiver may have timed out.
            let _ = answer.try_send(self.report());
        }
    }
}
