//! `flashmob push reproduce`: what one device can repeat of the papers, as one report of this machine.
//!
//! The program on the device measures, step by step, and each result is fetched at once: a device that disconnects loses one step. Progress,
//! verdicts and the page are those of `flashmob reproduce`.
//!
//! - `plan`: the steps
//! - `peer`: the other end of P4's connections

mod peer;
mod plan;

use std::cell::RefCell;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail, ensure};
use clap::Args;
use flashmob_report::{Input, Report};
use flashmob_results::{Document, merge, read};
use flashmob_text::Bytes;

use super::adb::quoted;
use super::devices::Attached;
use super::program;
use super::session::Session;
use super::trouble::{Trouble, trouble};
use crate::commands::own_runs;
use crate::commands::reproduce::page::{Outcome, OutputArgs, nothing_measured};
use crate::commands::reproduce::runs::{self, Merged};
use crate::commands::reproduce::{p3, p5};
use crate::commands::words;
use peer::Server;
use plan::{Paper, Setup, Step};

/// The folder of files on the device.
const FOLDER: &str = "reproduce";
/// Seconds and repetitions of P4's points: for figures, and for a quick run.
const NET: (f64, u32) = (3.0, 3);
const NET_QUICK: (f64, u32) = (2.0, 2);
/// Shares of the papers' sizes that are proposed where space is short.
const SCALES: [f64; 6] = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01];
/// Stays free on the device: Android warns and refuses writes when its storage is nearly full.
const SPARE_BYTES: u64 = 512 << 20;

/// Repeat on one device what it can measure of the papers without root, and write one page here.
///
/// P1: random reads over block sizes and threads (C1 to C3). P3: sequential and random reads, and orders of addresses
/// (C10, C11). P4: TCP and UDP both ways over the device's Wi-Fi, if that reaches this machine (never through adb, which
/// would measure the cable). P5: INSERTs into SQLite, with SQLite's own writes (C19).
///
/// Without root, schedulers cannot be set and the kernel's events cannot be read: C12, C13, C20 and C21 are then not
/// judged. On development systems 'adb root' gives root, and this command measures them as well.
///
/// All files on the device are removed at the end. Keep it plugged in, and use nothing else on it meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flashmob push reproduce --quick
        a quick run, some minutes: half a GiB on the device
  flashmob push reproduce --save results -o phone.html
        everything, about an hour: 10 GiB on the device; results are kept in files
  flashmob push reproduce --papers p1,p3 --scale 0.1
        the flash alone, with a tenth of the papers' sizes
  flashmob push --serial 0a1b2c3d reproduce --papers p5 --inserts 2000
        INSERTs on one of several devices
  flashmob push reproduce --papers p4 --address 192.168.1.2
        the network to this address of this machine, on the Wi-Fi of the device
  flashmob report results/p1.json pc.json -o both.html
        beside a PC's disk: flashmob bench disk FILE --preset p1 --save pc.json

Exit status: 0 measured, whatever the claims' verdicts; 130 stopped early; 1 error, see stderr (if the device
disconnects, or one paper cannot be measured, the page shows the rest); 2 wrong arguments. Ctrl-C ends the
measurement and removes its files; a second one leaves them, and 'flashmob push stop' removes them.")]
pub struct PushReproduce {
    /// Papers to repeat: p1, p3, p4, p5 [default: all].
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', hide_possible_values = true)]
    papers: Vec<Paper>,
    /// Quick run: a twentieth of P1 and P3, 200 INSERTs of each setting, two repetitions of 2 s for P4.
    #[arg(long)]
    quick: bool,
    /// Fraction of P1's and P3's sizes, reads and repetitions [default: 1, with --quick 0.05].
    #[arg(long, value_name = "PART", value_parser = crate::commands::bench::disk::scale)]
    scale: Option<f64>,
    /// INSERTs of each setting of P5 [default: 10,000, with --quick 200].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    inserts: Option<u64>,
    /// Address of this machine that the device reaches, for P4 [default: the one on the way to the device's Wi-Fi].
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Name of the device on the page [default: its model].
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Random seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArgs,
}

