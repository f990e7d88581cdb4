//! A node as the gateway sees it. Its queue is in `queues.rs`.

use std::time::Duration;

use super::device_failures::DeviceFailures;
use super::fairness::Way;
use super::pace::Pace;
use super::queue::BatchLimits;
use crate::clocks::ClockRelation;
use crate::condition::Condition;
use crate::gateway::ExtentSpec;
use crate::units::Time;

/// One node as the gateway sees it.
#[derive(Debug, Default)]
pub struct Node {
    pub volume: usize,
    /// Its extent's number in the volume.
    pub extent: u32,
    pub name: String,
    pub links: std::ops::Range<usize>,
    /// The link with which the search for a free one begins.
    pub next_link: usize,
    pub limits: BatchLimits,
    pub way: Way,
    pub pace: Pace,
    /// From the configuration or the first welcome.
    pub extent_id: Option<[u8; 16]>,
    pub boot_id: Option<[u8; 16]>,
    pub no_io: bool,
    pub modelled: bool,
    /// The node knows blocks that are marked as unreadable.
    pub knows_marks: bool,
    pub is_local: bool,
    /// It was removed from its volume, and is not linked.
    pub is_gone: bool,
    pub refusal: Option<String>,
    /// The extent that was refused last because the volume knows another, its size, and when it was seen.
    pub offer: Option<Offer>,
    /// Why it could not be reached, while it has no link.
    pub trouble: Option<String>,
    pub links_up: usize,
    /// The last reported condition of its device, and when it came.
    pub condition: Option<(Condition, Time)>,
    /// When it last reported that it had paused.
    pub paused: Option<Time>,
    /// When the owner was last told that a second device shows its extent.
    pub copy_told: Option<Time>,
    /// Reads that its extent, in this process, answered at once.
    pub read_here: u64,
    /// Failures of its device.
    pub failures: DeviceFailures,
    /// The offset of its clock.
    pub clock: ClockRelation,
}

/// An extent that a node serves in place of the one that the volume knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    pub extent_id: [u8; 16],
    pub size_bytes: u64,
    pub seen: Time,
}

/// For how long a fresh extent counts as being there after it was seen. Its node is tried more often.
const OFFER_LASTS: Duration = Duration::from_secs(15);

impl Node {
    /// What it served lately in place of the extent that the volume knows.
    pub fn offer_now(&self, now: Time) -> Option<Offer> {
        self.offer.filter(|offer| now - offer.seen < OFFER_LASTS)
    }

    /// A node that was not connected yet.
    pub fn new(place: (usize, u32), spec: &ExtentSpec, links: std::ops::Range<usize>, limits: BatchLimits) -> Node {
        Node {
            volume: place.0,
            extent: place.1,
            name: spec.name.clone(),
            next_link: links.start,
            links,
            limits,
            is_local: spec.is_local,
            is_gone: spec.is_gone,
            ..Node::default()
        }
    }
}
