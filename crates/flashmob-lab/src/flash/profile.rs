//! The numbers of a device, and the devices that are built in.
//!
//! Each number says where it comes from: **paper** (a figure of the papers this project starts from), **standard**,
//! or **chosen** (nobody published it; it is there to show a mechanism, or is usual for the kind of device). The
//! same table, with units, is in `docs/models.md`.

mod known;

use crate::resembling::{hint, resembling};

/// The cost of reads or writes of one device, in nanoseconds of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A request elsewhere than where the last one ended, with its first block, everything included that is not
    /// [`Rotation`]. A step upward costs this; one downward [`Profile::backward_percent`] more.
    pub access_ns: u64,
    /// A request that begins in the block after the last one's, with its first block: no access, an open page,
    /// or the drive's own readahead.
    pub sequential_ns: u64,
    /// Each further block of 4 KiB.
    pub block_ns: u64,
}

/// A disk that turns and has an arm. The time to reach a place comes on top of [`Cost::access_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// One turn.
    pub turn_ns: u64,
    /// The bytes of one track: places this far apart lie at the same angle.
    pub track_bytes: u64,
    /// The arm to the next track, settled.
    pub seek_min_ns: u64,
    /// The arm over `stroke_bytes`. In between it goes by the square root of the distance.
    pub seek_max_ns: u64,
    /// The whole disk. The part of it that a file fills is usually much smaller.
    pub stroke_bytes: u64,
    /// How many requests the drive holds besides those in its slots, to take the nearest of them first.
    pub queue: u32,
}

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line on what it stands for.
    pub description: &'static str,
    /// How many requests it serves at once.
    pub slots: u32,
    /// The cost of reads.
    pub read: Cost,
    /// The cost of writes, until the device has them.
    pub write: Cost,
    /// A flush after writes.
    pub flush_ns: u64,
    /// A flush with nothing written since the last one.
    pub flush_clean_ns: u64,
    /// How much more an access costs, in percent, when its address lies far below where the last request ended.
    pub backward_percent: u32,
    /// From which distance on it costs all of that; nearer it costs in proportion.
    pub backward_full_at_bytes: u64,
    /// By how much a service time differs from its mean, at most, in percent: a bell (the sum of four uniform
    /// numbers) with a standard deviation of 0.29 times this.
    pub jitter_percent: u32,
    /// For disks.
    pub rotation: Option<Rotation>,
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name; the second may be meant.
    #[error("there is no modelled device '{}'; there are {}{}", .0, Profile::names().join(", "), hint(*.1))]
    Unknown(String, Option<&'static str>),
    /// A number is out of range: the profile, the field, the range.
    #[error("the profile '{0}' cannot be: {1} must be {2}")]
    OutOfRange(&'static str, &'static str, &'static str),
    /// The device would have this many bytes: none, or more than any has.
    #[error("a modelled device of {0} bytes; it must have 1 byte to 8 EiB")]
    Size(u64),
}

/// One hour: no time in a profile may be longer, so that no sum of them overflows.
const NS_MAX: u64 = 3_600_000_000_000;
/// One second: the longest time for a single block.
const BLOCK_NS_MAX: u64 = 1_000_000_000;

impl Profile {
    /// All that are built in.
    pub const ALL: [Profile; 6] = known::ALL;

    /// The names of all that are built in.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Profile::ALL.iter().map(|profile| profile.name).collect()
    }

    /// The built-in profile of that name, capitals and underscores forgiven.
    ///
    /// # Errors
    /// There is none; the message lists those that there are.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        let plain = name.to_lowercase().replace('_', "-");
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name == plain)
            .ok_or_else(|| ProfileError::Unknown(name.to_string(), resembling(name, &Profile::names())))
    }

    /// How many requests a program that sorts by itself should have in such a device at once: as many as slots, as many again (at
    /// least four) to refill them before the program runs again, and what a drive holds itself. What waits in the program can still be
    /// sorted.
    #[must_use]
    pub fn store_depth(&self) -> usize {
        let slots = self.slots as usize;
        slots + slots.max(4) + self.rotation.map_or(0, |rotation| rotation.queue as usize)
    }

    /// Whether its numbers make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), ProfileError> {
        let wrong = |field, range| Err(ProfileError::OutOfRange(self.name, field, range));
        let costs = [self.read, self.write];
        if !(1..=1024).contains(&self.slots) {
            return wrong("slots", "1 to 1024");
        }
        if self.jitter_percent > 99 {
            return wrong("jitter_percent", "at most 99");
        }
        if self.backward_percent > 1000 {
            return wrong("backward_percent", "at most 1000");
        }
        if costs.iter().any(|cost| cost.access_ns > NS_MAX || cost.sequential_ns > NS_MAX) {
            return wrong("access_ns and sequential_ns", "at most an hour");
        }
        if costs.iter().any(|cost| cost.block_ns > BLOCK_NS_MAX) {
            return wrong("block_ns", "at most a second");
        }
        if self.flush_ns > NS_MAX || self.flush_clean_ns > NS_MAX {
            return wrong("flush_ns and flush_clean_ns", "at most an hour");
        }
        if let Some(rotation) = self.rotation {
            if !(1..=NS_MAX).contains(&rotation.turn_ns) {
                return wrong("turn_ns", "1 ns to an hour");
            }
            if rotation.track_bytes == 0 || rotation.stroke_bytes == 0 {
                return wrong("track_bytes and stroke_bytes", "at least 1");
            }
            if rotation.seek_min_ns > rotation.seek_max_ns || rotation.seek_max_ns > NS_MAX {
                return wrong("seek_min_ns and seek_max_ns", "in that order, and at most an hour");
            }
            if rotation.queue > 1024 {
                return wrong("queue", "at most 1024");
            }
        }
        Ok(())
    }
}
