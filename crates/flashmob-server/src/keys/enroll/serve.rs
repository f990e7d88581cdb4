//! The port of `flashmob join`: connections, each on a thread of its own, around the [`Desk`].

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_core::strangers::{Unproven, to_replace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::doorman::thread_time;
use super::super::line::Line;
use super::ENROLL_PURPOSE;
use super::desk::{Caution, Desk, Device, Known, Presented, State, Terms, Verdict};
use super::message::{Message, Reason};
use super::proof::{DIGITS_EXPORT, NONCE_BYTES, Nonces, PROOF_EXPORT, Role, Session, commit, draw_nonce};
use super::secret::Secret;
use crate::keys::folder::FolderError;
use crate::keys::pins::PinError;
use crate::keys::{Folder, Grant, Pins, PublicKey};
use crate::net::tls::{PATIENCE, TlsEnd, WaitingTls};
use crate::store::ExtentId;

/// Most connections that have proven nothing: one of them makes room for a newcomer.
pub const CONNECTIONS_MAX: usize = 64;
/// Most threads beside those of devices that wait: those of connections that made room end soon, and until then nobody is let in.
const THREADS_MAX: usize = 4 * CONNECTIONS_MAX;
/// Most events that wait to be heard; more are dropped.
const EVENTS_MAX: usize = 256;
/// How often what somebody decides is looked at.
const SLICE: Duration = Duration::from_millis(200);
/// How often one that waits for its handshake looks whether it has made room.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a wrong code waits for its answer. Nobody is ever locked out by it.
const WRONG_CODE_PAUSE: Duration = Duration::from_secs(1);
/// How long a device that was accepted may take to record the cluster's key.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);

/// What somebody at the port should hear of. How far devices are, [`JoinPort::devices`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The device with this number left before it had the cluster's key.
    Left(usize),
    /// Somebody was refused who knew a code, for this reason.
    Refused(Option<IpAddr>, String),
    /// Somebody came with a wrong code.
    WrongCode(Option<IpAddr>),
    /// Keys could not be read or pinned.
    Trouble(String),
}

/// A running port. Dropping it ends all connections, and with it all codes.
#[derive(Debug)]
pub struct JoinPort {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    open: Mutex<HashMap<u64, Open>>,
    line: Line,
    folder: Folder,
    /// Extents of volumes.
    in_use: HashSet<ExtentId>,
    end: TlsEnd,
    grant: Vec<u8>,
    granted: Grant,
    events: SyncSender<Event>,
    /// Threads that serve connections, also closed ones.
    threads: AtomicUsize,
    stop: AtomicBool,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    from: Option<IpAddr>,
    tcp: TcpStream,
    /// When it last came nearer to being one: see [`flashmob_core::strangers`].
    stepped: Instant,
    /// The device that it has proven to be.
    device: Option<usize>,
}

/// Pins as they are now, and extents in use.
struct Now<'a>(Pins, &'a HashSet<ExtentId>);

impl Known for Now<'_> {
    fn pin_of(&self, extent: ExtentId) -> Option<PublicKey> {
        self.0.key_of(extent)
    }

    fn extent_of(&self, key: PublicKey) -> Option<ExtentId> {
        self.0.extent_of(key)
    }

    fn is_in_use(&self, extent: ExtentId) -> bool {
        self.1.contains(&extent)
    }
}

impl JoinPort {
    /// Listens at `listen`, for the cluster whose keys are in `folder`. `in_use`: the extents of its volumes. Keys that are pinned may be replaced if
    /// `may_replace`.
    ///
    /// # Errors
    /// The keys cannot be used, or the port is taken.
    pub fn open(
        folder: Folder,
        listen: SocketAddr,
        in_use: HashSet<ExtentId>,
        may_replace: bool,
    ) -> anyhow::Result<(JoinPort, Receiver<Event>)> {
        use anyhow::Context;
        let (grant, granted, key) = folder.gateway_key()?;
        let end = key.server_end(ENROLL_PURPOSE)?;
        let listener = TcpListener::bind(listen)
            .with_context(|| format!("cannot listen on {listen}; choose another address with --listen"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (events, told) = sync_channel(EVENTS_MAX);
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk::new(may_replace)),
            open: Mutex::default(),
            line: Line::default(),
            folder,
            in_use,
            end,
            grant,
            granted,
            events,
            threads: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("join".into()).spawn(move || accept_all(&accepting, &listener))?;
        Ok((JoinPort { shared, address, thread: Some(thread) }, told))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The cluster that devices get to.
    #[must_use]
    pub fn cluster(&self) -> PublicKey {
        self.shared.granted.cluster
    }

    /// From now on each of these secrets counts.
    pub fn issue(&self, secrets: Vec<Secret>, terms: Terms) {
        lock(&self.shared.desk).issue(secrets, terms);
    }

    /// The devices that came, by their numbers.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        lock(&self.shared.desk).devices().to_vec()
    }

    /// Whether a device is connected now.
    #[must_use]
    pub fn is_here(&self, number: usize) -> bool {
        lock(&self.shared.open).values().any(|open| open.device == Some(number))
    }

    /// Pins the key of a device that waits, on the flash when this returns.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn confirm(&self, number: usize) -> Result<(), FolderError> {
        self.shared.pin(number)
    }

