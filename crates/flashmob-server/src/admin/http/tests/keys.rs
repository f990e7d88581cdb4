//! Who may ask what in a cluster with keys.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::gate::Admitted;
use super::*;
use crate::keys::authority::Purpose;
use crate::keys::clients::{draw_token, fingerprint, token_digest};
use crate::keys::credentials::{target_of_gateway, target_with};
use crate::keys::{AdminRight, Client, Folder, NodeCredentials, NodeKeys, PublicKey, SecretKey};
use crate::net::fetch::{FetchError, Target, fetch_status};
use crate::net::tls::{Proven, pem};
use crate::store::{ExtentId, put_file};

const OWN: ExtentId = ExtentId([5; 16]);
const LONG: Duration = Duration::from_secs(20);

/// A cluster with keys, whose gateway's port is served.
struct Cluster {
    dir: tempfile::TempDir,
    folder: Folder,
    server: AdminServer,
}

fn cluster() -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(&dir.path().join("keys"));
    folder.create().unwrap();
    let keys = AdminKeys::of_gateway(&folder, &[], [127, 0, 0, 1].into()).unwrap();
    let ear = Ear::of_nodes(|extent, addr| extent == OWN && addr.port() == 7411, || Some(b"grant".to_vec()));
    let listener = TcpListener::bind(ANY_PORT).unwrap();
    let reporter = answering(samples::gateway()).0.with_volumes().0;
    let server = serve_on(listener, Some(reporter), Some(ear), Hosts::default(), Some(keys)).unwrap();
    Cluster { dir, folder, server }
}

impl Cluster {
    /// A new client with its folder, as `flashmob client add` makes it.
    fn client(&self, name: &str, admin: Option<AdminRight>) -> PathBuf {
        let authority = self.folder.authority(Purpose::Clients).unwrap();
        let issued = authority.issue(&format!("client {name}"), &[], &[]).unwrap();
        let (_, pem) = self.folder.authority(Purpose::Gateway).unwrap().certificate().unwrap();
        let (_, clients_pem) = authority.certificate().unwrap();
        let token = draw_token().unwrap();
        let out = self.dir.path().join(name);
        fs::create_dir(&out).unwrap();
        for (file, text) in [
            ("ca-cert.pem", &(pem + &clients_pem)),
            ("client-cert.pem", &issued.pem),
            ("client-key.pem", &issued.key_pem),
            ("token", &token),
        ] {
            put_file(&out.join(file), text.as_bytes()).unwrap();
        }
        let client = Client {
            name: name.to_string(),
            certificate: fingerprint(&issued.der),
            volumes: Vec::new(),
            read_only: false,
            admin,
            token: token_digest(&token),
        };
        self.folder.clients().unwrap().add(client).unwrap();
        out
    }

    fn address(&self) -> String {
        self.server.local_addr().to_string()
    }

    fn with(&self, folder: &Path) -> Target {
        target_with(&format!("https://{}", self.address()), folder).unwrap()
    }

    fn own(&self) -> Target {
        target_of_gateway(&self.address(), &self.folder).unwrap()
    }
}

/// The status of a refusal; 200 if there is none.
fn refusal<T>(result: Result<T, FetchError>) -> String {
    match result {
        Ok(_) => "allowed".to_string(),
        Err(FetchError::Rejected(_, why)) => why,
        Err(error) => error.to_string(),
    }
}

