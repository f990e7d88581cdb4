//! `flashmob volume scrub`: all copies of a volume are read from the flash, verified and compared.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{BadPlace, ScrubAnswer, ScrubDetails, ScrubRequest};
use serde::Serialize;

use super::show::bad_lines;
use super::{named, volumes};
use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// How often the gateway is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a gateway may not answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long is waited for blocks that are being written again, once the scrub has gone through.
const MENDED_WITHIN: Duration = Duration::from_secs(30);

/// Read all copies of a volume from the flash, verify and compare them, and mend what differs.
///
/// A flash may flip bits, lose writes or put them in another place. Blocks that do not match their checksums are written
/// again with what another copy has. Blocks that match on no copy, or differ between copies though each matches, are
/// listed with their places and left as they are.
///
/// The gateway does this by itself, as `scrub` and `compare` of its configuration say. It scrubs while devices are charging
/// (or have no battery), cool, and not in use, and takes at most 4 % of the time from clients.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume scrub 127.0.0.1:10810 pool          # now, and goes on when its devices are charging and cool
  flashmob volume scrub 127.0.0.1:10810 pool --now    # whatever they do
  flashmob volume scrub 127.0.0.1:10810 pool --stop
  flashmob volume show 127.0.0.1:10810 pool           # when it was scrubbed, how far it is, what cannot be mended

The exit status is 1 if blocks are listed that cannot be mended; docs/copies.md says how to find the files there.
Ctrl-C ends the progress line; the gateway goes on, also after it was restarted.")]
pub struct ScrubArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Scrub whatever the devices do: on battery, hot, or with their screen on.
    #[arg(long)]
    now: bool,
    /// Stop the scrubs that are under way. The next ones begin a whole period later.
    #[arg(long, conflicts_with_all = ["now", "no_wait"])]
    stop: bool,
    /// Do not wait until it has gone through.
    #[arg(long)]
    no_wait: bool,
    /// Output format: sentences, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

/// What a scrub that has gone through has found.
#[derive(Debug, Serialize)]
struct Outcome {
    volume: String,
    /// Blocks that did not match or differed.
    found_blocks: u64,
    /// Blocks that were written again meanwhile.
    mended_blocks: u64,
    /// Chunks with blocks that are still to be written again.
    mending_chunks: usize,
    /// Ranges that were left out, of some copies or of all.
    left_out: u32,
    /// Copies that lacked something, and so were not compared.
    behind_copies: u32,
    /// What cannot be mended.
    bad: Vec<BadPlace>,
    unlisted_blocks: u64,
}

pub fn run(args: &ScrubArgs) -> anyhow::Result<()> {
    let before = details(args)?;
    let request = ScrubRequest { volume: args.volume.clone(), now: args.now, stop: args.stop };
    let begun = Instant::now();
    let body = post(&args.admin.open()?, "/volumes/scrub", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let answer: ScrubAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    if args.stop || args.no_wait {
        match (args.output, answer.is_running) {
            (Form::Json, _) => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
            (_, true) => writeln!(out, "volume {} is being scrubbed", args.volume)?,
            (_, false) => writeln!(out, "no scrub of volume {} is under way", args.volume)?,
        }
        return Ok(());
    }
    let compared_bytes = wait(args, begun)?;
    let after = mended(args)?;
    let outcome = Outcome {
        volume: args.volume.clone(),
        found_blocks: after.compare.found_blocks,
        mended_blocks: after.mended_blocks.saturating_sub(before.mended_blocks),
        mending_chunks: after.mending_chunks,
        left_out: after.compare.left_out,
        behind_copies: after.compare.behind_copies,
        bad: after.bad,
        unlisted_blocks: after.unlisted_blocks,
    };
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&outcome)?)?,
        Form::Table => {
            writeln!(out, "{} compared in {:.1} s", Bytes(compared_bytes), begun.elapsed().as_secs_f64())?;
            told(&outcome).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
    }
    if !outcome.bad.is_empty() {
        bail!("some blocks cannot be mended; docs/copies.md says how to find the files there");
    }
    Ok(())
}

