//! Enrolment over real sockets: who has the code gets in, once; nobody in between gets anything.

mod cluster;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashmob_core::op::{Op, OpFlags};
use flashmob_server::keys::enroll::desk::{Caution, State, Terms};
use flashmob_server::keys::enroll::device::attempt;
use flashmob_server::keys::enroll::device::{TRIES_MAX, apply_pausing};
use flashmob_server::keys::enroll::message::{Message, Reason, Request};
use flashmob_server::keys::enroll::proof::{DIGITS_EXPORT, PROOF_EXPORT, Role, Session};
use flashmob_server::keys::enroll::serve::{CONNECTIONS_MAX, Event};
use flashmob_server::keys::enroll::{Applicant, ApplyError, ENROLL_PURPOSE, Invitation, JoinPort, Secret};
use flashmob_server::keys::{Folder, Grant, PublicKey, SecretKey};
use flashmob_server::net::tls::{TlsEnd, TlsIdentity, WaitingTls};
use flashmob_server::node::Enrollment;
use flashmob_server::store::ExtentId;

use cluster::until;

/// A cluster's keys, and its open port.
struct Desk {
    port: JoinPort,
    events: Receiver<Event>,
    folder: Folder,
    dir: tempfile::TempDir,
}

impl Desk {
    fn open() -> Desk {
        Desk::with(HashSet::new(), false)
    }

    fn with(in_use: HashSet<ExtentId>, may_replace: bool) -> Desk {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::at(&dir.path().join("keys"));
        folder.create().expect("keys");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let (port, events) = JoinPort::open(folder.clone(), listen, in_use, may_replace).expect("a port");
        Desk { port, events, folder, dir }
    }

    fn issue(&self, uses: usize, needs_confirmation: bool) -> Secret {
        let secret = Secret::draw_code().expect("a secret");
        let until = Instant::now() + Duration::from_secs(3600);
        self.port.issue(vec![secret.clone()], Terms { uses, until, needs_confirmation });
        secret
    }

    fn invitation(&self, secret: &Secret) -> Invitation {
        Invitation { address: self.port.address().to_string(), cluster: None, secret: secret.clone() }
    }

    fn pinned(&self) -> Vec<(ExtentId, PublicKey)> {
        self.folder.pins().expect("pins").iter().collect()
    }

    /// Confirms devices as they come, `count` of them.
    fn confirm(&self, count: usize) {
        let mut confirmed = 0;
        until("devices come", || {
            for (number, device) in self.port.devices().iter().enumerate() {
                if device.state == State::Waiting && device.needs_confirmation {
                    self.port.confirm(number).expect("confirmed");
                    confirmed += 1;
                }
            }
            (confirmed >= count).then_some(())
        });
    }

    fn until_kept(&self, count: usize) {
        let kept = || self.port.devices().iter().filter(|device| device.state == State::Kept).count();
        until("devices have the cluster's key", || (kept() == count).then_some(()));
    }
}

/// A device without an extent.
struct Device {
    key: SecretKey,
    request: Request,
    serves_at: Option<IpAddr>,
}

impl Device {
    fn new(byte: u8) -> Device {
        let request = Request {
            nonce: [0; 16],
            extent: ExtentId([byte; 16]),
            size_bytes: 1 << 20,
            port: 7411,
            name: format!("d{byte}"),
        };
        Device { key: SecretKey::draw().expect("a key"), request, serves_at: None }
    }

    /// Attempts until somebody says yes or no, as a busy machine may break one. With what it kept.
    fn come(&self, invitation: &Invitation) -> (Result<PublicKey, ApplyError>, Option<PublicKey>) {
        until("an answer", || match self.come_once(invitation) {
            (Err(ApplyError::Broken(..)), None) => None,
            answered => Some(answered),
        })
    }

    /// One attempt. With what it kept.
    fn come_once(&self, invitation: &Invitation) -> (Result<PublicKey, ApplyError>, Option<PublicKey>) {
        let mut kept = None;
        let applicant =
            Applicant { key: &self.key, request: self.request.clone(), serves_at: self.serves_at, cluster: None };
        let mut keep = |grant: &Grant| {
            kept = Some(grant.cluster);
            Ok(())
        };
        (attempt(invitation, &applicant, &mut keep), kept)
    }

