//! Progress and remaining time: on a terminal a line that is updated, elsewhere a line for each run.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const DRAW_EVERY: Duration = Duration::from_secs(1);

/// Progress of all runs.
pub struct Progress {
    /// Time is virtual: its speed is known after the first run.
    is_virtual: bool,
    runs: usize,
    on_terminal: bool,
    state: RefCell<State>,
}

struct State {
    begun: usize,
    /// Estimated seconds of the completed runs, of the current one, and of all.
    done_s: f64,
    this_s: f64,
    all_s: f64,
    /// Actual seconds of the completed runs.
    took_s: f64,
    words: String,
    since: Instant,
    drawn: Instant,
}

impl Progress {
    /// For this many runs, with the sum of their estimates.
    #[must_use]
    pub fn new(guesses_s: &[f64], is_virtual: bool) -> Progress {
        let state = State {
            begun: 0,
            done_s: 0.0,
            this_s: 0.0,
            all_s: guesses_s.iter().sum(),
            took_s: 0.0,
            words: String::new(),
            since: Instant::now(),
            drawn: Instant::now(),
        };
        let on_terminal = std::io::stderr().is_terminal() && log::log_enabled!(log::Level::Info);
        Progress { is_virtual, runs: guesses_s.len(), on_terminal, state: RefCell::new(state) }
    }

    /// A run begins.
    pub fn begin(&self, words: String, guess_s: f64) {
        let mut state = self.state.borrow_mut();
        state.begun += 1;
        (state.words, state.this_s, state.since) = (words, guess_s, Instant::now());
        if self.on_terminal {
            drop(state);
            self.draw();
        } else {
            log::info!("{}", state.line(self.runs, self.is_virtual));
        }
    }

    /// A run is left out.
    pub fn skip(&self, guess_s: f64) {
        let mut state = self.state.borrow_mut();
        state.begun += 1;
        state.all_s -= guess_s;
    }

    /// Updates the line.
    pub fn tick(&self) {
        if self.on_terminal && self.state.borrow().drawn.elapsed() >= DRAW_EVERY {
            self.draw();
        }
    }

    /// The run is complete.
    pub fn end(&self) {
        let mut state = self.state.borrow_mut();
        state.took_s += state.since.elapsed().as_secs_f64();
        state.done_s += state.this_s;
        state.this_s = 0.0;
        if self.on_terminal {
            // The line is free for other output.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn draw(&self) {
        let mut state = self.state.borrow_mut();
        state.drawn = Instant::now();
        // Errors of the output are ignored.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", state.line(self.runs, self.is_virtual));
    }
}

impl State {
    fn line(&self, runs: usize, is_virtual: bool) -> String {
        let line = format!("{}/{runs} {}", self.begun, self.words);
        // Estimates are of real time: the speed of virtual time is known after the first run.
        if is_virtual && self.done_s <= 0.0 { line } else { format!("{line}; {}", self.left()) }
    }

    /// The remaining time, from the ratio of actual to estimated time so far.
    fn left(&self) -> String {
        let ratio = if self.done_s > 0.0 { self.took_s / self.done_s } else { 1.0 };
        let passed_s = self.since.elapsed().as_secs_f64().min(self.this_s * ratio);
        words(((self.all_s - self.done_s) * ratio - passed_s).max(0.0))
    }
}

fn words(left_s: f64) -> String {
    match left_s {
        short if short < 90.0 => format!("about {short:.0} s left"),
        long => format!("about {:.0} min left", long / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_runs_took() {
        let progress = Progress::new(&[100.0; 10], false);
        progress.begin("k=1".into(), 100.0);
        let guess = progress.state.borrow().left();
        progress.end();
        // It took no time, so the others are estimated likewise.
        progress.begin("k=10".into(), 100.0);
        assert_eq!(progress.state.borrow().left(), "about 0 s left");
        assert!(guess.ends_with("min left"), "{guess}");
        assert!(progress.state.borrow().line(10, false).starts_with("2/10 k=10; about "));
    }

    #[test]
    fn how_long_virtual_time_takes_is_not_guessed_before_the_first_run() {
        let state = |done_s| State {
            begun: 1,
            done_s,
            this_s: 0.0,
            all_s: 500.0,
            took_s: 1.0,
            words: "k=1".into(),
            since: Instant::now(),
            drawn: Instant::now(),
        };
        assert_eq!(state(0.0).line(10, true), "1/10 k=1");
        assert!(state(100.0).line(10, true).starts_with("1/10 k=1; about "));
        assert!(state(0.0).line(10, false).starts_with("1/10 k=1; about "));
    }
}
