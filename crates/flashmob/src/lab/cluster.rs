//! The processes of a lab: nodes in their hosts; the gateway and the command in the gateway's host.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use flashmob_lab::cluster::Weakness;

use super::host::Host;
use super::status::{CONFIG_VARIABLE, SOCKET_VARIABLE};
use super::{Plan, address, signals};
use crate::commands::command_line;
use crate::process::{Process, of_this_binary};
use flashmob_server::config::Config;
use flashmob_server::keys::{Folder, PublicKey, SecretKey};
use flashmob_server::net::fetch::fetch_status;
use flashmob_server::status::report::Report;
use flashmob_server::store::identity::{Identity, sidecar_path};

/// The port that nodes listen on. Each has its own network, so ports never collide.
const NODE_PORT: u16 = 7411;
/// The port where nodes answer `/status`.
pub const NODE_ADMIN_PORT: u16 = 7412;
/// Where the gateway listens, for programs in its own host.
const GATEWAY_LISTEN: &str = "127.0.0.1:10809";
/// Where it answers `/status`.
const GATEWAY_ADMIN: &str = "127.0.0.1:10810";
/// The volume's name.
const VOLUME: &str = "lab";
/// The folder with the cluster's keys, beside its configuration.
const KEYS: &str = "gateway.keys";
/// Time limit for the copies of a new volume to be compared.
const COMPARED_TIMEOUT: Duration = Duration::from_secs(120);

/// The processes and their hosts.
pub struct Cluster<'lab> {
    plan: &'lab Plan,
    dir: &'lab Path,
    /// The gateway's first.
    hosts: &'lab [Host],
    /// The cluster's public key, if it has keys.
    public: Option<PublicKey>,
    processes: Vec<Process>,
}

