//! The gateway's links: TCP connections to remote nodes, and bytes handed over to nodes in this process.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use flashmob_core::gateway::{Gateway, LinkId, LocalExtents};
use flashmob_core::node::{LinkId as NodeLinkId, NodeEvent, TryRead};
use flashmob_core::units::Time;
use mio::{Registry, Token};

use super::place::{Place, Turn};
use crate::keys::folder::LINK_PURPOSE;
use crate::keys::{GatewayKeys, GrantInUse, News, Recheck};
use crate::net::report::{PathReport, TcpReport};
use crate::net::stream::connect;
use crate::net::tls::UNKNOWN_KEY;
use crate::net::{Clock, Filled, Means, PathWatch, Readiness, SocketOptions, Stream, Wake};
use crate::node::Extent;

/// The place of a node.
#[derive(Debug)]
pub(super) enum NodePlace {
    /// Behind an address `host:port`, with socket options and limits of buffers.
    Remote(Place, SocketOptions, Means),
    /// In this process: which of the extents.
    Local(usize),
}

/// The current connection of a link.
#[derive(Debug)]
enum Base {
    None,
    /// The address is being resolved; the number distinguishes the answer from earlier ones.
    Resolving(u64),
    Tcp {
        stream: Stream,
        /// The connection is there; if there are keys, they are being proven.
        established: bool,
        /// The gateway may use it.
        connected: bool,
        readiness: Readiness,
        path: Box<PathWatch>,
    },
    Local {
        extent: usize,
        link: NodeLinkId,
    },
}

/// All links, by their number.
#[derive(Debug)]
pub(super) struct Links {
    bases: Vec<Base>,
    turns: Vec<Turn>,
    pub places: Vec<NodePlace>,
    pub extents: Vec<Extent>,
    first_token: usize,
    questions: u64,
    answers: Receiver<(LinkId, u64, io::Result<SocketAddr>)>,
    answer_to: Sender<(LinkId, u64, io::Result<SocketAddr>)>,
    clock: Clock,
    wake: Wake,
    /// Without them links are not encrypted.
    keys: Option<GatewayKeys>,
    /// For those who tell nodes of it.
    pub grant_in_use: GrantInUse,
    /// Why the keys could not be read again, and whether it was logged.
    keys_trouble: Option<(String, bool)>,
    /// Whether it could be started again with them.
    recheck: Option<Recheck>,
}

/// Why a node is refused whose key is not pinned, and what to do. `config`: the configuration.
fn unpinned(config: &str) -> String {
    format!(
        "{UNKNOWN_KEY}: if it is the node's, pin it with `flashmob join {config}`, or with `flashmob key pin {config} EXTENT KEY`, with the two values \
         that the node's log has (and --replace, if it has another key than before)"
    )
}

impl LocalExtents for Links {
    fn try_read(&mut self, node: usize, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        match self.places[node] {
            NodePlace::Local(extent) => self.extents[extent].try_read(offset_bytes, into),
            NodePlace::Remote(..) => TryRead::Miss,
        }
    }

    fn now(&mut self) -> Option<Time> {
        Some(self.clock.now())
    }
}

impl Links {
    pub fn new(
        count: usize,
        first_token: usize,
        places: Vec<NodePlace>,
        extents: Vec<Extent>,
        clock: Clock,
        wake: Wake,
        keys: Option<GatewayKeys>,
    ) -> Links {
        let (answer_to, answers) = channel();
        let bases = (0..count).map(|_| Base::None).collect();
        let turns = vec![Turn::default(); count];
        let (keys_trouble, grant_in_use) = (None, GrantInUse::default());
        let recheck = keys.as_ref().map(GatewayKeys::recheck);
        if let Some(keys) = &keys {
            grant_in_use.set(&keys.grant);
        }
        Links {
            bases,
            turns,
            places,
            extents,
            first_token,
            questions: 0,
            answers,
            answer_to,
            clock,
            wake,
            keys,
            grant_in_use,
            keys_trouble,
            recheck,
        }
    }

    /// One more node, with so many links.
    pub fn add(&mut self, place: NodePlace, count: usize) {
        self.places.push(place);
        self.bases.extend((0..count).map(|_| Base::None));
        self.turns.extend((0..count).map(|_| Turn::default()));
    }

