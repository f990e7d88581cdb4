//! A gateway that takes over a volume on another machine, with the map that the nodes keep.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use super::recover::{Recovery, Sources};
use crate::config::Config;
use crate::gateway::maps::map_path;

/// Makes the maps of the volumes with copies that have none beside the configuration, from the mirrors of their nodes. No map is made, of no
/// volume, unless all nodes are there with mirrors that agree, and no gateway is linked to any. `stop` ends it.
pub fn take_over(config: &Config, config_path: &Path, stop: Option<&AtomicBool>) -> anyhow::Result<()> {
    let is_absent = |path: &Path| std::fs::symlink_metadata(path).is_err();
    let without_map =
        config.volumes.iter().filter(|volume| volume.copies.is_some() && is_absent(&map_path(config_path, volume)));
    let mut found = Vec::new();
    for volume in without_map {
        let name = &volume.name;
        let recovery = Recovery::look(config, config_path, name, &Sources { stop, ..Sources::default() })
            .with_context(|| format!("volume '{name}' cannot be taken over"))?;
        recovery.check_idle(name)?;
        let shortcomings = recovery.shortcomings();
        anyhow::ensure!(
            shortcomings.is_empty(),
            "volume '{name}' cannot be taken over: {}. What is recorded on such a node only would be lost. Bring all nodes back, or recover \
             the map without them: `flashmob volume recover {} {name} --accept-loss`",
            shortcomings.join("; "),
            config_path.display()
        );
        found.push((name, recovery));
    }
    for (name, recovery) in found {
        let (epoch, version) = recovery.recovered.of;
        let nodes = recovery.nodes.len();
        let path = recovery.write()?;
        log::warn!(
            "volume {name}: taken over with the map of epoch {epoch} and version {version} that its {nodes} nodes keep; {} is written, and \
             all copies are compared now",
            path.display()
        );
    }
    Ok(())
}
