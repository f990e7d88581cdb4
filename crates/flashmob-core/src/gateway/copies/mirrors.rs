//! Mirrors of the map on the volume's nodes, so that it can be recovered when the gateway's disk is lost.
//!
//! A mirror gets what is durable in the map's file: changes in their order, or a new snapshot if it lacks more than is kept here. Decisions
//! that a copy lacks something, that changes were lost, or that an extent was replaced have effect only once they are on the mirrors as well.
//! Others may lag, by a second: whoever recovers the map takes all chunks for open, and compares their copies.
//!
//! All frames of a node's mirror go over its first link, as a welcome ends only what came over earlier attempts at the same link.

mod recent;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::log::{Batch, Log};
use super::{Copies, Cx};
use crate::copies::{History, Lacking, MapImage, Sign, Writer, encode_snapshot, sign_part};
use crate::gateway::Event;
use crate::gateway::state::{LinkId, State};
use crate::node::{are_older_maps_believed, older_map};
use crate::planted::{self, Bug};
use crate::units::{KIB, Time, bring_forward};
use crate::wire::mirror::{MIRROR_BYTES_MAX, MIRROR_FRAME_BYTES_MAX, MirrorPut, MirrorState, PutMirror};
use recent::Recent;

/// How long changes may be kept back that no decision waits for: many go in one frame.
const LAZY: Duration = Duration::from_secs(1);
/// When a node that could not store its mirror is given a new one.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// A mirror that has grown to so many times its snapshot, and is not small, is made anew.
const COMPACTION_FACTOR: u64 = 4;
const COMPACTION_BYTES_MIN: u64 = 64 * KIB;
/// The same of a signed one: small changes are four times as long.
const COMPACTION_SIGNED_BYTES_MIN: u64 = 256 * KIB;

/// The mirrors of a volume's map.
#[derive(Debug)]
pub struct Mirrors {
    writer: Writer,
    /// What signs all that is sent, in a cluster with keys.
    sign: Option<Box<dyn Sign>>,
    /// What the map had when it was opened.
    had: History,
    recent: Recent,
    /// The latest snapshot, while a node needs it.
    whole: Option<Arc<Whole>>,
    /// The batch that is being made durable, and a snapshot that has what it has.
    out: Option<(Batch, Option<Vec<u8>>)>,
    members: Vec<Mirror>,
    /// The version that some mirror is known to have.
    confirmed: u64,
    /// Mirrors get what the map has up to this version so that it is durable there.
    durably: u64,
    /// When frames are to be sent at the latest.
    due: Option<Time>,
}

/// A snapshot, and where the changes behind it begin.
#[derive(Debug)]
struct Whole {
    version: u64,
    at: u64,
    bytes: Vec<u8>,
}

/// That of one member.
#[derive(Debug, Default)]
struct Mirror {
    link: Option<LinkId>,
    /// Its node keeps one, as was told by its last welcome.
    is_known: bool,
    phase: Phase,
    /// Somebody else may have written what it has: it gets a new snapshot.
    is_doubted: bool,
    /// The changes that it has.
    at: u64,
    version: u64,
    /// Bytes of it, and of the whole batches in it.
    end_bytes: u64,
    len_bytes: u64,
    /// Bytes of its snapshot.
    whole_bytes: u64,
    /// The version that it had durably in this start of the gateway, whichever links there were since.
    durable: u64,
    /// The decision that the map's file has to have before the mirror gets anything.
    held_until: u64,
    /// Since when it lacks changes that are not on their way.
    lacks_since: Option<Time>,
    /// It was late, so that decisions wait for others, until it answers.
    is_given_up: bool,
    out: Option<Out>,
}

#[derive(Debug, Default)]
enum Phase {
    /// Not linked, or the node keeps none.
    #[default]
    Absent,
    /// It needs a snapshot, and has this much of one.
    Lacking(Option<(Arc<Whole>, usize)>),
    /// It lacks nothing but the last changes.
    InStep,
    /// The node could not store it.
    Failed(Time),
}

