//! A stolen key: somebody takes charge of the volume with it, in the numbers of the largest epochs, until the gateway's key is rotated.
//!
//! The thief does nothing but that, and puts a false map on mirrors: what it could do to data, every gateway can. The promise is that it cannot keep
//! the gateway out. With the next key and a map that is recovered from its own, it is linked to all nodes again.

use std::time::Duration;

use flashmob_core::copies::{Record, Writer, encode_snapshot, replay, sign_part};
use flashmob_core::node::{ACCEPTED_MAX, LinkId, NodeEvent};
use flashmob_core::wire::generation::first_of;
use flashmob_core::wire::hello::{CHARGE_NUMBER_MAX, Charge, Hello};
use flashmob_core::wire::mirror::{MIRROR_FRAME_BYTES_MAX, MirrorState, PutMirror};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::trace::What;
use super::{Event, World};

/// The keys of gateways.
#[derive(Debug, Default)]
pub(super) struct StolenKey {
    /// The generation of the gateway's key.
    pub generation: u64,
    /// The thief has taken charge: nodes refuse the gateway.
    pub is_in_use: bool,
}

/// Draws whether a key is stolen. Not where the gateway or its map suffers otherwise, or other extents are there than the map has.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_its_way = |fault: &Fault| {
        use Fault::{
            Blackout, Copy, Death, GatewayRestart, GatewayStall, LoseMap, MapFull, MapSlow, OldMap, Replace, Restore,
            SecondGateway, Swap,
        };
        let is_of_map = matches!(fault, LoseMap(_) | MapFull(_) | MapSlow(_) | OldMap(..));
        let is_of_gateway = matches!(fault, GatewayRestart(_) | GatewayStall(_) | SecondGateway(_));
        let is_of_extents = matches!(fault, Blackout(..) | Copy(..) | Death(_) | Replace(..) | Restore(..) | Swap(..));
        is_of_map || is_of_gateway || is_of_extents
    };
    if !rng.random_ratio(3, 4) || scenario.faults.iter().any(|(_, fault)| is_in_its_way(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us));
    let lasts = Duration::from_micros(rng.random_range(1_000..500_000));
    scenario.faults.push((at, Fault::StolenKey(lasts)));
    if rng.random_bool(0.5) {
        // A node that was started again knows its mirror by the bytes alone.
        let node = rng.random_range(0..scenario.extents_bytes.len());
        let down = Duration::from_micros(rng.random_range(500..5_000));
        scenario.faults.push((at + lasts.mul_f64(rng.random_range(0.0..1.0)), Fault::Kill(node, down)));
    }
}

impl World {
    /// Somebody takes charge at some nodes.
    pub(super) fn steal_key(&mut self, lasts: Duration) {
        let nodes = 0..self.nodes.len();
        let struck: Vec<usize> =
            nodes.clone().filter(|&n| !self.scenario.is_local(n) && self.ctx.rng.random_bool(0.7)).collect();
        if self.gateway.core.is_none() || self.is_healed {
            return;
        }
        let number = |world: &mut World| {
            let limit = first_of(world.stolen_key.generation + 1).unwrap_or(CHARGE_NUMBER_MAX);
            let any = world.ctx.rng.random_range(1..limit);
            *pick(&mut world.ctx.rng, &[limit - 1, limit, CHARGE_NUMBER_MAX, any])
        };
        let (epoch, decisions, nonce) = (number(self), number(self), self.ctx.rng.random());
        let version = epoch.saturating_add(decisions).min(CHARGE_NUMBER_MAX);
        let charge = Charge { map_id: [3; 16], epoch, nonce, version };
        let of_map = number(self);
        let false_map = self.false_map((of_map, nonce));
        let mut is_in_charge = false;
        let times = *pick(&mut self.ctx.rng, &[1, 1, ACCEPTED_MAX as u64 + 1]);
        for n in struck {
            for time in 0..times {
                let version = (version + time).min(CHARGE_NUMBER_MAX);
                is_in_charge |= self.takes_charge(n, Charge { version, ..charge }, false_map.as_deref());
            }
        }
        if !is_in_charge {
            return;
        }
        self.ctx.totals.faults[Fault::StolenKey(lasts).kind()] += 1;
        self.ctx.trace(What::Phase("somebody takes charge with a stolen key"));
        self.stolen_key.is_in_use = true;
        let until = self.ctx.now + lasts;
        nodes.for_each(|n| self.disturb(n, until));
        self.calm_at = self.calm_at.max(until);
        self.ctx.at(until, Event::RotateKey { session: self.gateway.session });
    }

    /// The gateway's map, as if a later start had made more of it.
    fn false_map(&self, (epoch, nonce): (u64, u64)) -> Option<Vec<u8>> {
        let mut image = replay(self.map.bytes()).ok()?.image;
        image.apply(&Record::Epoch { epoch, nonce }).ok()?;
        let mut map = encode_snapshot(&image);
        if let Some(key) = self.signing_key() {
            let writer = Writer { map_id: image.map_id(), epoch, nonce };
            map = sign_part(&key, &writer, None, image.version(), &map);
        }
        Some(map).filter(|map| map.len() <= MIRROR_FRAME_BYTES_MAX)
    }

    /// The thief links to a node, and is gone again. Whether it was accepted.
    fn takes_charge(&mut self, n: usize, charge: Charge, map: Option<&[u8]>) -> bool {
        let (now, generation, extents) = (self.ctx.now, self.stolen_key.generation, self.nodes.len() as u32);
        let Some((volume_id, extent)) = self.nodes[n].adopted().cloned() else { return false };
        let hello = Hello {
            gateway_id: self.ctx.rng.random(),
            session: self.ctx.rng.random(),
            volume_id,
            extent,
            extents,
            layout: "mapped".to_string(),
            keeps_mirror: true,
            charge: Some(charge),
            ..Hello::default()
        };
        let mut frames = Vec::new();
        hello.encode(&mut frames);
        if let Some(map) = map {
            let (epoch, nonce, version, len_bytes) = (charge.epoch, charge.nonce, charge.version, map.len() as u64);
            let state = MirrorState { epoch, nonce, version, len_bytes };
            PutMirror { offset_bytes: 0, is_new: true, is_last: true, is_durable: true, state }
                .encode(&mut frames, map);
        }
        let (node, mut host) = self.nodes[n].with_host(&mut self.ctx.rng, now);
        let Some(core) = node else { return false };
        let link = core.link_opened();
        core.link_admitted(link, generation);
        if let Some(rx) = core.rx(link) {
            rx.extend(&frames);
        }
        core.process(now, link, &mut host);
        core.turn(now, &mut host);
        core.link_closed(link);
        let closes = std::iter::from_fn(|| core.poll_event()).filter_map(|event| match event {
            NodeEvent::Close { link: other, .. } if other != link => Some(other),
            _ => None,
        });
        let closes: Vec<LinkId> = closes.collect();
        drop(host);
        self.nodes[n].close_later(closes);
        self.wake_node(n);
        self.nodes[n].charge() == Some(charge)
    }

    /// The gateway gets the next key, and is started with its map, recovered with that.
    pub(super) fn rotate_key(&mut self, session: u64) {
        if self.gateway.session != session || self.gateway.core.is_none() {
            return self.ctx.fail("the gateway does not run when its key is rotated".to_string());
        }
        self.ctx.trace(What::Phase("the key is rotated"));
        self.stolen_key.is_in_use = false;
        self.stolen_key.generation += 1;
        let map = self.map.bytes().to_vec();
        self.recover_map(Some(&map), Duration::from_millis(1));
    }
}
