//! The nodes of volumes with copies: their maps name them, once one was added while the volume was used.
//!
//! From then on the configuration only seeds a map. Where both have a node, the configuration says how it is reached: somebody has edited it since. Which
//! nodes there are says the map.

use std::net::SocketAddr;
use std::path::Path;

use flashmob_core::copies::{DOMAIN_BYTES_MAX, MapImage, is_unknown_extent};
use flashmob_core::gateway::{JoinError, MoveError, NewNode, RemoveError};
use flashmob_core::units::{Bytes, Time};

use super::maps::{Known, own_domain};
use super::open::open_place;
use super::server::GatewayServer;
use crate::config::address::parse_node_address;
use crate::config::{Config, NodeConfig, NodeSource, VolumeConfig};
use crate::status::replace::Refusal;
use crate::status::volumes::{AddAnswer, AddRequest, RemoveAnswer, RemoveRequest};

/// How a map and the configuration differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Note {
    /// As it should be.
    Info(String),
    /// Somebody has to look at it.
    Warning(String),
}

impl Note {
    pub fn log(&self) {
        match self {
            Note::Info(text) => log::info!("{text}"),
            Note::Warning(text) => log::warn!("{text}"),
        }
    }
}

/// The configuration with the nodes that the maps have, and how these differ from those that it names.
pub(super) fn with_members(config: &Config, config_path: &Path, known: &Known) -> anyhow::Result<(Config, Vec<Note>)> {
    let (mut config, mut notes) = (config.clone(), Vec::new());
    for (number, volume) in config.volumes.iter_mut().enumerate().filter(|(_, volume)| volume.copies.is_some()) {
        // One that cannot be read is refused later, with its reason.
        let Some(image) = known.image(number, config_path, volume) else { continue };
        let (nodes, differences) = merged(volume, &image)?;
        volume.nodes = nodes;
        notes.extend(differences);
        notes.extend(take_sizes(volume, &image));
    }
    Ok((config, notes))
}

/// Gives the nodes the sizes that the map has for them: an extent may have grown. Returns where the configuration says something else.
pub(super) fn take_sizes(volume: &mut VolumeConfig, image: &MapImage) -> Vec<Note> {
    let mut notes = Vec::new();
    for (number, (node, member)) in volume.nodes.iter_mut().zip(image.members()).enumerate() {
        let known_bytes = member.size_bytes;
        // One that was added, and was never there.
        if known_bytes == 0 {
            continue;
        }
        let Some(written_bytes) = node.size_bytes.replace(known_bytes).filter(|&bytes| bytes != known_bytes) else {
            continue;
        };
        if !node.is_gone {
            let (volume, written, known) = (&volume.name, Bytes(written_bytes), Bytes(known_bytes));
            notes.push(Note::Warning(format!(
                "volume {volume}: the configuration says that node {number} has {written}, and the map {known}, which counts"
            )));
        }
    }
    notes
}

/// Which line of the configuration each member is, if any. A line is one member at most.
struct Lines<'a> {
    volume: &'a VolumeConfig,
    image: &'a MapImage,
    /// By member.
    taken: Vec<Option<usize>>,
}

impl Lines<'_> {
    /// Gives each member without a line the first free one that `fits`, given the line's and the member's number.
    fn take(&mut self, fits: impl Fn(usize, &NodeConfig, u16) -> bool) {
        for number in 0..self.taken.len() {
            // At most MEMBERS_MAX.
            let member = number as u16;
            if self.taken[number].is_some() || self.image.is_gone(member) {
                continue;
            }
            let mut lines = self.volume.nodes.iter().enumerate();
            let free = lines.find(|&(at, node)| !self.taken.contains(&Some(at)) && fits(at, node, member));
            self.taken[number] = free.map(|(at, _)| at);
        }
    }
}

