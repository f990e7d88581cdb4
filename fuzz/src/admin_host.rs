//! For whom a request at the administrative port was meant: any heads of requests get an answer, which says nothing that could be a page's.

use std::net::IpAddr;

use flashmob_server::admin::http::Hosts;
use hyper::Request;
use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};

/// Lines: the names that are listed, by commas; method and target; then a `host` or an `origin` a line, by its first letter.
pub fn run(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let listed = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let names: Vec<String> = listed.split(',').map(str::to_string).collect();
    let line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let (method, target) = line.split_once(' ').unwrap_or(("GET", "/status"));
    let mut builder = Request::builder().method(method).uri(target);
    let mut hosts = Vec::new();
    for line in lines {
        let (name, value): (HeaderName, _) = match line.split_first() {
            Some((b'o', value)) => (ORIGIN, value),
            Some((_, value)) => (HOST, value),
            None => continue,
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            if name == HOST {
                hosts.push(value.clone());
            }
            builder = builder.header(name, value);
        }
    }
    let Ok(request) = builder.body(()) else { return };
    match Hosts::named(&names).refusal(&request) {
        Some(why) => {
            assert!(why.is_ascii() && why.len() < 600 && why.ends_with('\n'), "{why:?}");
            assert!(!why.contains(['<', '>', '&', '"', '\r']), "{why:?}");
        }
        None => taken(&hosts, &names, &request),
    }
}

/// What was taken names one host, by an address, by a name that nobody owns, or by one that is listed.
fn taken(hosts: &[HeaderValue], names: &[String], request: &Request<()>) {
    let [host] = hosts else { panic!("taken with {} hosts", hosts.len()) };
    let host = host.to_str().expect("text").to_ascii_lowercase();
    let authority = request.uri().authority().map(|authority| authority.as_str().to_ascii_lowercase());
    for named in [Some(host), authority].into_iter().flatten() {
        // What follows an address is a zone: any text. No browser sends it.
        let (named, zone) = named.split_once('%').map_or((&named[..], None), |(named, zone)| (named, Some(zone)));
        assert!(!named.contains(['/', '@', ' ', ',', '?', '#']), "{named:?}");
        assert!(zone.is_none() || named.trim_start_matches('[').parse::<IpAddr>().is_ok(), "{named:?}");
        // The start of a name that was taken is that of a listed one, or the name is private.
        let name = named.rsplit_once(':').map_or(named, |(name, _)| name);
        let is_public = [".org", ".com", ".org.", ".com."].iter().any(|end| name.ends_with(end));
        let is_listed = names.iter().any(|listed| {
            let listed = listed.trim_end_matches('.').to_ascii_lowercase();
            name.trim_end_matches('.') == listed || named.trim_end_matches('.') == listed
        });
        assert!(!is_public || is_listed, "{named:?} is public");
    }
    let is_change = !request.method().is_safe();
    assert!(!is_change || request.headers().get_all(ORIGIN).iter().all(|origin| origin != "null"));
}

/// Hosts of each kind.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let seeds: [(&'static str, &str); 9] = [
        ("address", "\nGET /status\nh127.0.0.1:10810"),
        ("address_v6", "\nGET /status\nh[fe80::1%eth0]:9"),
        ("private", "\nGET /metrics\nha.b.Local.:80"),
        ("listed", "gateway.example.org,Other.example.org.\nGET /\nhGATEWAY.example.org.:1"),
        ("public", "gateway.example.org\nGET /\nhexample.org"),
        ("two_hosts", "\nGET /\nhlocalhost\nhlocalhost"),
        ("absolute", "\nGET http://127.0.0.1/status\nh127.0.0.1"),
        ("same_origin", "\nPOST /join\nh127.0.0.1:9\nohttp://127.0.0.1:9"),
        ("other_origin", "\nPOST /join\nh127.0.0.1:9\nonull"),
    ];
    seeds.into_iter().map(|(name, text)| (name, text.as_bytes().to_vec())).collect()
}
