//! The state of a running process as data, and how any thread asks the event loop for it.
//!
//! Nodes and gateways fill these reports in; `admin` serves and shows them. Nothing here knows either.

pub mod condition;
pub mod report;
pub mod trace;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use report::Report;
use trace::TraceReport;

use crate::net::Wake;

/// Asks the event loop for a report, from any thread.
#[derive(Debug, Clone)]
pub struct Reporter {
    asks: SyncSender<SyncSender<Report>>,
    /// A node has no samples to tell of.
    traces: Option<SyncSender<SyncSender<TraceReport>>>,
    wake: Wake,
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
