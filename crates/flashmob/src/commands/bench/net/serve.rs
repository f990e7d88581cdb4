//! The server, and its log.

use std::process::ExitCode;

use flashmob_bench::net::{Server, Told};

use super::NetArgs;
use crate::commands::tell;

/// Serves until a signal, or for one test.
pub fn run(args: &NetArgs) -> anyhow::Result<ExitCode> {
    let cancel = tell::on_signal()?;
    let server = Server::bind(args.bind, args.port)?;
    log::info!("listening on {}", server.address());
    if args.bind.is_none() {
        log::info!(
            "listening on all addresses: anyone who can reach this port can make this device send and receive; --bind ADDRESS restricts it"
        );
    }
    let is_good = server.run(args.one_off, &cancel, &mut |told| match told {
        Told::Test { client, what } => log::info!("{client}: {what}"),
        Told::Failed { client, why } => log::warn!("{client}: no result: {why}"),
        Told::Busy { client } => log::info!("{client}: rejected: another test is running"),
    })?;
    Ok(if is_good || !args.one_off { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
