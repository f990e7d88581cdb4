//! Claims of nodes that this gateway is not in charge any more, in a cluster with keys.
//!
//! A node may lie, or be damaged. So no such claim ends the gateway before the node's mirror of the map shows it, which only a gateway of the cluster can
//! have signed. Until that is known nothing new is served, but only once in each start and not for long: after that a claim without proof is a fault of
//! that node, and the others serve. Where no node serves for long, or more claim it than serve, the claim is believed without proof: nothing is lost by that.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Copies, Cx};
use crate::gateway::state::LinkId;
use crate::gateway::{Action, Event, Gateway};
use crate::planted::{self, Bug};
use crate::units::{KIB, Time};
use crate::wire::generation::generation_of;
use crate::wire::hello::Welcome;
use crate::wire::mirror::MirrorState;

/// How long nothing is served because claims are not verified yet, once in each start, beside what a mirror of the map takes at [`MIRROR_BYTES_PER_S`].
const HELD_MAX: Duration = Duration::from_secs(15);
/// The slowest pace at which a mirror is expected: many nodes and clients share the air.
const MIRROR_BYTES_PER_S: u64 = 256 * KIB;
/// When a claim that was not proven is verified again: a later gateway may not have written its mirrors yet. Each time it takes twice as long, up to this.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// A node that has not repeated its claim for so long does not claim it any more.
const STANDS_FOR: Duration = Duration::from_secs(5);
/// After so long without a linked node a claim is believed without proof.
const BELIEVED_AFTER: Duration = Duration::from_secs(30);

/// The proof that a node's mirror is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The node is inside the gateway.
    Trusted,
    /// The identity of the map, and the state of it that a gateway of the cluster has signed.
    Shown([u8; 16], MirrorState),
    /// The mirror could not be had, or is not signed.
    Nothing,
}

/// The claims of a volume's nodes, by member.
#[derive(Debug, Default)]
pub(super) struct Claims {
    of: BTreeMap<u16, Claim>,
    /// Since when no node is linked while one claims it.
    unserved_since: Option<Time>,
    /// Until when nothing is served at most, once there was a claim.
    held_until: Option<Time>,
}

#[derive(Debug)]
struct Claim {
    why: String,
    last: Time,
    /// Since when the claim is being verified.
    asked: Option<Time>,
    /// When the claim was last found to have no proof.
    unproven: Option<Time>,
    again_after: Duration,
    is_told: bool,
}

impl Claims {
    /// Whether nothing is served.
    pub fn is_holding(&self) -> bool {
        self.of.values().any(|claim| claim.asked.is_some() && claim.unproven.is_none())
    }

    /// A node of the volume is linked.
    pub fn is_served(&mut self) {
        self.unserved_since = None;
    }
}

impl Gateway {
    /// Has nodes prove that another gateway is in charge, in a cluster with keys: that of this gateway is of that generation.
    pub fn verify_claims(&mut self, generation: u64) {
        self.key_generation = Some(generation);
    }

    /// A node says that another gateway is in charge. Returns with which text it is refused.
    pub(in crate::gateway) fn claimed(&mut self, now: Time, id: LinkId, why: &str) -> String {
        let node = self.links[id].node;
        let (volume, member) = (self.nodes[node].volume, self.nodes[node].extent as u16);
        if self.key_generation.is_none() || self.deposed(volume).is_some() {
            self.depose(now, volume, why);
            return why.to_string();
        }
        match self.with_copies(now, volume, |copies, cx| copies.claimed(cx, member, why)) {
            Some(Claimed::Believed) => {
                self.depose(now, volume, why);
                why.to_string()
            }
            Some(Claimed::ToVerify { is_told }) => {
                let within = self.volumes[volume].copies.as_deref().map_or(HELD_MAX, Copies::mirror_within);
                self.actions.push_back(Action::VerifyClaim { node, within });
                let first =
                    || format!("it says that this gateway is not in charge, which its mirror has to show: {why}");
                if is_told { self.unproven(node, why) } else { first() }
            }
            Some(Claimed::Refused) | None => self.unproven(node, why),
        }
    }

    /// Takes the answer to [`Action::VerifyClaim`].
    pub fn claim_answered(&mut self, now: Time, node: usize, proof: Proof) {
        let Some((volume, member)) = self.nodes.get(node).map(|node| (node.volume, node.extent as u16)) else { return };
        match self.with_copies(now, volume, |copies, cx| copies.claim_answered(cx, member, proof)).flatten() {
            Some(Ok(why)) => self.depose(now, volume, &why),
            Some(Err((why, is_news))) => {
                let text = self.unproven(node, &why);
                if is_news {
                    let name = self.nodes[node].name.clone();
                    self.actions.push_back(Action::Tell(Event::NodeWarning(name, text.clone())));
                }
                self.nodes[node].refusal = self.nodes[node].refusal.is_some().then_some(text);
            }
            None => {}
        }
    }

    /// Why a welcome is refused whose numbers no gateway of the cluster can have made: they are of a later generation than its key, and than its map.
    pub(in crate::gateway) fn beyond_keys(&self, id: LinkId, welcome: &Welcome) -> Option<String> {
        let own = self.key_generation?;
        let copies = self.volumes[self.nodes[self.links[id].node].volume].copies.as_deref()?;
        let most = own.max(generation_of(copies.image.epoch(), copies.image.version()));
        let mirror = welcome.mirror.map(|mirror| (mirror.epoch, mirror.version));
        let told = mirror.into_iter().chain(welcome.remembered);
        let needed =
            told.map(|(epoch, version)| generation_of(epoch, version)).max().filter(|needed| *needed > most)?;
        Some(format!(
            "it tells of a state of the map of generation {needed} of the keys, and there is none later than {most}: it lies, or what it \
             remembers is damaged; {}",
            self.distrust(welcome.extent_id)
        ))
    }