    /// The keys of the cluster, if it has keys.
    pub fn keys(&self) -> Option<&GatewayKeys> {
        self.keys.as_ref()
    }

    /// Begins to connect a link to its node.
    pub fn connect(&mut self, gateway: &mut Gateway, registry: &Registry, now: Time, id: LinkId, node: usize) {
        self.bases[id.0] = Base::None;
        match &mut self.places[node] {
            NodePlace::Local(extent) => {
                let node = &mut self.extents[*extent].node;
                let link = node.link_opened();
                // It is in this process, whose map it is.
                node.link_admitted(link, u64::MAX);
                self.bases[id.0] = Base::Local { extent: *extent, link };
                gateway.link_connected(now, id);
            }
            NodePlace::Remote(place, options, _) => {
                let address = place.next(&mut self.turns[id.0], gateway.welcomes(id));
                if let Ok(addr) = address.parse() {
                    let options = options.clone();
                    self.dial(gateway, registry, now, id, addr, &options);
                } else {
                    self.resolve(id, address);
                }
            }
        }
    }

    /// Resolves a name on a thread of its own: the system's resolver blocks.
    fn resolve(&mut self, id: LinkId, address: String) {
        self.questions += 1;
        let (number, answer_to, wake) = (self.questions, self.answer_to.clone(), self.wake.clone());
        self.bases[id.0] = Base::Resolving(number);
        let resolver = std::thread::Builder::new().name("resolve".to_string()).stack_size(256 * 1024);
        let spawned = resolver.spawn(move || {
            // Each attempt takes the next address: the first may be of a family that the node does not serve.
            let found = flashmob_host::addresses_of_authority(&address).and_then(|addrs| {
                addrs
                    .get(number as usize % addrs.len().max(1))
                    .copied()
                    .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
            });
            // The loop may have ended.
            let _ = answer_to.send((id, number, found));
            wake.wake();
        });
        if let Err(error) = spawned {
            let _ = self.answer_to.send((id, self.questions, Err(error)));
        }
    }

    /// Continues with links whose address was resolved.
    pub fn take_answers(&mut self, gateway: &mut Gateway, registry: &Registry, now: Time) {
        while let Ok((id, number, found)) = self.answers.try_recv() {
            if !matches!(self.bases[id.0], Base::Resolving(n) if n == number) {
                continue;
            }
            match found {
                Ok(addr) => {
                    let options = self.options_of(gateway.node_of(id));
                    self.dial(gateway, registry, now, id, addr, &options);
                }
                Err(error) => self.close(gateway, now, id, &format!("cannot resolve the address: {error}")),
            }
        }
    }

    /// A remote node was seen at these addresses. Returns the place assumed before and the new one, if its links turn there.
    pub fn move_node(
        &mut self,
        gateway: &Gateway,
        now: Time,
        node: usize,
        addresses: &[String],
    ) -> Option<(String, String)> {
        let NodePlace::Remote(place, ..) = &mut self.places[node] else { return None };
        let moved = place.moved_to(now, addresses)?;
        for (index, turn) in self.turns.iter_mut().enumerate() {
            let id = LinkId(index);
            if gateway.node_of(id) == node {
                place.turn(turn, gateway.welcomes(id));
            }
        }
        if let Some(line) = place.line_of_move(now, &moved.0, &moved.1) {
            log::info!("{line}");
        }
        Some(moved)
    }

    /// Whether a node is expected at this address.
    pub fn is_expected_at(&self, node: usize, address: &str) -> bool {
        matches!(self.places.get(node), Some(NodePlace::Remote(place, ..)) if place.likeliest() == address)
    }

    /// Where a remote node was seen, if that is not where the configuration says.
    pub fn seen_at(&self, node: usize) -> Option<&str> {
        match &self.places[node] {
            NodePlace::Remote(place, ..) => place.seen(),
            NodePlace::Local(_) => None,
        }
    }

    fn options_of(&self, node: usize) -> SocketOptions {
        match &self.places[node] {
            NodePlace::Remote(_, options, _) => options.clone(),
            NodePlace::Local(_) => SocketOptions::default(),
        }
    }

