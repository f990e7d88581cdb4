//! What is measured: how each server is started, what it serves, and whom the load asks.

mod start;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use flashmob_bench::Uri;
use flashmob_bench::load::{Target, Verifier};

use crate::data::{Image, SMALL_CHUNK_BYTES, reference};
use crate::process::Process;

/// A build of flashmob that is measured: the first, or the one given with --against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    A,
    B,
}

/// Which of the files a server serves: the large ones to read, or the small ones to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    Reads,
    Writes,
}

/// A server, or several that are one volume.
// nbd-server is called so.
#[allow(clippy::enum_variant_names)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// A gateway that serves a file itself.
    FlashmobOne(Build),
    /// A gateway in front of eight nodes.
    FlashmobTwo(Build, Set),
    /// A gateway in front of eight nodes that keep so many copies, with checksums; 0: linear, without either. Small volumes of their own.
    FlashmobCopies(u8, Set),
    NbdkitFile,
    NbdkitMemory,
    NbdServer,
    QemuNbd,
    QemuStorage,
    /// nbdkit's nbd plugin in front of nbdkit file.
    RelayNbdkit(Set),
    /// qemu-storage-daemon in front of nbdkit file.
    RelayQemu(Set),
    /// Eight nbdkit, the client connected to all of them.
    EightNbdkit,
    /// Eight nbdkit, each mounted with nbdfuse, joined by nbdkit's split plugin.
    Nbdfuse,
    Redis,
    Iperf,
}

