//! The lab's socket: reports the lab's state to processes inside. See [`super::status`].

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::Plan;
use super::lateness::is_late;
use super::medium::{MediumHandle, Snapshot};
use super::nodes::Nodes;
use super::status::LabStatus;
use crate::commands::weak;

/// Bytes of a request, including its line feed.
const WORD_BYTES_MAX: u64 = 16;
/// Time limit for a client's request, so that a silent client does not block others.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers requests about a lab.
#[derive(Clone, Debug)]
pub struct Control {
    plan: Arc<Plan>,
    medium: MediumHandle,
    /// Absent if nothing in the nodes is modelled.
    nodes: Option<Nodes>,
}

impl Control {
    /// For a lab with this plan, medium and nodes.
    pub fn new(plan: Arc<Plan>, medium: MediumHandle, nodes: Option<Nodes>) -> Control {
        Control { plan, medium, nodes }
    }

    /// Listens at this path, on a thread of its own.
    pub fn listen(&self, path: &Path) -> anyhow::Result<()> {
        let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))?;
        let control = self.clone();
        std::thread::Builder::new().name("control".to_string()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Err(error) = control.serve(stream) {
                    log::debug!("a query of the lab failed: {error:#}");
                }
            }
        })?;
        Ok(())
    }

    fn serve(&self, mut stream: UnixStream) -> anyhow::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut word = String::new();
        BufReader::new(&stream).take(WORD_BYTES_MAX).read_line(&mut word)?;
        let begin = match word.trim_end() {
            "status" => false,
            "begin" => true,
            _ => anyhow::bail!("neither 'status' nor 'begin'"),
        };
        let mut line = serde_json::to_string(&self.status(begin)?)?;
        line.push('\n');
        Ok(stream.write_all(line.as_bytes())?)
    }

    /// The lab's state; `begin` resets the lateness of medium and nodes afterwards.
    pub fn look(&self, begin: bool) -> anyhow::Result<Snapshot> {
        let mut snapshot = self.medium.ask(begin)?;
        if let Some(nodes) = &self.nodes {
            nodes.add_to(&mut snapshot.lateness, begin);
        }
        Ok(snapshot)
    }

    fn status(&self, begin: bool) -> anyhow::Result<LabStatus> {
        let snapshot = self.look(begin)?;
        Ok(LabStatus {
            nodes: self.plan.nodes,
            air: self.plan.air_model(),
            flash: self.plan.flash_model(),
            order: self.plan.order_model(),
            extent_bytes: self.plan.extent_bytes,
            weak: self.plan.weak.map(weak::text),
            counters: snapshot.counters.into(),
            lateness: snapshot.lateness,
            is_late: is_late(&snapshot.lateness),
            elapsed_ns: snapshot.now.as_nanos(),
        })
    }
}
