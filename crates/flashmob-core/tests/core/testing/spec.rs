//! Configurations and greetings in which everything is the usual. Tests change what they are about by struct update.

use flashmob_core::gateway::{ExtentSpec, GatewayConfig, VolumeSpec};
use flashmob_core::node::NodeConfig;
use flashmob_core::units::Time;
use flashmob_core::wire::hello::{Hello, Welcome};

/// When a bed begins. Not zero, which stands for "never" in places.
pub const NOW: Time = Time(1);

/// Extents of these sizes behind links: "node0", "node1" and so on.
#[must_use]
pub fn extents(sizes_bytes: &[u64]) -> Vec<ExtentSpec> {
    let extent = |(n, &size)| ExtentSpec { size_bytes: Some(size), ..ExtentSpec::new(format!("node{n}")) };
    sizes_bytes.iter().enumerate().map(extent).collect()
}

/// A volume "v" over extents of these sizes. No frames keep its links awake, so that only what a test does moves anything.
#[must_use]
pub fn volume(sizes_bytes: &[u64]) -> VolumeSpec {
    VolumeSpec { keep_awake: None, ..VolumeSpec::new("v", extents(sizes_bytes)) }
}

/// A gateway of one volume.
#[must_use]
pub fn gateway_config(volume: VolumeSpec) -> GatewayConfig {
    GatewayConfig::new([9; 16], 1, vec![volume])
}

/// A node with an extent of this size.
#[must_use]
pub fn node_config(size_bytes: u64) -> NodeConfig {
    NodeConfig::new([1; 16], [2; 16], size_bytes)
}

/// The first attempt of the gateway of [`gateway_config`] at its only node.
#[must_use]
pub fn hello() -> Hello {
    Hello {
        gateway_id: [9; 16],
        session: 1,
        keeps_alive: true,
        hears_progress: true,
        attempt: 1,
        volume_id: "v".to_string(),
        extents: 1,
        layout: "linear".to_string(),
        ..Hello::default()
    }
}

/// What the node of [`node_config`] answers.
#[must_use]
pub fn welcome(size_bytes: u64) -> Welcome {
    Welcome {
        extent_id: [1; 16],
        boot_id: [2; 16],
        size_bytes,
        no_io: false,
        modelled: false,
        keeps_alive: true,
        hello_received_ns: 0,
        welcome_sent_ns: 0,
        remembered: None,
        mirror: None,
        knows_marks: false,
        keeps_age: false,
    }
}
