//! The gateway's loop in virtual time: the state machine, the load inside it, and a modelled processor.

use std::collections::VecDeque;
use std::time::Duration;

use flashmob_core::copies::{MapImage, Marks, Member, Record};
use flashmob_core::gateway::{
    Action, BatchMode, ClientId, Completion, CopiesSpec, ExtentSpec, Gateway, GatewayConfig, GatewayStatus, LinkId,
    LinkPhase, NoLocal, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::{MIB, Time};

use super::node::extent_id;
use super::tcp::{Connection, MSS_BYTES, Side};
use super::{Cost, Settings, SettingsError};
use crate::load::{Master, Plan};

/// Memory of a gateway, as by default, and the additional memory that each request of the load may need.
const MEMORY_BYTES: u64 = 256 * MIB;
/// Defaults of a volume, as in the program's configuration.
const BATCH_BYTES: u64 = MIB;
/// Bytes of a chunk of a volume with copies, as in the program.
const CHUNK_BYTES: u64 = 4 * MIB;
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the load may ask for in one turn that is divided: an NBD client's part of it, in requests.
const PART_OF_TURN: usize = 64;

#[derive(Debug)]
pub(super) struct SimGateway {
    pub(super) core: Gateway,
    pub(super) load: Master,
    /// A client with few requests beside the load.
    pub(super) modest: Option<Master>,
    /// Answers to the load that it takes when its part of the turn has come.
    held: Vec<Completion>,
    /// Links with data to read, each once.
    ready: Vec<usize>,
    /// Links that this turn has not read yet, if turns are divided; the next part belongs to the same turn.
    unread: VecDeque<usize>,
    is_within_turn: bool,
    parts_left: usize,
    /// By link: whether it is in `ready`.
    is_ready: Vec<bool>,
    pub(super) busy_until: Time,
    pub(super) busy_ns: u64,
    pub(super) is_awake: bool,
    /// Links given up since this was last emptied.
    pub(super) cut: Vec<LinkId>,
    pub(super) timer: Option<Time>,
    /// All nodes are linked that are there: the load begins then, so that none of its requests waits for a link.
    is_linked: bool,
    /// The volume is scrubbed all the time.
    scrubs: bool,
    /// The node that is away at first.
    away: Option<usize>,
    cost: Cost,
    dirty_clients: Vec<ClientId>,
    dirty_links: Vec<LinkId>,
    /// Decisions to make durable since this was last emptied, by their numbers.
    pub(super) commits: Vec<u64>,
}

/// The map of a new volume, in the charge of this gateway.
fn map_of(settings: &Settings, copies: usize) -> Result<MapImage, SettingsError> {
    let members = (0..settings.nodes).map(|number| Member {
        extent_id: extent_id(number),
        boot_id: None,
        seen: None,
        size_bytes: settings.extent_bytes,
        domain: format!("node{number}"),
    });
    let mut image = MapImage::new([3; 16], CHUNK_BYTES, copies, members.collect())?;
    image.apply(&Record::Epoch { epoch: 1, nonce: 1 })?;
    if let Some(rebuild) = settings.rebuild {
        let lacking: Vec<(u32, usize)> = image.chunks_of(rebuild.node as u16).collect();
        for (first_chunk, copy) in lacking {
            let marks = Marks { behind: 1 << copy, ..Marks::default() };
            image.apply(&Record::Marks { first_chunk, count: 1, marks })?;
        }
    }
    Ok(image)
}

impl SimGateway {
    pub(super) fn new(settings: &Settings) -> Result<SimGateway, SettingsError> {
        let extent =
            |number| ExtentSpec { size_bytes: Some(settings.extent_bytes), ..ExtentSpec::new(format!("node{number}")) };
        let mut volume = VolumeSpec {
            batch: settings.batch,
            batch_bytes: BATCH_BYTES,
            links: settings.links,
            outstanding_batches: match settings.batch {
                BatchMode::Auto => 2,
                BatchMode::Fixed(_) => 1,
            },
            timeout: TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(10),
            keep_awake: None,
            ..VolumeSpec::new("pool", (0..settings.nodes).map(extent).collect())
        };
        let mut range_bytes = u64::from(settings.loaded_nodes) * settings.extent_bytes;
        if let Some(copies) = &settings.copies {
            let map = map_of(settings, copies.copies as usize)?;
            range_bytes = u64::from(map.chunks()) * map.chunk_bytes();
            volume.layout = LayoutKind::Mapped { chunk_bytes: CHUNK_BYTES };
            volume.copies = Some(Box::new(CopiesSpec { home_only: copies.home_only, ..CopiesSpec::new(map) }));
        }
        let per_request = 2 * u64::from(settings.block_bytes) + 1024;
        let core = Gateway::new(GatewayConfig {
            memory_bytes: MEMORY_BYTES + 4 * u64::from(settings.outstanding) * per_request,
            clients_max: 4096,
            seed: settings.seed,
            ..GatewayConfig::new([7; 16], 1, vec![volume])
        })?;
        let plan = Plan {
            range_bytes,
            block_bytes: settings.block_bytes,
            read_percent: settings.read_percent,
            outstanding: settings.outstanding,
            every_ns: settings.every_ns,
            seed: settings.seed ^ 0x5eed,
        };
        Ok(SimGateway {
            core,
            load: Master::new(plan, 0),
            modest: None,
            held: Vec::new(),
            ready: Vec::new(),
            unread: VecDeque::new(),
            is_within_turn: false,
            parts_left: 0,
            is_ready: vec![false; settings.nodes as usize * usize::from(settings.links)],
            busy_until: Time::default(),
            busy_ns: 0,
            is_awake: false,
            cut: Vec::new(),
            timer: None,
            is_linked: false,
            scrubs: settings.copies.is_some_and(|copies| copies.scrub),
            away: settings.rebuild.map(|rebuild| rebuild.node as usize),
            cost: settings.gateway_cost,
            dirty_clients: Vec::new(),
            dirty_links: Vec::new(),
            commits: Vec::new(),
        })
    }

    /// One turn of its loop, or a part of it if turns are divided ([`SimGateway::goes_on`] then tells whether there is another part): links to
    /// connect go to `connect`, links that were written to stay in [`SimGateway::written`]. Returns the processor time in nanoseconds.
    pub(super) fn turn(&mut self, now: Time, connections: &mut [Connection], connect: &mut Vec<LinkId>) -> u64 {
        let turn_ns = if self.is_within_turn { 0 } else { self.cost.turn_ns };
        if !self.is_within_turn {
            self.unread.extend(self.ready.drain(..));
            self.parts_left = 2 * self.unread.len();
        }
        let (mut bytes, mut packets) = (0, 0);
        let is_divided = self.core.divides_turns(now);
        while let Some(number) = self.next_unread(is_divided) {
            self.is_ready[number] = false;
            let (before, link) = (bytes, LinkId(number));
            let rx = self.core.link_rx(link);
            connections[number].read(Side::Gateway, |data| {
                bytes += data.len();
                rx.extend(data);
            });
            packets += (bytes - before).div_ceil(MSS_BYTES as usize);
            self.core.process_link(now, link);
            if is_divided {
                break;
            }
        }
        if self.parts_left == 0 {
            self.ready.extend(self.unread.drain(..));
        }
        self.is_within_turn = !self.unread.is_empty();
        if !self.is_within_turn {
            self.core.handle_timeout(now);
        }
        let requests = self.serve_clients(now, is_divided, connect);
        let (mut clients, mut links) = (std::mem::take(&mut self.dirty_clients), std::mem::take(&mut self.dirty_links));
        self.core.take_dirty(&mut clients, &mut links);
        for &link in &links {
            let mut written = 0;
            loop {
                let front = self.core.link_out(link).front();
                let len = front.len();
                if len == 0 {
                    break;
                }
                connections[link.0].write(Side::Gateway, front);
                self.core.link_wrote(now, link, len);
                written += len;
            }
            packets += written.div_ceil(MSS_BYTES as usize);
            bytes += written;
        }
        (self.dirty_clients, self.dirty_links) = (clients, links);
        turn_ns + self.cost.of_part(packets, requests, bytes)
    }

    /// The next link to read in this turn. If turns are divided, every second one is the first on which urgent reads are out, and those that
    /// get data meanwhile belong to the turn: as in a gateway's loop.
    fn next_unread(&mut self, is_divided: bool) -> Option<usize> {
        if !is_divided {
            self.parts_left = 0;
            return self.unread.pop_front();
        }
        let core = &self.core;
        let is_urgent = |number: &usize| core.is_link_urgent(LinkId(*number));
        self.unread.extend(self.ready.extract_if(.., |number| is_urgent(number)));
        self.parts_left = self.parts_left.saturating_sub(1);
        let urgent = self.unread.iter().position(|number| self.parts_left % 2 == 1 && is_urgent(number));
        self.unread.remove(urgent.unwrap_or(0))
    }

    /// Lets clients take answers and make requests; the load only at the end of a turn. Returns how many answers they took.
    fn serve_clients(&mut self, now: Time, is_divided: bool, connect: &mut Vec<LinkId>) -> usize {
        let is_end = !self.is_within_turn;
        let mut part = if is_divided { PART_OF_TURN } else { usize::MAX };
        let mut requests = 0;
        loop {
            let modest = self.modest.as_ref();
            let (few, many): (Vec<_>, Vec<_>) =
                self.core.completions().drain(..).partition(|c| modest.is_some_and(|modest| modest.owns(c)));
            self.held.extend(many);
            self.is_linked = self.is_linked || self.is_each_linked(self.away);
            if let Some(modest) = &mut self.modest {
                requests += few.len();
                modest.take_from(now, few);
                if self.is_linked {
                    modest.fill(now, &mut self.core, &mut NoLocal);
                }
            }
            if is_end {
                requests += self.held.len();
                self.load.take_from(now, self.held.drain(..));
            }
            if is_end && self.is_linked {
                part -= self.load.fill_in_part(now, &mut self.core, &mut NoLocal, part);
                if self.scrubs && self.core.scrub_status(now, 0).is_some_and(|status| !status.compare.is_running) {
                    // A volume with copies has no reason to refuse it.
                    let _ = self.core.begin_scrub(now, 0, true);
                }
            }
            if is_end {
                self.core.turn(now, &mut NoLocal);
            } else {
                self.core.turn_in_part(now);
            }
            while let Some(action) = self.core.poll_action() {
                match action {
                    Action::Connect { link, .. } => connect.push(link),
                    Action::Disconnect(link) => self.cut.push(link),
                    Action::Commit { number, .. } => self.commits.push(number),
                    _ => {}
                }
            }
            let begins = part > 0 && self.is_linked && self.load.outstanding() == 0 && !self.load.begins_by_time();
            let goes_on = is_end && (self.core.wants_turn() || begins);
            if self.core.completions().is_empty() && !goes_on {
                return requests;
            }
        }
    }

    /// Whether this turn, or the next one, has something to do at once.
    pub(super) fn goes_on(&self) -> bool {
        self.is_within_turn || !self.ready.is_empty() || (self.is_linked && self.load.is_behind())
    }

    /// Whether all nodes are linked, but for one that is away.
    pub(super) fn is_each_linked(&self, away: Option<usize>) -> bool {
        let status = self.core.status();
        let mut others = status.volumes[0].nodes.iter().filter(|node| Some(node.number) != away);
        others.all(|node| node.links.iter().any(|link| link.phase == LinkPhase::Ready))
    }

    /// Marks a link as having data to read.
    pub(super) fn note_ready(&mut self, number: usize) {
        if !std::mem::replace(&mut self.is_ready[number], true) {
            self.ready.push(number);
        }
    }

    /// Nothing can be read from this link any more.
    pub(super) fn forget_ready(&mut self, number: usize) {
        self.ready.retain(|&n| n != number);
        self.unread.retain(|&n| n != number);
        self.is_ready[number] = false;
    }

    /// The links that the last turn wrote to.
    pub(super) fn written(&self) -> &[LinkId] {
        &self.dirty_links
    }

    pub(super) fn status(&self) -> GatewayStatus {
        self.core.status()
    }
}
