//! The numbers of an air, and those that are built in.
//!
//! Each number says where it comes from: **standard** (IEEE 802.11), **paper** (a figure of the papers this project
//! starts from), or **chosen** (nobody published it, or it differs from device to device). The same table, with units,
//! is in `docs/models.md`.

mod known;
mod parse;
mod value;

use crate::resembling::hint;

/// An air: its name and its numbers. [`Profile::parse`] makes it, and sees to it that its numbers make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, with what was changed of it. Parsed, it gives this profile again.
    pub name: String,
    /// One line on what it stands for.
    pub description: String,
    /// Who may send when, and how long that takes.
    pub medium: Medium,
}

/// Who may send when, and how long that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Nobody waits for anybody: a frame arrives this long after it was sent.
    Ideal {
        /// How long.
        delay_ns: u64,
    },
    /// A line of its own to each wireless port.
    Lines(Line),
    /// A cell of Wi-Fi: all share one channel.
    Cell(Dcf),
}

/// A line in one direction. Each wireless port has one each way to the middle; wired ports are in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bits of Ethernet frames in a second, one frame after the other.
    pub rate_bps: u64,
    /// How long a frame travels after its last bit was sent.
    pub delay_ns: u64,
    /// How much longer it may travel, evenly spread. Order is kept.
    pub jitter_ns: u64,
    /// Frames lost, of a million.
    pub loss_ppm: u32,
    /// Frames that wait, the one being sent included.
    pub queue_frames: u32,
}

/// A cell of Wi-Fi under the distributed coordination function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcf {
    /// The unit of backoff.
    pub slot_ns: u64,
    /// From a frame to its acknowledgement.
    pub sifs_ns: u64,
    /// Slots after a SIFS for which the medium must be idle before backoff goes on: DIFS has 2, best effort 3.
    pub aifs_slots: u32,
    /// Backoff is drawn from 0 to this many slots at first,
    pub cw_min: u32,
    /// and to twice as many (and one) after each failure, up to this.
    pub cw_max: u32,
    /// How often a frame is sent again.
    pub retries: u32,
    /// Preamble and header of data frames.
    pub preamble_ns: u64,
    /// One OFDM symbol of data frames, guard interval included.
    pub symbol_ns: u64,
    /// The rate of data frames.
    pub rate_bps: u64,
    /// Silence that counts as part of each frame at 2.4 GHz.
    pub signal_extension_ns: u64,
    /// The bytes of a frame besides the payload of its Ethernet frame: MAC header, LLC and SNAP, checksum.
    pub overhead_bytes: u32,
    /// The rate of acknowledgements, in the old symbols of 4 us.
    pub ack_rate_bps: u64,
    /// The rate of beacons and of frames to everybody, likewise.
    pub basic_rate_bps: u64,
    /// An acknowledgement of several frames at once.
    pub block_ack_bytes: u32,
    /// Frames in one transmission.
    pub ampdu_frames: u32,
    /// How many frames beyond the first that is not yet acknowledged may be sent.
    pub window_frames: u32,
    /// Bytes of several frames in one transmission.
    pub ampdu_bytes: u32,
    /// How long a transmission of several frames may take.
    pub ampdu_ns: u64,
    /// Frames that do not arrive although they were sent alone, of a million; each time that they are sent.
    pub loss_ppm: u32,
    /// Frames that wait at a station, and at the access point for one receiver.
    pub queue_frames: u32,
    /// Frames that wait at the access point altogether.
    pub ap_queue_frames: u32,
    /// From one beacon to the next.
    pub beacon_every_ns: u64,
    /// A beacon with its MAC header and checksum.
    pub beacon_bytes: u32,
    /// The cable between the access point and wired ports, with what sends and receives at its ends, one way.
    pub wire_ns: u64,
}

/// Why a profile cannot be used; all but the first name the built-in profile first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name; the second may be meant.
    #[error("there is no modelled air '{}'; there are {}{}", .0.escape_debug(), Profile::names().join(", "), hint(*.1))]
    Unknown(String, Option<&'static str>),
    /// It has no such key but these; the last may be meant.
    #[error("the air '{}' has no '{}'; {}{}", .0, .1.escape_debug(), keys(.2), hint(*.3))]
    UnknownKey(&'static str, String, Vec<&'static str>, Option<&'static str>),
    /// A change without a value.
    #[error("'{}' changes nothing of the air '{}'; write KEY=VALUE, such as loss=1%", .1.escape_debug(), .0)]
    NoValue(&'static str, String),
    /// The same key twice.
    #[error("the air '{0}' is given '{1}' twice; leave one out")]
    Twice(&'static str, &'static str),
    /// A malformed value, or one out of range: the key, the value, the range.
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
    /// The names of all that are built in.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        known::ALL.iter().map(|known| known.name).collect()
    }

    /// The keys that can be changed, as in `KEY=VALUE`.
    #[must_use]
    pub fn keys(&self) -> Vec<&'static str> {
        parse::keys(&self.medium).iter().map(|key| key.name()).collect()
    }
}
