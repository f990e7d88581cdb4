//! The load inside the gateway's loop: waits for the nodes, warms up, measures, and waits for outstanding requests.
//!
//! Counters are read twice: when the measured time begins and when it ends.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flashmob_core::gateway::LinkStatus;
use flashmob_core::units::Time;
use flashmob_lab::load::{Master, Plan, Tally};
use flashmob_results::cluster::{Batches, Packets};

use super::volume::{LOOKS_EVERY, READY_TIMEOUT, missing, not_ready};
use crate::commands::cluster_args::Times;
use crate::lab::status::{self as lab, LabStatus};
use flashmob_server::gateway::{Inside, Resident};

/// Time limit for outstanding requests after the measured time.
const FINISH_TIMEOUT: Duration = Duration::from_secs(15);
/// The gateway has this one volume.
const THE_VOLUME: usize = 0;

/// The counters at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// Processor time of this thread.
    pub cpu: Duration,
    /// Flashmob's own messages.
    pub batches: Batches,
    /// TCP's packets; `None` where the system does not report them, or a link has no connection.
    pub packets: Option<Packets>,
    /// Number of broken links. The counts of their connections are lost.
    pub breaks: u64,
    /// The lab, inside one.
    pub lab: Option<LabStatus>,
}

/// Counters and answers of the measured time.
#[derive(Debug)]
pub struct Seen {
    /// At its begin.
    pub begin: Look,
    /// At its end.
    pub end: Look,
    /// The answers in between.
    pub tally: Tally,
}

/// The phase of the load.
#[derive(Debug)]
enum Phase {
    /// Waits for nodes.
    Linking,
    /// Sends requests that do not count.
    Warming {
        begun: Instant,
    },
    /// Sends requests that count.
    Measuring {
        begin: Box<Look>,
    },
    /// Sends no more requests.
    Finishing {
        until: Instant,
    },
    Over,
}

/// The load.
pub struct Load<'a> {
    master: Master,
    nodes: usize,
    times: Times,
    lab: Option<&'a Path>,
    cancel: &'a AtomicBool,
    progress: &'a mut dyn FnMut(f64),
    told: Instant,
    opened: Instant,
    phase: Phase,
    outcome: Option<anyhow::Result<Seen>>,
}

