//! The transfer, at both ends: threads, samples of their counters, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_host::watch::cpu_times;
use flashmob_results::net::{Interval, TcpEnd, Udp};
use hdrhistogram::Histogram;

use super::control::{Control, Heard};
use super::course::{Course, Ending};
use super::error::NetError;
use super::look::Look;
use super::protocol::parameters::Parameters;
use super::stream::{self, Shared, Socket, Stream, Work};
use crate::disk::now_ns;

/// Interval of samples.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// The same if bytes end the test.
const LOOKS_OFTEN: Duration = Duration::from_millis(2);

/// Time without arrivals after which no more data is expected.
const DRAINS_FOR: Duration = Duration::from_millis(100);
/// Time limit for draining the system's buffers, which hold megabytes at most.
const DRAINS_WITHIN: Duration = Duration::from_secs(5);
/// Time after which missing datagrams are lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// Time for the control connection to report why data connections ended.
const DEAD_AFTER: Duration = Duration::from_secs(2);

/// The counts of one end.
#[derive(Debug)]
pub(super) struct Counted {
    pub elapsed: Duration,
    /// Processor time of this process, in user mode and in the kernel.
    pub cpu: (Duration, Duration),
    pub streams: Vec<StreamCount>,
    pub latencies: Histogram<u64>,
}

/// The counts of one end for one stream.
#[derive(Clone, Debug)]
pub(super) struct StreamCount {
    pub stream_id: u32,
    /// From the begin of counting to the first bytes that arrived; 0 for a sender. A receiver that begins a round trip before its data arrives has
    /// not received nothing in that time: nothing was on its way.
    pub silent: Duration,
    pub bytes: u64,
    pub answer_bytes: u64,
    pub tcp: Option<TcpEnd>,
    /// Counts of datagrams.
    pub udp: Option<Udp>,
    /// Datagrams of the omitted time, and those lost in it.
    pub omitted: Udp,
}

pub(super) struct Traffic {
    streams: Vec<Stream>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Histogram<u64>>>,
    begun: Instant,
    counting_since: Instant,
    cpu: (Duration, Duration),
    /// Counts when counting began.
    first: Vec<Look>,
    /// The end, if it was noticed later.
    over_at: Option<Instant>,
    /// Counts at the end of the last interval.
    last: Vec<Look>,
    last_at: Instant,
    send_window_max_bytes: Vec<u64>,
}

