//! The gateway's end of a link: its hello, bytes in and out, and received frames.

use super::Gateway;
use super::state::{Charged, LinkId, State};
use super::welcome::{OF_LINEAR, another_extent};
use crate::buffers::{OutQueue, RxBuf};
use crate::layout::EXTENTS_MAX;
use crate::stages::GatewayInterval;
use crate::units::Time;
use crate::wire::frame::{self, Decoded, FrameKind, WireError};
use crate::wire::hello::{Hello, Refuse, Welcome};

/// What came on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrived {
    /// Nothing but reports of what the node's store did lately.
    ReportsAlone,
    /// Other frames, or a part of one.
    Others,
}

impl Gateway {
    /// How many links there are, over all nodes; their [`LinkId`]s start at 0.
    #[must_use]
    pub fn links_count(&self) -> usize {
        self.links.len()
    }

    /// The node of a link, counted over all volumes.
    #[must_use]
    pub fn node_of(&self, id: LinkId) -> usize {
        self.links[id].node
    }

    /// How many bytes are missing from the frame that is arriving: a hint for reading.
    #[must_use]
    pub fn link_wanted(&self, id: LinkId) -> usize {
        self.links[id].rx_wanted
    }

    /// Whether urgent reads are out on this link: in a divided turn ([`Gateway::divides_turns`]) it is read before the others.
    #[must_use]
    pub fn is_link_urgent(&self, id: LinkId) -> bool {
        self.links[id].urgent_len() > 0
    }

    /// The shell has connected a link, and the other end has proven to serve this extent.
    ///
    /// Another one than is known gets no hello, by which a free extent would be claimed; but in a volume with copies it may be offered in the place of a lost
    /// one, as its welcome tells.
    pub fn link_proven(&mut self, now: Time, id: LinkId, extent_id: [u8; 16]) {
        let number = self.links[id].node;
        let node = &self.nodes[number];
        let known = node.extent_id.filter(|known| *known != extent_id);
        if let Some(known) = known.filter(|_| self.volumes[node.volume].copies.is_none()) {
            let text = another_extent(known, extent_id, OF_LINEAR);
            return self.refuse_node(now, id, text);
        }
        let owner =
            self.nodes.iter().enumerate().find(|(other, of)| *other != number && of.extent_id == Some(extent_id));
        if let Some((_, owner)) = owner {
            let text = format!("it is another node of this gateway, {}; correct its address", owner.name);
            return self.refuse_node(now, id, text);
        }
        self.link_connected(now, id);
        self.links[id].proven = Some(extent_id);
    }

    /// The other end of a link that is being connected is not what it should be, so that early attempts are useless.
    pub fn link_refused(&mut self, now: Time, id: LinkId, text: String) {
        self.refuse_node(now, id, text);
    }

    /// The shell has connected a link.
    pub fn link_connected(&mut self, now: Time, id: LinkId) {
        if !matches!(self.links[id].state, State::Connecting(_)) {
            return;
        }
        self.links[id].proven = None;
        let node = &self.nodes[self.links[id].node];
        let volume = &self.volumes[node.volume];
        let link = &mut self.links[id];
        let hello = Hello {
            gateway_id: self.config.id,
            session: self.config.session,
            link: link.number,
            keeps_alive: true,
            hears_progress: true,
            keeps_mirror: true,
            knows_marks: true,
            asks_age: true,
            hears_service: self.config.keeps_live,
            attempt: link.attempt,
            volume_id: volume.spec.id.clone(),
            extent: node.extent,
            extents: if volume.copies.is_some() { EXTENTS_MAX as u32 } else { volume.spec.extents.len() as u32 },
            layout: volume.spec.layout.to_string(),
            size_bytes: volume.sizes_bytes[node.extent as usize].unwrap_or(0),
            charge: volume.copies.as_ref().map(|copies| copies.charge()),
            seen: volume.copies.as_ref().and_then(|copies| copies.seen(node.extent as u16)),
            from_linear: volume.copies.as_ref().and_then(|copies| copies.linear_origin(node.extent as u16)),
        };
        let until = now + volume.spec.connect_timeout;
        link.state = State::Greeting(until);
        link.greeted = now;
        let offered = hello.charge.map(|charge| (charge.epoch, charge.version));
        link.charged = offered.map(|offered| Charged { offered, seen: hello.seen });
        link.out.append(|out| hello.encode(out));
        self.links.greeting += 1;
        self.links.look_at(until);
        self.links.mark(id);
    }

    /// A link's connection has ended or failed.
    pub fn link_closed(&mut self, now: Time, id: LinkId, reason: &str) {
        self.break_link(now, id, reason, None);
    }

