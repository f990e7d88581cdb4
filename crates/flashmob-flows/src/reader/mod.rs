//! Reads packets from captures of tcpdump and Wireshark: pcap and pcapng, in either byte order, complete or still being written.
//!
//! It holds one block at a time and at most [`BLOCK_BYTES_MAX`]: captures may be larger than memory and have wrong lengths.
//! Packets before damage are returned; [`CaptureReader::ended_by`] gives the reason why the rest could not be read.

mod opening;
mod sections;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

pub use opening::OpenError;
use opening::{Form, Opened};
use sections::Sections;

use crate::packet::LinkType;

/// Larger blocks are treated as damage: the largest packets that Linux captures have 512 KiB.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Initial size of the buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Since 1970-01-01 UTC; `None` if the capture has no time.
    pub time_ns: Option<i64>,
    /// Its link type.
    pub link: LinkType,
    /// The captured part.
    pub data: &'a [u8],
    /// Its original length.
    pub original_bytes: u32,
}

/// State of the input, shared with the library's reader, which does not keep errors.
#[derive(Debug, Default)]
struct Input {
    read_bytes: u64,
    failure: Option<io::Error>,
}

/// Counts bytes and keeps errors.
struct Counted<R> {
    inner: R,
    /// Bytes read to recognise the form; returned in one read, because the library expects a whole header in its first read.
    first: Vec<u8>,
    input: Rc<RefCell<Input>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.first[..count]);
            self.first.drain(..count);
            return Ok(count);
        }
        loop {
            match self.inner.read(buffer) {
                Ok(count) => {
                    self.input.borrow_mut().read_bytes += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let copy = io::Error::from(error.kind());
                    self.input.borrow_mut().failure = Some(error);
                    return Err(copy);
                }
            }
        }
    }
}

enum Library<R: Read> {
    Pcap(LegacyPcapReader<Counted<R>>),
    Pcapng(PcapNGReader<Counted<R>>),
}

impl<R: Read> Library<R> {
    fn any(&mut self) -> &mut dyn PcapReaderIterator {
        match self {
            Library::Pcap(reader) => reader,
            Library::Pcapng(reader) => reader,
        }
    }
}

/// Reads one capture.
pub struct CaptureReader<R: Read> {
    library: Library<R>,
    form: Form,
    input: Rc<RefCell<Input>>,
    sections: Sections,
    /// Length of the last block that was returned.
    given: usize,
    capacity_bytes: usize,
    ended_by: Option<String>,
    is_over: bool,
}

/// The library's result without its borrows.
enum Next {
    Block,
    More { is_too_small: bool },
    Over,
    Damaged(String),
}

impl<R: Read> CaptureReader<R> {
    /// Opens a capture and recognises its form.
    ///
    /// # Errors
    /// The source is not a capture, or cannot be read.
    pub fn open(mut source: R) -> Result<CaptureReader<R>, OpenError> {
        let Opened { form, first } = opening::recognise(&mut source)?;
        let input = Rc::new(RefCell::new(Input { read_bytes: first.len() as u64, failure: None }));
        let counted = Counted { inner: source, first, input: Rc::clone(&input) };
        let library = match form {
            Form::Pcap { .. } => LegacyPcapReader::new(BUFFER_BYTES, counted).map(Library::Pcap),
            Form::Pcapng => PcapNGReader::new(BUFFER_BYTES, counted).map(Library::Pcapng),
        }
        .map_err(|_| OpenError::Damaged)?;
        Ok(CaptureReader {
            library,
            form,
            input,
            sections: Sections::default(),
            given: 0,
            capacity_bytes: BUFFER_BYTES,
            ended_by: None,
            is_over: false,
        })
    }

