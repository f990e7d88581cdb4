//! The administrative side: what a running process tells about itself over HTTP, and the command that shows it.

pub mod condition_report;
pub mod fetch;
pub mod http;
pub mod metrics;
pub mod path_report;
pub mod report;
#[cfg(test)]
mod samples;
pub mod show;
pub mod trace_report;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use report::Report;
use trace_report::TraceReport;

use crate::discovery::hear::Ear;
use crate::net::Wake;

/// Asks the event loop for a report, from any thread.
#[derive(Debug, Clone)]
pub struct Reporter {
    asks: SyncSender<SyncSender<Report>>,
    /// A node has no samples to tell of.
    traces: Option<SyncSender<SyncSender<TraceReport>>>,
    wake: Wake,
}

/// Serves reports over HTTP at `addr`, takes announcements there if there is an ear for them, and says so in the log.
pub fn start(addr: std::net::SocketAddr, reporter: Reporter, ear: Option<Ear>) -> anyhow::Result<http::AdminServer> {
    use anyhow::Context;
    let server = http::serve_both(addr, Some(reporter), ear)
        .with_context(|| format!("cannot serve /status and /metrics on {addr}; choose another address with --admin"))?;
    log::info!("admin on http://{}/", server.local_addr());
    Ok(server)
}

/// Most questions that wait for the loop at once.
const ASKS_MAX: usize = 16;
/// How long the loop may take to answer.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// A reporter, and the end at which the event loop finds its questions after `wake` was called.
#[must_use]
pub fn reporter(wake: Wake) -> (Reporter, Receiver<SyncSender<Report>>) {
    let (asks, questions) = sync_channel(ASKS_MAX);
    (Reporter { asks, traces: None, wake }, questions)
}

impl Reporter {
    /// The state now; `None` if the loop does not answer in time (it is ending, or badly overloaded).
    #[must_use]
    pub fn ask(&self) -> Option<Report> {
        let (answer, report) = sync_channel(1);
        self.asks.try_send(answer).ok()?;
        self.wake.wake();
        report.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// One that can be asked for samples as well, and the end at which the event loop finds those questions.
    #[must_use]
    pub fn with_traces(self) -> (Reporter, Receiver<SyncSender<TraceReport>>) {
        let (asks, questions) = sync_channel(ASKS_MAX);
        (Reporter { traces: Some(asks), ..self }, questions)
    }

    /// Whether there may be samples.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.traces.is_some()
    }

    /// The samples now; `None` if there are none here or the loop does not answer in time.
    #[must_use]
    pub fn ask_traces(&self) -> Option<TraceReport> {
        let (answer, report) = sync_channel(1);
        self.traces.as_ref()?.try_send(answer).ok()?;
        self.wake.wake();
        report.recv_timeout(ANSWER_TIMEOUT).ok()
    }
}
