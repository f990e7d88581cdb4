//! The course of `flashmob join`: codes are shown, devices come, somebody confirms them, and they are told.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flashmob_bench::progress::{Progress, ProgressLine, Unit};
use flashmob_server::keys::enroll::desk::{State, Terms};
use flashmob_server::keys::enroll::serve::Event;
use flashmob_server::keys::enroll::{Invitation, JoinPort, Secret};

use super::{invite, people};
use crate::commands::qr;
use crate::commands::tell::Form;

/// How often the port is looked at.
const SLICE: Duration = Duration::from_millis(100);
/// How long devices that were confirmed may take to be back and to record the cluster's key.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);
/// How long devices that were turned down may take to hear of it.
const GONE_PATIENCE: Duration = Duration::from_secs(10);
/// Wrong codes are told of so often.
const WRONG_CODES_EVERY: Duration = Duration::from_secs(60);

const THIS_DEVICE: &str = "enroll this device? Its screen must show these six digits.";

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every device that was asked for is enrolled.
    All,
    /// Not all are, for this reason.
    Some(String),
    /// Ctrl-C.
    Interrupted,
}

/// A run of the command.
pub struct Session<'a> {
    pub port: &'a JoinPort,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
    yes: bool,
    pub output: Form,
    /// The digits of devices, as a person has seen them.
    shown: Vec<String>,
    wrong_codes: (Option<Instant>, u64),
}

impl<'a> Session<'a> {
    pub fn new(
        port: &'a JoinPort,
        events: Receiver<Event>,
        stop: Arc<AtomicBool>,
        yes: bool,
        output: Form,
    ) -> Session<'a> {
        Session { port, events, stop, yes, output, shown: Vec::new(), wrong_codes: (None, 0) }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Devices in one of these states, by their numbers.
    fn those(&self, states: &[State]) -> Vec<usize> {
        let devices = self.port.devices();
        (0..devices.len()).filter(|&number| states.contains(&devices[number].state)).collect()
    }

    /// Waits a moment, and tells what happens. Whether anything was told.
    fn look(&mut self) -> anyhow::Result<bool> {
        let mut has_news = match self.events.recv_timeout(SLICE) {
            Ok(event) => self.tell(event),
            Err(_) => false,
        };
        for (number, device) in self.port.devices().iter().enumerate() {
            // One that comes again shows other digits.
            if self.shown.get(number) == Some(&device.digits) {
                continue;
            }
            self.say(&people::line(device))?;
            match self.shown.get_mut(number) {
                Some(shown) => shown.clone_from(&device.digits),
                None => self.shown.push(device.digits.clone()),
            }
            has_news = true;
        }
        Ok(has_news)
    }

    /// Whether it was told: wrong codes are not each.
    fn tell(&mut self, event: Event) -> bool {
        let place = |from: Option<std::net::IpAddr>| from.map_or_else(|| "somebody".to_string(), |ip| ip.to_string());
        match event {
            Event::Left(number) => {
                let devices = self.port.devices();
                let Some(device) = devices.get(number).filter(|_| !self.port.is_here(number)) else { return false };
                log::warn!("{} has left before it was enrolled; it may come again", people::name(device));
            }
            Event::Refused(from, why) => log::warn!("{}: refused: {why}", place(from)),
            Event::Trouble(why) => log::error!("{why}"),
            Event::WrongCode(from) => {
                self.wrong_codes.1 += 1;
                if self.wrong_codes.0.is_some_and(|at| at.elapsed() < WRONG_CODES_EVERY) {
                    return false;
                }
                log::warn!("{}: a wrong code ({} so far)", place(from), self.wrong_codes.1);
                self.wrong_codes.0 = Some(Instant::now());
            }
        }
        true
    }

    /// Asks a yes-or-no question; only a yes is one.
    fn ask(&mut self, question: &str) -> anyhow::Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if std::io::stdin().is_terminal() {
            // What was typed before is no answer.
            let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        }
        let prompt = || write!(std::io::stderr(), "{question} [y/N] ");
        prompt()?;
        // On a thread: reading cannot be given up.
        let (answer_to, answer) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            // Nobody may be waiting any more.
            let _ = answer_to.send(read.map(|_| line));
        });
        let line = loop {
            match answer.recv_timeout(SLICE) {
                Ok(line) => break line?,
                Err(RecvTimeoutError::Timeout) if !self.is_stopped() => {
                    if self.look()? {
                        prompt()?;
                    }
                }
                Err(_) => return Ok(false),
            }
        };
        if !std::io::stdin().is_terminal() {
            eprintln!();
        }
        if line.is_empty() {
            log::warn!("nobody answers: give the answer on stdin, or use --yes");
        }
        Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    fn confirm(&self, numbers: &[usize]) {
        for &number in numbers {
            if let Err(error) = self.port.confirm(number) {
                log::error!("{}: {error}", self.port.devices().get(number).map(people::name).unwrap_or_default());
                self.port.turn_down(number);
            }
        }
    }

    /// Says no to them, and waits until they have heard it.
    fn turn_down(&mut self, numbers: &[usize]) -> anyhow::Result<()> {
        numbers.iter().for_each(|&number| self.port.turn_down(number));
        self.until_gone(numbers)
    }

    fn until_gone(&mut self, numbers: &[usize]) -> anyhow::Result<()> {
        let until = Instant::now() + GONE_PATIENCE;
        while numbers.iter().any(|&number| self.port.is_here(number)) && Instant::now() < until && !self.is_stopped() {
            self.look()?;
        }
        Ok(())
    }

    /// Waits until all devices that are pinned know it.
    fn until_kept(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + KEEP_PATIENCE;
        while !self.those(&[State::Pinned]).is_empty() && Instant::now() < until && !self.is_stopped() {
            self.look()?;
        }
        Ok(())
    }

    fn outcome(&self, wanted: usize) -> Outcome {
        let (kept, pinned) = (self.those(&[State::Kept]).len(), self.those(&[State::Pinned]).len());
        match (self.is_stopped(), kept, pinned) {
            (_, kept, _) if kept >= wanted => Outcome::All,
            (true, ..) => Outcome::Interrupted,
            (false, 0, 0) => Outcome::Some("no device is enrolled".to_string()),
            (false, kept, 0) => Outcome::Some(format!("{kept} of {wanted} devices are enrolled")),
            (false, kept, pinned) => Outcome::Some(format!(
                "{kept} of {wanted} devices are enrolled; {pinned} were confirmed and have not heard of it: enroll them again, which needs no confirmation"
            )),
        }
    }
}

