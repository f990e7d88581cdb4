//! The parameters of a device, and the built-in devices.
//!
//! The source of each number is stated: **paper** (a figure of the papers this project starts from), **standard**,
//! or **chosen** (not published; it is there to show a mechanism, or is typical for the kind of device). The
//! same table, with units, is in `docs/models.md`.

mod known;

use crate::resembling::{hint, resembling};

/// The cost of reads or writes of one device, in nanoseconds of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A random request (not at the end of the previous one) including its first block, without
    /// [`Rotation`]. An upward step costs this; a downward one [`Profile::backward_percent`] more.
    pub access_ns: u64,
    /// A sequential request (directly after the previous one) including its first block: no access, an open page,
    /// or the drive's own readahead.
    pub sequential_ns: u64,
    /// Each further block of 4 KiB.
    pub block_ns: u64,
}

/// A rotating disk with an arm. Positioning time is added to [`Cost::access_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Time of one rotation.
    pub turn_ns: u64,
    /// Bytes per track: addresses this far apart have the same angle.
    pub track_bytes: u64,
    /// Seek time to the next track, including settling.
    pub seek_min_ns: u64,
    /// Seek time over `stroke_bytes`. In between it follows the square root of the distance.
    pub seek_max_ns: u64,
    /// Size of the whole disk. The part that a file occupies is usually much smaller.
    pub stroke_bytes: u64,
    /// Queue depth of the drive besides requests in its slots; it serves the nearest of them first.
    pub queue: u32,
}

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub description: &'static str,
    /// Number of requests that are served in parallel.
    pub slots: u32,
    /// The cost of reads.
    pub read: Cost,
    /// The cost of writes, until they are in the device's cache.
    pub write: Cost,
    /// The cost of a flush after writes.
    pub flush_ns: u64,
    /// The cost of a flush without writes since the last one.
    pub flush_clean_ns: u64,
    /// Additional access cost, in percent, of an address far below the end of the last request.
    pub backward_percent: u32,
    /// Distance from which on the full additional cost applies; below it is proportional to the distance.
    pub backward_full_at_bytes: u64,
    /// Maximum deviation of a service time from its mean, in percent: bell-shaped (the sum of four uniform
    /// numbers) with a standard deviation of 0.29 times this.
    pub jitter_percent: u32,
    /// Only for rotating disks.
    pub rotation: Option<Rotation>,
}

/// Why a profile is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No profile has this name; the second field is the closest one.
    #[error("there is no modelled device '{}'; there are {}{}", .0, Profile::names().join(", "), hint(*.1))]
    Unknown(String, Option<&'static str>),
    /// A number is out of range: the profile, the field, the range.
    #[error("the profile '{0}' cannot be: {1} must be {2}")]
    OutOfRange(&'static str, &'static str, &'static str),
    /// The device's size in bytes is 0 or too large.
    #[error("a modelled device of {0} bytes; it must have 1 byte to 8 EiB")]
    Size(u64),
}

/// One hour: maximum time in a profile, so that no sum of them overflows.
const NS_MAX: u64 = 3_600_000_000_000;
/// One second: maximum time of a single block.
const BLOCK_NS_MAX: u64 = 1_000_000_000;

impl Profile {
    /// All built-in profiles.
    pub const ALL: [Profile; 6] = known::ALL;

    /// The names of all built-in profiles.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Profile::ALL.iter().map(|profile| profile.name).collect()
    }

    /// Returns the built-in profile with this name, ignoring case and underscores.
    ///
    /// # Errors
    /// There is no such profile; the message lists the existing ones.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        let plain = name.to_lowercase().replace('_', "-");
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name == plain)
            .ok_or_else(|| ProfileError::Unknown(name.to_string(), resembling(name, &Profile::names())))
    }

    /// Queue depth for a program that sorts by itself: one request per slot, as many again (at
    /// least four) to refill the slots before the program runs again, and the drive's own queue. Requests beyond it wait in the
    /// program, where they can still be sorted.
    #[must_use]
    pub fn store_depth(&self) -> usize {
        let slots = self.slots as usize;
        slots + slots.max(4) + self.rotation.map_or(0, |rotation| rotation.queue as usize)
    }

    /// The same device, with services that take so many times as long.
    #[must_use]
    pub fn slower(mut self, factor: f64) -> Profile {
        let longer = |ns: &mut u64| *ns = (*ns as f64 * factor) as u64;
        for cost in [&mut self.read, &mut self.write] {
            [&mut cost.access_ns, &mut cost.sequential_ns, &mut cost.block_ns].into_iter().for_each(longer);
        }
        [&mut self.flush_ns, &mut self.flush_clean_ns].into_iter().for_each(longer);
        self
    }

    /// Validates the numbers.
    ///
    /// # Errors
    /// The first invalid number.
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