    /// The receive buffer of a link. Follow it with [`Gateway::process_link`].
    pub fn link_rx(&mut self, id: LinkId) -> &mut RxBuf {
        &mut self.links[id].rx
    }

    /// The bytes to write to a link's socket.
    pub fn link_out(&mut self, id: LinkId) -> &mut OutQueue {
        &mut self.links[id].out
    }

    /// Whether a link has bytes to write.
    #[must_use]
    pub fn link_has_out(&self, id: LinkId) -> bool {
        !self.links[id].out.is_empty()
    }

    /// The socket took `n` bytes of [`Gateway::link_out`].
    pub fn link_wrote(&mut self, now: Time, id: LinkId, n: usize) {
        let link = &mut self.links[id];
        link.out.advance(n);
        link.counters.bytes_out += n as u64;
        if link.out.is_empty() {
            for batch in link.sent.iter_mut().rev().take_while(|b| !b.written) {
                self.metrics.stages.record_n(
                    GatewayInterval::Sent,
                    now.nanos_since(batch.sent),
                    batch.pieces.len() as u64,
                );
                (batch.written, batch.sent) = (true, now);
            }
            if self.metrics.samples.is_active() {
                self.metrics.samples.written(now, id);
            }
        }
    }

    /// Decodes bytes received on a link, and completes the answered pieces.
    pub fn process_link(&mut self, now: Time, id: LinkId) {
        self.advance_live(now);
        let mut rx = std::mem::take(&mut self.links[id].rx);
        let progress = std::mem::replace(&mut self.links[id].progress, now);
        self.links[id].heard = now;
        self.links[id].alive.is_heard = true;
        let result = self.decode_link(now, id, &mut rx);
        if self.links[id].is_connected() {
            self.links[id].rx = rx;
        }
        match result {
            // They tell what a node does for others as well: what is out on this link gets no younger by them.
            Ok(Arrived::ReportsAlone) => self.links[id].progress = progress,
            Ok(Arrived::Others) => {}
            Err(error) => {
                self.metrics.counters.link_errors += 1;
                self.disconnect(now, id, &error.to_string());
            }
        }
    }

    fn decode_link(&mut self, now: Time, id: LinkId, rx: &mut RxBuf) -> Result<Arrived, WireError> {
        let mut arrived = Arrived::ReportsAlone;
        loop {
            match self.links[id].state {
                State::Greeting(_) | State::Ready => {}
                State::Held(_) => {
                    self.look_behind_welcome(now, id, rx)?;
                    if self.links[id].state != State::Ready {
                        return Ok(Arrived::Others);
                    }
                }
                State::Waiting(_) | State::Connecting(_) | State::Parked => return Ok(Arrived::Others),
            }
            let (frame, taken) = match frame::decode_frame(rx.data())? {
                Decoded::NeedMore(total) => {
                    self.links[id].rx_wanted = total - rx.len();
                    return Ok(if rx.is_empty() { arrived } else { Arrived::Others });
                }
                Decoded::Frame(frame, taken) => (frame, taken),
            };
            self.links[id].counters.bytes_in += taken as u64;
            if frame.kind != FrameKind::Service {
                arrived = Arrived::Others;
            }
            match (self.links[id].state, frame.kind) {
                (State::Greeting(_), FrameKind::Welcome) => self.welcomed(now, id, &Welcome::decode(frame.meta)?),
                (State::Greeting(_), FrameKind::Refuse) => self.refused(now, id, &Refuse::decode(frame.meta)?),
                (State::Ready, FrameKind::Replies) => self.handle_replies(now, id, frame.meta, frame.payload)?,
                (State::Ready, FrameKind::MirrorPut) if self.has_copies() => self.mirror_put(now, id, frame.meta)?,
                (State::Ready, FrameKind::Times) => self.handle_times(id, frame.meta)?,
                (State::Ready, FrameKind::Service) if self.config.keeps_live => self.handle_service(id, frame.meta)?,
                (State::Ready, FrameKind::Condition) if self.links[id].alive.is_known => {
                    self.handle_condition(now, id, frame.meta)?;
                }
                (State::Ready, FrameKind::Alive) if self.links[id].alive.is_known => {
                    self.handle_alive(now, id, frame.meta)?
                }
                (State::Greeting(_), FrameKind::Error) if self.links[id].charged.is_some() => {
                    self.not_understood(now, id, &frame::error_text(frame.meta));
                }
                (_, FrameKind::Error) => {
                    let text = frame::error_text(frame.meta);
                    self.disconnect(now, id, &format!("the node reports: {text}"));
                }
                _ => return Err(WireError::Malformed("order of frames")),
            }
            rx.consume(taken);
        }
    }
}
