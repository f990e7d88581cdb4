//! The section of etcd.

use crate::{check, parse};

const COPIES: &str = r#"[[volume]]
name = "pool"
layout = "mapped"
copies = 2
[[volume.node]]
address = "a"
size = "1GiB"
[[volume.node]]
address = "b"
size = "1GiB"
"#;

#[test]
fn the_members_of_etcd_are_checked() {
    check(
        &format!("[etcd]\nendpoints = [\"10.0.0.2\", \"http://10.0.0.3:2379\"]\ncert = \"own.pem\"\n{COPIES}"),
        r#"error: `endpoints` are not the members of an etcd cluster
 --> gateway.toml:2:13
  |
2 | endpoints = ["10.0.0.2", "http://10.0.0.3:2379"]
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: 'http://10.0.0.3:2379' is not a member of etcd: must be a host name of letters, digits, dots and hyphens, or an IP address; no scheme and no path

error: `cert` needs `key`
 --> gateway.toml:3:8
  |
3 | cert = "own.pem"
  |        ^^^^^^^^^
  = help: add key = "...", or remove `cert`

error: `cert` needs `ca`
 --> gateway.toml:3:8
  |
3 | cert = "own.pem"
  |        ^^^^^^^^^
  = help: add ca = "...", the certificate of the authority that has signed etcd's

error: gateway.toml has 3 problems"#,
    );
}

#[test]
fn volumes_without_copies_are_not_in_etcd() {
    check(
        "[etcd]\nendpoints = [\"10.0.0.2\"]\n[[volume]]\nname = \"pool\"\n[[volume.node]]\naddress = \"a\"\n",
        r#"error: the maps of these volumes cannot be in etcd
 --> gateway.toml:1:1
  |
1 | [etcd]
  | ^^^^^^
  = help: volume 'pool' has no copies, and so no map: another gateway could not take it over. Serve it with a gateway of its own"#,
    );
}

#[test]
fn a_lease_of_etcd_has_whole_seconds_within_its_limits() {
    for (lease, is_ok) in
        [("2s", false), ("2999ms", false), ("3s", true), ("3500ms", false), ("1h", true), ("3601s", false)]
    {
        let text = format!("[etcd]\nendpoints = [\"10.0.0.2\"]\nlease = \"{lease}\"\n{COPIES}");
        let config = parse(&text);
        assert_eq!(config.is_ok(), is_ok, "{lease}");
        if let Ok(config) = config {
            assert_eq!(config.etcd.unwrap().endpoints, ["10.0.0.2:2379"]);
        }
    }
}