/// A frame that is not answered yet.
#[derive(Debug, Clone, Copy)]
struct Out {
    put: PutMirror,
    /// What it makes of [`Mirror::at`].
    at: u64,
    bytes: usize,
    since: Time,
}

impl Mirror {
    fn is_linked(&self) -> bool {
        matches!(self.phase, Phase::Lacking(_) | Phase::InStep)
    }

    fn is_kept(&self) -> bool {
        self.is_known && !matches!(self.phase, Phase::Failed(_))
    }

    fn wants_compaction(&self, is_signed: bool) -> bool {
        let least = if is_signed { COMPACTION_SIGNED_BYTES_MIN } else { COMPACTION_BYTES_MIN };
        let most = (self.whole_bytes * COMPACTION_FACTOR).clamp(least, MIRROR_BYTES_MAX / 2);
        self.len_bytes > most
    }
}

impl Mirrors {
    /// Of a map in the epoch of this start. Nothing is known of the nodes' mirrors.
    pub fn new(image: &MapImage) -> Mirrors {
        Mirrors {
            writer: Writer { map_id: image.map_id(), epoch: image.epoch(), nonce: image.nonce() },
            sign: None,
            had: image.history(),
            recent: Recent::new(image.version()),
            whole: None,
            out: None,
            members: image.members().iter().map(|_| Mirror::default()).collect(),
            confirmed: 0,
            durably: 0,
            due: None,
        }
    }

    /// One more member.
    pub fn add(&mut self) {
        self.members.push(Mirror::default());
    }

    /// A member was removed.
    pub fn forget(&mut self, member: u16) {
        if let Some(mirror) = self.members.get_mut(usize::from(member)) {
            *mirror = Mirror::default();
        }
    }

