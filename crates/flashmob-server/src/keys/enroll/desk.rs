//! Who is enrolled: decisions alone, without sockets, files and clock.
//!
//! What it promises: nobody without a secret that counts is let in; a secret lets in as many keys as it has uses; what a person is to confirm waits for that;
//! no pinned key is replaced unasked; wrong secrets change nothing, so that nobody can use up a code by guessing.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::message::{Reason, Request};
use super::proof::{PROOF_BYTES, Role, Session};
use super::secret::Secret;
use crate::keys::PublicKey;
use crate::store::ExtentId;

/// How often a device may come again while somebody compares digits. Each time they are others: who is in between, and knows the code, could come again until
/// they are those that the device shows.
pub const AGAIN_MAX: u32 = 5;

/// What is known of extents and keys beside the desk.
pub trait Known {
    /// The key that is pinned for an extent.
    fn pin_of(&self, extent: ExtentId) -> Option<PublicKey>;
    /// The extent for which a key is pinned.
    fn extent_of(&self, key: PublicKey) -> Option<ExtentId>;
    /// Whether a volume has this extent.
    fn is_in_use(&self, extent: ExtentId) -> bool;
}

/// What a secret is good for.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How many devices.
    pub uses: usize,
    /// Until when.
    pub until: Instant,
    /// Somebody confirms each device.
    pub needs_confirmation: bool,
}

#[derive(Debug)]
struct Ticket {
    secrets: Vec<Secret>,
    terms: Terms,
    used_by: Vec<PublicKey>,
}

/// How far a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its key is not pinned yet.
    Waiting,
    /// It is pinned; the device may not know it.
    Pinned,
    /// The device has the cluster's key.
    Kept,
    /// Somebody said no.
    TurnedDown,
}

/// Why a person has to look, though the secret alone would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caution {
    /// A volume has this extent already, of which no key is known.
    InUse,
    /// Another key is pinned for it.
    Replaces(PublicKey),
}

/// A device that has proven to know a secret.
#[derive(Debug, Clone)]
pub struct Device {
    /// What it said of itself.
    pub request: Request,
    /// Its key.
    pub key: PublicKey,
    /// Where it came from.
    pub address: Option<IpAddr>,
    /// What it shows on its screen.
    pub digits: String,
    /// How far it is.
    pub state: State,
    /// What a person should know of it.
    pub caution: Option<Caution>,
    /// A person has to confirm it.
    pub needs_confirmation: bool,
    ticket: usize,
    /// How often it came again while it waited.
    again: u32,
}

impl Device {
    /// Where gateways will reach it.
    #[must_use]
    pub fn place(&self) -> Option<SocketAddr> {
        self.address.map(|ip| SocketAddr::new(ip.to_canonical(), self.request.port))
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is refused. Of its device nothing is kept.
    Refused(Reason, String),
    /// Somebody has to confirm the device with this number.
    Wait(usize),
    /// Pin the key of the device with this number, and say so with [`Desk::pinned`].
    Pin(usize),
    /// It is pinned already.
    Accepted(usize),
}

/// A request, and how it came.
#[derive(Debug, Clone, Copy)]
pub struct Presented<'a> {
    /// What it says.
    pub request: &'a Request,
    /// Its proof.
    pub proof: &'a [u8; PROOF_BYTES],
    /// The session.
    pub session: &'a Session,
    /// The address.
    pub address: Option<IpAddr>,
    /// The digits that the device shows.
    pub digits: &'a str,
}

/// The secrets that count, and the devices that came with them.
#[derive(Debug, Default)]
pub struct Desk {
    tickets: Vec<Ticket>,
    devices: Vec<Device>,
    /// Keys that are pinned may be replaced, if somebody confirms it.
    pub may_replace: bool,
}

impl Desk {
    /// One that knows no secrets yet.
    #[must_use]
    pub fn new(may_replace: bool) -> Desk {
        Desk { may_replace, ..Desk::default() }
    }

    /// From now on each of these secrets counts; together they have the uses of `terms`.
    pub fn issue(&mut self, secrets: Vec<Secret>, terms: Terms) {
        self.tickets.push(Ticket { secrets, terms, used_by: Vec::new() });
    }

    /// The devices that came, by their numbers.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Decides on a request. With the secret that it proved to know.
    pub fn present(&mut self, now: Instant, known: &dyn Known, it: Presented<'_>) -> (Verdict, Option<Secret>) {
        let Presented { request, proof, session, .. } = it;
        let bytes = request.to_bytes();
        let is_proven = |secret: &&Secret| session.is_proven(secret, Role::Device, &bytes, proof);
        let of = |ticket: &Ticket| ticket.secrets.iter().find(is_proven).cloned();
        let found = self.tickets.iter().enumerate().find_map(|(number, ticket)| Some((number, of(ticket)?)));
        let Some((ticket, secret)) = found else {
            return (Verdict::Refused(Reason::Code, Reason::Code.sentence().to_string()), None);
        };
        let verdict = self.decide(now, known, ticket, it).unwrap_or_else(|(why, text)| Verdict::Refused(why, text));
        (verdict, Some(secret))
    }