impl<'a> Load<'a> {
    /// A load for the first `nodes` nodes, which is idle until they have linked.
    pub fn new(
        plan: Plan,
        nodes: usize,
        times: Times,
        lab: Option<&'a Path>,
        cancel: &'a AtomicBool,
        progress: &'a mut dyn FnMut(f64),
    ) -> Load<'a> {
        let now = Instant::now();
        let master = Master::new(plan, THE_VOLUME);
        let (phase, outcome) = (Phase::Linking, None);
        Load { master, nodes, times, lab, cancel, progress, told: now, opened: now, phase, outcome }
    }

    /// The measurement; `None` if it was cancelled before anything counted.
    pub fn outcome(self) -> anyhow::Result<Option<Seen>> {
        self.outcome.transpose()
    }

    fn look(&self, inside: &mut Inside<'_>, is_begin: bool) -> anyhow::Result<Look> {
        let lab = || self.lab.map(|socket| lab::ask(socket, is_begin)).transpose();
        // The lab counts from before the begin until after the end, because its answer takes time.
        let asked_first = if is_begin { lab()? } else { None };
        let at = Instant::now();
        let cpu = thread_cpu();
        let status = inside.parts().0.status();
        // Other nodes have unused links, or none.
        let nodes = status.volumes.iter().flat_map(|v| v.nodes.iter().take(self.nodes));
        let links: Vec<&LinkStatus> = nodes.flat_map(|n| &n.links).collect();
        let sum = |of: fn(&LinkStatus) -> u64| links.iter().map(|link| of(link)).sum();
        let packets: Option<Vec<Packets>> = links.iter().map(|link| packets(inside, link)).collect();
        Ok(Look {
            at,
            cpu,
            batches: Batches {
                sent: sum(|l| l.counters.batches),
                pieces: sum(|l| l.counters.pieces),
                replies: sum(|l| l.counters.reply_frames),
            },
            packets: packets.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(Packets::default(), added)),
            breaks: sum(|l| l.counters.breaks),
            lab: if is_begin { asked_first } else { lab()? },
        })
    }

    /// Starts the next phase if it is due.
    fn step(&mut self, now: Time, inside: &mut Inside<'_>) -> anyhow::Result<()> {
        let is_cancelled = self.cancel.load(Ordering::Relaxed);
        match &self.phase {
            Phase::Linking => match missing(&inside.parts().0.status(), self.nodes) {
                _ if is_cancelled => self.phase = Phase::Over,
                None => self.phase = Phase::Warming { begun: Instant::now() },
                Some(why) if self.opened.elapsed() >= READY_TIMEOUT => return Err(not_ready(&why)),
                Some(_) => {}
            },
            Phase::Warming { .. } if is_cancelled => self.phase = Phase::Over,
            Phase::Warming { begun } if begun.elapsed() >= self.times.warmup => {
                let begin = self.look(inside, true)?;
                // Answers so far belong to the warm-up.
                self.master.reset();
                self.phase = Phase::Measuring { begin: Box::new(begin) };
            }
            Phase::Measuring { begin } if is_cancelled || begin.at.elapsed() >= self.times.time => {
                let begin = (**begin).clone();
                let end = self.look(inside, false)?;
                self.outcome = Some(Ok(Seen { begin, end, tally: self.master.reset() }));
                self.master.stop();
                self.phase = Phase::Finishing { until: Instant::now() + FINISH_TIMEOUT };
            }
            Phase::Finishing { until } if self.master.outstanding() == 0 || Instant::now() >= *until => {
                self.phase = Phase::Over;
            }
            Phase::Warming { .. } | Phase::Measuring { .. } | Phase::Finishing { .. } | Phase::Over => {}
        }
        if matches!(self.phase, Phase::Warming { .. } | Phase::Measuring { .. }) {
            let (gateway, local) = inside.parts();
            self.master.fill(now, gateway, local);
        }
        Ok(())
    }

    fn tell_progress(&mut self) {
        if self.told.elapsed() < LOOKS_EVERY {
            return;
        }
        self.told = Instant::now();
        let done = match &self.phase {
            Phase::Linking => Duration::ZERO,
            Phase::Warming { begun } => begun.elapsed(),
            Phase::Measuring { begin } => self.times.warmup + begin.at.elapsed(),
            Phase::Finishing { .. } | Phase::Over => self.times.warmup + self.times.time,
        };
        (self.progress)(done.as_secs_f64() / (self.times.warmup + self.times.time).as_secs_f64().max(1e-9));
    }
}

impl Resident for Load<'_> {
    fn turn(&mut self, now: Time, inside: &mut Inside<'_>) {
        self.master.take(now, inside.parts().0);
        if let Err(error) = self.step(now, inside) {
            self.outcome = Some(Err(error));
            self.phase = Phase::Over;
        }
        self.tell_progress();
    }

    fn wakes_in(&self) -> Duration {
        let left = match &self.phase {
            Phase::Warming { begun } => self.times.warmup.saturating_sub(begun.elapsed()),
            Phase::Measuring { begin } => self.times.time.saturating_sub(begin.at.elapsed()),
            Phase::Linking | Phase::Finishing { .. } => LOOKS_EVERY,
            Phase::Over => Duration::ZERO,
        };
        left.min(LOOKS_EVERY)
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }
}

fn packets(inside: &Inside<'_>, link: &LinkStatus) -> Option<Packets> {
    inside.tcp_info(link.link).map(|tcp| Packets {
        sent: tcp.segments_out,
        received: tcp.segments_in,
        data_sent: tcp.data_segments_out,
        data_received: tcp.data_segments_in,
        bytes_sent: tcp.bytes_out,
        bytes_received: tcp.bytes_in,
        retransmitted: tcp.retransmissions,
    })
}

fn added(a: Packets, b: Packets) -> Packets {
    Packets {
        sent: a.sent + b.sent,
        received: a.received + b.received,
        data_sent: a.data_sent + b.data_sent,
        data_received: a.data_received + b.data_received,
        bytes_sent: a.bytes_sent + b.bytes_sent,
        bytes_received: a.bytes_received + b.bytes_received,
        retransmitted: a.retransmitted + b.retransmitted,
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}