    /// When [`Copies::mirror`] must be called.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    fn look_at(&mut self, at: Time) {
        bring_forward(&mut self.due, at);
    }

    /// All that was decided is durable: where a node waits for it, a snapshot of that.
    pub fn at_rest(&mut self, now: Time, image: &MapImage) {
        if self.wants_whole() {
            let (at, version) = self.recent.end();
            debug_assert_eq!(version, image.version(), "all of it is durable");
            let bytes = self.snapshot(image);
            self.whole = Some(Arc::new(Whole { version, at, bytes }));
            self.look_at(now);
        }
    }

    /// A mirror's bytes with this image.
    fn snapshot(&self, image: &MapImage) -> Vec<u8> {
        let bytes = encode_snapshot(image);
        match &self.sign {
            Some(sign) => sign_part(&**sign, &self.writer, None, image.version(), &bytes),
            None => bytes,
        }
    }

    /// All that is sent from now on is signed by this. Mirrors are made anew: who had the key before may have written them, and one signer signs all of a
    /// mirror.
    fn sign_with(&mut self, now: Time, sign: Option<Box<dyn Sign>>) {
        self.sign = sign;
        self.whole = None;
        if let Some((_, whole)) = &mut self.out {
            *whole = None;
        }
        self.recent.begin_anew(self.recent.end().1);
        self.recent.set_signed(self.sign.is_some());
        for mirror in &mut self.members {
            mirror.is_doubted = true;
            if mirror.is_linked() {
                mirror.phase = Phase::Lacking(None);
            }
        }
        self.look_at(now);
    }

    /// What a node's mirror has that the map lacked when it was opened.
    fn lacking(&self, told: Option<MirrorState>) -> Option<Lacking> {
        let told = told.filter(|told| told.len_bytes > 0 && !are_older_maps_believed())?;
        self.had.lacking(&told)
    }

    /// Whether a mirror has what the map lacked when it was opened, or is of a later start.
    pub fn shows_more(&self, state: &MirrorState) -> bool {
        self.had.lacking(state).is_some()
    }

    /// A node's first link was welcomed: what it tells of its mirror.
    fn welcomed(&mut self, now: Time, member: usize, link: LinkId, told: Option<MirrorState>) {
        let Some(mirror) = self.members.get_mut(member) else { return };
        let (whole_bytes, is_doubted) = (mirror.whole_bytes, mirror.is_doubted);
        let (durable, held_until) = (mirror.durable, mirror.held_until);
        let link = Some(link);
        *mirror = Mirror { link, is_known: told.is_some(), is_doubted, durable, held_until, ..Mirror::default() };
        let Some(told) = told else { return };
        let is_of_this_start =
            !is_doubted && (told.epoch, told.nonce) == (self.writer.epoch, self.writer.nonce) && told.len_bytes > 0;
        let after = self.recent.after(told.version).filter(|_| is_of_this_start);
        mirror.phase = match after {
            Some(at) => {
                (mirror.at, mirror.version) = (at, told.version);
                (mirror.len_bytes, mirror.end_bytes) = (told.len_bytes, told.len_bytes);
                mirror.whole_bytes = if whole_bytes > 0 { whole_bytes } else { told.len_bytes };
                self.confirmed = self.confirmed.max(told.version);
                Phase::InStep
            }
            None => Phase::Lacking(None),
        };
        self.look_at(now);
    }

    /// Has mirrors make the map durable up to a version.
    pub fn have_durably(&mut self, version: u64) {
        if !planted::is(Bug::AgeNotKept) {
            self.durably = version;
        }
    }

    /// Whether a node tells of a mirror that has less than it had durably in this start of the gateway. A node that cannot store its mirror removes
    /// it.
    fn is_older(&self, member: u16, told: Option<MirrorState>) -> bool {
        let is_of_this_start = |told: &MirrorState| {
            (told.epoch, told.nonce) == (self.writer.epoch, self.writer.nonce) && told.len_bytes > 0
        };
        let (told, mirror) = (told.filter(is_of_this_start), self.members.get(usize::from(member)));
        told.zip(mirror).is_some_and(|(told, mirror)| told.version < mirror.durable)
    }

    /// A member gets nothing before the map's file has this decision, and what it had durably does not count any more.
    pub fn hold_back(&mut self, member: u16, until: u64) {
        if let Some(mirror) = self.members.get_mut(usize::from(member)) {
            mirror.durable = 0;
            mirror.held_until = until;
        }
    }

    /// A batch is being made durable. `image` has what was decided; it is what the batch leads to if that is its number.
    pub fn committing(&mut self, batch: &Batch, image: &MapImage) {
        if !self.members.iter().any(Mirror::is_linked) {
            // Whoever comes gets a snapshot.
            self.out = None;
            return self.recent.begin_anew(batch.number);
        }
        let is_all = batch.number == image.version() && self.wants_whole();
        let whole = is_all.then(|| self.snapshot(image));
        self.out = Some((batch.clone(), whole));
    }

    /// The batch is durable, or is not.
    pub fn committed(&mut self, now: Time, is_durable: bool) {
        let Some((batch, whole)) = self.out.take().filter(|_| is_durable) else { return };
        if batch.is_whole {
            self.recent.begin_anew(batch.number);
        } else {
            let after = self.recent.end().1;
            let signed = self.sign.as_ref();
            let signed = signed.map(|sign| sign_part(&**sign, &self.writer, Some(after), batch.number, &batch.bytes));
            self.recent.push(signed.as_deref().unwrap_or(&batch.bytes), batch.number);
        }
        let end = self.recent.end().0;
        for mirror in self.members.iter_mut().filter(|mirror| matches!(mirror.phase, Phase::InStep)) {
            if mirror.at < self.recent.first.0 {
                mirror.phase = Phase::Lacking(None);
            }
        }
        if let Some(bytes) = whole {
            self.whole = Some(Arc::new(Whole { version: batch.number, at: end, bytes }));
        }
        self.look_at(now);
    }

    /// Whether a node waits for a snapshot, and the last one is too old.
    fn wants_whole(&self) -> bool {
        self.members
            .iter()
            .any(|mirror| matches!(mirror.phase, Phase::Lacking(None)) && self.whole_for(mirror).is_none())
    }

    /// The last snapshot, if it is not older than what a mirror has, and the changes behind it are kept.
    fn whole_for(&self, mirror: &Mirror) -> Option<Arc<Whole>> {
        let is_of_use = |whole: &&Arc<Whole>| whole.at >= self.recent.first.0 && whole.version >= mirror.version;
        self.whole.as_ref().filter(is_of_use).cloned()
    }

    /// Whether a mirror may be made anew to make it shorter: meanwhile decisions wait for others.
    fn may_compact(&self, member: usize) -> bool {
        let others =
            || self.members.iter().enumerate().filter(|(other, _)| *other != member).map(|(_, mirror)| &mirror.phase);
        others().all(|phase| !matches!(phase, Phase::Lacking(_)))
            && others().any(|phase| matches!(phase, Phase::InStep))
    }

    /// Whether a mirror has everything up to that version.
    pub fn have(&self, version: u64) -> bool {
        self.confirmed >= version
    }

    /// The version that mirrors have, as far as decisions wait for that: all that are in step have it, and one at least. `is_out` says which
    /// members are not waited for, `is_linked` which are there. If none is there that keeps a mirror, but others are, decisions do without; if
    /// nobody is there, they wait.
    pub fn reached(&self, is_out: impl Fn(u16) -> bool, is_linked: impl Fn(u16) -> bool) -> u64 {
        let all = || (0..).zip(&self.members);
        let keep = || all().filter(|(_, mirror)| mirror.is_kept());
        let are_others = || all().any(|(member, mirror)| !mirror.is_kept() && is_linked(member));
        let is_any = keep().any(|(member, _)| is_linked(member)) || keep().next().is_some() && !are_others();
        if !is_any || planted::is(Bug::MirrorNotAwaited) {
            return u64::MAX;
        }
        let counts = |(member, mirror): &(u16, &Mirror)| {
            matches!(mirror.phase, Phase::InStep) && !mirror.is_given_up && !is_out(*member)
        };
        let in_step = keep().filter(counts);
        in_step.map(|(_, mirror)| mirror.version).min().unwrap_or(u64::MAX).min(self.confirmed)
    }

    /// How many nodes have a mirror that lacks nothing but the last changes.
    pub fn in_step(&self) -> usize {
        self.members.iter().filter(|mirror| matches!(mirror.phase, Phase::InStep)).count()
    }

    /// Members that are linked and keep a mirror, as far as is known. Of each whether decisions wait for it, and since when it has left a frame
    /// unanswered.
    pub fn keepers(&self) -> impl Iterator<Item = (u16, bool, Option<Time>)> + '_ {
        let keepers = (0..).zip(&self.members).filter(|(_, mirror)| mirror.is_known && mirror.is_linked());
        keepers.map(|(member, mirror)| (member, !mirror.is_given_up, mirror.out.map(|out| out.since)))
    }

    /// The next frame for a member, if it needs one now.
    fn next(&mut self, now: Time, member: usize, log: &Log) -> Option<(LinkId, PutMirror, Vec<u8>)> {
        let wanted = log.awaited().max(self.durably.min(log.filed()));
        let (Writer { epoch, nonce, .. }, end_at) = (self.writer, self.recent.end().0);
        let state = |version, len_bytes| MirrorState { epoch, nonce, version, len_bytes };
        let mirror = self.members.get(member)?;
        let compacts = mirror.wants_compaction(self.sign.is_some()) && self.may_compact(member);
        let whole = self.whole_for(mirror);
        let may_go = |mirror: &&mut Mirror| mirror.out.is_none() && mirror.held_until <= log.filed();
        let mirror = self.members.get_mut(member).filter(may_go)?;
        let link = mirror.link?;
        if matches!(mirror.phase, Phase::Failed(until) if now >= until)
            || matches!(mirror.phase, Phase::InStep if compacts)
        {
            mirror.phase = Phase::Lacking(None);
        }
        if let Phase::Lacking(part @ None) = &mut mirror.phase {
            *part = whole.map(|whole| (whole, 0));
        }
        let (put, at, bytes) = match &mirror.phase {
            Phase::Lacking(Some((whole, from))) => {
                let to = whole.bytes.len().min(from + MIRROR_FRAME_BYTES_MAX);
                let is_last = to == whole.bytes.len();
                let state = state(whole.version, whole.bytes.len() as u64);
                let put = PutMirror { offset_bytes: *from as u64, is_new: true, is_last, is_durable: is_last, state };
                (put, whole.at, whole.bytes[*from..to].to_vec())
            }
            Phase::InStep if mirror.at < end_at => {
                let late_at = *mirror.lacks_since.get_or_insert(now) + LAZY;
                let is_much = end_at - mirror.at >= MIRROR_FRAME_BYTES_MAX as u64;
                if mirror.version >= wanted && now < late_at && !is_much {
                    bring_forward(&mut self.due, late_at);
                    return None;
                }
                let (bytes, whole_to) = self.recent.part(mirror.at);
                let (version, len_bytes) = match whole_to {
                    Some((to, version)) => (version, mirror.end_bytes + to - mirror.at),
                    None => (mirror.version, mirror.len_bytes),
                };
                let (is_new, is_last, is_durable) = (false, false, mirror.version < wanted);
                let state = state(version, len_bytes);
                let put = PutMirror { offset_bytes: mirror.end_bytes, is_new, is_last, is_durable, state };
                (put, mirror.at + bytes.len() as u64, bytes)
            }
            Phase::InStep | Phase::Lacking(None) | Phase::Absent | Phase::Failed(_) => return None,
        };
        (mirror.out, mirror.lacks_since) = (Some(Out { put, at, bytes: bytes.len(), since: now }), None);
        Some((link, put, bytes))
    }

    /// A node has answered a frame, which is returned. `None` if there was none that it could have answered.
    fn answered(&mut self, now: Time, member: usize, answer: MirrorPut) -> Option<PutMirror> {
        let mirror = self.members.get_mut(member)?;
        let Out { put, at, bytes, .. } = mirror.out.take().filter(|out| out.put.state == answer.state)?;
        mirror.is_given_up = false;
        if !answer.is_kept {
            mirror.phase = Phase::Failed(now + RETRY_AFTER);
            self.look_at(now + RETRY_AFTER);
            return Some(put);
        }
        if put.is_durable {
            mirror.durable = put.state.version;
        }
        match &mut mirror.phase {
            Phase::Lacking(Some((_, from))) if put.is_new && !put.is_last => *from += bytes,
            Phase::Lacking(Some(_)) if put.is_new => {
                (mirror.version, mirror.at) = (put.state.version, at);
                let len_bytes = put.state.len_bytes;
                (mirror.end_bytes, mirror.len_bytes, mirror.whole_bytes) = (len_bytes, len_bytes, len_bytes);
                mirror.is_doubted = false;
                // While it was sent, more may have come than is kept: it needs another.
                let is_enough = at >= self.recent.first.0;
                mirror.phase = if is_enough { Phase::InStep } else { Phase::Lacking(None) };
            }
            Phase::InStep if !put.is_new => {
                (mirror.version, mirror.at) = (put.state.version, at);
                (mirror.end_bytes, mirror.len_bytes) = (put.offset_bytes + bytes as u64, put.state.len_bytes);
            }
            // What was sent before it fell out of step, or was given up.
            Phase::Lacking(_) | Phase::InStep | Phase::Absent | Phase::Failed(_) => {}
        }
        if matches!(mirror.phase, Phase::InStep) {
            self.confirmed = self.confirmed.max(mirror.version);
        }
        let needs_whole = |mirror: &Mirror| matches!(mirror.phase, Phase::Lacking(_));
        if !self.members.iter().any(needs_whole) {
            self.whole = None;
        }
        self.look_at(now);
        Some(put)
    }
}

