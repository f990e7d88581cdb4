//! The search: multicast DNS, announcements over HTTP and connection attempts, merged into one list.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::probe::{self, Outcome};
use flashmob_server::admin::http::{AdminServer, serve_both};
use flashmob_server::discovery::found::{FOUND_MAX, FoundNodes, News};
use flashmob_server::discovery::hear::Ear;
use flashmob_server::discovery::here::{NoMulticast, multicast};
use flashmob_server::discovery::mdns::{Heard, Listener};
use flashmob_server::discovery::{Announcement, DISCOVER_PORT, Notice};
use flashmob_server::net::Clock;

/// Most queued events; senders block beyond it.
const EVENTS_MAX: usize = 256;
/// Interval of checks for the end of the search.
const SLICE: Duration = Duration::from_millis(100);

enum Event {
    Heard(Heard),
    Joined(Box<Announcement>, SocketAddr),
    Tried(Vec<Outcome>),
}

/// A running search.
pub struct Search {
    /// The nodes found so far.
    pub found: FoundNodes,
    /// Nodes of clusters with keys, by their names in multicast DNS.
    pub with_keys: BTreeMap<String, SocketAddr>,
    /// Those whose addresses are in no network of this device.
    pub far: BTreeMap<String, Vec<SocketAddr>>,
    /// Why multicast DNS is not available here.
    pub no_multicast: Option<NoMulticast>,
    /// Whether any node was heard by multicast DNS.
    pub heard_any: bool,
    clock: Clock,
    events: Receiver<Event>,
    event_to: SyncSender<Event>,
    is_trying: bool,
    end: Arc<AtomicBool>,
    server: AdminServer,
}

impl Search {
    /// Starts to listen in both ways.
    pub fn start(listen: Option<SocketAddr>) -> anyhow::Result<Search> {
        let (event_to, events) = sync_channel(EVENTS_MAX);
        let to = event_to.clone();
        let hear = move |about, addr| {
            // Nodes repeat announcements that do not fit. A search serves no extent, so none is known.
            let _ = to.try_send(Event::Joined(Box::new(about), addr));
            false
        };
        let server = serve(listen, hear)?;
        let no_multicast = multicast().err();
        let to = event_to.clone();
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let mut listener = Listener::new().context("cannot listen for multicast DNS")?;
        std::thread::Builder::new().name("mdns".to_string()).spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                if let Some(heard) = listener.next(SLICE)
                    && to.send(Event::Heard(heard)).is_err()
                {
                    return;
                }
            }
        })?;
        let asked = end.clone();
        crate::signals::each_signal(move || {
            if asked.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        })?;
        let (found, with_keys, clock) = (FoundNodes::default(), BTreeMap::new(), Clock::start());
        Ok(Search {
            found,
            with_keys,
            far: BTreeMap::new(),
            no_multicast,
            heard_any: false,
            clock,
            events,
            event_to,
            is_trying: false,
            end,
            server,
        })
    }

    /// The address that receives announcements.
    pub fn listens_at(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_asked_to_end(&self) -> bool {
        self.end.load(Ordering::SeqCst)
    }

    /// Waits a little, at most until `until`, and processes the events since.
    pub fn turn(&mut self, until: Instant) -> Vec<News> {
        let pause = SLICE.min(until.saturating_duration_since(Instant::now()));
        let mut news: Vec<News> = Vec::new();
        let mut next = self.events.recv_timeout(pause).ok();
        while let Some(event) = next {
            self.take(event, &mut news);
            next = self.events.try_recv().ok();
        }
        news.extend(self.found.expire(self.clock.now()));
        news
    }

    fn take(&mut self, event: Event, news: &mut Vec<News>) {
        match event {
            Event::Heard(Heard::Node(name, notice, addrs)) => {
                self.heard_any = true;
                self.far.remove(&name);
                match *notice {
                    Notice::Open(about) => news.extend(self.found.heard(name, about, addrs)),
                    Notice::Marked(_) if self.with_keys.len() < FOUND_MAX => {
                        self.with_keys.extend(addrs.first().map(|addr| (name, *addr)));
                    }
                    Notice::Marked(_) => {}
                }
            }
            Event::Heard(Heard::Far(name, addrs)) => {
                self.heard_any = true;
                self.with_keys.remove(&name);
                if self.far.len() < FOUND_MAX {
                    self.far.insert(name, addrs);
                }
            }
            Event::Heard(Heard::Gone(name)) => {
                self.with_keys.remove(&name);
                self.far.remove(&name);
                news.extend(self.found.goodbye(&name));
            }
            Event::Joined(about, addr) => news.extend(self.found.joined(self.clock.now(), *about, addr)),
            Event::Tried(outcomes) => {
                self.is_trying = false;
                news.extend(outcomes.into_iter().filter_map(|(extent, answered)| self.found.tried(extent, answered)));
            }
        }
    }

    /// Tries every node's port, and waits for the outcomes.
    pub fn try_all(&mut self) {
        for (extent, answered) in probe::try_all(self.found.to_try()) {
            self.found.tried(extent, answered);
        }
    }

    /// The same without waiting, unless the last trial is still running.
    pub fn begin_trial(&mut self) -> std::io::Result<()> {
        let (trials, to) = (self.found.to_try(), self.event_to.clone());
        if self.is_trying || trials.is_empty() {
            return Ok(());
        }
        self.is_trying = true;
        std::thread::Builder::new().name("try".to_string()).spawn(move || {
            // The receiver may have ended.
            let _ = to.send(Event::Tried(probe::try_all(trials)));
        })?;
        Ok(())
    }
}

/// Listens on the given address, or on the usual port, or on any port if another search has that.
fn serve(
    listen: Option<SocketAddr>,
    hear: impl Fn(Announcement, SocketAddr) -> bool + Send + Sync + Clone + 'static,
) -> anyhow::Result<AdminServer> {
    if let Some(listen) = listen {
        return serve_both(listen, None, Some(Ear::new(hear)))
            .with_context(|| format!("cannot listen on {listen}; choose another address with --listen"));
    }
    let any = |port| [SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), SocketAddr::from(([0, 0, 0, 0], port))];
    let mut last = None;
    // Without IPv6 there is still IPv4.
    for listen in [any(DISCOVER_PORT), any(0)].as_flattened() {
        match serve_both(*listen, None, Some(Ear::new(hear.clone()))) {
            Ok(server) => {
                if listen.port() == 0 {
                    log::warn!(
                        "port {DISCOVER_PORT} is in use, perhaps by another search or a gateway: listening on port {}",
                        server.local_addr().port()
                    );
                }
                return Ok(server);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("no address"), anyhow::Error::from))
        .context("cannot listen for nodes that join; choose an address with --listen")
}
