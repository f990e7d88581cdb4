//! An image into an export, and an export into an image: sequential, pipelined over one connection.
//!
//! Holes of a sparse source are written as zeroes without sending them, where the export can do that.
//! A copy ends with a flush: when [`write_image`] returns, the server has confirmed that the bytes are on its medium.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flashmob_core::nbd::protocol as p;
use flashmob_core::op::Op;
use rustix::fs::SeekFrom;

use crate::error::{Error, ServerError};
use crate::nbd::connection::{Connection, Options};
use crate::nbd::handshake::Export;
use crate::nbd::pump::Single;
use crate::nbd::reply::Replies;
use crate::nbd::slots::Request;
use crate::nbd::uri::Uri;
use crate::progress::{Progress, Unit};

const OUTSTANDING: u32 = 16;
const CHUNK_BYTES: u32 = 256 * 1024;
/// Bytes of a write of zeroes: they cost no traffic, but a server may have to write them out.
const ZEROES_BYTES: u32 = 32 << 20;
/// Longest silence of a server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyResult {
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Of them, bytes that were transferred as data.
    pub data_bytes: u64,
    /// Duration, including connecting and the flush.
    pub elapsed: Duration,
}

/// Writes the file at `path` into the export from its first byte on, then flushes. What the export
/// holds behind the end of the image stays as it is.
pub fn write_image(uri: &Uri, path: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<CopyResult, Error> {
    let begun = Instant::now();
    let failed = |doing| move |source| Error::File { path: path.to_path_buf(), doing, source };
    let file = File::open(path).map_err(failed("open"))?;
    let image_bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|e| failed("examine")(e.into()))?;
    let mut copy = Copy::open(uri)?;
    let export = copy.single.connection.export().clone();
    if export.has(p::FLAG_READ_ONLY) {
        return Err(copy.unsuitable("it is read-only".into()));
    }
    if image_bytes > export.size_bytes {
        let reason = format!("the image has {image_bytes} bytes, the export only {}", export.size_bytes);
        return Err(copy.unsuitable(reason));
    }
    let unit = u64::from(export.block_bytes_min);
    if !image_bytes.is_multiple_of(unit) {
        let reason =
            format!("the image has {image_bytes} bytes, which is no multiple of the export's {unit}; extend it");
        return Err(copy.unsuitable(reason));
    }

    let can_zero = export.has(p::FLAG_SEND_WRITE_ZEROES);
    let mut data_bytes = 0;
    let mut at = 0;
    while at < image_bytes {
        let extent =
            if can_zero { extent(&file, at, image_bytes, unit) } else { Extent { end: image_bytes, hole: false } };
        let (op, step) = if extent.hole { (Op::WriteZeroes, ZEROES_BYTES) } else { (Op::Write, chunk_bytes(&export)) };
        while at < extent.end {
            let len_bytes = u64::from(step).min(extent.end - at) as u32;
            let mut read = Ok(());
            copy.submit(op, at, len_bytes, |bytes| read = file.read_exact_at(bytes, at))?;
            read.map_err(failed("read"))?;
            data_bytes += if extent.hole { 0 } else { u64::from(len_bytes) };
            at += u64::from(len_bytes);
            progress(&Progress { done: at, total: image_bytes, unit: Unit::Bytes });
        }
    }
    copy.drain()?;
    if export.has(p::FLAG_SEND_FLUSH) {
        copy.submit(Op::Flush, 0, 0, |_| ())?;
        copy.drain()?;
    }
    copy.single.connection.disconnect();
    Ok(CopyResult { image_bytes, data_bytes, elapsed: begun.elapsed() })
}

