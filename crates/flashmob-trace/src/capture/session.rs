//! A running capture, or the reasons why there is none.

use std::path::Path;

use flashmob_results::trace::{Layer, Source};

use super::Wanted;
use super::captured::Capture;
use super::error::CaptureError;
use super::limits;
use super::reader::Reader;
use super::sources::layers;
use super::tracefs::Tracefs;
use super::tracing::Tracing;

/// The sources of names and of SQLite's functions.
pub(super) const NAMES: &str = "names of files";
pub(super) const SQLITE: &str = "SQLite's functions";

/// A running capture. Dropping it removes everything from the kernel.
#[derive(Debug)]
pub struct Session {
    sources: Vec<Source>,
    /// `None` if nothing can be captured.
    tracing: Option<Tracing>,
}

impl Session {
    /// Prepares everything; nothing is traced before [`Session::start`]. Objects that earlier, killed runs left in the kernel are removed.
    ///
    /// # Errors
    /// An invalid event name, or the reader thread cannot be started. Missing permissions and missing events are not errors: the session then captures
    /// less, or nothing, and its sources give the reasons.
    pub fn open(wanted: &Wanted) -> Result<Session, CaptureError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        for name in wanted.events.iter().flat_map(|event| [&event.system, &event.name]) {
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name) {
                return Err(CaptureError::Name(name.clone()));
            }
        }
        let opened = Tracefs::find().and_then(|tracefs| Tracing::prepare(tracefs, wanted));
        let (mut tracing, files) = match opened {
            Ok(opened) => opened,
            Err(why) => return Ok(Session { sources: blind(wanted, &why), tracing: None }),
        };
        // Before any thread is followed, so that the reader is not traced as a child.
        let reader = Reader::start(files, tracing.layout, limits::memory_bytes(wanted));
        tracing.reader = Some(reader.map_err(CaptureError::Reader)?);
        let sources = tracing.enable(wanted);
        Ok(Session { sources, tracing: Some(tracing) })
    }

    /// The sources of the data, and the reasons and remedies for missing ones.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file to which a traced program may write lines. Each becomes a record `ftrace:print`, whose field `buf` ends with a newline.
    #[must_use]
    pub fn marker(&self) -> Option<&Path> {
        self.tracing.as_ref().map(|tracing| tracing.marker.as_path())
    }

    /// Starts tracing.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.tracing.as_ref().map_or(Ok(()), |tracing| tracing.switch("1"))
    }

    /// Traces one more thread. If the session was opened without threads, this requires [`Wanted::follow_children`] and must be called before
    /// [`Session::start`].
    ///
    /// # Errors
    /// The thread has exited, or the kernel refuses.
    pub fn follow(&mut self, thread: u32) -> Result<(), CaptureError> {
        self.tracing.as_ref().map_or(Ok(()), |tracing| tracing.follow(thread))
    }

    /// Stops, removes everything from the kernel, and returns the capture.
    #[must_use]
    pub fn stop(self) -> Capture {
        let Session { sources, tracing } = self;
        let mut capture = tracing.map(Tracing::finish).unwrap_or_default();
        capture.sources = sources;
        capture.kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
        let counted = capture.read().1;
        capture.losses.events = counted.events;
        capture.losses.unreadable_bytes = counted.unreadable_bytes;
        // The kernel's counters include all losses, pages only some.
        capture.losses.lost = capture.losses.lost.max(counted.missed);
        capture
    }
}

/// All sources as missing, for the same reason.
fn blind(wanted: &Wanted, why: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    let mut add = |name: &str, layers: Vec<Layer>| {
        if !sources.iter().any(|source| source.name == name) {
            sources.push(Source { name: name.into(), layers, is_used: false, why: Some(why.to_string()) });
        }
    };
    for event in &wanted.events {
        add(&event.system, layers(&event.system));
    }
    if wanted.names {
        add(NAMES, vec![Layer::SystemCall]);
    }
    if !wanted.sqlite.is_empty() {
        add(SQLITE, vec![Layer::Sqlite]);
    }
    sources
}
