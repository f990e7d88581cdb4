//! A node is added to a volume while it is used, or removed from it.
//!
//! ```text
//!  added ─▶ on record ─▶ linked: extent and size on record ─▶ all of it is looked through ─▶ empty: it gets its share of the copies
//!           (its number,                                      (moves/orphans.rs)           └▶ holds data: it is not used before a person
//!            its address)                                                                      has decided to overwrite that
//! ```
//!
//! A member that is joining has no copies and gets none, so whatever becomes of it, nothing is lost. A member is removed once it has none.

use super::{Copies, Cx, MoveError};
use crate::copies::{ADDRESS_BYTES_MAX, DOMAIN_BYTES_MAX, MEMBERS_MAX, MapError, Record, unknown_extent};
use crate::gateway::state::{Link, LinkId, Node};
use crate::gateway::{Event, ExtentSpec, Gateway};
use crate::units::Time;

/// A node that is to be added to a volume with copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// Where it is, `host:port`, and its name in messages.
    pub address: String,
    /// The size that its extent has to have, in bytes; `None`: any.
    pub size_bytes: Option<u64>,
    /// The domain in which it may fail together with others.
    pub domain: String,
    /// What its extent holds may be overwritten.
    pub overwrites: bool,
}

/// A node was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Its number in the volume.
    pub number: usize,
    /// Its number over all volumes.
    pub node: usize,
    /// It is new to the gateway: the shell has to learn where it is.
    pub is_new: bool,
    /// The number of its record: see [`Gateway::is_recorded`].
    pub record: u64,
}

