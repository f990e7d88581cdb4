//! `flashmob volume add` and `flashmob volume remove`: nodes come and go while a volume is used.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{AddAnswer, AddRequest, NodeDetails, RemoveAnswer, RemoveRequest};

use super::{NodeArgs, named, node, volumes};
use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// How often the gateway is asked whether a node is used.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a gateway may not answer: it may be started again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Add a node to a volume with copies, while it is used.
///
/// The node is used once its extent was looked through and is empty; then it gets its share of the copies, in the background
/// (`flashmob volume rebalance` shows how far that is). From the first such node on, the volume's map names its nodes, and the
/// configuration only seeds it: a difference is told when the gateway starts.
///
/// The volume does not become larger by it. An extent that holds data is not used, unless --overwrite gives that data up; nor is one
/// that is in use elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume add 127.0.0.1:10810 pool 192.168.1.19
  flashmob volume add 127.0.0.1:10810 pool 192.168.1.19:7411 --size 25GiB --domain shelf-2
  flashmob volume add 127.0.0.1:10810 pool 192.168.1.19 --overwrite    # whatever its file holds

In a cluster with keys the node joins with a code first: flashmob join.")]
pub struct AddArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Where the node is: a host name or an address, and a port if it is not 7411.
    #[arg(value_name = "HOST[:PORT]")]
    address: String,
    /// The size that its extent must have, as in 25GiB. Without it, the node is used whatever its size.
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::size)]
    size: Option<u64>,
    /// What the node may fail together with, as a shelf or a power strip: no two copies of a chunk share it.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Use it though its extent holds data, which is lost. Also for a node that was added before and is not used for that reason.
    #[arg(long)]
    overwrite: bool,
    /// Do not wait until it is used.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for that.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::commands::time, conflicts_with = "no_wait")]
    timeout: Duration,
    /// Output format: sentences, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// Remove a node without copies from a volume.
///
/// A node that has copies is drained first (`flashmob volume drain`). Its number is not used again. To use
/// the node elsewhere, or to add it anew, start it once with --forget.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: a tablet is sold:
  flashmob volume drain 127.0.0.1:10810 pool 192.168.1.13:7411
  flashmob volume remove 127.0.0.1:10810 pool 192.168.1.13:7411")]
pub struct RemoveArgs {
    #[command(flatten)]
    which: NodeArgs,
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn add(args: &AddArgs) -> anyhow::Result<()> {
    let request = AddRequest {
        volume: args.volume.clone(),
        address: args.address.clone(),
        size_bytes: args.size,
        domain: args.domain.clone(),
        overwrite: args.overwrite,
    };
    let body = post(&args.admin.open()?, "/volumes/add", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let answer: AddAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    let size_bytes = if args.no_wait { None } else { Some(wait(args, &answer)?) };
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(out, "{}", added(&answer, size_bytes))?,
    }
    Ok(())
}

/// `size_bytes`: that of its extent, if it is used already.
fn added(answer: &AddAnswer, size_bytes: Option<u64>) -> String {
    let AddAnswer { volume, node, address } = answer;
    let (volume, address) = (printable(volume), printable(address));
    match size_bytes {
        Some(bytes) => format!(
            "{address} is node {node} of volume {volume}, with {}; it gets its share of the copies now",
            Bytes(bytes)
        ),
        None => {
            format!("{address} is node {node} of volume {volume}; it is used once it was linked and looked through")
        }
    }
}

/// What is known of a node that was added.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It is used; the size of its extent.
    Used(u64),
    /// It will not be, before somebody does something.
    Unusable(String),
    /// Not yet, and why.
    Waiting(String),
}

