//! The fault simulator: a gateway, its nodes and its clients in virtual time, with faults, from a random seed.
//!
//! A run is a queue of events by time; all random numbers come from one generator, so a seed repeats a run
//! exactly. The state machines are the real ones; sockets, disks and loops are played by the files of this folder. It must
//! never look at a clock, and never at anything whose order differs from run to run.
//!
//! | file | what is in it |
//! |---|---|
//! | `scenario.rs` | the settings of a run, drawn from a seed |
//! | `scenario_copies.rs` | the same, with copies |
//! | `scenario_file.rs` | a run that was written down |
//! | `fault.rs` | faults, and the errors that they excuse |
//! | `mapped.rs` | volumes with copies: the map's file, and what copies promise |
//! | `accepted.rs` | the only current copies are gone, and somebody accepts the loss |
//! | `blackout.rs` | all copies of chunks lose power |
//! | `lie.rs` | a flash lies |
//! | `failed_sync.rs` | syncs fail, and a process is started again |
//! | `remount.rs` | a file system is mounted anew below a node |
//! | `slow_flush.rs` | flushes take long |
//! | `stall.rs` | the gateway stands still |
//! | `flushed.rs` | losses that are none |
//! | `forged.rs` | an adversary at the store of the map, which is signed |
//! | `map_trouble.rs` | the disk under the map is full, or slow |
//! | `map_rot.rs` | the end of the map is damaged, or lost |
//! | `record.rs` | nodes cannot write what they record of themselves |
//! | `min_current.rs` | changes need more than one current copy |
//! | `open.rs` | few chunks may be open at once |
//! | `pause.rs` | nodes are paused and measured |
//! | `latent.rs` | blocks rot unread before the node with another copy is paused or made equal |
//! | `resync.rs` | copies of a node are made equal to others |
//! | `rewrite.rs` | the map is written anew, and power is lost in the middle |
//! | `rot_behind.rs` | the only current copy rots while another is behind |
//! | `scrub.rs` | scrubs, and what they must have found |
//! | `killed/` | somebody is killed in the middle of a change |
//! | `second.rs` | a second gateway on a volume with copies |
//! | `copy.rs` | a second device that shows the same extent |
//! | `net.rs` | connections |
//! | `store.rs` | the nodes' storage: live bytes against durable ones |
//! | `node.rs`, `gateway.rs` | loops around the state machines |
//! | `client.rs` | NBD and native clients |
//! | `oracle.rs` | the permitted answers |
//! | `history.rs` | what clients saw, for a checker that is not ours |
//! | `samples.rs` | checks of followed requests |
//! | `finish.rs` | the end of a run: everything completes, and the bytes are right |

mod accepted;
mod blackout;
mod client;
mod copy;
mod failed_sync;
mod fault;
mod finish;
mod flushed;
mod forged;
mod gateway;
mod grow;
mod history;
mod hot_backup;
mod joins;
mod killed;
mod latent;
mod lease;
mod lie;
mod map_rot;
mod map_trouble;
mod mapped;
mod min_current;
mod mirror;
mod moves;
mod net;
mod node;
mod open;
mod oracle;
mod pause;
mod record;
mod remount;
mod replace;
mod resync;
mod rewrite;
mod rot_behind;
mod samples;
mod scenario;
mod scenario_copies;
mod scenario_file;
mod scrub;
mod second;
mod shrink;
mod signed;
mod slow_flush;
mod stall;
mod stolen;
mod store;
mod trace;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use flashmob_core::layout::LayoutKind;
use flashmob_core::units::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use client::Client;
pub use fault::{FAULT_KINDS, Fault, FaultCounts};
use gateway::GatewayLoop;
pub use history::{Step, write_history};
pub use hot_backup::Parts;
pub use joins::Spare;
pub use killed::{Change, ChangePlan, Killed, Victim};
pub use mapped::CopiesPlan;
pub use net::LinkQuality;
use net::{ConnId, ConnKind, Net};
use node::NodeLoop;
use oracle::{Oracle, pattern};
use remount::Stop;
pub use scenario::{ClientPlan, Scenario};
pub use scenario_file::{ScenarioError, ScenarioFile};
pub use store::StoreQuality;
use trace::{Trace, What};

