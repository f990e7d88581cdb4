//! The device's end of an enrolment.

use std::io::{self, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use super::ENROLL_PURPOSE;
use super::desk::AGAIN_MAX;
use super::message::{Message, Reason, Request};
use super::proof::{DIGITS_EXPORT, Nonces, PROOF_EXPORT, Role, Session, commit, draw_nonce};
use super::secret::Invitation;
use crate::keys::{Grant, PublicKey, SecretKey};
use crate::net::stream::connect_waiting_from;
use crate::net::tls::{PATIENCE, WaitingTls};

/// Pauses between attempts: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often a device tells that it knows a typed code without getting a proof that the other end does. Each time is another draw of six digits for who is in
/// between, who may end it unseen; the gateway bears with a device as often.
pub const TRIES_MAX: u32 = 1 + AGAIN_MAX;
/// Silence after which the kernel probes a gateway where somebody takes long to confirm.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The log's line before that of six digits.
const WAITING: &str = "waiting for confirmation at the gateway, which must show these six digits for this device:";

/// A device that wants to be enrolled.
#[derive(Debug)]
pub struct Applicant<'a> {
    /// Its key.
    pub key: &'a SecretKey,
    /// What it says of itself.
    pub request: Request,
    /// The address on which it will serve gateways; `None` for all that it has.
    pub serves_at: Option<IpAddr>,
    /// The cluster that its extent belongs to, which no other may get.
    pub cluster: Option<PublicKey>,
}

/// Why a device is not enrolled.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The gateway was not reached, or the connection broke: another attempt may succeed.
    #[error("{0}: {1}")]
    Broken(String, #[source] io::Error),
    /// The gateway says no.
    #[error("not enrolled: {}", .0.sentence())]
    Refused(Reason),
    /// Too many connections, of this number, ended before the gateway had proven that it knows the code.
    #[error(
        "not enrolled: {TRIES_MAX} connections to {0} ended before it had proven that it knows the code: somebody may be in between. Get another code from \
         `flashmob join`"
    )]
    Unproven(String),
    /// What answers is no gateway of the cluster.
    #[error("not enrolled: what answers at {0} {1}")]
    Impostor(String, &'static str),
    /// The gateway is of another cluster than the extent.
    #[error(
        "not enrolled: the extent belongs to cluster {}, and the gateway to {}; if the first one's key is lost, --repin gives the extent, with its data, to \
         the second", .0.short(), .1.short()
    )]
    OtherCluster(PublicKey, PublicKey),
    /// The device cannot use its own key, or record the cluster's.
    #[error(transparent)]
    Own(anyhow::Error),
}

/// Records the cluster, and the generation of the gateway's grant: those of earlier ones are void from now on.
pub type Keep<'a> = dyn FnMut(&Grant) -> anyhow::Result<()> + 'a;

/// Enrolls a device, in as many attempts as it takes until somebody says yes or no. `keep` records the cluster's key before the gateway is told that it is
/// recorded.
///
/// # Errors
/// See [`ApplyError`]; not if the gateway is not there, or not yet. With a typed code it gives up after [`TRIES_MAX`] connections without a proof.
pub fn apply(invitation: &Invitation, applicant: &Applicant<'_>, keep: &mut Keep<'_>) -> Result<PublicKey, ApplyError> {
    apply_pausing(invitation, applicant, keep, std::thread::sleep)
}

/// As [`apply`], with another way to pause between attempts.
///
/// # Errors
/// As [`apply`].
pub fn apply_pausing(
    invitation: &Invitation,
    applicant: &Applicant<'_>,
    keep: &mut Keep<'_>,
    mut sleep: impl FnMut(Duration),
) -> Result<PublicKey, ApplyError> {
    let (mut pause, mut told, mut tries) = (PAUSE_MIN, None, 0);
    loop {
        let mut course = Course::default();
        match attempt_once(invitation, applicant, keep, &mut course) {
            Err(error @ ApplyError::Broken(..)) => {
                // A link names the cluster: nobody else gets that far.
                tries += u32::from(course.has_asked && invitation.cluster.is_none());
                if tries >= TRIES_MAX {
                    log::warn!("{error}");
                    return Err(ApplyError::Unproven(invitation.address.clone()));
                }
                let text = error.to_string();
                // Digits that were shown are no longer those of a connection.
                if course.has_waited || told.as_ref() != Some(&text) {
                    log::warn!("{text}; trying again until Ctrl-C");
                    told = Some(text);
                }
                sleep(pause);
                pause = (2 * pause).min(PAUSE_MAX);
            }
            outcome => return outcome,
        }
    }
}

/// How far an attempt got.
#[derive(Debug, Default)]
struct Course {
    /// The other end has the proof of this one.
    has_asked: bool,
    /// Digits were shown.
    has_waited: bool,
}

