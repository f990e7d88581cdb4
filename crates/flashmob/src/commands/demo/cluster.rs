//! The demo's processes: started from this very binary, watched through their logs, and gone with it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_bench::Uri;
use flashmob_core::gateway::BatchMode;

use crate::config::Config;

/// How long a process may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to end when asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A folder for the demo's files, removed with everything in it.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder among the system's temporary files.
    pub fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("flashmob-demo-{}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot make {}; TMPDIR names another place", path.display()))?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// On Ctrl-C or SIGTERM: removes the folder and ends. The processes end with this one.
    pub fn remove_on_signal(&self) -> anyhow::Result<()> {
        let path = self.path.clone();
        super::super::each_signal(move || {
            // What cannot be removed now is removed by whoever cleans temporary files.
            let _ = std::fs::remove_dir_all(&path);
            std::process::exit(130);
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            log::warn!("{} is left: {error}", self.path.display());
        }
    }
}

/// One process of the demo; ended when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
    name: String,
    log: PathBuf,
    /// The last lines it said, for when it goes wrong.
    said: Arc<Mutex<Vec<String>>>,
}

impl Process {
    fn start(dir: &Path, name: &str, args: &[String]) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(args).env_remove("FLASHMOB_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // SAFETY: between fork and exec only one system call is made, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| {
                // However the demo ends, its processes end with it.
                let signal = Some(rustix::process::Signal::KILL);
                Ok(rustix::process::set_parent_process_death_signal(signal)?)
            });
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let log = dir.join(format!("{name}.log"));
        let mut file = File::create(&log)?;
        let (sender, lines) = channel();
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // A full disk must not stop the process that is being watched.
                    let _ = writeln!(file, "{line}");
                    said.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Process { child, lines, name: name.to_string(), log, said })
    }

    /// Waits for a line of its log with `mark` in it and returns what follows the mark.
    fn await_line(&mut self, mark: &str) -> anyhow::Result<String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some((_, rest)) = line.split_once(mark) {
                return Ok(rest.to_string());
            }
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).join("\n  ");
        anyhow::bail!("{} did not come up; it said:\n  {said}\n(log: {})", self.name, self.log.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The demo's nodes.
pub struct Cluster {
    dir: PathBuf,
    addresses: Vec<SocketAddr>,
    _nodes: Vec<Process>,
}

/// A gateway over them.
pub struct Gateway {
    pub uri: Uri,
    pub admin: SocketAddr,
    _process: Process,
}

impl Cluster {
    /// Starts the nodes and waits until they serve.
    pub fn start(dir: &Path, count: usize, extent_bytes: u64) -> anyhow::Result<Cluster> {
        let mut nodes = Vec::new();
        for number in 0..count {
            let data = dir.join(format!("node-{number}.extent")).display().to_string();
            let args = ["node", "--data", &data, "--size", &extent_bytes.to_string(), "--listen", "127.0.0.1:0"];
            nodes.push(Process::start(dir, &format!("node-{number}"), &args.map(str::to_string))?);
        }
        let mut addresses = Vec::new();
        for node in &mut nodes {
            addresses.push(node.await_line("ready, listening on ")?.parse()?);
        }
        Ok(Cluster { dir: dir.to_path_buf(), addresses, _nodes: nodes })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a gateway that batches in this way, and waits until its volume is ready.
    pub fn gateway(&self, batch: BatchMode, links: usize) -> anyhow::Result<Gateway> {
        let path = self.dir.join("gateway.toml");
        std::fs::write(&path, self.config(batch, links)?)?;
        let args = ["gateway".to_string(), path.display().to_string()];
        let mut process = Process::start(&self.dir, "gateway", &args)?;
        let admin = process.await_line("admin on http://")?.trim_end_matches('/').parse()?;
        let addr: SocketAddr = process.await_line("listening on nbd://")?.parse()?;
        process.await_line("volume demo ready")?;
        let uri = Uri::tcp(&addr.ip().to_string(), addr.port(), "demo");
        Ok(Gateway { uri, admin, _process: process })
    }

    fn config(&self, batch: BatchMode, links: usize) -> anyhow::Result<String> {
        let batch = match batch {
            BatchMode::Auto => "\"auto\"".to_string(),
            BatchMode::Fixed(k) => k.to_string(),
        };
        let mut text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nname = \"demo\"\n\n\
             [[volume]]\nname = \"demo\"\nbatch = {batch}\nlinks = {links}\n"
        );
        for address in &self.addresses {
            text.push_str(&format!("\n[[volume.node]]\naddress = \"{address}\"\n"));
        }
        // What people are shown is what a person would write, and it must be right.
        Config::parse(&text, "gateway.toml", &self.dir)?;
        Ok(text)
    }
}