/// The interval between checks for requests that wait too long.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// More events than any healthy run has: beyond it something spins.
const EVENTS_MAX: u64 = 3_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Arrive { conn: ConnId, from: usize },
    SeeClose { conn: ConnId, side: usize },
    Ready { conn: ConnId, side: usize },
    Connect { link: usize, node: usize, attempt: u32, session: u64 },
    NodeTurn { node: usize },
    NodeTimer { node: usize },
    StartNode { node: usize, epoch: u32 },
    StoreDone { node: usize, epoch: u32, slot: usize },
    MirrorDone { node: usize, epoch: u32 },
    GatewayTurn { session: u64 },
    GatewayTimer { session: u64 },
    StartGateway,
    ClientTurn { client: usize },
    Fault(usize),
    HalfOpen { conn: ConnId, until: Time },
    Announce { node: usize, is_elsewhere: bool },
    CopiesDisappear,
    Committed { session: u64 },
    MapDirectoryFlushed { session: u64 },
    Replace { node: usize },
    AcceptLoss { node: usize },
    Pause { node: usize, lasts: Duration },
    Resume { node: usize },
    EndDrain { node: usize },
    KillInMove { session: u64, lasts: Duration },
    KillGateway,
    KillFormer,
    AskLease { session: u64 },
    ClaimShown { session: u64, node: usize },
    LeaseAsked { session: u64, asked: Time },
    LeaseGranted { session: u64, asked: Time },
    StandbyBids { session: u64, lasts: Duration },
    Restore { node: usize },
    PutBack { node: usize, later: Duration, is_known: bool },
    SwapExtents { node: usize, is_old: bool },
    PowerOut { node: usize, down: Duration },
    SyncsRecover { node: usize },
    StoreProgress { node: usize },
    RotBehind { times: u32 },
    RotUnread { node: usize, times: u32, lasts: Option<Duration> },
    MapRots { node: usize, away: Duration, until: Time },
    RestoreMap { lasts: Duration },
    RecoverMap { session: u64 },
    RotateKey { session: u64 },
    Watch,
}

#[derive(Debug, PartialEq, Eq)]
struct Scheduled {
    at: Time,
    order: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Shared state: time, random numbers, and the record of events.
#[derive(Debug)]
struct Ctx {
    now: Time,
    order: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    rng: SmallRng,
    trace: Trace,
    totals: Totals,
    violation: Option<String>,
}

impl Ctx {
    fn at(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Scheduled { at: at.max(self.now), order: self.order, event }));
    }

    fn after(&mut self, nanos: u64, event: Event) {
        self.at(self.now + Duration::from_nanos(nanos), event);
    }

    fn trace(&mut self, what: What) {
        self.trace.push(self.now, what);
    }

    /// Something is wrong; the first such thing counts.
    fn fail(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }
}