    fn refusal(&self, invitation: &Invitation) -> (Reason, &'static str) {
        match self.come(invitation) {
            (Err(ApplyError::Refused(reason)), None) => (reason, reason.sentence()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_has_the_code_gets_in_after_somebody_has_said_yes() {
    let desk = Desk::open();
    let (first, second) = (Device::new(1), Device::new(2));
    let code = desk.issue(1, true);
    let invitation = desk.invitation(&code);
    std::thread::scope(|scope| {
        let came = scope.spawn(|| first.come(&invitation));
        let device = until("it comes", || desk.port.devices().pop());
        let sent = Request { nonce: device.request.nonce, ..first.request.clone() };
        assert_eq!((device.request, device.state), (sent, State::Waiting));
        assert_eq!(second.refusal(&invitation).0, Reason::Used);
        assert!(desk.pinned().is_empty(), "nobody has said yes");
        desk.confirm(1);
        let (outcome, kept) = came.join().expect("a device");
        assert_eq!((outcome.expect("enrolled"), kept), (desk.port.cluster(), Some(desk.port.cluster())));
    });
    desk.until_kept(1);
    assert_eq!(desk.pinned(), [(first.request.extent, first.key.public())]);
    let is_told = |event: Event| matches!(event, Event::Refused(_, text) if text.contains("another device"));
    assert!(desk.events.try_iter().any(is_told));

    // Somebody says no.
    let invitation = desk.invitation(&desk.issue(1, true));
    std::thread::scope(|scope| {
        let came = scope.spawn(|| second.refusal(&invitation));
        until("it comes", || desk.port.devices().get(1).cloned());
        desk.port.turn_down(1);
        assert_eq!(came.join().expect("a device").0, Reason::TurnedDown);
    });
    assert_eq!(desk.pinned().len(), 1);
}

#[test]
fn guesses_are_slowed_and_nobody_is_locked_out_by_them() {
    let desk = Desk::open();
    let code = desk.issue(1, false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for byte in 0..20 {
            let invitation = desk.invitation(&Secret::draw_code().expect("a secret"));
            scope.spawn(move || assert_eq!(Device::new(byte).refusal(&invitation).0, Reason::Code));
        }
    });
    assert!(begun.elapsed() >= Duration::from_secs(1), "a guess waits for its answer");
    let (outcome, _) = Device::new(1).come(&desk.invitation(&code));
    assert_eq!(outcome.expect("enrolled"), desk.port.cluster());
}

#[test]
fn a_link_names_the_cluster_and_no_other_gets_the_device() {
    let (desk, other) = (Desk::open(), Desk::open());
    let code = other.issue(1, false);
    let mut invitation = other.invitation(&code);
    invitation.cluster = Some(desk.port.cluster());
    match Device::new(1).come(&invitation) {
        (Err(ApplyError::Impostor(_, why)), None) => assert!(why.contains("another cluster"), "{why}"),
        outcome => panic!("{outcome:?}"),
    }
    assert!(other.pinned().is_empty());
    // An extent that belongs to a cluster.
    let device = Device::new(2);
    let own = Some(desk.port.cluster());
    let applicant = Applicant { key: &device.key, request: device.request.clone(), serves_at: None, cluster: own };
    let outcome = attempt(&other.invitation(&code), &applicant, &mut |_| panic!("it is given to another cluster"));
    assert!(matches!(outcome, Err(ApplyError::OtherCluster(..))), "{outcome:?}");
}

#[test]
fn known_extents_and_keys_are_not_taken_unasked() {
    let in_use = ExtentId([9; 16]);
    let desk = Desk::with(HashSet::from([in_use]), true);
    let token = desk.issue(10, false);
    let invitation = desk.invitation(&token);
    let (first, clone) = (Device::new(1), Device::new(1));
    first.come(&invitation).0.expect("enrolled");
    first.come(&invitation).0.expect("enrolled again, which changes nothing");
    assert_eq!(clone.refusal(&invitation).0, Reason::Identity, "a copied card");
    let moved = Device { request: Request { extent: ExtentId([7; 16]), ..first.request }, ..first };
    assert_eq!(moved.refusal(&invitation).0, Reason::Identity, "a copied key");

    // The extent of a volume, of which no key is known; and one with another key, in a later run.
    let (adopted, again) = (Device::new(9), Device::new(1));
    std::thread::scope(|scope| {
        let came = scope.spawn(|| adopted.come(&invitation).0);
        until("it comes", || {
            desk.port.devices().get(1).filter(|device| device.caution == Some(Caution::InUse)).cloned()
        });
        assert_eq!(desk.pinned().len(), 1);
        desk.confirm(1);
        came.join().expect("a device").expect("enrolled");
    });
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let (port, _events) = JoinPort::open(desk.folder.clone(), listen, HashSet::new(), false).expect("a port");
    let secret = Secret::draw_code().expect("a secret");
    let until = Instant::now() + Duration::from_secs(3600);
    port.issue(vec![secret.clone()], Terms { uses: 1, until, needs_confirmation: false });
    let invitation = Invitation { address: port.address().to_string(), cluster: None, secret };
    let (reason, text) = again.refusal(&invitation);
    assert!(reason == Reason::Identity && text.contains("--replace"), "{text}");
}

#[test]
fn a_device_whose_connection_breaks_comes_again_with_the_same_code() {
    let desk = Desk::open();
    let invitation = desk.invitation(&desk.issue(1, true));
    let device = Device::new(1);
    let (relay, connections) = cutting_relay(desk.port.address());
    let through = Invitation { address: relay.to_string(), ..invitation.clone() };
    std::thread::scope(|scope| {
        let came = scope.spawn(|| device.come_once(&through));
        until("it waits", || desk.port.devices().pop());
        connections.lock().expect("connections").drain(..).for_each(|stream| {
            let _ = stream.shutdown(Shutdown::Both);
        });
        let (outcome, kept) = came.join().expect("a device");
        assert!(matches!(outcome, Err(ApplyError::Broken(..))) && kept.is_none(), "{outcome:?}");
    });
    until("that is told", || matches!(desk.events.try_recv(), Ok(Event::Left(0))).then_some(()));
    // Confirmed while it is away.
    desk.confirm(1);
    assert_eq!(device.come(&invitation).0.expect("enrolled"), desk.port.cluster());
    desk.until_kept(1);
    assert_eq!(desk.port.devices().len(), 1);
}

#[test]
fn silent_connections_keep_no_device_out() {
    let desk = Desk::open();
    let invitation = desk.invitation(&desk.issue(1, false));
    let silent: Vec<TcpStream> =
        (0..CONNECTIONS_MAX + 20).map(|_| TcpStream::connect(desk.port.address()).expect("a connection")).collect();
    let device = Device::new(1);
    device.come(&invitation).0.expect("enrolled");
    drop(silent);
}

/// Passes bytes on, and lets the test cut connections.
fn cutting_relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let open = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&open);
    let address = relay_each(to, move |near, far| {
        kept.lock().expect("connections").push(near.try_clone().expect("a handle"));
        None::<Flip>.pass(near, far);
    });
    (address, open)
}

/// A byte of one direction that is changed.
#[derive(Debug, Clone, Copy)]
struct Flip {
    from_device: bool,
    at: usize,
}

trait Pass {
    fn pass(self, near: TcpStream, far: TcpStream);
}

impl Pass for Option<Flip> {
    fn pass(self, near: TcpStream, far: TcpStream) {
        for (from, to, from_device) in [(&near, &far, true), (&far, &near, false)] {
            let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
            std::thread::spawn(move || {
                let (mut bytes, mut passed) = ([0; 4096], 0);
                while let Ok(n @ 1..) = from.read(&mut bytes) {
                    if let Some(flip) = self.filter(|flip| flip.from_device == from_device)
                        && (passed..passed + n).contains(&flip.at)
                    {
                        bytes[flip.at - passed] ^= 1;
                    }
                    passed += n;
                    if to.write_all(&bytes[..n]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
}

fn relay_each(to: SocketAddr, mut each: impl FnMut(TcpStream, TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (Ok(near), Ok(far)) = (near, TcpStream::connect(to)) else { return };
            each(near, far);
        }
    });
    address
}

/// Bytes of the dialogue in each direction, at least. Lengths of records are left alone: to wait for bytes that do not come takes long.
const DIALOGUE_BYTES: usize = 500;

#[test]
fn a_changed_byte_enrols_nobody() {
    let desk = Desk::open();
    let code = desk.issue(usize::MAX, false);
    let all = (0..DIALOGUE_BYTES).step_by(29).flat_map(|at| [true, false].map(|from_device| Flip { from_device, at }));
    let cluster = desk.port.cluster();
    let handles: Vec<JoinHandle<bool>> = all
        .enumerate()
        .map(|(number, flip)| {
            let address = relay_each(desk.port.address(), move |near, far| Some(flip).pass(near, far));
            let invitation = Invitation { address: address.to_string(), ..desk.invitation(&code) };
            std::thread::spawn(move || {
                let (outcome, kept) = Device::new(number as u8).come_once(&invitation);
                // The version in a record's header means nothing, and may be anything (RFC 8446, 5.1).
                assert!(kept.is_none_or(|kept| kept == cluster), "{flip:?}");
                assert_eq!(outcome.is_ok(), kept.is_some(), "{flip:?}");
                kept.is_some()
            })
        })
        .collect();
    let count = handles.len();
    let enrolled: Vec<bool> = handles.into_iter().map(|handle| handle.join().expect("a device")).collect();
    let ignored = enrolled.iter().filter(|is| **is).count();
    assert!(ignored <= count / 10, "{ignored} of {count} changes were not seen");
    for device in desk.port.devices().iter().filter(|device| device.state == State::Kept) {
        assert!(enrolled[usize::from(device.request.extent.0[0])], "the gateway believes what is not so");
    }
}

/// Somebody in between, who ends TLS on both sides with a key of his own.
fn in_between(
    to: SocketAddr,
    act: impl FnOnce(&mut WaitingTls, &mut WaitingTls, &SecretKey) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        let own = SecretKey::draw().expect("a key");
        let identity = TlsIdentity { pkcs8: &own.to_pkcs8(), spki: &own.public().to_spki() };
        let server = TlsEnd::server(&identity, ENROLL_PURPOSE, |_| true).expect("an end");
        let client = TlsEnd::client(&identity, ENROLL_PURPOSE, |_| true).expect("an end");
        let (near, _) = listener.accept().expect("a device");
        let far = TcpStream::connect(to).expect("a gateway");
        let mut near = WaitingTls::begin(&server, near).expect("TLS");
        let mut far = WaitingTls::begin(&client, far).expect("TLS");
        act(&mut near, &mut far, &own);
    });
    (address, thread)
}

/// Somebody who shows a grant of a cluster of his own, reads the request, and answers with these bytes. Returns how many came.
fn pretends(listener: TcpListener, answers: Vec<Vec<u8>>) -> JoinHandle<usize> {
    std::thread::spawn(move || {
        let (own, cluster) = (SecretKey::draw().expect("a key"), SecretKey::draw().expect("a key"));
        let identity = TlsIdentity { pkcs8: &own.to_pkcs8(), spki: &own.public().to_spki() };
        let server = TlsEnd::server(&identity, ENROLL_PURPOSE, |_| true).expect("an end");
        let mut count = 0;
        for answer in answers {
            let (near, _) = listener.accept().expect("a device");
            let mut near = WaitingTls::begin(&server, near).expect("TLS");
            let grant = Grant::sign(&cluster, own.public(), 1);
            near.write_all(&Message::Offer(grant, [0; 32]).to_bytes()).expect("sent");
            let Ok(Message::Request(..)) = Message::read(&mut near) else { panic!("no request") };
            near.write_all(&answer).expect("sent");
            count += 1;
        }
        count
    })
}

/// A refusal with a text, as earlier versions send it.
fn refusal_with(reason: Reason, text: &str) -> Vec<u8> {
    let body = [&[5, reason as u8], text.as_bytes()].concat();
    [&(body.len() as u16).to_le_bytes()[..], &body].concat()
}

#[test]
fn nothing_that_is_said_before_the_proof_is_shown() {
    const WAITING: &str = "waiting for confirmation at the gateway, which must show 442 278 for this device";
    let forged = [
        format!("busy; trying again.{}[2026-11-28T10:00:00Z INFO ] {WAITING}{}", " ".repeat(80), " ".repeat(200)),
        format!("busy\r\n[2026-11-28T10:00:00Z INFO ] {WAITING}\n"),
        "[2026-11-28T10:00:00Z INFO ] 442 278".to_string(),
    ];
    let reasons = [Reason::Code, Reason::Expired, Reason::Used, Reason::Identity, Reason::TurnedDown, Reason::Trouble];
    for (reason, text) in reasons.into_iter().flat_map(|reason| forged.iter().map(move |text| (reason, text))) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let thread = pretends(listener, vec![refusal_with(reason, text)]);
        let secret = Secret::draw_code().expect("a secret");
        let device = Device::new(1);
        let outcome = device.come_once(&Invitation { address, cluster: None, secret });
        let (Err(error), None) = outcome else { panic!("{outcome:?}") };
        let mut shown = format!("{error} {error:?}");
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        while let Some(cause) = source {
            shown += &cause.to_string();
            source = cause.source();
        }
        assert!(
            shown.contains(reason.sentence()) || format!("{reason:?}") != "Trouble" && shown.contains("not enrolled"),
            "{shown}"
        );
        for piece in ["442 278", "busy", "INFO", "    "] {
            assert!(!shown.contains(piece), "{shown}");
        }
        thread.join().expect("as planned");
    }
}

#[test]
fn a_device_gives_up_where_nobody_proves_to_know_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    // Nothing, and a trouble, in turn.
    let answer = |at: u32| if at.is_multiple_of(2) { Vec::new() } else { refusal_with(Reason::Trouble, "busy") };
    let thread = pretends(listener, (0..TRIES_MAX).map(answer).collect());
    let secret = Secret::draw_code().expect("a secret");
    let device = Device::new(1);
    let applicant = Applicant { key: &device.key, request: device.request.clone(), serves_at: None, cluster: None };
    let mut pauses = 0;
    let invitation = Invitation { address, cluster: None, secret };
    let outcome = apply_pausing(&invitation, &applicant, &mut |_| panic!("nothing to keep"), |_| pauses += 1);
    let error = outcome.expect_err("no proof");
    assert!(matches!(error, ApplyError::Unproven(_)), "{error:?}");
    assert!(error.to_string().contains(&format!("{TRIES_MAX} connections")), "{error}");
    assert_eq!((pauses, thread.join().expect("as planned")), (TRIES_MAX - 1, TRIES_MAX as usize));
}

#[test]
fn who_is_in_between_gets_nothing() {
    let desk = Desk::open();
    let code = desk.issue(1, false);
    let device = Device::new(1);

    // He shows the gateway's own grant, which he has from it.
    let (address, thread) = in_between(desk.port.address(), |near, far, _| {
        let offer = Message::read(far).expect("an offer");
        near.write_all(&offer.to_bytes()).expect("sent");
        assert!(Message::read(near).is_err(), "the device says nothing");
    });
    match device.come_once(&Invitation { address: address.to_string(), ..desk.invitation(&code) }) {
        (Err(ApplyError::Impostor(_, why)), None) => assert!(why.contains("in between"), "{why}"),
        outcome => panic!("{outcome:?}"),
    }
    thread.join().expect("as planned");

    // He shows a grant of a cluster of his own, relays the device's proof, and answers with that proof, or with one of a code that he guesses.
    for is_guessed in [true, false] {
        let (address, thread) = in_between(desk.port.address(), move |near, far, own| {
            let cluster = SecretKey::draw().expect("a key");
            let grant = Grant::sign(&cluster, own.public(), 1);
            near.write_all(&Message::Offer(grant, [0; 32]).to_bytes()).expect("sent");
            let Ok(Message::Request(request, proof)) = Message::read(near) else { panic!("no request") };
            let _offer = Message::read(far).expect("an offer");
            far.write_all(&Message::Request(request.clone(), proof).to_bytes()).expect("sent");
            let answer = Message::read(far).expect("an answer");
            assert!(matches!(answer, Message::Refused(Reason::Code)), "{answer:?}");
            let device = near.peer_spki(ENROLL_PURPOSE).and_then(PublicKey::from_spki).expect("a key");
            let exported = near.export(PROOF_EXPORT).expect("exported");
            let digits = near.export(DIGITS_EXPORT).expect("exported");
            let session = Session { exported, digits, device, gateway: own.public(), cluster: cluster.public() };
            let guess = Secret::draw_code().expect("a secret");
            let guessed = session.prove(&guess, Role::Gateway, &request.to_bytes());
            let made_up = if is_guessed { guessed } else { proof };
            near.write_all(&Message::Accepted(made_up).to_bytes()).expect("sent");
        });
        match device.come_once(&Invitation { address: address.to_string(), ..desk.invitation(&code) }) {
            (Err(ApplyError::Impostor(_, why)), None) => assert!(why.contains("does not know the code"), "{why}"),
            outcome => panic!("{outcome:?}"),
        }
        thread.join().expect("as planned");
    }
    assert!(desk.pinned().is_empty() && desk.port.devices().is_empty());
    // The code is as good as before.
    device.come(&desk.invitation(&code)).0.expect("enrolled");
}

#[test]
fn a_node_is_enrolled_and_a_running_gateway_uses_it() {
    let desk = Desk::open();
    let code = desk.issue(1, true);
    let path = desk.dir.path().join("a");
    let invitation = desk.invitation(&code);
    let enroll = move || {
        let invitation = invitation.clone();
        let invite = Arc::new(move || Ok(invitation.clone()));
        Some(Enrollment { invite, is_typed: true, serves_at: ([0, 0, 0, 0], 0).into(), name: "tablet".to_string() })
    };
    let node = std::thread::scope(|scope| {
        let opened = scope.spawn(|| cluster::enrolled_node(&path, 1 << 20, enroll()));
        desk.confirm(1);
        opened.join().expect("a thread").expect("a node")
    });
    desk.until_kept(1);
    assert_eq!(desk.port.devices()[0].request.port, node.address.port());
    assert_eq!(desk.pinned(), [(node.extent_id, node.key.expect("a key"))]);
    let config = format!(
        "keys = '{}'\n[[volume]]\nname = 'v'\ntimeout = '60s'\n[[volume.node]]\naddress = '{}'\nsize = '1MiB'\n",
        desk.dir.path().join("keys").display(),
        node.address
    );
    let gateway = cluster::gateway(&config);
    let written = gateway.handle.call(0, Op::Write, OpFlags::NONE, vec![(0, 4)], b"data".to_vec()).wait();
    assert!(written.is_ok(), "{written:?}");
    node.end();

    // It starts again with the same options: the code is neither needed nor asked for.
    let used = Some(Enrollment {
        invite: Arc::new(|| panic!("it is enrolled")),
        is_typed: true,
        serves_at: ([0, 0, 0, 0], 0).into(),
        name: String::new(),
    });
    let again = cluster::enrolled_node(&path, 1 << 20, used).expect("a node");
    assert_eq!(desk.pinned(), [(again.extent_id, again.key.expect("a key"))]);
    drop(again);

    // A token of another cluster.
    let other = Desk::open();
    let mut invitation = other.invitation(&other.issue(1, false));
    invitation.cluster = Some(other.port.cluster());
    let invite = Arc::new(move || Ok(invitation.clone()));
    let foreign =
        Some(Enrollment { invite, is_typed: false, serves_at: ([0, 0, 0, 0], 0).into(), name: String::new() });
    let error = cluster::enrolled_node(&path, 1 << 20, foreign).map(|_| ()).expect_err("another cluster");
    assert!(error.to_string().contains("--repin"), "{error:#}");
    assert!(other.pinned().is_empty());
}

#[test]
fn a_device_is_shown_where_it_listens_and_not_where_it_comes_from() {
    // One that is not its own, and so cannot be come from, tells nothing.
    for (serves_at, seen) in [("127.0.0.5", "127.0.0.5"), ("0.0.0.0", "127.0.0.1"), ("192.0.2.7", "127.0.0.1")] {
        let desk = Desk::open();
        let device = Device { serves_at: serves_at.parse().ok(), ..Device::new(1) };
        let invitation = desk.invitation(&desk.issue(1, true));
        std::thread::scope(|scope| {
            let came = scope.spawn(|| device.come(&invitation));
            let seen_at = until("it comes", || desk.port.devices().pop()).place();
            assert_eq!(seen_at, format!("{seen}:7411").parse().ok());
            desk.confirm(1);
            assert!(came.join().expect("a device").0.is_ok());
        });
    }
}
