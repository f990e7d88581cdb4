//! The parts of a gateway, from its configuration: nodes behind links or in this process, and volumes over them.

use anyhow::Context;
use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::{CopiesSpec, ExtentSpec, VolumeSpec};

use super::links::NodePlace;
use super::place::Place;
use crate::config::{Config, NodeConfig, NodeSource, VolumeConfig};
use crate::keys::GatewayKeys;
use crate::net::{Clock, Means, SocketOptions, Wake};
use crate::node::{Extent, ExtentConfig};
use crate::store::StoreConfig;

/// Memory limit of a node inside the gateway's process.
const LOCAL_NODE_MEMORY_BYTES: u64 = 64 << 20;

/// The place of a node; a local one is opened. `share_bytes` is the limit of each buffer of a link.
pub(super) fn open_place(
    volume: &VolumeConfig,
    node: &NodeConfig,
    extents: &mut Vec<Extent>,
    clock: Clock,
    wake: &Wake,
    share_bytes: u64,
    keys: Option<&GatewayKeys>,
) -> anyhow::Result<NodePlace> {
    match &node.source {
        NodeSource::Remote { address } => {
            let socket = &volume.socket;
            let to_usize = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
            let options = SocketOptions {
                send_buffer_bytes: socket.send_buffer_bytes.map(to_usize),
                receive_buffer_bytes: socket.receive_buffer_bytes.map(to_usize),
                congestion: socket.congestion.clone(),
                keepalive: socket.keepalive,
            };
            let means = Means {
                sizing: socket.sizing,
                is_receive_set: socket.receive_buffer_bytes.is_some(),
                is_send_set: socket.send_buffer_bytes.is_some(),
                share_bytes,
            };
            Ok(NodePlace::Remote(Place::configured(address.clone()), options, means))
        }
        NodeSource::Local { path, threads, engine, direct, mapped } => {
            let store = StoreConfig {
                size_bytes: node.size_bytes,
                threads: *threads,
                engine: *engine,
                direct: *direct,
                mapped: *mapped,
                ..StoreConfig::new(path)
            };
            let config = ExtentConfig {
                store,
                state_dir: None,
                forget: false,
                cluster: None,
                repin: false,
                new_key: false,
                enroll: None,
                memory_bytes: LOCAL_NODE_MEMORY_BYTES,
                links_max: volume.links.max(1) + 1,
                order: IssueOrder::Sorted,
            };
            let extent = Extent::open(&config, clock, wake.clone())
                .with_context(|| format!("volume '{}': cannot serve the local node {}", volume.name, path.display()))?;
            // Its door is not used here, so its cluster is compared.
            if let Some(own) = extent
                .keys()
                .filter(|own| keys.is_none_or(|keys| keys.clusters().all(|cluster| cluster != own.cluster)))
            {
                anyhow::bail!(
                    "volume '{}': the local node {} belongs to cluster {}, and this gateway does not",
                    volume.name,
                    path.display(),
                    own.cluster.short()
                );
            }
            extents.push(extent);
            Ok(NodePlace::Local(extents.len() - 1))
        }
    }
}

/// A volume's specification for the state machine.
pub(super) fn volume_spec((volume, copies): (&VolumeConfig, Option<CopiesSpec>)) -> VolumeSpec {
    let extents = volume.nodes.iter().map(|node| ExtentSpec {
        name: node.source.name(),
        size_bytes: node.size_bytes,
        is_local: matches!(node.source, NodeSource::Local { .. }),
        is_gone: node.is_gone,
    });
    VolumeSpec {
        id: volume.id.clone(),
        description: volume.description.clone().unwrap_or_default(),
        read_only: volume.read_only,
        layout: volume.layout,
        batch: volume.batch,
        batch_bytes: volume.batch_bytes,
        links: u16::try_from(volume.links).unwrap_or(u16::MAX),
        outstanding_batches: volume.outstanding_batches,
        timeout: volume.timeout,
        connect_timeout: volume.connect_timeout,
        reconnect_min: volume.reconnect_min,
        reconnect_max: volume.reconnect_max,
        copies: copies.map(Box::new),
        keep_awake: (!volume.keep_awake.is_zero()).then_some(volume.keep_awake),
        ..VolumeSpec::new(&volume.name, extents.collect())
    }
}

/// By node, counted over all volumes: the extents that a configuration names.
pub(super) fn named_extents(config: &Config) -> Vec<Option<[u8; 16]>> {
    config.volumes.iter().flat_map(|volume| &volume.nodes).map(|node| node.extent.map(|id| id.0)).collect()
}