impl<'lab> Cluster<'lab> {
    /// Starts nodes and gateway, and waits until the volume is ready. They end with this thread.
    pub fn start(plan: &'lab Plan, dir: &'lab Path, hosts: &'lab [Host]) -> anyhow::Result<Cluster<'lab>> {
        let keys = plan.keys.then(|| Folder::at(&dir.join(KEYS)));
        let public = keys.as_ref().map(Folder::create).transpose()?;
        let mut cluster = Cluster { plan, dir, hosts, public, processes: Vec::new() };
        for number in 0..plan.nodes {
            let command = cluster.node(number)?;
            cluster.start_in(address::node(number).0, &format!("node-{number}"), command)?;
        }
        if plan.node_command.is_none() {
            for node in &mut cluster.processes {
                node.await_line("ready, listening on ")?;
            }
        }
        if let Some(folder) = keys {
            cluster.pin_nodes(&folder)?;
        }
        let path = cluster.config_path();
        std::fs::write(&path, cluster.config()?)?;
        if plan.has_gateway {
            let command = of_this_binary(&["gateway".to_string(), path.display().to_string()])?;
            let gateway = cluster.start_in(address::GATEWAY.0, "gateway", command)?;
            gateway.await_line(&format!("volume {VOLUME} ready"))?;
            if plan.copies.is_some() {
                cluster.await_compared()?;
            }
        }
        Ok(cluster)
    }

    /// Makes the gateway know the nodes by their keys.
    fn pin_nodes(&self, folder: &Folder) -> anyhow::Result<()> {
        let mut pins = folder.pins()?;
        for number in 0..self.plan.nodes {
            let sidecar = sidecar_path(&self.data(number), None);
            let identity = Identity::parse(&sidecar, &std::fs::read(&sidecar)?)?;
            pins.pin(identity.extent_id(), SecretKey::load(&identity.key_path())?.public(), false)?;
        }
        Ok(())
    }

    /// The extent of a node.
    fn data(&self, number: u32) -> PathBuf {
        self.dir.join(format!("node-{number}.extent"))
    }

    /// The socket of a gateway with keys: over TCP it asks for certificates.
    fn gateway_socket(&self) -> PathBuf {
        self.dir.join("gateway.sock")
    }

    /// Waits until the copies of a new volume are known to be equal: what is measured before also waits for that.
    fn await_compared(&self) -> anyhow::Result<()> {
        let until = Instant::now() + COMPARED_TIMEOUT;
        let target = GATEWAY_ADMIN.parse()?;
        loop {
            let report: Report = serde_json::from_slice(&self.hosts[0].inside(|| fetch_status(&target))??)?;
            let volumes = report.gateway.into_iter().flat_map(|gateway| gateway.volumes);
            let left: u32 = volumes.filter_map(|volume| volume.copies).map(|copies| copies.uncompared_chunks).sum();
            if left == 0 {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < until,
                "{left} chunks were not compared after {} s; give a smaller --extent",
                COMPARED_TIMEOUT.as_secs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the command; from then on it gets the signals that reach the lab.
    pub fn command(&self, socket: &Path) -> std::io::Result<Child> {
        let (program, args) = self.plan.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args).env("PATH", path_with_this_binary()).env(SOCKET_VARIABLE, socket);
        let nodes: Vec<String> = (0..self.plan.nodes).map(|n| address::ip(address::node(n)).to_string()).collect();
        command.env("FLASHMOB_NODES", nodes.join(" "));
        if let Some(line) = &self.plan.command_line {
            command.env(command_line::VARIABLE, line);
        }
        command.env(CONFIG_VARIABLE, self.config_path());
        if self.plan.has_gateway {
            let uri = match self.public {
                None => format!("nbd://{GATEWAY_LISTEN}/{VOLUME}"),
                Some(_) => format!("nbd+unix:///{VOLUME}?socket={}", self.gateway_socket().display()),
            };
            command.env("FLASHMOB_ADMIN", GATEWAY_ADMIN).env("FLASHMOB_URI", uri);
        }
        self.hosts[0].enter(&mut command);
        signals::as_ever(&mut command);
        let child = command.spawn()?;
        signals::COMMAND.set(child.id());
        Ok(child)
    }

    /// Logs which of its processes have exited, each once. None should. True if one has.
    pub fn look_after(&mut self) -> bool {
        let before = self.processes.len();
        self.processes.retain_mut(|process| match process.ended() {
            None => true,
            Some(status) => {
                let said = process.last_lines().join("\n  ");
                log::warn!("{} exited ({status}); its last output:\n  {said}", process.name());
                false
            }
        });
        self.processes.len() == before
    }

    fn start_in(&mut self, host: u32, name: &str, mut command: Command) -> anyhow::Result<&mut Process> {
        self.hosts[host as usize].enter(&mut command);
        signals::as_ever(&mut command);
        // The terminal's Ctrl-C goes to the command only.
        command.process_group(0);
        self.processes.push(Process::start(self.dir, name, command)?);
        self.processes.last_mut().context("it was put there")
    }

    fn node(&self, number: u32) -> anyhow::Result<Command> {
        let plan = self.plan;
        let ip = address::ip(address::node(number));
        if let Some(line) = &plan.node_command {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", line]).env("PATH", path_with_this_binary()).current_dir(self.dir);
            command.env("NODE", number.to_string()).env("ADDRESS", ip.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            return Ok(command);
        }
        let data = self.data(number).display().to_string();
        let mut args = vec!["node".to_string()];
        let mut option = |name: &str, value: String| args.extend([name.to_string(), value]);
        option("--data", data);
        option("--size", plan.extent_bytes.to_string());
        option("--listen", format!("{ip}:{NODE_PORT}"));
        option("--admin", format!("0.0.0.0:{NODE_ADMIN_PORT}"));
        if plan.order == IssueOrder::Arrival {
            option("--order", "arrival".to_string());
        }
        match &plan.flash {
            // Nodes with equal random numbers would be slow at the same moments.
            Some(flash) => {
                option("--model", flash.name.to_string());
                option("--model-seed", plan.seed.wrapping_add(u64::from(number)).to_string());
                if let Some(Weakness::Flash(factor)) = plan.weakness(number) {
                    option("--model-slower", factor.to_string());
                }
            }
            None => args.push("--no-io".to_string()),
        }
        match self.public {
            Some(key) => args.extend(["--cluster".to_string(), key.to_string()]),
            // Nobody else is in its network.
            None => args.push("--insecure".to_string()),
        }
        of_this_binary(&args)
    }

    fn config_path(&self) -> PathBuf {
        self.dir.join("gateway.toml")
    }

    /// The gateway's configuration.
    fn config(&self) -> anyhow::Result<String> {
        let batch = match self.plan.batch {
            BatchMode::Auto => "\"auto\"".to_string(),
            BatchMode::Fixed(k) => k.to_string(),
        };
        let listen = match self.public {
            None => format!("listen = \"{GATEWAY_LISTEN}\""),
            Some(_) => format!("keys = \"{KEYS}\"\nlisten = \"unix:{}\"", self.gateway_socket().display()),
        };
        let mut text = format!(
            "{listen}\nadmin = \"{GATEWAY_ADMIN}\"\nname = \"lab\"\n\n\
             [[volume]]\nname = \"{VOLUME}\"\nbatch = {batch}\nlinks = {}\n",
            self.plan.links
        );
        if let Some(copies) = self.plan.copies {
            text.push_str(&format!("layout = \"mapped\"\ncopies = {copies}\n"));
        }
        for number in 0..self.plan.nodes {
            let ip = address::ip(address::node(number));
            text.push_str(&format!("\n[[volume.node]]\naddress = \"{ip}:{NODE_PORT}\"\n"));
            if self.plan.copies.is_some() {
                text.push_str(&format!("size = \"{}\"\n", self.plan.extent_bytes));
            }
        }
        Config::parse(&text, "gateway.toml", self.dir)?;
        Ok(text)
    }
}

/// PATH with this program's directory first, so that `flashmob` runs this program.
fn path_with_this_binary() -> OsString {
    let old = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let own = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&old))).unwrap_or(old)
}
