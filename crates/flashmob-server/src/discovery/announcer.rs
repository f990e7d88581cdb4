//! Announcing a node: threads beside its loop, one for multicast DNS and one for each target of `--join`.
//!
//! They read its state like `/status`, and touch neither extent nor links.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::announcement::{Announcement, NAME_BYTES_MAX, OwnAddress, VERSION_BYTES_MAX, fitting, is_usable};
use super::here::{NoMulticast, addresses, multicast, towards};
use super::join::{Pace, Target, tell};
use super::mdns::Offer;
use super::speed::{Speed, measure};
use super::{ExtentId, JOIN_EVERY, JoinAnswer, Notice};
use crate::keys::{Grants, Mark, NodeKeys};
use crate::net::fetch::FetchError;
use crate::net::tls::TlsEnd;
use crate::status::Reporter;

/// Interval of checks for a changed address: one system call.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval of checks for changes to announce by multicast DNS, and whether that works.
const MDNS_EVERY: Duration = JOIN_EVERY;
/// The same while the extent is free: it may be claimed at any moment, and others should know soon.
const MDNS_EVERY_FREE: Duration = LOOK_EVERY;

/// How long [`Announcer::await_first`] waits for targets that do not answer, and how often they are tried meanwhile.
const FIRST_WITHIN: Duration = Duration::from_secs(3);
const FIRST_AGAIN: Duration = Duration::from_millis(250);

/// An address to announce: `ADDR` or `ADDR:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertise {
    ip: IpAddr,
    port: Option<u16>,
}

impl FromStr for Advertise {
    type Err = String;

    fn from_str(text: &str) -> Result<Advertise, String> {
        let bare = |text: &str| text.parse().ok().map(|ip| Advertise { ip, port: None });
        let whole = |addr: SocketAddr| Advertise { ip: addr.ip(), port: Some(addr.port()) };
        let found = text.parse().ok().map(whole).or_else(|| bare(text));
        let is_good = |a: &Advertise| is_usable(SocketAddr::new(a.ip, a.port.unwrap_or(1)));
        found.filter(is_good).ok_or_else(|| {
            format!("'{text}' is not an address that others can connect to; give one such as 192.168.1.11 or 192.168.1.11:7411")
        })
    }
}

/// Options for announcing a node.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Its name; by default the device's.
    pub name: Option<String>,
    /// The address to announce.
    pub advertise: Option<Advertise>,
    /// Receivers of announcements over HTTP.
    pub joins: Vec<Target>,
    /// Whether to use multicast DNS where that works.
    pub mdns: bool,
}

/// Properties that do not change while a node runs.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Which extent.
    pub extent: ExtentId,
    /// How large.
    pub size_bytes: u64,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The data to measure; `None` if requests do not reach the flash.
    pub measured: Option<PathBuf>,
    /// What a node of a cluster with keys announces in the place of all that.
    pub keyed: Option<Keyed>,
}

/// What a node with keys announces, and how.
#[derive(Debug, Clone)]
pub struct Keyed {
    mark: Mark,
    /// Its end of connections to the gateway's administrative port.
    end: TlsEnd,
    /// Takes the grant that the gateway tells in return.
    grants: Grants,
}

impl Keyed {
    /// For the node with this extent.
    #[must_use]
    pub fn new(keys: &NodeKeys, extent: ExtentId, grants: Grants) -> Keyed {
        Keyed { mark: Mark::of(keys.cluster, extent), end: keys.admin_end.clone(), grants }
    }
}

/// The threads. [`Announcer::end`] says goodbye.
#[derive(Debug)]
pub struct Announcer {
    stops: Vec<SyncSender<()>>,
    /// Hears of each target that was told for the first time.
    first_told: Receiver<()>,
    targets: usize,
    mdns: Option<JoinHandle<()>>,
}

/// Starts to announce a node; logs the ways in use, and why others are not.
pub fn announce(wishes: Wishes, facts: Facts, reporter: Reporter) -> std::io::Result<Announcer> {
    let (tell_first, first_told) = sync_channel(wishes.joins.len());
    let targets = wishes.joins.len();
    let mut announcer = Announcer { stops: Vec::new(), first_told, targets, mdns: None };
    let is_local = facts.listen.ip().is_loopback();
    let mdns = wishes.mdns && !is_local;
    if wishes.mdns && is_local {
        log::info!("not announced: {} is reachable from this machine only", facts.listen);
    }
    if !mdns && wishes.joins.is_empty() {
        return Ok(announcer);
    }
    let joins = wishes.joins.clone();
    let teller = Arc::new(Teller { wishes, facts, reporter, last: Mutex::default(), speed: Mutex::default() });
    if mdns {
        let teller = teller.clone();
        announcer.mdns = Some(announcer.thread("mdns".to_string(), move |stop| offer(&teller, &stop))?);
    }
    for target in joins {
        let (teller, tell_first) = (teller.clone(), tell_first.clone());
        announcer.thread(format!("join {target}"), move |stop| join(&teller, &target, &tell_first, &stop))?;
    }
    Ok(announcer)
}

