//! Faults: their kinds, their times, and their effects on the world.
//!
//! A fault also leaves a note of which nodes it disturbs and for how long: errors of requests that touch no such
//! node are bugs.

use std::time::Duration;

use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use super::hot_backup::Parts;
use super::net::{ConnId, ConnKind, Damage};
use super::remount::Stop;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// One fault. Times count from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// A connection to the node breaks.
    Cut(usize),
    /// A connection to the node is closed for the gateway; the node learns of it, and gets the last bytes, only then.
    HalfOpen(usize, Duration),
    /// Nothing comes through on a connection, in one direction or both; then everything does.
    Stall(usize, Duration),
    /// The node's process stands still.
    Freeze(usize, Duration),
    /// The store's operations take that long.
    StoreStall(usize, Duration),
    /// Operations of the store fail now and then.
    StoreErrors(usize, Duration),
    /// The process is killed and started again.
    Kill(usize, Duration),
    /// The device loses power and starts again.
    PowerLoss(usize, Duration),
    /// The device disappears for good.
    Death(usize),
    /// Bytes on the node's links are damaged.
    Damage(usize, Duration),
    /// The gateway is killed and started again.
    GatewayRestart(Duration),
    /// A client's connection breaks.
    ClientCut(usize),
    /// The device dozes: nothing comes through to it or from it, and its process stands still; connections survive. Now and then
    /// it announces itself when it is back.
    Doze(usize, Duration),
    /// A second device with a copy of the node's bytes appears at its address, and a link breaks: attempts reach one or the other.
    Copy(usize, Duration),
    /// A connection to the node breaks, and what the node sends on the one that follows comes through only so much later.
    LateWelcome(usize, Duration),
    /// The device loses its flash; so much later its node has an empty extent, which somebody puts in the place of the old one. Of volumes with
    /// copies.
    Replace(usize, Duration),
    /// So many times a bit flips on the node's flash. Of volumes with copies, which have checksums.
    Rot(usize, u32),
    /// The device is switched off, and its flash copied; so much later that copy takes the place of what is there. Of volumes with copies.
    Restore(usize, Duration),
    /// These nodes, one bit each, lose power within the second time, and are back one by one before the first is over. Of volumes with copies.
    Blackout(u64, Duration, Duration),
    /// The node's process ends; so much later it is started with an empty file, which somebody puts in the place of the old one. Of volumes with
    /// copies.
    Swap(usize, Duration),
    /// The disk under the map is full. Of volumes with copies.
    MapFull(Duration),
    /// The disk under the map takes seconds for each append. Of volumes with copies.
    MapSlow(Duration),
    /// The gateway's loop stands still.
    GatewayStall(Duration),
    /// The node's flash confirms flushes and does not do them. Of volumes with copies.
    Lie(usize, Duration),
    /// A second gateway takes over while the first runs, for so much longer. Of volumes with copies.
    SecondGateway(Duration),
    /// So many times a bit flips on the node's flash, under a page that is right. Of volumes with copies.
    ColdRot(usize, u32),
    /// A write lands at the wrong place of the node's flash. Of volumes with copies.
    Misdirect(usize),
    /// Somebody wants the volume scrubbed. Of volumes with copies.
    Scrub,
    /// The node's syncs fail, and what they did not write counts as written; so much later its process is started again.
    FailedSyncs(usize, Duration),
    /// Flushes that the node begins within this time end after it; its store makes progress with them.
    SlowFlush(usize, Duration),
    /// The same without progress.
    StuckFlush(usize, Duration),
    /// The gateway is killed and its disk lost; so much later it is started with a map that was recovered from its nodes. Of volumes with copies.
    LoseMap(Duration),
    /// The map is backed up. After the first time the gateway is started with this older state of its map, and after the second with a map that
    /// was recovered from its nodes. Of volumes with copies.
    OldMap(Duration, Duration),
    /// Somebody takes charge with a stolen key; so much later the key is rotated, and the map recovered with the next one. Of volumes with copies.
    StolenKey(Duration),
    /// Somebody pauses the node, and has it used again so much later. Of volumes with copies.
    Pause(usize, Duration),
    /// Somebody measures the node's flash, or else its way. Of volumes with copies.
    Measure(usize, bool),
    /// Somebody has the node drained, and perhaps no longer so much later. Of volumes with copies.
    Drain(usize, Duration),
    /// Somebody has the volume balanced. Of volumes with copies.
    Balance,
    /// Somebody adds a node, whose data may be overwritten or not. Of volumes with copies.
    Join(bool),
    /// Somebody removes the node, if it has no copies. Of volumes with copies.
    Remove(usize),
    /// Somebody gives the volume so many chunks more, if there is room. Of volumes with copies.
    Grow(u32),
    /// So many chunks are to be cut off, with what they hold or only if they hold nothing. Of volumes with copies.
    Shrink(u32, bool),
    /// The gateway cannot renew its lease; the standby takes over when it is over, and the former gateway is gone so much later. Of volumes with
    /// copies.
    Standby(Duration),
    /// The store of leases and of the map is away. Of volumes with copies.
    StoreAway(Duration),
    /// The node's process is killed, its file system mounted anew without what was only in memory, and the process started again.
    Remount(usize, Duration),
    /// The node's process ends in order, and is started again.
    End(usize, Duration),
    /// The node's records of itself cannot be written: its identity, its mirror. Of volumes with copies.
    RecordsFail(usize, Duration),
    /// A bit flips, so many times, in a block of a copy that is the only current one of its chunk, while another is behind. Of volumes with copies.
    RotBehind(u32),
    /// The node's process ends for so long, or for good, and somebody accepts the loss of what it alone has. Of volumes with copies.
    LastCopy(usize, Duration),
    /// These of the node's files are copied while it runs; so much later than they are known to be older, its process ends, and they are put back. Of
    /// volumes with copies.
    HotBackup(usize, Parts, Duration),
    /// The node's process is killed, for so long at most. The gateway is killed once its map's last batch says that the node lacks something, or at
    /// once; that batch is damaged; and the nodes that may know it are away for so long. Of volumes with copies.
    MapRot(usize, Duration, Option<Duration>),
    /// Somebody has the node's copies made equal to others. Of volumes with copies.
    Resync(usize),
    /// A bit flips, so many times, in a block of a copy that is not on the node, while the node has one of the same. Nobody has read it yet
    /// when the node is paused for so long, or its copies are made equal to others. Of volumes with copies.
    Latent(usize, u32, Option<Duration>),
}

