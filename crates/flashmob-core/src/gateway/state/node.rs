//! A node as the gateway sees it: which it is, what it told of itself, and how far away it is. Its queue is in `queues.rs`.

use super::fairness::Way;
use super::queue::BatchLimits;
use crate::clocks::ClockRelation;
use crate::condition::Condition;
use crate::gateway::ExtentSpec;
use crate::units::Time;

/// One node as the gateway sees it.
#[derive(Debug, Default)]
pub struct Node {
    pub volume: usize,
    /// Which of the volume's extents.
    pub extent: u32,
    pub name: String,
    pub links: std::ops::Range<usize>,
    /// Where the search for a free link begins.
    pub next_link: usize,
    pub limits: BatchLimits,
    pub way: Way,
    /// Known beforehand, or since the first welcome.
    pub extent_id: Option<[u8; 16]>,
    pub boot_id: Option<[u8; 16]>,
    pub no_io: bool,
    pub modelled: bool,
    pub is_local: bool,
    pub refusal: Option<String>,
    /// Why it was last not reached, while it has no link.
    pub trouble: Option<String>,
    pub links_up: usize,
    /// What it told of its device, and when.
    pub condition: Option<(Condition, Time)>,
    /// How its clock stands to ours.
    pub clock: ClockRelation,
}

impl Node {
    /// A node that nobody has heard of since the start, and the links that lead to it.
    pub fn new(place: (usize, u32), spec: &ExtentSpec, links: std::ops::Range<usize>, limits: BatchLimits) -> Node {
        Node {
            volume: place.0,
            extent: place.1,
            name: spec.name.clone(),
            next_link: links.start,
            links,
            limits,
            is_local: spec.is_local,
            ..Node::default()
        }
    }
}
