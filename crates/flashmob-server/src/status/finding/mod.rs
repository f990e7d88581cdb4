//! What is wrong with a cluster, or worth to know: for `/status`, `/live` and whatever shows them.

mod states;
#[cfg(test)]
mod tests;
mod troubles;

use serde::{Deserialize, Serialize};

use super::report::VolumeReport;
pub use states::{GATEWAY, Insecure, insecure, newcomer, of_volumes, open_etcd};
pub use troubles::of_trouble;

/// What it is about. The order is that in which findings of one severity are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The volume is not served.
    Deposed,
    /// Its map cannot be written.
    Map,
    /// Blocks of it cannot be mended.
    Rot,
    /// A node's device fails operations.
    Device,
    /// A node is refused.
    Refused,
    /// A node has no link.
    NotLinked,
    /// Chunks have too few copies.
    Copies,
    /// A node is nearly full.
    Space,
    /// A node's battery is low.
    Battery,
    /// A node is hot.
    Heat,
    /// A node stands still now and then.
    Pause,
    /// Segments to and from a node are lost.
    Loss,
    /// A node's loop waits for a processor, or uses it up.
    Processor,
    /// A receive buffer is too small for its path.
    ReceiveBuffer,
    /// A send buffer is too small for its path.
    SendBuffer,
    /// The network to a node takes longer than to others.
    Delay,
    /// A node's flash takes longer than those of others.
    Flash,
    /// A node's page cache answers less than those of others.
    Cache,
    /// One client fills a node's queue.
    Queue,
    /// A node is not used, as somebody wants it.
    Paused,
    /// Anybody may use the cluster.
    Insecure,
    /// A node has joined, and is in no volume.
    Newcomer,
    /// A node answers without reading.
    NoIo,
    /// A node's flash is modelled.
    Modelled,
    /// One of a later version.
    #[serde(other)]
    Other,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Requests fail or wait, or data are in danger.
    Severe,
    /// It costs something, or will.
    Wrong,
    /// Nothing is wrong.
    Note,
}

/// One thing that is wrong, or worth to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What it is about.
    pub cause: Cause,
    /// How bad it is.
    pub severity: Severity,
    /// Which volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<usize>,
    /// Which node, counted over all volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// What was found, with its figures.
    pub found: String,
    /// What mends it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// A command that does, or that tells more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    /// One about all.
    #[must_use]
    pub fn new(cause: Cause, severity: Severity, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let (found, remedy) = (found.into(), remedy.into());
        Finding { cause, severity, volume: None, node: None, found, remedy, command: None }
    }

    /// About a volume.
    #[must_use]
    pub fn of_volume(self, volume: usize) -> Finding {
        Finding { volume: Some(volume), ..self }
    }

    /// About a node of a volume, counted over all volumes.
    #[must_use]
    pub fn of_node(self, volume: usize, node: usize) -> Finding {
        Finding { volume: Some(volume), node: Some(node), ..self }
    }

    /// With a command.
    #[must_use]
    pub fn with_command(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }

    /// The whole sentence.
    #[must_use]
    pub fn sentence(&self, volumes: &[VolumeReport]) -> String {
        let volume = self.volume.and_then(|volume| volumes.get(volume));
        let node = self.node.and_then(|node| volumes.iter().flat_map(|volume| &volume.nodes).nth(node));
        let place = match (volume, node) {
            (Some(volume), Some(node)) => format!("volume {}, node {}: ", volume.name, node.name),
            (Some(volume), None) => format!("volume {}: ", volume.name),
            _ => String::new(),
        };
        match (&*self.remedy, &self.command) {
            // It is there to be copied.
            (_, Some(command)) if self.cause == Cause::Newcomer => {
                format!("{place}{}: `{command}` adds it", self.found)
            }
            ("", None) => format!("{place}{}", self.found),
            ("", Some(command)) => format!("{place}{}: `{command}`", self.found),
            (remedy, _) if self.found.contains(": ") => format!("{place}{}; {remedy}", self.found),
            (remedy, _) => format!("{place}{}: {remedy}", self.found),
        }
    }
}

/// Worst first; of one severity by cause, then in the order of the nodes.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(order);
}

fn order(finding: &Finding) -> (Severity, Cause, Option<usize>) {
    (finding.severity, finding.cause, finding.node)
}

/// Puts one about all in its place among sorted ones, and its sentence among theirs.
pub fn insert(finding: &Finding, findings: &mut Vec<Finding>, sentences: &mut Vec<String>) {
    let at = findings.partition_point(|other| order(other) <= order(finding));
    findings.insert(at, finding.clone());
    sentences.insert(at.min(sentences.len()), finding.sentence(&[]));
}
