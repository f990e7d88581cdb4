//! What a lab is to be.

use std::ffi::OsString;

use flashmob_core::gateway::BatchMode;
use flashmob_lab::{air, flash};
use flashmob_results::cluster::{AirModel, Attachment, FlashModel};

/// Most nodes in a lab: each is a process, and a machine with a few cores has to run them all in real time. The simulator has
/// no such limit.
pub const NODES_MAX: u32 = 200;

/// What a lab is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nodes in it.
    pub nodes: u32,
    /// The air between them.
    pub air: air::Profile,
    /// How the gateway is attached to it.
    pub gateway: air::Attachment,
    /// The flash of each node; `None`: they answer without reading or writing.
    pub flash: Option<flash::Profile>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// Where all that is left to chance comes from.
    pub seed: u64,
    /// Links to each node.
    pub links: u16,
    /// Pieces that travel together.
    pub batch: BatchMode,
    /// How TCP over the air controls congestion.
    pub congestion: String,
    /// What runs in each node's host instead of a node: a line for the shell.
    pub node_command: Option<String>,
    /// Whether there is a gateway.
    pub has_gateway: bool,
    /// What runs in the gateway's host, and its arguments.
    pub command: Vec<OsString>,
    /// The command line that results of that command record; `None` in a shell, where each records its own.
    pub command_line: Option<String>,
}

impl Plan {
    /// How each port of the air is attached: the gateway as wanted, nodes by air.
    #[must_use]
    pub fn attachments(&self) -> Vec<air::Attachment> {
        let nodes = (0..self.nodes).map(|_| air::Attachment::Wireless);
        std::iter::once(self.gateway).chain(nodes).collect()
    }

    /// The air as results name it.
    #[must_use]
    pub fn air_model(&self) -> AirModel {
        let gateway = match self.gateway {
            air::Attachment::Wireless => Attachment::Wireless,
            air::Attachment::Wired => Attachment::Wired,
        };
        let (profile, description) = (self.air.name.clone(), self.air.description.clone());
        AirModel { profile, description, gateway, cells: 1 }
    }

    /// The flash as results name it, its limits left out. Nodes that are other programs have none.
    #[must_use]
    pub fn flash_model(&self) -> Option<FlashModel> {
        let flash = self.flash.as_ref().filter(|_| self.node_command.is_none())?;
        Some(FlashModel {
            profile: flash.name.to_string(),
            description: flash.description.to_string(),
            limits: Vec::new(),
        })
    }
}
