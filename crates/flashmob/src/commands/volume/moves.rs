//! `flashmob volume drain` and `flashmob volume rebalance`: copies are moved to other nodes while clients use them.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{
    CopiesDetails, MemberDetails, MoveAnswer, MoveRequest, MovesDetails, VolumeDetails,
};

use super::{NodeArgs, named, node, volumes};
use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::{printable, uptime};
use crate::commands::tell::Form;

/// How often the gateway is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a gateway may not answer: it may be started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long without news, why nothing moves is told.
const TELL_AFTER: Duration = Duration::from_secs(15);

/// Move all copies away from a node, so that it can be switched off for good.
///
/// Clients go on meanwhile. Each copy is made on another node, proven equal and flushed there before it leaves this one, so no
/// chunk has fewer copies than before, whatever is killed. A node that is dead can be drained as well: its copies are then made
/// of the others.
///
/// It is refused if the other nodes do not have room for the copies, in other domains than the chunks' other copies are in.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume drain 127.0.0.1:10810 pool 192.168.1.13:7411 --dry-run    # what would move
  flashmob volume drain 127.0.0.1:10810 pool 192.168.1.13:7411
  flashmob volume drain 127.0.0.1:10810 pool 192.168.1.13:7411 --cancel     # copies may lie on it again

It is on record: a gateway that is started again goes on. Ctrl-C ends the progress line only.
If a volume takes all the room of its nodes, none of them can be drained; `size` in the configuration makes a new one smaller.")]
pub struct DrainArgs {
    #[command(flatten)]
    which: NodeArgs,
    /// No longer: what has moved stays where it is, and copies may be moved to the node again.
    #[arg(long, conflicts_with_all = ["dry_run", "no_wait"])]
    cancel: bool,
    #[command(flatten)]
    how: How,
}

/// Move copies from full nodes to empty ones, until all are filled evenly.
///
/// Clients go on meanwhile, and what is moved is safe as with `flashmob volume drain`. Nothing moves while no node is off its
/// share by more than 5 % of its size.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume rebalance 127.0.0.1:10810 pool --dry-run
  flashmob volume rebalance 127.0.0.1:10810 pool

It is on record: a gateway that is started again goes on. Ctrl-C ends the progress line only.")]
pub struct RebalanceArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// No longer: what has moved stays where it is.
    #[arg(long, conflicts_with_all = ["dry_run", "no_wait"])]
    cancel: bool,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// Say what would move, and change nothing.
    #[arg(long, conflicts_with = "no_wait")]
    dry_run: bool,
    /// Do not wait until all has moved.
    #[arg(long)]
    no_wait: bool,
    /// Output format: sentences, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let target = args.which.admin.open()?;
    let (report, _) = volumes(&target)?;
    let node = node(named(&report, &args.which.volume)?, &args.which.node)?;
    let request = MoveRequest {
        volume: args.which.volume.clone(),
        node: Some(node.number),
        cancel: args.cancel,
        dry_run: args.how.dry_run,
    };
    run(&args.which.admin, &request, &args.how, &printable(&node.name))
}

pub fn rebalance(args: &RebalanceArgs) -> anyhow::Result<()> {
    let request =
        MoveRequest { volume: args.volume.clone(), node: None, cancel: args.cancel, dry_run: args.how.dry_run };
    run(&args.admin, &request, &args.how, "")
}

/// `name`: that of the node, if one is drained.
fn run(admin: &AdminArgs, request: &MoveRequest, how: &How, name: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let body = post(&admin.open()?, "/volumes/move", &serde_json::to_vec(request)?, TIMEOUT)?;
    let answer: MoveAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    let is_over = request.cancel || request.dry_run || how.no_wait;
    if is_over || how.output == Form::Json {
        if is_over {
            match how.output {
                Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
                Form::Table => writeln!(out, "{}", told(request, &answer, name))?,
            }
            return Ok(());
        }
    } else {
        writeln!(out, "{}", told(request, &answer, name))?;
    }
    wait(admin, request, &answer)?;
    match how.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(out, "{}", done(request, name, begun.elapsed()))?,
    }
    Ok(())
}

/// What is going to happen.
fn told(request: &MoveRequest, answer: &MoveAnswer, name: &str) -> String {
    let MoveAnswer { copies, bytes, air_bytes, bytes_per_second, eta_seconds, .. } = *answer;
    let takes = match (bytes_per_second, eta_seconds) {
        (Some(rate), Some(eta)) => {
            format!("; estimated time {}, at the {}/s of the last moves", uptime(eta), Bytes(rate as u64))
        }
        _ if request.dry_run => "; the time is estimated once copies have moved".to_string(),
        _ => String::new(),
    };
    let what = match (request.node, request.cancel) {
        (Some(number), true) => return format!("node {number} ({name}) is not drained any more"),
        (None, true) => return format!("volume {} is not balanced any more", request.volume),
        (Some(number), false) => format!("node {number} ({name})"),
        (None, false) => format!("volume {}", request.volume),
    };
    match copies {
        0 => format!("{what}: nothing has to be moved"),
        _ => format!(
            "{what}: {copies} copies are to be moved, at most {}, {} over the network{takes}",
            Bytes(bytes),
            Bytes(air_bytes)
        ),
    }
}

fn done(request: &MoveRequest, name: &str, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match request.node {
        Some(number) => {
            format!("node {number} ({name}) has no copies any more, after {seconds:.1} s: it can be switched off")
        }
        None => format!("the nodes of volume {} are filled evenly, after {seconds:.1} s", request.volume),
    }
}

