//! `flashmob status`: the state of a running gateway or node, for people or as JSON.
//!
//! It only queries and prints. Texts from the other end are printed only after `units::printable`.

mod devices;
mod page;
mod paths;
#[cfg(test)]
mod tests;
pub mod units;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::Deserialize;

use self::page::page;
use crate::admin_target::AdminArgs;
use flashmob_server::net::fetch::{Target, fetch_status};
use flashmob_server::status::finding::GATEWAY;
use flashmob_server::status::report::{Report, SCHEMA};

/// Shortest interval of `--watch`.
const WATCH_MIN: Duration = Duration::from_millis(100);

/// Show the status of a running gateway or node.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  flashmob status 127.0.0.1:10810
  flashmob status 127.0.0.1:10810 --watch 1s
  flashmob status cluster.toml --output json | jq .gateway.volumes
  flashmob status https://gateway.local:10810 --credentials alice")]
pub struct StatusArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Output format: a table, or the JSON of /status.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Repeat at this interval. On a terminal, flashmob draws what the nodes of a gateway do: q quits, z zooms.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time_or_none)]
    watch: Option<Duration>,
}

impl StatusArgs {
    /// What to print.
    #[must_use]
    pub fn output(&self) -> Output {
        self.output
    }

    /// The interval at which it is repeated.
    #[must_use]
    pub fn watch(&self) -> Option<Duration> {
        self.watch
    }

    /// The port to ask.
    ///
    /// # Errors
    /// See [`AdminArgs::open`].
    pub fn open(&self) -> anyhow::Result<Target> {
        self.admin.open()
    }
}

/// Whether an interval of `--watch` is long enough.
///
/// # Errors
/// It is too short.
pub fn check_interval(interval: Duration) -> anyhow::Result<()> {
    ensure_value!(interval >= WATCH_MIN, "--watch {interval:?} is too short; the minimum is {WATCH_MIN:?}");
    Ok(())
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Tables for people, at most 120 columns wide.
    Text,
    /// The report as the process gave it, on one line.
    Json,
}

/// Prints the state of a process, repeatedly every `watch` if given, until it is interrupted.
///
/// # Errors
/// There is no first report, and why; later errors do not end the watch. A closed pipe is no error.
pub fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let screen = Screen { out: &mut stdout.lock(), terminal, colour };
    print(&args.admin, args.output, args.watch, screen, &mut |interval| {
        std::thread::sleep(interval);
        true
    })
}

/// The output for the state.
struct Screen<'a> {
    out: &'a mut dyn Write,
    /// It can be redrawn in place.
    terminal: bool,
    colour: bool,
}

/// As [`run`]; `pause` returns whether to continue.
fn print(
    admin: &AdminArgs,
    output: Output,
    watch: Option<Duration>,
    mut screen: Screen<'_>,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> anyhow::Result<()> {
    check_interval(watch.unwrap_or(WATCH_MIN))?;
    let mut text = state(admin, output, screen.colour)?;
    let mut first = true;
    loop {
        match screen.show(&text, watch, output, first) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
            shown => shown.context("cannot print the status")?,
        }
        first = false;
        let Some(interval) = watch else { return Ok(()) };
        loop {
            if !pause(interval) {
                return Ok(());
            }
            match state(admin, output, screen.colour) {
                Ok(next) => text = next,
                // A program that reads JSON could not parse a line of text.
                Err(e) if output == Output::Json => {
                    log::warn!("{e:#}");
                    continue;
                }
                Err(e) => text = format!("{e:#}\n"),
            }
            break;
        }
    }
}

/// The state of the process at an admin address.
///
/// # Errors
/// It cannot be had, and why.
pub fn report(target: &Target) -> anyhow::Result<Report> {
    read(&fetch_status(target)?).with_context(|| format!("cannot read the status of {target}"))
}

fn state(admin: &AdminArgs, output: Output, colour: bool) -> anyhow::Result<String> {
    // Each time: the keys may have been replaced.
    let target = &admin.open()?;
    let body = fetch_status(target)?;
    let report = read(&body).with_context(|| format!("cannot read the status of {target}"))?;
    match output {
        Output::Text => Ok(page(&report, colour).replace(GATEWAY, &units::printable(&admin.words()))),
        Output::Json => Ok(format!("{}\n", String::from_utf8(body)?.trim_end())),
    }
}

/// Parses a report, if this version supports its format.
fn read(body: &[u8]) -> anyhow::Result<Report> {
    #[derive(Deserialize)]
    struct Form {
        schema: u32,
        version: String,
    }
    let form: Form = serde_json::from_slice(body).context("it is not a flashmob status report")?;
    if form.schema != SCHEMA {
        bail!(
            "it has format {}, of flashmob {}; this is flashmob {}, which reads format {SCHEMA}; use the same version",
            form.schema,
            units::printable(&form.version),
            env!("CARGO_PKG_VERSION"),
        );
    }
    serde_json::from_slice(body).context("a part of the report is missing or invalid")
}

impl Screen<'_> {
    fn show(&mut self, text: &str, watch: Option<Duration>, output: Output, first: bool) -> io::Result<()> {
        let mut text = text.to_string();
        match watch {
            Some(interval) if self.terminal && output == Output::Text => {
                text.push_str(&format!("\nevery {interval:?}; Ctrl-C ends\n"));
                // Each line is overwritten in place and its rest cleared, to avoid flicker.
                text = format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"));
            }
            Some(_) if !first && output == Output::Text => text.insert(0, '\n'),
            _ => {}
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
