//! Makes the map of a volume with copies for one that was linear. No byte moves: the map has each where it is.
//!
//! The map's file is all that is written here, and it is there as a whole or not at all. The nodes follow when the gateway that has it is
//! linked to them, each by itself, so it does not matter when this or one of them is interrupted. What the extents hold is then read once, and
//! gets its checksums, by scrubs that are noted as begun.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flashmob_core::copies::{CHUNK_BYTES, MapImage, encode_snapshot, replay};
use flashmob_core::gateway::{PassKept, ScrubKept};

use super::recall::Told;
use super::{Asking, ask_all, check_places, named};
use crate::config::{Config, LayoutKind, VolumeConfig, size_to_toml};
use crate::gateway::map_file::MapFile;
use crate::gateway::maps::{check, map_path, new_member, open_all, volume_path};
use crate::gateway::memory::ExtentMemory;
use crate::gateway::scrub_file;
use crate::gateway::server::load_keys;
use crate::store::extent_id::unique_id;
use crate::store::{ExtentId, put_file};

/// A linear volume that can be converted.
#[derive(Debug)]
pub struct Conversion {
    /// Where its map belongs.
    pub path: PathBuf,
    /// The map.
    pub image: MapImage,
    /// The addresses or paths of its members.
    pub names: Vec<String>,
    scrub_path: PathBuf,
}

impl Conversion {
    /// Asks the nodes of a volume, and makes its map. Nothing is changed.
    pub fn look(config: &Config, config_path: &Path, volume: &str) -> anyhow::Result<Conversion> {
        let volume = named(config, volume)?;
        if let LayoutKind::Striped { .. } = volume.layout {
            bail!(
                "volume '{}' is striped; only linear volumes can be converted, as each chunk has to lie on one node",
                volume.name
            );
        }
        let path = map_path(config_path, volume);
        look_at_map(&path)?;
        let keys = load_keys(config)?;
        let told = ask_all(volume, &Asking { keys: keys.as_ref(), ..Asking::default() });
        let away: Vec<String> = volume
            .nodes
            .iter()
            .zip(&told)
            .filter_map(|(node, told)| told.as_ref().err().map(|error| format!("{}: {error}", node.source.name())))
            .collect();
        anyhow::ensure!(away.is_empty(), "every node has to be there: {}", away.join("; "));
        check_places(volume, &told)?;
        let told: Vec<Told> = told.into_iter().flatten().collect();
        check_linear(volume, &told)?;
        check_extents(config, config_path, volume, &told)?;
        let members =
            volume.nodes.iter().zip(&told).map(|(node, told)| new_member(node, told.extent_id, told.size_bytes));
        let mut image = MapImage::of_linear(unique_id(), CHUNK_BYTES, members.collect())
            .context("the volume cannot be converted; copy it to a new volume with copies instead")?;
        let copies = volume.copies.as_ref().with_context(|| wanted_config(volume, &told))?;
        anyhow::ensure!(
            copies.copies == 1,
            "the configuration says {} copies; a volume is converted with one, and their number cannot be raised yet: write copies = 1",
            copies.copies
        );
        check(volume, copies, &image).context("the configuration does not fit the nodes")?;
        open_all(&mut image)?;
        let names = volume.nodes.iter().map(|node| node.source.name()).collect();
        Ok(Conversion { path, image, names, scrub_path: volume_path(config_path, volume, "scrub") })
    }

    /// Writes the map. It is durable when this returns. The gateway that is started then has it.
    pub fn write(self) -> anyhow::Result<PathBuf> {
        let file = match MapFile::open(&self.path)? {
            Some((mut file, image)) => {
                check_unused(&self.path, &image)?;
                file.rewrite(&encode_snapshot(&self.image))?;
                file
            }
            None => MapFile::create(&self.path, &self.image)?,
        };
        // While the map is locked, no gateway has another.
        let begun = PassKept { place: Some(0), ..PassKept::default() };
        let kept = ScrubKept { members: vec![begun; self.names.len()], ..ScrubKept::default() };
        let scrubs = scrub_file::encode(&kept, self.image.map_id(), scrub_file::clock());
        if let Err(error) = put_file(&self.scrub_path, &scrubs) {
            log::warn!("{}: {error}; what nodes hold may get its checksums later", self.scrub_path.display());
        }
        Ok(file.path().to_path_buf())
    }
}

