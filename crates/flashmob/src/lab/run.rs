//! Sets up a lab, runs the command in it, and reports the outcome.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use anyhow::Context;
use flashmob_lab::air::{Air, Port};
use flashmob_lab::cluster::Weakness;
use flashmob_node::command_line::tell_error;

use super::cluster::{Cluster, NODE_ADMIN_PORT};
use super::control::Control;
use super::host::Host;
use super::lateness::{LATE_FRACTION_MAX, LATE_NS, LATENESS_NS_MAX, is_late};
use super::medium::{self, Snapshot};
use super::nodes::Nodes;
use super::{Plan, STATUS_LATE, STATUS_NOT_FOUND, STATUS_NOT_RUN, address, namespace, signals};

/// Sets up a lab with this plan, runs its command in it, and returns the exit status for both. The caller must have only one
/// thread.
pub fn run(plan: Plan) -> anyhow::Result<u8> {
    namespace::run_inside(|dir| match supervise(plan, dir) {
        Ok(status) => status,
        Err(error) => {
            tell_error(&error);
            super::STATUS_IMPOSSIBLE
        }
    })
}

fn supervise(plan: Plan, dir: &Path) -> anyhow::Result<u8> {
    signals::COMMAND.hand_on()?;
    let plan = Arc::new(plan);
    let attachments = plan.attachments();
    let ports = attachments.len() as u32;
    let mut hosts = Vec::new();
    let mut taps = Vec::new();
    for port in (0..ports).map(Port) {
        let (host, tap) = Host::new(port, ports, &plan.congestion)?;
        hosts.push(host);
        taps.push(tap);
    }
    let mut air = Air::new(&plan.air, &attachments, plan.seed);
    for number in 0..plan.nodes {
        match plan.weakness(number) {
            Some(Weakness::Lossy(ppm)) => air.set_loss(address::node(number), ppm),
            Some(Weakness::Far(delay)) => air.set_delay(address::node(number), delay),
            _ => {}
        }
    }
    let medium = medium::start(air, taps)?;
    let hosts = Arc::new(hosts);
    let nodes = plan.flash_model().map(|_| Nodes::new(Arc::clone(&hosts), NODE_ADMIN_PORT));
    let control = Control::new(Arc::clone(&plan), medium, nodes);
    let socket = dir.join("lab.sock");
    control.listen(&socket)?;
    let mut cluster = Cluster::start(&plan, dir, &hosts)?;

    // The lateness of the setup does not count.
    let begin = control.look(true)?;
    let child = match cluster.command(&socket) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("error: cannot run {}: {error}", plan.command[0].display());
            return Ok(if error.kind() == io::ErrorKind::NotFound { STATUS_NOT_FOUND } else { STATUS_NOT_RUN });
        }
    };
    let status = wait(child, &mut cluster)?;
    conclude(&plan, &control, &begin, status)
}

/// Waits for the command's end. The first process of a process namespace also reaps orphaned processes.
fn wait(mut command: Child, cluster: &mut Cluster<'_>) -> anyhow::Result<u8> {
    loop {
        // SAFETY: zeroed bytes are a valid siginfo, which the kernel fills in. The process that ended remains waitable.
        let pid = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            match libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOWAIT) {
                0 => info.si_pid(),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() == io::ErrorKind::Interrupted {
                        continue;
                    }
                    return Err(error).context("cannot wait for the command");
                }
            }
        };
        if pid == command.id() as i32 {
            return Ok(signals::exit_status(command.wait()?.into_raw()));
        }
        if cluster.look_after() {
            // It is an orphan, which nothing else waits for.
            // SAFETY: a plain system call; its status is not requested.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }
}

/// Reports the outcome and warnings, and chooses the exit status.
fn conclude(plan: &Plan, control: &Control, begin: &Snapshot, status: u8) -> anyhow::Result<u8> {
    let end = control.look(false)?;
    if log::log_enabled!(log::Level::Info) {
        eprintln!("{}", summary(plan, begin, &end));
    }
    if end.refused + end.not_taken > 0 {
        let (refused, not_taken) = (end.refused, end.not_taken);
        log::debug!("{refused} frames were not for the air, {not_taken} were not accepted by their hosts");
    }
    if !is_late(&end.lateness) {
        return Ok(status);
    }
    eprintln!(
        "warning: VOID: this machine was too busy to keep the air's time, so discard the figures of this run. The limits: \
         at most {} % of the frames more than {} ms late, and none more than {} ms. Try again with less load or fewer nodes.",
        LATE_FRACTION_MAX * 100.0,
        LATE_NS / 1_000_000,
        LATENESS_NS_MAX / 1_000_000
    );
    Ok(if status == 0 { STATUS_LATE } else { status })
}

fn summary(plan: &Plan, begin: &Snapshot, end: &Snapshot) -> String {
    let (b, e) = (&begin.counters, &end.counters);
    let busy = (e.busy_ns - b.busy_ns) as f64 / end.now.nanos_since(begin.now).max(1) as f64;
    let late = &end.lateness;
    format!(
        "lab: modelled air {}: {} frames delivered, {} dropped, {} sent on the air; busy {:.1} %, {} collisions; \
         late p50 {:.0} us, p99 {:.0} us, max {:.0} us, {:.2} % above {} ms",
        plan.air.name,
        e.delivered - b.delivered,
        e.dropped - b.dropped,
        e.frames - b.frames,
        busy * 100.0,
        e.collisions - b.collisions,
        late.p50_us,
        late.p99_us,
        late.max_us,
        late.late_fraction * 100.0,
        LATE_NS / 1_000_000
    )
}
