//! The commands that the device receives during a repetition: those of the model, or the kernel's events of the disk.
//!
//! Commands of all processes are included, because the steps between addresses are those that the device sees. Where they are not available,
//! the measurement continues with a warning.

mod pairs;

use flashmob_host::place::Disk;
use flashmob_results::commands::Gatherer;
use flashmob_results::warning::{Code, Warning};
use flashmob_trace::capture::{Event, Scope, Session, Wanted};

use super::subject::Opened;
use super::sweep::Subject;

/// Events of one repetition are kept until its end: some 80 bytes for each, two for each command.
const MEMORY_BYTES: u64 = 256 << 20;

#[derive(Debug)]
pub(super) enum Source {
    Model,
    /// The kernel's events of this disk: `major << 20 | minor`.
    Kernel {
        device: u32,
    },
}

pub(super) enum Watching {
    Model,
    Kernel { session: Box<Session>, gathered: Box<Gatherer> },
}

impl Source {
    /// The source for this file or model; an error says why there is none.
    pub(super) fn of(subject: &Subject) -> Result<Source, String> {
        let Subject::File(file) = subject else { return Ok(Source::Model) };
        let disk = file
            .disk
            .as_ref()
            .ok_or("the file is not on a single disk (but in memory, on the network or on several)")?;
        let device =
            number(disk).ok_or_else(|| format!("the kernel does not report the number of the disk {}", disk.name))?;
        Ok(Source::Kernel { device })
    }

    /// Begins to add to `gathered`.
    pub(super) fn begin(&self, opened: &Opened<'_>, mut gathered: Box<Gatherer>) -> Result<Watching, String> {
        gathered.begin_apart();
        match (self, opened) {
            (_, Opened::Model(disk)) => {
                disk.record_commands(gathered);
                Ok(Watching::Model)
            }
            (Source::Model, Opened::File(_)) => Err("a model has no file".into()),
            (Source::Kernel { device }, Opened::File(_)) => {
                Ok(Watching::Kernel { session: Box::new(session(*device)?), gathered })
            }
        }
    }
}

/// The kernel's events about commands to this disk, from now on.
fn session(device: u32) -> Result<Session, String> {
    let event = |name: &str| Event { system: "block".into(), name: name.into(), scope: Scope::Devices, filter: None };
    let wanted = Wanted {
        events: vec![event(pairs::ISSUE), event(pairs::COMPLETE)],
        devices: vec![device],
        memory_bytes: MEMORY_BYTES,
        ..Wanted::default()
    };
    let mut session = Session::open(&wanted).map_err(|error| error.to_string())?;
    // Issues without completions, or the reverse, are useless.
    let missing = session.sources().iter().find(|source| !source.is_used || source.why.is_some());
    if let Some(source) = missing {
        let unknown = || format!("the kernel has no events of {}", source.name);
        return Err(source.why.clone().unwrap_or_else(unknown));
    }
    session.start().map_err(|error| error.to_string())?;
    Ok(session)
}

/// The disk's number as in the kernel's events.
fn number(disk: &Disk) -> Option<u32> {
    let text = std::fs::read_to_string(disk.sysfs.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

impl Watching {
    /// The commands, and a warning if some were lost.
    pub(super) fn end(self, opened: &Opened<'_>) -> (Option<Box<Gatherer>>, Option<Warning>) {
        match (self, opened) {
            (Watching::Kernel { session, mut gathered }, _) => {
                let capture = session.stop();
                for served in pairs::paired(&capture.records()) {
                    gathered.add(&served);
                }
                (Some(gathered), lost(&capture.losses))
            }
            (Watching::Model, Opened::Model(disk)) => (disk.take_commands(), None),
            (Watching::Model, Opened::File(_)) => (None, None),
        }
    }
}

fn lost(losses: &flashmob_results::trace::Losses) -> Option<Warning> {
    (losses.lost > 0).then(|| {
        let text = format!(
            "{} events of the device's commands were lost (of {}): steps over what is missing are wrong; take fewer reads or less time",
            losses.lost,
            losses.lost.saturating_add(losses.events)
        );
        Warning::new(Code::Incomplete, text)
    })
}