impl PushReproduce {
    /// Checks the arguments before anything is copied to a device.
    pub fn check(&self, devices: &[Attached]) -> anyhow::Result<()> {
        ensure_value!(
            devices.len() == 1,
            "a page is of one device, and {} are attached: choose one with --serial, and leave out --all",
            devices.len()
        );
        self.outputs.check()
    }

    fn papers(&self) -> Vec<Paper> {
        let mut papers = self.papers.clone();
        if papers.is_empty() {
            papers = vec![Paper::P1, Paper::P3, Paper::P4, Paper::P5];
        }
        papers.sort_unstable();
        papers.dedup();
        papers
    }
}

/// One paper's result.
struct Part {
    paper: Paper,
    path: PathBuf,
    merged: Merged,
}

/// Measures, fetches, judges, and writes the page.
pub fn run(session: &Session, args: &PushReproduce) -> anyhow::Result<ExitCode> {
    let papers = args.papers();
    let scale = args.scale.unwrap_or(if args.quick { p3::SCALE_QUICK } else { 1.0 });
    check_device(session, &papers, scale)?;
    let is_root = session.shell("id")?.trim_start().starts_with("uid=0(");
    let mut left_out = Vec::new();
    let server = papers.contains(&Paper::P4).then(|| server(session, args.address)).transpose()?.flatten();
    if papers.contains(&Paper::P4) && server.is_none() {
        left_out.push(
            "P4: the device has no address on Wi-Fi to which this machine has a way; connect both to the same network, or give --address"
                .to_string(),
        );
    }
    if !is_root && papers.iter().any(|paper| matches!(paper, Paper::P3 | Paper::P5)) {
        left_out.push(
            "not root on the device: no I/O schedulers and commands of P3 (C12, C13), no kernel's layers of P5 (C20, C21); if 'adb root' works there, run it first"
                .to_string(),
        );
    }
    for what in &left_out {
        log::warn!("left out: {what}");
    }
    let label = args.label.clone().or_else(|| session.properties.model.clone());
    let setup = Setup {
        folder: session.kept(FOLDER),
        label: label.unwrap_or_else(|| session.device.serial.clone()),
        seed: args.seed,
        scale,
        inserts: args.inserts.unwrap_or(if args.quick { p5::QUICK_INSERTS } else { p5::INSERTS }),
        net: if args.quick { NET_QUICK } else { NET },
        server: server.as_ref().map(|server| server.address),
        is_root,
    };
    let steps = plan::steps(&papers, &setup);
    ensure!(!steps.is_empty(), "{}: nothing to measure: {}", session.name(), left_out.join("; "));
    let mut parts = Vec::new();
    for paper in &papers {
        parts.push(part(*paper, args.outputs.save.as_deref())?);
    }
    session.shell(&format!("mkdir -p {}", quoted(&setup.folder)))?;
    let measured = measure(session, &setup, &steps, &mut parts);
    if let Err(error) = clean(session) {
        log::warn!(
            "{}: files may be left in {}: {error:#}; remove them with: flashmob push stop",
            session.name(),
            setup.folder
        );
    }
    let failure = measured?;
    tell(session, args, &setup, parts, left_out, failure)
}

/// Removes the files on the device.
pub fn clean(session: &Session) -> anyhow::Result<()> {
    session.shell(&format!("rm -rf {}", quoted(&session.kept(FOLDER)))).map(drop)
}

