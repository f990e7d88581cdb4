//! Recovers the map of a volume with copies from the mirrors that its nodes keep, when the gateway's disk is lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use flashmob_core::copies::{Found, Record, RecoverError, Recovered, Terms, Unreadable, Verify, encode_batch, recover};

use super::recall::Told;
use super::{Asking, ask_all, check_places, named};
use crate::config::{Config, NodeConfig};
use crate::gateway::identity::home_of;
use crate::gateway::map_file::MapFile;
use crate::gateway::maps::{check, map_path};
use crate::gateway::members::{Note, merged, take_sizes};
use crate::gateway::server::load_keys;
use crate::keys::GatewayKeys;
use crate::keys::grant::GENERATION_MAX;
use crate::store::ExtentId;

/// A map that was recovered and is not written yet.
#[derive(Debug)]
pub struct Recovery {
    /// Where it belongs.
    pub path: PathBuf,
    /// The map, and what is not known of it.
    pub recovered: Recovered,
    /// The nodes, by their numbers.
    pub nodes: Vec<NodeFound>,
    /// The configuration, as commands that are advised name it.
    pub config_name: String,
}

/// What a map is recovered from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The file of a map, in the place of the latest mirror.
    pub map: Option<&'a Path>,
    /// Mirrors count, too, that no gateway of the cluster has signed, if no other is there.
    pub accepts_unsigned: bool,
    /// Ends waiting for nodes.
    pub stop: Option<&'a AtomicBool>,
}

/// A node, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFound {
    /// Its address, or its path.
    pub name: String,
    /// Its extent, or why it is not known.
    pub extent: Result<ExtentId, String>,
    /// Epoch and version of its mirror, or why it is not believed.
    pub mirror: Result<(u64, u64), Unreadable>,
    /// Its mirror has what the recovered map lacks: see [`Recovered::branches`].
    pub is_branched: bool,
    /// Its mirror is used though it is not signed: see [`Recovered::unsigned`].
    pub is_unsigned: bool,
    /// A gateway is linked to it.
    pub is_linked: bool,
    /// The generation of keys of a gateway that it remembers and of which nothing is signed: see [`Recovered::claims`].
    pub claims: Option<u64>,
}

