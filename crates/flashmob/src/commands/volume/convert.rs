//! `flashmob volume convert`: a linear volume becomes one with copies, in place.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::config::Config;
use flashmob_server::gateway::from_nodes::convert::Conversion;
use flashmob_text::{Side, Table};
use serde::Serialize;

use super::confirm;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

const SIDES: [Side; 4] = [Side::Right, Side::Left, Side::Left, Side::Right];
const WIDTH: usize = 120;

/// Make a volume with copies of a linear one, in place: no byte moves.
///
/// The volume gets a map beside the configuration file, with one copy of each chunk where the linear volume has it. When
/// the gateway is started then, each node takes its new place as soon as it is linked, and what it holds is read once, in
/// the background, to get its checksums. All of that goes on after an interruption.
///
/// Stop the volume's gateway first. A gateway that knows the linear volume is refused by the nodes from then on; there is
/// no way back but to copy the data.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flashmob volume convert cluster.toml photos --dry-run   # show what the configuration has to say, and what would be done
  flashmob volume convert cluster.toml photos
  flashmob gateway cluster.toml
  flashmob volume show 127.0.0.1:10810 photos             # how far the checksums are

The configuration file has to say what the volume is to be: layout = \"mapped\", copies = 1, and the size of each node,
which must be a multiple of 4 MiB. All nodes have to be there.")]
pub struct ConvertArgs {
    /// The gateway's configuration file. The map is written beside it.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Show what would be done, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Output format: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
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

pub fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    let config = Config::load(&args.config)?;
    let conversion = Conversion::look(&config, &args.config, &args.volume)?;
    let mut report = Report::of(&conversion);
    let mut out = io::stdout();
    if args.output == Form::Table {
        report.lines().into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if !args.dry_run {
        let question =
            format!("convert volume {}? No gateway may use it meanwhile, and there is no way back.", args.volume);
        let what = format!("this converts the volume '{}'", args.volume);
        confirm(args.yes, &question, &what, "nothing was written")?;
        report.path = conversion.write()?;
        report.is_written = true;
    }
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        Form::Table if report.is_written => {
            writeln!(
                out,
                "{} is written; start the gateway: its nodes follow when they are linked",
                report.path.display()
            )?;
        }
        Form::Table => writeln!(out, "nothing is written")?,
    }
    Ok(())
}

impl Report {
    fn of(conversion: &Conversion) -> Report {
        let Conversion { path, image, nodes, .. } = conversion;
        let nodes = nodes.iter().map(|node| NodeReport {
            name: node.name.clone(),
            extent: node.extent_id.to_string(),
            size_bytes: node.size_bytes,
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
