//! The demo's nodes and gateways, and the folder with their files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_bench::Uri;
use flashmob_core::gateway::BatchMode;

use crate::process::{Process, of_this_binary};
use flashmob_server::config::Config;

/// A folder for the demo's files, removed with everything in it.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder among the system's temporary files.
    pub fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("flashmob-demo-{}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot create {}; set TMPDIR to a writable directory", path.display()))?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// On Ctrl-C or SIGTERM: removes the folder and exits. The child processes exit with this one.
    pub fn remove_on_signal(&self) -> anyhow::Result<()> {
        let path = self.path.clone();
        flashmob_node::signals::each_signal(move || {
            // If this fails, the system's cleaning of temporary files removes it.
            let _ = std::fs::remove_dir_all(&path);
            std::process::exit(130);
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            log::warn!("{} was not removed: {error}", self.path.display());
        }
    }
}

/// The demo's nodes.
pub struct Cluster {
    dir: PathBuf,
    addresses: Vec<SocketAddr>,
    nodes: Vec<Process>,
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
            nodes.push(start_node(dir, number, extent_bytes, "127.0.0.1:0")?);
        }
        let mut addresses = Vec::new();
        for node in &mut nodes {
            addresses.push(node.await_line("ready, listening on ")?.parse()?);
        }
        Ok(Cluster { dir: dir.to_path_buf(), addresses, nodes })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Kills a node, and moves its files away, where it cannot find them.
    pub fn lose(&mut self, number: usize, into: &Path) -> anyhow::Result<()> {
        self.nodes[number].kill();
        std::fs::create_dir(into)?;
        for name in files_of(&self.dir, number)? {
            std::fs::rename(self.dir.join(&name), into.join(&name))?;
        }
        Ok(())
    }

    /// Starts a node again at its address, with the files that are there.
    pub fn start_again(&mut self, number: usize, extent_bytes: u64) -> anyhow::Result<()> {
        let address = self.addresses[number].to_string();
        self.nodes[number] = start_node(&self.dir, number, extent_bytes, &address)?;
        self.nodes[number].await_line("ready, listening on ").map(drop)
    }

    /// Stops a node, and starts it with the files that it had once.
    pub fn bring_back(&mut self, number: usize, from: &Path, extent_bytes: u64) -> anyhow::Result<()> {
        self.nodes[number].kill();
        for name in files_of(&self.dir, number)? {
            std::fs::remove_file(self.dir.join(name))?;
        }
        for name in files_of(from, number)? {
            std::fs::rename(from.join(&name), self.dir.join(&name))?;
        }
        self.start_again(number, extent_bytes)
    }

    /// Starts a gateway with this batching, and waits until its volume is ready.
    pub fn gateway(&self, batch: BatchMode, links: usize) -> anyhow::Result<Gateway> {
        let batch = match batch {
            BatchMode::Auto => "\"auto\"".to_string(),
            BatchMode::Fixed(k) => k.to_string(),
        };
        self.gateway_with(&format!("batch = {batch}\nlinks = {links}\n"), None)
    }

    /// Starts a gateway whose volume has these lines, and waits until it is ready. Extents have a size where the layout needs it.
    pub fn gateway_with(&self, lines: &str, extent_bytes: Option<u64>) -> anyhow::Result<Gateway> {
        let path = self.dir.join("gateway.toml");
        std::fs::write(&path, self.config(lines, extent_bytes)?)?;
        let args = ["gateway".to_string(), path.display().to_string()];
        let mut process = Process::start(&self.dir, "gateway", of_this_binary(&args)?)?;
        let admin = process.await_line("admin on http://")?.trim_end_matches('/').parse()?;
        let addr: SocketAddr = process.await_line("listening on nbd://")?.parse()?;
        process.await_line("volume demo ready")?;
        let uri = Uri::tcp(&addr.ip().to_string(), addr.port(), "demo");
        Ok(Gateway { uri, admin, _process: process })
    }

    fn config(&self, lines: &str, extent_bytes: Option<u64>) -> anyhow::Result<String> {
        let mut text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nname = \"demo\"\n\n[[volume]]\nname = \"demo\"\n{lines}"
        );
        let size = extent_bytes.map(|bytes| format!("size = {bytes}\n")).unwrap_or_default();
        for address in &self.addresses {
            text.push_str(&format!("\n[[volume.node]]\naddress = \"{address}\"\n{size}"));
        }
        // The file that is shown to users must be valid.
        Config::parse(&text, "gateway.toml", &self.dir)?;
        Ok(text)
    }
}

fn start_node(dir: &Path, number: usize, extent_bytes: u64, listen: &str) -> anyhow::Result<Process> {
    let data = dir.join(format!("node-{number}.extent")).display().to_string();
    let args = ["node", "--data", &data, "--size", &extent_bytes.to_string(), "--listen", listen];
    Process::start(dir, &format!("node-{number}"), of_this_binary(&args.map(str::to_string))?)
}

/// The files of a node in a folder: its extent, and what is kept beside it.
fn files_of(dir: &Path, number: usize) -> std::io::Result<Vec<String>> {
    let extent = format!("node-{number}.extent");
    let names: Vec<String> = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    let is_of_node =
        |name: &String| name.strip_prefix(&extent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    Ok(names.into_iter().filter(is_of_node).collect())
}
