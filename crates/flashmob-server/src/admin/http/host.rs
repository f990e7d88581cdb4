//! Whether a request was meant for this server: the owner of a name can let it lead here from a page in a browser (DNS rebinding). In a local
//! network anybody can own a name without a dot (LLMNR, a search domain) or one in `.local`, `.internal` or `.home.arpa`: of these only the
//! machine's own are taken.

use std::net::IpAddr;

use hyper::Request;
use hyper::header::{HOST, HeaderValue, ORIGIN};

use crate::keys::names_of;

/// The header by which a browser tells of the page that a request comes from: <https://www.w3.org/TR/fetch-metadata/>. Sent to HTTPS and this machine alone.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The names by which this server may be reached, besides addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The machine's own names, and these.
    #[must_use]
    pub fn named(names: &[String]) -> Hosts {
        Hosts::of_machine(rustix::system::uname().nodename().to_str().unwrap_or_default(), names)
    }

    /// Names of a machine with this one, and these.
    fn of_machine(machine: &str, names: &[String]) -> Hosts {
        let plain = |name: String| name.trim_end_matches('.').to_ascii_lowercase();
        Hosts(names_of(machine).into_iter().chain(names.iter().cloned()).map(plain).collect())
    }

    /// Why a request is refused, if it is. A request names its host once, in its head (RFC 9112, 3.2), and in its target if that is absolute.
    pub fn refusal<B>(&self, request: &Request<B>) -> Option<String> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            (None, _) => return Some("The request has no Host header.\n".to_string()),
            (Some(_), Some(_)) => return Some("The request has two Host headers.\n".to_string()),
        };
        let target = request.uri().authority().map(|authority| authority.as_str());
        if let Some(foreign) = [Some(host), target].into_iter().flatten().find(|host| !self.has(host)) {
            // The name comes from anybody: it is not repeated unless it is one.
            let is_name = foreign.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]%".contains(&b));
            let name = if is_name && foreign.len() <= 255 { foreign } else { "The host" };
            return Some(format!(
                "{name} is no known name of this server; a page of another site may have sent this. Use the address, or the name of \
                 the machine; list another name in 'admin_hosts' (gateway) or --admin-host (node).\n"
            ));
        }
        let is_foreign = |origin: &HeaderValue| {
            let origin = origin.to_str().unwrap_or_default();
            origin.split_once("://").is_none_or(|(_, from)| !from.eq_ignore_ascii_case(host))
        };
        // A browser names the page that a change comes from. Other programs send neither header.
        let is_elsewhere = |site: &HeaderValue| site != "same-origin";
        let is_foreign = !request.method().is_safe()
            && (request.headers().get_all(ORIGIN).iter().any(is_foreign)
                || request.headers().get_all(SEC_FETCH_SITE).iter().any(is_elsewhere));
        is_foreign.then(|| "The request comes from a page of another site.\n".to_string())
    }

    fn has(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        let (address, zone) = address.split_once('%').map_or((address, None), |(address, zone)| (address, Some(zone)));
        match (address.parse::<IpAddr>(), zone) {
            (Ok(_), None) => return true,
            // The interface that a link-local address is on.
            (Ok(IpAddr::V6(_)), Some(zone)) => {
                return !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            }
            _ => {}
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        // Browsers resolve names below localhost to this machine (RFC 6761, 6.3).
        let is_localhost = || name == "localhost" || name.ends_with(".localhost");
        is_name && (is_localhost() || self.0.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_refused(hosts: &Hosts, host: &str) -> bool {
        hosts.refusal(&Request::get("/status").header(HOST, host).body(()).unwrap()).is_some()
    }

    #[test]
    fn addresses_and_own_names_are_taken_and_others_are_not() {
        let hosts = Hosts::of_machine("gateway", &[]);
        for host in [
            "127.0.0.1:10810",
            "127.0.0.1",
            "[::1]:10810",
            "[::1]",
            "localhost:9",
            "LOCALHOST",
            "[fe80::1%eth0]:9",
            "gateway",
            "gateway:9100",
            "gateway.local",
            "Gateway.Local.:80",
            "a.localhost",
        ] {
            assert!(!is_refused(&hosts, host), "{host}");
        }
        for host in [
            "example.org",
            "example.org:10810",
            // Names that anybody in the network can own.
            "evil",
            "evil:10810",
            "evil.local",
            "evil.local:20810",
            "a.gateway.local",
            "gateway.internal",
            "gateway.home.arpa",
            "evil.internal",
            "evil.home.arpa",
            "gateway.localdomain",
            "localhost.local",
            "gateway2",
            "127.0.0.1.example.org:1",
            "",
            ":80",
            "localhost.evil:1",
            "evillocal.org",
            "x.notlocal",
            "127.0.0.1%.example.org",
            "[::1%]",
            "[::1%a b]",
            "a b",
            "gate/way",
            "gateway.lan",
            ".",
            "..",
            "user@gateway",
            "[::1",
            "[gateway]",
        ] {
            assert!(is_refused(&hosts, host), "{host}");
        }
    }

    #[test]
    fn a_public_name_is_taken_if_it_is_listed() {
        let hosts = Hosts::named(&["gateway.example.org".into(), "Other.example.org.".into()]);
        for host in ["gateway.example.org:10810", "GATEWAY.example.org", "other.example.org", "gateway.example.org."] {
            assert!(!is_refused(&hosts, host), "{host}");
        }
        for host in ["a.gateway.example.org", "example.org", "gateway.example.org.evil.com"] {
            assert!(is_refused(&hosts, host), "{host}");
        }
    }

    #[test]
    fn the_name_of_a_machine_may_have_a_domain_or_be_missing() {
        let hosts = Hosts::of_machine("Pi.example.org", &["g".into()]);
        for host in ["pi.example.org", "pi", "pi.local:1", "g"] {
            assert!(!is_refused(&hosts, host), "{host}");
        }
        for host in ["example.org", "pi.example", "g.local", "local"] {
            assert!(is_refused(&hosts, host), "{host}");
        }
        let local = Hosts::of_machine("localhost", &[]);
        assert!(is_refused(&local, "localhost.local") && !is_refused(&local, "localhost"));
        let nameless = Hosts::of_machine("", &[]);
        assert!(is_refused(&nameless, "") && is_refused(&nameless, ".local") && is_refused(&nameless, "local"));
        let own = rustix::system::uname();
        assert!(!is_refused(&Hosts::named(&[]), own.nodename().to_str().unwrap()));
    }

    #[test]
    fn a_request_names_one_host_and_its_target_counts_too() {
        let hosts = Hosts::default();
        let refusal = |request: hyper::http::request::Builder| hosts.refusal(&request.body(()).unwrap());
        assert_eq!(refusal(Request::get("/status")).as_deref(), Some("The request has no Host header.\n"));
        let two = refusal(Request::get("/status").header(HOST, "127.0.0.1").header(HOST, "127.0.0.1"));
        assert_eq!(two.as_deref(), Some("The request has two Host headers.\n"));
        assert!(refusal(Request::get("http://evil.example/status").header(HOST, "127.0.0.1")).is_some());
        assert!(refusal(Request::get("http://127.0.0.1/status").header(HOST, "127.0.0.1")).is_none());
        assert!(refusal(Request::get("http://127.0.0.1/status")).is_some(), "also with an absolute target");
        assert!(refusal(Request::get("/status").header(HOST, HeaderValue::from_bytes(b"g\xe4").unwrap())).is_some());
    }

    #[test]
    fn a_change_does_not_come_from_a_page_of_another_site() {
        let from = |origin: &str, method: &str| {
            let request =
                Request::builder().method(method).uri("/join").header(HOST, "127.0.0.1:9").header(ORIGIN, origin);
            Hosts::default().refusal(&request.body(()).unwrap()).is_some()
        };
        for origin in ["null", "", "http://127.0.0.1:8", "https://evil.example", "127.0.0.1:9", "http://127.0.0.1:9/"] {
            assert!(from(origin, "POST") && !from(origin, "GET"), "{origin}");
        }
        assert!(!from("http://127.0.0.1:9", "POST"));
        let of_site = |site: &str, method: &str| {
            let request = Request::builder().method(method).uri("/volumes/pause").header(HOST, "127.0.0.1:9");
            Hosts::default().refusal(&request.header(SEC_FETCH_SITE, site).body(()).unwrap()).is_some()
        };
        for site in ["cross-site", "same-site", "none", "", "Same-Origin"] {
            assert!(of_site(site, "POST") && of_site(site, "DELETE") && !of_site(site, "GET"), "{site}");
        }
        assert!(!of_site("same-origin", "POST"));
    }

    proptest! {
        #[test]
        fn any_host_gets_an_answer(host in prop::collection::vec(0x20u8..0xff, 0..300)) {
            let Ok(value) = HeaderValue::from_bytes(&host) else { return Ok(()) };
            let refusal = Hosts::default().refusal(&Request::get("/").header(HOST, value).body(()).unwrap());
            prop_assert!(refusal.is_none_or(|why| why.len() < 600 && why.is_ascii() && !why.contains(['<', '>'])));
        }
    }
}
