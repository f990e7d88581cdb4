//! The parameters of a lab.

use std::ffi::OsString;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_lab::cluster::{Weak, Weakness};
use flashmob_lab::{air, flash};
use flashmob_results::cluster::{AirModel, Attachment, FlashModel, Order};

use super::status::order_of;

/// Most nodes in a lab: each is a process, and a machine with a few cores has to run all of them in real time. The simulator has
/// no such limit.
pub const NODES_MAX: u32 = 200;

/// The parameters of a lab.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes.
    pub nodes: u32,
    /// The air between them.
    pub air: air::Profile,
    /// How the gateway is attached to it.
    pub gateway: air::Attachment,
    /// The flash of each node; `None`: they answer without I/O.
    pub flash: Option<flash::Profile>,
    /// In which order nodes read and write.
    pub order: IssueOrder,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// Random seed.
    pub seed: u64,
    /// Links to each node.
    pub links: u16,
    /// Pieces in a batch.
    pub batch: BatchMode,
    /// Copies of each chunk; `None`: a linear volume.
    pub copies: Option<u32>,
    /// Whether gateway and nodes have keys.
    pub keys: bool,
    /// Nodes that are weaker than the others, in their flash or on their way.
    pub weak: Option<Weak>,
    /// Congestion control of TCP over the air.
    pub congestion: String,
    /// A shell command that runs in each node's host in place of a node.
    pub node_command: Option<String>,
    /// Whether there is a gateway.
    pub has_gateway: bool,
    /// The command that runs in the gateway's host, and its arguments.
    pub command: Vec<OsString>,
    /// The command line that the command's results record; `None` in a shell, where each command records its own.
    pub command_line: Option<String>,
}

impl Plan {
    /// How each port of the air is attached: the gateway as configured, nodes wirelessly.
    #[must_use]
    pub fn attachments(&self) -> Vec<air::Attachment> {
        let nodes = (0..self.nodes).map(|_| air::Attachment::Wireless);
        std::iter::once(self.gateway).chain(nodes).collect()
    }

    /// How a node is weak.
    #[must_use]
    pub fn weakness(&self, node: u32) -> Option<Weakness> {
        self.weak?.of(node, self.nodes)
    }

    /// The air in the format of results.
    #[must_use]
    pub fn air_model(&self) -> AirModel {
        let gateway = match self.gateway {
            air::Attachment::Wireless => Attachment::Wireless,
            air::Attachment::Wired => Attachment::Wired,
        };
        let (profile, description) = (self.air.name.clone(), self.air.description.clone());
        AirModel { profile, description, gateway, cells: 1 }
    }

    /// The order in which nodes read and write, in the format of results; `None` for nodes that do not, or are other programs.
    #[must_use]
    pub fn order_model(&self) -> Option<Order> {
        self.flash_model().map(|_| order_of(self.order))
    }

    /// The flash in the format of results, without its limits; `None` for nodes that are other programs.
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