impl Announcer {
    fn thread(
        &mut self,
        name: String,
        run: impl FnOnce(Receiver<()>) + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let (stop, stopped) = sync_channel(1);
        self.stops.push(stop);
        // The kernel keeps 15 letters of it.
        std::thread::Builder::new().name(name).stack_size(256 * 1024).spawn(move || run(stopped))
    }

    /// Waits until each target was told once, and no longer than 3 s.
    pub fn await_first(&self) {
        let until = Instant::now() + FIRST_WITHIN;
        for _ in 0..self.targets {
            // An error: the time is over, or a thread has ended.
            let _ = self.first_told.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Stops, and says goodbye by multicast DNS.
    pub fn end(self) {
        // Dropping the senders stops the threads.
        drop(self.stops);
        if let Some(thread) = self.mdns
            && thread.join().is_err()
        {
            log::error!("the thread for multicast DNS panicked");
        }
    }
}

/// The source of announcements, shared by all threads.
struct Teller {
    wishes: Wishes,
    facts: Facts,
    reporter: Reporter,
    /// The last announcement, used if the loop does not answer.
    last: Mutex<Option<Announcement>>,
    speed: Mutex<Option<Option<Speed>>>,
}

impl Teller {
    /// The port that others use.
    fn port(&self) -> u16 {
        self.wishes.advertise.and_then(|a| a.port).unwrap_or(self.facts.listen.port())
    }

    /// The only address to use, if there is one.
    fn fixed(&self) -> Option<SocketAddr> {
        let listen = self.facts.listen.ip();
        let ip = self.wishes.advertise.map(|a| a.ip).or((!listen.is_unspecified()).then_some(listen))?;
        Some(SocketAddr::new(ip, self.port()))
    }

    /// What multicast DNS is to say now.
    fn notice(&self) -> Notice {
        self.facts.keyed.as_ref().map_or_else(|| Notice::Open(self.about()), |keyed| Notice::Marked(keyed.mark))
    }

    /// The address to name: without a host if it is the one that the message comes from.
    fn address(&self) -> String {
        self.fixed().map_or(format!(":{}", self.port()), |addr| addr.to_string())
    }

    /// Announces the node to `target`, once.
    fn tell(&self, target: &Target) -> Result<JoinAnswer, FetchError> {
        match &self.facts.keyed {
            Some(keyed) => {
                let answer = tell(target, Some(&keyed.end), &OwnAddress { address: self.address() })?;
                if let Some(grant) = answer.grant.as_ref().and_then(|text| STANDARD.decode(text).ok()) {
                    keyed.grants.offer(&grant);
                }
                Ok(answer)
            }
            None => tell(target, None, &self.about()),
        }
    }

    /// The node's announcement now.
    fn about(&self) -> Announcement {
        let speed = {
            let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
            *speed.get_or_insert_with(|| self.facts.measured.as_deref().and_then(measure))
        };
        let node = self.reporter.ask().and_then(|report| report.node);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let about = last.get_or_insert_with(|| self.unchanging(speed));
        if let Some(node) = node {
            (about.volume, about.place) = (node.volume, node.place);
            // In steps, so that not every percent is announced.
            about.battery_percent = node.condition.battery_percent.map(|percent| percent / 5 * 5);
        }
        about.clone()
    }

    fn unchanging(&self, speed: Option<Speed>) -> Announcement {
        Announcement {
            extent: self.facts.extent,
            address: self.address(),
            size_bytes: self.facts.size_bytes,
            name: device_name(self.wishes.name.as_deref()),
            model: model(),
            version: fitting(env!("CARGO_PKG_VERSION"), VERSION_BYTES_MAX),
            reads_per_s: speed.map(|speed| speed.reads_per_s),
            measured_over: speed.map(|speed| speed.over),
            volume: None,
            place: None,
            battery_percent: None,
        }
    }
}

/// The name of this device: the one that it was given, else its host name or model.
#[must_use]
pub fn device_name(given: Option<&str>) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // The host name of every Android device.
    let host = Some(host).filter(|host| host != "localhost" && !host.is_empty());
    fitting(&given.map(str::to_string).or(host).or_else(model).unwrap_or_default(), NAME_BYTES_MAX)
}

fn model() -> Option<String> {
    let model = flashmob_host::device::describe_at(std::path::Path::new("/")).model;
    model.map(|model| fitting(&model, NAME_BYTES_MAX)).filter(|model| !model.is_empty())
}

/// Waits for `pause`; false if stopped meanwhile.
fn goes_on(stop: &Receiver<()>, pause: Duration) -> bool {
    stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
}

/// Offers the node by multicast DNS until told to stop, and says goodbye.
fn offer(teller: &Teller, stop: &Receiver<()>) {
    let mut offer = match Offer::new() {
        Ok(offer) => offer,
        Err(error) => return log::warn!("not announced by multicast DNS: {error}; {REMEDY}"),
    };
    let mut told = None;
    let mut state: Option<Result<(), NoMulticast>> = None;
    let mut here = Vec::new();
    loop {
        let notice = teller.notice();
        if told.as_ref() != Some(&notice) {
            if let Err(error) = offer.tell(&notice, teller.facts.listen, teller.fixed()) {
                log::warn!("not announced by multicast DNS: {error}; {REMEDY}");
            }
            told = Some(notice.clone());
        }
        // The check sends a message that wakes every radio in the room, so it is made only after changes.
        let was_here = std::mem::replace(&mut here, addresses());
        if state.as_ref().is_none_or(Result::is_err) || was_here != here {
            let now = multicast();
            if state.as_ref() != Some(&now) {
                say(teller, &notice, &now);
                state = Some(now);
            }
        }
        let pause = if notice.is_free() { MDNS_EVERY_FREE } else { MDNS_EVERY };
        if !goes_on(stop, pause) {
            return offer.end();
        }
    }
}

const REMEDY: &str = "--join HOST:PORT announces the node to a gateway or to 'flashmob discover' without it";

fn say(teller: &Teller, notice: &Notice, works: &Result<(), NoMulticast>) {
    match works {
        Ok(()) => {
            let ips = || addresses().into_iter().map(|ip| SocketAddr::new(ip, teller.port())).collect();
            let addrs: Vec<SocketAddr> = teller.fixed().map_or_else(ips, |addr| vec![addr]);
            let addrs: Vec<String> = addrs.iter().map(ToString::to_string).collect();
            log::info!("announced by multicast DNS as '{}' at {}", notice.instance_name(), addrs.join(", "));
        }
        Err(why) => log::warn!("not announced by multicast DNS: {why}; {REMEDY}"),
    }
}

/// Announces the node to one target, again and again, until told to stop.
fn join(teller: &Teller, target: &Target, tell_first: &SyncSender<()>, stop: &Receiver<()>) {
    let (begun, mut pace, mut tell_first) = (Instant::now(), Pace::default(), Some(tell_first));
    // A name is resolved for each announcement and not in between.
    let numbers: Option<SocketAddr> = target.to_string().parse().ok();
    let here = || numbers.and_then(|addr| towards(addr).ok());
    loop {
        let from = here();
        let (pause, is_news) = match teller.tell(target) {
            Ok(answer) => {
                if let Some(tell_first) = tell_first.take() {
                    // There is room for one of each target.
                    let _ = tell_first.try_send(());
                }
                let (pause, is_news) = pace.succeeded(&answer, teller.facts.keyed.is_some());
                if is_news && answer.known {
                    log::info!("joined {target}: the extent belongs to one of its volumes");
                } else if is_news {
                    log::info!(
                        "joined {target}: announced; the gateway uses this node once `flashmob volume add` or its configuration names it"
                    );
                }
                (pause, is_news)
            }
            Err(error) => {
                let (mut pause, is_news) = pace.failed();
                if begun.elapsed() < FIRST_WITHIN {
                    // Somebody may be waiting; the network may come up just now.
                    pause = pause.min(FIRST_AGAIN);
                }
                if is_news {
                    let is_keyed = teller.facts.keyed.is_some();
                    log::warn!(
                        "cannot join {target}: {error}; retrying. The target must be {}, at an address that this device can reach",
                        if is_keyed {
                            "the 'admin' of this cluster's gateway"
                        } else {
                            "the port of 'flashmob discover', or a gateway's 'admin'"
                        }
                    );
                }
                (pause, is_news)
            }
        };
        log::debug!("{target}: told; next in {pause:?}{}", if is_news { ", news" } else { "" });
        let due = Instant::now() + pause;
        while Instant::now() < due && here() == from {
            if !goes_on(stop, LOOK_EVERY.min(due.saturating_duration_since(Instant::now()))) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_tell_may_lack_its_port() {
        for (text, ip, port) in [
            ("192.168.1.11", "192.168.1.11", None),
            ("192.168.1.11:7500", "192.168.1.11", Some(7500)),
            ("fd00::1", "fd00::1", None),
            ("[fd00::1]:1", "fd00::1", Some(1)),
        ] {
            assert_eq!(text.parse(), Ok(Advertise { ip: ip.parse().unwrap(), port }), "{text}");
        }
        for bad in ["", "0.0.0.0", "224.0.0.1", "tablet", "192.168.1.11:0", "192.168.1"] {
            assert!(bad.parse::<Advertise>().is_err(), "{bad}");
        }
    }
}