    fn decide(
        &mut self,
        now: Instant,
        known: &dyn Known,
        ticket: usize,
        it: Presented<'_>,
    ) -> Result<Verdict, (Reason, String)> {
        let (request, key) = (it.request, it.session.device);
        let is_refused =
            |device: &Device| device.state == State::TurnedDown && (device.key, device.ticket) == (key, ticket);
        if self.devices.iter().any(is_refused) {
            // Another code is another try; another extent is not.
            return Err(turned_down());
        }
        let is_same = |device: &Device| device.key == key && device.request.extent == request.extent;
        let place = self.devices.iter().position(is_same);
        if let Some(number) = place
            && let Some(verdict) = self.again(known, number, it)?
        {
            return Ok(verdict);
        }
        let Ticket { terms, used_by, .. } = &self.tickets[ticket];
        if now >= terms.until {
            return Err((Reason::Expired, Reason::Expired.sentence().to_string()));
        }
        let is_pinned = known.pin_of(request.extent) == Some(key);
        if !is_pinned && used_by.len() >= terms.uses && !used_by.contains(&key) {
            return Err((Reason::Used, Reason::Used.sentence().to_string()));
        }
        self.refuse_foreign(known, request.extent, key)?;
        let caution = match known.pin_of(request.extent) {
            Some(pinned) if pinned != key => Some(Caution::Replaces(pinned)),
            None if known.is_in_use(request.extent) => Some(Caution::InUse),
            _ => None,
        };
        let needs_confirmation = !is_pinned && (terms.needs_confirmation || caution.is_some());
        let device = Device {
            request: request.clone(),
            key,
            address: it.address,
            digits: it.digits.to_string(),
            state: if is_pinned { State::Pinned } else { State::Waiting },
            caution,
            needs_confirmation,
            ticket,
            again: 0,
        };
        if !is_pinned && !self.tickets[ticket].used_by.contains(&key) {
            self.tickets[ticket].used_by.push(key);
        }
        let number = place.unwrap_or(self.devices.len());
        match place {
            Some(number) => self.devices[number] = device,
            None => self.devices.push(device),
        }
        Ok(match (is_pinned, needs_confirmation) {
            (true, _) => Verdict::Accepted(number),
            (false, true) => Verdict::Wait(number),
            (false, false) => Verdict::Pin(number),
        })
    }

    /// A device that came before: its connection may have broken. `None` if it is to be seen as a new one.
    fn again(
        &mut self,
        known: &dyn Known,
        number: usize,
        it: Presented<'_>,
    ) -> Result<Option<Verdict>, (Reason, String)> {
        let device = &mut self.devices[number];
        if device.state == State::TurnedDown {
            return Ok(None);
        }
        if device.state != State::Waiting && known.pin_of(device.request.extent) != Some(device.key) {
            // Somebody has removed its key meanwhile.
            device.state = State::TurnedDown;
            return Err(turned_down());
        }
        if device.state == State::Waiting && device.needs_confirmation {
            device.again += 1;
            if device.again > AGAIN_MAX {
                device.state = State::TurnedDown;
                let text = "it came again too often while it waited: somebody may be in between. Get another code from `flashmob join`";
                return Err((Reason::TurnedDown, text.to_string()));
            }
        }
        (device.request, device.address) = (it.request.clone(), it.address);
        device.digits = it.digits.to_string();
        Ok(Some(match (device.state, device.needs_confirmation) {
            (State::Waiting, true) => Verdict::Wait(number),
            (State::Waiting, false) => Verdict::Pin(number),
            _ => Verdict::Accepted(number),
        }))
    }

    /// A key proves one extent, and an extent has one key.
    fn refuse_foreign(&self, known: &dyn Known, extent: ExtentId, key: PublicKey) -> Result<(), (Reason, String)> {
        let others = self.devices.iter().filter(|device| device.state != State::TurnedDown);
        let mut others = others.filter(|device| (device.key == key) != (device.request.extent == extent));
        let text = if known.extent_of(key).is_some_and(|other| other != extent) || others.clone().any(|d| d.key == key)
        {
            "its key is that of another extent, as on a copied card: start the node with --new-key"
        } else if known.pin_of(extent).is_some_and(|other| other != key) && !self.may_replace {
            "another key is known for its extent: if the node was set up anew, run `flashmob join` with --replace; if its card was copied, \
             delete the copy's data and all files beside it whose names begin with its name"
        } else if others.any(|device| device.request.extent == extent) {
            "another device came with the same extent, as from a copied card: delete the copy's data and all files beside it whose names begin with its name"
        } else {
            return Ok(());
        };
        Err((Reason::Identity, text.to_string()))
    }

    /// The key of this device is pinned, on the flash.
    pub fn pinned(&mut self, number: usize) {
        self.step(number, State::Waiting, State::Pinned);
    }

    /// The device has recorded the cluster's key.
    pub fn kept(&mut self, number: usize) {
        self.step(number, State::Pinned, State::Kept);
    }

    /// Somebody says no. Its use of the code is not given back.
    pub fn turn_down(&mut self, number: usize) {
        self.step(number, State::Waiting, State::TurnedDown);
    }

    fn step(&mut self, number: usize, from: State, to: State) {
        if let Some(device) = self.devices.get_mut(number).filter(|device| device.state == from) {
            device.state = to;
        }
    }
}

/// What a device is told to which somebody says no.
fn turned_down() -> (Reason, String) {
    (Reason::TurnedDown, "it was turned down at the gateway".to_string())
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