/// Why a node is not added. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum JoinError {
    /// It is there already.
    #[error("{address} is node {number} of volume '{volume}' already")]
    Known { address: String, number: usize, volume: String },
    /// Neither too short nor too long.
    #[error("{what} has {len_bytes} bytes; it needs 1 to {most}")]
    Length { what: &'static str, len_bytes: usize, most: usize },
    /// The volume has as many nodes as it may.
    #[error("a volume has at most {MEMBERS_MAX} nodes, those counted that were removed")]
    TooMany,
    /// Nothing can be decided.
    #[error(transparent)]
    Undecided(#[from] MoveError),
    /// The map refuses it.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Why a node is not removed. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum RemoveError {
    /// It has copies, or gets some.
    #[error("node {number} has {copies} copies, or gets some now; drain it first: `flashmob volume drain`")]
    InUse { number: usize, copies: u32 },
    /// Nothing can be decided.
    #[error(transparent)]
    Undecided(#[from] MoveError),
}

impl Copies {
    /// One more member. Returns its number, and that of its last record.
    fn add_member(&mut self, cx: &mut Cx<'_>, new: &NewNode) -> Result<(u16, u64), JoinError> {
        self.may_decide()?;
        // At most MEMBERS_MAX.
        let number = self.image.members().len() as u16;
        let size_bytes = new.size_bytes.unwrap_or(0);
        let (extent_id, domain) = (unknown_extent(number), new.domain.clone());
        let member = Record::Member { number, extent_id, size_bytes, domain };
        self.name_members(cx);
        self.decide(member);
        let record = self.decide(Record::Address { member: number, address: new.address.clone(), is_seed: false });
        let record = match new.overwrites {
            true => self.decide(Record::Joining { member: number, is_joining: true, overwrites: true }),
            false => record,
        };
        if let Some(known) = self.image.members().get(usize::from(number)) {
            self.members.push(super::Member::new(known, false));
        }
        self.slots.push(Vec::new());
        self.moves.add();
        self.mirrors.add();
        self.scrub.add(cx.now);
        Ok((number, record))
    }

    /// What the extent of a member that is joining holds may be overwritten.
    fn overwrite(&mut self, cx: &mut Cx<'_>, member: u16) -> Result<u64, JoinError> {
        self.may_decide()?;
        let record = self.decide(Record::Joining { member, is_joining: true, overwrites: true });
        self.search_anew(member);
        self.look_at(cx.now);
        Ok(record)
    }

    /// From now on the map says where all members are.
    fn name_members(&mut self, cx: &Cx<'_>) {
        // At most MEMBERS_MAX.
        for member in 0..self.image.members().len() as u16 {
            if self.image.address(member).is_none() {
                self.name_member(cx, member);
            }
        }
    }

    /// A member's node is where the configuration says, if the map is to say that.
    fn name_member(&mut self, cx: &Cx<'_>, member: u16) {
        let (address, is_seed) = (cx.name(member), self.image.is_seed(member));
        let is_known = self.image.is_gone(member) || self.image.address(member) == Some(&address);
        if !is_known && !cx.is_local(member) && (1..=ADDRESS_BYTES_MAX).contains(&address.len()) {
            self.decide(Record::Address { member, address, is_seed });
        }
    }

    /// A member's extent is where the configuration says: somebody has edited that, perhaps.
    pub(super) fn found_at(&mut self, cx: &Cx<'_>, member: u16) {
        if self.image.address(member).is_some() {
            self.name_member(cx, member);
        }
    }

    /// A member that is joining may be used now, if its extent may be overwritten.
    pub(super) fn take_in_unsearched(&mut self, cx: &mut Cx<'_>) {
        for member in self.image.overwritten().collect::<Vec<_>>() {
            if self.is_usable(cx, member) && self.may_decide().is_ok() {
                self.search_anew(member);
                self.take_in(cx, member);
            }
        }
    }

    /// The extent of a member was looked through: nothing was found that is not of this volume.
    pub(super) fn found_empty(&mut self, cx: &mut Cx<'_>, member: u16) {
        if self.image.is_joining(member) && !self.holds_data(member) && self.may_decide().is_ok() {
            self.take_in(cx, member);
            let text = "its extent is empty: it is a node of the volume now, and gets its share of the copies";
            cx.tell(Event::NodeWarning(cx.name(member), text.to_string()));
        }
    }

    /// A member may have copies from now on: it gets its share of them.
    fn take_in(&mut self, cx: &mut Cx<'_>, member: u16) {
        let joined_from = self.decide(Record::Joining { member, is_joining: false, overwrites: false });
        self.members[usize::from(member)].joined_from = joined_from;
        if !self.image.is_balancing() {
            self.decide(Record::Balance { is_wanted: true });
        }
        self.plan_anew(cx);
    }

    /// A member without copies is none any more. Returns the number of the record.
    fn remove_member(&mut self, cx: &mut Cx<'_>, member: u16) -> Result<u64, RemoveError> {
        self.may_decide()?;
        let number = usize::from(member);
        let copies = self.image.copies_on(member);
        if !self.is_empty(member) {
            return Err(RemoveError::InUse { number, copies });
        }
        self.name_members(cx);
        let record = self.decide(Record::Gone { member });
        let state = &mut self.members[number];
        (state.usable_from, state.is_born, state.out_since) = (None, false, Some(cx.now));
        (state.is_paused, state.needed_at) = (false, None);
        state.seen.clear();
        state.age = None;
        self.unlinked(cx, member);
        self.forget_slots_of(member);
        self.forget_scrub_of(cx, member);
        self.mirrors.forget(member);
        // Nothing of it has to be flushed any more.
        self.review_flushes(cx);
        self.plan_anew(cx);
        Ok(record)
    }
}

impl Gateway {
    /// Adds a node to a volume with copies. The shell has to know where it is before the next call, if it is new.
    ///
    /// One that was added before, and is not used as its extent holds data, is used if that may be overwritten.
    pub fn add_node(&mut self, now: Time, volume: usize, new: &NewNode) -> Result<Added, JoinError> {
        let lengths =
            [("the address", new.address.len(), ADDRESS_BYTES_MAX), ("the domain", new.domain.len(), DOMAIN_BYTES_MAX)];
        for (what, len_bytes, most) in lengths {
            if !(1..=most).contains(&len_bytes) {
                return Err(JoinError::Length { what, len_bytes, most });
            }
        }
        let known = self.nodes.iter().position(|node| !node.is_gone && node.name == new.address);
        if let Some(node) = known {
            let (of, number) = (self.nodes[node].volume, self.nodes[node].extent as usize);
            let member = number as u16;
            let is_joining = |copies: &&Copies| copies.image.is_joining(member);
            let joins = self.volumes[of].copies.as_deref().filter(is_joining).is_some();
            if of != volume || !new.overwrites || !joins {
                let (address, volume) = (new.address.clone(), self.volumes[of].spec.name.clone());
                return Err(JoinError::Known { address, number, volume });
            }
            let record = self.with_copies(now, volume, |copies, cx| copies.overwrite(cx, member));
            let record = record.unwrap_or(Err(MoveError::NoCopies.into()))?;
            return Ok(Added { number, node, is_new: false, record });
        }
        if self
            .volumes
            .get(volume)
            .and_then(|state| state.copies.as_deref())
            .is_some_and(|copies| copies.image.members().len() >= MEMBERS_MAX)
        {
            return Err(JoinError::TooMany);
        }
        let added = self.with_copies(now, volume, |copies, cx| copies.add_member(cx, new));
        let (member, record) = added.unwrap_or(Err(MoveError::NoCopies.into()))?;
        let (node, first) = (self.nodes.len(), self.links.len());
        let state = &mut self.volumes[volume];
        let extent = ExtentSpec { size_bytes: new.size_bytes, ..ExtentSpec::new(&new.address) };
        for number in 0..state.spec.links.max(1) {
            self.links.add(now, Link::new(node, number));
        }
        let place = (volume, u32::from(member));
        self.nodes.push(Node::new(place, &extent, first..self.links.len(), state.batch_limits()));
        state.nodes.push(node);
        state.sizes_bytes.push(extent.size_bytes);
        state.spec.extents.push(extent);
        self.queues.add();
        self.metrics.live.add();
        Ok(Added { number: usize::from(member), node, is_new: true, record })
    }

    /// Removes a node that has no copies any more from a volume. Returns the number of the record.
    pub fn remove_node(&mut self, now: Time, volume: usize, number: usize) -> Result<u64, RemoveError> {
        let state = self.volumes.get(volume).ok_or(MoveError::NoCopies)?;
        let count = state.spec.extents.len();
        let member = number as u16;
        if number >= count || state.copies.as_deref().is_some_and(|copies| copies.image.is_gone(member)) {
            return Err(MoveError::NoNode { number, count }.into());
        }
        let removed = self.with_copies(now, volume, |copies, cx| copies.remove_member(cx, member));
        let record = removed.unwrap_or(Err(MoveError::NoCopies.into()))?;
        let node = self.volumes[volume].node_of(u32::from(member));
        self.nodes[node].is_gone = true;
        for id in self.nodes[node].links.clone().map(LinkId) {
            self.disconnect(now, id, "the node was removed from its volume");
            self.links.park(id);
        }
        let gone = &mut self.nodes[node];
        (gone.extent_id, gone.boot_id, gone.offer, gone.refusal) = (None, None, None, None);
        let state = &mut self.volumes[volume];
        state.spec.extents[number].is_gone = true;
        state.refusals.remove(&number);
        self.drop_dead_pieces();
        Ok(record)
    }
}
