//! Lateness of the nodes' modelled flash: each node counts its own, and is queried within its own host, which takes no air
//! time.

use std::sync::{Arc, Mutex, PoisonError};

use flashmob_results::cluster::Lateness;

use super::host::Host;
use flashmob_server::net::fetch::fetch_status;
use flashmob_server::status::report::{ModelReport, Report};

/// The nodes, with their counts at the last reset.
#[derive(Clone, Debug)]
pub struct Nodes {
    hosts: Arc<Vec<Host>>,
    /// The address of each node's status, in its own host.
    admin: String,
    begun: Arc<Mutex<Vec<Counts>>>,
}

/// The counts of one node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    served: u64,
    late: u64,
    max_us: f64,
}

impl Nodes {
    /// The nodes in these hosts, the first of which is the gateway's.
    pub fn new(hosts: Arc<Vec<Host>>, admin_port: u16) -> Nodes {
        let begun = vec![Counts::default(); hosts.len().saturating_sub(1)];
        Nodes { hosts, admin: format!("127.0.0.1:{admin_port}"), begun: Arc::new(Mutex::new(begun)) }
    }

    /// Adds their lateness to `lateness`; `begin` resets it afterwards.
    pub fn add_to(&self, lateness: &mut Lateness, begin: bool) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut since = Vec::new();
        for (host, begun) in self.hosts.iter().skip(1).zip(begun.iter_mut()) {
            // Nodes that do not answer are reported elsewhere.
            let Some(now) = self.ask(host) else { continue };
            since.push((*begun, now));
            if begin {
                *begun = now;
            }
        }
        add(lateness, &since);
    }

    fn ask(&self, host: &Host) -> Option<Counts> {
        let counts = host.inside(|| -> anyhow::Result<Option<Counts>> {
            let report: Report = serde_json::from_slice(&fetch_status(&self.admin.parse()?)?)?;
            Ok(report.node.and_then(|node| node.model).as_ref().map(Counts::of))
        });
        match counts.and_then(|counts| counts) {
            Ok(counts) => counts,
            Err(error) => {
                log::debug!("cannot read a node's lateness: {error:#}");
                None
            }
        }
    }
}

impl Counts {
    fn of(report: &ModelReport) -> Counts {
        Counts { served: report.served, late: report.late, max_us: report.lateness_max_us }
    }
}

/// Adds the differences of two counts. A node's maximum counts if it grew: otherwise it is from before.
fn add(lateness: &mut Lateness, nodes: &[(Counts, Counts)]) {
    let (mut served, mut late) = (0, 0);
    for (begun, now) in nodes {
        served += now.served.saturating_sub(begun.served);
        late += now.late.saturating_sub(begun.late);
        if now.max_us > begun.max_us {
            lateness.max_us = lateness.max_us.max(now.max_us);
        }
    }
    let fraction = if served == 0 { 0.0 } else { late as f64 / served as f64 };
    lateness.late_fraction = lateness.late_fraction.max(fraction);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: Lateness = Lateness { p50_us: 10.0, p99_us: 100.0, max_us: 500.0, late_fraction: 0.01 };

    fn counts(served: u64, late: u64, max_us: f64) -> Counts {
        Counts { served, late, max_us }
    }

    fn with(nodes: &[(Counts, Counts)]) -> Lateness {
        let mut lateness = FRAMES;
        add(&mut lateness, nodes);
        lateness
    }

    #[test]
    fn the_worse_of_frames_and_nodes_counts() {
        let late = with(&[(counts(0, 0, 0.0), counts(100, 5, 7000.0)), (counts(0, 0, 0.0), counts(100, 0, 20.0))]);
        assert_eq!((late.max_us, late.late_fraction), (7000.0, 0.025));
        let well = with(&[(counts(0, 0, 0.0), counts(1000, 1, 20.0))]);
        assert_eq!(well, FRAMES);
    }

    #[test]
    fn what_was_before_the_beginning_does_not_count() {
        assert_eq!(with(&[(counts(100, 100, 9e6), counts(200, 100, 9e6))]), FRAMES);
    }

    #[test]
    fn nodes_that_did_nothing_change_nothing() {
        assert_eq!(with(&[]), FRAMES);
        assert_eq!(with(&[(Counts::default(), Counts::default())]), FRAMES);
    }
}
