//! The node's end of a link: the hello, its fence, and the end.

use std::collections::HashMap;

use super::charge::{check_charge, check_generation, check_mirror, is_of_later_generation, remembered, takes_over};
use super::mirror::LinkMirror;
use super::reply::Done;
use super::told::Told;
use super::{Host, Node, NodeEvent};
use crate::buffers::{OutQueue, RxBuf};
use crate::planted::{self, Bug};
use crate::units::{Bytes, Time};
use crate::wire::frame;
use crate::wire::hello::{Hello, Refuse, RefuseReason, Welcome};

/// Identifies a link of this node. Reused only after the link has ended completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// Most gateways whose sessions are remembered; the one whose last hello is oldest is forgotten first.
const GATEWAYS_MAX: usize = 256;

/// Most links of a gateway: the latest attempt of each is remembered, also for hellos of strangers.
pub const LINKS_OF_GATEWAY_MAX: u16 = 256;

/// The state of a link.
#[derive(Debug, Default)]
pub(super) enum LinkState {
    /// No hello yet.
    #[default]
    New,
    /// A hello was accepted; earlier links of the gateway are still being finished.
    Fencing(Box<Greeting>),
    /// Batches are served.
    Ready,
    /// Queued bytes are written, nothing more is read.
    Closing,
    /// The connection is gone; operations in the store may remain.
    Dead,
}

/// An accepted hello that is not welcomed yet.
#[derive(Debug)]
pub(super) struct Greeting {
    hello: Hello,
    received: Time,
    /// What its welcome tells of the charges that the extent remembered before.
    remembered: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct NodeLink {
    pub rx: RxBuf,
    pub out: OutQueue,
    pub state: LinkState,
    /// The generation of the key with which the other end was let in; 0 without keys.
    pub generation: u64,
    /// The other end, after its hello.
    pub peer: Option<Peer>,
    /// Answers that gather for the next frame.
    pub replies: Vec<Done>,
    /// Sequence number of the last batch taken.
    pub last_seq: Option<u32>,
    /// Pieces taken and not yet answered.
    pub pieces_in_hand: usize,
    /// Pieces that are in the store.
    pub pieces_in_store: usize,
    /// Those of them that are slow flushes.
    pub slow_in_store: usize,
    /// Limits do not yet allow to decode received bytes.
    pub blocked: bool,
    /// The needs of the blocked batch: pieces, bytes.
    pub blocked_need: (usize, u64),
    /// Bytes of the budget that this link holds.
    pub reserved_bytes: u64,
    /// How many of those are for answers that are not written yet.
    pub unwritten_reply_bytes: u64,
    pub rx_wanted: usize,
    pub told: Told,
    pub mirror: LinkMirror,
}

/// Identifies a link across its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub gateway_id: [u8; 16],
    pub session: u64,
    pub link: u16,
    pub attempt: u32,
    /// That of its charge, for a volume with copies.
    epoch: Option<u64>,
}

impl Peer {
    fn of(hello: &Hello) -> Peer {
        let epoch = hello.charge.map(|charge| charge.epoch);
        Peer { gateway_id: hello.gateway_id, session: hello.session, link: hello.link, attempt: hello.attempt, epoch }
    }

    /// Whether `new` took charge of the volume after it, whichever gateways they are.
    fn is_deposed_by(&self, new: &Peer) -> bool {
        self.epoch < new.epoch
    }
}

impl NodeLink {
    /// Adds an answer to the next frame.
    pub fn push_answer(&mut self, done: Done) {
        planted::leak(Bug::NodeLeaks, 4096);
        self.unwritten_reply_bytes += done.data_bytes() as u64;
        self.replies.push(done);
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.state, LinkState::Closing | LinkState::Dead)
    }
}

/// The latest session of each gateway and the latest attempt of each of its links, so that a delayed hello does not fence its
/// successors.
#[derive(Debug, Default)]
pub(super) struct Fences {
    gateways: HashMap<[u8; 16], Seen>,
    clock: u64,
}

#[derive(Debug)]
struct Seen {
    session: u64,
    attempts: HashMap<u16, u32>,
    used: u64,
}

impl Fences {
    /// Records a hello; false if a later one was seen before.
    fn admit(&mut self, hello: &Hello) -> bool {
        self.clock += 1;
        if self.gateways.len() >= GATEWAYS_MAX && !self.gateways.contains_key(&hello.gateway_id) {
            let oldest = self.gateways.iter().min_by_key(|(_, s)| s.used).map(|(id, _)| *id);
            self.gateways.remove(&oldest.unwrap_or_default());
        }
        let seen = self.gateways.entry(hello.gateway_id).or_insert_with(|| Seen {
            session: hello.session,
            attempts: HashMap::new(),
            used: 0,
        });
        if hello.session < seen.session {
            return false;
        }
        if hello.session > seen.session {
            seen.session = hello.session;
            seen.attempts.clear();
        }
        seen.used = self.clock;
        match seen.attempts.get(&hello.link) {
            Some(&latest) if latest >= hello.attempt => false,
            _ => {
                seen.attempts.insert(hello.link, hello.attempt);
                true
            }
        }
    }
}

