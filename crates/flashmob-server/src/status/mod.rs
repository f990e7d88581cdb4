//! The state of a running process as data, and asking its event loop for it from any thread.
//!
//! Nodes and gateways fill these reports in; `admin` serves them. Nothing here depends on either.

pub mod change;
pub mod condition;
pub mod failures;
pub mod finding;
pub mod live;
pub mod measure;
pub mod replace;
pub mod report;
pub mod trace;
pub mod volumes;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use change::Change;
use flashmob_core::gateway::LiveSlots;
use live::{ENTRIES_MAX, LiveReport, LiveSlot};
use measure::{MeasureAnswer, MeasureRequest};
use replace::Replacement;
use report::Report;
use trace::TraceReport;
use volumes::{
    AcceptLossAnswer, AcceptLossRequest, AddAnswer, AddRequest, MoveAnswer, MoveRequest, PauseAnswer, PauseRequest,
    RemoveAnswer, RemoveRequest, ResizeAnswer, ResizeRequest, ResyncAnswer, ResyncRequest, ScrubAnswer, ScrubRequest,
    VolumesReport,
};

use crate::net::Wake;

/// Asks the event loop for a report, from any thread.
#[derive(Debug, Clone)]
pub struct Reporter {
    asks: SyncSender<SyncSender<Report>>,
    /// Absent in a node, which has no samples.
    traces: Option<SyncSender<SyncSender<TraceReport>>>,
    /// Absent in a node, which has no volumes.
    volumes: Option<SyncSender<VolumeQuestion>>,
    /// Absent where nothing is recorded: in a node, and in a gateway without an administrative port.
    live: Option<SyncSender<LiveQuestion>>,
    wake: Wake,
}

/// What a gateway is asked about its volumes.
#[derive(Debug)]
pub enum VolumeQuestion {
    /// Their state.
    Show(SyncSender<VolumesReport>),
    /// To give up the extent of a node.
    Replace(Replacement),
    /// To scrub one.
    Scrub(Change<ScrubRequest, ScrubAnswer>),
    /// To move copies.
    Move(Change<MoveRequest, MoveAnswer>),
    /// To add a node.
    Add(Change<AddRequest, AddAnswer>),
    /// To remove one.
    Remove(Change<RemoveRequest, RemoveAnswer>),
    /// To accept the loss of chunks whose only current copies are gone.
    AcceptLoss(Change<AcceptLossRequest, AcceptLossAnswer>),
    /// To make the copies on a node equal to others.
    Resync(Change<ResyncRequest, ResyncAnswer>),
    /// To give one another size.
    Resize(Change<ResizeRequest, ResizeAnswer>),
    /// To pause a node, or to use it again.
    Pause(Change<PauseRequest, PauseAnswer>),
    /// To measure a node.
    Measure(Change<MeasureRequest, MeasureAnswer>),
}

/// What a gateway is asked about what its nodes do: from which second on, and who waits.
#[derive(Debug)]
pub struct LiveQuestion {
    /// The first second since its start that is wanted.
    pub since: u64,
    /// Receives the answer.
    pub answer: SyncSender<(LiveReport, LiveSlots)>,
}

/// Maximum number of questions that wait for the loop.
const ASKS_MAX: usize = 16;
/// How long the loop may take to answer.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// A reporter, and the end at which the event loop receives its questions; `wake` wakes that loop.
#[must_use]
pub fn reporter(wake: Wake) -> (Reporter, Receiver<SyncSender<Report>>) {
    let (asks, questions) = sync_channel(ASKS_MAX);
    (Reporter { asks, traces: None, volumes: None, live: None, wake }, questions)
}

/// Puts a question to the event loop; `None` if too many wait, or if no answer comes in time.
pub(crate) fn ask<Q, A>(asks: &SyncSender<Q>, wake: &Wake, question: impl FnOnce(SyncSender<A>) -> Q) -> Option<A> {
    let (answer, answers) = sync_channel(1);
    asks.try_send(question(answer)).ok()?;
    wake.wake();
    answers.recv_timeout(ANSWER_TIMEOUT).ok()
}

impl Reporter {
    /// The state now; `None` if the loop does not answer in time (it is ending, or badly overloaded).
    #[must_use]
    pub fn ask(&self) -> Option<Report> {
        ask(&self.asks, &self.wake, |answer| answer)
    }

    /// Adds questions for samples, and returns the end at which the event loop receives them.
    #[must_use]
    pub fn with_traces(self) -> (Reporter, Receiver<SyncSender<TraceReport>>) {
        let (asks, questions) = sync_channel(ASKS_MAX);
        (Reporter { traces: Some(asks), ..self }, questions)
    }

    /// Adds questions about volumes, and returns the end at which the event loop receives them.
    #[must_use]
    pub fn with_volumes(self) -> (Reporter, Receiver<VolumeQuestion>) {
        let (asks, questions) = sync_channel(ASKS_MAX);
        (Reporter { volumes: Some(asks), ..self }, questions)
    }

    /// Adds questions about what nodes do, and returns the end at which the event loop receives them.
    #[must_use]
    pub fn with_live(self) -> (Reporter, Receiver<LiveQuestion>) {
        let (asks, questions) = sync_channel(ASKS_MAX);
        (Reporter { live: Some(asks), ..self }, questions)
    }

    /// Whether it is recorded what nodes do.
    #[must_use]
    pub fn has_live(&self) -> bool {
        self.live.is_some()
    }

    /// What nodes did from a second on; `None` if that is not recorded here or the loop does not answer in time.
    #[must_use]
    pub fn ask_live(&self, since: u64) -> Option<LiveReport> {
        let (report, slots) = ask(self.live.as_ref()?, &self.wake, |answer| LiveQuestion { since, answer })?;
        // In this thread, not in the loop, for there may be many.
        Some(LiveReport { slots: slots.slots(ENTRIES_MAX).iter().map(LiveSlot::of).collect(), ..report })
    }

    /// Whether there are volumes.
    #[must_use]
    pub fn has_volumes(&self) -> bool {
        self.volumes.is_some()
    }

    /// The volumes now; `None` if there are none here or the loop does not answer in time.
    #[must_use]
    pub fn ask_volumes(&self) -> Option<VolumesReport> {
        ask(self.volumes.as_ref()?, &self.wake, VolumeQuestion::Show)
    }

    /// Whether there may be samples.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.traces.is_some()
    }

    /// The samples now; `None` if there are none here or the loop does not answer in time.
    #[must_use]
    pub fn ask_traces(&self) -> Option<TraceReport> {
        ask(self.traces.as_ref()?, &self.wake, |answer| answer)
    }
}
