//! The parameters of a medium, and the built-in profiles.
//!
//! The source of each number is stated: **standard** (IEEE 802.11), **paper** (a figure of the papers this project
//! starts from), or **chosen** (not published, or different from device to device). The same table, with units,
//! is in `docs/models.md`.

mod known;
mod parse;
mod value;

use crate::resembling::hint;

/// A medium: its name and parameters. [`Profile::parse`] creates and validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, including changes. Parsing it returns the same profile.
    pub name: String,
    /// A one-line description.
    pub description: String,
    /// The medium access model.
    pub medium: Medium,
}

/// The medium access model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// No medium: each frame arrives after a fixed delay, without contention.
    Ideal {
        /// The delay.
        delay_ns: u64,
    },
    /// A separate line for each wireless port.
    Lines(Line),
    /// A Wi-Fi cell: all ports share one channel.
    Cell(Dcf),
}

/// A line in one direction. Each wireless port has one each way to a central point, to which wired ports are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate in bits of Ethernet frames per second.
    pub rate_bps: u64,
    /// Propagation delay, after the last bit was sent.
    pub delay_ns: u64,
    /// Maximum additional delay, uniformly distributed. Frames are not reordered.
    pub jitter_ns: u64,
    /// Frame loss rate in parts per million.
    pub loss_ppm: u32,
    /// Queue limit in frames, including the one being sent.
    pub queue_frames: u32,
}

/// A Wi-Fi cell under the distributed coordination function (DCF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcf {
    /// Slot time, the unit of backoff.
    pub slot_ns: u64,
    /// SIFS: from a frame to its acknowledgement.
    pub sifs_ns: u64,
    /// Slots after a SIFS for which the medium must be idle before backoff continues: 2 for DIFS, 3 for best effort.
    pub aifs_slots: u32,
    /// Initial contention window in slots: backoff is drawn from 0 to this.
    pub cw_min: u32,
    /// Maximum contention window, which is doubled (plus one) after each failure.
    pub cw_max: u32,
    /// Maximum retransmissions of a frame.
    pub retries: u32,
    /// Preamble and PHY header of data frames.
    pub preamble_ns: u64,
    /// OFDM symbol time of data frames, including the guard interval.
    pub symbol_ns: u64,
    /// The rate of data frames.
    pub rate_bps: u64,
    /// Signal extension: silence that counts as part of each frame at 2.4 GHz.
    pub signal_extension_ns: u64,
    /// Overhead bytes of a frame in addition to the Ethernet payload: MAC header, LLC and SNAP, checksum.
    pub overhead_bytes: u32,
    /// The rate of acknowledgements, in legacy 4 us symbols.
    pub ack_rate_bps: u64,
    /// The rate of beacons and broadcasts, likewise.
    pub basic_rate_bps: u64,
    /// Size of a block acknowledgement.
    pub block_ack_bytes: u32,
    /// Maximum frames in one transmission (A-MPDU).
    pub ampdu_frames: u32,
    /// Block acknowledgement window in frames, counted from the first one that is not yet acknowledged.
    pub window_frames: u32,
    /// Maximum bytes of an A-MPDU.
    pub ampdu_bytes: u32,
    /// Maximum duration of an A-MPDU.
    pub ampdu_ns: u64,
    /// Loss rate of transmitted frames without a collision, in parts per million; retransmissions included.
    pub loss_ppm: u32,
    /// Queue limit in frames: of a station, and of the access point for each receiver.
    pub queue_frames: u32,
    /// Queue limit in frames of the whole access point.
    pub ap_queue_frames: u32,
    /// Beacon interval.
    pub beacon_every_ns: u64,
    /// Size of a beacon, including MAC header and checksum.
    pub beacon_bytes: u32,
    /// One-way delay between the access point and wired ports: cable, sender and receiver.
    pub wire_ns: u64,
}

/// Why a profile is invalid; all variants but the first begin with the name of the built-in profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name; the second field is the closest one.
    #[error("there is no modelled air '{}'; there are {}{}", .0.escape_debug(), Profile::names().join(", "), hint(*.1))]
    Unknown(String, Option<&'static str>),
    /// The profile has no such key; the last fields are its keys and the closest one.
    #[error("the air '{}' has no '{}'; {}{}", .0, .1.escape_debug(), keys(.2), hint(*.3))]
    UnknownKey(&'static str, String, Vec<&'static str>, Option<&'static str>),
    /// A change has no value.
    #[error("'{}' changes nothing of the air '{}'; write KEY=VALUE, such as loss=1%", .1.escape_debug(), .0)]
    NoValue(&'static str, String),
    /// A key occurs twice.
    #[error("the air '{0}' is given '{1}' twice; leave one out")]
    Twice(&'static str, &'static str),
    /// A value is malformed or out of range: key, value, range.
    #[error("the air '{}' cannot have {}={}; {} must be {}", .0, .1, .2.escape_debug(), .1, .3)]
    OutOfRange(&'static str, &'static str, String, String),
}

fn keys(known: &[&'static str]) -> String {
    if known.is_empty() {
        return "nothing of it can be changed".to_string();
    }
    format!("what can be changed is {}", known.join(", "))
}

impl Profile {
    /// The names of all built-in profiles.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        known::ALL.iter().map(|known| known.name).collect()
    }

    /// The keys that can be changed with `KEY=VALUE`.
    #[must_use]
    pub fn keys(&self) -> Vec<&'static str> {
        parse::keys(&self.medium).iter().map(|key| key.name()).collect()
    }
}
