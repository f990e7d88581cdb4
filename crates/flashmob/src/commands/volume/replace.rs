//! `flashmob volume replace`: the extent of a lost node is given up, and a fresh one takes its place.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{MemberDetails, NodeDetails, ReplaceAnswer, ReplaceRequest};

use super::{NodeArgs, accept, confirm, explained, named, node, volumes};
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// How often the gateway is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a node that was just started is waited for: its gateway tries it every second or so.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);

/// How long nothing may happen before that is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Give up the extent of a lost node, and make its copies again on the fresh one in its place.
///
/// A node that lost its data is refused when it comes back with an empty file: it might be a card that is not mounted.
/// This command says that the old data will not come back. Its copies are made again from other nodes, while clients
/// read and write. The old extent is refused from then on, wherever it appears: its data is old.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: the tablet at 192.168.1.13 is broken, and another one has got its address:
  flashmob node --data /data/extent.bin --size 10GiB           # on the new tablet; the size that the old one had
  flashmob volume show 127.0.0.1:10810                         # node 3 serves another extent
  flashmob volume replace 127.0.0.1:10810 pool 3
  flashmob volume replace 127.0.0.1:10810 pool 3 --accept-loss # if it had the only current copy of some chunks

With another address, add the new one, drain the broken one, and remove that: `flashmob volume add`, `drain`, `remove`.
Ctrl-C ends the progress line; the gateway goes on.")]
pub struct ReplaceArgs {
    #[command(flatten)]
    which: NodeArgs,
    /// Make the best other copy current of each chunk whose only current copy is on the old extent: what that lacks is lost (see
    /// `flashmob volume accept-loss`). Refused while the old extent may come back.
    #[arg(long)]
    accept_loss: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Do not wait until the copies are made again.
    #[arg(long)]
    no_wait: bool,
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &ReplaceArgs) -> anyhow::Result<()> {
    let (node, member, offered) = offer(args)?;
    let name = printable(&node.name);
    if args.accept_loss && member.only > 0 {
        let looked = accept::look(&args.which.admin.open()?, &args.which.volume, vec![node.number])?;
        if args.output == Form::Table {
            accept::lines(&looked).into_iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
        }
        accept::ask(
            args.yes,
            &looked,
            &format!("Extent {} of node {} is given up.", member.extent.clone().unwrap_or_default(), node.number),
        )?;
    } else {
        ask(args, &node, &member, &offered)?;
    }
    let request = ReplaceRequest {
        volume: args.which.volume.clone(),
        node: node.number,
        extent: offered,
        accept_loss: args.accept_loss,
    };
    let body = post(&args.which.admin.open()?, "/volumes/replace", &serde_json::to_vec(&request)?, TIMEOUT)
        .map_err(|error| explained(error, "the extent may have been replaced all the same"))?;
    let answer: ReplaceAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    if args.output == Form::Json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&answer)?)?;
    } else {
        println!(
            "node {} ({name}): extent {} is given up, {} takes its place",
            node.number, answer.given_up, answer.taken
        );
        if answer.accepted_chunks > 0 {
            println!("{}", accept::told(answer.accepted_chunks));
        }
    }
    if !answer.is_recorded {
        log::warn!(
            "the map does not have it yet: if the gateway is killed before the map can be written, the old extent is back; \
             see the gateway's log"
        );
    }
    if answer.is_named_in_configuration {
        log::warn!(
            "the configuration names the extent that was given up; write extent = \"{}\" for node {} before the next start",
            answer.taken,
            node.number
        );
    }
    if !args.no_wait {
        let begun = Instant::now();
        let bytes = wait(&args.which, node.number, "making the copies again")?;
        if args.output != Form::Json {
            println!("{} copies, {} made again in {:.1} s", answer.copies, Bytes(bytes), begun.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// The node, and the extent that it offers. One that has just been started appears soon.
fn offer(args: &ReplaceArgs) -> anyhow::Result<(NodeDetails, MemberDetails, String)> {
    let begun = Instant::now();
    loop {
        let (report, _) = volumes(&args.which.admin.open()?)?;
        let volume = named(&report, &args.which.volume)?;
        let node = node(volume, &args.which.node)?.clone();
        let Some(member) = node.member.clone() else {
            bail!("volume '{}' has no copies: the data of a node's extent is nowhere else", args.which.volume);
        };
        if let Some(offered) = &member.offered {
            return Ok((node, member.clone(), offered.clone()));
        }
        if node.state == "ready" {
            bail!(
                "node {} serves its extent, and nothing has to be replaced; to replace it all the same, stop the node, \
                 move its file away and start it with an empty one",
                node.number
            );
        }
        if begun.elapsed() >= APPEARS_WITHIN {
            let size = node.size_bytes.unwrap_or(0);
            let refused = node.refusal.map(|why| format!("; what is there is refused: {}", printable(&why)));
            bail!(
                "no fresh extent is at {} (node {}): start a node there with an empty file of {size} bytes ({}){}",
                printable(&node.name),
                node.number,
                Bytes(size),
                refused.unwrap_or_default()
            );
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn ask(args: &ReplaceArgs, node: &NodeDetails, member: &MemberDetails, offered: &str) -> anyhow::Result<()> {
    let known = member.extent.clone().unwrap_or_default();
    let question = format!(
        "volume {}, node {} ({}): give up extent {known} with {} copies, and make them again on extent {}?",
        args.which.volume,
        node.number,
        printable(&node.name),
        member.copies,
        printable(offered)
    );
    confirm(args.yes, &question, &format!("this gives up the data of node {}", node.number), "nothing was changed")
}

/// Waits until all copies on the node are current, with a progress line. Returns their bytes.
pub(super) fn wait(which: &NodeArgs, number: usize, doing: &'static str) -> anyhow::Result<u64> {
    super::say_when_interrupted(format!(
        "copies go on being made equal; `flashmob volume show {} {}` says how far that is",
        which.admin.words(),
        printable(&which.volume)
    ))?;
    let mut line = ProgressLine::new(doing);
    let (mut answered, mut moved, mut last) = (Instant::now(), Instant::now(), u64::MAX);
    loop {
        std::thread::sleep(LOOK_EVERY);
        // The gateway may be busy, or be started again.
        let report = match which.admin.open().and_then(|target| volumes(&target)) {
            Ok((report, _)) => report,
            Err(_) if answered.elapsed() < PATIENCE => continue,
            Err(error) => {
                return Err(error.context("it is on record, and the gateway does not answer any more"));
            }
        };
        answered = Instant::now();
        let volume = named(&report, &which.volume)?;
        let copies = volume.copies.as_ref().context("the volume has no copies")?;
        if let Some(why) = &copies.deposed {
            bail!("this gateway does not serve it any more: {}", printable(why));
        }
        if let Some(why) = &copies.map_trouble {
            bail!("the map cannot be written, so that nothing is recorded: {}", printable(why));
        }
        let node = volume.nodes.get(number).context("the volume has fewer nodes")?;
        let member = node.member.as_ref().context("the volume has no copies")?;
        let (behind, total) = (u64::from(member.behind + member.doubtful), u64::from(member.copies));
        let total_bytes = total * copies.chunk_bytes;
        if behind == 0 && node.state == "ready" {
            return Ok(total_bytes);
        }
        if behind != last {
            (last, moved) = (behind, Instant::now());
        } else if moved.elapsed() >= PATIENCE {
            moved = Instant::now();
            let why = node.refusal.as_ref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
            log::warn!(
                "{behind} copies are left, and none was made for some time; the node is {}{why}",
                printable(&node.state)
            );
        }
        let done = (total - behind.min(total)) * copies.chunk_bytes;
        line.show(&Progress { done, total: total_bytes, unit: Unit::Bytes });
    }
}
