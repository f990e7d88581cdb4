//! The decisions that a volume's map lacks, taken from the mirror of a node that refuses it: its end was damaged, or it is an older state.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use flashmob_core::copies::{Record, Terms, Verify, catch_up as caught_up, encode_batch, encode_snapshot};
use flashmob_core::wire::generation::generation_of;

use super::recall::Told;
use super::recover::found;
use super::{Asking, ask_all};
use crate::config::{Config, NodeConfig, VolumeConfig};
use crate::gateway::identity::home_of;
use crate::gateway::map_file::MapFile;
use crate::gateway::maps::{check, map_path};
use crate::gateway::members::{Note, merged, take_sizes};
use crate::gateway::server::load_keys;
use crate::keys::GatewayKeys;

/// How long the links of this process may take to end at nodes, and how often that is looked at.
const LINKS_END_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The answers of a volume's nodes, none of which a gateway is linked to: a later start of the volume would lose what it has decided.
fn told_by_idle(volume: &VolumeConfig, asking: &Asking<'_>) -> anyhow::Result<Vec<Result<Told, String>>> {
    let until = Instant::now() + LINKS_END_WITHIN;
    loop {
        let told = ask_all(volume, asking);
        anyhow::ensure!(!asking.stop.is_some_and(|stop| stop.load(Ordering::SeqCst)), "stopped");
        let is_linked =
            |(_, told): &(&NodeConfig, &Result<Told, String>)| told.as_ref().is_ok_and(|told| told.is_linked);
        let Some((node, _)) = volume.nodes.iter().zip(&told).find(is_linked) else { return Ok(told) };
        let name = node.source.name();
        anyhow::ensure!(Instant::now() < until, "volume '{}': another gateway is linked to {name}", volume.name);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Writes the maps of these volumes anew, each with what a mirror has that continues it. No gateway may run with them. On an error the map of a volume is
/// as it was: no mirror that is believed continues it, or a node is away that may know more, or `stop` was set.
pub fn catch_up(config: &Config, config_path: &Path, volumes: &[usize], stop: &AtomicBool) -> anyhow::Result<()> {
    let keys = load_keys(config)?;
    let asking = Asking { keys: keys.as_ref(), stop: Some(stop), ..Asking::default() };
    let generation = keys.as_ref().map_or(0, GatewayKeys::generation);
    let verifier = keys.as_ref().map(GatewayKeys::mirror_verifier);
    for volume in volumes.iter().filter_map(|&number| config.volumes.get(number)) {
        let name = &volume.name;
        let copies = volume.copies.as_ref().with_context(|| format!("volume '{name}' has no copies"))?;
        let path = map_path(config_path, volume);
        let (mut file, map) =
            MapFile::open(&path)?.with_context(|| format!("volume '{name}': {} is gone", path.display()))?;
        let mut with_members = volume.clone();
        with_members.nodes = merged(volume, &map)?.0;
        let told = told_by_idle(&with_members, &asking)?;
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let verify = verifier.as_ref().map(|verifier| verifier as &dyn Verify);
        let terms = Terms { moment, generation, map: None, keys: verify, accepts_unsigned: false };
        let image = caught_up(&map, &found(&told), &terms).with_context(|| {
            format!("volume '{name}': no node is there whose mirror has what the map lacks, and nothing else")
        })?;
        anyhow::ensure!(
            generation_of(image.epoch(), image.version()) <= generation,
            "volume '{name}': the mirror's numbers need a later key than this gateway has"
        );
        take_sizes(&mut with_members, &image).iter().for_each(Note::log);
        check(&with_members, copies, &image).context("the mirror's map does not fit the configuration")?;
        // Another gateway may have come meanwhile.
        told_by_idle(&with_members, &asking)?;
        file.rewrite(&encode_snapshot(&image))?;
        // It is at home where it was.
        let mut batch = Vec::new();
        encode_batch(&mut batch, image.version() + 1, &[Record::Home { home: home_of(file.path()) }])?;
        file.append(&batch)?;
        log::warn!(
            "volume {name}: its map lacked decisions that the mirror of a node has; they are taken from there, and all copies are compared now"
        );
    }
    Ok(())
}