/// Reads the whole export into a file at `path`, which is created, or truncated first. Zeroes become holes. The file is not
/// synced.
pub fn read_image(uri: &Uri, path: &Path, progress: &mut dyn FnMut(&Progress)) -> Result<CopyResult, Error> {
    let begun = Instant::now();
    let failed = |doing| move |source| Error::File { path: path.to_path_buf(), doing, source };
    let mut copy = Copy::open(uri)?;
    let export = copy.single.connection.export();
    let (image_bytes, step) = (export.size_bytes, chunk_bytes(export));
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(failed("create"))?;
    // Only in a regular file do unwritten bytes read as zeroes after truncation.
    let sparse = file.metadata().map_err(failed("examine"))?.is_file();
    if sparse {
        file.set_len(image_bytes).map_err(failed("extend"))?;
    }
    copy.answers.into = Some((file, sparse));
    let mut at = 0;
    while at < image_bytes {
        let len_bytes = u64::from(step).min(image_bytes - at) as u32;
        copy.submit(Op::Read, at, len_bytes, |_| ())?;
        copy.answers.written().map_err(failed("write"))?;
        at += u64::from(len_bytes);
        progress(&Progress { done: at, total: image_bytes, unit: Unit::Bytes });
    }
    copy.drain()?;
    copy.answers.written().map_err(failed("write"))?;
    let data_bytes = copy.answers.data_bytes;
    copy.single.connection.disconnect();
    Ok(CopyResult { image_bytes, data_bytes, elapsed: begun.elapsed() })
}

/// Bytes of a read or write: as many as the server takes, in its smallest units.
fn chunk_bytes(export: &Export) -> u32 {
    let most = CHUNK_BYTES.max(export.block_bytes_min).min(export.block_bytes_max);
    (most - most % export.block_bytes_min).max(export.block_bytes_min)
}

struct Extent {
    end: u64,
    hole: bool,
}

/// The hole or data of `file` that begins at `at`, up to `end_bytes`, in multiples of `unit`. A file system without holes reports data
/// only.
fn extent(file: &File, at: u64, end_bytes: u64, unit: u64) -> Extent {
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.min(end_bytes),
        // No data up to the end.
        Err(rustix::io::Errno::NXIO) => end_bytes,
        Err(_) => return Extent { end: end_bytes, hole: false },
    };
    let hole_end = if data == end_bytes { data } else { data - data % unit };
    if hole_end > at {
        return Extent { end: hole_end, hole: true };
    }
    let data_end = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(end_bytes);
    Extent { end: data_end.next_multiple_of(unit).clamp(at + 1, end_bytes), hole: false }
}

/// The answers of a copy: the first error, and the data of reads.
#[derive(Default)]
struct Answers {
    /// Where the data of reads is written, and whether zeroes are skipped.
    into: Option<(File, bool)>,
    /// The first failure to write it.
    failure: Option<io::Error>,
    data_bytes: u64,
    refused: Option<(Request, ServerError)>,
}

impl Answers {
    /// The first failure to write data, if there was one.
    fn written(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Replies for Answers {
    fn data(&mut self, _request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let Some((file, sparse)) = &self.into else { return };
        if self.failure.is_some() || (*sparse && bytes.iter().all(|&b| b == 0)) {
            return;
        }
        self.data_bytes += bytes.len() as u64;
        self.failure = file.write_all_at(bytes, offset_bytes).err();
    }

    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, _at: Instant) {
        if let Err(error) = outcome {
            self.refused.get_or_insert((*request, error.clone()));
        }
    }
}

struct Copy {
    single: Single,
    answers: Answers,
}

impl Copy {
    fn open(uri: &Uri) -> Result<Copy, Error> {
        let options = Options { timeout: TIMEOUT, structured_replies: false, outstanding: OUTSTANDING };
        Ok(Copy { single: Single::new(Connection::open(uri, &options)?)?, answers: Answers::default() })
    }

    fn unsuitable(&self, reason: String) -> Error {
        Error::Unsuitable { server: self.single.connection.server().into(), reason }
    }

    /// Waits for a free slot, then queues and sends a request.
    fn submit(&mut self, op: Op, offset_bytes: u64, len_bytes: u32, fill: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        while self.single.connection.free() == 0 {
            self.turn()?;
        }
        self.single.connection.submit(Instant::now(), op, 0, offset_bytes, len_bytes, fill);
        self.single.connection.send()
    }

    fn drain(&mut self) -> Result<(), Error> {
        while self.single.connection.outstanding() > 0 {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.single.turn(&mut self.answers)?;
        let Some((request, error)) = self.answers.refused.take() else { return Ok(()) };
        let server = self.single.connection.server().into();
        Err(Error::Request { server, what: format!("the {}", request.describe()), error })
    }
}
