//! Resources that a cluster may have too little of, and remedies.

use std::fmt;
use std::time::Duration;

use flashmob_core::gateway::BatchMode;

use crate::air::{Attachment, Medium, Profile};
use crate::cluster::{Cost, LINKS_MAX, NODES_MAX, OUTSTANDING_MAX, Settings};
use crate::flash;

/// A resource that may be the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The flash of the nodes.
    Flash,
    /// The air.
    Air,
    /// The gateway's processor.
    GatewayProcessor,
    /// The nodes' processors.
    NodeProcessors,
    /// Requests outstanding.
    Outstanding,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Resource::Flash => "flash",
            Resource::Air => "air",
            Resource::GatewayProcessor => "gateway's processor",
            Resource::NodeProcessors => "nodes' processors",
            Resource::Outstanding => "too few outstanding requests",
        })
    }
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 5] =
        [Resource::Flash, Resource::Air, Resource::GatewayProcessor, Resource::NodeProcessors, Resource::Outstanding];

    /// The same cluster with the resource doubled; `None` if it has none, or already the maximum.
    #[must_use]
    pub fn doubled(self, settings: &Settings) -> Option<Settings> {
        let mut settings = settings.clone();
        match self {
            Resource::Flash => settings.flash = Some(twice_as_fast(settings.flash?)),
            Resource::Air => settings.air = settings.air.twice_as_fast()?,
            Resource::GatewayProcessor => settings.gateway_cost = settings.gateway_cost.halved(),
            Resource::NodeProcessors => settings.node_cost = settings.node_cost.halved(),
            Resource::Outstanding => {
                // With one batch outstanding on every link, further requests would only queue elsewhere; links are doubled too.
                if let BatchMode::Fixed(k) = settings.batch
                    && u64::from(settings.outstanding)
                        >= u64::from(settings.loaded_nodes) * u64::from(settings.links) * u64::from(k)
                {
                    settings.links = settings.links.checked_mul(2).filter(|links| *links <= LINKS_MAX)?;
                }
                settings.outstanding = settings.outstanding.checked_mul(2).filter(|out| *out <= OUTSTANDING_MAX)?;
            }
        }
        can_be(&settings).then_some(settings)
    }
}

/// Whether the settings are valid, whatever their times, which a planner does not use.
fn can_be(settings: &Settings) -> bool {
    Settings { warmup: Duration::ZERO, time: Duration::from_secs(1), ..settings.clone() }.check().is_ok()
}

fn twice_as_fast(profile: flash::Profile) -> flash::Profile {
    let half = |cost: flash::Cost| flash::Cost {
        access_ns: cost.access_ns / 2,
        sequential_ns: cost.sequential_ns / 2,
        block_ns: cost.block_ns / 2,
    };
    let rotation = profile.rotation.map(|r| flash::Rotation {
        turn_ns: r.turn_ns / 2,
        seek_min_ns: r.seek_min_ns / 2,
        seek_max_ns: r.seek_max_ns / 2,
        ..r
    });
    flash::Profile {
        read: half(profile.read),
        write: half(profile.write),
        flush_ns: profile.flush_ns / 2,
        flush_clean_ns: profile.flush_clean_ns / 2,
        rotation,
        ..profile
    }
}

impl Cost {
    fn halved(self) -> Cost {
        Cost {
            turn_ns: self.turn_ns / 2,
            packet_ns: self.packet_ns / 2,
            request_ns: self.request_ns / 2,
            kib_ns: self.kib_ns / 2,
        }
    }
}

impl Profile {
    /// An air on which data and waiting take half the time; legacy preambles, of acknowledgements and beacons, keep their length. `None` for an ideal
    /// medium.
    #[must_use]
    pub fn twice_as_fast(&self) -> Option<Profile> {
        let mut profile = self.clone();
        match &mut profile.medium {
            Medium::Ideal { .. } => return None,
            Medium::Lines(line) => {
                line.rate_bps *= 2;
                line.delay_ns /= 2;
                line.jitter_ns /= 2;
            }
            Medium::Cell(dcf) => {
                dcf.slot_ns /= 2;
                dcf.sifs_ns /= 2;
                dcf.preamble_ns /= 2;
                dcf.symbol_ns /= 2;
                dcf.rate_bps *= 2;
                dcf.ack_rate_bps *= 2;
                dcf.signal_extension_ns /= 2;
                dcf.wire_ns /= 2;
            }
        }
        Some(profile)
    }
}

/// Remedies, each with the resulting cluster. Each changes one setting; twice as many nodes share the same requests.
#[must_use]
pub fn remedies(settings: &Settings) -> Vec<(String, Settings)> {
    let mut found = Vec::new();
    let mut with = |what: &str, change: &dyn Fn(&mut Settings)| {
        let mut changed = settings.clone();
        change(&mut changed);
        found.push((what.to_string(), changed));
    };
    let is_cell = matches!(settings.air.medium, Medium::Cell(_));
    if is_cell && settings.gateway == Attachment::Wireless {
        with("wire the gateway", &|s| s.gateway = Attachment::Wired);
    }
    if settings.batch != BatchMode::Auto {
        with("let batches clock themselves (batch = auto)", &|s| s.batch = BatchMode::Auto);
    }
    if settings.batch != BatchMode::Auto && settings.links <= LINKS_MAX / 2 {
        with("twice as many links", &|s| s.links *= 2);
    }
    for (times, what) in [(2, "twice as many requests outstanding"), (4, "four times as many requests outstanding")] {
        if settings.outstanding <= OUTSTANDING_MAX / times {
            with(what, &|s| s.outstanding *= times);
        }
    }
    let better = ["11n", "11ac", "11ax"];
    let at = better.iter().position(|name| settings.air.name.split(',').next() == Some(name)).map_or(0, |at| at + 1);
    if let Some(Ok(next)) = better.get(at).filter(|_| is_cell).map(|name| Profile::parse(name)) {
        with(&format!("better Wi-Fi ({})", next.name), &|s| s.air = next.clone());
    }
    if is_cell && settings.nodes >= 2 * settings.cells && settings.gateway == Attachment::Wired {
        with("a second access point on another channel", &|s| s.cells *= 2);
    }
    if let Some(now) = settings.flash {
        let next = ["sdcard", "nexus7-emmc", "emmc", "ufs"].iter().skip_while(|name| **name != now.name).nth(1);
        if let Some(Ok(next)) = next.map(|name| flash::Profile::named(name)) {
            with(&format!("devices with better flash ({})", next.name), &|s| s.flash = Some(next));
        }
    }
    if settings.nodes == settings.loaded_nodes && settings.nodes <= NODES_MAX / 2 {
        with("twice as many nodes", &|s| {
            s.nodes *= 2;
            s.loaded_nodes *= 2;
        });
    }
    // Doubling one setting may exceed the limit of another.
    found.retain(|(_, changed)| can_be(changed));
    found
}