/// Fails if the device has not enough space, or is busy with another program of ours. Removes what an earlier measurement left.
fn check_device(session: &Session, papers: &[Paper], scale: f64) -> anyhow::Result<()> {
    if let Some(process) = program::running(session)? {
        bail!(
            "{}: a program of an earlier 'flashmob push' still runs there (process {process}); stop it with: flashmob push stop",
            session.name()
        );
    }
    if session.properties.node_runs {
        bail!(
            "{}: a node runs there, and would read the flash that is measured; stop it with: flashmob push stop",
            session.name()
        );
    }
    // What an earlier measurement left behind, when its device was unplugged, is no lack of space.
    let had_files = session.try_shell(&format!("[ -e {} ]", quoted(&session.kept(FOLDER))))?.status == 0;
    clean(session)?;
    let Some(free_bytes) = session.properties.free_bytes.filter(|_| !had_files) else { return Ok(()) };
    let needs = |scale| plan::space_bytes(papers, scale) + SPARE_BYTES;
    if needs(scale) > free_bytes {
        let smaller = SCALES.iter().find(|smaller| **smaller < scale && needs(**smaller) <= free_bytes);
        let remedy = match smaller {
            Some(smaller) => format!("give --scale {smaller}, or remove files there"),
            None => "remove files there, or measure without P1 and P3: --papers p4,p5".into(),
        };
        bail!(
            "{}: not enough space: {} are free in {}, {} are needed ({} of them stay free); {remedy}",
            session.name(),
            Bytes(free_bytes),
            session.folder,
            Bytes(needs(scale)),
            Bytes(SPARE_BYTES)
        );
    }
    Ok(())
}

/// The server that the device connects to, if it has a way to this machine.
fn server(session: &Session, address: Option<IpAddr>) -> anyhow::Result<Option<Server>> {
    let address = match address {
        Some(address) => Some(address),
        None => peer::toward(session)?,
    };
    address.map(Server::start).transpose()
}

fn part(paper: Paper, save: Option<&Path>) -> anyhow::Result<Part> {
    let name = format!("{}.json", paper.name().to_lowercase());
    let kept = save.map(|folder| runs::kept_file(folder, &name)).transpose()?;
    let path = kept.clone().unwrap_or_else(|| PathBuf::from(name));
    let merged = match paper {
        Paper::P1 => Merged::new("p1", merge::disks, kept),
        Paper::P3 => Merged::new("p3", merge::disks, kept),
        Paper::P4 => Merged::new("p4", merge::nets, kept),
        Paper::P5 => Merged::new("p5", merge::traces, kept),
    };
    Ok(Part { paper, path, merged })
}

/// Measures all steps. Results before a failure are kept; returns the first failure that left a paper without a result, or the one after
/// which the device was lost.
fn measure(
    session: &Session,
    setup: &Setup,
    steps: &[Step],
    parts: &mut [Part],
) -> anyhow::Result<Option<anyhow::Error>> {
    let scratch = own_runs::scratch("push")?;
    let parts = RefCell::new(parts);
    // Papers that cannot be measured: all of them once the device is lost.
    let missing = RefCell::new(Vec::<Paper>::new());
    let mut failure = None;
    let is_wanted = |step: &Step| !missing.borrow().contains(&step.paper());
    let one = |step: &Step, tick: &dyn Fn()| {
        let parts = parts.borrow();
        let so_far =
            parts.iter().find(|part| part.paper == step.paper()).and_then(|part| part.merged.document.as_ref());
        on_device(session, step, &step.arguments(setup, so_far), &setup.folder, scratch.path(), tick)
    };
    runs::each(steps, setup, &session.stop, false, is_wanted, one, |step, outcome| {
        let mut parts = parts.borrow_mut();
        let Some(part) = parts.iter_mut().find(|part| part.paper == step.paper()) else { return Ok(()) };
        match outcome {
            Err(error) if is_lost(&error) => {
                missing.borrow_mut().extend(steps.iter().map(Step::paper));
                failure = Some(error);
                Ok(())
            }
            Err(error) if part.merged.document.is_none() => {
                log::error!("{}", words(&error));
                missing.borrow_mut().push(part.paper);
                failure = failure.take().or(Some(error));
                Ok(())
            }
            outcome => part.merged.take(outcome),
        }
    })?;
    Ok(failure)
}

