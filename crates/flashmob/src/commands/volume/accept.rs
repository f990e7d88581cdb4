//! `flashmob volume accept-loss`: nodes with the only current copies of chunks are gone for good, and the best other copies become current.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{FetchError, TIMEOUT, Target, post};
use flashmob_server::status::volumes::{AcceptLossAnswer, AcceptLossRequest, AcceptedRange};

use super::{confirm_in_words, named, node, volumes};
use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// More ranges are counted; --output json has them.
const LINES_MAX: usize = 20;

/// Accept that nodes with the only current copies of chunks are gone for good, and what they alone had is lost.
///
/// Chunks whose current copies are all on these nodes cannot be read or written. Of each of them the best copy on another node becomes current: one
/// whose device restarted, else the one that fell behind last. What that copy lacks is lost: those parts of the chunk have older bytes. The next flush of
/// each client fails once, so that file systems and databases notice it. Chunks with a current copy elsewhere stay as they are.
///
/// The chunks are listed with their bytes in the volume, and docs/copies.md says which files those are. If such a node comes back after all, its copies are
/// made equal to the ones that are current now: what it alone had is gone by then.
///
/// The loss is not accepted while a node may come back: it is linked, paused, or was linked within ten times `evict_after` (30 s); and while the best other copy is
/// on a node that is away. The nodes stay in the volume: `flashmob volume drain` makes their copies elsewhere. For a node with an empty extent in the place
/// of the lost one, use `flashmob volume replace --accept-loss`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume show 127.0.0.1:10810 pool                       # node 1 has the only current copy of 4 chunks
  flashmob volume accept-loss 127.0.0.1:10810 pool 1 --dry-run    # which chunks those are; nothing changes
  flashmob volume accept-loss 127.0.0.1:10810 pool 1
  flashmob volume drain 127.0.0.1:10810 pool 1                    # its copies are made on other nodes

The exit status is 0 when the map has it, or after --dry-run if it would be accepted; 1 if it is refused or not confirmed; 2 if nobody can be asked
and --yes is not given.")]
pub struct AcceptLossArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The nodes that are gone for good: their numbers, or addresses, as `flashmob volume show` has them.
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    /// Show which chunks it would be, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Output format: sentences, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &AcceptLossArgs) -> anyhow::Result<()> {
    let target = args.admin.open()?;
    let (report, _) = volumes(&target)?;
    let volume = named(&report, &args.volume)?;
    let nodes: Vec<usize> =
        args.nodes.iter().map(|which| Ok(node(volume, which)?.number)).collect::<anyhow::Result<_>>()?;
    let looked = look(&target, &args.volume, nodes)?;
    let mut out = io::stdout();
    if args.output == Form::Table {
        lines(&looked).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if args.dry_run {
        return match args.output {
            Form::Json => Ok(writeln!(out, "{}", serde_json::to_string(&looked)?)?),
            Form::Table => Ok(writeln!(out, "nothing was changed")?),
        };
    }
    ask(args.yes, &looked, "")?;
    let request = AcceptLossRequest {
        volume: args.volume.clone(),
        nodes: looked.nodes.clone(),
        chunks: Some(looked.chunks),
        dry_run: false,
    };
    let answer = send(&args.admin.open()?, &request)?;
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(out, "{}", told(answer.chunks))?,
    }
    Ok(())
}

/// Which chunks it would be.
pub(super) fn look(target: &Target, volume: &str, nodes: Vec<usize>) -> anyhow::Result<AcceptLossAnswer> {
    send(target, &AcceptLossRequest { volume: volume.to_string(), nodes, chunks: None, dry_run: true })
}

fn send(target: &Target, request: &AcceptLossRequest) -> anyhow::Result<AcceptLossAnswer> {
    let is_dry = request.dry_run;
    let body = post(target, "/volumes/accept-loss", &serde_json::to_vec(request)?, TIMEOUT).map_err(|error| {
        let is_open = matches!(error, FetchError::Timeout(..) | FetchError::Cut(..) | FetchError::Io { .. });
        let error = anyhow::Error::new(error);
        if is_open && !is_dry {
            return error
                .context("there is no answer; it may have been accepted all the same: `flashmob volume show` tells");
        }
        error
    })?;
    serde_json::from_slice(&body).context("cannot read the gateway's answer")
}