/// Shows codes, one after another, until so many devices have come; then they are confirmed together.
pub fn with_codes(
    session: &mut Session<'_>,
    place: &str,
    nodes: usize,
    valid_for: Duration,
    has_qr: bool,
) -> anyhow::Result<Outcome> {
    session.say(&format!(
        "at each device: flashmob node --data PATH --size SIZE --listen 0.0.0.0:7411 --enroll {place}"
    ))?;
    for number in 0..nodes {
        let code = Secret::draw_code()?;
        let mut secrets = vec![code.clone()];
        if has_qr {
            let secret = Secret::draw_link()?;
            secrets.push(secret.clone());
            show_link(
                session,
                Invitation { address: place.to_string(), cluster: Some(session.port.cluster()), secret },
            )?;
        }
        let of = if nodes > 1 { format!(" ({} of {nodes})", number + 1) } else { String::new() };
        session.say(&format!("code{of}: {}, valid for {}", *code.to_code(), invite::in_words(valid_for)))?;
        let until = Instant::now() + valid_for;
        session.port.issue(secrets, Terms { uses: 1, until, needs_confirmation: true });
        if !until_come(session, number + 1, until, valid_for)? {
            break;
        }
    }
    if session.is_stopped() {
        return Ok(Outcome::Interrupted);
    }
    let waiting = session.those(&[State::Waiting]);
    if !waiting.is_empty() {
        people::list(session, &waiting)?;
        let question = match waiting.len() {
            1 => THIS_DEVICE.to_string(),
            count => format!("enroll these {count} devices? Each must show its six digits."),
        };
        if session.ask(&question)? {
            session.confirm(&waiting);
        } else {
            session.turn_down(&waiting)?;
        }
    }
    session.until_kept()?;
    session.until_gone(&session.those(&[State::TurnedDown]))?;
    Ok(session.outcome(nodes))
}

/// Waits until so many devices have come. Not if the time is over, or somebody stops it.
fn until_come(session: &mut Session<'_>, count: usize, until: Instant, valid_for: Duration) -> anyhow::Result<bool> {
    let mut line = ProgressLine::new("waiting for the device");
    loop {
        session.look()?;
        let come = session.those(&[State::Waiting, State::Pinned, State::Kept]).len();
        let left = until.saturating_duration_since(Instant::now());
        if come >= count {
            return Ok(true);
        }
        if left.is_zero() || session.is_stopped() {
            return Ok(false);
        }
        line.show(&progress(valid_for, left));
    }
}

/// How much of a code's time has passed.
fn progress(valid_for: Duration, left: Duration) -> Progress {
    let ms = |time: Duration| time.as_millis() as u64;
    Progress { done: ms(valid_for.saturating_sub(left)), total: ms(valid_for), unit: Unit::Milliseconds }
}

fn show_link(session: &Session<'_>, invitation: Invitation) -> anyhow::Result<()> {
    let Some(link) = invitation.to_link() else { return Ok(()) };
    match qr::draw(&link, std::env::var_os("NO_COLOR").is_none()) {
        Some(code) => session.say(&code)?,
        None => log::warn!("the link does not fit a QR code"),
    }
    session.say(&link)
}

/// Lets devices in that have the token, until it is used up or its time is over.
pub fn with_token(
    session: &mut Session<'_>,
    uses: usize,
    until: Instant,
    valid_for: Duration,
) -> anyhow::Result<Outcome> {
    let mut line = Some(ProgressLine::new("waiting for devices"));
    let is_over = |session: &Session<'_>| {
        let decided = session.those(&[State::Kept, State::TurnedDown]).len();
        decided >= uses && session.those(&[State::Waiting, State::Pinned]).is_empty()
    };
    while !is_over(session) && Instant::now() < until && !session.is_stopped() {
        session.look()?;
        let devices = session.port.devices();
        let asked = |number: &usize| devices[*number].needs_confirmation;
        for number in session.those(&[State::Waiting]).into_iter().filter(asked).collect::<Vec<_>>() {
            line = None;
            people::list(session, &[number])?;
            if session.ask(THIS_DEVICE)? {
                session.confirm(&[number]);
            } else {
                session.turn_down(&[number])?;
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        line.get_or_insert_with(|| ProgressLine::new("waiting for devices")).show(&progress(valid_for, left));
    }
    drop(line);
    session.until_kept()?;
    session.until_gone(&session.those(&[State::TurnedDown]))?;
    Ok(session.outcome(uses))
}