/// How far it is.
struct State {
    /// Bytes of copies.
    left: u64,
    is_done: bool,
    is_wanted: bool,
    why: Option<String>,
}

fn state(volume: &VolumeDetails, request: &MoveRequest) -> anyhow::Result<State> {
    let copies: &CopiesDetails = volume.copies.as_ref().context("the volume has no copies any more")?;
    if let Some(why) = &copies.deposed {
        bail!("this gateway does not serve it any more: {}", printable(why));
    }
    let moves = &copies.moves;
    let why = why(moves);
    Ok(match request.node {
        Some(number) => {
            let node = volume.nodes.get(number).context("the node is gone")?;
            let member: &MemberDetails = node.member.as_ref().context("the node is no member any more")?;
            State {
                left: u64::from(member.copies) * copies.chunk_bytes,
                is_done: member.is_drained,
                is_wanted: member.is_leaving,
                why,
            }
        }
        None => {
            let is_wanted = moves.is_balancing || !moves.was_cancelled;
            State { left: moves.left_bytes, is_done: !moves.is_balancing && is_wanted, is_wanted, why }
        }
    })
}

/// Why nothing moves, if there is a reason.
pub(super) fn why(moves: &MovesDetails) -> Option<String> {
    let MovesDetails { stranded_copies, unreadable_chunks, without_source_chunks, waits_for_node, .. } = *moves;
    let reasons = [
        (stranded_copies > 0).then(|| format!("{stranded_copies} copies have no room on nodes that are there")),
        (unreadable_chunks > 0).then(|| {
            format!(
                "{unreadable_chunks} chunks have blocks that match their checksums on no current copy that is there: bring the \
                 others back, or write these blocks again"
            )
        }),
        (without_source_chunks > 0)
            .then(|| format!("{without_source_chunks} chunks have no current copy on a node that is there")),
        waits_for_node.map(|node| format!("node {node} is away, paused or was silent too often")),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// What is true when this command is interrupted.
fn goes_on(admin: &AdminArgs, request: &MoveRequest) -> String {
    let (gateway, volume) = (admin.words(), printable(&request.volume));
    let end = match request.node {
        Some(number) => format!("flashmob volume drain {gateway} {volume} {number} --cancel"),
        None => format!("flashmob volume rebalance {gateway} {volume} --cancel"),
    };
    format!("copies go on moving; `flashmob volume show {gateway} {volume}` says how far that is, `{end}` ends it")
}

/// Waits until all has moved, with a progress line.
fn wait(admin: &AdminArgs, request: &MoveRequest, answer: &MoveAnswer) -> anyhow::Result<()> {
    super::say_when_interrupted(goes_on(admin, request))?;
    let mut line = ProgressLine::new("moving copies");
    let (mut answered, mut moved, mut told) = (Instant::now(), Instant::now(), None);
    let mut total = answer.bytes;
    let mut last = u64::MAX;
    loop {
        let looked = admin.open().and_then(|target| volumes(&target));
        let State { left, is_done, is_wanted, why } = match looked {
            Ok((report, _)) => state(named(&report, &request.volume)?, request)?,
            // The gateway may be busy, or be started again: then it goes on.
            Err(_) if answered.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(error) => return Err(error.context("the gateway does not answer any more")),
        };
        answered = Instant::now();
        if is_done {
            return Ok(());
        }
        anyhow::ensure!(is_wanted, "it was cancelled");
        if left != last {
            (last, moved) = (left, Instant::now());
        }
        if why.is_some() && why != told && moved.elapsed() >= TELL_AFTER {
            log::warn!("it waits: {}", why.as_deref().unwrap_or_default());
            told = why;
        }
        total = total.max(left);
        line.show(&Progress { done: total - left, total, unit: Unit::Bytes });
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(node: Option<usize>, cancel: bool) -> MoveRequest {
        MoveRequest { volume: "pool".to_string(), node, cancel, dry_run: false }
    }

    #[test]
    fn what_will_move_is_said_and_what_has() {
        let answer = |copies| MoveAnswer {
            volume: "pool".to_string(),
            node: Some(2),
            copies,
            bytes: copies << 22,
            air_bytes: copies << 23,
            bytes_per_second: (copies > 3).then_some(2e6),
            eta_seconds: (copies > 3).then_some(75.0),
        };
        let dry = MoveRequest { dry_run: true, ..request(None, false) };
        let lines = [
            told(&request(Some(2), false), &answer(3), "tab:1"),
            told(&request(None, false), &answer(0), ""),
            told(&dry, &answer(3), ""),
            told(&dry, &answer(36), ""),
            told(&request(Some(2), true), &answer(0), "tab:1"),
            done(&request(Some(2), false), "tab:1", Duration::from_millis(1250)),
        ];
        assert_eq!(
            lines,
            [
                "node 2 (tab:1): 3 copies are to be moved, at most 12 MiB, 24 MiB over the network",
                "volume pool: nothing has to be moved",
                "volume pool: 3 copies are to be moved, at most 12 MiB, 24 MiB over the network; the time is estimated once copies have moved",
                "volume pool: 36 copies are to be moved, at most 144 MiB, 288 MiB over the network; estimated time 1 min 15 s, at the 1.91 MiB/s of the last moves",
                "node 2 (tab:1) is not drained any more",
                "node 2 (tab:1) has no copies any more, after 1.2 s: it can be switched off",
            ]
        );
    }
}
