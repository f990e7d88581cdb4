//! The map's file is written anew now and then, and the gateway's machine may lose power in the middle.
//!
//! The new file is written and flushed beside the map, and gets its name. Until the directory is flushed as well a loss of power may bring the old file
//! back; before it has its name, it is not looked at, whatever of it was written. So nothing is appended, and no decision takes effect, before that: then the
//! old file lacks nothing that anybody saw.

use std::time::Duration;

use flashmob_core::copies::{encode_snapshot, replay};
use flashmob_core::planted::{self, Bug};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::trace::What;
use super::{Event, World};

/// A map that has got its name, and whose directory is not flushed.
#[derive(Debug)]
pub(super) struct Renamed {
    /// The number of its last decision.
    number: u64,
    /// The file that a loss of power brings back.
    older: Vec<u8>,
}

/// Draws whether the map is written anew after one in so many batches. Not where the gateway has another map for a while, or its end is lost; nor where the
/// only current copy rots: a file that is lost with its name may have said which one that is.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{MapFull, MapRot, RotBehind, Standby, StoreAway};
        fault.is_of_other_maps() || matches!(fault, MapFull(_) | MapRot(..) | RotBehind(_) | Standby(_) | StoreAway(_))
    };
    let is_apart = scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) || scenario.change.is_some();
    let is_drawn = rng.random_ratio(1, 4);
    let one_in = *pick(rng, &[2, 4, 10]);
    if let Some(plan) = scenario.copies.as_mut().filter(|plan| is_drawn && !is_apart && plan.lease.is_none()) {
        plan.rewrites_one_in = one_in;
    }
}

impl World {
    fn rewrite_rng(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.scenario.seed ^ self.ctx.now.as_nanos() ^ 0x5a_1e)
    }

    fn rewrites_one_in(&self) -> u32 {
        self.scenario.copies.as_ref().map_or(0, |plan| plan.rewrites_one_in)
    }

    /// A batch is durable: the map may be due to be written anew.
    pub(super) fn may_rewrite_map(&mut self) {
        let one_in = self.rewrites_one_in();
        if one_in > 0
            && self.rewrite_rng().random_ratio(1, one_in)
            && let Some(core) = &mut self.gateway.core
        {
            core.rewrite_map(0);
            self.wake_gateway();
        }
    }

    /// The new map has its name. Returns false where files are written anew without such steps.
    pub(super) fn map_renamed(&mut self, number: u64, bytes: &[u8]) -> bool {
        if self.rewrites_one_in() == 0 {
            return false;
        }
        let mut rng = self.rewrite_rng();
        let longest_ns = self.scenario.copies.as_ref().map_or(1, |plan| plan.commit_ns.max(1));
        let session = self.gateway.session;
        let older = self.map.bytes().to_vec();
        self.ctx.after(rng.random_range(0..longest_ns * 2), Event::MapDirectoryFlushed { session });
        if rng.random_ratio(1, 6) && !self.is_healed {
            let lasts = Duration::from_micros(rng.random_range(100..20_000));
            self.ctx.after(rng.random_range(0..longest_ns * 2), Event::KillInMove { session, lasts });
        }
        self.store_map(number, bytes.to_vec(), true);
        self.map.renamed = Some(Renamed { number, older });
        if planted::is(Bug::RenameTrusted) {
            self.map_is_durable(number);
        }
        true
    }

    /// The directory of the new map is flushed.
    pub(super) fn map_directory_flushed(&mut self, session: u64) {
        if session == self.gateway.session
            && let Some(renamed) = self.map.renamed.take()
            && !planted::is(Bug::RenameTrusted)
        {
            self.map_is_durable(renamed.number);
        }
    }

    /// The gateway is killed, perhaps as its machine lost power.
    pub(super) fn rename_may_be_lost(&mut self) {
        let Some(Renamed { older, .. }) = self.map.renamed.take() else { return };
        if self.rewrite_rng().random() {
            return;
        }
        self.ctx.trace(What::Phase("the old file of the map is back"));
        if let Ok(replayed) = replay(&older) {
            self.sign_damaged_map(&encode_snapshot(&replayed.image));
        }
        self.map.store(older, true);
        self.map.out = None;
    }
}