    /// The remedy for a node that lies.
    fn distrust(&self, extent_id: [u8; 16]) -> String {
        format!(
            "if it is not to be trusted, take its key away with `flashmob key unpin {} {:032x}`, and replace it with `flashmob volume replace`",
            self.config.config_name,
            u128::from_be_bytes(extent_id)
        )
    }

    fn unproven(&self, node: usize, why: &str) -> String {
        let remedy = self.distrust(self.nodes[node].extent_id.unwrap_or_default());
        format!(
            "it says without proof that this gateway is not in charge, and the volume is served without it: {remedy}. It says: {why}"
        )
    }
}

/// The outcome of a claim.
enum Claimed {
    Believed,
    ToVerify { is_told: bool },
    Refused,
}

impl Copies {
    /// Whether nothing is served yet: the map's end was dropped, or it is not known whether another gateway is in charge.
    pub(super) fn serves_nothing(&self) -> bool {
        self.is_cut() || self.claims.is_holding()
    }

    fn claimed(&mut self, cx: &mut Cx<'_>, member: u16, why: &str) -> Claimed {
        let now = cx.now;
        let claim = Claim {
            why: why.to_string(),
            last: now,
            asked: None,
            unproven: None,
            again_after: AGAIN_AFTER,
            is_told: false,
        };
        let held_until = now + self.mirror_within();
        let held_until = *self.claims.held_until.get_or_insert(held_until);
        let claim = self.claims.of.entry(member).or_insert(claim);
        (claim.why, claim.last) = (why.to_string(), now);
        let is_told = claim.is_told;
        let is_due = claim.asked.is_none() && claim.unproven.is_none_or(|since| now - since >= claim.again_after);
        if is_due {
            claim.asked = Some(now);
            if claim.unproven.is_some() {
                claim.again_after = (2 * claim.again_after).min(AGAIN_AFTER_MAX);
            } else if now >= held_until {
                claim.unproven = Some(now);
            }
            self.look_at(now + super::watch::WATCH_INTERVAL);
        }
        match (self.is_believed_unproven(cx), is_due) {
            (true, _) => Claimed::Believed,
            (false, true) => Claimed::ToVerify { is_told },
            (false, false) => Claimed::Refused,
        }
    }

    /// Whether so many nodes claim it, beside those that serve, that no proof is needed.
    fn is_believed_unproven(&mut self, cx: &Cx<'_>) -> bool {
        let members = 0..self.members.len() as u16;
        let linked = members.clone().filter(|&member| cx.is_linked(member)).count();
        let stands = |claim: &Claim| cx.now - claim.last < STANDS_FOR;
        if linked > 0 {
            self.claims.is_served();
            // The last start may be what the map lost: then nodes know of it, and no mirror does.
            return self.claims.of.values().filter(|claim| stands(claim)).count() > linked;
        }
        let claims = |member: u16| self.claims.of.get(&member).is_some_and(stands);
        let are_all = members.clone().all(|member| self.image.is_gone(member) || claims(member));
        let since = *self.claims.unserved_since.get_or_insert(cx.now);
        are_all || cx.now - since >= BELIEVED_AFTER
    }

    /// Why another gateway is in charge, if that is shown; else what the node says, and whether that it was not shown is news.
    fn claim_answered(&mut self, cx: &mut Cx<'_>, member: u16, proof: Proof) -> Option<Result<String, (String, bool)>> {
        let map_id = self.image.map_id();
        let claim = self.claims.of.get_mut(&member)?;
        claim.asked.take()?;
        let is_shown = match proof {
            Proof::Trusted => true,
            Proof::Shown(..) if planted::is(Bug::ProofIgnored) => false,
            Proof::Shown(of, state) => of == map_id && self.mirrors.shows_more(&state),
            Proof::Nothing => false,
        };
        if is_shown {
            return Some(Ok(claim.why.clone()));
        }
        claim.unproven = Some(cx.now);
        let is_news = !std::mem::replace(&mut claim.is_told, true);
        let why = claim.why.clone();
        self.serve_held(cx);
        Some(Err((why, is_news)))
    }

    /// How long a node may take to show a mirror of this map.
    pub(super) fn mirror_within(&self) -> Duration {
        // Places and marks of all chunks, and as much of what was decided since.
        let copy_bytes = 6;
        let mirror_bytes = 2 * u64::from(self.image.chunks()) * (self.image.copies() as u64 * copy_bytes + 8);
        HELD_MAX + Duration::from_millis(mirror_bytes * 1000 / MIRROR_BYTES_PER_S)
    }

    /// Looks whether claims have held up others for too long.
    pub(super) fn watch_claims(&mut self, cx: &mut Cx<'_>) {
        if (0..self.members.len() as u16).any(|member| cx.is_linked(member)) {
            self.claims.is_served();
        }
        if !self.claims.is_holding() {
            return;
        }
        if self.claims.held_until.is_some_and(|until| cx.now < until) {
            return self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        }
        for claim in self.claims.of.values_mut().filter(|claim| claim.asked.is_some()) {
            claim.unproven.get_or_insert(cx.now);
        }
        self.serve_held(cx);
    }

    /// Goes on with what was held back, if nothing holds it any more.
    pub(super) fn serve_held(&mut self, cx: &mut Cx<'_>) {
        if !self.serves_nothing() {
            self.judge_all(cx);
            self.review_flushes(cx);
            self.serve_waiting(cx);
            self.look_at(cx.now);
        }
    }
}