    /// `pcap` or `pcapng`.
    #[must_use]
    pub fn form(&self) -> &'static str {
        match self.form {
            Form::Pcap { .. } => "pcap",
            Form::Pcapng => "pcapng",
        }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.input.borrow().read_bytes
    }

    /// Lost packets according to the capturing program, in all sections; `None` if it recorded none.
    #[must_use]
    pub fn lost_packets(&self) -> Option<u64> {
        self.sections.lost_packets()
    }

    /// The error that ended reading; `None` if there was none.
    #[must_use]
    pub fn ended_by(&self) -> Option<&str> {
        self.ended_by.as_deref()
    }

    /// Passes the next packet to `take`; false at the end or after an error.
    pub fn next_with(&mut self, take: impl FnOnce(Frame<'_>)) -> bool {
        let mut take = Some(take);
        while !self.is_over {
            if self.given > 0 {
                let given = std::mem::take(&mut self.given);
                self.library.any().consume(given);
            }
            match self.look(&mut take) {
                Next::Block if take.is_none() => return true,
                Next::Block => {}
                Next::More { is_too_small } => self.fetch(is_too_small),
                Next::Over => self.is_over = true,
                Next::Damaged(why) => self.end(why),
            }
        }
        false
    }

    /// Parses the next block and passes its packet to `take`.
    fn look(&mut self, take: &mut Option<impl FnOnce(Frame<'_>)>) -> Next {
        let is_pcapng = matches!(self.form, Form::Pcapng);
        let (form, sections, input) = (self.form, &mut self.sections, &self.input);
        let library = self.library.any();
        let at = library.consumed();
        // The library reports a damaged length inside a block as an incomplete block, for which reading would wait forever.
        let held = library.data();
        let declared = if is_pcapng { sections.declared_bytes(held) } else { None };
        let is_whole = declared.is_some_and(|bytes| held.len() >= bytes);
        match library.next() {
            Ok((bytes, block)) => {
                self.given = bytes;
                let frame = match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        sections.legacy(&header);
                        None
                    }
                    PcapBlockOwned::Legacy(block) => form.frame(&block, sections),
                    PcapBlockOwned::NG(block) => match sections.take(&block) {
                        Ok(frame) => frame,
                        Err(why) => return Next::Damaged(format!("{why}, at byte {at}")),
                    },
                };
                if let Some(frame) = frame
                    && let Some(take) = take.take()
                {
                    take(frame);
                }
                // An empty block would be returned forever.
                if bytes == 0 { Next::Damaged(format!("damaged at byte {at}")) } else { Next::Block }
            }
            Err(PcapError::Eof) => Next::Over,
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) if is_whole => {
                Next::Damaged(format!("damaged at byte {at}: lengths that contradict each other"))
            }
            Err(PcapError::Incomplete(_)) => Next::More { is_too_small: false },
            Err(PcapError::BufferTooSmall) => Next::More { is_too_small: true },
            Err(PcapError::UnexpectedEof) => match input.borrow_mut().failure.take() {
                Some(error) => Next::Damaged(format!("cannot be read beyond byte {at}: {error}")),
                None => Next::Damaged(format!("cut off at byte {at}, in the middle of a packet or block")),
            },
            Err(_) => Next::Damaged(format!("damaged at byte {at}")),
        }
    }

    /// Reads more, into a larger buffer if needed.
    fn fetch(&mut self, is_too_small: bool) {
        let at = self.library.any().consumed();
        let is_full = self.library.any().data().len() >= self.capacity_bytes;
        if is_too_small || is_full {
            let grown = self.capacity_bytes * 2;
            if grown > BLOCK_BYTES_MAX || !self.library.any().grow(grown) {
                return self
                    .end(format!("damaged at byte {at}: a packet or block of more than {BLOCK_BYTES_MAX} bytes"));
            }
            self.capacity_bytes = grown;
        }
        if self.library.any().refill().is_err() {
            let error = self.input.borrow_mut().failure.take();
            let why = error.map_or_else(|| "unknown".to_string(), |error| error.to_string());
            self.end(format!("cannot be read beyond byte {at}: {why}"));
        }
    }

    fn end(&mut self, why: String) {
        self.ended_by = Some(why);
        self.is_over = true;
    }
}
