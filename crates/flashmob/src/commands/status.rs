//! `flashmob status`.

use std::time::Duration;

use clap::Args;

use crate::admin::show::{Output, status_command};
use crate::config::quantity::parse_period;

/// Show the status of a running gateway or node.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob status 127.0.0.1:10810
  flashmob status 127.0.0.1:10810 --watch 1s
  flashmob status 127.0.0.1:10810 --output json | jq .gateway.volumes")]
pub struct StatusArgs {
    /// Admin address of the gateway or node: its --admin option (or 'admin' in the gateway's configuration).
    #[arg(value_name = "ADDR:PORT")]
    target: String,
    /// Output format: a table, or the JSON of /status.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Repeat at this interval.
    #[arg(long, value_name = "PAUSE", value_parser = pause)]
    watch: Option<Duration>,
}

fn pause(text: &str) -> Result<Duration, String> {
    parse_period(text).ok_or_else(|| format!("'{text}' is not a time; write a number and a unit, such as 500ms or 2s"))
}

pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    status_command(&args.target, args.output, args.watch)
}
