//! `flashmob doctor`: its arguments and its output.
//!
//! - [`cluster`]: a cluster, as its gateway reports it
//! - [`etcd`]: the etcd cluster of its gateways
//! - [`rate`]: the rate of a path
//! - [`text`]: the findings as text
//! - [`treat`]: prompting, setting, restoring

mod args;
mod cluster;
mod etcd;
mod rate;
#[cfg(test)]
mod tests;
mod text;
mod treat;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use flashmob_doctor::look::{Looked, look};
use flashmob_doctor::path::Asked;
use flashmob_doctor::view::{Rate, Target, View};
use flashmob_results::diagnosis::{Diagnosis, Outcome};

pub use args::DoctorArgs;
use args::Peer;

use super::tell::{Form, harmless, json, print};

/// Something is wrong. Not 1, which is a failure of the checks, nor 2, which is an error in the arguments.
const STATUS_WRONG: u8 = 3;

/// Runs the checks, and the actions that were requested.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if args.undo {
        return treat::undo(args);
    }
    treat::check(args)?;
    let mut view = view(args)?;
    let found = look_at(&view, args);
    let mut left = is_wrong(&found.diagnosis);
    if args.output == Form::Table {
        print(&text::render(&found.diagnosis, args.all))?;
    }
    if args.fix {
        if treat::fix(args, &found)? {
            // The kernel's data about the disk was read before.
            add_data(&mut view, args)?;
        }
        let now = look_at(&view, args);
        left = is_wrong(&now.diagnosis);
        if args.output == Form::Json {
            print(&json(&now.diagnosis)?)?;
        }
    } else if args.output == Form::Json {
        print(&json(&found.diagnosis)?)?;
    }
    Ok(if left { ExitCode::from(STATUS_WRONG) } else { ExitCode::SUCCESS })
}

fn view(args: &DoctorArgs) -> anyhow::Result<View> {
    let mut view = match &args.root {
        Some(root) => {
            let is_tree = root.join("proc").is_dir() || root.join("sys").is_dir();
            anyhow::ensure!(
                is_tree,
                "--root {}: it has no folder 'proc' or 'sys'; copy them there, see docs/doctor.md",
                root.display()
            );
            View::of_tree(root)
        }
        None => View::of_this_device(),
    };
    if let Some(peer) = &args.peer {
        let asked = Asked {
            peer: harmless(&peer.text),
            address: resolve(peer)?,
            is_port_named: peer.port.is_some(),
            timeout: args.timeout,
            said_bits_per_second: args.rate,
        };
        view.add_path(&asked, Some(&|address| rate::measured(address, args.timeout)));
    }
    let rate = view.path.as_ref().map_or(args.rate.map(Rate::Said), |path| path.rate);
    let found_rtt_s = view.path.as_ref().and_then(|path| path.rtt_s);
    view.target = Target::of(args.rtt.map(|rtt| rtt.as_secs_f64()), found_rtt_s, rate);
    view.cluster =
        args.cluster.as_deref().map(|target| cluster::at(target, args.credentials.as_deref())).transpose()?;
    view.etcd = match (&args.etcd, &args.cluster) {
        (Some(target), _) => Some(etcd::at(target, args.timeout)?),
        (None, Some(target)) => etcd::of_cluster_config(target, args.timeout),
        (None, None) => None,
    };
    add_data(&mut view, args)?;
    Ok(view)
}

fn add_data(view: &mut View, args: &DoctorArgs) -> anyhow::Result<()> {
    let Some(path) = &args.data else { return Ok(()) };
    view.add_data(path).with_context(|| format!("--data {}: cannot be examined", path.display()))
}

fn look_at(view: &View, args: &DoctorArgs) -> Looked {
    look(view, env!("CARGO_PKG_VERSION"), &|name| args.only.is_empty() || args.only.iter().any(|only| only == name))
}

fn is_wrong(diagnosis: &Diagnosis) -> bool {
    diagnosis.checks.iter().any(|check| matches!(check.outcome, Outcome::Wrong | Outcome::Severe))
}

fn resolve(peer: &Peer) -> anyhow::Result<SocketAddr> {
    let port = peer.port.unwrap_or(args::PORT_DEFAULT);
    let addresses = flashmob_host::addresses_of(&peer.host, port)
        .with_context(|| format!("--peer {}: cannot resolve the name; give an address", harmless(&peer.text)))?;
    addresses.into_iter().next().with_context(|| format!("--peer {}: the name has no address", harmless(&peer.text)))
}
