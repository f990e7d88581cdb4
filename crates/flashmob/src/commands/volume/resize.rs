//! `flashmob volume resize`: a volume gets another size while it is used.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{ResizeAnswer, ResizeRequest, UnderWay};

use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// How often is asked what came of it.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Give a volume with copies another size, while it is used.
///
/// To grow, it takes room that is free on its nodes (`flashmob volume show`, column `room`; `flashmob volume add` makes more). The new room reads as
/// zeros. Clients that are connected keep to the size that they were told; they see the new one when they connect anew. Then the file system
/// in the volume can be made larger, as by resize2fs.
///
/// To shrink, what lies behind the new end has to be trimmed: it is looked through first, and nothing changes if some of it holds data. With --yes it is
/// given up, whatever it holds: that cannot be undone, and nothing asks again. Make the file system smaller before; clients get errors for what is cut off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume resize 127.0.0.1:10810 pool --size 60GiB --dry-run    # whether there is room
  flashmob volume resize 127.0.0.1:10810 pool --size 60GiB
  umount /dev/nbd0; nbd-client -d /dev/nbd0; nbd-client 127.0.0.1 /dev/nbd0 -N pool    # the kernel's client sees the new size
  e2fsck -f /dev/nbd0 && resize2fs /dev/nbd0

  umount /dev/nbd0 && e2fsck -f /dev/nbd0 && resize2fs /dev/nbd0 20G   # to shrink: the file system first
  blkdiscard -f --offset 20GiB /dev/nbd0                                # this destroys what lies behind 20 GiB
  flashmob volume resize 127.0.0.1:10810 pool --size 20GiB
  nbd-client -d /dev/nbd0; nbd-client 127.0.0.1 /dev/nbd0 -N pool")]
pub struct ResizeArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The size that it is to have: a multiple of 4 MiB, as in 60GiB.
    #[arg(long, value_name = "SIZE", value_parser = crate::commands::size)]
    size: u64,
    /// Only say whether that can be.
    #[arg(long)]
    dry_run: bool,
    /// Give up what lies behind a smaller end, whatever it holds.
    #[arg(long)]
    yes: bool,
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &ResizeArgs) -> anyhow::Result<()> {
    let mut request = ResizeRequest {
        volume: args.volume.clone(),
        size_bytes: args.size,
        give_up: args.yes,
        dry_run: args.dry_run,
        follows: None,
    };
    let mut line = ProgressLine::new("looking through what is cut off");
    let answer = loop {
        let answer = ask(args, &request)?;
        let Some(UnderWay { number, done_bytes, total_bytes }) = answer.under_way else { break answer };
        line.show(&Progress { done: done_bytes, total: total_bytes, unit: Unit::Bytes });
        request.follows = Some(number);
        std::thread::sleep(ASK_EVERY);
    };
    drop(line);
    let mut out = io::stdout();
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(out, "{}", told(&answer, args))?,
    }
    Ok(())
}

fn ask(args: &ResizeArgs, request: &ResizeRequest) -> anyhow::Result<ResizeAnswer> {
    let body = post(&args.admin.open()?, "/volumes/resize", &serde_json::to_vec(request)?, TIMEOUT)?;
    serde_json::from_slice(&body).context("cannot read the gateway's answer")
}

fn told(answer: &ResizeAnswer, args: &ResizeArgs) -> String {
    let ResizeAnswer { volume, from_bytes, size_bytes, .. } = answer;
    let (volume, from, to) = (printable(volume), Bytes(*from_bytes), Bytes(*size_bytes));
    let is_smaller = size_bytes < from_bytes;
    match args.dry_run {
        _ if from_bytes == size_bytes => format!("volume {volume} has {to} already"),
        true if is_smaller && args.yes => {
            format!("volume {volume} has {from}, and can be cut to {to}, with what it holds there")
        }
        true if is_smaller => format!("volume {volume} has {from}, and holds nothing behind {to}"),
        true => format!("volume {volume} has {from}, and there is room for {to}"),
        false if is_smaller => format!("volume {volume} had {from}, and has {to}; the rest of its room is free"),
        false => format!("volume {volume} had {from}, and has {to}; clients see that when they connect anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ResizeArgs,
    }

    #[test]
    fn what_has_changed_is_told() {
        let told = |from: u64, to: u64, how: &[&str]| {
            let args = ["resize", "127.0.0.1:1", "pool", "--size", "8MiB"].iter().chain(how);
            let args = Cli::parse_from(args).args;
            let (from_bytes, size_bytes) = (from << 20, to << 20);
            told(&ResizeAnswer { volume: "pool".into(), from_bytes, size_bytes, under_way: None }, &args)
        };
        assert_eq!(
            [
                told(4, 8, &[]),
                told(4, 8, &["--dry-run"]),
                told(8, 8, &[]),
                told(12, 8, &[]),
                told(12, 8, &["--dry-run"]),
                told(12, 8, &["--dry-run", "--yes"]),
            ],
            [
                "volume pool had 4 MiB, and has 8 MiB; clients see that when they connect anew",
                "volume pool has 4 MiB, and there is room for 8 MiB",
                "volume pool has 8 MiB already",
                "volume pool had 12 MiB, and has 8 MiB; the rest of its room is free",
                "volume pool has 12 MiB, and holds nothing behind 8 MiB",
                "volume pool has 12 MiB, and can be cut to 8 MiB, with what it holds there",
            ]
        );
    }
}
