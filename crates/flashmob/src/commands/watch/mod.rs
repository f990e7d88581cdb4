//! `flashmob status`: as everywhere, except that `--watch` of a gateway on a terminal draws what its nodes do.

mod history;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;

use flashmob_node::status::{self, Output, StatusArgs};
use flashmob_server::net::fetch::{FetchError, Target, fetch_live};
use flashmob_server::status::live::{LiveReport, SCHEMA};

/// Prints or draws the state of a process.
///
/// # Errors
/// As [`status::run`]; or the terminal cannot be drawn on.
pub fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let is_drawn = args.output() == Output::Text && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let Some(interval) = args.watch().filter(|_| is_drawn) else { return status::run(args) };
    status::check_interval(interval)?;
    match fetched(&args.open()?, 0) {
        Ok(first) => screen::draw(args.clone(), interval, first),
        // A node keeps no history, and neither did earlier gateways: the pages show them as well.
        Err(Missing::NoHistory) => status::run(args),
        Err(Missing::Failed(error)) => Err(error),
    }
}

/// Why there is no report.
#[derive(Debug)]
enum Missing {
    /// That process keeps none.
    NoHistory,
    Failed(anyhow::Error),
}

/// What the nodes of a gateway did from a second on.
fn fetched(target: &Target, since: u64) -> Result<LiveReport, Missing> {
    let body = match fetch_live(target, since) {
        Ok(body) => body,
        Err(FetchError::Foreign(_) | FetchError::Rejected(..)) if since == 0 => return Err(Missing::NoHistory),
        Err(error) => return Err(Missing::Failed(error.into())),
    };
    match serde_json::from_slice::<LiveReport>(&body) {
        Ok(report) if report.schema == SCHEMA => Ok(report),
        // The pages say which version it has.
        _ if since == 0 => Err(Missing::NoHistory),
        _ => Err(Missing::Failed(anyhow::anyhow!("{target} has another version of flashmob now"))),
    }
}