/// Sentences about the loss, for people.
pub(super) fn lines(looked: &AcceptLossAnswer) -> Vec<String> {
    let AcceptLossAnswer { chunks, ranges, unlisted_chunks, chunks_without_copy, .. } = looked;
    let mut lines = vec![format!("{chunks} chunks get an older copy as their current one:")];
    lines.extend(ranges.iter().take(LINES_MAX).map(|AcceptedRange { offset_bytes, bytes, node }| {
        let last = offset_bytes + bytes - 1;
        format!("  bytes {offset_bytes} to {last} ({}): what node {node} has", Bytes(*bytes))
    }));
    let more = ranges.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.push(format!("  and {more} more ranges; --dry-run --output json has them"));
    }
    if *unlisted_chunks > 0 {
        lines.push(format!("  and {unlisted_chunks} more chunks, for which the list had no room"));
    }
    if let Some(first) = chunks_without_copy.first() {
        lines.push(format!(
            "{} chunks (the first is {first}) have no copy on another node, and stay as they are",
            chunks_without_copy.len()
        ));
    }
    lines
}

/// Asks in words whether it is to be.
pub(super) fn ask(yes: bool, looked: &AcceptLossAnswer, also: &str) -> anyhow::Result<()> {
    let AcceptLossAnswer { volume, chunks, nodes, .. } = looked;
    let (volume_shown, nodes) = (printable(volume), nodes.iter().map(usize::to_string).collect::<Vec<_>>().join(", "));
    let space = if also.is_empty() { "" } else { " " };
    let question = format!(
        "What nodes {nodes} alone have of these {chunks} chunks is lost for good, and the next flush of each client fails.{space}{also}"
    );
    let what = format!("this gives up what nodes {nodes} alone have of {chunks} chunks of volume '{volume_shown}'");
    confirm_in_words(yes, volume, &question, &what)
}

/// The sentence about a loss that is accepted.
pub(super) fn told(chunks: u32) -> String {
    format!(
        "{chunks} chunks have an older copy as their current one; the next flush of each client fails once: check the file systems and databases on it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ranges: usize) -> AcceptLossAnswer {
        let range = |n: usize| AcceptedRange { offset_bytes: (2 * n as u64) << 22, bytes: 1 << 22, node: 0 };
        AcceptLossAnswer {
            volume: "pool".to_string(),
            nodes: vec![1],
            chunks: ranges as u32,
            ranges: (0..ranges).map(range).collect(),
            unlisted_chunks: 0,
            chunks_without_copy: Vec::new(),
        }
    }

    #[test]
    fn the_ranges_are_listed_up_to_a_limit() {
        let expected =
            ["1 chunks get an older copy as their current one:", "  bytes 0 to 4194303 (4 MiB): what node 0 has"];
        assert_eq!(lines(&answer(1)), expected);
        for (ranges, last) in [(LINES_MAX, "what node 0 has"), (LINES_MAX + 1, "and 1 more ranges")] {
            let lines = lines(&answer(ranges));
            assert!(lines.last().unwrap().contains(last), "{ranges}: {lines:?}");
        }
        let more = AcceptLossAnswer { unlisted_chunks: 7, chunks_without_copy: vec![3, 5], ..answer(1) };
        let lines = lines(&more).join("\n");
        assert!(
            lines.contains("and 7 more chunks") && lines.contains("2 chunks (the first is 3) have no copy"),
            "{lines}"
        );
    }

    #[test]
    fn who_cannot_be_asked_has_to_say_yes() {
        // Tests have no terminal.
        let error = ask(false, &answer(4), "").unwrap_err();
        assert!(
            error.to_string().contains("what nodes 1 alone have of 4 chunks of volume 'pool'; confirm it with --yes"),
            "{error}"
        );
        assert!(ask(true, &answer(4), "").is_ok());
    }
}
