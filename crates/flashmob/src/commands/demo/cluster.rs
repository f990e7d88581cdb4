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
        super::super::each_signal(move || {
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
            nodes.push(Process::start(dir, &format!("node-{number}"), of_this_binary(&args.map(str::to_string))?)?);
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

    /// Starts a gateway with this batching, and waits until its volume is ready.
    pub fn gateway(&self, batch: BatchMode, links: usize) -> anyhow::Result<Gateway> {
        let path = self.dir.join("gateway.toml");
        std::fs::write(&path, self.config(batch, links)?)?;
        let args = ["gateway".to_string(), path.display().to_string()];
        let mut process = Process::start(&self.dir, "gateway", of_this_binary(&args)?)?;
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
        // The file that is shown to users must be valid.
        Config::parse(&text, "gateway.toml", &self.dir)?;
        Ok(text)
    }
}
