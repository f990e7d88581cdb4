//! Who may ask for what.
//!
//! Without keys everybody may ask for everything. With keys, plain HTTP is for programs of this machine, and for reading; others come inside TLS and show a
//! certificate or a token, or prove the key of a node, which may announce its extent and nothing else ([`crate::keys::admin`]).

use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};

use super::page::is_page;
use crate::keys::admin::Who;
use crate::keys::{AdminKeys, AdminRight};
use crate::net::tls::Proven;
use crate::store::ExtentId;

/// How a connection came about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// There are no keys.
    Open,
    /// Plain, from this machine.
    Here,
    /// Plain, from elsewhere.
    Elsewhere,
    /// Inside TLS, with what was proven.
    Secret(Proven),
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub why: String,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needed {
    Right(AdminRight),
    /// To be a node.
    Node,
    /// Nothing: it is the same for everybody, and tells nothing about the cluster.
    Nothing,
}

/// Who was admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The extent of the node that this is.
    pub node: Option<ExtentId>,
    /// It has proven to be known.
    pub is_known: bool,
    /// It has proven that it may change things.
    pub may_change: bool,
}

impl Needed {
    fn is_reading(self) -> bool {
        match self {
            Needed::Right(right) => right <= AdminRight::Read,
            Needed::Nothing => true,
            Needed::Node => false,
        }
    }
}

fn needed<B>(request: &Request<B>) -> Needed {
    match (request.method().is_safe(), request.uri().path()) {
        (_, "/join") => Needed::Node,
        (true, path) if is_page(path) => Needed::Nothing,
        (true, "/metrics") => Needed::Right(AdminRight::Metrics),
        (true, _) => Needed::Right(AdminRight::Read),
        (false, _) => Needed::Right(AdminRight::All),
    }
}

impl Caller {
    /// Who this is, or the reason for which the request is refused.
    pub fn admit<B>(&self, keys: Option<&AdminKeys>, request: &Request<B>) -> Result<Admitted, Refusal> {
        let needed = needed(request);
        let (keys, proven) = match (self, keys) {
            (Caller::Secret(proven), Some(keys)) => (keys, proven),
            (Caller::Open, None) => return Ok(Admitted::default()),
            (Caller::Here, Some(_)) if needed.is_reading() => return Ok(Admitted::default()),
            (_, _) if needed == Needed::Node => return Err(Refusal::new(StatusCode::FORBIDDEN, ENROLL)),
            (Caller::Here, Some(_)) => return Err(Refusal::new(StatusCode::FORBIDDEN, CHANGES_NEED_PROOF)),
            (_, keys) => {
                let where_from = keys.map_or("", AdminKeys::where_from);
                return Err(Refusal::new(StatusCode::FORBIDDEN, &format!("{NEEDS_HTTPS} {where_from}.\n")));
            }
        };
        // Now: its rights may have changed since the handshake.
        let who = keys.who(proven).map_err(|error| {
            log::debug!("administration: {error}");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "The keys of the cluster cannot be read.\n")
        })?;
        let token = request.headers().get(AUTHORIZATION).and_then(token_of);
        let who = match (who, token) {
            (Who::Anybody, Some(token)) => keys.bearer(token),
            (who, _) => who,
        };
        match (who, needed) {
            (Who::Node(extent), Needed::Node) => Ok(Admitted { node: Some(extent), is_known: true, may_change: false }),
            (Who::Known(right, _), Needed::Right(needed)) if right >= needed => {
                Ok(Admitted { node: None, is_known: true, may_change: right >= AdminRight::All })
            }
            (_, Needed::Nothing) => Ok(Admitted::default()),
            (Who::Known(_, name), Needed::Right(right)) => Err(Refusal {
                status: StatusCode::FORBIDDEN,
                why: format!(
                    "{name} may not do this: it needs the right '{}' (flashmob client add ... --admin).\n",
                    right.name()
                ),
            }),
            (Who::Anybody, _) => {
                Err(Refusal::new(StatusCode::UNAUTHORIZED, &format!("{UNKNOWN} {}.\n", keys.where_from())))
            }
            _ => Err(Refusal::new(StatusCode::FORBIDDEN, NODES_ALONE)),
        }
    }
}

const CHANGES_NEED_PROOF: &str = "The cluster has keys: changes need proof, also from this machine. Give the command the gateway's configuration file in the place of the \
     address, or an https:// address and --credentials.\n";
const ENROLL: &str = "The cluster has keys: a node that announces itself here needs some, too (flashmob join).\n";
const NEEDS_HTTPS: &str = "The cluster has keys: use https:// and --credentials DIR, with";
const UNKNOWN: &str = "No known certificate or token was shown:";
const NODES_ALONE: &str = "Nodes of the cluster may announce themselves at /join, and nothing else.\n";

impl Refusal {
    fn new(status: StatusCode, why: &str) -> Refusal {
        Refusal { status, why: why.to_string() }
    }

    /// The header that goes with it.
    pub fn challenge(&self) -> Option<(hyper::header::HeaderName, HeaderValue)> {
        (self.status == StatusCode::UNAUTHORIZED)
            .then(|| (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"flashmob\"")))
    }
}

/// The token in `Authorization` (RFC 6750, 2.1).
fn token_of(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