impl Recovery {
    /// Asks the nodes of a volume, and recovers its map. Nothing is changed.
    pub fn look(config: &Config, config_path: &Path, volume: &str, sources: &Sources<'_>) -> anyhow::Result<Recovery> {
        let mut volume = named(config, volume)?.clone();
        let copies = volume.copies.with_context(|| {
            format!("volume '{}' has no copies, and no map; its gateway needs the configuration alone", volume.name)
        })?;
        let path = map_path(config_path, &volume);
        anyhow::ensure!(
            std::fs::symlink_metadata(&path).is_err(),
            "{} exists. If it is the volume's map, start the gateway; if it is damaged, or was made by a gateway that did not find \
             the volume's map, move it away",
            path.display()
        );
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let map = sources.map.map(read).transpose()?;
        let keys = load_keys(config)?;
        let asking = Asking {
            keys: keys.as_ref(),
            accepts_unsigned: sources.accepts_unsigned,
            stop: sources.stop,
            ..Asking::default()
        };
        let mut told = ask_all(&volume, &asking);
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let generation = keys.as_ref().map_or(0, GatewayKeys::generation);
        let verifier = keys.as_ref().map(GatewayKeys::mirror_verifier);
        let verify = verifier.as_ref().map(|verifier| verifier as &dyn Verify);
        let (map, accepts_unsigned) = (map.as_deref(), sources.accepts_unsigned);
        let terms = Terms { moment, generation, map, keys: verify, accepts_unsigned };
        // The mirrors may name nodes that the configuration does not.
        let is_ours = |told: &Told| told.volume.as_ref().is_none_or(|(id, _)| *id == volume.id);
        let ours: Vec<_> = told.iter().filter(|told| told.as_ref().is_ok_and(is_ours)).cloned().collect();
        if let Ok(first) = recover(&found(&ours), &terms) {
            let (nodes, _) = merged(&volume, &first.image)?;
            if nodes != volume.nodes {
                volume.nodes = nodes;
                told = ask_all(&volume, &asking);
            }
        }
        check_places(&volume, &told)?;
        let recovered = recover(&found(&told), &terms).map_err(explain)?;
        let answered = volume.nodes.iter().zip(&told).filter(|(_, told)| told.is_ok());
        let unpin = |(node, told): (&NodeConfig, &Result<Told, String>)| {
            let extent =
                told.as_ref().map_or_else(|_| "EXTENT".to_string(), |told| ExtentId(told.extent_id).to_string());
            (node.source.name(), format!("flashmob key unpin {} {extent}", config_path.display()))
        };
        let largest = recovered.largest.and_then(|at| answered.map(unpin).nth(at));
        check_generation(&recovered, generation, largest)?;
        take_sizes(&mut volume, &recovered.image).iter().for_each(Note::log);
        check(&volume, &copies, &recovered.image).context("the recovered map does not fit the configuration")?;
        check_members(&told, &recovered)?;
        // What is recovered names those that answered by their places among them.
        let mut places = 0..;
        let nodes = volume.nodes.iter().zip(&told).map(|(node, told)| {
            let at = told.as_ref().ok().and_then(|_| places.next());
            let is_in = |list: &[usize]| at.is_some_and(|at| list.contains(&at));
            NodeFound {
                name: node.source.name(),
                extent: told.as_ref().map(|told| ExtentId(told.extent_id)).map_err(String::clone),
                mirror: at.and_then(|at| recovered.mirrors.get(at).copied()).unwrap_or(Err(Unreadable::Absent)),
                is_branched: is_in(&recovered.branches),
                is_unsigned: is_in(&recovered.unsigned),
                is_linked: told.as_ref().is_ok_and(|told| told.is_linked),
                claims: recovered
                    .claims
                    .iter()
                    .find(|(place, _)| Some(*place) == at)
                    .map(|(_, generation)| *generation),
            }
        });
        let nodes = nodes.collect();
        Ok(Recovery { path, recovered, nodes, config_name: config_path.display().to_string() })
    }

    /// What may be lost with this map: a sentence for each node that is missing, or knows of something that the map lacks.
    #[must_use]
    pub fn shortcomings(&self) -> Vec<String> {
        let Recovered { missing, without_mirror, .. } = &self.recovered;
        let of_node = |(number, node): (u16, &NodeFound)| {
            let text = if let Some(generation) = node.claims {
                format!(
                    "it says that it has obeyed a gateway with a key of generation {generation}, and nothing that a gateway has signed shows that: it is not \
                     believed, and will refuse this map. It lies, or what it remembers is damaged: take its key away (`flashmob key unpin {} {}`), or start it with \
                     --forget, and replace its extent with `flashmob volume replace`",
                    self.config_name,
                    node.extent.as_ref().map_or_else(|_| "EXTENT".to_string(), ExtentId::to_string)
                )
            } else if let (Err(error), true) = (&node.extent, missing.contains(&number)) {
                format!("it was not found: {error}")
            } else if let (Err(why), true) = (&node.mirror, without_mirror.contains(&number)) {
                format!("it has no mirror of the map that can be used: {why}")
            } else if node.is_branched {
                "it was used with another state of the map".to_string()
            } else if missing.contains(&number) {
                "it serves another extent than the volume's".to_string()
            } else {
                return None;
            };
            Some(format!("node {number} ({}): {text}", node.name))
        };
        (0..).zip(&self.nodes).filter_map(of_node).collect()
    }

    /// Statements of nodes that nothing signed shows: a sentence for each.
    #[must_use]
    pub fn claims(&self) -> Vec<String> {
        let numbers = self.nodes.iter().enumerate().filter(|(_, node)| node.claims.is_some()).map(|(number, _)| number);
        let prefixes: Vec<String> = numbers.map(|number| format!("node {number} (")).collect();
        let is_one = |text: &String| prefixes.iter().any(|prefix| text.starts_with(prefix));
        self.shortcomings().into_iter().filter(is_one).collect()
    }

