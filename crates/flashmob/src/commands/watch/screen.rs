//! The loop: reports come from a thread of their own, keys from the terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use flashmob_node::status::StatusArgs;
use flashmob_server::status::live::LiveReport;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::history::History;
use super::view::View;
use super::{Missing, fetched};

/// How long a key, a signal or a report may wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Draws until somebody quits.
pub fn draw(args: StatusArgs, interval: Duration, first: LiveReport) -> anyhow::Result<()> {
    // Nothing is said of it: it would stand in the picture.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (since, start) = (first.next_second, first.start.clone());
    let mut history = History::new(first);
    let (reports, received) = sync_channel(1);
    // It ends with its receiver, at the latest when it has another report.
    let (asker_end, end) = channel::<()>();
    thread::Builder::new()
        .name("asking".to_string())
        .spawn(move || ask(&args, interval, (since, start), &reports, &end))
        .context("cannot start a thread")?;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut view = View { colour, ..View::default() };
    let cannot = "cannot draw on this terminal; without --watch the status is printed";
    // It may have begun to.
    let mut terminal = ratatui::try_init().inspect_err(|_| ratatui::restore()).context(cannot)?;
    let result = turn(&mut terminal, &mut history, &mut view, &received, || stop.load(Ordering::SeqCst));
    ratatui::restore();
    drop(asker_end);
    result.context(cannot)
}

fn turn(
    terminal: &mut DefaultTerminal,
    history: &mut History,
    view: &mut View,
    received: &Receiver<Result<LiveReport, String>>,
    is_stopped: impl Fn() -> bool,
) -> std::io::Result<()> {
    let (mut trouble, mut is_new) = (None, true);
    while !is_stopped() {
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| view.draw(frame, history, trouble.as_deref()))?;
        }
        if event::poll(LOOK_EVERY)? {
            is_new = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !pressed(view, key, history.last.nodes.len())
            {
                return Ok(());
            }
        }
        match received.try_recv() {
            Ok(Ok(report)) => {
                history.add(report);
                (trouble, is_new) = (None, true);
            }
            Ok(Err(error)) => (trouble, is_new) = (Some(error), true),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(std::io::Error::other("nobody asks any more")),
        }
    }
    Ok(())
}

/// A key was pressed. Returns whether to go on.
pub(super) fn pressed(view: &mut View, key: KeyEvent, nodes: usize) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('z') => view.zoom_on(),
        KeyCode::Down | KeyCode::Char('j') => view.first = (view.first + 1).min(nodes.saturating_sub(1)),
        KeyCode::Up | KeyCode::Char('k') => view.first = view.first.saturating_sub(1),
        KeyCode::Home => view.first = 0,
        _ => {}
    }
    true
}

/// Asks at the interval until nobody receives any more. After a restart of the gateway it asks for all that the new one has.
fn ask(
    args: &StatusArgs,
    interval: Duration,
    (mut since, mut start): (u64, String),
    reports: &SyncSender<Result<LiveReport, String>>,
    end: &Receiver<()>,
) {
    let fetch = |since| match args.open() {
        Ok(target) => fetched(&target, since),
        Err(error) => Err(Missing::Failed(error)),
    };
    while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let report = match fetch(since) {
            Ok(report) if report.start != start => fetch(0),
            other => other,
        };
        let report = match report {
            Ok(report) => {
                (since, start) = (report.next_second, report.start.clone());
                Ok(report)
            }
            Err(Missing::Failed(error)) => Err(format!("{error:#}")),
            Err(Missing::NoHistory) => Err("it keeps no history any more".to_string()),
        };
        if reports.send(report).is_err() {
            return;
        }
    }
}
