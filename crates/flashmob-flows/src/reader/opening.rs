//! Recognises the form of a capture by its first bytes, and gives a remedy for other files.

use std::io::{self, Read};

use pcap_parser::LegacyPcapBlock;

use super::Frame;
use super::sections::Sections;

/// Header of a pcap file.
const PCAP_HEADER_BYTES: usize = 24;
/// Maximum of a section header with its comments.
const SECTION_HEADER_BYTES_MAX: usize = 512 << 10;
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Why a capture could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The source is empty.
    #[error("it is empty")]
    Empty,
    /// The source is compressed.
    #[error("it is compressed with {0}; unpack it first ({1})")]
    Compressed(&'static str, &'static str),
    /// The source is not a capture.
    #[error("it is no capture: neither pcap nor pcapng{0}")]
    Foreign(&'static str),
    /// A capture in an unsupported form.
    #[error("it is a capture in the form '{0}', which is not supported; convert it: editcap -F pcapng OLD NEW")]
    OtherForm(&'static str),
    /// It is truncated before its first packet.
    #[error("it is cut off within its first {0} bytes, before any packet")]
    Cut(usize),
    /// The header of the capture is damaged.
    #[error("it begins like a capture, and its header is damaged")]
    Damaged,
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The form of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One link type, and times in fractions of a second.
    Pcap {
        /// Nanoseconds per unit of the fraction.
        fraction_ns: i64,
    },
    /// Sections, interfaces, blocks.
    Pcapng,
}

impl Form {
    /// A packet of a pcap file.
    pub fn frame<'a>(self, block: &LegacyPcapBlock<'a>, sections: &Sections) -> Option<Frame<'a>> {
        let Form::Pcap { fraction_ns } = self else { return None };
        let time_ns = i64::from(block.ts_sec) * 1_000_000_000 + i64::from(block.ts_usec) * fraction_ns;
        Some(Frame {
            time_ns: Some(time_ns),
            link: sections.legacy_link(),
            data: block.data,
            original_bytes: block.origlen.max(block.caplen),
        })
    }
}

/// The form, and the bytes read to recognise it.
#[derive(Debug)]
pub struct Opened {
    pub form: Form,
    pub first: Vec<u8>,
}

/// Reads the first header and recognises the form.
pub fn recognise(source: &mut impl Read) -> Result<Opened, OpenError> {
    let mut first = Vec::new();
    fill(source, &mut first, 4)?;
    let Some(magic) = first.first_chunk::<4>().copied() else {
        return Err(if first.is_empty() { OpenError::Empty } else { foreign(&first) });
    };
    if magic == PCAPNG {
        fill(source, &mut first, 12)?;
        let length = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
        // The byte-order magic follows the length.
        let is_big = first.get(8..12) == Some(&[0x1a, 0x2b, 0x3c, 0x4d]);
        let declared = first.get(4..8).and_then(length).map(|n| if is_big { n.swap_bytes() } else { n });
        let declared = declared.ok_or(OpenError::Cut(first.len()))? as usize;
        if !(28..=SECTION_HEADER_BYTES_MAX).contains(&declared) {
            return Err(OpenError::Damaged);
        }
        fill(source, &mut first, declared)?;
        return if first.len() < declared {
            Err(OpenError::Cut(first.len()))
        } else {
            Ok(Opened { form: Form::Pcapng, first })
        };
    }
    let fraction_ns = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] | [0x34, 0xcd, 0xb2, 0xa1] => 1000,
        [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] => 1,
        _ => return Err(foreign(&first)),
    };
    fill(source, &mut first, PCAP_HEADER_BYTES)?;
    if first.len() < PCAP_HEADER_BYTES {
        return Err(OpenError::Cut(first.len()));
    }
    Ok(Opened { form: Form::Pcap { fraction_ns }, first })
}

/// Reads until `first` has this many bytes or the source ends.
fn fill(source: &mut impl Read, first: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    let lacking = bytes.saturating_sub(first.len()) as u64;
    source.by_ref().take(lacking).read_to_end(first).map(|_| ())
}

fn foreign(first: &[u8]) -> OpenError {
    match first {
        [0x1f, 0x8b, ..] => OpenError::Compressed("gzip", "gunzip FILE, or: zcat FILE | flashmob net analyze -"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            OpenError::Compressed("zstd", "unzstd FILE, or: zstdcat FILE | flashmob net analyze -")
        }
        [0xfd, b'7', b'z', b'X', ..] => {
            OpenError::Compressed("xz", "unxz FILE, or: xzcat FILE | flashmob net analyze -")
        }
        [b'B', b'Z', b'h', ..] => {
            OpenError::Compressed("bzip2", "bunzip2 FILE, or: bzcat FILE | flashmob net analyze -")
        }
        [b's', b'n', b'o', b'o', ..] => OpenError::OtherForm("snoop"),
        [b'{' | b'[', ..] => OpenError::Foreign("; it looks like JSON, perhaps a result for 'flashmob report'"),
        bytes if bytes.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) => {
            OpenError::Foreign("; it looks like text. Captures are written with: tcpdump -s 128 -w FILE")
        }
        _ => OpenError::Foreign(". Captures are written with: tcpdump -s 128 -w FILE"),
    }
}
