//! `flashmob volume convert`: a linear volume becomes one with copies, in place.

use std::path::PathBuf;

use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::config::{Config, ExtentId};
use flashmob_server::gateway::from_nodes::convert::Conversion;
use flashmob_text::{Side, Table};
use serde::Serialize;

use super::{MapArgs, confirm};
use crate::commands::status::units::printable;

const SIDES: [Side; 4] = [Side::Right, Side::Left, Side::Left, Side::Right];
const WIDTH: usize = 120;

/// Make a volume with copies of a linear one, in place: no byte moves.
///
/// This command writes the volume's map beside the configuration file, with one copy of each chunk where the linear volume
/// has it. Then start the gateway: each node is converted when it is linked, and its data is read once in the background
/// to compute checksums. Both continue after an interruption.
///
/// Stop the volume's gateway first. Converted nodes refuse a gateway of the linear volume. The conversion cannot be undone,
/// except by copying the data.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flashmob volume convert cluster.toml photos --dry-run   # show what to change in the configuration; write nothing
  flashmob volume convert cluster.toml photos
  flashmob gateway cluster.toml
  flashmob volume show 127.0.0.1:10810 photos             # progress of the scrubs that compute checksums

The configuration file must have the new layout: layout = \"mapped\", copies = 1, and the size of each node, which must be
a multiple of 4 MiB. All nodes must be reachable.")]
pub struct ConvertArgs {
    #[command(flatten)]
    map: MapArgs,
}

/// What `--output json` writes.
#[derive(Debug, Serialize)]
struct Report {
    /// The map's file.
    path: PathBuf,
    /// Whether it was written.
    is_written: bool,
    chunks: u32,
    size_bytes: u64,
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    name: String,
    extent: String,
    size_bytes: u64,
}

pub fn run(ConvertArgs { map: args }: &ConvertArgs) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    let conversion = Conversion::look(&config, &args.config, &args.volume)?;
    let mut report = Report::of(&conversion);
    args.tell_found(report.lines())?;
    if !args.dry_run {
        let question =
            format!("convert volume {}? No gateway may use it meanwhile, and it cannot be undone.", args.volume);
        let what = format!("this converts the volume '{}'", args.volume);
        confirm(args.yes, &question, &what, "nothing was written")?;
        report.path = conversion.write()?;
        report.is_written = true;
    }
    let written =
        || format!("{} is written; start the gateway: its nodes follow when they are linked", report.path.display());
    args.tell_end(&report, report.is_written.then(written))
}

impl Report {
    fn of(conversion: &Conversion) -> Report {
        let Conversion { path, image, names, .. } = conversion;
        let nodes = names.iter().zip(image.members()).map(|(name, member)| NodeReport {
            name: name.clone(),
            extent: ExtentId(member.extent_id).to_string(),
            size_bytes: member.size_bytes,
        });
        Report {
            path: path.clone(),
            is_written: false,
            chunks: image.chunks(),
            size_bytes: image.size_bytes(),
            nodes: nodes.collect(),
        }
    }

    /// What would be done, for people.
    fn lines(&self) -> Vec<String> {
        let mut table = Table::new(&SIDES);
        table.plain(["", "node", "extent", "size"]);
        for (number, node) in self.nodes.iter().enumerate() {
            let size = Bytes(node.size_bytes).to_string();
            table.plain([number.to_string(), printable(&node.name), node.extent.clone(), size]);
        }
        let mut lines = table.lines(WIDTH, false);
        lines.push(format!(
            "the volume keeps its {}, and has {} chunks with one copy of each",
            Bytes(self.size_bytes),
            self.chunks
        ));
        lines
    }
}
