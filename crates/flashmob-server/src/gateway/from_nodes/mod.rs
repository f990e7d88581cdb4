//! Maps that are made of what nodes say, while no gateway runs: recovered from their mirrors, or that of a linear volume.

pub mod catch_up;
pub mod convert;
mod recall;
pub mod recover;
mod take_over;

use anyhow::{Context, bail};

use crate::config::{Config, NodeConfig, VolumeConfig};
pub(super) use recall::{Asking, Told, ask};

pub(super) use take_over::take_over;

/// The volume with a name.
fn named<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a VolumeConfig> {
    let names = || config.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = config.volumes.iter().find(|candidate| candidate.name == name);
    found.with_context(|| format!("there is no volume '{name}'; there are: {}", names()))
}

/// What each node says, or why it says nothing. All are asked at once.
fn ask_all(volume: &VolumeConfig, asking: &Asking<'_>) -> Vec<Result<Told, String>> {
    std::thread::scope(|scope| {
        let ask_of = |node: &NodeConfig| match node.is_gone {
            true => Err(anyhow::anyhow!("it was removed from the volume")),
            false => ask(&node.source, asking),
        };
        let asked: Vec<_> = volume.nodes.iter().map(|node| scope.spawn(move || ask_of(node))).collect();
        let told = asked.into_iter().map(|asked| match asked.join() {
            Ok(told) => told.map_err(|error| format!("{error:#}")),
            // It was reported on standard error.
            Err(_) => Err("internal error".to_string()),
        });
        told.collect()
    })
}

/// Refuses nodes that belong elsewhere.
fn check_places(volume: &VolumeConfig, told: &[Result<Told, String>]) -> anyhow::Result<()> {
    for (number, (node, told)) in volume.nodes.iter().zip(told).enumerate() {
        let Ok(Told { volume: Some((volume_id, place)), .. }) = told else { continue };
        let name = node.source.name();
        if *volume_id != volume.id {
            bail!(
                "node {number} ({name}) has an extent of volume {}, and the configuration says '{}'; correct its address, \
                 or the volume's name or id",
                flashmob_text::quoted(volume_id, 255),
                volume.id
            );
        }
        if *place as usize != number {
            bail!(
                "node {number} ({name}) is node {place} of the volume: the nodes are not in the order that they had; correct the \
                 configuration"
            );
        }
    }
    Ok(())
}