/// Runs one step on the device, and fetches its result; `None` if it was interrupted before it had any.
fn on_device(
    session: &Session,
    step: &Step,
    arguments: &[String],
    folder: &str,
    scratch: &Path,
    tick: &dyn Fn(),
) -> anyhow::Result<Option<Document>> {
    let (there, here) = (format!("{folder}/result.json"), scratch.join("result.json"));
    session.shell(&format!("rm -f {}", quoted(&there)))?;
    if session.stopping() {
        return Ok(None);
    }
    let arguments = [arguments, &["--save".to_string(), there.clone()]].concat();
    let ended = program::run_quietly(session, &arguments, tick)?;
    let what = runs::Run::words(step);
    if session.try_shell(&format!("[ -s {} ]", quoted(&there)))?.status != 0 {
        if session.stopping() {
            return Ok(None);
        }
        let said = &ended.said;
        ensure!(
            trouble(said) != Trouble::NoSpace,
            "{}: no space was left for {what}; give a smaller --scale, or remove files there",
            session.name()
        );
        let remedy = match step {
            Step::Net(_) => {
                "; check that the device and this machine are in the same network and that no firewall blocks this machine's port, or give --address"
            }
            _ => "",
        };
        bail!(
            "{}: {what} ended with exit status {} and measured nothing{remedy}. Its output:\n       {said}",
            session.name(),
            ended.status
        );
    }
    if ended.status != 0 && !session.stopping() {
        log::warn!(
            "{}: {what}: exit status {}; keeping what it measured. Its output:\n       {}",
            session.name(),
            ended.status,
            ended.said
        );
    }
    session.fetch(&there, &here)?;
    Ok(Some(read::file(&here).with_context(|| format!("{}: the file received is not a result", session.name()))?))
}

/// The device cannot be reached any more: further steps would fail alike.
fn is_lost(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Trouble>().is_some_and(|trouble| {
        matches!(
            trouble,
            Trouble::Vanished | Trouble::Offline | Trouble::NoDevice | Trouble::Unauthorised | Trouble::Silent { .. }
        )
    })
}

/// Writes the page of all results, and prints the claims. A device that was lost is an error all the same.
fn tell(
    session: &Session,
    args: &PushReproduce,
    setup: &Setup,
    parts: Vec<Part>,
    left_out: Vec<String>,
    failure: Option<anyhow::Error>,
) -> anyhow::Result<ExitCode> {
    let is_lost = failure.as_ref().is_some_and(is_lost);
    let interrupted = session.stop.load(Ordering::Relaxed) || is_lost;
    let (mut inputs, mut papers, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for Part { paper, path, merged } in parts {
        match merged.end(interrupted)? {
            Some(document) => {
                papers.push(paper.name());
                inputs.push(Input { path, document });
            }
            None => missing.push(paper.name()),
        }
    }
    if inputs.is_empty() {
        return failure.map_or_else(|| Ok(nothing_measured()), Err);
    }
    let is_kept = args.outputs.save.is_some();
    let results: Vec<String> =
        inputs.iter().filter(|_| is_kept).map(|input| input.path.display().to_string()).collect();
    let status = args.outputs.tell(Outcome {
        paper: &papers.join(", "),
        report: Report::new(inputs),
        how: format!("on {}", session.name()),
        settings: serde_json::json!({
            "setting": "device", "device": session.properties.model, "serial": session.device.serial,
            "android": session.properties.android, "is_root": setup.is_root, "scale": setup.scale,
            "inserts": setup.inserts, "seed": setup.seed, "quick": args.quick,
            "missing": missing, "left_out": left_out, "results": results,
        }),
        void: 0,
        instead: "",
        interrupted,
        results,
    })?;
    match failure {
        // The page is written, but a paper is missing on it.
        Some(error) if is_lost || !interrupted => Err(error),
        _ => Ok(status),
    }
}