    /// Refuses a device that waits.
    pub fn turn_down(&self, number: usize) {
        lock(&self.shared.desk).turn_down(number);
    }
}

impl Drop for JoinPort {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It has panicked or ended.
            let _ = thread.join();
        }
        for open in lock(&self.shared.open).values() {
            let _ = open.tcp.shutdown(Shutdown::Both);
        }
    }
}

/// What is inside is consistent even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener) {
    let slice = Timespec { tv_sec: 0, tv_nsec: SLICE.as_nanos() as i64 };
    let mut number = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&slice)), Ok(1..)) {
            continue;
        }
        let waiting = lock(&shared.open).values().filter(|open| open.device.is_some()).count();
        if shared.threads.load(Ordering::SeqCst) >= THREADS_MAX + waiting {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        match listener.accept() {
            Ok((tcp, from)) => {
                number += 1;
                begin(shared, number, tcp, from.ip());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // As many files are open as may be: that passes.
            Err(_) => std::thread::sleep(SLICE),
        }
    }
}

/// Serves a connection on a thread of its own.
fn begin(shared: &Arc<Shared>, number: u64, tcp: TcpStream, from: IpAddr) {
    let Ok(own) = tcp.try_clone() else { return };
    if own.set_nonblocking(false).and_then(|()| own.set_nodelay(true)).is_err() {
        return;
    }
    {
        let mut open = lock(&shared.open);
        // Devices that wait are not counted: their number is that of codes.
        let unknown = || {
            open.iter().filter(|(_, open)| open.device.is_none()).map(|(key, open)| {
                let was_let_in = open.from.is_some_and(|from| shared.line.was_let_in(from));
                Unproven { key: *key, from: open.from, was_let_in, stepped: open.stepped }
            })
        };
        if unknown().count() >= CONNECTIONS_MAX
            && let Some(key) = to_replace(unknown())
            && let Some(open) = open.remove(&key)
        {
            let _ = open.tcp.shutdown(Shutdown::Both);
        }
        open.insert(number, Open { from: Some(from), tcp, stepped: Instant::now(), device: None });
    }
    let serving = Arc::clone(shared);
    let work = move || {
        // Strangers' mistakes are nobody's news.
        let device = serving.serve(number, own, Some(from)).unwrap_or_else(|error| {
            log::debug!("{from}: {error}");
            None
        });
        lock(&serving.open).remove(&number);
        serving.threads.fetch_sub(1, Ordering::SeqCst);
        if let Some(device) = device {
            serving.tell(Event::Left(device));
        }
    };
    shared.threads.fetch_add(1, Ordering::SeqCst);
    if std::thread::Builder::new().name("enroll".into()).stack_size(512 * 1024).spawn(work).is_err() {
        shared.threads.fetch_sub(1, Ordering::SeqCst);
        lock(&shared.open).remove(&number);
    }
}

impl Shared {
    fn tell(&self, event: Event) {
        // The receiver may be gone, or busy with a person.
        let _ = self.events.try_send(event);
    }

