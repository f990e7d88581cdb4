//! Writes pcapng with one section, one interface and times in nanoseconds.

use std::borrow::Cow;
use std::io::{self, Write};

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, InterfaceStatisticsBlock, Linktype, OptionCode, PcapNGOption,
    SectionHeaderBlock, ToVec,
};

use crate::packet::LinkType;
use crate::reader::Frame;

/// Writes a capture.
#[derive(Debug)]
pub struct CaptureWriter<W> {
    out: W,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture of one interface that keeps at most `kept_bytes` of each packet.
    ///
    /// # Errors
    /// Writing failed.
    pub fn begin(out: W, link: LinkType, interface: &str, kept_bytes: u32) -> io::Result<CaptureWriter<W>> {
        let mut writer = CaptureWriter { out };
        writer.block(&mut SectionHeaderBlock {
            block_type: 0,
            block_len1: 0,
            bom: 0,
            major_version: 1,
            minor_version: 0,
            section_len: -1,
            options: vec![text(OptionCode::ShbUserAppl, concat!("flashmob ", env!("CARGO_PKG_VERSION")))],
            block_len2: 0,
        })?;
        writer.block(&mut InterfaceDescriptionBlock {
            block_type: 0,
            block_len1: 0,
            linktype: Linktype(link.0.cast_signed()),
            reserved: 0,
            snaplen: kept_bytes,
            options: vec![text(OptionCode::IfName, interface)],
            block_len2: 0,
            if_tsresol: 9,
            if_tsoffset: 0,
        })?;
        Ok(writer)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Writing failed.
    pub fn packet(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let ticks = frame.time_ns.unwrap_or(0).cast_unsigned();
        let mut data = frame.data.to_vec();
        data.resize(data.len().next_multiple_of(4), 0);
        self.block(&mut EnhancedPacketBlock {
            block_type: 0,
            block_len1: 0,
            if_id: 0,
            ts_high: (ticks >> 32) as u32,
            ts_low: ticks as u32,
            caplen: frame.data.len() as u32,
            origlen: frame.original_bytes,
            data: &data,
            options: Vec::new(),
            block_len2: 0,
        })
    }

    /// Writes the number of lost packets, flushes, and returns the output.
    ///
    /// # Errors
    /// Writing failed.
    pub fn end(mut self, lost_packets: u64, time_ns: i64) -> io::Result<W> {
        let ticks = time_ns.cast_unsigned();
        self.block(&mut InterfaceStatisticsBlock {
            block_type: 0,
            block_len1: 0,
            if_id: 0,
            ts_high: (ticks >> 32) as u32,
            ts_low: ticks as u32,
            options: vec![PcapNGOption {
                code: OptionCode::IsbIfDrop,
                len: 8,
                value: Cow::Owned(lost_packets.to_le_bytes().to_vec()),
            }],
            block_len2: 0,
        })?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn block(&mut self, block: &mut impl ToVec) -> io::Result<()> {
        let bytes = block.to_vec().map_err(|error| io::Error::other(format!("{error:?}")))?;
        self.out.write_all(&bytes)
    }
}

fn text(code: OptionCode, text: &str) -> PcapNGOption<'static> {
    // Longer names are truncated.
    let mut bytes = text.as_bytes()[..text.len().min(256)].to_vec();
    let len = bytes.len() as u16;
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    PcapNGOption { code, len, value: Cow::Owned(bytes) }
}
