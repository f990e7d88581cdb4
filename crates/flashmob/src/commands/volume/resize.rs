//! `flashmob volume resize`: a volume grows while it is used.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use flashmob_core::units::Bytes;
use flashmob_server::net::fetch::{TIMEOUT, post};
use flashmob_server::status::volumes::{ResizeAnswer, ResizeRequest};

use crate::commands::admin_target::AdminArgs;
use crate::commands::status::units::printable;
use crate::commands::tell::Form;

/// Make a volume with copies larger, while it is used.
///
/// It takes room that is free on its nodes (`flashmob volume show`, column `room`; `flashmob volume add` makes more). The new room reads as zeros.
/// A volume cannot shrink.
///
/// Clients that are connected keep to the size that they were told; they see the new one when they connect anew. Then the file system
/// in the volume can be made larger, as by resize2fs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob volume resize 127.0.0.1:10810 pool --size 60GiB --dry-run    # whether there is room
  flashmob volume resize 127.0.0.1:10810 pool --size 60GiB
  nbd-client -d /dev/nbd0 && nbd-client 127.0.0.1 /dev/nbd0 -N pool && resize2fs /dev/nbd0")]
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
    /// Output format: a sentence, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

pub fn run(args: &ResizeArgs) -> anyhow::Result<()> {
    let request = ResizeRequest { volume: args.volume.clone(), size_bytes: args.size, dry_run: args.dry_run };
    let body = post(&args.admin.open()?, "/volumes/resize", &serde_json::to_vec(&request)?, TIMEOUT)?;
    let answer: ResizeAnswer = serde_json::from_slice(&body).context("cannot read the gateway's answer")?;
    let mut out = io::stdout();
    match args.output {
        Form::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        Form::Table => writeln!(out, "{}", told(&answer, args.dry_run))?,
    }
    Ok(())
}

fn told(answer: &ResizeAnswer, is_dry: bool) -> String {
    let ResizeAnswer { volume, from_bytes, size_bytes } = answer;
    let (volume, from, to) = (printable(volume), Bytes(*from_bytes), Bytes(*size_bytes));
    match (from_bytes == size_bytes, is_dry) {
        (true, _) => format!("volume {volume} has {to} already"),
        (false, true) => format!("volume {volume} has {from}, and there is room for {to}"),
        (false, false) => format!("volume {volume} had {from}, and has {to}; clients see that when they connect anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_told() {
        let answer =
            |from: u64, to: u64| ResizeAnswer { volume: "pool".into(), from_bytes: from << 20, size_bytes: to << 20 };
        let lines = [told(&answer(4, 8), false), told(&answer(4, 8), true), told(&answer(8, 8), false)];
        assert_eq!(
            lines,
            [
                "volume pool had 4 MiB, and has 8 MiB; clients see that when they connect anew",
                "volume pool has 4 MiB, and there is room for 8 MiB",
                "volume pool has 8 MiB already",
            ]
        );
    }
}
