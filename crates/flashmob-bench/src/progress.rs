//! A progress line: on stderr, only if that is a terminal, and only after two seconds. Nothing is written to files or pipes.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use flashmob_core::units::Bytes;

/// Shorter work shows no line.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// Least interval between updates.
const REDRAWN_AFTER: Duration = Duration::from_millis(200);

/// The unit of [`Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
    /// Milliseconds of a fixed time.
    Milliseconds,
    /// Parts of other work.
    Parts,
}

/// The progress of some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The completed amount.
    pub done: u64,
    /// The total amount.
    pub total: u64,
    /// The unit of both.
    pub unit: Unit,
}

/// The line of one piece of work. It is removed when the value is dropped.
#[derive(Debug)]
pub struct ProgressLine<W: Write = std::io::Stderr> {
    label: String,
    out: Option<W>,
    begun: Instant,
    drawn: Option<Instant>,
}

impl ProgressLine {
    /// A line on stderr that begins with `label`.
    #[must_use]
    pub fn new(label: &str) -> ProgressLine {
        let stderr = std::io::stderr();
        let out = stderr.is_terminal().then_some(stderr);
        ProgressLine { label: label.into(), out, begun: Instant::now(), drawn: None }
    }
}

impl<W: Write> ProgressLine<W> {
    /// Shows the progress, if an update is due.
    pub fn show(&mut self, progress: &Progress) {
        self.show_at(progress, Instant::now());
    }

    fn show_at(&mut self, progress: &Progress, now: Instant) {
        let elapsed = now.saturating_duration_since(self.begun);
        let fresh = self.drawn.is_some_and(|drawn| now.saturating_duration_since(drawn) < REDRAWN_AFTER);
        if elapsed < SHOWN_AFTER || fresh {
            return;
        }
        if let Some(out) = &mut self.out {
            // Carriage return, the line, erase to its end. Errors of the terminal are ignored.
            let _ = write!(out, "\r{}: {}\x1b[K", self.label, describe(progress, elapsed));
            let _ = out.flush();
            self.drawn = Some(now);
        }
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        if let (Some(out), Some(_)) = (&mut self.out, self.drawn) {
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

/// The text of `progress` after `elapsed`.
fn describe(progress: &Progress, elapsed: Duration) -> String {
    let Progress { done, total, unit } = *progress;
    let percent = if total == 0 { 100.0 } else { 100.0 * done as f64 / total as f64 };
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let amount = match unit {
        Unit::Bytes => format!("{} of {}, {}/s", Bytes(done), Bytes(total), Bytes(rate as u64)),
        Unit::Requests => format!("{done} of {total}, {rate:.0}/s"),
        Unit::Milliseconds => format!("{} of {} s", done / 1000, total / 1000),
        Unit::Parts => format!("{} so far", human_time(elapsed.as_secs_f64())),
    };
    let left = total.saturating_sub(done) as f64;
    let left_s = if unit == Unit::Milliseconds { left / 1000.0 } else { left / rate };
    // Without progress there is no estimate.
    let left = if done > 0 && left_s.is_finite() { format!(", {} left", human_time(left_s)) } else { String::new() };
    format!("{percent:.0} % ({amount}{left})")
}

fn human_time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64, total: u64, unit: Unit) -> Progress {
        Progress { done, total, unit }
    }

    #[test]
    fn the_line_says_how_much_how_fast_and_how_long() {
        let four = Duration::from_secs(4);
        let text = describe(&progress(512 << 20, 2 << 30, Unit::Bytes), four);
        assert_eq!(text, "25 % (512 MiB of 2 GiB, 128 MiB/s, 12 s left)");
        let text = describe(&progress(100, 400_000, Unit::Requests), four);
        assert_eq!(text, "0 % (100 of 400000, 25/s, 5 h left)");
        let text = describe(&progress(2000, 600_000, Unit::Milliseconds), four);
        assert_eq!(text, "0 % (2 of 600 s, 10 min left)");
        assert_eq!(describe(&progress(100, 400, Unit::Parts), four), "25 % (4 s so far, 12 s left)");
        assert_eq!(describe(&progress(0, 10, Unit::Requests), four), "0 % (0 of 10, 0/s)");
        assert!(describe(&progress(0, 0, Unit::Bytes), Duration::ZERO).starts_with("100 %"));
    }

    #[test]
    fn short_work_shows_nothing_and_long_work_cleans_up() {
        let mut out = Vec::new();
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let half = progress(1, 2, Unit::Requests);
        {
            let mut line = ProgressLine { label: "x".into(), out: Some(&mut out), begun, drawn: None };
            line.show_at(&half, at(1999));
        }
        assert!(out.is_empty());
        {
            let mut line = ProgressLine { label: "x".into(), out: Some(&mut out), begun, drawn: None };
            line.show_at(&half, at(2000));
            line.show_at(&half, at(2199));
            line.show_at(&half, at(2200));
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("x: 50 %").count(), 2, "{text:?}");
        assert!(text.ends_with("\r\x1b[K"));
    }

    #[test]
    fn what_is_no_terminal_gets_nothing() {
        let begun = Instant::now();
        let mut line = ProgressLine::<Vec<u8>> { label: "x".into(), out: None, begun, drawn: None };
        line.show_at(&progress(1, 2, Unit::Bytes), begun + Duration::from_secs(9));
        assert!(line.drawn.is_none());
    }
}