/// How many kinds of faults there are.
pub const FAULT_KINDS: usize = 53;

/// How many there were of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultCounts(pub [u64; FAULT_KINDS]);

impl Default for FaultCounts {
    fn default() -> FaultCounts {
        FaultCounts([0; FAULT_KINDS])
    }
}

impl std::ops::Deref for FaultCounts {
    type Target = [u64; FAULT_KINDS];

    fn deref(&self) -> &[u64; FAULT_KINDS] {
        &self.0
    }
}

impl std::ops::DerefMut for FaultCounts {
    fn deref_mut(&mut self) -> &mut [u64; FAULT_KINDS] {
        &mut self.0
    }
}

impl Fault {
    /// The names of all kinds.
    pub const KINDS: [&str; FAULT_KINDS] = [
        "cut",
        "half-open",
        "stall",
        "freeze",
        "store stall",
        "store errors",
        "kill",
        "power loss",
        "death",
        "damage",
        "gateway restart",
        "client cut",
        "doze",
        "copy",
        "late welcome",
        "replace",
        "rot",
        "restore",
        "blackout",
        "swap",
        "full map",
        "slow map",
        "gateway stall",
        "lie",
        "second gateway",
        "cold rot",
        "misdirected write",
        "scrub",
        "failed syncs",
        "slow flush",
        "stuck flush",
        "lost map",
        "old map",
        "stolen key",
        "pause",
        "measure",
        "drain",
        "balance",
        "join",
        "remove",
        "grow",
        "standby",
        "store-away",
        "shrink",
        "remount",
        "end in order",
        "records fail",
        "rot behind",
        "last copy",
        "hot backup",
        "map rot",
        "resync",
        "latent rot",
    ];

