//! The sections and interfaces of a capture: link types, clocks and lost packets.

use std::borrow::Cow;

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, OptionCode, PcapHeader, PcapNGOption};

use super::Frame;
use crate::packet::LinkType;

/// Limit of interfaces, against damaged or malicious captures.
pub const INTERFACES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    clock: Clock,
    /// The last reported number of lost packets, which is cumulative.
    lost: Option<u64>,
}

/// The clock of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// Ticks per second.
    per_second: u128,
    /// Seconds to add.
    offset_s: i64,
}

impl Clock {
    /// From the options `if_tsresol` and `if_tsoffset`; `None` if the resolution overflows.
    fn new(resolution: Option<u8>, offset_s: i64) -> Option<Clock> {
        let per_second = match resolution.unwrap_or(6) {
            power if power & 0x80 == 0 => 10_u128.checked_pow(power.into())?,
            power => 1_u128.checked_shl((power & 0x7f).into())?,
        };
        Some(Clock { per_second, offset_s })
    }

    /// Nanoseconds since 1970; `None` on overflow of 64 bits.
    fn time_ns(self, ticks: u64) -> Option<i64> {
        let (whole, part) = (u128::from(ticks) / self.per_second, u128::from(ticks) % self.per_second);
        // Fractions of finer clocks are dropped: the product would overflow.
        let part_ns = if self.per_second > 1 << 90 { 0 } else { part * 1_000_000_000 / self.per_second };
        let seconds = i64::try_from(whole).ok()?.checked_add(self.offset_s)?;
        seconds.checked_mul(1_000_000_000)?.checked_add(i64::try_from(part_ns).ok()?)
    }
}

/// The metadata of a capture.
#[derive(Debug, Default)]
pub struct Sections {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Lost packets of earlier sections.
    lost_before: Option<u64>,
    legacy_link: Option<LinkType>,
}

impl Sections {
    /// Stores the header of a pcap file.
    pub fn legacy(&mut self, header: &PcapHeader) {
        // The upper bits are the length of the frame check sequence.
        self.legacy_link = Some(LinkType((header.network.0 as u32) & 0xffff));
    }

    /// Link type of a pcap file.
    pub fn legacy_link(&self) -> LinkType {
        self.legacy_link.unwrap_or(LinkType(u32::MAX))
    }

    /// The declared length of the block at the begin of `held`; `None` if it is not read yet.
    pub fn declared_bytes(&self, held: &[u8]) -> Option<usize> {
        let kind = held.first_chunk::<4>()?;
        let length: [u8; 4] = held.get(4..8)?.try_into().ok()?;
        let is_section = *kind == [0x0a, 0x0d, 0x0d, 0x0a];
        let is_big = if is_section { held.get(8..12)? == [0x1a, 0x2b, 0x3c, 0x4d] } else { self.is_big_endian };
        Some((if is_big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) }) as usize)
    }

    /// Evaluates a block and returns its packet, if it has one.
    pub fn take<'a>(&mut self, block: &Block<'a>) -> Result<Option<Frame<'a>>, &'static str> {
        match block {
            Block::SectionHeader(header) => {
                self.lost_before = self.lost_packets();
                self.interfaces.clear();
                self.is_big_endian = header.big_endian();
            }
            Block::InterfaceDescription(about) => {
                if self.interfaces.len() >= INTERFACES_MAX {
                    return Err("too many interfaces");
                }
                let value = |code| option(&about.options, code);
                let resolution = value(OptionCode::IfTsresol).and_then(|v| v.first().copied());
                let offset_s = value(OptionCode::IfTsoffset).and_then(|v| self.number(v)).unwrap_or(0).cast_signed();
                let clock = Clock::new(resolution, offset_s).ok_or("an interface with an invalid clock")?;
                let link = LinkType(about.linktype.0 as u32 & 0xffff);
                self.interfaces.push(Interface { link, clock, lost: None });
            }
            Block::InterfaceStatistics(statistics) => {
                let told = |code| option(&statistics.options, code).and_then(|v| self.number(v));
                // Dropped by the interface, and by the system after it.
                let (interface, system) = (told(OptionCode::IsbIfDrop), told(OptionCode::IsbOsDrop));
                let lost = (interface.is_some() || system.is_some())
                    .then(|| interface.unwrap_or(0).saturating_add(system.unwrap_or(0)));
                if let Some(known) = self.interfaces.get_mut(statistics.if_id as usize) {
                    known.lost = lost.or(known.lost);
                }
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize).ok_or("a packet of an unknown interface")?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let time_ns = Some(interface.clock.time_ns(ticks).ok_or("a packet with a time out of range")?);
                // The borrowed bytes outlive the block that names them.
                let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                return Ok(Some(Frame {
                    time_ns,
                    link: interface.link,
                    data,
                    original_bytes: packet.origlen.max(packet.caplen),
                }));
            }
            Block::SimplePacket(packet) => {
                let interface = self.interfaces.first().ok_or("a packet of an unknown interface")?;
                let data = packet.data.get(..packet.orig_len() as usize).unwrap_or(packet.data);
                return Ok(Some(Frame { time_ns: None, link: interface.link, data, original_bytes: packet.origlen }));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lost packets of all sections and interfaces; `None` if none reports them.
    pub fn lost_packets(&self) -> Option<u64> {
        let told = self.interfaces.iter().filter_map(|interface| interface.lost);
        told.chain(self.lost_before).reduce(u64::saturating_add)
    }

    /// An eight-byte number in the section's byte order.
    fn number(&self, value: &[u8]) -> Option<u64> {
        let bytes = *value.first_chunk::<8>()?;
        Some(if self.is_big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}

fn option<'o>(options: &'o [PcapNGOption<'_>], code: OptionCode) -> Option<&'o [u8]> {
    options.iter().find(|option| option.code == code).map(|option| match &option.value {
        Cow::Borrowed(value) => *value,
        Cow::Owned(value) => value.as_slice(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_count_in_tens_or_twos() {
        let time_ns = |resolution, offset_s, ticks| Clock::new(resolution, offset_s).unwrap().time_ns(ticks);
        assert_eq!(time_ns(None, 0, 1_500_000), Some(1_500_000_000), "microseconds unless told");
        assert_eq!(time_ns(Some(9), 0, 1_500_000_000), Some(1_500_000_000));
        assert_eq!(time_ns(Some(0x80 | 10), 2, 512), Some(2_500_000_000), "1024ths of a second");
        assert_eq!(time_ns(Some(3), -1, 1), Some(-999_000_000));
        assert_eq!(time_ns(Some(38), 0, u64::MAX), Some(0));
        assert_eq!(time_ns(Some(0), 0, u64::MAX), None, "beyond what is kept");
        assert_eq!(Clock::new(Some(39), 0), None, "ten to that power has more than 128 bits");
        assert!(Clock::new(Some(0xff), 0).is_some());
    }
}
