//! Nodes that are weaker than the others.

use std::time::Duration;

use flashmob_core::units::Time;

use super::{Cost, Settings, SettingsError};
use crate::flash::Profile;

/// How many times slower than others a node may be.
pub const SLOWER_MAX: f64 = 1000.0;

/// How much longer a node's line may take, each way.
pub const FARTHER_MAX: Duration = Duration::from_secs(10);

/// The last nodes of a cluster differ from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weak {
    /// How many.
    pub nodes: u32,
    /// In what.
    pub by: Weakness,
}

/// How a node is weaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weakness {
    /// Its flash takes so many times as long.
    Flash(f64),
    /// Flash and processor take so many times as long: it is hot.
    Throttled(f64),
    /// It does nothing for `time` in each `every`, while its connections stay.
    Dozes {
        /// From one pause to the next.
        every: Duration,
        /// How long a pause lasts.
        time: Duration,
    },
    /// So many of a million frames to and from it are lost on the way, before they are sent again.
    Lossy(u32),
    /// Its line takes so much longer, each way.
    Far(Duration),
}

impl Weak {
    /// How this one of so many nodes is weak.
    #[must_use]
    pub fn of(self, node: u32, nodes: u32) -> Option<Weakness> {
        (node >= nodes - self.nodes.min(nodes)).then_some(self.by)
    }

    /// Checks the limits, for a cluster of so many nodes.
    ///
    /// # Errors
    /// The first number that is out of range.
    pub fn check(self, nodes: u32) -> Result<(), SettingsError> {
        if !(1..=nodes).contains(&self.nodes) {
            return Err(SettingsError::OutOfRange("the number of weak nodes", "1 to the number of nodes"));
        }
        let is_possible = match self.by {
            Weakness::Flash(factor) | Weakness::Throttled(factor) => (1.0..=SLOWER_MAX).contains(&factor),
            Weakness::Dozes { every, time } => !time.is_zero() && time < every && every.as_secs() <= 3600,
            Weakness::Lossy(ppm) => ppm <= 900_000,
            Weakness::Far(delay) => delay <= FARTHER_MAX,
        };
        is_possible.then_some(()).ok_or(SettingsError::OutOfRange(
            "the weakness of nodes",
            "a factor of 1 to 1000, pauses shorter than an hour and their period, at most 90 % of loss, or at most 10 s of delay",
        ))
    }
}

impl Settings {
    fn weakness(&self, node: u32) -> Option<Weakness> {
        self.weak?.of(node, self.nodes)
    }

    /// The flash of a node.
    pub(super) fn flash_of(&self, node: u32) -> Option<Profile> {
        let flash = self.flash?;
        Some(match self.weakness(node) {
            Some(Weakness::Flash(factor) | Weakness::Throttled(factor)) => flash.slower(factor),
            _ => flash,
        })
    }

    /// The processor of a node.
    pub(super) fn cost_of(&self, node: u32) -> Cost {
        let Cost { turn_ns, packet_ns, request_ns, kib_ns } = self.node_cost;
        let longer = |ns: u64| match self.weakness(node) {
            Some(Weakness::Throttled(factor)) => (ns as f64 * factor) as u64,
            _ => ns,
        };
        Cost {
            turn_ns: longer(turn_ns),
            packet_ns: longer(packet_ns),
            request_ns: longer(request_ns),
            kib_ns: longer(kib_ns),
        }
    }

    /// The loss on the way to a node, in parts per million, if it is another than that of the air.
    pub(super) fn loss_ppm_of(&self, node: u32) -> Option<u32> {
        match self.weakness(node)? {
            Weakness::Lossy(ppm) => Some(ppm),
            _ => None,
        }
    }

    /// What the line of a node takes longer, each way.
    pub(super) fn delay_of(&self, node: u32) -> Option<Duration> {
        match self.weakness(node)? {
            Weakness::Far(delay) => Some(delay),
            _ => None,
        }
    }

    /// When a node that is to do something at `at` can.
    pub(super) fn awake_from(&self, node: u32, at: Time) -> Time {
        let Some(Weakness::Dozes { every, time }) = self.weakness(node) else { return at };
        let every_ns = every.as_nanos().max(1) as u64;
        let into_ns = at.as_nanos() % every_ns;
        let pause_ns = time.as_nanos() as u64;
        // The pause is in the middle of the period, so that none is begun at the start.
        let begin_ns = every_ns.saturating_sub(pause_ns) / 2;
        if (begin_ns..begin_ns + pause_ns).contains(&into_ns) {
            return at + Duration::from_nanos(begin_ns + pause_ns - into_ns);
        }
        at
    }
}
