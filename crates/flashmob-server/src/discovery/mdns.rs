//! Multicast DNS: offering a node, and listening for nodes.
//!
//! Records have the lifetimes of RFC 6762 (120 s for addresses, 75 minutes for the rest), so a killed node stays listed for a
//! while. To find out whether it still runs, ask the node itself.

use std::net::{SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use mdns_sd::{
    IfKind, Receiver, RecvTimeoutError, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo,
};

use super::announcement::{fitting, is_usable, rank};
use super::here::near;
use super::{Notice, SERVICE, txt};

/// Timeout of a goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);
/// Answers over IPv6 and IPv4 come one after the other: an address with an interface's number is held back for this long, in
/// case a better one follows.
const BETTER_ADDRESS_WITHIN: Duration = Duration::from_millis(250);
const RANK_LAST: u8 = 3;
/// The entry with an address that replaces those of interfaces.
const ADDRESS_KEY: &str = "addr";

/// A daemon without loopback, whose address would be announced as one of the device.
fn daemon() -> Result<ServiceDaemon, mdns_sd::Error> {
    let daemon = ServiceDaemon::new()?;
    daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
    Ok(daemon)
}

/// A node that is offered. [`Offer::end`] says goodbye; after a mere drop the records expire.
pub struct Offer {
    daemon: ServiceDaemon,
    fullname: Option<String>,
}

impl Offer {
    /// Offers nothing yet.
    pub fn new() -> Result<Offer, mdns_sd::Error> {
        Ok(Offer { daemon: daemon()?, fullname: None })
    }

    /// Offers the node, or updates its offer. `fixed`: the only address to use; otherwise those of the interfaces that `listen`
    /// covers, with its port.
    pub fn tell(
        &mut self,
        notice: &Notice,
        listen: SocketAddr,
        fixed: Option<SocketAddr>,
    ) -> Result<(), mdns_sd::Error> {
        let mut entries = txt::entries(notice);
        entries.extend(fixed.map(|addr| (ADDRESS_KEY, addr.to_string())));
        let mut info =
            ServiceInfo::new(SERVICE, &notice.instance_name(), &notice.host(), "", listen.port(), &entries[..])?
                .enable_addr_auto();
        if listen.is_ipv4() {
            info.set_interfaces(vec![IfKind::IPv4]);
        }
        self.fullname = Some(info.get_fullname().to_string());
        self.daemon.register(info)
    }

    /// Says goodbye: listeners forget the node at once.
    pub fn end(self) {
        // If it cannot be sent, the records expire.
        if let Some(Ok(done)) = self.fullname.as_ref().map(|name| self.daemon.unregister(name)) {
            let _ = done.recv_timeout(GOODBYE_TIMEOUT);
        }
        if let Ok(done) = self.daemon.shutdown() {
            let _ = done.recv_timeout(GOODBYE_TIMEOUT);
        }
    }
}

/// Listens for nodes; it asks for them too. Dropping it ends that.
pub struct Listener {
    daemon: ServiceDaemon,
    events: Receiver<ServiceEvent>,
    /// Nodes with an inferior address only, and until when to wait for a better one.
    held: Vec<(Instant, Heard)>,
}

/// An event of the listener.
#[derive(Debug)]
pub enum Heard {
    /// What is said of a node under that name; addresses best first.
    Node(String, Box<Notice>, Vec<SocketAddr>),
    /// A node announces these addresses under that name, none of which is in a network of this device.
    Far(String, Vec<SocketAddr>),
    /// The name disappeared.
    Gone(String),
}

impl Listener {
    /// Begins to listen.
    pub fn new() -> Result<Listener, mdns_sd::Error> {
        let daemon = daemon()?;
        let events = daemon.browse(SERVICE)?;
        Ok(Listener { daemon, events, held: Vec::new() })
    }

    /// The next event within `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Option<Heard> {
        let until = Instant::now() + timeout;
        loop {
            let now = Instant::now();
            if let Some(due) = self.held.iter().position(|(at, _)| *at <= now) {
                return Some(self.held.swap_remove(due).1);
            }
            let wait_until = self.held.iter().map(|(at, _)| *at).chain([until]).min().unwrap_or(until);
            let event = match self.events.recv_timeout(wait_until.saturating_duration_since(now)) {
                Ok(ServiceEvent::ServiceResolved(service)) => heard(&service),
                Ok(ServiceEvent::ServiceRemoved(_, name)) => Some(Heard::Gone(name.to_lowercase())),
                Ok(_) => None,
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return None,
                Err(RecvTimeoutError::Timeout) => continue,
                // The daemon ended: nothing will come, and a loop of calls must not become a busy loop.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return None;
                }
            };
            let Some(event) = event else { continue };
            self.held.retain(|(_, held)| held.name() != event.name());
            match &event {
                Heard::Node(_, _, addrs) if addrs.first().is_some_and(|addr| rank(addr) == RANK_LAST) => {
                    self.held.push((Instant::now() + BETTER_ADDRESS_WITHIN, event));
                }
                _ => return Some(event),
            }
        }
    }
}

impl Heard {
    fn name(&self) -> &str {
        match self {
            Heard::Node(name, ..) | Heard::Far(name, _) | Heard::Gone(name) => name,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It ends with its thread in any case.
        let _ = self.daemon.shutdown();
    }
}

fn heard(service: &ResolvedService) -> Option<Heard> {
    let value = |key: &str| service.get_property_val_str(key);
    let mut addrs: Vec<SocketAddr> = match value(ADDRESS_KEY).map(str::parse) {
        Some(Ok(addr)) => vec![addr],
        _ => service.addresses.iter().filter_map(|ip| scoped(ip, service.port)).collect(),
    };
    addrs.retain(|addr| is_usable(*addr));
    addrs.sort_by_key(|addr| (rank(addr), *addr));
    let name = service.fullname.to_lowercase();
    let near = near(&addrs);
    match txt::read(near.first().or(addrs.first())?.to_string(), value) {
        Ok(_) if near.is_empty() => Some(Heard::Far(name, addrs)),
        Ok(notice) => Some(Heard::Node(name, Box::new(notice), near)),
        Err(error) => {
            log::debug!("multicast DNS: {}: {error}", fitting(&service.fullname, 100));
            None
        }
    }
}

fn scoped(ip: &ScopedIp, port: u16) -> Option<SocketAddr> {
    match ip {
        ScopedIp::V6(v6) if v6.addr().is_unicast_link_local() => {
            Some(SocketAddrV6::new(*v6.addr(), port, 0, v6.scope_id().index).into())
        }
        other => Some(SocketAddr::new(other.to_ip_addr(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_people_know_come_first() {
        let mut addrs: Vec<SocketAddr> =
            ["[fe80::1%3]:1", "169.254.1.1:1", "[fd00::1]:1", "10.0.0.1:1"].map(|text| text.parse().unwrap()).to_vec();
        addrs.sort_by_key(rank);
        assert_eq!(addrs[0].to_string(), "10.0.0.1:1");
        assert_eq!(addrs[3].to_string(), "[fe80::1%3]:1");
    }
}
