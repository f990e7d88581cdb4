//! Enrolment: messages of whoever connects to `flashmob join`, codes and links that people give, and a desk that nobody convinces without a secret.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flashmob_server::keys::PublicKey;
use flashmob_server::keys::enroll::desk::{Known, Presented, State, Terms, Verdict};
use flashmob_server::keys::enroll::message::{MESSAGE_BYTES_MAX, Message, Reason, Request};
use flashmob_server::keys::enroll::proof::{COMMITMENT_BYTES, NONCE_BYTES, PROOF_BYTES, Role, Session};
use flashmob_server::keys::enroll::{Desk, Invitation, Secret};
use flashmob_server::store::ExtentId;

/// A code, for which time does not matter.
const CODE: &str = "7KQ2-M9XR-4TWD-H3CE";
static EARLIER: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The first byte says what the rest is.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => message(rest),
        1 => code(rest),
        2 => invitation(rest),
        _ => desk(rest),
    }
}

fn message(bytes: &[u8]) {
    let mut from = bytes;
    if let Ok(message) = Message::read(&mut from) {
        let taken = &bytes[..bytes.len() - from.len()];
        assert!(taken.len() <= 2 + MESSAGE_BYTES_MAX);
        if matches!(message, Message::Refused(..)) {
            // A text behind the reason is not read.
            assert_eq!(message.to_bytes()[2..], taken[2..4]);
        } else {
            assert_eq!(message.to_bytes(), taken, "there is one way to write it");
        }
    }
}

fn code(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    if let Ok(secret) = Secret::of_code(text) {
        let code = secret.to_code();
        assert_eq!(Secret::of_code(&code).as_ref(), Ok(&secret));
        let digits = |text: &str| text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '-').count();
        assert_eq!(digits(text), digits(&code));
    }
}

fn invitation(text: &[u8]) {
    let Ok(text) = str::from_utf8(text) else { return };
    if let Ok(invitation) = text.parse::<Invitation>() {
        let link = invitation.to_link().expect("it names a cluster");
        assert_eq!(link.parse(), Ok(invitation));
    }
}

struct Nobody;

impl Known for Nobody {
    fn pin_of(&self, _: ExtentId) -> Option<PublicKey> {
        None
    }

    fn extent_of(&self, _: PublicKey) -> Option<ExtentId> {
        None
    }

    fn is_in_use(&self, extent: ExtentId) -> bool {
        extent.0[0] == 0
    }
}

/// Requests with proofs that the input makes up; every fourth has a right one, of a device that is somebody else.
fn desk(bytes: &[u8]) {
    let secret = Secret::of_code(CODE).expect("a code");
    let mut desk = Desk::new(false);
    let until = *EARLIER + Duration::from_secs(1 << 20);
    desk.issue(vec![secret.clone()], Terms { uses: 2, until, needs_confirmation: false });
    for chunk in bytes.chunks(1 + PROOF_BYTES) {
        let (number, made_up) = (chunk[0], &chunk[1..]);
        let byte = number / 4;
        let key = |byte: u8| PublicKey::of([byte.max(1); 32]).expect("only zeros are of small order");
        let session = Session {
            exported: [number; 32],
            digits: [0; 32],
            device: key(byte),
            gateway: key(254),
            cluster: key(255),
        };
        let request = Request {
            nonce: [0; NONCE_BYTES],
            extent: ExtentId([byte; 16]),
            size_bytes: 1,
            port: 1,
            name: String::new(),
        };
        let is_right = number % 4 == 0;
        let mut proof = [0; PROOF_BYTES];
        proof[..made_up.len()].copy_from_slice(made_up);
        if is_right {
            proof = session.prove(&secret, Role::Device, &request.to_bytes());
        }
        let it = Presented { request: &request, proof: &proof, session: &session, address: None, digits: "" };
        let before = desk.devices().len();
        let (verdict, found) = desk.present(*EARLIER, &Nobody, it);
        assert_eq!(found.is_some(), is_right);
        match verdict {
            Verdict::Refused(Reason::Code, _) => assert!(!is_right && desk.devices().len() == before),
            Verdict::Refused(..) => assert!(is_right),
            Verdict::Pin(entry) => {
                assert!(is_right && byte != 0);
                desk.pinned(entry);
            }
            Verdict::Wait(entry) => assert!(byte == 0 && desk.devices()[entry].state == State::Waiting),
            Verdict::Accepted(_) => unreachable!("nothing is pinned"),
        }
        assert!(desk.devices().len() <= 2, "a code with two uses");
    }
}

/// One of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    let request = Request {
        nonce: [6; NONCE_BYTES],
        extent: ExtentId([1; 16]),
        size_bytes: 1 << 30,
        port: 7411,
        name: "nexus7-a".into(),
    };
    let link = "flashmob://join/192.168.1.10:7413#BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc.AAECAwQFBgcICQoLDA0ODw";
    let devices: Vec<u8> = [4u8, 5, 4, 8, 12, 0].iter().flat_map(|&n| [&[n][..], &[n; PROOF_BYTES]].concat()).collect();
    vec![
        ("offer", of(0, &Message::Offer(vec![3; 145], [4; COMMITMENT_BYTES]).to_bytes())),
        ("request", of(0, &Message::Request(request, [2; PROOF_BYTES]).to_bytes())),
        ("waiting", of(0, &Message::Waiting([7; NONCE_BYTES]).to_bytes())),
        ("accepted", of(0, &Message::Accepted([2; PROOF_BYTES]).to_bytes())),
        ("refused", of(0, &[&[8, 0, 5, 3], &b"\x1b[2Jed"[..]].concat())),
        ("kept", of(0, &Message::Kept.to_bytes())),
        ("code", of(1, CODE.as_bytes())),
        ("code_typed", of(1, b" 7kq2 m9xr 4twd h3ce\n")),
        ("link", of(2, link.as_bytes())),
        ("link_cut", of(2, &link.as_bytes()[..90])),
        ("desk", of(3, &devices)),
    ]
}