/// Says that a map is refused, and what to do.
fn branched_map(node: &str, epoch: u64) -> String {
    format!(
        "node {node} was used with another state of this gateway's map, by a start that the map does not know (epoch {epoch}): one of \
         the two is an older state. If this map is the latest, start that node with --forget, this gateway again, and replace the \
         extent with `flashmob volume replace`, unless it has the only copy of a chunk (`flashmob volume show`); else stop this gateway, move its map away, and recover it with `flashmob volume recover`"
    )
}

impl Copies {
    /// Why the map must not be used, or is not any more, if a node's welcome tells of a mirror that has more.
    pub(super) fn unwelcome(&self, node: &str, told: Option<MirrorState>) -> Option<String> {
        let why = |lacking| match lacking {
            Lacking::Decisions(lacks) => older_map(lacks),
            Lacking::Start(epoch) => branched_map(node, epoch),
        };
        self.deposed.clone().or_else(|| self.mirrors.lacking(told).map(why))
    }

    /// What signs the mirrors from now on.
    pub(in crate::gateway) fn sign_mirrors(&mut self, now: Time, sign: Option<Box<dyn Sign>>) {
        self.mirrors.sign_with(now, sign);
    }

    /// Whether a node's welcome tells of a mirror that has less than it had durably. To be asked before the others.
    pub(super) fn is_mirror_older(&self, member: u16, told: Option<MirrorState>) -> bool {
        self.mirrors.is_older(member, told)
    }

