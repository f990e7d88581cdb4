//! A capture that is running, or one that cannot and says why.

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

/// A capture that is running. Dropped, it leaves nothing in the kernel.
#[derive(Debug)]
pub struct Session {
    sources: Vec<Source>,
    /// Absent if nothing can be captured.
    tracing: Option<Tracing>,
}

impl Session {
    /// Prepares everything; nothing is traced before [`Session::start`]. Objects that dead runs left in the kernel are removed.
    ///
    /// # Errors
    /// Names of events that cannot be any, and a system that gives no thread. Missing rights and missing events are none: the session then captures
    /// less, or nothing, and its sources say why.
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
        // Before any thread is followed, so that the reader is not taken for a child.
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

    /// Where a traced program may write lines of its own, which become records `ftrace:print` with a field `buf`, whose text ends with a newline.
    #[must_use]
    pub fn marker(&self) -> Option<&Path> {
        self.tracing.as_ref().map(|tracing| tracing.marker.as_path())
    }

    /// Traces from now on.
    ///
    /// # Errors
    /// The kernel refuses, which it did not before.
    pub fn start(&mut self) -> Result<(), CaptureError> {
        self.tracing.as_ref().map_or(Ok(()), |tracing| tracing.switch("1"))
    }

    /// Follows one more thread. If no threads were wanted when the session was opened, their events are captured only
    /// with [`Wanted::follow_children`], and only if this comes before [`Session::start`].
    ///
    /// # Errors
    /// There is no such thread any more, or the kernel refuses.
    pub fn follow(&mut self, thread: u32) -> Result<(), CaptureError> {
        self.tracing.as_ref().map_or(Ok(()), |tracing| tracing.follow(thread))
    }

    /// Ends, and gives what was captured. Nothing is left in the kernel.
    #[must_use]
    pub fn stop(self) -> Capture {
        let Session { sources, tracing } = self;
        let mut capture = tracing.map(Tracing::finish).unwrap_or_default();
        capture.sources = sources;
        capture.kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
        let counted = capture.read().1;
        capture.losses.events = counted.events;
        capture.losses.unreadable_bytes = counted.unreadable_bytes;
        // The kernel's own counters know all; pages know of some only.
        capture.losses.lost = capture.losses.lost.max(counted.missed);
        capture
    }
}

/// Sources that say the same of everything.
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