fn state(node: &NodeDetails) -> State {
    let Some(member) = &node.member else { return State::Unusable("the volume has no copies".to_string()) };
    let address = printable(&node.name);
    match &node.refusal {
        Some(why) if node.state == "refused" => State::Unusable(format!("{address} is refused: {}", printable(why))),
        _ if member.holds_data => State::Unusable(format!(
            "{address} is not used: its extent holds data, or cannot show that it does not; add it again with --overwrite, by which that data is \
             lost, or remove it, and add it anew with an empty file"
        )),
        _ if !member.is_joining => State::Used(node.size_bytes.unwrap_or_default()),
        _ if node.state == "ready" => State::Waiting(format!("the extent of {address} is being looked through")),
        _ => State::Waiting(format!(
            "{address} is not linked: does its node run, and can it be reached from the gateway?"
        )),
    }
}

/// Waits until a node is used. Returns the size of its extent.
fn wait(args: &AddArgs, answer: &AddAnswer) -> anyhow::Result<u64> {
    super::say_when_interrupted(format!(
        "node {number} stays on record, and is used as soon as it can be; `flashmob volume remove {gateway} {} {number}` takes it out",
        printable(&args.volume),
        number = answer.node,
        gateway = args.admin.words()
    ))?;
    let (begun, mut answered) = (Instant::now(), Instant::now());
    loop {
        let looked = args.admin.open().and_then(|target| volumes(&target));
        let state = match looked {
            Ok((report, _)) => {
                let volume = named(&report, &args.volume)?;
                state(volume.nodes.get(answer.node).context("the node is gone")?)
            }
            // The gateway may be busy, or be started again.
            Err(_) if answered.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(error) => return Err(error.context("the gateway does not answer any more")),
        };
        answered = Instant::now();
        match state {
            State::Used(size_bytes) => return Ok(size_bytes),
            State::Unusable(why) => bail!("node {} is on record, but {why}{}", answer.node, taken_out(args, answer)),
            State::Waiting(why) if begun.elapsed() >= args.timeout => bail!(
                "node {} is on record, and will be used as soon as it can be; so far: {why}. It can be removed again: flashmob volume remove",
                answer.node
            ),
            State::Waiting(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// How a node that cannot be used is taken out again.
fn taken_out(args: &AddArgs, answer: &AddAnswer) -> String {
    let anew = if args.size.is_some() { ", with the size that its extent has, or without --size" } else { "" };
    format!(
        ". `flashmob volume remove {} {} {}` takes it out again; then it can be added anew{anew}",
        args.admin.words(),
        printable(&answer.volume),
        answer.node
    )
}

pub fn remove(args: &RemoveArgs) -> anyhow::Result<()> {
    let target = args.which.admin.open()?;
    let (report, _) = volumes(&target)?;
    let node = node(named(&report, &args.which.volume)?, &args.which.node)?;
    let request = RemoveRequest { volume: args.which.volume.clone(), node: node.number };
    let body = post(&target, "/volumes/remove", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let answer: RemoveAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => {
            let (name, volume) = (printable(&node.name), printable(&answer.volume));
            writeln!(out, "node {} ({name}) is no node of volume {volume} any more", answer.node)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::details;
    use super::*;

    #[test]
    fn what_became_of_a_node_is_told() {
        let mut node = details(4);
        assert_eq!(state(&node), State::Used(node.size_bytes.unwrap()));
        node.member.as_mut().unwrap().is_joining = true;
        assert!(matches!(state(&node), State::Waiting(why) if why.contains("looked through")));
        node.state = "waiting".to_string();
        assert!(matches!(state(&node), State::Waiting(why) if why.contains("not linked")));
        node.member.as_mut().unwrap().holds_data = true;
        assert!(matches!(state(&node), State::Unusable(why) if why.contains("--overwrite")));
        (node.state, node.refusal) = ("refused".to_string(), Some("another size".to_string()));
        assert!(matches!(state(&node), State::Unusable(why) if why.ends_with("is refused: another size")));
        let answer = AddAnswer { volume: "pool".to_string(), node: 4, address: "tab:7411".to_string() };
        assert_eq!(
            [added(&answer, Some(8 << 20)), added(&answer, None)],
            [
                "tab:7411 is node 4 of volume pool, with 8 MiB; it gets its share of the copies now",
                "tab:7411 is node 4 of volume pool; it is used once it was linked and looked through",
            ]
        );
    }
}