    /// What a node's welcome tells of its mirror.
    pub(super) fn mirror_welcomed(&mut self, cx: &mut Cx<'_>, member: u16, link: LinkId, told: Option<MirrorState>) {
        self.mirrors.welcomed(cx.now, usize::from(member), link, told);
    }

    /// A node was linked over another link than its first: that tells only whether it keeps a mirror.
    pub(super) fn mirror_known(&mut self, member: u16, is_known: bool) {
        if let Some(mirror) = self.mirrors.members.get_mut(usize::from(member)) {
            mirror.is_known = is_known;
        }
    }

    /// Members that leave a mirror unanswered for which a decision waits. While others keep one, it is not waited for until it is answered. If
    /// these are the last, decisions do without, and that is told. Whether they are put out is judged by what clients want of them.
    pub(super) fn give_up_mirrors(&mut self, cx: &mut Cx<'_>, late: &[u16], are_last: bool) {
        for &member in late {
            let Some(mirror) = self.mirrors.members.get_mut(usize::from(member)) else { continue };
            mirror.is_given_up = true;
            if are_last {
                mirror.phase = Phase::Failed(cx.now + RETRY_AFTER);
                self.mirrors.look_at(cx.now + RETRY_AFTER);
                let text = "it does not store its mirror of the volume's map, and no other node keeps one: what is decided now is on the \
                            gateway's disk alone";
                cx.tell(Event::NodeWarning(cx.name(member), text.to_string()));
            }
        }
        self.take_effect(cx);
    }