    /// Serves one connection. Returns the device that left before it had the cluster's key.
    fn serve(&self, number: u64, tcp: TcpStream, from: Option<IpAddr>) -> io::Result<Option<usize>> {
        if !self.may_begin(number, &tcp, from)? {
            return Ok(None);
        }
        let before = thread_time();
        let tls = WaitingTls::begin(&self.end, tcp);
        if let Some(from) = from {
            self.line.took(from, thread_time().saturating_sub(before));
        }
        let mut tls = tls?;
        self.step(number);
        let Some(device) = tls.peer_spki(ENROLL_PURPOSE).and_then(PublicKey::from_spki) else { return Ok(None) };
        let session = Session {
            exported: tls.export(PROOF_EXPORT)?,
            digits: tls.export(DIGITS_EXPORT)?,
            device,
            gateway: self.granted.gateway,
            cluster: self.granted.cluster,
        };
        let nonce = draw_nonce()?;
        tls.write_all(&Message::Offer(self.grant.clone(), commit(&nonce)).to_bytes())?;
        tls.wait_until(Some(Instant::now() + PATIENCE))?;
        let Message::Request(request, proof) = Message::read(&mut tls)? else { return Ok(None) };

        let digits = session.shown_digits(&Nonces { device: request.nonce, gateway: nonce });
        let presented =
            Presented { request: &request, proof: &proof, session: &session, address: from, digits: &digits };
        let (verdict, secret) = {
            // Pins are read inside: somebody may pin this device's key meanwhile.
            let mut desk = lock(&self.desk);
            match self.folder.pins() {
                Ok(pins) => desk.present(Instant::now(), &Now(pins, &self.in_use), presented),
                Err(error) => (self.trouble(&error), None),
            }
        };
        let verdict = match verdict {
            Verdict::Pin(entry) => match self.pin(entry) {
                Ok(()) => Verdict::Accepted(entry),
                Err(error) => {
                    let verdict = self.trouble(&error);
                    if matches!(verdict, Verdict::Refused(Reason::Identity, _)) {
                        lock(&self.desk).turn_down(entry);
                    }
                    verdict
                }
            },
            other => other,
        };
        match &verdict {
            Verdict::Refused(Reason::Code, _) => {
                self.tell(Event::WrongCode(from));
                std::thread::sleep(WRONG_CODE_PAUSE);
            }
            Verdict::Refused(Reason::Trouble, _) => {}
            Verdict::Refused(_, text) => self.tell(Event::Refused(from, text.clone())),
            _ => {}
        }
        let (entry, secret) = match (verdict, secret) {
            (Verdict::Wait(entry) | Verdict::Accepted(entry), Some(secret)) => (entry, secret),
            (Verdict::Refused(reason, _), _) => {
                tls.write_all(&Message::Refused(reason).to_bytes())?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        self.is_device(number, entry);
        let answer = match self.until_decided(&mut tls, entry, nonce) {
            Ok(State::TurnedDown) => {
                tls.write_all(&Message::Refused(Reason::TurnedDown).to_bytes())?;
                return Ok(None);
            }
            Ok(_) => session.prove(&secret, Role::Gateway, &request.to_bytes()),
            Err(_) => return Ok(Some(entry)),
        };
        let kept = tls.write_all(&Message::Accepted(answer).to_bytes()).and_then(|()| {
            tls.wait_until(Some(Instant::now() + KEEP_PATIENCE))?;
            Message::read(&mut tls)
        });
        match kept {
            Ok(Message::Kept) => {
                lock(&self.desk).kept(entry);
                Ok(None)
            }
            _ => Ok(Some(entry)),
        }
    }

    /// Waits for the first byte, and then until a handshake may begin; not if others take all turns for too long.
    fn may_begin(&self, number: u64, tcp: &TcpStream, from: Option<IpAddr>) -> io::Result<bool> {
        let until = Instant::now() + PATIENCE;
        tcp.set_read_timeout(Some(PATIENCE))?;
        // It ends when the connection makes room for another one.
        if tcp.peek(&mut [0])? == 0 {
            return Ok(false);
        }
        tcp.set_read_timeout(None)?;
        self.step(number);
        let Some(from) = from else { return Ok(true) };
        let turn = self.line.join(from);
        while let Some(wait) = turn.wait() {
            let is_open = lock(&self.open).contains_key(&number);
            if !is_open || self.stop.load(Ordering::SeqCst) || Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(wait.min(LOOK_AGAIN));
        }
        self.step(number);
        Ok(true)
    }

    /// Notes that a connection has come nearer to being a device.
    fn step(&self, number: u64) {
        if let Some(open) = lock(&self.open).get_mut(&number) {
            open.stepped = Instant::now();
        }
    }

    /// Notes that a connection has proven to be a device. An earlier one of the same device ends.
    fn is_device(&self, number: u64, device: usize) {
        let mut open = lock(&self.open);
        open.retain(|key, open| {
            let is_earlier = *key != number && open.device == Some(device);
            if is_earlier {
                let _ = open.tcp.shutdown(Shutdown::Both);
            }
            !is_earlier
        });
        if let Some(open) = open.get_mut(&number) {
            open.from.into_iter().for_each(|from| self.line.let_in(from));
            open.device = Some(device);
        }
    }

    /// Waits until somebody has decided, or the device leaves.
    fn until_decided(&self, tls: &mut WaitingTls, device: usize, nonce: [u8; NONCE_BYTES]) -> io::Result<State> {
        let mut has_told = false;
        loop {
            let state = lock(&self.desk).devices()[device].state;
            if state != State::Waiting {
                return Ok(state);
            }
            if !has_told {
                tls.write_all(&Message::Waiting(nonce).to_bytes())?;
                has_told = true;
            }
            tls.wait_until(Some(Instant::now() + SLICE))?;
            match Message::read(tls) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
                // It has nothing to say now.
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn trouble(&self, error: &FolderError) -> Verdict {
        self.tell(Event::Trouble(error.to_string()));
        if let FolderError::Pins(PinError::Known(..) | PinError::Shared(_)) = error {
            // It does not pass.
            return Verdict::Refused(Reason::Identity, error.to_string());
        }
        Verdict::Refused(Reason::Trouble, Reason::Trouble.sentence().to_string())
    }

    /// Pins the key of a device that waits.
    fn pin(&self, number: usize) -> Result<(), FolderError> {
        let Some(device) = lock(&self.desk).devices().get(number).cloned() else { return Ok(()) };
        if device.state != State::Waiting {
            return Ok(());
        }
        let _alone = self.folder.lock()?;
        if self.stop.load(Ordering::SeqCst) {
            // With the command, its codes have ended.
            return Ok(());
        }
        let mut pins = self.folder.pins()?;
        // Only the key that somebody saw.
        let replaced = pins.key_of(device.request.extent);
        let may_replace = replaced.is_some_and(|key| device.caution == Some(Caution::Replaces(key)));
        pins.pin_at(device.request.extent, device.key, may_replace, device.place())?;
        lock(&self.desk).pinned(number);
        Ok(())
    }
}
