//! Durations of frames on the air.

use super::profile::{Dcf, Line, Medium, Profile};

/// Size of the Ethernet header, which is replaced on the air.
pub(super) const ETHERNET_HEADER_BYTES: u32 = 14;
/// Size of the delimiter before each frame of an A-MPDU.
const DELIMITER_BYTES: u64 = 4;
/// Bits of an OFDM transmission before (service) and after (tail) its bytes.
const SERVICE_AND_TAIL_BITS: u64 = 16 + 6;
/// Legacy preamble and symbols, understood by all stations since 802.11a: for acknowledgements and beacons.
const OLD_PREAMBLE_NS: u64 = 20_000;
const OLD_SYMBOL_NS: u64 = 4_000;
const ACK_BYTES: u64 = 14;
/// Upper bound of a transmission's size; its duration fits in 64 bits at any rate.
const BYTES_MAX: u64 = 1 << 48;

/// Frames in one transmission to one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) frames: u32,
    /// Includes delimiters and padding if there are several frames.
    pub(super) bytes: u64,
}

impl Load {
    /// The load with one more frame of `mpdu_bytes`.
    pub(super) fn with(self, mpdu_bytes: u64) -> Load {
        let before = match self.frames {
            0 => return Load { frames: 1, bytes: mpdu_bytes },
            // A single frame has no delimiter.
            1 => DELIMITER_BYTES + self.bytes,
            _ => self.bytes,
        };
        Load { frames: self.frames + 1, bytes: before.next_multiple_of(4) + DELIMITER_BYTES + mpdu_bytes }
    }
}

impl Dcf {
    /// Size of an Ethernet frame with its headers on the air.
    pub(super) fn mpdu_bytes(&self, len_bytes: u32) -> u64 {
        u64::from(len_bytes.saturating_sub(ETHERNET_HEADER_BYTES)) + u64::from(self.overhead_bytes)
    }

    /// Bits per symbol of data frames.
    fn symbol_bits(&self) -> u64 {
        ((self.rate_bps * self.symbol_ns + 500_000_000) / 1_000_000_000).max(1)
    }

    /// Duration of a data transmission of this size, including the preamble.
    pub(super) fn data_ns(&self, bytes: u64) -> u64 {
        let symbols = (SERVICE_AND_TAIL_BITS + 8 * bytes).div_ceil(self.symbol_bits());
        self.preamble_ns + symbols * self.symbol_ns + self.signal_extension_ns
    }

    fn old_ns(&self, bytes: u64, rate_bps: u64) -> u64 {
        let symbol_bits = (rate_bps * OLD_SYMBOL_NS / 1_000_000_000).max(1);
        let symbols = (SERVICE_AND_TAIL_BITS + 8 * bytes).div_ceil(symbol_bits);
        OLD_PREAMBLE_NS + symbols * OLD_SYMBOL_NS + self.signal_extension_ns
    }

    /// Duration of a broadcast, for a size including MAC header and checksum.
    pub(super) fn broadcast_ns(&self, mpdu_bytes: u64) -> u64 {
        self.old_ns(mpdu_bytes, self.basic_rate_bps)
    }

    pub(super) fn beacon_ns(&self) -> u64 {
        self.old_ns(u64::from(self.beacon_bytes), self.basic_rate_bps)
    }

    /// Duration of the acknowledgement of this many frames.
    pub(super) fn ack_ns(&self, frames: u32) -> u64 {
        let bytes = if frames > 1 { u64::from(self.block_ack_bytes) } else { ACK_BYTES };
        self.old_ns(bytes, self.ack_rate_bps)
    }

    /// How long the medium must be idle before backoff continues.
    pub(super) fn aifs_ns(&self) -> u64 {
        self.sifs_ns + u64::from(self.aifs_slots) * self.slot_ns
    }

    /// From the end of an unacknowledged transmission until backoff continues: EIFS, which reserves time for an
    /// acknowledgement.
    pub(super) fn after_failure_ns(&self) -> u64 {
        self.sifs_ns + self.ack_ns(1) + self.aifs_ns()
    }

    /// Maximum bytes of an A-MPDU: the smaller of the limits of size and duration.
    pub(super) fn ampdu_bytes_max(&self) -> u64 {
        let time_ns = self.ampdu_ns.saturating_sub(self.preamble_ns + self.signal_extension_ns);
        let bits = (time_ns / self.symbol_ns) * self.symbol_bits();
        u64::from(self.ampdu_bytes).min(bits.saturating_sub(SERVICE_AND_TAIL_BITS) / 8)
    }
}

impl Line {
    /// Transmission time of this many bytes.
    pub(super) fn send_ns(&self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.rate_bps.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl Profile {
    /// Duration of one successful access to the medium with `frames` Ethernet frames of `bytes_each` to one
    /// receiver, without contention: preamble, data, SIFS and acknowledgement. Any number of frames is taken as
    /// one transmission; [`Profile::frames_per_access`] returns how many fit.
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

    /// Time of an Ethernet frame of `len_bytes` to a wireless port on an idle medium, from the first
    /// bit sent to its arrival, including the cable of a wired sender.
    #[must_use]
    pub fn arrival_ns(&self, len_bytes: u32) -> u64 {
        match &self.medium {
            Medium::Ideal { delay_ns } => *delay_ns,
            Medium::Lines(line) => line.send_ns(u64::from(len_bytes)) + line.delay_ns + line.jitter_ns / 2,
            Medium::Cell(dcf) => dcf.data_ns(dcf.mpdu_bytes(len_bytes)) + dcf.wire_ns,
        }
    }

    /// Maximum Ethernet frames of `bytes_each` to one receiver in one access to the medium.
    #[must_use]
    pub fn frames_per_access(&self, bytes_each: u32) -> u32 {
        let Medium::Cell(dcf) = &self.medium else { return 1 };
        let each = (DELIMITER_BYTES + dcf.mpdu_bytes(bytes_each)).next_multiple_of(4);
        // The last frame is not padded, so its padding (up to 3 bytes) does not count towards the limit.
        let padding = each - DELIMITER_BYTES - dcf.mpdu_bytes(bytes_each);
        let fit = (dcf.ampdu_bytes_max() + padding) / each;
        u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, dcf.ampdu_frames)
    }

    /// Mean waiting time of an access without contention directly after a transmission: the interframe space and
    /// half of the initial contention window. 0 without a shared medium.
    #[must_use]
    pub fn access_ns(&self) -> u64 {
        match &self.medium {
            Medium::Cell(dcf) => dcf.aifs_ns() + u64::from(dcf.cw_min) * dcf.slot_ns / 2,
            Medium::Ideal { .. } | Medium::Lines(_) => 0,
        }
    }
}
