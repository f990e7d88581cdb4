//! Announcing a node over HTTP: one POST to the administrative port of a gateway or of `flashmob discover`; inside TLS if the node has keys.
//!
//! This needs only a connection: no multicast, no list of interfaces, and no name service if the address is numeric.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::announcement::JoinAnswer;
use super::{DISCOVER_PORT, JOIN_EVERY};
use crate::net::fetch::{self, FetchError, post};
use crate::net::tls::TlsEnd;

/// The prefix of the address in a QR code.
pub const URL_PREFIX: &str = "flashmob://join/";
/// Timeout of connecting, and of the rest.
const TIMEOUT: Duration = Duration::from_secs(6);
/// Interval of announcements of a node with keys, while its address stays.
const KEYED_EVERY: Duration = Duration::from_secs(60);
/// The first pause after a failure; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause: the same as between successful announcements.
const PAUSE_MAX: Duration = JOIN_EVERY;

/// The receiver of announcements: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(String);

/// An argument that may be a link of `flashmob join`, whose secret has no place among arguments and in what is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Without a secret.
    Open(Target),
    /// It had one, which is forgotten.
    HadSecret,
}

impl FromStr for Place {
    type Err = BadTarget;

    /// Never fails where there may be a secret: the error would be shown with it.
    fn from_str(text: &str) -> Result<Place, BadTarget> {
        if text.contains('#') { Ok(Place::HadSecret) } else { text.parse().map(Place::Open) }
    }
}

impl Place {
    /// The target.
    ///
    /// # Errors
    /// There was a secret: what to do with it.
    pub fn target(self) -> Result<Target, &'static str> {
        match self {
            Place::Open(target) => Ok(target),
            Place::HadSecret => Err(
                "a link with a secret has no place among arguments, where other users see it: get another code from 'flashmob join', and put the \
                 link into a file for --token-file",
            ),
        }
    }
}

/// Not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not HOST:PORT; give the address of 'flashmob discover' or of a gateway's admin port, such as 192.168.1.10:{DISCOVER_PORT}"
)]
pub struct BadTarget(String);

impl FromStr for Target {
    type Err = BadTarget;

    /// Also accepts the text of a QR code.
    fn from_str(text: &str) -> Result<Target, BadTarget> {
        let bad = || BadTarget(text.to_string());
        let place = text.trim().strip_prefix(URL_PREFIX).unwrap_or(text.trim()).trim_end_matches('/');
        let (_, port) = place.rsplit_once(':').ok_or_else(bad)?;
        // The part after the last colon must be a port, not the last group of an address without brackets.
        let has_port = port.parse::<u16>().is_ok_and(|port| port != 0);
        crate::config::address::parse_node_address(place).ok().filter(|_| has_port).map(Target).ok_or_else(bad)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Announces once: an [`super::Announcement`], or inside TLS an [`super::announcement::OwnAddress`].
///
/// # Errors
/// If there is no valid answer.
pub fn tell(target: &Target, end: Option<&TlsEnd>, said: &impl serde::Serialize) -> Result<JoinAnswer, FetchError> {
    let foreign = |_| FetchError::Foreign(target.to_string());
    let port = match end {
        Some(end) => fetch::Target::secured(&target.0, end.clone(), None)?,
        None => target.0.parse()?,
    };
    let body = serde_json::to_vec(said).map_err(foreign)?;
    serde_json::from_slice(&post(&port, "/join", &body, TIMEOUT)?).map_err(foreign)
}

/// Decides on the pause between announcements, and whether a result is logged. It uses no clock.
#[derive(Debug, Default)]
pub struct Pace {
    failures: u32,
    told: Option<Told>,
}

/// The last logged result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Success { known: bool },
    Failure,
}

impl Pace {
    /// After a success: the pause until the next announcement, and whether the result is new. A gateway with keys forgets no node, and each announcement to
    /// it costs a handshake.
    pub fn succeeded(&mut self, answer: &JoinAnswer, is_keyed: bool) -> (Duration, bool) {
        self.failures = 0;
        let pause = if is_keyed { KEYED_EVERY } else { JOIN_EVERY };
        (pause, self.is_news(Told::Success { known: answer.known }))
    }

    /// After a failure, in the same way.
    pub fn failed(&mut self) -> (Duration, bool) {
        self.failures += 1;
        let pause = PAUSE_MIN * 2u32.saturating_pow(self.failures.min(16) - 1);
        (pause.min(PAUSE_MAX), self.is_news(Told::Failure))
    }

    fn is_news(&mut self, now: Told) -> bool {
        self.told.replace(now) != Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_port_and_may_be_what_a_code_says() {
        for (text, target) in [
            ("192.168.1.10:7410", "192.168.1.10:7410"),
            (" flashmob://join/192.168.1.10:10810 ", "192.168.1.10:10810"),
            ("flashmob://join/[fd00::1]:7410/", "[fd00::1]:7410"),
            ("gateway.local:7410", "gateway.local:7410"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), target);
        }
        for bad in ["", "192.168.1.10", "192.168.1.10:0", "http://x:1", "fd00::1:7410", "[fd00::1]", "a b:1"] {
            assert!(bad.parse::<Target>().unwrap_err().to_string().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_no_error_that_shows_it() {
        assert!(matches!("192.168.1.10:7413".parse(), Ok(Place::Open(_))));
        for text in
            ["flashmob://join/192.168.1.10:7413#KEY.SECRET", "flashmob://join/192.168.1.10#K.S", "#", "x#SECRET"]
        {
            let place: Place = text.parse().unwrap();
            assert!(place.target().unwrap_err().contains("--token-file"));
        }
        assert!("192.168.1.10".parse::<Place>().is_err());
    }

    fn answer(known: bool) -> JoinAnswer {
        JoinAnswer { known, grant: None }
    }

    #[test]
    fn news_is_told_once_and_pauses_grow() {
        let mut pace = Pace::default();
        assert_eq!(pace.failed(), (PAUSE_MIN, true));
        assert_eq!(pace.failed(), (2 * PAUSE_MIN, false));
        for _ in 0..100 {
            pace.failed();
        }
        assert_eq!(pace.failed(), (PAUSE_MAX, false));
        assert_eq!(pace.succeeded(&answer(false), false), (JOIN_EVERY, true));
        assert_eq!(pace.succeeded(&answer(false), false), (JOIN_EVERY, false));
        assert_eq!(pace.succeeded(&answer(true), true), (KEYED_EVERY, true));
        assert_eq!(pace.failed(), (PAUSE_MIN, true));
    }
}
