//! Recovers a volume's map from the mirrors that its nodes keep.
//!
//! The latest mirror has every decision that a copy lacks something ([`crate::gateway`] waits for that), but may lack the last ones that a
//! chunk is open, or that a copy is current again. So all chunks are taken for open: the gateway compares their copies when it starts.

use super::signed::{self, Unreadable, Verify};
use super::{MapError, MapImage, Member, ReplayError, is_unknown_extent, replay};
use crate::planted::{self, Bug};
use crate::wire::generation::{first_of, generation_of};
use crate::wire::hello::Charge;
use crate::wire::mirror::MirrorState;

/// More starts of gateways, and more decisions, than may have been made of which no node knows: hellos with their numbers may still arrive, and
/// nodes refuse earlier ones from then on.
const UNSEEN_MAX: u64 = 1 << 20;

/// What a mirror shows: the map's identity, and how much of it; `None` if it shows no map. What a signed one says is not verified.
#[must_use]
pub fn mirror_state(mirror: &[u8]) -> Option<([u8; 16], MirrorState)> {
    if signed::is_signed(mirror) {
        return signed::signed_state(mirror);
    }
    let replayed = replay(mirror).ok()?;
    Some((replayed.image.map_id(), state_of(&replayed.image, replayed.valid_bytes)))
}

fn state_of(image: &MapImage, len_bytes: u64) -> MirrorState {
    MirrorState { epoch: image.epoch(), nonce: image.nonce(), version: image.version(), len_bytes }
}

/// A node, as whoever recovers a map finds it.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The identity of its extent.
    pub extent_id: [u8; 16],
    /// The gateway that was last in charge there.
    pub charge: Option<Charge>,
    /// Its mirror; empty without one.
    pub mirror: &'a [u8],
}

/// What a map is recovered with.
#[derive(Clone, Copy, Default)]
pub struct Terms<'a> {
    /// Larger each time: it keeps the numbers of one recovery from being those of another, of which no node may have heard. Milliseconds
    /// since 1970.
    pub moment: u64,
    /// The generation of the gateway's key, 0 without keys. The numbers are of this one at least: later than any with which a gateway of an earlier
    /// one took charge.
    pub generation: u64,
    /// A map's file, in the place of the latest mirror: who used a stolen key may have written the mirrors.
    pub map: Option<&'a [u8]>,
    /// What verifies mirrors, in a cluster with keys: others are not believed. Without, all are.
    pub keys: Option<&'a dyn Verify>,
    /// Others are believed if there is none that is verified.
    pub accepts_unsigned: bool,
}

/// A recovered map, and what is not known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The map, with all chunks open. It has not the epoch of a start of a gateway.
    pub image: MapImage,
    /// Which of the nodes that were found has the mirror that it comes from; `None` if it comes from [`Terms::map`].
    pub from: Option<usize>,
    /// The epoch and the version that it was recovered from.
    pub of: (u64, u64),
    /// The generation of keys without which no node takes the map.
    pub generation: u64,
    /// Epoch and version of each node's mirror, or why it is not believed.
    pub mirrors: Vec<Result<(u64, u64), Unreadable>>,
    /// Which of them have what the map lacks: a gateway was started with an older state of the map, an older map was given, or an earlier key has signed them.
    /// What was acknowledged with that state, or the other, is not known.
    pub branches: Vec<usize>,
    /// Which of them are not signed by somebody who may, in a cluster with keys.
    pub unsigned: Vec<usize>,
    /// Which of the nodes remember a gateway with numbers of a later generation of the keys than any that is known here, and which: that is not signed, so
    /// it is not believed, and counts for nothing.
    pub claims: Vec<(usize, u64)>,
    /// Which of the nodes has the largest numbers, if that is not the one that the map comes from: [`Recovered::generation`] may be due to them.
    pub largest: Option<usize>,
    /// Members whose extent was not found. Only they may know the last decisions.
    pub missing: Vec<u16>,
    /// Members whose extent was found, and a mirror of the map was not: what they alone know is lost as well.
    pub without_mirror: Vec<u16>,
    /// Chunks without a current copy on the nodes that were found.
    pub without_copy: Vec<u32>,
    /// Other chunks that have fewer current copies there than the volume is to have.
    pub with_fewer: u32,
}

