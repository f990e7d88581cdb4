//! `flashmob volume`: the volumes of a gateway by node, adding and removing nodes, replacing a lost node's extent, accepting a loss, making copies equal, draining, pausing and measuring
//! nodes, moving copies, scrubs, recovering a lost map, and converting linear volumes.

mod accept;
mod convert;
mod measure;
mod members;
mod moves;
mod pause;
mod recover;
mod replace;
mod resize;
mod resync;
mod scrub;
mod show;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::commands::admin_target::AdminArgs;
use crate::commands::tell::Form;
use flashmob_server::net::fetch::{FetchError, Target, fetch_volumes};
use flashmob_server::status::report::REMOVED;
use flashmob_server::status::volumes::{NodeDetails, SCHEMA, VolumeDetails, VolumesReport};

/// Show a gateway's volumes by node; make them larger; add, remove, replace, drain, pause and measure nodes, rebalance and scrub copies, recover lost maps, and convert linear volumes.
#[derive(Debug, Args)]
pub struct VolumeArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::ShowArgs),
    Add(members::AddArgs),
    Remove(members::RemoveArgs),
    Resize(resize::ResizeArgs),
    Replace(replace::ReplaceArgs),
    AcceptLoss(accept::AcceptLossArgs),
    Resync(resync::ResyncArgs),
    Drain(moves::DrainArgs),
    Rebalance(moves::RebalanceArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Measure(measure::MeasureArgs),
    Scrub(scrub::ScrubArgs),
    Recover(recover::RecoverArgs),
    Convert(convert::ConvertArgs),
}

/// While a command waits for what the gateway does, Ctrl-C ends the command alone: then it says what goes on, and how that is ended.
fn say_when_interrupted(goes_on: String) -> anyhow::Result<()> {
    flashmob_node::signals::each_signal(move || {
        // Behind the line that shows how far it is.
        let _ = writeln!(io::stderr(), "\n{goes_on}");
        std::process::exit(i32::from(crate::commands::tell::STATUS_INTERRUPTED));
    })
}

/// Runs the subcommand.
pub fn run(args: &VolumeArgs) -> anyhow::Result<()> {
    match &args.command {
        Command::Show(args) => show::run(args),
        Command::Add(args) => members::add(args),
        Command::Remove(args) => members::remove(args),
        Command::Resize(args) => resize::run(args),
        Command::Replace(args) => replace::run(args),
        Command::AcceptLoss(args) => accept::run(args),
        Command::Resync(args) => resync::run(args),
        Command::Drain(args) => moves::drain(args),
        Command::Rebalance(args) => moves::rebalance(args),
        Command::Pause(args) => pause::run(args),
        Command::Resume(args) => pause::resume(args),
        Command::Measure(args) => measure::run(args),
        Command::Scrub(args) => scrub::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Convert(args) => convert::run(args),
    }
}

/// A map that is made of what nodes say, while no gateway runs.
#[derive(Debug, Args)]
struct MapArgs {
    /// The gateway's configuration file. The map is written beside it.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// Show what would be done, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Output format: a table, or JSON.
    #[arg(long, value_enum, default_value = "table")]
    output: Form,
}

impl MapArgs {
    /// Prints the report, or for people the sentence that says what was done.
    fn tell_end(&self, report: &impl Serialize, written: Option<String>) -> anyhow::Result<()> {
        let mut out = io::stdout();
        match self.output {
            Form::Json => writeln!(out, "{}", serde_json::to_string(report)?)?,
            Form::Table => writeln!(out, "{}", written.as_deref().unwrap_or("nothing is written"))?,
        }
        Ok(())
    }

    /// For people, what was found.
    fn tell_found(&self, lines: Vec<String>) -> anyhow::Result<()> {
        if self.output == Form::Table {
            lines.into_iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
        }
        Ok(())
    }
}

/// Which node of which volume of a running gateway.
#[derive(Debug, Args)]
struct NodeArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The volume.
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The node: its number, or its address, as `flashmob volume show` has them.
    #[arg(value_name = "NODE")]
    node: String,
}

/// The volumes of the gateway at an address, and the text that they were read from.
pub(in crate::commands) fn volumes(target: &Target) -> anyhow::Result<(VolumesReport, String)> {
    let body = fetch_volumes(target)?;
    let report: VolumesReport =
        serde_json::from_slice(&body).with_context(|| format!("cannot read the volumes of {target}"))?;
    if report.schema != SCHEMA {
        bail!(
            "{target} answers in format {}; this is flashmob {}, which reads format {SCHEMA}; use the same version",
            report.schema,
            env!("CARGO_PKG_VERSION")
        );
    }
    Ok((report, String::from_utf8(body)?))
}

/// Asks on the terminal whether to go on, unless `yes` was given. Where nobody can be asked, `what` says what has to be confirmed; if the answer
/// is no, `otherwise` is the error.
fn confirm(yes: bool, question: &str, what: &str, otherwise: &'static str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        bail_value!("{what}; confirm it with --yes");
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    stdin.read_line(&mut answer)?;
    anyhow::ensure!(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()), otherwise);
    Ok(())
}

/// Asks on the terminal for the volume's name before data is given up, unless `yes` was given; otherwise as [`confirm`].
fn confirm_in_words(yes: bool, volume: &str, question: &str, what: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        bail_value!("{what}; confirm it with --yes");
    }
    eprint!("{question} Type the name of the volume to go on: ");
    io::stderr().flush()?;
    let mut answer = String::new();
    stdin.read_line(&mut answer)?;
    anyhow::ensure!(answer.trim() == volume, "nothing was changed");
    Ok(())
}

/// An error after which nobody knows what the gateway did says so. `what`: the change that it may have made.
fn explained(error: FetchError, what: &str) -> anyhow::Error {
    let is_open = matches!(error, FetchError::Timeout(..) | FetchError::Cut(..) | FetchError::Io { .. });
    let error = anyhow::Error::new(error);
    if is_open {
        return error.context(format!(
            "there is no answer; {what}: `flashmob volume show` tells, and to ask again does no harm"
        ));
    }
    error
}

/// The volume with a name.
fn named<'a>(report: &'a VolumesReport, name: &str) -> anyhow::Result<&'a VolumeDetails> {
    let names = || report.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = report.volumes.iter().find(|volume| volume.name == name);
    found.with_context(|| format!("there is no volume '{name}'; there are: {}", flashmob_text::harmless(&names())))
}

/// The node with a number, or with a name.
fn node<'a>(volume: &'a VolumeDetails, which: &str) -> anyhow::Result<&'a NodeDetails> {
    // One that was added again has the name that it had before.
    let present = || volume.nodes.iter().filter(|node| node.state != REMOVED);
    let by_name = present().find(|node| node.name == which);
    let number = which.parse().ok();
    let by_number = || present().find(|node| Some(node.number) == number);
    by_name.or_else(by_number).with_context(|| {
        format!(
            "volume '{}' has no node '{which}'; give its number, 0 to {}, or its address as `flashmob volume show` has it",
            volume.name,
            volume.nodes.len().saturating_sub(1)
        )
    })
}