    /// Refuses a volume that a gateway is linked to: what that decides from now on would be missing.
    pub fn check_idle(&self, volume: &str) -> anyhow::Result<()> {
        let linked: Vec<&str> =
            self.nodes.iter().filter(|node| node.is_linked).map(|node| node.name.as_str()).collect();
        anyhow::ensure!(
            linked.is_empty(),
            "a gateway is linked to nodes of volume '{volume}' ({}): stop it first. The links of a machine that is gone end within a \
             minute",
            linked.join(", ")
        );
        Ok(())
    }

    /// Writes the map. It is durable when this returns. The gateway that is started then has it.
    pub fn write(self) -> anyhow::Result<PathBuf> {
        let image = self.recovered.image;
        let mut file = MapFile::create(&self.path, &image)?;
        // It is at home here from now on.
        let (mut batch, home) = (Vec::new(), home_of(file.path()));
        encode_batch(&mut batch, image.version() + 1, &[Record::Home { home }])?;
        file.append(&batch).inspect_err(|_| {
            // The next attempt makes another.
            let _ = std::fs::remove_file(&self.path);
        })?;
        Ok(file.path().to_path_buf())
    }
}

/// What the nodes that answered have.
pub(super) fn found(told: &[Result<Told, String>]) -> Vec<Found<'_>> {
    let known = told.iter().filter_map(|told| told.as_ref().ok());
    known.map(|told| Found { extent_id: told.extent_id, charge: told.charge, mirror: &told.mirror }).collect()
}

/// Says what to do about mirrors that are not believed.
fn explain(error: RecoverError) -> anyhow::Error {
    let is_unsigned = matches!(error, RecoverError::NoneUsable(_, Unreadable::Unsigned));
    let error = anyhow::Error::from(error);
    if !is_unsigned {
        return error;
    }
    error.context(
        "a mirror that was written before the cluster had keys, or with the key of another cluster, is used with --accept-unsigned only: \
         somebody else may have written it",
    )
}

/// Refuses a map that no node would take from a gateway with a key of that generation.
///
/// `largest` is the node with the largest numbers, if only its word tells them, and the command that takes its key away.
fn check_generation(recovered: &Recovered, generation: u64, largest: Option<(String, String)>) -> anyhow::Result<()> {
    let needed = recovered.generation;
    let by = largest.map_or_else(String::new, |(name, unpin)| {
        format!(
            ". Only node {name} says so: if it is not to be trusted, take its key away (`{unpin}`), and recover the map without it, with --accept-loss"
        )
    });
    anyhow::ensure!(
        needed <= GENERATION_MAX,
        "a node remembers larger numbers than there are; give its data up, unless it has the only copy of a chunk: start it with --forget, and replace its extent with `flashmob \
         volume replace`"
    );
    anyhow::ensure!(
        needed <= generation || generation == 0,
        "numbers of generation {generation} of the keys are used up, as by a stolen key; make a later key first: `flashmob key rotate \
         --generation {needed}`{by}"
    );
    anyhow::ensure!(
        needed <= generation,
        "the numbers of maps are used up: give the cluster keys, `flashmob key init`"
    );
    Ok(())
}

/// Refuses an extent in a place where the map has another.
fn check_members(told: &[Result<Told, String>], recovered: &Recovered) -> anyhow::Result<()> {
    for (number, told) in told.iter().enumerate() {
        let Ok(told) = told else { continue };
        let place = recovered.image.members().iter().position(|member| member.extent_id == told.extent_id);
        if let Some(place) = place.filter(|place| *place != number) {
            bail!(
                "the extent of node {number} is that of node {place} in the map; correct the order of the nodes in the configuration"
            );
        }
    }
    Ok(())
}
