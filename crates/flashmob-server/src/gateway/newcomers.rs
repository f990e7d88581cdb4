//! Nodes that have joined the gateway, or were enrolled with a code, and are in no volume: they are offered to whoever asks for its state.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::status::finding::{self, Finding};
use crate::store::ExtentId;

/// Most of them that are remembered; further ones are when others have gone.
const MOST: usize = 16;
/// A node announces itself each minute at the least.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(180);

/// Who has joined lately.
#[derive(Debug, Default)]
pub(super) struct Newcomers(BTreeMap<ExtentId, (String, Time)>);

impl Newcomers {
    /// A node with that extent announces itself from an address.
    pub fn note(&mut self, now: Time, extent: ExtentId, address: String) {
        self.0.retain(|_, (_, seen)| now - *seen < FORGOTTEN_AFTER);
        if self.0.len() < MOST || self.0.contains_key(&extent) {
            self.0.insert(extent, (address, now));
        }
    }

    /// Where they are.
    fn addresses(&self, now: Time) -> impl Iterator<Item = (&ExtentId, &String)> {
        let is_there = move |(_, (_, seen)): &(&ExtentId, &(String, Time))| now - *seen < FORGOTTEN_AFTER;
        self.0.iter().filter(is_there).map(|(extent, (address, _))| (extent, address))
    }
}

impl GatewayServer {
    /// Those that could be added to a volume: the first with copies.
    pub(super) fn offers(&self) -> Vec<Finding> {
        let Some(volume) = self.volumes.iter().find(|volume| volume.copies.is_some()) else { return Vec::new() };
        let nodes = self.gateway.nodes_in_order();
        let used: HashSet<[u8; 16]> = nodes.iter().filter_map(|&node| self.gateway.extent_id(node)).collect();
        let joined = self.newcomers.addresses(self.clock.now()).filter(|(extent, _)| !used.contains(&extent.0));
        let mut offered: BTreeMap<String, &str> = joined.map(|(_, address)| (address.clone(), "has joined")).collect();
        let enrolled = self.links.keys().into_iter().flat_map(|keys| keys.pins.enrolled_at());
        for (_, address) in enrolled.filter(|(extent, _)| !used.contains(&extent.0)) {
            let address = address.to_string();
            let is_named = || nodes.iter().any(|&node| self.links.is_expected_at(node, &address));
            if offered.len() < MOST && !is_named() {
                offered.entry(address).or_insert("was enrolled");
            }
        }
        offered.iter().map(|(address, how)| finding::newcomer(address, how, &volume.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_do_not_come_again_are_forgotten() {
        let at = |seconds| Time::default() + Duration::from_secs(seconds);
        let mut newcomers = Newcomers::default();
        for number in 0..2 * MOST as u8 {
            newcomers.note(at(0), ExtentId([number; 16]), format!("a:{number}"));
        }
        let count = |newcomers: &Newcomers, seconds| newcomers.addresses(at(seconds)).count();
        assert_eq!((count(&newcomers, 179), count(&newcomers, 180)), (MOST, 0));
        newcomers.note(at(100), ExtentId([0; 16]), "b:0".to_string());
        assert_eq!(count(&newcomers, 200), 1);
        newcomers.note(at(200), ExtentId([99; 16]), "c:0".to_string());
        let left: Vec<&String> = newcomers.addresses(at(200)).map(|(_, address)| address).collect();
        assert_eq!(left, ["b:0", "c:0"], "there is room again");
    }
}
