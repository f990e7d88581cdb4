//! `flashmob status`.

use std::time::Duration;

use clap::Args;

use crate::admin::show::{Output, status_command};

/// Show what a running gateway or node does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob status 127.0.0.1:10810
  flashmob status 127.0.0.1:10810 --watch 1s
  flashmob status 127.0.0.1:10810 --output json | jq .gateway.volumes")]
pub struct StatusArgs {
    /// Where it was told to answer with --admin (or 'admin' in a gateway's configuration).
    #[arg(value_name = "ADDR:PORT")]
    target: String,
    /// A table for people, or the JSON of /status.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Show it again and again, with this pause.
    #[arg(long, value_name = "TIME", value_parser = crate::commands::time_or_none)]
    watch: Option<Duration>,
}

pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    status_command(&args.target, args.output, args.watch)
}