/// The nodes of a volume by the numbers that its map has for them, and how the configuration differs.
pub(super) fn merged(volume: &VolumeConfig, image: &MapImage) -> anyhow::Result<(Vec<NodeConfig>, Vec<Note>)> {
    let members = image.members().len();
    // At most MEMBERS_MAX.
    let numbers = || 0..members as u16;
    if numbers().all(|member| image.address(member).is_none() && !image.is_gone(member)) {
        return Ok((volume.nodes.clone(), Vec::new()));
    }
    let known = |member: u16| image.members().get(usize::from(member)).map(|known| known.extent_id);
    let mut lines = Lines { volume, image, taken: vec![None; members] };
    lines.take(|_, node, member| node.extent.is_some_and(|extent| known(member) == Some(extent.0)));
    lines.take(|_, node, member| {
        let is_there = matches!(&node.source, NodeSource::Remote { address } if image.address(member) == Some(address));
        // A line that names an extent is no other's.
        let may_be = |id: [u8; 16]| known(member).is_some_and(|known| known == id || is_unknown_extent(&known));
        is_there && node.extent.is_none_or(|extent| may_be(extent.0))
    });
    // The map has no address of nodes in the gateway's process. They keep their order.
    lines.take(|_, node, member| image.address(member).is_none() && matches!(node.source, NodeSource::Local { .. }));
    // Whoever edits the address of a line means the node that has it; a line that was added is none of those that the map has beyond.
    lines.take(|at, node, member| at == usize::from(member) && image.is_seed(member) && node.extent.is_none());
    let taken = lines.taken;
    let mut notes = Vec::new();
    for member in numbers() {
        let line = taken[usize::from(member)].map(|at| &volume.nodes[at].source);
        if let (Some(NodeSource::Remote { address }), Some(known)) = (line, image.address(member))
            && address != known
        {
            notes.push(Note::Warning(format!(
                "volume {}: node {member} is at {known} in the map, and at {address} in the configuration, which is used; if that is another \
                 device, correct the configuration, and use flashmob volume add",
                volume.name
            )));
        }
    }
    let mut nodes = Vec::with_capacity(members);
    for member in numbers() {
        let known = &image.members()[usize::from(member)];
        let size_bytes = Some(known.size_bytes).filter(|&bytes| bytes > 0);
        let is_gone = image.is_gone(member);
        nodes.push(match (taken[usize::from(member)].map(|at| &volume.nodes[at]), image.address(member)) {
            // What was added without a size has one by now.
            (Some(node), _) => NodeConfig { size_bytes: node.size_bytes.or(size_bytes), ..node.clone() },
            (None, None) if !is_gone => anyhow::bail!(
                "volume '{}': the map has node {member}, of which it has no address, and no line of the configuration is left for it; write the \
                 line again that it had",
                volume.name
            ),
            (None, address) => NodeConfig {
                source: NodeSource::Remote { address: address.unwrap_or("removed").to_string() },
                size_bytes,
                extent: None,
                domain: Some(known.domain.clone()),
                is_gone,
            },
        });
    }
    let is_of_map = |member: &u16| taken[usize::from(*member)].is_none() && !image.is_gone(*member);
    let of_map = numbers().filter(is_of_map).map(|member| (member, nodes[usize::from(member)].source.name()));
    let of_map: Vec<String> = of_map.map(|(member, name)| format!("{member} ({name})")).collect();
    if !of_map.is_empty() {
        let which = of_map.join(", ");
        notes.push(Note::Info(format!("volume {}: of its map alone: node {which}", volume.name)));
    }
    for (at, node) in volume.nodes.iter().enumerate().filter(|(at, _)| !taken.contains(&Some(*at))) {
        notes.push(Note::Warning(format!(
            "volume {}: {} is node {at} in the configuration, and none in the map: it is not used; add it with flashmob volume add, or remove it from \
             the configuration",
            volume.name,
            node.source.name()
        )));
    }
    Ok((nodes, notes))
}

impl GatewayServer {
    /// Whether a node may be on another machine: only then its address can change.
    #[must_use]
    pub fn has_nodes_elsewhere(&self) -> bool {
        let is_elsewhere = |source: &NodeSource| match source {
            NodeSource::Remote { address } => !address.parse::<SocketAddr>().is_ok_and(|addr| addr.ip().is_loopback()),
            NodeSource::Local { .. } => false,
        };
        let mut nodes = self.volumes.iter().flat_map(|volume| &volume.nodes).filter(|node| !node.is_gone);
        nodes.any(|node| is_elsewhere(&node.source))
    }

    /// Adds a node. Returns the answer, and the volume with the number of the record that must be durable.
    pub(super) fn add_node(&mut self, now: Time, request: &AddRequest) -> Result<(AddAnswer, (usize, u64)), Refusal> {
        let volume = self.volume_named(&request.volume)?;
        let address = parse_node_address(&request.address)
            .map_err(|error| Refusal::Bad(format!("'{}' is no address of a node: {error}", request.address)))?;
        let source = NodeSource::Remote { address: address.clone() };
        let domain = request.domain.clone().unwrap_or_else(|| own_domain(&source));
        if domain.len() > DOMAIN_BYTES_MAX || domain.trim() != domain || domain.chars().any(char::is_control) {
            return Err(Refusal::Bad(format!(
                "a domain is 1 to {DOMAIN_BYTES_MAX} bytes of printable text, without spaces around it"
            )));
        }
        if let Some(bytes) = request.size_bytes.filter(|&bytes| bytes == 0) {
            return Err(Refusal::Bad(format!("a node cannot have {bytes} bytes")));
        }
        let new = NewNode {
            address: address.clone(),
            size_bytes: request.size_bytes,
            domain: domain.clone(),
            overwrites: request.overwrite,
        };
        let links_before = self.gateway.links_count();
        let added = self.gateway.add_node(now, volume, &new).map_err(|error| match error {
            JoinError::Length { .. } => Refusal::Bad(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        })?;
        if added.is_new {
            let config = &self.volumes[volume];
            let node = NodeConfig {
                source,
                size_bytes: request.size_bytes,
                extent: None,
                domain: Some(domain),
                is_gone: false,
            };
            // A remote one is not opened: its keys are compared when it is linked.
            let extents = &mut self.links.extents;
            let place = open_place(config, &node, extents, self.clock, &self.wake, self.share_bytes, None);
            let place = place.map_err(|error| Refusal::Conflict(format!("{error:#}")))?;
            self.links.add(place, self.gateway.links_count() - links_before);
            if let Some(memory) = &mut self.memory {
                memory.add(&config.id, added.number);
            }
        }
        log::info!("volume {}: node {} at {address} is added", request.volume, added.number);
        let answer = AddAnswer { volume: request.volume.clone(), node: added.number, address };
        Ok((answer, (volume, added.record)))
    }

    /// Removes a node that has no copies any more.
    pub(super) fn remove_node(
        &mut self,
        now: Time,
        request: &RemoveRequest,
    ) -> Result<(RemoveAnswer, (usize, u64)), Refusal> {
        let volume = self.volume_named(&request.volume)?;
        let removed = self.gateway.remove_node(now, volume, request.node).map_err(|error| match error {
            RemoveError::Undecided(MoveError::NoNode { .. }) => Refusal::Unknown(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        })?;
        log::info!("volume {}: node {} is removed", request.volume, request.node);
        Ok((RemoveAnswer { volume: request.volume.clone(), node: request.node }, (volume, removed)))
    }
}

#[cfg(test)]
#[path = "members/tests.rs"]
mod tests;
