//! A capture saved to a folder: the kernel's format files and raw pages. Tests read such recordings.
//!
//! ```text
//! capture.json                    kernel, losses, sources, and which pages there are
//! events/header_page              the layout of pages
//! events/SYSTEM/NAME/ID           layouts of events
//! threads-cpu0.raw …              pages of each instance and processor
//! ```

use std::io;
use std::path::{Path, PathBuf};

use flashmob_results::trace::{Losses, Source};
use serde::{Deserialize, Serialize};

use super::captured::{Capture, Pages};
use super::tracing::{INSTANCES, Texts};
use crate::format::{EventFormat, FormatError, HeaderError, PageLayout};

const INDEX: &str = "capture.json";
const EVENTS: &str = "events";
/// Maximum size of a format file; more than any kernel writes.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Why a recording cannot be used, with the file.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file cannot be read or written.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
    /// The index is malformed.
    #[error("{}: {}; record it anew", .0.display(), .1)]
    Index(PathBuf, #[source] serde_json::Error),
    /// The index names pages of an unknown instance.
    #[error("{}: pages of '{}', which is neither 'threads' nor 'devices'", .0.display(), .1)]
    Instance(PathBuf, String),
    /// The layout of pages is malformed.
    #[error("{}: {}", .0.display(), .1)]
    Header(PathBuf, #[source] HeaderError),
    /// The layout of an event is malformed.
    #[error("{}: {}", .0.display(), .1)]
    Format(PathBuf, #[source] FormatError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    kernel: String,
    losses: Losses,
    sources: Vec<Source>,
    pages: Vec<IndexPages>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexPages {
    instance: String,
    cpu: u32,
}

impl IndexPages {
    fn file(&self) -> String {
        format!("{}-cpu{}.raw", self.instance, self.cpu)
    }
}

impl Capture {
    /// Writes it to a folder, which is created.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), RecordingError> {
        let write = |path: &Path, bytes: &[u8]| {
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(path, bytes)).map_err(io_error(path))
        };
        for (name, text) in &self.texts {
            write(&folder.join(EVENTS).join(name), text.as_bytes())?;
        }
        let mut pages = Vec::new();
        for stream in self.pages.iter().filter(|stream| !stream.chunks.is_empty()) {
            let place = IndexPages { instance: stream.instance.clone(), cpu: stream.cpu };
            write(&folder.join(place.file()), &stream.chunks.concat())?;
            pages.push(place);
        }
        let (kernel, losses, sources) = (self.kernel.clone(), self.losses.clone(), self.sources.clone());
        let path = folder.join(INDEX);
        let text = serde_json::to_string_pretty(&Index { kernel, losses, sources, pages });
        let text = text.map_err(|source| RecordingError::Index(path.clone(), source))?;
        write(&path, (text + "\n").as_bytes())
    }

    /// Reads what [`Capture::save`] wrote.
    ///
    /// # Errors
    /// A file is missing or malformed.
    pub fn load(folder: &Path) -> Result<Capture, RecordingError> {
        let path = folder.join(INDEX);
        let text = std::fs::read(&path).map_err(io_error(&path))?;
        let index: Index =
            serde_json::from_slice(&text).map_err(|source| RecordingError::Index(path.clone(), source))?;
        let Index { kernel, losses, sources, pages: places } = index;
        let (texts, formats, layout) = load_texts(&folder.join(EVENTS))?;
        let mut pages = Vec::new();
        for place in places {
            if !INSTANCES.contains(&place.instance.as_str()) {
                return Err(RecordingError::Instance(path, place.instance));
            }
            let file = folder.join(place.file());
            let chunks = vec![std::fs::read(&file).map_err(io_error(&file))?];
            pages.push(Pages { instance: place.instance, cpu: place.cpu, layout, chunks });
        }
        Ok(Capture { formats, losses, sources, kernel, is_memory_full: false, texts, pages })
    }
}

fn load_texts(events: &Path) -> Result<(Texts, Vec<EventFormat>, PageLayout), RecordingError> {
    let (mut texts, mut formats) = (Texts::new(), Vec::new());
    for name in ["header_page", "header_event"] {
        texts.insert(name.into(), read_text(&events.join(name))?);
    }
    let layout = PageLayout::parse(&texts["header_page"]);
    let layout = layout.map_err(|source| RecordingError::Header(events.join("header_page"), source))?;
    for (system, folder) in folders(events)? {
        for (name, folder) in folders(&folder)? {
            for entry in std::fs::read_dir(&folder).map_err(io_error(&folder))?.flatten() {
                let (path, id) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
                let text = read_text(&path)?;
                let format = EventFormat::parse(&system, &text);
                formats.push(format.map_err(|source| RecordingError::Format(path, source))?);
                texts.insert(format!("{system}/{name}/{id}"), text);
            }
        }
    }
    formats.sort_by_key(|format| format.id);
    Ok((texts, formats, layout))
}

/// Subfolders, with their names.
fn folders(folder: &Path) -> Result<Vec<(String, PathBuf)>, RecordingError> {
    let entries = std::fs::read_dir(folder).map_err(io_error(folder))?.flatten();
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    Ok(named.filter(|(_, path)| path.is_dir()).collect())
}

fn read_text(path: &Path) -> Result<String, RecordingError> {
    let is_long = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > TEXT_BYTES_MAX);
    if is_long {
        return Err(io_error(path)(io::Error::other("it is too long for a layout")));
    }
    std::fs::read_to_string(path).map_err(io_error(path))
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> RecordingError {
    move |source| RecordingError::Io(path.into(), source)
}