    /// Its kind, as a place in [`Fault::KINDS`].
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Fault::Cut(_) => 0,
            Fault::HalfOpen(..) => 1,
            Fault::Stall(..) => 2,
            Fault::Freeze(..) => 3,
            Fault::StoreStall(..) => 4,
            Fault::StoreErrors(..) => 5,
            Fault::Kill(..) => 6,
            Fault::PowerLoss(..) => 7,
            Fault::Death(_) => 8,
            Fault::Damage(..) => 9,
            Fault::GatewayRestart(_) => 10,
            Fault::ClientCut(_) => 11,
            Fault::Doze(..) => 12,
            Fault::Copy(..) => 13,
            Fault::LateWelcome(..) => 14,
            Fault::Replace(..) => 15,
            Fault::Rot(..) => 16,
            Fault::Restore(..) => 17,
            Fault::Blackout(..) => 18,
            Fault::Swap(..) => 19,
            Fault::MapFull(_) => 20,
            Fault::MapSlow(_) => 21,
            Fault::GatewayStall(_) => 22,
            Fault::Lie(..) => 23,
            Fault::SecondGateway(_) => 24,
            Fault::ColdRot(..) => 25,
            Fault::Misdirect(_) => 26,
            Fault::Scrub => 27,
            Fault::FailedSyncs(..) => 28,
            Fault::SlowFlush(..) => 29,
            Fault::StuckFlush(..) => 30,
            Fault::LoseMap(_) => 31,
            Fault::OldMap(..) => 32,
            Fault::StolenKey(_) => 33,
            Fault::Pause(..) => 34,
            Fault::Measure(..) => 35,
            Fault::Drain(..) => 36,
            Fault::Balance => 37,
            Fault::Join(_) => 38,
            Fault::Remove(_) => 39,
            Fault::Grow(_) => 40,
            Fault::Standby(_) => 41,
            Fault::StoreAway(_) => 42,
            Fault::Shrink(..) => 43,
            Fault::Remount(..) => 44,
            Fault::End(..) => 45,
            Fault::RecordsFail(..) => 46,
            Fault::RotBehind(_) => 47,
            Fault::LastCopy(..) => 48,
            Fault::HotBackup(..) => 49,
            Fault::MapRot(..) => 50,
            Fault::Resync(_) => 51,
            Fault::Latent(..) => 52,
        }
    }

    /// Whether the gateway runs with another map for a while, or without its own.
    pub(super) fn is_of_other_maps(&self) -> bool {
        use Fault::{LoseMap, OldMap, SecondGateway, StolenKey};
        matches!(self, LoseMap(_) | OldMap(..) | SecondGateway(_) | StolenKey(_))
    }

    /// Whether a device may lose data by it.
    pub(super) fn loses_data(&self) -> bool {
        use Fault::{
            Blackout, ColdRot, Death, FailedSyncs, HotBackup, LastCopy, Lie, Misdirect, PowerLoss, Remount, Replace,
            Restore, Rot, StoreErrors, Swap,
        };
        matches!(
            self,
            ColdRot(..)
                | Misdirect(_)
                | HotBackup(..)
                | LastCopy(..)
                | PowerLoss(..)
                | Remount(..)
                | FailedSyncs(..)
                | Blackout(..)
                | Lie(..)
                | Death(_)
                | Replace(..)
                | Swap(..)
                | Restore(..)
                | Rot(..)
                | StoreErrors(..)
        )
    }
}

pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let nodes = scenario.extents_bytes.len();
    if rng.random_ratio(1, 8) {
        return;
    }
    if rng.random_ratio(1, 6) {
        scenario.slowness[rng.random_range(0..nodes)] = rng.random_range(2..20);
    }
    let enabled: Vec<u32> = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..100)).collect();
    let count = rng.random_range(1..10);
    let span_us = scenario.span.as_micros() as u64;
    let has_death = rng.random_ratio(1, 12);
    for _ in 0..count {
        let kind = enabled[rng.random_range(0..enabled.len())];
        let node = rng.random_range(0..nodes);
        let longest_us = *pick(rng, &[5_000, 100_000, 600_000, 4_000_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        let fault = match kind {
            0..16 => Fault::Cut(node),
            16..40 => Fault::HalfOpen(node, lasts),
            40..48 => Fault::Stall(node, lasts),
            48..54 => Fault::Freeze(node, lasts),
            54..58 => Fault::StoreStall(node, lasts),
            58..66 => Fault::StoreErrors(node, lasts),
            66..74 => Fault::Kill(node, lasts),
            74..88 => Fault::PowerLoss(node, lasts),
            88..93 => Fault::Damage(node, lasts),
            93..96 => Fault::GatewayRestart(lasts / 8),
            _ => Fault::ClientCut(rng.random_range(0..scenario.clients.len())),
        };
        scenario.faults.push((Duration::from_micros(rng.random_range(0..span_us)), fault));
    }
    if has_death && nodes > 1 {
        // A gateway that restarts cannot learn the size of a node that is gone.
        scenario.sizes_configured = true;
        let at = Duration::from_micros(rng.random_range(0..span_us));
        scenario.faults.push((at, Fault::Death(rng.random_range(0..nodes))));
    }
}

/// Draws whether devices doze, and when.
pub(super) fn draw_doze(rng: &mut SmallRng, scenario: &mut Scenario) {
    if scenario.faults.is_empty() || !rng.random_ratio(1, 6) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..3) {
        // Shorter than a request's timeout, as when a station roams, or much longer.
        let longest_us = *pick(rng, &[100_000, 3_000_000, 8_000_000]);
        let lasts = Duration::from_micros(rng.random_range(10_000..longest_us));
        let node = rng.random_range(0..scenario.extents_bytes.len());
        scenario.faults.push((Duration::from_micros(rng.random_range(0..span_us)), Fault::Doze(node, lasts)));
    }
}

/// Draws whether a copy of a device appears. There are no other faults then but slow flushes: a gateway without a link to a device accepts any device that shows its
/// extent, so a copy does no harm only while the device itself is there.
pub(super) fn draw_copy(rng: &mut SmallRng, scenario: &mut Scenario) {
    if !scenario.faults.is_empty() || scenario.local_nodes != 0 || !rng.random_ratio(1, 3) {
        return;
    }
    scenario.volume.links = scenario.volume.links.max(2);
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(span_us / 4..span_us * 3 / 4));
    let lasts = Duration::from_micros(rng.random_range(5_000..2_000_000));
    scenario.faults.push((at, Fault::Copy(rng.random_range(0..scenario.extents_bytes.len()), lasts)));
}

