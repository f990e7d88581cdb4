//! Reading documents from files.

use std::path::{Path, PathBuf};

use crate::latency::Latency;
use crate::{Document, FORMAT, FORMAT_VERSION, Measurement};

/// Longest file that is read: results are some hundred KiB.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// How captures begin: pcap in both byte orders, with microseconds and nanoseconds, and pcapng (draft-ietf-opsawg-pcap, section 4;
/// draft-ietf-opsawg-pcapng, section 4.1).
const PCAP_MAGICS: [[u8; 4]; 5] = [
    [0xA1, 0xB2, 0xC3, 0xD4],
    [0xD4, 0xC3, 0xB2, 0xA1],
    [0xA1, 0xB2, 0x3C, 0x4D],
    [0x4D, 0x3C, 0xB2, 0xA1],
    [0x0A, 0x0D, 0x0D, 0x0A],
];

/// Why a file is not a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is longer than any result.
    #[error("{path}: {size_bytes} bytes is more than any result has (at most {FILE_BYTES_MAX})")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
    },
    /// It is not JSON, or JSON of another kind.
    #[error("{path} is not a result of flashmob: {what}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// It is a capture of packets, of which no result was made yet.
    #[error("{path} is a capture of packets")]
    Capture {
        /// The file.
        path: PathBuf,
    },
    /// It was written by another version.
    #[error("{path}: version {found} of the result format; this flashmob knows {FORMAT_VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// Reads one file.
///
/// # Errors
/// See [`ReadError`]: each names the file.
pub fn file(path: &Path) -> Result<Document, ReadError> {
    let io = |source| ReadError::Io { path: path.into(), source };
    let size_bytes = std::fs::metadata(path).map_err(io)?.len();
    if size_bytes > FILE_BYTES_MAX {
        return Err(ReadError::TooLong { path: path.into(), size_bytes });
    }
    let bytes = std::fs::read(path).map_err(io)?;
    if PCAP_MAGICS.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(ReadError::Capture { path: path.into() });
    }
    let foreign = |_| ReadError::Foreign { path: path.into(), what: "it is not text".into() };
    text(std::str::from_utf8(&bytes).map_err(foreign)?, path)
}

/// Reads the text of a file; `path` is its name in errors.
///
/// # Errors
/// See [`ReadError`].
pub fn text(text: &str, path: &Path) -> Result<Document, ReadError> {
    let foreign = |what: String| ReadError::Foreign { path: path.into(), what };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| foreign(e.to_string()))?;
    match value.get("format").and_then(|f| f.as_str()) {
        Some(FORMAT) => {}
        Some(other) => return Err(foreign(format!("its format is '{other}', not '{FORMAT}'"))),
        None => return Err(foreign("it has no 'format'".into())),
    }
    match value.get("format_version").and_then(serde_json::Value::as_u64) {
        Some(found) if found == u64::from(FORMAT_VERSION) => {}
        Some(found) => return Err(ReadError::Version { path: path.into(), found }),
        None => return Err(foreign("it has no 'format_version'".into())),
    }
    let document: Document = serde_json::from_value(value).map_err(|e| foreign(e.to_string()))?;
    check(&document).map_err(foreign)?;
    Ok(document)
}

/// Checks that histograms can be read and match their counts, and that traces are consistent.
fn check(document: &Document) -> Result<(), String> {
    let points: Vec<Vec<&Latency>> = match &document.measurement {
        Measurement::Disk(disk) => disk
            .points
            .iter()
            .map(|p| p.repetitions.iter().map(|r| &r.latency_ns).chain([&p.summary.latency_ns]).collect())
            .collect(),
        Measurement::Cluster(cluster) => cluster
            .points
            .iter()
            .map(|p| p.repetitions.iter().map(|r| &r.latency_ns).chain([&p.summary.latency_ns]).collect())
            .collect(),
        Measurement::Net(net) => net
            .points
            .iter()
            .map(|p| {
                let exchanges = p.repetitions.iter().filter_map(|r| r.exchange.as_ref());
                exchanges.map(|e| &e.latency_ns).chain(p.summary.latency_ns.as_ref()).collect()
            })
            .collect(),
        Measurement::Capture(_) => Vec::new(),
        Measurement::Trace(trace) => {
            for (at, run) in trace.runs.iter().enumerate() {
                run.timeline.check().map_err(|e| format!("run {}: its timeline {e}", at + 1))?;
            }
            trace.runs.iter().map(|run| vec![&run.operations.latency_ns]).collect()
        }
    };
    for (at, latencies) in points.iter().enumerate() {
        for latency in latencies {
            let histogram = latency.histogram().map_err(|e| format!("point {}: {e}", at + 1))?;
            if histogram.len() != latency.count {
                return Err(format!(
                    "point {}: a histogram of {} requests says {}",
                    at + 1,
                    histogram.len(),
                    latency.count
                ));
            }
        }
    }
    Ok(())
}