/// The outcome in sentences.
fn told(outcome: &Outcome) -> Vec<String> {
    let mut lines = vec![match (outcome.found_blocks, outcome.mended_blocks) {
        (0, _) if outcome.left_out == 0 && outcome.behind_copies == 0 => {
            "every block matches its checksum on all copies, and they are equal".to_string()
        }
        (0, _) => "every block that was compared matches its checksum, and its copies are equal".to_string(),
        (found, mended) => format!("{found} blocks did not match or differed; {mended} were written again"),
    }];
    if outcome.left_out > 0 {
        lines.push(format!(
            "{} parts were left out, of some copies or of all: their nodes were away or could not read them",
            outcome.left_out
        ));
    }
    if outcome.behind_copies > 0 {
        lines.push(format!(
            "{} copies were not compared, as they lacked something: they are made equal while their nodes are there. `flashmob volume show` says how far \
             that is; compare again then",
            outcome.behind_copies
        ));
    }
    if outcome.mending_chunks > 0 {
        lines.push(format!("{} chunks are still to be mended: other copies of them are away", outcome.mending_chunks));
    }
    lines.extend(bad_lines(&outcome.bad, outcome.unlisted_blocks));
    lines
}

/// The scrubs of the volume.
fn details(args: &ScrubArgs) -> anyhow::Result<ScrubDetails> {
    let (report, _) = volumes(&args.admin.open()?)?;
    let volume = named(&report, &args.volume)?;
    let Some(copies) = &volume.copies else {
        bail!(
            "volume '{}' has no copies, and its data has no checksums: there is nothing to verify it with",
            args.volume
        );
    };
    if let Some(why) = &copies.deposed {
        bail!("this gateway does not serve it any more: {}", printable(why));
    }
    Ok(copies.scrub.clone())
}

/// What is true when this command is interrupted.
fn goes_on(admin: &AdminArgs, volume: &str) -> String {
    let (gateway, volume) = (admin.words(), printable(volume));
    format!(
        "the scrub goes on; `flashmob volume show {gateway} {volume}` says how far it is, `flashmob volume scrub {gateway} {volume} --stop` ends it"
    )
}

/// Waits until the scrub has gone through, with a progress line. Returns the bytes of the volume.
fn wait(args: &ScrubArgs, begun: Instant) -> anyhow::Result<u64> {
    super::say_when_interrupted(goes_on(&args.admin, &args.volume))?;
    let mut line = ProgressLine::new("scrubbing");
    let (mut answered, mut first, mut told) = (Instant::now(), None, None);
    loop {
        let compare = match details(args) {
            Ok(scrub) => scrub.compare,
            // The gateway may be busy, or be started again: then it goes on.
            Err(_) if answered.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(error) => return Err(error.context("the gateway does not answer any more")),
        };
        answered = Instant::now();
        if !compare.is_running {
            let is_done = compare.done_seconds_ago.is_some_and(|ago| ago <= begun.elapsed().as_secs_f64() + 1.0);
            anyhow::ensure!(is_done, "the scrub was stopped");
            return Ok(compare.total_bytes);
        }
        if compare.waits != told
            && let Some(why) = &compare.waits
            && begun.elapsed() > LOOK_EVERY * 8
        {
            log::warn!("it waits: {}", printable(why));
            told.clone_from(&compare.waits);
        }
        // It may have begun long ago.
        let first = *first.get_or_insert(compare.done_bytes);
        let done = compare.done_bytes.saturating_sub(first);
        line.show(&Progress { done, total: compare.total_bytes - first, unit: Unit::Bytes });
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until what was found is written again, as far as it can be.
fn mended(args: &ScrubArgs) -> anyhow::Result<ScrubDetails> {
    let begun = Instant::now();
    loop {
        let scrub = details(args)?;
        if scrub.mending_chunks == 0 || begun.elapsed() >= MENDED_WITHIN {
            return Ok(scrub);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            volume: "pool".to_string(),
            found_blocks: 0,
            mended_blocks: 3,
            mending_chunks: 0,
            left_out: 0,
            behind_copies: 0,
            bad: Vec::new(),
            unlisted_blocks: 0,
        }
    }

    #[test]
    fn what_was_found_is_said_with_what_became_of_it() {
        assert_eq!(told(&outcome()), ["every block matches its checksum on all copies, and they are equal"]);
        let lines = told(&Outcome { behind_copies: 7, ..outcome() });
        assert!(
            lines[0].starts_with("every block that was compared") && lines[1].starts_with("7 copies were not compared"),
            "{lines:?}"
        );
        let bad = BadPlace { offset_bytes: 8192, bytes: 4096, flaw: "differs".to_string(), nodes: vec![0, 2] };
        let lines = told(&Outcome { found_blocks: 4, left_out: 2, mending_chunks: 1, bad: vec![bad], ..outcome() });
        assert_eq!(lines[0], "4 blocks did not match or differed; 3 were written again");
        assert!(
            lines[1].starts_with("2 parts were left out") && lines[2].starts_with("1 chunks are still"),
            "{lines:?}"
        );
        assert_eq!(lines[3..].len(), 3, "{lines:?}");
        assert!(lines[5].contains("flashmob volume resync"), "{lines:?}");
    }
}