    fn dial(
        &mut self,
        gateway: &mut Gateway,
        registry: &Registry,
        now: Time,
        id: LinkId,
        addr: SocketAddr,
        options: &SocketOptions,
    ) {
        let token = Token(self.first_token + id.0);
        let dialled = connect(addr, options).and_then(|mut stream| stream.register(registry, token).map(|()| stream));
        match dialled {
            Ok(stream) => {
                let (readiness, path) = (Readiness::default(), Box::default());
                self.bases[id.0] = Base::Tcp { stream, established: false, connected: false, readiness, path };
            }
            Err(error) => self.close(gateway, now, id, &error.to_string()),
        }
    }

    /// Handles an event of a link's socket.
    pub fn note_event(&mut self, gateway: &mut Gateway, now: Time, id: LinkId, event: &mio::event::Event) {
        let Base::Tcp { stream, established, connected, readiness, .. } = &mut self.bases[id.0] else { return };
        readiness.note(event);
        if *established {
            return;
        }
        match stream.take_error() {
            Ok(None) if stream.is_connected() => {
                *established = true;
                match &self.keys {
                    None => {
                        *connected = true;
                        gateway.link_connected(now, id);
                    }
                    Some(keys) => {
                        if let Err(error) = stream.secure(&keys.end) {
                            self.close(gateway, now, id, &error.to_string());
                        }
                    }
                }
            }
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => self.close(gateway, now, id, &error.to_string()),
        }
    }

    /// Whether bytes wait that were not yet read.
    pub fn is_any_readable(&self) -> bool {
        self.readable().next().is_some()
    }

    /// Whether bytes wait for a node in this process.
    pub fn has_local_work(&self, gateway: &Gateway) -> bool {
        let waits = |(index, base): (usize, &Base)| match base {
            Base::Local { extent, link } => {
                gateway.link_has_out(LinkId(index)) && self.extents[*extent].node.wants_bytes(*link)
            }
            _ => false,
        };
        self.bases.iter().enumerate().any(waits)
    }

    /// Reads once from every link that has bytes.
    pub fn read_all(&mut self, gateway: &mut Gateway, now: Time) {
        for index in 0..self.bases.len() {
            self.read(gateway, now, LinkId(index));
        }
    }

    /// Reads once from a link, if it has bytes.
    pub fn read(&mut self, gateway: &mut Gateway, now: Time, id: LinkId) {
        let Base::Tcp { stream, established: true, connected, readiness, .. } = &mut self.bases[id.0] else { return };
        if !readiness.is_readable() {
            return;
        }
        if !*connected {
            return self.prove(gateway, now, id);
        }
        let wanted = gateway.link_wanted(id);
        let filled = stream.fill(gateway.link_rx(id), wanted);
        match filled {
            Ok(Filled::More(_)) => gateway.process_link(exact(gateway, self.clock, now), id),
            Ok(Filled::Drained(n)) => {
                readiness.drained();
                if n > 0 {
                    gateway.process_link(exact(gateway, self.clock, now), id);
                }
            }
            Ok(Filled::End) => self.close(gateway, now, id, "the node closed the link"),
            Err(error) => self.close(gateway, now, id, &error.to_string()),
        }
    }