impl Server {
    /// Its name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Server::FlashmobOne(Build::A) => "flashmob, local extent",
            Server::FlashmobTwo(Build::A, _) => "flashmob, eight nodes",
            Server::FlashmobOne(Build::B) => "the other flashmob, local extent",
            Server::FlashmobTwo(Build::B, _) => "the other flashmob, eight nodes",
            Server::FlashmobCopies(0, Set::Reads) => "flashmob, linear, reads",
            Server::FlashmobCopies(1, Set::Reads) => "flashmob, mapped, 1 copy, reads",
            Server::FlashmobCopies(2, Set::Reads) => "flashmob, 2 copies, reads",
            Server::FlashmobCopies(_, Set::Reads) => "flashmob, 3 copies, reads",
            Server::FlashmobCopies(0, Set::Writes) => "flashmob, linear, writes",
            Server::FlashmobCopies(1, Set::Writes) => "flashmob, mapped, 1 copy, writes",
            Server::FlashmobCopies(2, Set::Writes) => "flashmob, 2 copies, writes",
            Server::FlashmobCopies(_, Set::Writes) => "flashmob, 3 copies, writes",
            Server::NbdkitFile => "nbdkit file",
            Server::NbdkitMemory => "nbdkit memory",
            Server::NbdServer => "nbd-server",
            Server::QemuNbd => "qemu-nbd, io_uring",
            Server::QemuStorage => "qemu-storage-daemon, io_uring",
            Server::RelayNbdkit(_) => "nbdkit nbd, nbdkit file",
            Server::RelayQemu(_) => "qemu-storage-daemon, nbdkit file",
            Server::EightNbdkit => "eight nbdkit, no gateway",
            Server::Nbdfuse => "nbdkit split, eight nbdfuse, eight nbdkit",
            Server::Redis => "redis",
            Server::Iperf => "iperf3",
        }
    }

    /// Whether both cannot run at once, because they serve the same files and lock them.
    fn excludes(self, other: Server) -> bool {
        match (self, other) {
            (Server::FlashmobOne(a), Server::FlashmobOne(b)) => a != b,
            (Server::FlashmobTwo(a, s), Server::FlashmobTwo(b, t)) => a != b && s == t,
            _ => false,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Running {
    /// What the client talks to: a server, a gateway, a relay.
    pub front: Vec<Process>,
    /// What stands behind it.
    pub back: Vec<Process>,
    /// Whom the load asks; empty for what is no NBD server.
    pub exports: Vec<Export>,
    /// The port of what is no NBD server.
    pub port: u16,
    /// The configuration for a gateway inside the client.
    pub config: Option<PathBuf>,
    mounts: Vec<PathBuf>,
    daemons: Vec<u32>,
}

/// An export and the file with its bytes.
#[derive(Debug, Clone)]
pub struct Export {
    pub uri: Uri,
    pub file: PathBuf,
}

impl Running {
    fn new(front: Vec<Process>, back: Vec<Process>, exports: Vec<Export>) -> Running {
        Running { front, back, exports, port: 0, config: None, mounts: Vec::new(), daemons: Vec::new() }
    }

    /// What is no NBD server.
    fn listening(process: Process, port: u16) -> Running {
        let mut running = Running::new(vec![process], Vec::new(), Vec::new());
        running.port = port;
        running
    }

    /// Ids of the front's and the back's processes.
    pub fn pids(&self) -> (Vec<u32>, Vec<u32>) {
        let front = self.front.iter().map(Process::pid).chain(self.daemons.iter().copied()).collect();
        (front, self.back.iter().map(Process::pid).collect())
    }

    fn is_whole(&mut self) -> bool {
        self.front.iter_mut().chain(&mut self.back).all(|process| process.ended().is_none())
            && self.daemons.iter().all(|&pid| std::fs::exists(format!("/proc/{pid}")).unwrap_or(false))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What holds the mounts open ends first.
        self.front.clear();
        for mount in &self.mounts {
            unmount(mount);
        }
        for &pid in &self.daemons {
            end_daemon(pid);
        }
        self.back.clear();
    }
}

/// Mounts to be removed however the program ends.
static MOUNTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Processes to be ended however the program ends: they are no children of it.
static DAEMONS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Removes what would be left behind, for a program that is told to end at once.
pub fn clean_up() {
    let mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for mount in mounts {
        unmount(&mount);
    }
    let daemons = DAEMONS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for pid in daemons {
        end_daemon(pid);
    }
}

fn end_daemon(pid: u32) {
    let pid_of = |pid| i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid_of(pid) {
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    DAEMONS.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != pid);
}

fn unmount(mount: &Path) {
    // If it is gone already, so much the better.
    let _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(mount).output();
    MOUNTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| path != mount);
}

/// All servers; each is started when it is first asked for.
pub struct Servers {
    dir: PathBuf,
    flashmob: [Option<PathBuf>; 2],
    reads: Image,
    writes: Option<Image>,
    write_bytes: u64,
    redis_bytes: u64,
    running: BTreeMap<Server, Running>,
    broken: BTreeMap<Server, String>,
    references: BTreeMap<PathBuf, Verifier>,
    started: u32,
}

impl Servers {
    pub fn new(
        dir: &Path,
        flashmob: [Option<PathBuf>; 2],
        reads: Image,
        write_bytes: u64,
        redis_bytes: u64,
    ) -> Servers {
        Servers {
            dir: dir.to_path_buf(),
            flashmob,
            reads,
            writes: None,
            write_bytes,
            redis_bytes,
            running: BTreeMap::new(),
            broken: BTreeMap::new(),
            references: BTreeMap::new(),
            started: 0,
        }
    }

    /// The files that are read.
    pub fn image(&self) -> &Image {
        &self.reads
    }

    /// Bytes that Redis has values of.
    pub fn redis_bytes(&self) -> u64 {
        self.redis_bytes
    }

    /// The server, started if it does not run. One that cannot be started is not tried again.
    pub fn get(&mut self, server: Server) -> anyhow::Result<&Running> {
        if let Some(reason) = self.broken.get(&server) {
            anyhow::bail!("{reason}");
        }
        if self.running.get_mut(&server).is_some_and(|running| !running.is_whole()) {
            self.running.remove(&server);
        }
        if !self.running.contains_key(&server) {
            self.running.retain(|other, _| !server.excludes(*other));
            match self.start(server) {
                Ok(running) => self.running.insert(server, running),
                Err(error) => {
                    let reason = format!("{error:#}");
                    self.broken.insert(server, reason.clone());
                    anyhow::bail!("{reason}");
                }
            };
        }
        self.running.get(&server).context("it was just started")
    }

    /// The exports of a server, each with what it must hold.
    pub fn targets(&mut self, server: Server) -> anyhow::Result<Vec<Target>> {
        let exports = self.get(server)?.exports.clone();
        let mut targets = Vec::new();
        for Export { uri, file } in exports {
            targets.push(Target { uri, verify: Some(self.reference(&file)?) });
        }
        Ok(targets)
    }

    /// What a file holds.
    pub fn reference(&mut self, file: &Path) -> anyhow::Result<Verifier> {
        if let Some(known) = self.references.get(file) {
            return Ok(known.clone());
        }
        let new = reference(file)?;
        self.references.insert(file.to_path_buf(), new.clone());
        Ok(new)
    }

    /// The file that all bytes are compared with, and its parts.
    fn files(&mut self, set: Set) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        if set == Set::Writes && self.writes.is_none() {
            self.writes = Some(Image::make(&self.dir, "writes", self.write_bytes, SMALL_CHUNK_BYTES)?);
        }
        let image = if set == Set::Writes { self.writes.as_ref().unwrap_or(&self.reads) } else { &self.reads };
        Ok((image.whole.clone(), image.parts.clone()))
    }

    /// A file to serve: for writes a copy, so that what is compared with stays as it is.
    fn served(&mut self, set: Set, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (whole, _) = self.files(set)?;
        if set == Set::Reads {
            return Ok((whole.clone(), whole));
        }
        let copy = self.dir.join(format!("writes-{name}"));
        copy_file(&whole, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        Ok((copy, whole))
    }
}

/// Copies piece by piece, so that the copy lies in the page cache like the original.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, mut to) = (std::fs::File::open(from)?, std::fs::File::create(to)?);
    let mut buffer = vec![0; SMALL_CHUNK_BYTES];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return to.sync_all();
        }
        to.write_all(&buffer[..n])?;
    }
}
