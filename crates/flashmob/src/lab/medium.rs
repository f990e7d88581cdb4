//! The medium: takes frames from the hosts' TAP devices, lets the model of the air determine their fates, and delivers
//! those that arrive when real time reaches their virtual time.
//!
//! One thread. The model's clock is the real time since the start, and an event of the model happens at its virtual
//! time however late this thread wakes up: only the delivery is late, and later events are not delayed by it.
//! A frame's lateness is that of its delivery plus the longest time that it may have waited in its TAP device until this
//! thread read it. It never drops a frame that the model delivers, and never delivers one that the model drops.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use anyhow::Context;
use flashmob_core::units::Time;
use flashmob_lab::air::{Air, Counters, Fate, Frame, Outcome, Port};
use flashmob_results::cluster::Lateness;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use slab::Slab;

use super::frame::{FRAME_BYTES_MAX, receiver};
use super::lateness::LatenessLog;

/// Frames that are read from one host before the next.
const FRAMES_PER_TURN: usize = 64;
/// If an event is due within this time, in nanoseconds, the thread polls again in place of sleeping: a sleep and a wake-up
/// take longer.
const SLEEP_NS_MIN: u64 = 15_000;
/// Longest sleep of the thread, in nanoseconds, so that it notices when it was not scheduled.
const HEARTBEAT_NS: u64 = 5_000_000;
/// Priority among real-time threads: the lowest, which is above all ordinary threads.
const PRIORITY: i32 = 1;
/// Time limit for an answer, after which the lab counts as stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Events of the timer and of questions; those of hosts have their port's number.
const TIMER: u64 = u64::MAX;
const QUESTIONS: u64 = u64::MAX - 1;

/// The state of the medium at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Time since the start.
    pub now: Time,
    /// The model's counters since the start.
    pub counters: Counters,
    /// Lateness since the last reset.
    pub lateness: Lateness,
    /// Frames that were refused because of their content.
    pub refused: u64,
    /// Frames that arrived and that a host did not accept.
    pub not_taken: u64,
}

/// A handle to query the medium.
#[derive(Clone, Debug)]
pub struct MediumHandle {
    questions: Sender<Question>,
    wake: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Question {
    begin: bool,
    answer: Sender<Snapshot>,
}

impl MediumHandle {
    /// The medium's state; `begin` resets lateness afterwards.
    pub fn ask(&self, begin: bool) -> anyhow::Result<Snapshot> {
        let (answer, answered) = channel();
        self.questions.send(Question { begin, answer }).map_err(|_| anyhow::anyhow!("the lab's medium has stopped"))?;
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        answered.recv_timeout(ANSWER_TIMEOUT).context("the lab's medium does not answer")
    }
}

/// A frame in flight.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    /// Longest time that it may have waited to be read.
    taken_late_ns: u64,
    /// Outstanding fates.
    fates: u32,
}

struct Medium {
    air: Air,
    taps: Vec<OwnedFd>,
    clock: Clock,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The timer's setting.
    armed: Option<Time>,
    /// Frames that are in a TAP device now have arrived after this.
    waiting_since: Time,
    /// Time of the last poll for events.
    looked: Time,
    wake: Arc<OwnedFd>,
    questions: Receiver<Question>,
    frames: Slab<Held>,
    spare: Vec<Vec<u8>>,
    outcomes: Vec<Outcome>,
    lateness: LatenessLog,
    refused: u64,
    not_taken: u64,
}

/// Starts the medium with these ends of TAP devices, one for each port of the air.
pub fn start(air: Air, taps: Vec<OwnedFd>) -> anyhow::Result<MediumHandle> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    epoll::add(&epoll, &wake, EventData::new_u64(QUESTIONS), EventFlags::IN)?;
    for (port, tap) in taps.iter().enumerate() {
        epoll::add(&epoll, tap, EventData::new_u64(port as u64), EventFlags::IN)?;
    }
    let (sender, questions) = channel();
    let handle = MediumHandle { questions: sender, wake: Arc::clone(&wake) };
    let medium = Medium {
        air,
        taps,
        clock: Clock::start(),
        epoll,
        timer,
        armed: None,
        waiting_since: Time(0),
        looked: Time(0),
        wake,
        questions,
        frames: Slab::new(),
        spare: Vec::new(),
        outcomes: Vec::new(),
        lateness: LatenessLog::new(),
        refused: 0,
        not_taken: 0,
    };
    std::thread::Builder::new().name("medium".to_string()).spawn(move || {
        prefer_this_thread();
        if let Err(error) = medium.run() {
            // A lab is useless without its medium, and ends completely with its first process.
            log::error!("the lab's medium failed: {error}");
            std::process::exit(i32::from(super::STATUS_IMPOSSIBLE));
        }
    })?;
    Ok(handle)
}

