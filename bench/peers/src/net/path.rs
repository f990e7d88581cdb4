//! Where it is measured: loopback, or a pair of interfaces between two network namespaces. Those hang on two processes that do
//! nothing, and are gone with them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Client,
    Server,
}

/// A path between two ends.
pub enum Path {
    Loopback,
    Veth { client: Namespace, server: Namespace },
}

/// A namespace that lives as long as a process in it.
pub struct Namespace {
    keeper: Child,
    file: File,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Path {
    /// 127.0.0.1.
    pub fn loopback() -> anyhow::Result<Path> {
        Ok(Path::Loopback)
    }

    /// Two namespaces with a pair of interfaces.
    pub fn veth() -> anyhow::Result<Path> {
        let (client, server) = (namespace()?, namespace()?);
        let path = Path::Veth { client, server };
        let Path::Veth { client, server } = &path else { unreachable!("it was just made") };
        let peer = server.keeper.id().to_string();
        ip(client, &["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &peer])?;
        for (namespace, device, address) in [(client, "near", "10.77.0.1/24"), (server, "far", "10.77.0.2/24")] {
            ip(namespace, &["address", "add", address, "dev", device])?;
            ip(namespace, &["link", "set", device, "up"])?;
            ip(namespace, &["link", "set", "lo", "up"])?;
        }
        Ok(path)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Path::Loopback => "loopback",
            Path::Veth { .. } => "veth",
        }
    }

    pub fn server_address(&self) -> &'static str {
        match self {
            Path::Loopback => "127.0.0.1",
            Path::Veth { .. } => "10.77.0.2",
        }
    }

    /// A program at one end.
    pub fn command(&self, end: End, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        match (self, end) {
            (Path::Loopback, _) => {}
            (Path::Veth { client, .. }, End::Client) => enter(&mut command, client),
            (Path::Veth { server, .. }, End::Server) => enter(&mut command, server),
        }
        command
    }

    /// A port that was free just now, for servers that cannot choose one themselves.
    pub fn free_port(&self) -> anyhow::Result<u16> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        Ok(listener.local_addr()?.port())
    }

    /// Somebody listens there at the server's end. Asking does not connect: a server of one test would be used up.
    pub fn listens(&self, port: &str) -> anyhow::Result<bool> {
        let mut ss = self.command(End::Server, std::path::Path::new("ss"));
        ss.args(["-Hltn", &format!("sport = :{port}")]);
        Ok(!ss.output().context("'ss' is not installed")?.stdout.is_empty())
    }
}

fn namespace() -> anyhow::Result<Namespace> {
    let mut command = Command::new("sleep");
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: between fork and exec only system calls are made, which allocate nothing and take no lock.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::unshare(libc::CLONE_NEWNET) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    // A process that started has passed the calls before.
    let keeper = command.spawn().context("network namespaces need root")?;
    let file = File::open(format!("/proc/{}/ns/net", keeper.id())).context("the namespace cannot be opened")?;
    Ok(Namespace { keeper, file })
}

/// Starts the program in the namespace.
fn enter(command: &mut Command, namespace: &Namespace) {
    let fd = namespace.file.as_raw_fd();
    // SAFETY: between fork and exec one system call is made, on a descriptor that is open as long as the namespace is borrowed.
    unsafe {
        command.pre_exec(move || {
            if libc::setns(fd, libc::CLONE_NEWNET) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

fn ip(namespace: &Namespace, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    enter(command.args(args), namespace);
    let done = command.output().context("'ip' is not installed")?;
    ensure!(done.status.success(), "ip {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}