/// Refuses a map that nodes may know. A gateway that is started before the volume is converted makes one that none knows.
fn look_at_map(path: &Path) -> anyhow::Result<()> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let found = replay(&bytes).with_context(|| format!("{} cannot be used", path.display()))?;
            check_unused(path, &found.image)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn check_unused(path: &Path, image: &MapImage) -> anyhow::Result<()> {
    let is_known = image.was_linear() || image.members().iter().any(|member| member.seen.is_some());
    anyhow::ensure!(
        !is_known,
        "{} exists: the volume has its map. If it was converted before, start the gateway: what is not done yet goes on",
        path.display()
    );
    Ok(())
}

/// Refuses other extents than those with the volume's data, as far as the configuration or its gateway knows them.
fn check_extents(config: &Config, config_path: &Path, volume: &VolumeConfig, told: &[Told]) -> anyhow::Result<()> {
    let known = ExtentMemory::load(config, config_path, false)?.extent_ids();
    let before = config.volumes.iter().take_while(|other| other.id != volume.id).map(|other| other.nodes.len());
    for (number, (known, told)) in known.iter().skip(before.sum()).zip(told).enumerate() {
        let (name, found) = (volume.nodes[number].source.name(), ExtentId(told.extent_id));
        if let Some(known) = known.filter(|known| *known != told.extent_id) {
            bail!(
                "node {number} ({name}) has extent {found}, and the volume's data is in extent {}; bring that back, or correct the \
                 node's address",
                ExtentId(known)
            );
        }
    }
    Ok(())
}

/// Refuses nodes that are not those of a linear volume.
fn check_linear(volume: &VolumeConfig, told: &[Told]) -> anyhow::Result<()> {
    for (number, (node, told)) in volume.nodes.iter().zip(told).enumerate() {
        let name = node.source.name();
        if told.charge.is_some() {
            bail!(
                "node {number} ({name}) belongs to a volume with copies already. If the volume was converted, and its map is lost, recover it: \
                 flashmob volume recover --accept-loss"
            );
        }
        if told.volume.is_none() {
            bail!(
                "node {number} ({name}) has an extent that belongs to no volume yet: there is nothing to convert on it; start a gateway with \
                 the linear volume once, or make a new volume with copies"
            );
        }
        let Some((layout, extents)) = &told.layout else {
            bail!("node {number} ({name}) does not say which layout its volume has; update flashmob on that node");
        };
        if *layout != LayoutKind::Linear.to_string() {
            bail!(
                "node {number} ({name}) belongs to a volume with the layout '{layout}'; only linear ones can be converted"
            );
        }
        if *extents as usize != volume.nodes.len() {
            bail!(
                "node {number} ({name}) belongs to a volume of {extents} extents, and the configuration has {} nodes; it must list all of \
                 them",
                volume.nodes.len()
            );
        }
    }
    Ok(())
}

/// What the configuration has to say before the volume can be converted.
fn wanted_config(volume: &VolumeConfig, told: &[Told]) -> String {
    let nodes = volume.nodes.iter().zip(told).enumerate();
    let sizes = nodes.map(|(number, (node, told))| {
        format!("  node {number} ({}): size = {}", node.source.name(), size_to_toml(told.size_bytes))
    });
    let sizes: Vec<String> = sizes.collect();
    format!(
        "the configuration says that volume '{}' is linear. Stop its gateway, change the configuration, and try again:\n  \
         [[volume]]: layout = \"mapped\", copies = 1\n{}",
        volume.name,
        sizes.join("\n")
    )
}