/// Why no map can be recovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// No node has a mirror.
    #[error("no node keeps a mirror of the volume's map; nodes and gateways of earlier builds keep none")]
    NoMirror,
    /// There are some, and none is believed: one of them, and why.
    #[error("no node has a mirror of the volume's map that can be used; that beside extent {0:032x} is {1}")]
    NoneUsable(u128, Unreadable),
    /// They belong to several maps: extents, and the maps beside them.
    #[error(
        "the nodes keep mirrors of two maps, {:032x} beside extent {:032x} and {:032x} beside extent {:032x}; configure the nodes of one volume only",
        .0[1], .0[0], .1[1], .1[0]
    )]
    OtherMap([u128; 2], [u128; 2]),
    /// An extent is there twice.
    #[error(
        "two nodes have the extent {0:032x}; one of them is a copy of the other: configure the one that was in use"
    )]
    Twice(u128),
    /// The given map cannot be read.
    #[error("the given map cannot be read: {0}")]
    Given(#[from] ReplayError),
    /// The mirror's map takes no more changes.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Recovers a map. The longest part of it is one look at each chunk.
pub fn recover(found: &[Found<'_>], terms: &Terms<'_>) -> Result<Recovered, RecoverError> {
    let mut mirrors: Vec<Result<Mirrored, Unreadable>> = found.iter().map(|node| mirrored(node, terms)).collect();
    let given = terms.map.map(|map| Ok::<_, RecoverError>(replay(map)?.image)).transpose()?;
    let map_id = of_one_map(&mut mirrors, given.as_ref());
    let images: Vec<Option<&MapImage>> =
        mirrors.iter().map(|mirror| mirror.as_ref().ok().map(|mirror| &mirror.image)).collect();
    let number = |image: &MapImage| (image.epoch(), image.version());
    for (at, node) in found.iter().enumerate() {
        if found[..at].iter().any(|other| other.extent_id == node.extent_id) {
            return Err(RecoverError::Twice(u128::from_be_bytes(node.extent_id)));
        }
    }
    let mut there = images.iter().enumerate().filter_map(|(at, image)| Some((at, (*image)?)));
    let is_other = |(_, image): &(usize, &MapImage)| Some(image.map_id()) != map_id;
    if let (Some(one), Some(other)) = (there.clone().find(|found| !is_other(found)), there.clone().find(is_other)) {
        let named = |(at, image): (usize, &MapImage)| [found[at].extent_id, image.map_id()].map(u128::from_be_bytes);
        return Err(RecoverError::OtherMap(named(one), named(other)));
    }
    let latest = if planted::is(Bug::FirstMirrorRecovered) {
        there.next()
    } else {
        // Not the one of the latest start: that may have been one with an older state of the map. But of the latest key: who had an earlier one may
        // have written what was signed with that. Of equal ones the first.
        let generation = |at: usize| mirrors.get(at).and_then(|mirror| mirror.as_ref().ok()?.generation);
        there.max_by_key(|(at, image)| (generation(*at), image.decisions(), number(image), std::cmp::Reverse(*at)))
    };
    let (from, image) = match &given {
        Some(image) => (None, image),
        None => latest.map(|(at, image)| (Some(at), image)).ok_or_else(|| no_mirror(found, &mirrors))?,
    };
    let (of, mut image) = (number(image), image.clone());
    let map_id = image.map_id();
    // Each of them is believed as far as a node takes it for true: it refuses a map that has less.
    let claimed = |of: fn(&MapImage) -> u64, known: u64| {
        images.iter().flatten().map(|image| of(image)).max().unwrap_or(0).max(known)
    };
    // With keys a node's word alone is not, for a later generation than any that is signed for: the largest one would be the last.
    let signed_for =
        |mirror: &Mirrored| mirror.generation.map(|_| generation_of(mirror.image.epoch(), mirror.image.version()));
    let signed = mirrors.iter().flatten().filter_map(signed_for).max().unwrap_or(0).max(terms.generation);
    let is_claim = |charge: &Charge| terms.keys.is_some() && charge.generation() > signed;
    let told = || (0..).zip(found).filter_map(|(at, node)| Some((at, node.charge?)));
    let of_map = || told().filter(|(_, charge)| charge.map_id == map_id);
    let claims =
        of_map().filter(|(_, charge)| is_claim(charge)).map(|(at, charge)| (at, charge.generation())).collect();
    let charges = || of_map().map(|(_, charge)| charge).filter(|charge| !is_claim(charge));
    let largest =
        of_map().filter(|(_, charge)| !is_claim(charge)).max_by_key(|(_, charge)| (charge.epoch, charge.version));
    let largest = largest.filter(|(at, charge)| Some(*at) != from && (charge.epoch, charge.version) > of);
    let latest = |of: fn(&Charge) -> u64, known| charges().map(|charge| of(&charge)).max().unwrap_or(0).max(known);
    let later = |than: u64| than.checked_add(UNSEEN_MAX)?.checked_add(terms.moment);
    let floor = first_of(terms.generation).ok_or(MapError::Version)?;
    let epoch = latest(|charge| charge.epoch, claimed(MapImage::epoch, image.epoch()));
    let epoch = later(epoch.max(floor)).ok_or(MapError::Version)?;
    if !planted::is(Bug::RecoveredTrusted) {
        image.open_all()?;
    }
    let history = image.history();
    // Larger by more than the epoch, so that it counts for more decisions than mirrors that were not found, and than earlier recoveries.
    let decisions = claimed(MapImage::decisions, floor);
    let at_least = epoch.checked_add(decisions).ok_or(MapError::Version)?;
    let version = later(latest(|charge| charge.version, image.version)).and_then(later).ok_or(MapError::Version)?;
    let version = version.max(later(at_least).ok_or(MapError::Version)?);
    image.recovered(epoch, version)?;
    for (number, member) in (0u16..).zip(image.members().to_vec()) {
        let of_member = found.iter().find(|node| node.extent_id == member.extent_id);
        // What it accepted since is not known here, so it is not known either whether it has forgotten something of that.
        let is_known =
            of_member.map_or(given.is_none(), |node| node.charge.is_none_or(|charge| history.knows(&charge)));
        if !is_known {
            image.forget_seen(number);
        }
    }
    let (mut missing, mut without_mirror) = (Vec::new(), Vec::new());
    for (number, member) in (0u16..).zip(image.members()) {
        match found.iter().position(|node| node.extent_id == member.extent_id) {
            Some(at) if images[at].is_none() => without_mirror.push(number),
            None if !is_unknown_extent(&member.extent_id) => missing.push(number),
            _ => {}
        }
    }
    let is_unsigned = |mirror: &Mirrored| mirror.generation.is_none() && terms.keys.is_some();
    let unsigned = (0..).zip(&mirrors).filter(|(_, mirror)| mirror.as_ref().is_ok_and(is_unsigned)).map(|(at, _)| at);
    let (mut without_copy, mut with_fewer) = (Vec::new(), 0);
    for chunk in 0..image.chunks() {
        let behind = image.marks(chunk).behind;
        let places = image.places(chunk).iter().enumerate();
        let left = places.filter(|(copy, place)| behind & (1 << copy) == 0 && !missing.contains(&place.member)).count();
        if left == 0 {
            without_copy.push(chunk);
        } else if left < image.copies() {
            with_fewer += 1;
        }
    }
    // One of the same start may have more if it is not the one with the latest key, or a map was given.
    let is_later = |image: &MapImage| (image.epoch(), image.nonce()) == history.present && image.version() > of.1;
    let is_branch = |image: &MapImage| is_later(image) || history.lacking(&state_of(image, 0)).is_some();
    let branches = (0..).zip(&images).filter(|(_, image)| image.is_some_and(is_branch)).map(|(at, _)| at);
    Ok(Recovered {
        branches: branches.collect(),
        unsigned: unsigned.collect(),
        mirrors: mirrors
            .iter()
            .map(|mirror| mirror.as_ref().map(|mirror| number(&mirror.image)).map_err(|why| *why))
            .collect(),
        image,
        from,
        of,
        generation: generation_of(epoch, version),
        claims,
        largest: largest.map(|(at, _)| at),
        missing,
        without_mirror,
        without_copy,
        with_fewer,
    })
}

/// What a node's mirror was found to have.
struct Mirrored {
    image: MapImage,
    /// Of the key that has signed it; `None` if that is not somebody who may.
    generation: Option<u64>,
}

/// The map that a node's mirror shows.
fn mirrored(node: &Found<'_>, terms: &Terms<'_>) -> Result<Mirrored, Unreadable> {
    let read = |map: &[u8]| replay(map).map_err(|_| Unreadable::Damaged);
    let accepts_unsigned = terms.keys.is_none() || terms.accepts_unsigned || signed::are_unsigned_believed();
    let (image, map_id, state, generation) = if node.mirror.is_empty() {
        return Err(Unreadable::Absent);
    } else if signed::is_signed(node.mirror) {
        let found = signed::read_signed(node.mirror, terms.keys, accepts_unsigned)?;
        (read(&found.map)?.image, found.map_id, found.state, found.generation)
    } else if accepts_unsigned {
        let replayed = read(node.mirror)?;
        let (map_id, state) = (replayed.image.map_id(), state_of(&replayed.image, replayed.valid_bytes));
        (replayed.image, map_id, state, None)
    } else {
        return Err(Unreadable::Unsigned);
    };
    if (image.map_id(), state_of(&image, state.len_bytes)) != (map_id, state) {
        return Err(Unreadable::Damaged);
    }
    let is_of = |charge: Charge| charge.map_id == map_id && state.fits(&charge);
    let is_of_key = |generation| generation_of(state.epoch, state.version) <= generation;
    let is_believed = node.charge.is_none_or(is_of) && generation.is_none_or(is_of_key);
    if is_believed { Ok(Mirrored { image, generation }) } else { Err(Unreadable::Beyond) }
}

/// The identity of the map and the state of it that a node's mirror shows, if it is believed.
#[must_use]
pub fn verified(node: &Found<'_>, terms: &Terms<'_>) -> Option<([u8; 16], MirrorState)> {
    let image = mirrored(node, terms).ok()?.image;
    Some((image.map_id(), state_of(&image, node.mirror.len() as u64)))
}

/// Leaves out mirrors that do not count beside the others: those that are not signed where one is, and those of another map that are not signed with the
/// latest key, or where a map is given, as who has an earlier key, or is not believed, may have written them. The identity of the map that counts, if any.
fn of_one_map(mirrors: &mut [Result<Mirrored, Unreadable>], given: Option<&MapImage>) -> Option<[u8; 16]> {
    let generation = mirrors.iter().flatten().map(|mirror| mirror.generation).max().flatten();
    let latest = mirrors.iter().flatten().find(|mirror| mirror.generation == generation);
    let map_id = given.or(latest.map(|mirror| &mirror.image)).map(MapImage::map_id);
    for entry in mirrors {
        let Ok(mirror) = entry else { continue };
        let is_other = Some(mirror.image.map_id()) != map_id;
        if mirror.generation.is_none() && generation.is_some() {
            *entry = Err(Unreadable::Unsigned);
        } else if is_other && (given.is_some() || mirror.generation != generation) {
            *entry = Err(Unreadable::Beyond);
        }
    }
    map_id
}

/// The map that a node's mirror shows.
#[cfg(test)]
pub(super) fn image_of(node: &Found<'_>, terms: &Terms<'_>) -> Result<MapImage, Unreadable> {
    mirrored(node, terms).map(|mirror| mirror.image)
}

/// Why no mirror is believed. Of several reasons, the one about which something can be done.
fn no_mirror(found: &[Found<'_>], mirrors: &[Result<Mirrored, Unreadable>]) -> RecoverError {
    let why = found.iter().zip(mirrors).filter_map(|(node, mirror)| match mirror {
        Err(Unreadable::Absent) | Ok(_) => None,
        Err(why) => Some((node, *why)),
    });
    let why = why.max_by_key(|(_, why)| *why == Unreadable::Unsigned);
    why.map_or(RecoverError::NoMirror, |(node, why)| RecoverError::NoneUsable(u128::from_be_bytes(node.extent_id), why))
}

/// The map with the decisions that it lacks, if one of these nodes has them in its mirror, and that continues the map: it is to be written by
/// whoever asks if nothing that counts was decided with the map since. All chunks are open, and nodes are waited for as after a cut. `None` if no mirror
/// does, or it is not believed.
///
/// A map whose dropped end was noticed lacks a batch, which the mirror has as a whole. Otherwise it may be any older state, and no other node may know
/// more: then each has to be there with a mirror.
#[must_use]
pub fn catch_up(map: &MapImage, found: &[Found<'_>], terms: &Terms<'_>) -> Option<MapImage> {
    let history = map.history();
    let image_of = |node: &Found<'_>| {
        let image = mirrored(node, terms).ok()?.image;
        (image.map_id() == map.map_id()).then_some(image)
    };
    let continues =
        |node: &Found<'_>| image_of(node).is_some_and(|image| history.is_continued_by(&image.history(), map.is_cut()));
    let is_known = |(number, member): (u16, &Member)| {
        let node = found.iter().find(|node| node.extent_id == member.extent_id);
        let agrees = node.is_some_and(|node| {
            image_of(node).is_some_and(|image| history.lacking(&state_of(&image, 0)).is_none()) || continues(node)
        });
        agrees || map.is_gone(number) || is_unknown_extent(&member.extent_id)
    };
    if !map.is_cut() && !(0..).zip(map.members()).all(is_known) {
        return None;
    }
    // What the others remember of charges counts, and what they have in their mirrors does not.
    let found = found.iter().map(|node| if continues(node) { *node } else { Found { mirror: &[], ..*node } });
    let mut image = recover(&found.collect::<Vec<_>>(), &Terms { map: None, ..*terms }).ok()?.image;
    image.cut().ok()?;
    // The present start may have found an older state of an extent, and what it remembers now does not tell it any more.
    image.fall_behind_as_in(map).ok()?;
    Some(image)
}