impl Node {
    pub(super) fn handle_hello(&mut self, id: LinkId, hello: Hello, host: &mut impl Host) {
        let received = host.now();
        // Before the hello's own charge is accepted.
        let remembered = hello.charge.and_then(|_| remembered(hello.seen, &host.accepted(), host.age()));
        if let Err((reason, text)) = self.check_hello(id, &hello, host) {
            return self.refuse_link(id, reason, &text);
        }
        let peer = Peer::of(&hello);
        let fenced: Vec<LinkId> = self
            .links
            .iter()
            .filter(|&(other, l)| other != id.0 && l.peer.is_some_and(|p| is_fenced_by(&p, &peer)))
            .map(|(other, _)| LinkId(other))
            .collect();
        for other in fenced {
            self.drop_waiting(other);
            if let Some(link) = self.links.get(other.0).filter(|link| link.is_open()) {
                let is_deposed = link.peer.is_some_and(|old| old.is_deposed_by(&peer));
                let reason =
                    if is_deposed { "a later gateway took charge of the volume" } else { "the gateway linked anew" };
                self.close_link(other, reason.to_string());
            }
        }
        if let Some(link) = self.links.get_mut(id.0) {
            link.peer = Some(peer);
            link.state = LinkState::Fencing(Box::new(Greeting { hello, received, remembered }));
        }
        self.settle_fences();
    }

    fn check_hello(&mut self, id: LinkId, hello: &Hello, host: &mut impl Host) -> Result<(), (RefuseReason, String)> {
        if self.draining {
            return Err((RefuseReason::ShuttingDown, "the node is shutting down".to_string()));
        }
        // Before anything is changed, and before a limit hides it: a gateway that is not in charge learns that.
        let (remembered, admitted) = (host.charge(), self.links.get(id.0).map_or(0, |link| link.generation));
        check_generation(admitted, hello.charge.as_ref())?;
        check_charge(remembered.as_ref(), hello.charge.as_ref())?;
        check_mirror(self.mirror.as_ref(), hello.charge.as_ref())?;
        let peer = Peer::of(hello);
        let stays = |l: &NodeLink| l.is_open() && l.peer.is_some_and(|p| !is_fenced_by(&p, &peer));
        if self.links.iter().filter(|(_, l)| stays(l)).count() >= self.config.links_max {
            return Err((RefuseReason::Busy, format!("the node has {} links, its limit", self.config.links_max)));
        }
        if hello.link >= LINKS_OF_GATEWAY_MAX {
            let text = format!("a gateway may have {LINKS_OF_GATEWAY_MAX} links to a node");
            return Err((RefuseReason::Busy, text));
        }
        let size = self.config.size_bytes;
        // A gateway that has it in a volume with copies learns from the welcome that it has grown, or had said too much, and judges that.
        let is_of_volume = remembered.is_some() && hello.charge.is_some();
        if hello.size_bytes != 0 && hello.size_bytes != size && !is_of_volume {
            let (has, wanted) = (Bytes(size), Bytes(hello.size_bytes));
            let text = format!(
                "the extent has {size} bytes ({has}), and the gateway wants {} ({wanted}), as `size` in its configuration or `volume add --size` \
                 says: correct that, or give the node another extent",
                hello.size_bytes
            );
            return Err((RefuseReason::Size, text));
        }
        if remembered.is_none() && hello.from_linear.is_some() {
            self.check_unused(hello)?;
        }
        if is_of_later_generation(remembered.as_ref(), hello.charge.as_ref()) {
            // The shell drops it, too.
            self.mirror = None;
        }
        match host.adopt(hello) {
            Err((RefuseReason::Store, _)) if planted::is(Bug::ChargeUnrecorded) => {}
            adopted => adopted?,
        }
        if takes_over(remembered.as_ref(), hello.charge.as_ref()) {
            // Hellos of earlier starts are refused from now on, whatever their session; the time of this one's start may be wrong.
            self.fences = Fences::default();
        }
        if !self.fences.admit(hello) {
            return Err((RefuseReason::Superseded, "a later link of the same gateway is here already".to_string()));
        }
        Ok(())
    }

    /// An extent gets checksums when a linear volume is converted: nothing may be written meanwhile by a gateway that knows nothing of it.
    fn check_unused(&self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        let is_used = |l: &NodeLink| l.peer.is_some() && (l.is_open() || l.pieces_in_store > 0);
        if !self.links.iter().any(|(_, link)| is_used(link)) {
            return Ok(());
        }
        let text = format!(
            "a gateway uses this extent of volume '{}', which is to be converted; stop that gateway, or restart the node if there is none",
            hello.volume_id
        );
        Err((RefuseReason::Busy, text))
    }

