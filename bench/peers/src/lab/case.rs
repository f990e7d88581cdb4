//! What is asked, of all contenders alike.

use std::fmt;
use std::str::FromStr;

use flashmob_lab::air::Profile;
use flashmob_peers::limit::{self, Cluster, Limits, Load};
use serde::{Deserialize, Serialize};

/// LOAD:NODES:AIR:GATEWAY, such as `read-4096:8:11n:wired`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub load: Load,
    pub nodes: u32,
    pub air: String,
    /// `wired` or `wireless`.
    pub gateway: String,
}

impl Case {
    /// What air and flash can do of it, with so many outstanding for each node.
    pub fn limits(&self, outstanding: u32) -> anyhow::Result<Limits> {
        const SEED: u64 = 7;
        let (air, gateway) = (Profile::parse(&self.air)?, limit::attachment(&self.gateway)?);
        let limits =
            Cluster { air, gateway, load: self.load, nodes: self.nodes, links: 1, outstanding }.limits(SEED)?;
        anyhow::ensure!(limits.least_per_s() > 0.0, "{self}: air or flash can do none of it");
        Ok(limits)
    }

    /// As a person says it.
    pub fn words(&self) -> String {
        let nodes = if self.nodes == 1 { "1 node".to_string() } else { format!("{} nodes", self.nodes) };
        format!("{}, {nodes}, {}, {} gateway", self.load.words(), self.air, self.gateway)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.load, self.nodes, self.air, self.gateway)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [load, nodes, air, gateway] = parts[..] else {
            return Err("as LOAD:NODES:AIR:GATEWAY, such as read-4096:8:11n:wired".to_string());
        };
        let nodes = nodes.parse().map_err(|error| format!("{nodes} nodes: {error}"))?;
        if nodes == 0 {
            return Err("at least one node".to_string());
        }
        Profile::parse(air).map_err(|error| error.to_string())?;
        limit::attachment(gateway).map_err(|error| error.to_string())?;
        Ok(Case { load: load.parse()?, nodes, air: air.to_string(), gateway: gateway.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_is_written() {
        for text in crate::CASES {
            assert_eq!(text.parse::<Case>().map(|case| case.to_string()).as_deref(), Ok(text));
        }
        let with_changes = "write-4096:4:11n-2014,loss=1%:wireless";
        assert_eq!(
            with_changes.parse::<Case>().unwrap().words(),
            "write 4 KiB, 4 nodes, 11n-2014,loss=1%, wireless gateway"
        );
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for text in [
            "",
            "read-1",
            "read-1:0:11n:wired",
            "read-0:1:11n:wired",
            "read-1:1:none:wired",
            "read-1:1:11n:both",
            "trim-1:1:11n:wired",
        ] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }
}
