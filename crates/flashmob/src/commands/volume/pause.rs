//! `flashmob volume pause` and `flashmob volume resume`: a node is not used for a while.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{PauseAnswer, PauseRequest};

use super::{NodeArgs, named, node, volumes};
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// Pause a node: its device can be taken away, and nothing waits for it.
///
/// Nothing is read from the node or written to it; other copies answer. Chunks that change meanwhile are made equal when it is
/// used again (`flashmob volume resume`). Until then they have one copy less.
///
/// It is refused while others do not have current copies of all that the node has. If that comes to be so later, as
/// another node fails, the paused node is used all the same, until it is needed no longer. A gateway that is started again
/// uses all nodes.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: the tablet in the kitchen is wanted for an hour:
  flashmob volume pause 127.0.0.1:10810 pool 192.168.1.13:7411
  flashmob volume resume 127.0.0.1:10810 pool 192.168.1.13:7411

Only volumes with copies have nodes that can be paused: without copies, reads and writes would wait.")]
pub struct PauseArgs {
    #[command(flatten)]
    asked: Asked,
}

/// Use a paused node again.
///
/// What it lacks is made equal at once, while clients read and write; `flashmob volume show` says how far that is.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    asked: Asked,
}

#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    which: NodeArgs,
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &PauseArgs) -> anyhow::Result<()> {
    ask(&args.asked, false)
}

pub fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    ask(&args.asked, true)
}

fn ask(args: &Asked, resume: bool) -> anyhow::Result<()> {
    let target = args.which.admin.open()?;
    let (report, _) = volumes(&target)?;
    let node = node(named(&report, &args.which.volume)?, &args.which.node)?;
    let request = PauseRequest { volume: args.which.volume.clone(), node: node.number, resume };
    let body = post(&target, "/volumes/pause", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let answer: PauseAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    match (args.output, answer.is_paused) {
        (Form::Json, _) => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        (Form::Table, true) => writeln!(out, "node {} ({}) is paused", node.number, printable(&node.name))?,
        (Form::Table, false) => writeln!(out, "node {} ({}) is used", node.number, printable(&node.name))?,
    }
    Ok(())
}