impl Medium {
    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        loop {
            self.sleep(&mut events)?;
            for event in &events {
                match event.data.u64() {
                    TIMER => {
                        // The count does not matter; reading resets it.
                        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
                        self.armed = None;
                    }
                    QUESTIONS => {
                        if !self.answer() {
                            return Ok(());
                        }
                    }
                    port => self.take(Port(port as u32))?,
                }
            }
            self.move_on();
        }
    }

    /// Sleeps until the next event of the model or a frame; not at all if one is near.
    fn sleep(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let before = self.clock.now();
        let deadline = self.arm(before)?;
        let mut timeout = Timespec { tv_sec: 0, tv_nsec: deadline.map_or(0, |_| HEARTBEAT_NS as _) };
        events.clear();
        while let Err(error) = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
            // Interrupted by stop and continue: frames have waited meanwhile, and must be read in this turn.
            timeout = Timespec::default();
        }
        let after = self.clock.now();
        // Before a sleep nothing was waiting, and an arrival ends it. Without a sleep, frames may have arrived since the last poll.
        let slept = after.nanos_since(before) >= SLEEP_NS_MIN;
        self.waiting_since = match deadline {
            Some(deadline) if slept => deadline.min(after),
            _ => self.looked,
        };
        self.looked = after;
        Ok(())
    }

    /// Sets the timer to the next event. Returns the latest time to wake up; `None`: do not sleep.
    fn arm(&mut self, now: Time) -> io::Result<Option<Time>> {
        let next = self.air.next_event();
        if next.is_some_and(|at| at.nanos_since(now) < SLEEP_NS_MIN) {
            return Ok(None);
        }
        if next != self.armed {
            // All zeros disarm it.
            let it_value = next.map_or_else(Timespec::default, |at| self.clock.real(at));
            let value = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
            self.armed = next;
        }
        let heartbeat = now + Duration::from_nanos(HEARTBEAT_NS);
        Ok(Some(next.map_or(heartbeat, |at| at.min(heartbeat))))
    }

    /// Reads the frames that a host sends.
    fn take(&mut self, from: Port) -> io::Result<()> {
        for _ in 0..FRAMES_PER_TURN {
            let mut bytes = self.spare.pop().unwrap_or_default();
            // One byte more than the longest frame, to detect longer ones.
            bytes.resize(FRAME_BYTES_MAX + 1, 0);
            let len = match rustix::io::read(&self.taps[from.0 as usize], &mut bytes) {
                Ok(len) => len,
                Err(error) => {
                    self.spare.push(bytes);
                    return match error {
                        rustix::io::Errno::AGAIN | rustix::io::Errno::INTR => Ok(()),
                        // The host's interface was set down.
                        rustix::io::Errno::IO => Ok(()),
                        error => Err(error.into()),
                    };
                }
            };
            bytes.truncate(len);
            let ports = self.taps.len() as u32;
            let Ok(to) = receiver(&bytes, from, ports) else {
                self.refused += 1;
                self.spare.push(bytes);
                continue;
            };
            let fates = if to.is_some() { 1 } else { ports - 1 };
            let now = self.clock.now();
            let taken_late_ns = now.nanos_since(self.waiting_since);
            let id = self.frames.insert(Held { bytes, taken_late_ns, fates }) as u64;
            self.air.advance(now, &mut self.outcomes);
            self.air.submit(now, Frame { id, from, to, len_bytes: len as u32 });
        }
        Ok(())
    }

    /// Delivers everything that is due.
    fn move_on(&mut self) {
        self.air.advance(self.clock.now(), &mut self.outcomes);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for outcome in outcomes.drain(..) {
            let key = outcome.id as usize;
            let Some(held) = self.frames.get_mut(key) else { continue };
            if outcome.fate == Fate::Delivered {
                if rustix::io::write(&self.taps[outcome.to.0 as usize], &held.bytes).is_err() {
                    self.not_taken += 1;
                }
                self.lateness.record(held.taken_late_ns + self.clock.now().nanos_since(outcome.at));
            }
            held.fates -= 1;
            if held.fates == 0 {
                self.spare.push(self.frames.remove(key).bytes);
            }
        }
        self.outcomes = outcomes;
    }

    /// Answers all questions; false if all handles were dropped.
    fn answer(&mut self) -> bool {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        loop {
            match self.questions.try_recv() {
                Ok(question) => {
                    let snapshot = Snapshot {
                        now: self.clock.now(),
                        counters: self.air.counters(),
                        lateness: self.lateness.summary(),
                        refused: self.refused,
                        not_taken: self.not_taken,
                    };
                    if question.begin {
                        self.lateness.clear();
                    }
                    // The asker may have given up.
                    let _ = question.answer.send(snapshot);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

/// The model's clock: CLOCK_MONOTONIC relative to the start, so that it can set timers.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start_ns: u64,
}

impl Clock {
    fn start() -> Clock {
        Clock { start_ns: monotonic_ns() }
    }

    fn now(self) -> Time {
        Time(monotonic_ns() - self.start_ns)
    }

    /// This time on CLOCK_MONOTONIC.
    fn real(self, at: Time) -> Timespec {
        let ns = self.start_ns.saturating_add(at.as_nanos());
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Requests real-time scheduling and the least timer slack for this thread.
fn prefer_this_thread() {
    // The kernel's `struct sched_param`: only this number. musl's has more fields, and musl returns ENOSYS without a system call.
    let parameters: libc::c_int = PRIORITY;
    // SAFETY: plain system calls about this thread; the structure outlives them.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) != 0
    };
    if refused {
        let error = io::Error::last_os_error();
        log::debug!("the medium runs without real-time priority, and may be late more often: {error}");
    }
}

#[cfg(test)]
mod tests;