fn scrub(target: &Target) -> Result<Vec<u8>, FetchError> {
    fetch::post(target, "/volumes/scrub", br#"{"volume":7}"#, LONG)
}

/// A change was let through: its body was looked at.
const TAKEN: &str = "The body is no such request";

#[test]
fn plain_requests_of_this_machine_read_and_change_nothing() {
    let cluster = cluster();
    let plain: Target = cluster.address().parse().unwrap();
    assert_eq!(refusal(fetch_status(&plain)), "allowed");
    assert!(refusal(scrub(&plain)).contains("changes need proof, also from this machine"));
    let body = format!(r#"{{"extent":"{}","address":":7411","size_bytes":1}}"#, "05".repeat(16));
    assert!(refusal(fetch::post(&plain, "/join", body.as_bytes(), LONG)).contains("a node that announces itself"));
    let (head, _) = get(&cluster.server, "/metrics", "Authorization: Bearer nobody\r\n");
    assert!(head.starts_with("http/1.1 200"), "{head}");
}

#[test]
fn plain_requests_of_others_are_refused_and_told_what_to_do() {
    let request = |method: &str, path: &str| hyper::Request::builder().method(method).uri(path).body(()).unwrap();
    let cluster = cluster();
    let keys = AdminKeys::of_gateway(&cluster.folder, &[], [0, 0, 0, 0].into()).unwrap();
    for (method, path) in [("GET", "/metrics"), ("GET", "/"), ("POST", "/join"), ("POST", "/volumes/replace")] {
        let refusal = Caller::Elsewhere.admit(Some(&keys), &request(method, path)).unwrap_err();
        let remedy = if path == "/join" { "flashmob join" } else { "use https://" };
        assert!(refusal.status == 403 && refusal.why.contains(remedy), "{refusal:?}");
        assert_eq!(Caller::Open.admit(None, &request(method, path)), Ok(Admitted::default()));
        assert!(Caller::Open.admit(Some(&keys), &request(method, path)).is_err(), "never by mistake");
    }
}

#[test]
fn a_client_may_do_what_its_right_says_by_certificate_and_by_token() {
    let cluster = cluster();
    let (metrics, all) = (Some(AdminRight::Metrics), Some(AdminRight::All));
    for (name, right, may) in [
        ("nbd", None, ["No known", "No known", "No known"]),
        ("prometheus", metrics, ["allowed", "needs the right 'read'", "needs the right 'all'"]),
        ("laptop", Some(AdminRight::Read), ["allowed", "allowed", "needs the right 'all'"]),
        ("operator", all, ["allowed", "allowed", TAKEN]),
    ] {
        let folder = cluster.client(name, right);
        for way in ["certificate", "token"] {
            if way == "token" {
                fs::remove_file(folder.join("client-cert.pem")).unwrap();
            }
            let target = cluster.with(&folder);
            let metrics = refusal(fetch::fetch(&target, "/metrics"));
            for (found, expected) in [metrics, refusal(fetch_status(&target)), refusal(scrub(&target))].iter().zip(may)
            {
                assert!(found.contains(expected), "{name} by {way}: {found}");
            }
        }
    }
}

#[test]
fn the_page_is_for_everybody_and_what_it_shows_is_not() {
    let cluster = cluster();
    let keys = AdminKeys::of_gateway(&cluster.folder, &[], [127, 0, 0, 1].into()).unwrap();
    let unknown = Caller::Secret(Proven::Nothing);
    let admit = |method: &str, path: &str| {
        unknown.admit(Some(&keys), &hyper::Request::builder().method(method).uri(path).body(()).unwrap())
    };
    for path in ["/", "/app.js", "/page.css"] {
        assert_eq!(admit("GET", path), Ok(Admitted::default()), "{path}");
        assert!(admit("POST", path).is_err(), "{path}");
    }
    for path in ["/live", "/status", "/metrics", "/trace", "/volumes", "/nosuch.js", "/page.css/"] {
        assert_eq!(admit("GET", path).unwrap_err().status, 401, "{path}");
    }
}

#[test]
fn who_is_revoked_or_unknown_is_refused_at_once() {
    let cluster = cluster();
    let (laptop, other) = (cluster.client("laptop", Some(AdminRight::All)), cluster.client("other", None));
    let (by_certificate, by_token) = (cluster.with(&laptop), {
        fs::remove_file(laptop.join("client-cert.pem")).unwrap();
        cluster.with(&laptop)
    });
    assert_eq!(refusal(fetch_status(&by_certificate)), "allowed");
    assert_eq!(refusal(fetch_status(&by_token)), "allowed");
    cluster.folder.clients().unwrap().revoke("laptop").unwrap();
    let refused = refusal(fetch_status(&by_certificate));
    let is_refused = ["does not accept this key", "No known", "closed the connection", "the connection to"];
    assert!(is_refused.iter().any(|text| refused.contains(text)), "{refused}");
    assert!(refusal(fetch_status(&by_token)).contains("No known certificate or token"));
    // A token that nobody has.
    fs::remove_file(other.join("client-cert.pem")).unwrap();
    put_file(&other.join("token"), b"guessed").unwrap();
    assert!(refusal(fetch_status(&cluster.with(&other))).contains("No known certificate or token"));
    // The client of another cluster, which expects another gateway.
    let foreign = self::cluster();
    let stranger = foreign.client("stranger", Some(AdminRight::All));
    let refused = refusal(fetch_status(&cluster.with(&stranger)));
    assert!(refused.contains("of another authority"), "{refused}");
}

#[test]
fn a_right_that_goes_after_the_handshake_is_gone() {
    let request = hyper::Request::get("/status").body(()).unwrap();
    let cluster = cluster();
    let keys = AdminKeys::of_gateway(&cluster.folder, &[], [127, 0, 0, 1].into()).unwrap();
    let (laptop, node) = (cluster.client("laptop", Some(AdminRight::All)), SecretKey::draw().unwrap().public());
    let certificate = pem::certificates(&fs::read(laptop.join("client-cert.pem")).unwrap()).unwrap().swap_remove(0);
    let proven = |proven: Proven| Caller::Secret(proven).admit(Some(&keys), &request);
    let may_change = Ok(Admitted { node: None, is_known: true, may_change: true });
    assert_eq!(proven(Proven::Certificate(certificate.clone())), may_change);
    cluster.folder.clients().unwrap().revoke("laptop").unwrap();
    assert_eq!(proven(Proven::Certificate(certificate)).unwrap_err().status, 401);
    let own = cluster.folder.granted().unwrap().1.gateway;
    assert_eq!(proven(Proven::Key(own.to_spki().to_vec())), may_change);
    let restored = fs::read(cluster.dir.path().join("keys/gateway.grant")).unwrap();
    cluster.folder.rotate_gateway(None, None).unwrap();
    assert_eq!(proven(Proven::Key(own.to_spki().to_vec())).unwrap_err().status, 401);
    put_file(&cluster.dir.path().join("keys/gateway.grant"), &restored).unwrap();
    assert_eq!(proven(Proven::Key(own.to_spki().to_vec())).unwrap_err().status, 503, "an earlier generation");
    assert_eq!(proven(Proven::Key(node.to_spki().to_vec())).unwrap_err().status, 503);
}

#[test]
fn the_gateways_own_machine_may_do_everything_also_after_a_rotation() {
    let cluster = cluster();
    assert_eq!(refusal(fetch_status(&cluster.own())), "allowed");
    assert!(refusal(scrub(&cluster.own())).contains(TAKEN));
    let before = cluster.own();
    cluster.folder.rotate_gateway(None, None).unwrap();
    assert_eq!(refusal(fetch_status(&cluster.own())), "allowed");
    let refused = refusal(fetch_status(&before));
    assert!(refused.contains("key that is not known here"), "{refused}");
}

#[test]
fn a_node_announces_its_own_extent_and_may_do_nothing_else() {
    let cluster = cluster();
    let own = |name: &str| {
        let key = SecretKey::draw().unwrap();
        let keys = NodeKeys::of(&key, cluster.folder.cluster().unwrap(), Path::new(name)).unwrap();
        (key.public(), Target::secured(&cluster.address(), keys.admin_end, None).unwrap())
    };
    let (key, node) = own("node");
    let join = |target: &Target, body: &str| fetch::post(target, "/join", body.as_bytes(), LONG);
    let body = r#"{"address":":7411"}"#;
    assert!(refusal(join(&node, body)).contains("No known"), "it is not pinned");
    cluster.folder.pins().unwrap().pin(OWN, key, false).unwrap();
    cluster.folder.pins().unwrap().pin(ExtentId([6; 16]), PublicKey::of([6; 32]).unwrap(), false).unwrap();
    assert_eq!(join(&node, body).unwrap(), br#"{"known":true,"grant":"Z3JhbnQ="}"#);
    let other = format!(r#"{{"extent":"{}","address":":7411","size_bytes":1}}"#, "06".repeat(16));
    assert_eq!(
        join(&node, &other).unwrap(),
        br#"{"known":true,"grant":"Z3JhbnQ="}"#,
        "it is its own extent that it announces"
    );
    assert!(refusal(join(&node, r#"{"address":"nowhere"}"#)).contains("must be an IP address"));
    for refused in [refusal(fetch_status(&node)), refusal(scrub(&node))] {
        assert!(refused.contains("and nothing else"), "{refused}");
    }
    let operator = cluster.client("operator", Some(AdminRight::All));
    assert!(refusal(join(&cluster.with(&operator), body)).contains("Nodes of the cluster"));
    cluster.folder.pins().unwrap().unpin(OWN).unwrap();
    assert!(refusal(join(&node, body)).contains("No known"));
}

#[test]
fn a_node_is_read_with_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let credentials = NodeCredentials::at(dir.path().join("e.bin.admin"));
    let own = NodeKeys::of(&SecretKey::draw().unwrap(), PublicKey::of([1; 32]).unwrap(), dir.path()).unwrap();
    let serve = || {
        let keys = AdminKeys::of_node(&credentials, &own, &[], [127, 0, 0, 1].into()).unwrap();
        let reporter = answering(samples::node()).0;
        serve_on(TcpListener::bind(ANY_PORT).unwrap(), Some(reporter), None, Hosts::default(), Some(keys)).unwrap()
    };
    let server = serve();
    // What others get.
    let copy = dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["ca-cert.pem", "token"] {
        put_file(&copy.join(name), &fs::read(credentials.path().join(name)).unwrap()).unwrap();
    }
    let asked =
        |server: &AdminServer| refusal(fetch_status(&target_with(&server.local_addr().to_string(), &copy).unwrap()));
    assert_eq!(asked(&server), "allowed");
    drop(server);
    let again = serve();
    assert_eq!(asked(&again), "allowed", "the files stay");
    put_file(&copy.join("token"), b"guessed").unwrap();
    assert!(asked(&again).contains("No known certificate or token"));
}

#[test]
fn silence_instead_of_a_handshake_ends() {
    let cluster = cluster();
    let keys = AdminKeys::of_gateway(&cluster.folder, &[], [127, 0, 0, 1].into()).unwrap();
    let asker = Asker::new(Some(answering(samples::gateway()).0), None, Hosts::default()).with_keys(Some(keys));
    let server = serve_with(TcpListener::bind(ANY_PORT).unwrap(), asker, SHORT).unwrap();
    for begin in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01", b"G"] {
        let begun = Instant::now();
        let mut stream = connect(&server);
        stream.write_all(begin).unwrap();
        let _ = stream.read(&mut [0; 100]);
        assert!(begun.elapsed() < Duration::from_secs(10), "{begin:?}");
    }
}
