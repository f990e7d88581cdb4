//! `flashmob key show`: the public halves of a cluster's keys.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use flashmob_server::config::Config;
use flashmob_text::{Side, Table};
use serde::Serialize;

use super::folder_of;
use crate::commands::tell::Form;

const WIDTH: usize = 120;

/// Show the public keys of a cluster: its own, the gateway's, and those of the nodes.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The gateway's configuration file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Output format: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// What `--output json` writes. Keys are public ones, as 64 hexadecimal digits.
#[derive(Debug, Serialize)]
struct Report {
    cluster: String,
    /// The cluster before, while nodes of it are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_cluster: Option<String>,
    gateway: String,
    /// The number of the gateway's key: nodes refuse those with smaller numbers than they have seen.
    generation: u64,
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    extent: String,
    key: String,
}

pub fn run(args: &ShowArgs) -> anyhow::Result<()> {
    let folder = folder_of(&Config::load(&args.config)?, &args.config)?;
    let (_, granted) = folder.granted()?;
    let nodes = folder
        .pins()?
        .iter()
        .map(|(extent, key)| NodeReport { extent: extent.to_string(), key: key.to_string() })
        .collect();
    let report = Report {
        cluster: granted.cluster.to_string(),
        previous_cluster: folder.previous_cluster()?.map(|cluster| cluster.to_string()),
        gateway: granted.gateway.to_string(),
        generation: granted.generation,
        nodes,
    };
    let mut out = std::io::stdout();
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        Form::Table => report.lines().into_iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(())
}

impl Report {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("cluster  {}", self.cluster),
            format!("gateway  {}  generation {}", self.gateway, self.generation),
        ];
        if let Some(previous) = &self.previous_cluster {
            lines.push(format!("before   {previous}  its nodes are used until `flashmob key rotate --cluster --end`"));
        }
        if self.nodes.is_empty() {
            lines.push("no node is pinned: flashmob key pin".to_string());
            return lines;
        }
        let mut table = Table::new(&[Side::Left, Side::Left]);
        table.plain(["extent", "key of its node"]);
        for node in &self.nodes {
            table.plain([node.extent.clone(), node.key.clone()]);
        }
        lines.push(String::new());
        lines.extend(table.lines(WIDTH, false));
        lines
    }
}