/// Draws whether a device loses power and is back while its welcome is under way: that of one start arrives after that of the next.
pub(super) fn draw_late_welcome(rng: &mut SmallRng, scenario: &mut Scenario) {
    if scenario.faults.is_empty() || !rng.random_ratio(1, 12) {
        return;
    }
    let volume = &mut scenario.volume;
    volume.links = volume.links.max(2);
    // Else the gateway rarely connects before the power is lost, or gives up before the welcome arrives.
    volume.reconnect_min = volume.reconnect_min.min(Duration::from_millis(5));
    volume.connect_timeout = volume.connect_timeout.max(Duration::from_millis(250));
    let span_us = scenario.span.as_micros() as u64;
    let node = rng.random_range(0..scenario.extents_bytes.len());
    let at = Duration::from_micros(rng.random_range(span_us / 4..span_us));
    let lasts_us = rng.random_range(100_000..200_000);
    scenario.faults.push((at, Fault::LateWelcome(node, Duration::from_micros(lasts_us))));
    let dies_after = Duration::from_micros(rng.random_range(10_000..40_000));
    let down = Duration::from_micros(rng.random_range(1_000..20_000));
    scenario.faults.push((at + dies_after, Fault::PowerLoss(node, down)));
}

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        // These count when they come about, if they do.
        self.ctx.totals.faults[fault.kind()] += u64::from(!matches!(
            fault,
            Fault::HotBackup(..)
                | Fault::OldMap(..)
                | Fault::StolenKey(_)
                | Fault::RotBehind(_)
                | Fault::MapRot(..)
                | Fault::Resync(_)
                | Fault::Latent(..)
        ));
        let now = self.ctx.now;
        match fault {
            Fault::Cut(node) => {
                self.disturb(node, now);
                if let Some(conn) = self.random_link(node) {
                    self.net.cut(&mut self.ctx, conn);
                }
            }
            Fault::HalfOpen(node, lasts) => {
                if self.ctx.rng.random_bool(0.7) {
                    self.net.traps[node] = Some(lasts);
                } else if let Some(conn) = self.random_link(node) {
                    self.half_open(conn, now + lasts);
                }
            }
            Fault::Stall(node, lasts) => {
                self.disturb(node, now + lasts);
                self.calm_at = self.calm_at.max(now + lasts);
                let directions = self.ctx.rng.random_range(1..4);
                if let Some(conn) = self.random_link(node) {
                    for from in (0..2).filter(|d| directions & (1 << d) != 0) {
                        self.net.stall(&mut self.ctx, conn, from, now + lasts);
                    }
                }
            }
            Fault::Freeze(node, lasts) => {
                self.disturb(node, now + lasts);
                let until = &mut self.nodes[node].frozen_until;
                *until = (*until).max(now + lasts);
            }
            Fault::StoreStall(node, lasts) => {
                self.disturb(node, now + lasts);
                self.nodes[node].store.stalled_until = now + lasts;
            }
            Fault::StoreErrors(node, lasts) => {
                self.disturb(node, now + lasts + self.scenario.volume.timeout);
                self.nodes[node].store.ill_until = now + lasts;
            }
            Fault::Kill(node, lasts) => self.stop_node(node, lasts, Stop::Killed),
            Fault::End(node, lasts) => self.stop_node(node, lasts, Stop::InOrder),
            Fault::Remount(node, lasts) => {
                self.calm_at = self.calm_at.max(now + lasts);
                self.stop_node(node, lasts, Stop::Remounted);
            }
            Fault::PowerLoss(node, lasts) => {
                // The gateway may learn of it only then, even if the device is back earlier.
                self.calm_at = self.calm_at.max(now + lasts);
                self.stop_node(node, lasts, Stop::PowerLost);
            }
            Fault::Death(node) => {
                self.stop_node(node, Duration::from_secs(1_000_000), Stop::PowerLost);
                self.nodes[node].is_dead = true;
            }
            Fault::Damage(node, lasts) => {
                self.disturb(node, now + lasts + self.scenario.volume.timeout);
                self.net.damage[node] = Damage { until: now + lasts, rate: 0.2 };
            }
            Fault::GatewayRestart(lasts) => self.restart_gateway(lasts),
            Fault::Doze(node, lasts) => {
                let until = now + lasts;
                self.disturb(node, until);
                self.calm_at = self.calm_at.max(until);
                let asleep = &mut self.nodes[node];
                asleep.frozen_until = asleep.frozen_until.max(until);
                asleep.away_until = asleep.away_until.max(until);
                let links: Vec<ConnId> = self.net.open_links(node).collect();
                for conn in links {
                    (0..2).for_each(|from| self.net.stall(&mut self.ctx, conn, from, until));
                }
                if self.ctx.rng.random_bool(0.5) {
                    let is_elsewhere = self.ctx.rng.random();
                    self.ctx.at(until, Event::Announce { node, is_elsewhere });
                }
            }
            Fault::Copy(node, lasts) => self.copy_appears(node, lasts),
            Fault::LateWelcome(node, lasts) => {
                self.disturb(node, now + lasts);
                self.calm_at = self.calm_at.max(now + lasts);
                self.net.late[node] = now + lasts;
                if let Some(conn) = self.random_link(node) {
                    self.net.cut(&mut self.ctx, conn);
                }
            }
            Fault::MapFull(lasts) => self.map_suffers(true, lasts),
            Fault::MapSlow(lasts) => self.map_suffers(false, lasts),
            Fault::GatewayStall(lasts) => self.gateway_stalls(lasts),
            Fault::Lie(node, lasts) => self.nodes[node].store.lies_until = now + lasts,
            Fault::Replace(node, lasts) => self.lose_flash(node, lasts, false),
            Fault::Swap(node, lasts) => self.lose_flash(node, lasts, true),
            Fault::Blackout(struck, lasts, apart) => self.black_out(struck, lasts, apart),
            Fault::Restore(node, lasts) => self.back_up(node, lasts),
            Fault::LoseMap(lasts) => self.lose_map(lasts),
            Fault::OldMap(after, lasts) => self.back_up_map(after, lasts),
            Fault::StolenKey(lasts) => self.steal_key(lasts),
            Fault::Pause(node, lasts) => self.pause(node, lasts),
            Fault::Measure(node, is_flash) => self.measure(node, is_flash),
            Fault::Resync(node) => self.resync(node),
            Fault::Latent(node, times, lasts) => self.rot_unread(node, times, lasts),
            Fault::Drain(node, lasts) => self.drain(node, lasts),
            Fault::Balance => self.balance(),
            Fault::Join(overwrites) => self.join(overwrites),
            Fault::Remove(node) => self.remove(node),
            Fault::Grow(chunks) => self.grow(chunks),
            Fault::Shrink(chunks, gives_up) => self.shrink(chunks, gives_up),
            Fault::Standby(lasts) => self.await_standby(lasts),
            Fault::StoreAway(lasts) => self.store_goes(lasts),
            Fault::RecordsFail(node, lasts) => self.records_fail(node, lasts),
            Fault::HotBackup(node, parts, later) => self.back_up_hot(node, parts, later),
            Fault::MapRot(node, away, lasts) => self.map_rots(node, away, lasts),
            Fault::LastCopy(node, away) => self.last_copy_dies(node, away),
            Fault::SecondGateway(lasts) => self.take_over(lasts),
            Fault::ColdRot(node, times) => {
                (0..times).for_each(|_| self.nodes[node].store.rot_cold(&mut self.ctx.rng));
            }
            // Free slots may get what they were looked through for, and chunks that hold data may seem to be holes: of that nodes know nothing.
            Fault::Misdirect(_) if self.scenario.growth() > 0 => {}
            Fault::Misdirect(node) => self.nodes[node].store.misdirect(&mut self.ctx.rng),
            Fault::Scrub => self.begin_scrub(),
            Fault::RotBehind(times) => self.rot_behind(times),
            Fault::FailedSyncs(node, lasts) => self.syncs_fail(node, lasts),
            Fault::SlowFlush(node, lasts) => self.flushes_are_slow(node, lasts, true),
            Fault::StuckFlush(node, lasts) => self.flushes_are_slow(node, lasts, false),
            // A hole takes no place on the flash. A free slot with a flipped bit would be taken for one that cannot be cleared.
            Fault::Rot(node, times) => {
                let in_holes = self.scenario.growth() == 0;
                (0..times).for_each(|_| self.nodes[node].store.rot(&mut self.ctx.rng, in_holes));
            }
            Fault::ClientCut(client) => {
                if let Some(conn) = self.clients[client].conn() {
                    self.net.cut(&mut self.ctx, conn);
                }
            }
        }
    }

    /// Closes a link for the gateway; the node learns of it at `until`.
    pub(super) fn half_open(&mut self, conn: ConnId, until: Time) {
        if let ConnKind::Link { node, .. } = self.net.conns[conn].kind {
            self.disturb(node, self.ctx.now);
            self.calm_at = self.calm_at.max(until);
            self.net.half_open(&mut self.ctx, conn, until);
        }
    }

    /// A link has ended. If it carried damaged bytes, the damage may show only now: a node whose frame seems longer than it is waits for
    /// the rest, however long the link was idle before.
    pub(super) fn damage_shows(&mut self, conn: ConnId) {
        if let (ConnKind::Link { node, .. }, true) = (self.net.conns[conn].kind, self.net.conns[conn].is_damaged) {
            self.disturb(node, self.ctx.now);
        }
    }

    /// Notes that a node is disturbed until some time.
    pub(super) fn disturb(&mut self, node: usize, until: Time) {
        let noted = &mut self.disturbed_until[node];
        *noted = Some(noted.map_or(until, |n| n.max(until)));
    }

    /// Whether requests that were asked for at that time and touch this node may fail or be late.
    pub(super) fn is_excused(&self, node: usize, asked: Time) -> bool {
        let volume = &self.scenario.volume;
        let recovery = volume.timeout + volume.reconnect_max + volume.connect_timeout * 2 + Duration::from_millis(500);
        let is_slow = self.scenario.slowness.get(node).is_some_and(|&slowness| slowness > 1);
        is_slow || self.disturbed_until[node].is_some_and(|until| until + recovery >= asked)
    }

    /// Ends all faults that last, but for deaths.
    pub(super) fn heal(&mut self) {
        let now = self.ctx.now;
        self.copies_disappear();
        self.map_recovers();
        self.records_recover();
        self.lies_end();
        self.stall_ends();
        self.is_healed = true;
        self.end_partition();
        self.leases_recover();
        self.old_extents_go();
        (0..self.nodes.len()).for_each(|node| self.resume(node));
        for n in 0..self.nodes.len() {
            self.nodes[n].store.ill_until = now;
            self.nodes[n].store.stalled_until = now;
            self.syncs_recover(n);
            self.net.damage[n].until = now;
            self.cut_damaged(n);
            self.net.traps[n] = None;
            self.net.late[n] = now;
            self.nodes[n].away_until = now;
            if self.nodes[n].frozen_until > now {
                self.nodes[n].frozen_until = now;
                // Its next turn is planned for the old end of the frost.
                self.ctx.at(now, Event::NodeTurn { node: n });
            }
            if !self.nodes[n].is_dead && self.nodes[n].core.is_none() {
                let epoch = self.nodes[n].epoch;
                self.ctx.at(now, Event::StartNode { node: n, epoch });
            }
        }
    }

    /// Cuts a node's links that have carried damaged bytes. An end may wait for the rest of a frame that seems longer than it is, and all that comes
    /// behind counts as a part of that.
    fn cut_damaged(&mut self, node: usize) {
        let links: Vec<ConnId> = self.net.open_links(node).filter(|&conn| self.net.conns[conn].is_damaged).collect();
        links.into_iter().for_each(|conn| self.net.cut(&mut self.ctx, conn));
    }

    pub(super) fn random_link(&mut self, node: usize) -> Option<ConnId> {
        let links: Vec<ConnId> = self.net.open_links(node).collect();
        (!links.is_empty()).then(|| links[self.ctx.rng.random_range(0..links.len())])
    }
}