/// Counts of a run, to verify that things happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events of the queue.
    pub events: u64,
    /// Requests, by the operation's number on the wire.
    pub requests: [u64; 7],
    /// Requests that were answered.
    pub answers: u64,
    /// Bytes that maps showed as holes.
    pub hole_bytes: u64,
    /// Bytes that maps showed as data.
    pub mapped_data_bytes: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Operations of stores.
    pub store_ops: u64,
    /// Batches sent.
    pub batches: u64,
    /// Those of them that were to be answered together.
    pub together: u64,
    /// Those where batches clock themselves: frames were dear then, and all links of the node counted as one.
    pub together_by_choice: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Pieces sent again.
    pub resent: u64,
    /// Requests that were followed to their end.
    pub samples: u64,
    /// Those of them that went to a node and back.
    pub sampled_ways: u64,
    /// Those that were begun and dropped.
    pub samples_dropped: u64,
    /// Attempts at links.
    pub connects: u64,
    /// Copies of chunks that were declared behind.
    pub evicted_copies: u64,
    /// Times that copies of a chunk were made current again.
    pub resynced: u64,
    /// Copies that were moved to other nodes.
    pub moved: u64,
    /// Slots without a copy in which data was found.
    pub orphans: u64,
    /// Nodes that were added and are used at the end.
    pub joined: u64,
    /// Nodes that were removed.
    pub removed: u64,
    /// Chunks that volumes have grown by.
    pub grown: u64,
    /// How often volumes were made smaller.
    pub shrunk: u64,
    /// Changes in whose middle somebody was killed: by [`Change`] and [`Victim`].
    pub changes: [[Killed; 4]; 6],
    /// Slots that they left, whose bytes were given back.
    pub freed: u64,
    /// Chunks whose copies were compared.
    pub compared: u64,
    /// Reads whose answer waited for changes.
    pub held_answers: u64,
    /// Chunks of which a copy that was behind became current, as somebody accepted the loss.
    pub accepted: u64,
    /// Blocks that did not match their checksums and were written again.
    pub mended: u64,
    /// Blocks that were lost, and marked so on copies that became current.
    pub marked: u64,
    /// Blocks that nodes wrote again, as the flash had other bytes than the page cache.
    pub rewritten: u64,
    /// Scrubs that went through all of a volume or of a node's copies.
    pub scrubs: u64,
    /// Blocks that scrubs found not to match.
    pub scrub_corrupt: u64,
    /// Blocks that were found to differ between copies though each matches.
    pub scrub_differing: u64,
    /// Hedged reads: late ones that were sent to a second copy as well.
    pub hedged: u64,
    /// Those of them that the second copy answered first.
    pub hedges_first: u64,
    /// Maps in a store that an adversary has forged.
    pub forged_maps: u64,
    /// Writes to links that were damaged.
    pub corruptions: u64,
    /// Faults by kind, see [`Fault::kind`].
    pub faults: FaultCounts,
    /// Virtual time, in nanoseconds.
    pub virtual_ns: u64,
}

