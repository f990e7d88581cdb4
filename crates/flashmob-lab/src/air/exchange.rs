//! How long frames take on the air.

use super::profile::{Dcf, Line, Medium, Profile};

/// The header of an Ethernet frame, which the air replaces by its own.
pub(super) const ETHERNET_HEADER_BYTES: u32 = 14;
/// Before each of several frames in one transmission.
const DELIMITER_BYTES: u64 = 4;
/// The bits of an OFDM transmission before (service) and after (tail) its bytes.
const SERVICE_AND_TAIL_BITS: u64 = 16 + 6;
/// Preamble and symbols as all stations since 802.11a understand them: those of acknowledgements and beacons.
const OLD_PREAMBLE_NS: u64 = 20_000;
const OLD_SYMBOL_NS: u64 = 4_000;
const ACK_BYTES: u64 = 14;
/// More than anybody sends; so much that its time fits 64 bits at any rate.
const BYTES_MAX: u64 = 1 << 48;

/// Frames in one transmission to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) frames: u32,
    /// With delimiters and padding if there are several.
    pub(super) bytes: u64,
}

impl Load {
    /// The load with one more frame of `mpdu_bytes`.
    pub(super) fn with(self, mpdu_bytes: u64) -> Load {
        let before = match self.frames {
            0 => return Load { frames: 1, bytes: mpdu_bytes },
            // Alone it had no delimiter.
            1 => DELIMITER_BYTES + self.bytes,
            _ => self.bytes,
        };
        Load { frames: self.frames + 1, bytes: before.next_multiple_of(4) + DELIMITER_BYTES + mpdu_bytes }
    }
}

impl Dcf {
    /// An Ethernet frame with the headers of the air.
    pub(super) fn mpdu_bytes(&self, len_bytes: u32) -> u64 {
        u64::from(len_bytes.saturating_sub(ETHERNET_HEADER_BYTES)) + u64::from(self.overhead_bytes)
    }

    /// Bits in one symbol of data frames.
    fn symbol_bits(&self) -> u64 {
        ((self.rate_bps * self.symbol_ns + 500_000_000) / 1_000_000_000).max(1)
    }

    /// So many bytes at the rate of data frames, with the preamble.
    pub(super) fn data_ns(&self, bytes: u64) -> u64 {
        let symbols = (SERVICE_AND_TAIL_BITS + 8 * bytes).div_ceil(self.symbol_bits());
        self.preamble_ns + symbols * self.symbol_ns + self.signal_extension_ns
    }

    fn old_ns(&self, bytes: u64, rate_bps: u64) -> u64 {
        let symbol_bits = (rate_bps * OLD_SYMBOL_NS / 1_000_000_000).max(1);
        let symbols = (SERVICE_AND_TAIL_BITS + 8 * bytes).div_ceil(symbol_bits);
        OLD_PREAMBLE_NS + symbols * OLD_SYMBOL_NS + self.signal_extension_ns
    }

    /// A frame to everybody, in its MAC header and checksum.
    pub(super) fn broadcast_ns(&self, mpdu_bytes: u64) -> u64 {
        self.old_ns(mpdu_bytes, self.basic_rate_bps)
    }

    pub(super) fn beacon_ns(&self) -> u64 {
        self.old_ns(u64::from(self.beacon_bytes), self.basic_rate_bps)
    }

    /// The acknowledgement of so many frames.
    pub(super) fn ack_ns(&self, frames: u32) -> u64 {
        let bytes = if frames > 1 { u64::from(self.block_ack_bytes) } else { ACK_BYTES };
        self.old_ns(bytes, self.ack_rate_bps)
    }

    /// How long the medium must have been idle before backoff goes on.
    pub(super) fn aifs_ns(&self) -> u64 {
        self.sifs_ns + u64::from(self.aifs_slots) * self.slot_ns
    }

    /// From the end of a transmission that nobody acknowledged until backoff goes on: EIFS, as if there had been an
    /// acknowledgement.
    pub(super) fn after_failure_ns(&self) -> u64 {
        self.sifs_ns + self.ack_ns(1) + self.aifs_ns()
    }

    /// The most bytes of several frames: of a transmission's length and of its time the smaller.
    pub(super) fn ampdu_bytes_max(&self) -> u64 {
        let time_ns = self.ampdu_ns.saturating_sub(self.preamble_ns + self.signal_extension_ns);
        let bits = (time_ns / self.symbol_ns) * self.symbol_bits();
        u64::from(self.ampdu_bytes).min(bits.saturating_sub(SERVICE_AND_TAIL_BITS) / 8)
    }
}

impl Line {
    /// So many bytes from the first bit to the last.
    pub(super) fn send_ns(&self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.rate_bps.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl Profile {
    /// How long one successful access to the medium takes with `frames` Ethernet frames of `bytes_each` to one
    /// receiver, without the wait for it: preamble, data, SIFS and acknowledgement. It takes any number of frames for
    /// one transmission; [`Profile::frames_per_access`] says how many fit.
    #[must_use]
    pub fn exchange_ns(&self, frames: u32, bytes_each: u32) -> u64 {
        match &self.medium {
            Medium::Ideal { .. } => 0,
            Medium::Lines(line) => line.send_ns(u64::from(frames) * u64::from(bytes_each)),
            Medium::Cell(_) if frames == 0 => 0,
            Medium::Cell(dcf) => {
                let mpdu_bytes = dcf.mpdu_bytes(bytes_each);
                // All but the last are padded.
                let each = DELIMITER_BYTES + mpdu_bytes;
                let bytes = match frames {
                    1 => mpdu_bytes,
                    _ => each.next_multiple_of(4).saturating_mul(u64::from(frames - 1)).saturating_add(each),
                };
                dcf.data_ns(bytes.min(BYTES_MAX)) + dcf.sifs_ns + dcf.ack_ns(frames)
            }
        }
    }

    /// How long an Ethernet frame of `len_bytes` is on its way to a wireless port behind an idle medium, from the first
    /// bit that is sent to its arrival, the cable of a wired sender included.
    #[must_use]
    pub fn arrival_ns(&self, len_bytes: u32) -> u64 {
        match &self.medium {
            Medium::Ideal { delay_ns } => *delay_ns,
            Medium::Lines(line) => line.send_ns(u64::from(len_bytes)) + line.delay_ns + line.jitter_ns / 2,
            Medium::Cell(dcf) => dcf.data_ns(dcf.mpdu_bytes(len_bytes)) + dcf.wire_ns,
        }
    }

    /// How many Ethernet frames of `bytes_each` to one receiver one access to the medium carries at most.
    #[must_use]
    pub fn frames_per_access(&self, bytes_each: u32) -> u32 {
        let Medium::Cell(dcf) = &self.medium else { return 1 };
        let each = (DELIMITER_BYTES + dcf.mpdu_bytes(bytes_each)).next_multiple_of(4);
        // The last one is not padded: at most 3 bytes more than the limit may be asked of it.
        let padding = each - DELIMITER_BYTES - dcf.mpdu_bytes(bytes_each);
        let fit = (dcf.ampdu_bytes_max() + padding) / each;
        u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, dcf.ampdu_frames)
    }

    /// How long an access waits when nobody else wants the medium and the last transmission was just now: the gap and,
    /// on average, half of the first window of backoff. Nothing where nobody shares a medium.
    #[must_use]
    pub fn access_ns(&self) -> u64 {
        match &self.medium {
            Medium::Cell(dcf) => dcf.aifs_ns() + u64::from(dcf.cw_min) * dcf.slot_ns / 2,
            Medium::Ideal { .. } | Medium::Lines(_) => 0,
        }
    }
}
