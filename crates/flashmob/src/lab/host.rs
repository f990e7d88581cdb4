//! A host of the lab: a network namespace with one interface, connected to the medium.
//!
//! The namespace has no name: it exists as long as a descriptor of it or a process in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use flashmob_lab::air::Port;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{address, tap};

/// A host.
#[derive(Debug)]
pub struct Host {
    namespace: OwnedFd,
}

impl Host {
    /// Creates the host for this port out of `ports`, and returns it with the medium's end of its TAP device.
    pub fn new(port: Port, ports: u32, congestion: &str) -> anyhow::Result<(Host, OwnedFd)> {
        // A thread that entered another namespace cannot be used for anything else, so it gets its own.
        let make = move || {
            // SAFETY: a plain system call, which affects this thread only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error()).context("cannot create a network namespace");
            }
            let namespace = File::open("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")?;
            let tap = tap::open()?;
            let ip = address::ip(port);
            let (network, prefix_bits) = address::NETWORK;
            no_ipv6();
            tap::loopback_up().context("cannot bring up the loopback interface")?;
            tap::configure(address::mac(port), ip, prefix_bits).context("cannot configure the TAP device")?;
            tap::route_congestion(network, prefix_bits, ip, congestion)?;
            let others = (0..ports).map(Port).filter(|&p| p != port);
            tap::neighbours(others.map(|p| (address::ip(p), address::mac(p)))).context("cannot set neighbours")?;
            Ok((Host { namespace: namespace.into() }, tap))
        };
        std::thread::scope(|scope| scope.spawn(make).join().unwrap_or_else(|_| anyhow::bail!("a thread failed")))
    }

    /// Runs `work` in the host's network, on a thread of its own.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let enter_and_work = || {
            move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        std::thread::scope(|scope| {
            scope.spawn(enter_and_work).join().unwrap_or_else(|_| anyhow::bail!("a thread failed"))
        })
    }

    /// Makes a command run in the host's network.
    pub fn enter(&self, command: &mut Command) {
        let namespace = self.namespace.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made, which allocate nothing and take no lock. The descriptor
        // is open: hosts outlive all processes in them.
        unsafe {
            command.pre_exec(move || match libc::setns(namespace, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
}

/// Disables IPv6: nothing in a lab uses it, and its own packets would take air time.
fn no_ipv6() {
    for which in ["all", "default"] {
        // Without IPv6 there is no such file.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
}
