//! How each of the programs is asked the same thing, and what it answers.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flashmob_results::Document;
use serde::Serialize;

use super::path::{End, Path};

/// A server is ready within that.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// What arrived.
    pub bits_per_second: f64,
    /// Processor time of both ends.
    pub cpu_s: f64,
    /// How long it was measured.
    pub elapsed_s: f64,
}

impl Figures {
    /// What moving a gigabit costs both ends.
    pub fn cpu_s_by_gigabit(&self) -> f64 {
        self.cpu_s / (self.bits_per_second * self.elapsed_s / 1e9)
    }
}

/// The programs.
pub struct Programs {
    pub flashmob: PathBuf,
    pub time_s: f64,
}

impl Programs {
    /// `flashmob bench net` to its own server.
    pub fn flashmob(&self, path: &Path, streams: u32) -> anyhow::Result<Figures> {
        let port = path.free_port()?.to_string();
        let mut server = path.command(End::Server, &self.flashmob);
        server.args(["--quiet", "bench", "net", "--server", "--one-off", "--port", &port]);
        server.args(["--bind", path.server_address(), "--longest", "24h"]);
        let mut client = path.command(End::Client, &self.flashmob);
        client.args([
            "--quiet",
            "bench",
            "net",
            "--connect",
            path.server_address(),
            "--port",
            &port,
            "--output",
            "json",
        ]);
        client.args(["--time", &self.time_s.to_string(), "--streams", &streams.to_string()]);
        let text = both(path, server, client, &port)?;
        let document: Document = serde_json::from_str(&text).context("the result of flashmob cannot be read")?;
        let repetition = document
            .net()
            .and_then(|net| net.points.first())
            .and_then(|point| point.repetitions.first())
            .context("flashmob measured nothing")?;
        let flow = repetition.flows.first().context("flashmob moved nothing")?;
        Ok(Figures {
            bits_per_second: flow.received_bits_per_second,
            cpu_s: repetition.cpu_s + repetition.peer_cpu_s.unwrap_or(0.0),
            elapsed_s: repetition.elapsed_s,
        })
    }

    /// iperf3 to its own server.
    pub fn iperf3(&self, path: &Path, streams: u32) -> anyhow::Result<Figures> {
        let port = path.free_port()?.to_string();
        let program = PathBuf::from("iperf3");
        let mut server = path.command(End::Server, &program);
        server.args(["-s", "-1", "-p", &port]);
        let mut client = path.command(End::Client, &program);
        // It takes whole seconds.
        let time_s = self.time_s.ceil();
        client.args(["-c", path.server_address(), "-p", &port, "-J", "-t", &time_s.to_string()]);
        client.args(["-P", &streams.to_string()]);
        let text = both(path, server, client, &port)?;
        let json: serde_json::Value = serde_json::from_str(&text).context("iperf3's result cannot be read")?;
        let end = &json["end"];
        let number = |value: &serde_json::Value| value.as_f64().context("iperf3's result lacks a number");
        let elapsed_s = number(&end["sum_received"]["seconds"])?;
        let cpu = &end["cpu_utilization_percent"];
        Ok(Figures {
            bits_per_second: number(&end["sum_received"]["bits_per_second"])?,
            cpu_s: (number(&cpu["host_total"])? + number(&cpu["remote_total"])?) / 100.0 * elapsed_s,
            elapsed_s,
        })
    }
}

/// Ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a client to its server; what the client printed.
fn both(path: &Path, mut server: Command, mut client: Command, port: &str) -> anyhow::Result<String> {
    let name = server.get_program().to_string_lossy().into_owned();
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = server.spawn().with_context(|| format!("{name} cannot be started; is it installed?"))?;
    let mut server = Server(server);
    let until = Instant::now() + READY_TIMEOUT;
    while !path.listens(port)? {
        ensure!(Instant::now() < until, "the server {name} does not listen");
        ensure!(server.0.try_wait()?.is_none(), "the server {name} ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = client.stdin(Stdio::null()).output().with_context(|| format!("{name} cannot be started"))?;
    let (text, complaint) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    ensure!(done.status.success(), "{name} failed ({}): {text} {complaint}", done.status);
    Ok(text.into_owned())
}