    /// Welcomes the links for which nothing that they fence is in the store any more. Removes links that have ended.
    pub(super) fn settle_fences(&mut self) {
        if self.links.iter().all(|(_, l)| !matches!(l.state, LinkState::Fencing(..) | LinkState::Dead)) {
            return;
        }
        self.links.retain(|_, l| !matches!(l.state, LinkState::Dead) || l.pieces_in_store > 0 || l.mirror.is_busy);
        let ready: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, l)| matches!(l.state, LinkState::Fencing(..)))
            .filter(|&(id, l)| l.peer.is_some_and(|peer| !self.is_fence_busy(id, &peer)))
            .map(|(id, _)| LinkId(id))
            .collect();
        for id in ready {
            self.welcome(id);
        }
    }

    /// Whether something is in the store that has to end before this peer is welcomed. Flushes that take long have not: they change nothing, and
    /// the node must not be out of reach for as long as they take.
    fn is_fence_busy(&self, id: usize, peer: &Peer) -> bool {
        let is_busy = |l: &NodeLink| l.pieces_in_store > l.slow_in_store || l.mirror.is_fencing();
        self.links.iter().any(|(other, l)| other != id && is_busy(l) && l.peer.is_some_and(|p| is_fenced_by(&p, peer)))
    }

    fn welcome(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id.0) else { return };
        let LinkState::Fencing(greeting) = std::mem::replace(&mut link.state, LinkState::Ready) else { return };
        let Greeting { hello, received, remembered } = *greeting;
        link.mirror = LinkMirror::of(&hello, self.config.keeps_mirror);
        link.told.is_wanted = hello.keeps_alive;
        link.told.is_progress_wanted = hello.keeps_alive && hello.hears_progress;
        link.told.is_service_wanted = hello.hears_service;
        // Bytes behind the hello were not decoded until now.
        link.blocked = !link.rx.is_empty();
        let clock_ns = |time: Time| self.clock_start_ns.saturating_add(time.as_nanos());
        let welcome = Welcome {
            extent_id: self.config.extent_id,
            boot_id: self.config.boot_id,
            size_bytes: self.config.size_bytes,
            no_io: self.config.no_io,
            modelled: self.config.modelled,
            keeps_alive: hello.keeps_alive,
            hello_received_ns: clock_ns(received),
            // The latest known time, certainly before the welcome is sent.
            welcome_sent_ns: clock_ns(self.latest.max(received)),
            remembered,
            mirror: self.told_mirror(id),
            knows_marks: hello.knows_marks,
            keeps_age: hello.asks_age && hello.charge.is_some() && self.config.keeps_mirror,
        };
        if let Some(link) = self.links.get_mut(id.0) {
            link.out.append(|out| welcome.encode(out));
        }
        if hello.hears_service {
            self.begin_service();
        }
        self.tell_newcomer(self.latest.max(received), id);
        self.events.push_back(NodeEvent::Linked { link: id, volume_id: hello.volume_id, extent: hello.extent });
    }

    /// Refuses a link before its hello, for a reason that the shell knows.
    pub fn refuse_link(&mut self, id: LinkId, reason: RefuseReason, text: &str) {
        if let Some(link) = self.links.get_mut(id.0) {
            let refuse = Refuse { reason, text: text.to_string() };
            link.out.append(|out| refuse.encode(out));
        }
        self.close_link(id, format!("refused: {text}"));
    }

    /// Sends the peer an error about its bytes, and ends the link.
    pub(super) fn fail_link(&mut self, id: LinkId, text: &str) {
        self.counters.protocol_errors += 1;
        if let Some(link) = self.links.get_mut(id.0) {
            link.out.append(|out| frame::encode_error(out, text));
        }
        self.close_link(id, format!("dropped: {text}"));
    }

    /// Ends a link once queued bytes are written. The shell answers with [`Node::link_closed`].
    pub(super) fn close_link(&mut self, id: LinkId, reason: String) {
        if let Some(link) = self.links.get_mut(id.0)
            && link.is_open()
        {
            link.state = LinkState::Closing;
            self.events.push_back(NodeEvent::Close { link: id, reason });
        }
    }
}

/// Whether the operations of `old` must be over before `new` is welcomed.
fn is_fenced_by(old: &Peer, new: &Peer) -> bool {
    if planted::is(Bug::NodeDoesNotFence) {
        return false;
    }
    let is_earlier_attempt = old.session == new.session && old.link == new.link && old.attempt < new.attempt;
    let is_of_earlier_link = old.gateway_id == new.gateway_id && (old.session < new.session || is_earlier_attempt);
    is_of_earlier_link || (old.is_deposed_by(new) && !planted::is(Bug::EarlierLinksSurvive))
}
