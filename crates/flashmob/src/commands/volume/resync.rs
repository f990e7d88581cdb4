//! `flashmob volume resync`: the copies on a node are compared with others, and made equal to them.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{ResyncAnswer, ResyncRequest};

use super::replace::wait;
use super::{NodeArgs, confirm, explained, named, node, volumes};
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// Make all copies on a node equal to those on other nodes, and keep its extent.
///
/// For a node that is not to be believed though its bytes match their checksums: copies differ (`flashmob volume show` lists where), after a backup was
/// put back under it, or a flash has lost writes. All its copies count as lacking something from now on. They are compared with the current copies on other
/// nodes, and blocks that differ are written again with what those have, while clients read and write. What the node alone had is gone then.
///
/// Refused while others cannot answer for all that the node has: if it has the only current copy of a chunk, or if other nodes are away.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: copies on nodes 1 and 3 differ, and those on node 3 are wrong:
  flashmob volume scrub 127.0.0.1:10810 pool --now
  flashmob volume show 127.0.0.1:10810 pool
  flashmob volume resync 127.0.0.1:10810 pool 3

The exit status is 0 when the copies are equal, or with --no-wait when the map has it; 1 if it is refused or not confirmed; 2 if nobody can be asked
and --yes is not given. Ctrl-C ends the progress line; the gateway goes on.")]
pub struct ResyncArgs {
    #[command(flatten)]
    which: NodeArgs,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Do not wait until the copies are equal.
    #[arg(long)]
    no_wait: bool,
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &ResyncArgs) -> anyhow::Result<()> {
    let (report, _) = volumes(&args.which.admin.open()?)?;
    let node = node(named(&report, &args.which.volume)?, &args.which.node)?;
    let Some(member) = &node.member else {
        bail!("volume '{}' has no copies: the data of a node is nowhere else", args.which.volume);
    };
    let name = printable(&node.name);
    let question = format!(
        "volume {}, node {} ({name}): make its {} copies equal to those on other nodes? What it alone has is gone then.",
        printable(&args.which.volume),
        node.number,
        member.copies,
    );
    let what = format!("this gives up what node {} has and other nodes have not", node.number);
    confirm(args.yes, &question, &what, "nothing was changed")?;
    let request = ResyncRequest { volume: args.which.volume.clone(), node: node.number };
    let body = post(&args.which.admin.open()?, "/volumes/resync", &serde_json::to_vec(&request)?, TIMEOUT)
        .map_err(|error| explained(error, "the copies may be made equal all the same"))?;
    let answer: ResyncAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    match args.output {
        Form::Json => writeln!(io::stdout(), "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(
            io::stdout(),
            "node {} ({name}): its {} copies are compared with others and made equal to them",
            node.number,
            answer.copies
        )?,
    }
    if !args.no_wait {
        let begun = Instant::now();
        let bytes = wait(&args.which, node.number, "making the copies equal")?;
        if args.output == Form::Table {
            let seconds = begun.elapsed().as_secs_f64();
            writeln!(io::stdout(), "{} copies, {}, equal after {seconds:.1} s", answer.copies, Bytes(bytes))?;
        }
    }
    Ok(())
}