    /// A link was lost. What its node has of a mirror is told by its next welcome.
    pub(super) fn mirror_lost(&mut self, cx: &mut Cx<'_>, member: u16, link: LinkId) {
        if let Some(mirror) = self.mirrors.members.get_mut(usize::from(member)).filter(|m| m.link == Some(link)) {
            let Mirror { is_known, whole_bytes, is_doubted, durable, held_until, .. } = *mirror;
            *mirror = Mirror { is_known, whole_bytes, is_doubted, durable, held_until, ..Mirror::default() };
            self.take_effect(cx);
        }
    }

    /// A node has answered a frame. False if it answers what was not sent.
    pub(super) fn mirror_put(&mut self, cx: &mut Cx<'_>, member: u16, answer: MirrorPut) -> bool {
        let Some(put) = self.mirrors.answered(cx.now, usize::from(member), answer) else { return false };
        if answer.is_kept && put.is_durable {
            self.note_age(member, put.state);
        }
        if !answer.is_kept {
            let text = "it cannot keep a mirror of the volume's map; see its log".to_string();
            cx.tell(Event::NodeWarning(cx.name(member), text));
        }
        self.take_effect(cx);
        true
    }

    /// Sends mirrors what they lack. Call it when [`Mirrors::due`] says so.
    pub(super) fn mirror(&mut self, cx: &mut Cx<'_>) {
        self.mirrors.due = None;
        if self.deposed.is_some() {
            return;
        }
        for member in 0..self.members.len() {
            if let Some((link, put, bytes)) = self.mirrors.next(cx.now, member, &self.log) {
                debug_assert_eq!(cx.links[link].state, State::Ready, "else it was lost");
                cx.mirrored.push((link, put, bytes));
            }
        }
        if self.log.is_busy() {
            self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        }
    }
}