/// One attempt.
///
/// # Errors
/// See [`ApplyError`].
pub fn attempt(
    invitation: &Invitation,
    applicant: &Applicant<'_>,
    keep: &mut Keep<'_>,
) -> Result<PublicKey, ApplyError> {
    attempt_once(invitation, applicant, keep, &mut Course::default())
}

fn attempt_once(
    invitation: &Invitation,
    applicant: &Applicant<'_>,
    keep: &mut Keep<'_>,
    course: &mut Course,
) -> Result<PublicKey, ApplyError> {
    let address = &invitation.address;
    let broken = |what: &str| {
        let what = format!("{what} {address}");
        move |error: io::Error| ApplyError::Broken(what, error)
    };
    let impostor = |why| ApplyError::Impostor(address.clone(), why);
    // Any key: the secret decides.
    let is_key = |spki: &[u8]| PublicKey::from_spki(spki).is_some();
    let end = applicant.key.client_end(ENROLL_PURPOSE, is_key).map_err(|error| ApplyError::Own(error.into()))?;
    let tcp = connect(address, applicant.serves_at).map_err(broken("cannot reach `flashmob join` at"))?;
    let mut tls = match WaitingTls::begin(&end, tcp) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(impostor("is no `flashmob join`: check the address, and that both run the same version"));
        }
        begun => begun.map_err(broken("no connection to"))?,
    };
    let gateway = tls.peer_spki(ENROLL_PURPOSE).and_then(PublicKey::from_spki);
    let Some(gateway) = gateway else { return Err(impostor("is no `flashmob join`")) };

    tls.wait_until(Some(Instant::now() + PATIENCE)).map_err(broken("no connection to"))?;
    let Message::Offer(grant, commitment) = Message::read(&mut tls).map_err(broken("nothing comes from"))? else {
        return Err(impostor("does not begin with an offer"));
    };
    let Some(grant) = Grant::parse(&grant).ok().filter(|grant| grant.gateway == gateway) else {
        return Err(impostor("shows the grant of another gateway: somebody may be in between"));
    };
    let cluster = grant.cluster;
    if invitation.cluster.is_some_and(|wanted| wanted != cluster) {
        return Err(impostor("is a gateway of another cluster than the link names: somebody may be in between"));
    }
    if let Some(own) = applicant.cluster.filter(|own| *own != cluster) {
        return Err(ApplyError::OtherCluster(own, cluster));
    }
    let export = |label| tls.export(label).map_err(broken("no session with"));
    let session = Session {
        exported: export(PROOF_EXPORT)?,
        digits: export(DIGITS_EXPORT)?,
        device: applicant.key.public(),
        gateway,
        cluster,
    };
    let nonce = draw_nonce().map_err(|error| ApplyError::Own(error.into()))?;
    let message = Request { nonce, ..applicant.request.clone() };
    let request = message.to_bytes();
    let proof = session.prove(&invitation.secret, Role::Device, &request);
    let message = Message::Request(message, proof);
    course.has_asked = true;
    tls.write_all(&message.to_bytes()).map_err(broken("no connection to"))?;

    // Somebody may have to confirm it, which may take long.
    tls.wait_until(None).map_err(broken("no connection to"))?;
    let accepted = loop {
        match Message::read(&mut tls).map_err(broken("no answer from"))? {
            Message::Waiting(gateway) if commit(&gateway) == commitment && !course.has_waited => {
                course.has_waited = true;
                log::info!("{WAITING}");
                // Alone in its line, and nothing that anybody else said is in the lines before it.
                log::info!("{}", session.shown_digits(&Nonces { device: nonce, gateway }));
            }
            Message::Accepted(proof) => break proof,
            Message::Refused(reason @ Reason::Trouble) => {
                let text = io::Error::other(reason.sentence());
                return Err(ApplyError::Broken(format!("not enrolled yet by {address}"), text));
            }
            Message::Refused(reason) => return Err(ApplyError::Refused(reason)),
            _ => return Err(impostor("does not answer as a gateway does")),
        }
    };
    if !session.is_proven(&invitation.secret, Role::Gateway, &request, &accepted) {
        return Err(impostor(
            "does not know the code: somebody may be in between. Get another code from `flashmob join`",
        ));
    }
    keep(&grant).map_err(ApplyError::Own)?;
    // The gateway has done its part: without this it does not know that the device has, too.
    let _ = tls.write_all(&Message::Kept.to_bytes());
    Ok(cluster)
}

/// Connects from where the device serves gateways, if that is one address: the other end takes the source for that.
fn connect(address: &str, serves_at: Option<IpAddr>) -> io::Result<TcpStream> {
    let own = serves_at.filter(|ip| !ip.is_unspecified());
    let stream = connect_waiting_from(own, address, PATIENCE)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}