impl Totals {
    /// Adds another run's.
    pub fn add(&mut self, other: &Totals) {
        let pairs = [
            (&mut self.events, other.events),
            (&mut self.hole_bytes, other.hole_bytes),
            (&mut self.mapped_data_bytes, other.mapped_data_bytes),
            (&mut self.answers, other.answers),
            (&mut self.errors, other.errors),
            (&mut self.store_ops, other.store_ops),
            (&mut self.batches, other.batches),
            (&mut self.together, other.together),
            (&mut self.together_by_choice, other.together_by_choice),
            (&mut self.pieces, other.pieces),
            (&mut self.resent, other.resent),
            (&mut self.samples, other.samples),
            (&mut self.sampled_ways, other.sampled_ways),
            (&mut self.samples_dropped, other.samples_dropped),
            (&mut self.connects, other.connects),
            (&mut self.evicted_copies, other.evicted_copies),
            (&mut self.resynced, other.resynced),
            (&mut self.moved, other.moved),
            (&mut self.freed, other.freed),
            (&mut self.orphans, other.orphans),
            (&mut self.joined, other.joined),
            (&mut self.removed, other.removed),
            (&mut self.grown, other.grown),
            (&mut self.shrunk, other.shrunk),
            (&mut self.compared, other.compared),
            (&mut self.held_answers, other.held_answers),
            (&mut self.forged_maps, other.forged_maps),
            (&mut self.accepted, other.accepted),
            (&mut self.mended, other.mended),
            (&mut self.rewritten, other.rewritten),
            (&mut self.marked, other.marked),
            (&mut self.scrubs, other.scrubs),
            (&mut self.scrub_corrupt, other.scrub_corrupt),
            (&mut self.scrub_differing, other.scrub_differing),
            (&mut self.hedged, other.hedged),
            (&mut self.hedges_first, other.hedges_first),
            (&mut self.corruptions, other.corruptions),
            (&mut self.virtual_ns, other.virtual_ns),
        ];
        pairs.into_iter().for_each(|(sum, n)| *sum += n);
        self.requests.iter_mut().zip(other.requests).for_each(|(sum, n)| *sum += n);
        self.faults.iter_mut().zip(other.faults.0).for_each(|(sum, n)| *sum += n);
        for (sum, n) in self.changes.iter_mut().flatten().zip(other.changes.into_iter().flatten()) {
            sum.ended += n.ended;
            sum.forgotten += n.forgotten;
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The violation, in one sentence.
    pub violation: Option<String>,
    /// Equal for runs in which the same happened.
    pub trace_hash: u64,
    /// The last events, for a failure.
    pub last_events: Vec<String>,
    /// Its counts.
    pub totals: Totals,
    /// If asked for: client and nanoseconds of each request that succeeded, in the order of answers.
    pub latencies: Vec<(usize, u64)>,
    /// If asked for: what clients saw.
    pub history: Vec<Step>,
}

/// Runs a scenario. With `tell`, every event is printed.
#[must_use]
pub fn run(scenario: Scenario, tell: bool) -> Outcome {
    let mut world = World::new(scenario, tell);
    world.run();
    world.finish();
    world.outcome()
}

#[derive(Debug)]
struct World {
    scenario: Scenario,
    ctx: Ctx,
    net: Net,
    nodes: Vec<NodeLoop>,
    gateway: GatewayLoop,
    /// The gateway that was in charge before, while it runs.
    former: Option<GatewayLoop>,
    /// Connections of clients to gateways that are not in charge any more.
    of_former: BTreeSet<ConnId>,
    partition: second::Partition,
    leases: lease::Leases,
    clients: Vec<Client>,
    oracle: Oracle,
    size_bytes: u64,
    /// What it has had, and since when.
    sizes: Vec<(Time, u64)>,
    /// How it was to be made smaller.
    shrinks: Vec<shrink::Attempt>,
    disturbed_until: Vec<Option<Time>>,
    /// When the last effect of the faults so far is over.
    calm_at: Time,
    /// Connections of clients whose end the gateway knows.
    gone: BTreeSet<ConnId>,
    latencies: Vec<(usize, u64)>,
    history: history::History,
    /// The number of the last sample of this gateway that was looked at.
    samples_seen: u64,
    map: mapped::MapDisk,
    signed_map: forged::SignedMap,
    old_map: mirror::OldMap,
    stolen_key: stolen::StolenKey,
    dark: Option<blackout::Dark>,
    behind: Option<accepted::Behind>,
    map_trouble: map_trouble::MapTrouble,
    /// What the shell keeps of scrubs, and for which news.
    scrub_kept: (u64, flashmob_core::gateway::ScrubKept),
    /// Nodes that were drained, or are no longer, since decisions were last handed over.
    wished: BTreeSet<u16>,
    /// Nodes whose own data may be overwritten.
    overwritten: BTreeSet<usize>,
    watched: killed::Watch,
    /// Rounds of the watch in which more chunks were open than may be.
    surplus_rounds: u32,
    /// Blocks of the volume of which the only current copy rotted: their first bytes.
    struck: BTreeSet<u64>,
    /// Blocks that rotted on one copy before anybody had read them.
    unread: BTreeSet<u64>,
    flushed: flushed::Flushed,
    enough: min_current::Enough,
    /// When the gateway last served nothing, as the end of its map was dropped.
    waited_at: Option<Time>,
    /// No faults happen any more.
    is_healed: bool,
}

impl World {
    fn new(scenario: Scenario, tell: bool) -> World {
        let nodes = scenario.extents_bytes.len();
        let (owners, size_bytes) = match scenario.new_map() {
            // The oracle knows nothing of copies, but which bytes lose power together.
            Some(image) => (
                (0..image.chunks() + scenario.growth())
                    .map(|c| (u64::from(c) * image.chunk_bytes(), c as usize))
                    .collect(),
                image.size_bytes(),
            ),
            None => stretches(scenario.volume.layout, &scenario.extents_bytes),
        };
        let most_bytes = size_bytes + scenario.growth_bytes();
        let mut oracle =
            Oracle::new((size_bytes, most_bytes), owners, scenario.clients.len(), scenario.copies.is_some());
        if accepted::Behind::new(&scenario).is_some() {
            oracle.keep_all();
        }
        let mut world = World {
            ctx: Ctx {
                now: Time::default(),
                order: 0,
                queue: BinaryHeap::new(),
                rng: SmallRng::seed_from_u64(scenario.seed),
                trace: Trace::new(tell),
                totals: Totals::default(),
                violation: None,
            },
            net: Net {
                damage: vec![net::Damage::default(); nodes],
                traps: vec![None; nodes],
                late: vec![Time::default(); nodes],
                ..Net::default()
            },
            nodes: Vec::new(),
            gateway: GatewayLoop::default(),
            former: None,
            of_former: BTreeSet::new(),
            partition: second::Partition::new(nodes),
            leases: lease::Leases::new(scenario.seed),
            clients: scenario.clients.iter().cloned().map(Client::new).collect(),
            oracle,
            size_bytes,
            sizes: vec![(Time::default(), size_bytes)],
            shrinks: Vec::new(),
            disturbed_until: vec![None; nodes],
            calm_at: Time::default(),
            gone: BTreeSet::new(),
            latencies: Vec::new(),
            history: history::History::default(),
            samples_seen: 0,
            map: mapped::MapDisk::default(),
            signed_map: forged::SignedMap::new(scenario.seed),
            old_map: mirror::OldMap::default(),
            stolen_key: stolen::StolenKey::default(),
            dark: blackout::Dark::new(&scenario),
            behind: accepted::Behind::new(&scenario),
            map_trouble: map_trouble::MapTrouble::default(),
            scrub_kept: Default::default(),
            wished: BTreeSet::new(),
            overwritten: BTreeSet::new(),
            watched: killed::Watch::default(),
            surplus_rounds: 0,
            struck: BTreeSet::new(),
            unread: BTreeSet::new(),
            flushed: flushed::Flushed::default(),
            enough: min_current::Enough::default(),
            waited_at: None,
            is_healed: false,
            scenario,
        };
        for n in 0..nodes {
            let mut content = vec![0; world.scenario.extents_bytes[n] as usize];
            let runs = if world.scenario.copies.is_some() { Vec::new() } else { world.runs_of(n) };
            for (at, extent_at, len) in runs {
                for i in 0..len {
                    content[(extent_at + i) as usize] = pattern(0, at + i);
                }
            }
            world.nodes.push(NodeLoop::new(n, content, &world.scenario));
        }
        world.make_map();
        world.fill_spares();
        world
    }

    /// A node's stretches of the volume: first byte of the volume, first byte of the extent, length. The
    /// simulator's own arithmetic: a node's stretches fill its extent in the order of the volume.
    fn runs_of(&self, node: usize) -> Vec<(u64, u64, u64)> {
        let mut extent_at = 0;
        let mut runs = Vec::new();
        for (start, end) in self.oracle.stretches(node) {
            runs.push((start, extent_at, end - start));
            extent_at += end - start;
        }
        runs
    }

    /// Turns a changed run of an extent into runs of the volume.
    fn to_volume(&self, node: usize, changed: store::Changed) -> Vec<store::Changed> {
        let (at, before, after) = changed;
        let end = at + before.len() as u64;
        let mut runs = Vec::new();
        for (volume_at, extent_at, len) in self.runs_of(node) {
            let (from, to) = (at.max(extent_at), end.min(extent_at + len));
            if from < to {
                let range = (from - at) as usize..(to - at) as usize;
                runs.push((volume_at + from - extent_at, before[range.clone()].to_vec(), after[range].to_vec()));
            }
        }
        runs
    }

    fn run(&mut self) {
        for n in 0..self.nodes.len() {
            self.start_node(n, 0);
        }
        self.start_gateway();
        for c in 0..self.clients.len() {
            self.wake_client(c);
        }
        for (i, &(at, _)) in self.scenario.faults.iter().enumerate() {
            let order = self.ctx.order + 1 + i as u64;
            self.ctx.queue.push(Reverse(Scheduled { at: Time::default() + at, order, event: Event::Fault(i) }));
        }
        self.ctx.order += self.scenario.faults.len() as u64;
        self.ctx.after(0, Event::Watch);
        // The loss of power behind a lie may come later than all else.
        let last = self.scenario.faults.iter().map(|(at, _)| *at).max().unwrap_or_default();
        let end = Time::default() + self.scenario.span.max(last);
        self.run_until(|w| w.ctx.now >= end && w.clients.iter().all(|c| c.left == 0), Duration::from_secs(30));
    }

    /// Lets things happen until `is_over`, which is asked now and then, or for so long. Returns whether it became so.
    fn run_until(&mut self, is_over: impl Fn(&World) -> bool, at_most: Duration) -> bool {
        let end = self.ctx.now + at_most;
        let mut checked = self.ctx.now;
        if is_over(self) {
            return true;
        }
        while self.ctx.violation.is_none() {
            let Some(Reverse(next)) = self.ctx.queue.pop() else { break };
            self.ctx.now = next.at;
            self.ctx.totals.events += 1;
            if self.ctx.totals.events > EVENTS_MAX {
                self.ctx.fail(format!("more than {EVENTS_MAX} events: something spins"));
            }
            if self.is_of_former(next.event) {
                self.with_former(|world| world.dispatch(next.event));
            } else {
                self.dispatch(next.event);
            }
            if self.ctx.now.nanos_since(checked) > 5_000_000 {
                checked = self.ctx.now;
                if is_over(self) {
                    return true;
                }
                if self.ctx.now > end {
                    return false;
                }
            }
        }
        false
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Arrive { conn, from } => {
                if self.net.arrive(&mut self.ctx, conn, from) {
                    self.conn_event(conn, 1 - from, false);
                }
            }
            Event::SeeClose { conn, side } => {
                if std::mem::replace(&mut self.net.conns[conn].open[side], false) {
                    self.conn_event(conn, side, true);
                }
            }
            Event::Ready { conn, side } => {
                if self.net.conns[conn].open[side] {
                    self.conn_event(conn, side, false);
                }
            }
            Event::Connect { link, node, attempt, session } => self.connect_arrives(link, node, attempt, session),
            Event::NodeTurn { node } => self.node_turn(node),
            Event::NodeTimer { node } => {
                self.nodes[node].has_timer = false;
                self.wake_node(node);
            }
            Event::StartNode { node, epoch } => self.start_node(node, epoch),
            Event::MirrorDone { node, epoch } => self.mirror_op_done(node, epoch),
            Event::StoreDone { node, epoch, slot } => self.node_store_done(node, epoch, slot),
            Event::GatewayTurn { session } => self.gateway_turn(session),
            Event::GatewayTimer { session } => {
                if self.gateway.session == session {
                    self.wake_gateway();
                }
            }
            Event::StartGateway => self.start_gateway(),
            Event::ClientTurn { client } => self.client_turn(client),
            Event::Fault(i) => {
                let (_, fault) = self.scenario.faults[i];
                self.ctx.trace(What::Struck(fault));
                self.strike(fault);
            }
            Event::HalfOpen { conn, until } => self.half_open(conn, until),
            Event::Announce { node, is_elsewhere } => self.announce(node, is_elsewhere),
            Event::CopiesDisappear => self.copies_disappear(),
            Event::Committed { session } => self.committed(session),
            Event::MapDirectoryFlushed { session } => self.map_directory_flushed(session),
            Event::AcceptLoss { node } => self.accept_loss(node),
            Event::Replace { node } => self.replace(node),
            Event::Pause { node, lasts } => self.pause(node, lasts),
            Event::Resume { node } => self.resume(node),
            Event::EndDrain { node } => self.end_drain(node),
            Event::KillInMove { session, lasts } => self.killed_in_move(session, lasts),
            Event::KillGateway => {
                let lasts = Duration::from_micros(self.ctx.rng.random_range(100..20_000));
                self.restart_gateway(lasts);
            }
            Event::KillFormer => self.kill_former(),
            Event::AskLease { session } => self.ask_lease(session),
            Event::ClaimShown { session, node } => self.claim_shown(session, node),
            Event::LeaseAsked { session, asked } => self.lease_asked(session, asked),
            Event::LeaseGranted { session, asked } => self.lease_granted(session, asked),
            Event::StandbyBids { session, lasts } => self.standby_bids(session, lasts),
            Event::Restore { node } => self.restore(node),
            Event::PutBack { node, later, is_known } => self.put_back(node, later, is_known),
            Event::PowerOut { node, down } => self.stop_node(node, down, Stop::PowerLost),
            Event::SwapExtents { node, is_old } => self.swap_extents(node, is_old),
            Event::SyncsRecover { node } => self.syncs_recover(node),
            Event::RestoreMap { lasts } => self.restore_map(lasts),
            Event::RecoverMap { session } => self.end_old_map(session),
            Event::RotateKey { session } => self.rotate_key(session),
            Event::MapRots { node, away, until } => self.map_rots_later(node, away, until),
            Event::RotBehind { times } => self.rot_behind(times),
            Event::RotUnread { node, times, lasts } => self.rot_unread(node, times, lasts),
            Event::StoreProgress { node } => self.store_progresses(node),
            Event::Watch => {
                self.watch();
                self.ctx.after(WATCH_INTERVAL.as_nanos() as u64, Event::Watch);
            }
        }
        self.watch_slots();
        let (now, order) = (self.ctx.now.as_nanos(), self.ctx.order);
        self.ctx.trace.mix(now ^ order << 40);
    }

    fn conn_event(&mut self, conn: ConnId, side: usize, is_closed: bool) {
        match (self.net.conns[conn].kind, side) {
            (ConnKind::Client(c), 0) => self.client_conn_event(c, conn, is_closed),
            (ConnKind::Client(_), _) | (ConnKind::Link { .. }, 0) => self.gateway_conn_event(conn, is_closed),
            (ConnKind::Link { node, .. }, _) => self.node_conn_event(node, conn, is_closed),
        }
    }

    fn outcome(mut self) -> Outcome {
        let history = self.take_history();
        let mut totals = self.ctx.totals;
        totals.virtual_ns = self.ctx.now.as_nanos();
        Outcome {
            seed: self.scenario.seed,
            last_events: if self.ctx.violation.is_some() { self.ctx.trace.last() } else { Vec::new() },
            violation: self.ctx.violation,
            trace_hash: self.ctx.trace.hash,
            totals,
            latencies: self.latencies,
            history,
        }
    }
}

/// The first byte and the node of each stretch of the volume, and its size: a second opinion on
/// [`flashmob_core::layout`], by going through the stripes one by one.
fn stretches(layout: LayoutKind, extents_bytes: &[u64]) -> (Vec<(u64, usize)>, u64) {
    let mut at = 0;
    let mut found: Vec<(u64, usize)> = Vec::new();
    match layout {
        LayoutKind::Linear => {
            for (node, &size) in extents_bytes.iter().enumerate() {
                found.push((at, node));
                at += size;
            }
        }
        LayoutKind::Mapped { .. } => {}
        LayoutKind::Striped { stripe_bytes } => {
            let mut order: Vec<usize> = (0..extents_bytes.len()).collect();
            order.sort_by_key(|&node| Reverse(extents_bytes[node] / stripe_bytes));
            let rows = extents_bytes.iter().map(|size| size / stripe_bytes).max().unwrap_or(0);
            for row in 0..rows {
                for &node in order.iter().filter(|&&node| row < extents_bytes[node] / stripe_bytes) {
                    if found.last().is_none_or(|&(_, last)| last != node) {
                        found.push((at, node));
                    }
                    at += stripe_bytes;
                }
            }
        }
    }
    (found, at)
}