    /// The links with bytes that were not yet read.
    pub fn readable(&self) -> impl Iterator<Item = LinkId> + '_ {
        let is_readable =
            |base: &Base| matches!(base, Base::Tcp { established: true, readiness, .. } if readiness.is_readable());
        self.bases.iter().enumerate().filter(move |(_, base)| is_readable(base)).map(|(index, _)| LinkId(index))
    }

    /// Goes on with the proof of keys. The grant is sent, and the link used, only when the node has proven to be one that is known.
    fn prove(&mut self, gateway: &mut Gateway, now: Time, id: LinkId) {
        let Some(keys) = &self.keys else { return };
        let Base::Tcp { stream, connected, readiness, .. } = &mut self.bases[id.0] else { return };
        match stream.fill(gateway.link_rx(id), 0) {
            Ok(Filled::More(_)) => {}
            Ok(Filled::Drained(_)) => readiness.drained(),
            Ok(Filled::End) => {
                return self.close(gateway, now, id, "the node closed the link before its keys were proven");
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.bases[id.0] = Base::None;
                let text = error.to_string();
                let why = if text == UNKNOWN_KEY { unpinned(gateway.config_name()) } else { text };
                return gateway.link_refused(now, id, why);
            }
            Err(error) => return self.close(gateway, now, id, &error.to_string()),
        }
        if !stream.is_secured() {
            return;
        }
        let spki = stream.peer_spki(LINK_PURPOSE);
        let Some(extent) = spki.and_then(|spki| keys.extent_of(spki)) else {
            let why = match spki {
                Some(_) => unpinned(gateway.config_name()),
                None => "the other end serves another purpose than links".to_string(),
            };
            self.bases[id.0] = Base::None;
            return gateway.link_refused(now, id, why);
        };
        if let Err(error) = stream.send_first(&keys.shown()) {
            return self.close(gateway, now, id, &error.to_string());
        }
        *connected = true;
        gateway.link_proven(now, id, extent.0);
    }

    /// Writes what a link has to send.
    pub fn write(&mut self, gateway: &mut Gateway, now: Time, id: LinkId) {
        let Base::Tcp { stream, connected: true, .. } = &mut self.bases[id.0] else { return };
        let now = exact(gateway, self.clock, now);
        while !gateway.link_out(id).is_empty() {
            match stream.drain_once(gateway.link_out(id)) {
                Ok(0) => return,
                Ok(n) => gateway.link_wrote(now, id, n),
                Err(error) => return self.close(gateway, now, id, &error.to_string()),
            }
        }
    }

    fn close(&mut self, gateway: &mut Gateway, now: Time, id: LinkId, reason: &str) {
        self.bases[id.0] = Base::None;
        gateway.link_closed(now, id, reason);
    }

    /// The gateway closed a link.
    pub fn disconnect(&mut self, id: LinkId) {
        if let Base::Local { extent, link } = std::mem::replace(&mut self.bases[id.0], Base::None) {
            self.extents[extent].node.link_closed(link);
        }
    }

    /// When a node in this process has something to do, whether or not anything comes.
    pub fn local_due(&self) -> Option<Time> {
        self.extents.iter().filter_map(|extent| extent.node.next_timeout()).min()
    }

    /// The process ends in order: nodes in it serve nothing any more. May block.
    pub fn end_extents(&mut self) {
        self.extents.iter_mut().for_each(Extent::end);
    }

    /// A turn of the loop has ended.
    pub fn end_turn(&mut self) {
        self.extents.iter_mut().for_each(Extent::end_turn);
    }

    /// Moves bytes between the gateway and the nodes in this process, and lets those work. Returns whether anything moved.
    pub fn carry_local(&mut self, gateway: &mut Gateway, now: Time) -> bool {
        if self.extents.is_empty() {
            return false;
        }
        let mut moved = false;
        for index in 0..self.bases.len() {
            let Base::Local { extent, link } = self.bases[index] else { continue };
            let node = &mut self.extents[extent].node;
            if !node.wants_bytes(link) || gateway.link_out(LinkId(index)).is_empty() {
                continue;
            }
            moved = true;
            while let front @ [_, ..] = gateway.link_out(LinkId(index)).front() {
                let n = front.len();
                if let Some(rx) = node.rx(link) {
                    rx.extend(front);
                }
                gateway.link_wrote(exact(gateway, self.clock, now), LinkId(index), n);
            }
            self.extents[extent].process(now, link);
        }
        for extent in &mut self.extents {
            extent.turn(now);
        }
        for index in 0..self.bases.len() {
            let Base::Local { extent, link } = self.bases[index] else { continue };
            let node = &mut self.extents[extent].node;
            let mut carried = false;
            while let Some(front @ [_, ..]) = node.out(link).map(|out| out.front()) {
                let n = front.len();
                gateway.link_rx(LinkId(index)).extend(front);
                node.wrote(link, n);
                carried = true;
            }
            if carried {
                moved = true;
                gateway.process_link(exact(gateway, self.clock, now), LinkId(index));
            }
        }
        self.end_closed_local(gateway, now) || moved
    }

    /// Ends local links that their node wants closed.
    fn end_closed_local(&mut self, gateway: &mut Gateway, now: Time) -> bool {
        let mut closed = Vec::new();
        for (number, extent) in self.extents.iter_mut().enumerate() {
            while let Some(event) = extent.node.poll_event() {
                if let NodeEvent::Close { link, reason } = event {
                    closed.push((number, link, reason));
                }
            }
        }
        for (number, link, reason) in &closed {
            let found = self
                .bases
                .iter()
                .position(|b| matches!(b, Base::Local { extent, link: l } if extent == number && l == link));
            self.extents[*number].node.link_closed(*link);
            if let Some(index) = found {
                self.close(gateway, now, LinkId(index), reason);
            }
        }
        !closed.is_empty()
    }

    /// Looks at the paths of all links whose last look is long enough ago.
    pub fn look(&mut self, gateway: &Gateway) {
        for (index, base) in self.bases.iter_mut().enumerate() {
            if let Base::Tcp { stream, connected: true, path, .. } = base
                && let NodePlace::Remote(place, _, means) = &self.places[gateway.node_of(LinkId(index))]
                && let Some(fd) = stream.tcp_fd()
            {
                path.look(fd, place.likeliest(), means);
            }
        }
    }

    /// Takes up what `flashmob key` has changed. Links whose keys are no longer the same end and are made again. Whether the gateway's own key is another.
    pub fn refresh_keys(&mut self, gateway: &mut Gateway, now: Time) -> bool {
        let Some(keys) = &mut self.keys else { return false };
        match self.recheck.as_mut().and_then(Recheck::look) {
            Some(News::Trouble(why)) => {
                log::error!(
                    "the gateway goes on with the keys that it has, and would not start with those that are there now: {why}"
                );
            }
            Some(News::Mended) => log::info!("the keys are in order again"),
            None => {}
        }
        let before = match keys.refresh() {
            Ok(before) => {
                self.keys_trouble = None;
                before
            }
            Err(error) => {
                let (text, last) = (error.to_string(), self.keys_trouble.take());
                // Only the second time: a change may have been in its middle.
                let (is_same, was_told) = last.map_or((false, false), |(last, told)| (last == text, told));
                if is_same && !was_told {
                    log::error!("the keys stay as they were: {text}");
                }
                self.keys_trouble = Some((text, is_same));
                return false;
            }
        };
        let Some(before) = before else { return false };
        let keys = &*keys;
        self.grant_in_use.set(&keys.grant);
        log::info!("keys: generation {}, {} nodes are pinned", keys.granted.generation, keys.pins.iter().count());
        gateway.verify_claims(keys.generation());
        let is_other = keys.granted != before.granted;
        if is_other {
            gateway.sign_mirrors(now, || Some(keys.mirror_signer()));
        }
        let extent_of = |keys: &GatewayKeys, stream: &Stream| keys.extent_of(stream.peer_spki(LINK_PURPOSE)?);
        let is_over = |base: &Base| match base {
            Base::Tcp { stream, connected: true, .. } => {
                keys.shown() != before.shown() || extent_of(keys, stream) != extent_of(&before, stream)
            }
            // It is being proven by what was known before.
            Base::Tcp { established: true, .. } => true,
            _ => false,
        };
        let over: Vec<usize> = (0..self.bases.len()).filter(|&index| is_over(&self.bases[index])).collect();
        for index in over {
            self.close(gateway, now, LinkId(index), "its keys have changed");
        }
        gateway.retry_links(now);
        is_other
    }

    /// The last state of a link's path.
    pub fn path_report(&self, id: LinkId) -> Option<PathReport> {
        let Base::Tcp { connected: true, path, .. } = &self.bases[id.0] else { return None };
        Some(path.report().clone())
    }

    /// The kernel's counters of a link's connection.
    pub fn tcp_info(&self, id: LinkId) -> Option<TcpReport> {
        let Base::Tcp { stream, connected: true, .. } = &self.bases[id.0] else { return None };
        stream.tcp_info()
    }
}

/// The time of the turn, or the exact time if the gateway follows a request: bytes reach a node in less than a turn.
pub(super) fn exact(gateway: &Gateway, clock: Clock, now: Time) -> Time {
    if gateway.wants_exact_time() { clock.now() } else { now }
}
