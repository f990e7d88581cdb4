//! Namespaces of a lab: for processes, mounts and, for ordinary users, users; so that all of a lab
//! vanishes with its first process, for whatever reason that ends.
//!
//! ```text
//!  flashmob lab run ── waits, forwards signals
//!   └ middle ── enters the new namespaces; a process namespace begins with the next child
//!      └ supervisor ── process 1 of the lab: when it exits, the kernel kills everything in it
//! ```
//!
//! Each of the three exits when the one above it does (`PR_SET_PDEATHSIG`). They are forks without exec: the command has one
//! thread at that time.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::STATUS_IMPOSSIBLE;
use super::signals;

/// Candidates for the directory of the lab's files: mount points of every system that are usually
/// empty; the last one is used even if it is not. Only processes in the lab see the mount.
const MOUNT_POINTS: [&str; 4] = ["/media", "/srv", "/mnt", "/proc/driver"];

/// Runs `inside` as the first process of new namespaces, with a directory that exists only there, and returns its exit status.
/// The caller must have only one thread.
pub fn run_inside(inside: impl FnOnce(&Path) -> u8) -> anyhow::Result<u8> {
    signals::hold_back()?;
    let terminal = signals::Terminal::note();
    let outside = getpid();
    match fork()? {
        0 => {
            let status = middle(outside, inside).unwrap_or_else(impossible);
            std::process::exit(i32::from(status))
        }
        middle => {
            let status = signals::hand_on_and_wait(middle);
            terminal.take_back();
            status
        }
    }
}

fn middle(outside: Pid, inside: impl FnOnce(&Path) -> u8) -> anyhow::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have exited before the request: then no signal will come.
    anyhow::ensure!(getppid() == Some(outside), "the lab was stopped during startup");
    new_namespaces()?;
    // Its other end closes when this process exits, even before the child has requested its signal.
    let (alive, held) = io::pipe()?;
    match fork()? {
        0 => {
            drop(held);
            let status = supervisor(&alive, inside).unwrap_or_else(impossible);
            std::process::exit(i32::from(status))
        }
        supervisor => {
            let status = signals::hand_on_and_wait(supervisor);
            drop(held);
            status
        }
    }
}

fn supervisor(alive: &io::PipeReader, inside: impl FnOnce(&Path) -> u8) -> anyhow::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut polled = [PollFd::new(alive, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default()))?;
    anyhow::ensure!(polled[0].revents().is_empty(), "the lab was stopped during startup");
    let dir = mounts().with_context(refused)?;
    Ok(inside(&dir))
}

/// Enters new namespaces; ordinary users need a user namespace, in which they are root.
fn new_namespaces() -> anyhow::Result<()> {
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    match unshare(flags) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
        done => return done.context("cannot create namespaces"),
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(flags | libc::CLONE_NEWUSER).with_context(refused)?;
    let write = |name: &str, text: String| {
        std::fs::write(format!("/proc/self/{name}"), text).with_context(|| format!("/proc/self/{name}"))
    };
    write("setgroups", "deny".to_string())
        .and_then(|()| write("uid_map", format!("0 {user} 1")))
        .and_then(|()| write("gid_map", format!("0 {group} 1")))
        .with_context(refused)
}

fn refused() -> String {
    "this system does not allow creating namespaces, which the lab needs; run it as root (with CAP_SYS_ADMIN), or allow \
     it for all users: sysctl user.max_user_namespaces=10000, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
     kernel.apparmor_restrict_unprivileged_userns=0"
        .to_string()
}

/// Mounts the lab's own file systems, and returns its directory.
fn mounts() -> anyhow::Result<PathBuf> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot make mounts private")?;
    let careful = MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = mount("proc", "/proc", "proc", careful | MountFlags::NOEXEC, None) {
        // Containers that hide parts of /proc forbid mounting another one. The lab works with the old one.
        log::debug!("/proc stays the system's: {error}");
    }
    let empty = |path: &str| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let [.., last] = MOUNT_POINTS;
    let dir = MOUNT_POINTS.into_iter().find(|path| empty(path)).unwrap_or(last);
    mount("flashmob-lab", dir, "tmpfs", careful, Some(c"mode=755")).with_context(|| format!("cannot mount {dir}"))?;
    Ok(dir.into())
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: a plain system call. The process has one thread.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns 0 in the child, and the child's process id in the parent.
fn fork() -> anyhow::Result<i32> {
    // SAFETY: the process has one thread, so the child's memory is consistent and no other thread holds a lock in it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot start a process"),
        child => Ok(child),
    }
}

fn impossible(error: anyhow::Error) -> u8 {
    flashmob_node::command_line::tell_error(&error);
    STATUS_IMPOSSIBLE
}