impl Traffic {
    pub fn start(streams: Vec<Stream>, parameters: &Parameters, course: &Course) -> Result<Traffic, NetError> {
        let limit = course.limit_bytes();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            is_counting: AtomicBool::new(course.omit.is_zero()),
            left_bytes: AtomicI64::new(if course.omit.is_zero() { limit } else { i64::MAX }),
            block: stream::block(parameters.block_bytes),
            rate_bits_per_second: parameters.rate_bits_per_second,
            counters_64bit: parameters.counters_64bit,
        });
        let now = Instant::now();
        let first: Vec<Look> = streams.iter().map(Look::at).collect();
        let mut traffic = Traffic {
            send_window_max_bytes: vec![0; streams.len()],
            threads: Vec::with_capacity(streams.len()),
            shared,
            begun: now,
            counting_since: now,
            cpu: cpu_times(),
            last: first.clone(),
            over_at: None,
            first,
            last_at: now,
            streams,
        };
        for at in 0..traffic.streams.len() {
            match traffic.streams[at].start(&traffic.shared) {
                Ok(thread) => traffic.threads.push(thread),
                Err(source) => {
                    // Threads that run must not outlive this.
                    traffic.stop(course, &mut |_| {}).end();
                    return Err(NetError::System { doing: "start a thread for a stream", source });
                }
            }
        }
        Ok(traffic)
    }

    /// Runs until the transfer ends.
    pub fn drive(
        &mut self,
        control: &Control,
        course: &Course,
        cancel: &AtomicBool,
        watch: &mut dyn FnMut(&[Interval]),
    ) -> Ending {
        let mut moved = (self.moved(), Instant::now());
        let mut next_interval = course.interval.map(|interval| self.begun + interval);
        let mut is_counting = course.omit.is_zero();
        let mut dead_since: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if !is_counting && now >= self.begun + course.omit {
                self.begin_counting(course, watch);
                is_counting = true;
                next_interval = course.interval.map(|interval| now + interval);
            }
            if let (Some(at), Some(interval)) = (next_interval, course.interval)
                && now >= at
            {
                self.tell(now, !is_counting, watch);
                // Missed intervals are not reported.
                next_interval = Some((at + interval).max(now + interval / 2));
            }
            let end = course.time.map(|time| self.counting_since + time).filter(|_| is_counting && course.is_leading);
            if cancel.load(Ordering::Relaxed) {
                return Ending::Cancelled;
            }
            if end.is_some_and(|end| now >= end) || (is_counting && course.is_leading && self.has_moved_all(course)) {
                return Ending::Over;
            }
            let so_far = self.moved();
            if so_far != moved.0 || !self.is_expecting() {
                moved = (so_far, now);
            } else if now - moved.1 >= LOST_AFTER
                && is_counting
                && course.is_leading
                && self.is_missing_datagrams(course)
            {
                // Missing datagrams are lost.
                self.over_at = Some(moved.1);
                return Ending::Over;
            } else if now - moved.1 >= course.silence {
                return Ending::Silent;
            }
            if self.over_at.is_none() && !course.is_leading && self.has_sent_all_datagrams(course) {
                // The client still waits for lost datagrams: that time does not count here.
                self.over_at = Some(now);
            }
            let is_dead = self.is_dead(course);
            dead_since = if is_dead { dead_since.or(Some(now)) } else { None };
            if dead_since.is_some_and(|since| now - since >= DEAD_AFTER) {
                return Ending::Dead;
            }
            if course.limit.is_some_and(|limit| now - self.begun >= limit) {
                return Ending::Late;
            }
            let wakes = [end, next_interval, (!is_counting).then_some(self.begun + course.omit)];
            let looks = if course.bytes.is_some() { LOOKS_OFTEN } else { LOOKS_EVERY };
            let wait =
                wakes.into_iter().flatten().map(|at| at.saturating_duration_since(now)).fold(looks, Duration::min);
            match control.hear(wait) {
                Ok(Heard::Nothing) => {}
                Ok(Heard::Byte(byte)) => return Ending::Said(byte),
                Ok(Heard::Closed) | Err(_) => return Ending::Closed,
            }
        }
    }

    fn begin_counting(&mut self, course: &Course, watch: &mut dyn FnMut(&[Interval])) {
        let now = Instant::now();
        if course.interval.is_some() && now - self.last_at > Duration::from_millis(50) {
            self.tell(now, true, watch);
        }
        self.first = self.streams.iter().map(Look::at).collect();
        self.last.clone_from(&self.first);
        (self.last_at, self.counting_since, self.cpu) = (now, now, cpu_times());
        self.send_window_max_bytes.fill(0);
        self.shared.left_bytes.store(course.limit_bytes(), Ordering::Relaxed);
        self.shared.is_counting.store(true, Ordering::Relaxed);
    }

    /// Reports the interval since the last report.
    fn tell(&mut self, now: Instant, omitted: bool, watch: &mut dyn FnMut(&[Interval])) {
        let begin_s = (self.last_at - self.begun).as_secs_f64();
        let end_s = (now - self.begun).as_secs_f64();
        let mut intervals = Vec::with_capacity(self.streams.len());
        for (at, stream) in self.streams.iter().enumerate() {
            let look = Look::at(stream);
            let since = std::mem::replace(&mut self.last[at], look);
            let bytes = look.bytes.saturating_sub(since.bytes);
            let window = look.tcp.map_or(0, |tcp| u64::from(tcp.send_window_bytes));
            intervals.push(Interval {
                stream: at as u32 + 1,
                direction: stream.direction,
                begin_s,
                end_s,
                bytes,
                bits_per_second: 8.0 * bytes as f64 / (end_s - begin_s).max(1e-9),
                omitted,
                tcp: look.tcp_end(&since, stream, window),
                udp: matches!(stream.socket, Socket::Udp(_)).then(|| look.udp(&since)),
            });
        }
        self.last_at = now;
        watch(&intervals);
    }

    fn moved(&mut self) -> u64 {
        let mut sum = 0_u64;
        for (stream, window) in self.streams.iter().zip(&mut self.send_window_max_bytes) {
            let look = Look::at(stream);
            *window = (*window).max(look.tcp.map_or(0, |tcp| u64::from(tcp.send_window_bytes)));
            sum = sum.wrapping_add(look.moved(stream.is_sender()));
        }
        sum
    }

    /// Whether progress is expected: the other end sends, or data is not acknowledged yet.
    fn is_expecting(&self) -> bool {
        self.streams.iter().any(|stream| !stream.is_sender() || Look::at(stream).is_waiting())
    }

    fn has_sent_all_datagrams(&self, course: &Course) -> bool {
        course.bytes.is_some() && self.is_udp() && self.streams.iter().all(|s| s.is_sender() && s.has_ended())
    }

    /// Whether datagrams are missing, of those that end the test.
    fn is_missing_datagrams(&self, course: &Course) -> bool {
        course.bytes.is_some() && self.is_udp() && self.streams.iter().all(|s| !s.is_sender() || s.has_ended())
    }

    /// Whether all bytes of the test were transferred, as far as this end knows.
    fn has_moved_all(&self, course: &Course) -> bool {
        let Some(bytes) = course.bytes else { return false };
        let is_done = |is_sender: bool| {
            let mut moved = 0;
            let mut all = self.streams.iter().zip(&self.first).filter(|(s, _)| s.is_sender() == is_sender).peekable();
            if all.peek().is_none() {
                return true;
            }
            for (stream, first) in all {
                let look = Look::at(stream);
                if is_sender && (!stream.has_ended() || look.is_waiting()) {
                    return false;
                }
                moved += look.bytes.saturating_sub(first.bytes);
            }
            // Datagrams that the system refused are not sent again.
            moved >= bytes || (is_sender && self.is_udp())
        };
        is_done(true) && is_done(false)
    }

    /// Whether all threads have ended early.
    fn is_dead(&self, course: &Course) -> bool {
        let may_have_ended = course.bytes.is_some() && (!course.is_leading || self.is_udp());
        !may_have_ended && self.streams.iter().all(Stream::has_ended)
    }

    fn is_udp(&self) -> bool {
        self.streams.iter().all(|stream| matches!(stream.socket, Socket::Udp(_)))
    }

    /// Waits until the system's buffers are drained, as long as bytes arrive.
    pub fn drain(&mut self, bytes: u64) {
        let received = || -> u64 {
            let all = self.streams.iter().zip(&self.first).filter(|(s, _)| !s.is_sender());
            all.map(|(stream, first)| Look::at(stream).bytes.saturating_sub(first.bytes)).sum()
        };
        let begun = Instant::now();
        let mut before = (received(), begun);
        while before.0 < bytes
            && before.1.elapsed() < DRAINS_FOR
            && begun.elapsed() < DRAINS_WITHIN
            && self.streams.iter().any(|s| !s.is_sender())
        {
            std::thread::sleep(LOOKS_OFTEN);
            let now = received();
            if now != before.0 {
                before = (now, Instant::now());
            }
        }
        if before.0 < bytes && self.streams.iter().all(|s| !s.is_sender()) {
            // The time of waiting in vain does not count.
            self.over_at = Some(before.1);
        }
    }

    /// Reports the last interval, takes the final counts, and stops the threads. [`Stopping::end`] waits for them.
    pub fn stop(mut self, course: &Course, watch: &mut dyn FnMut(&[Interval])) -> Stopping {
        let now = Instant::now();
        if course.interval.is_some() && now - self.last_at > Duration::from_millis(50) {
            let omitted = !self.shared.is_counting.load(Ordering::Relaxed);
            self.tell(now, omitted, watch);
        }
        let counting_since_ns = now_ns().saturating_sub(self.counting_since.elapsed().as_nanos() as u64);
        let count = |at: usize, stream: &Stream| {
            let (look, first) = (Look::at(stream), &self.first[at]);
            let is_udp = matches!(stream.socket, Socket::Udp(_));
            let silent_ns = stream.counters.first_ns().map_or(0, |ns| ns.saturating_sub(counting_since_ns));
            StreamCount {
                stream_id: stream.id,
                silent: Duration::from_nanos(silent_ns),
                bytes: look.bytes.saturating_sub(first.bytes),
                answer_bytes: look.answer_bytes.saturating_sub(first.answer_bytes),
                tcp: look.tcp_end(first, stream, self.send_window_max_bytes[at]),
                udp: is_udp.then(|| look.udp(first)),
                omitted: first.udp(&Look::default()),
            }
        };
        let streams = self.streams.iter().enumerate().map(|(at, stream)| count(at, stream)).collect();
        let cpu = cpu_times();
        let counted = Counted {
            elapsed: self.over_at.unwrap_or(now) - self.counting_since,
            cpu: (cpu.0.saturating_sub(self.cpu.0), cpu.1.saturating_sub(self.cpu.1)),
            streams,
            latencies: flashmob_results::latency::histogram(),
        };
        self.shared.stop.store(true, Ordering::Relaxed);
        Stopping { streams: self.streams, threads: self.threads, first: self.first, counted }
    }
}

pub(super) struct Stopping {
    streams: Vec<Stream>,
    threads: Vec<JoinHandle<Histogram<u64>>>,
    first: Vec<Look>,
    counted: Counted,
}

impl Stopping {
    /// Wakes blocked threads, and closes all sockets.
    pub fn end(mut self) -> Counted {
        self.streams.iter().for_each(Stream::wake);
        for (stream, thread) in self.streams.iter().zip(self.threads) {
            if let (Ok(latencies), Work::Ask(_)) = (thread.join(), stream.work) {
                // All have the same bounds.
                let _ = self.counted.latencies.add(&latencies);
            }
        }
        // The other end has also received a write that was in progress at the end: it counts as sent.
        for ((stream, first), count) in self.streams.iter().zip(&self.first).zip(&mut self.counted.streams) {
            let look = Look::at(stream);
            match stream.work {
                Work::Send | Work::Ask(_) => {
                    count.bytes = look.bytes.saturating_sub(first.bytes);
                    count.udp = count.udp.map(|_| look.udp(first));
                }
                Work::Answer(_) => count.answer_bytes = look.answer_bytes.saturating_sub(first.answer_bytes),
                Work::Receive => {}
            }
        }
        self.counted
    }
}
