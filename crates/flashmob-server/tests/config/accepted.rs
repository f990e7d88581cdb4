//! What a configuration says is what comes out, and what it leaves out has its default.

use std::net::SocketAddr;
use std::time::Duration;

use flashmob_server::config::{
    Batch, Config, CopiesConfig, Engine, LayoutKind, Listen, Mapping, NodeConfig, NodeSource, Sizing, SocketConfig,
    VolumeConfig,
};

use crate::{parse, volume};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn remote(address: &str, size_bytes: Option<u64>) -> NodeConfig {
    NodeConfig {
        source: NodeSource::Remote { address: address.into() },
        size_bytes,
        extent: None,
        domain: None,
        is_gone: false,
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn what_is_left_out_has_its_default() {
    let expected = Config {
        listen: vec![Listen::Tcp(address("127.0.0.1:10809"))],
        admin: None,
        admin_hosts: vec![],
        keys: None,
        etcd: None,
        connections: 64,
        busy_poll_us: 100,
        trace_one_in: 1000,
        memory_bytes: 128 * MIB,
        name: None,
        volumes: vec![VolumeConfig {
            name: "pool".into(),
            id: "pool".into(),
            description: None,
            layout: LayoutKind::Linear,
            copies: None,
            read_only: false,
            batch: Batch::Auto,
            batch_bytes: MIB,
            links: 1,
            outstanding_batches: 2,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(2),
            keep_awake: Duration::from_millis(75),
            socket: SocketConfig::default(),
            nodes: vec![remote("tablet:7411", None)],
        }],
    };
    assert_eq!(parse(&volume("")), Ok(expected));
}

#[test]
fn every_key_is_read() {
    let text = r#"
listen = ["127.0.0.1:10809", "[::1]", "unix:/run/flashmob/nbd.sock"]
admin = "127.0.0.1:10810"
admin_hosts = ["gateway.example.org", "g"]
keys = "cluster.keys/"
connections = 8
busy_poll_us = 0
trace_one_in = 50
memory = "256MiB"
congestion = "cubic"
name = "gateway-of-alice"

[[volume]]
name = "pool"
id = "pool-7"
description = "Alice's drawer"
layout = "striped"
stripe = "128KiB"
read_only = true
batch = 100
batch_bytes = "512KiB"
links = 3
timeout = "1m60s"
connect_timeout = "0.5"
reconnect_min = "100ms"
reconnect_max = "1h"
keep_awake = "0ms"

[volume.socket]
send_buffer = "1MiB"
receive_buffer = 2097152
buffers = "kernel"
congestion = "bbr"
keepalive = 10

[[volume.node]]
address = "192.168.1.11"
size = "10GiB"

[[volume.node]]
path = "extents/./b.bin"
size = "1GiB"
threads = 8
engine = "io_uring"
direct = true
mapped = "off"

[[volume]]
name = "spare"
outstanding_batches = 5
[[volume.node]]
path = "/dev/disk/by-id/flash"
"#;
    let config = parse(text).expect("a configuration");
    assert_eq!(
        config.listen,
        [
            Listen::Tcp(address("127.0.0.1:10809")),
            Listen::Tcp(address("[::1]:10809")),
            Listen::Unix("/run/flashmob/nbd.sock".into())
        ]
    );
    assert_eq!(config.admin, Some(address("127.0.0.1:10810")));
    assert_eq!(config.admin_hosts, ["gateway.example.org", "g"]);
    assert_eq!(config.keys.as_deref(), Some(std::path::Path::new("/etc/flashmob/cluster.keys")));
    assert_eq!((config.connections, config.busy_poll_us, config.memory_bytes), (8, 0, 256 * MIB));
    assert_eq!(config.trace_one_in, 50);
    assert_eq!(config.name.as_deref(), Some("gateway-of-alice"));

    let [pool, spare] = &config.volumes[..] else { panic!("two volumes") };
    let local = NodeSource::Local {
        path: "/etc/flashmob/extents/b.bin".into(),
        threads: 8,
        engine: Engine::IoUring,
        direct: true,
        mapped: Mapping::Off,
    };
    let expected = VolumeConfig {
        name: "pool".into(),
        id: "pool-7".into(),
        description: Some("Alice's drawer".into()),
        layout: LayoutKind::Striped { stripe_bytes: 128 << 10 },
        copies: None,
        read_only: true,
        batch: Batch::Fixed(100),
        batch_bytes: MIB / 2,
        links: 3,
        outstanding_batches: 1,
        timeout: Duration::from_secs(120),
        connect_timeout: Duration::from_millis(500),
        reconnect_min: Duration::from_millis(100),
        reconnect_max: Duration::from_secs(3600),
        keep_awake: Duration::ZERO,
        socket: SocketConfig {
            send_buffer_bytes: Some(MIB),
            receive_buffer_bytes: Some(2 * MIB),
            sizing: Sizing::Kernel,
            congestion: Some("bbr".into()),
            keepalive: Some(Duration::from_secs(10)),
        },
        nodes: vec![
            remote("192.168.1.11:7411", Some(10 * GIB)),
            NodeConfig { source: local, size_bytes: Some(GIB), extent: None, domain: None, is_gone: false },
        ],
    };
    assert_eq!(*pool, expected);

    assert_eq!((spare.id.as_str(), spare.outstanding_batches), ("spare", 5));
    assert_eq!(
        spare.socket.congestion.as_deref(),
        Some("cubic"),
        "what stands above all volumes holds where nothing else is said"
    );
    let local = NodeSource::Local {
        path: "/dev/disk/by-id/flash".into(),
        threads: 4,
        engine: Engine::Threads,
        direct: false,
        mapped: Mapping::Auto,
    };
    assert_eq!(
        spare.nodes,
        [NodeConfig { source: local, size_bytes: None, extent: None, domain: None, is_gone: false }]
    );
}

#[test]
fn a_volume_with_copies_has_defaults_and_domains() {
    let node = |name: &str, more: &str| format!("[[volume.node]]\naddress = \"{name}:1\"\nsize = \"1GiB\"\n{more}\n");
    let nodes = node("a", "") + &node("b", "domain = \"shelf\"");
    let text = |more: &str| format!("[[volume]]\nname = \"pool\"\nlayout = \"mapped\"\ncopies = 2\n{more}\n{nodes}");
    let config = parse(&text("")).expect("a configuration");
    let days = |count: u64| Some(Duration::from_secs(count * 24 * 3600));
    let evict_after = Duration::from_secs(3);
    let copies =
        CopiesConfig { copies: 2, size_bytes: None, min_current: 1, evict_after, scrub: days(7), compare: days(30) };
    assert_eq!(config.volumes[0].layout, LayoutKind::Mapped { chunk_bytes: 4 << 20 });
    assert_eq!(config.volumes[0].copies, Some(copies));
    let domains: Vec<Option<&str>> = config.volumes[0].nodes.iter().map(|node| node.domain.as_deref()).collect();
    assert_eq!(domains, [None, Some("shelf")]);
    let more = "min_current = 2\nevict_after = \"500ms\"\nscrub = \"1d\"\ncompare = \"off\"";
    let config = parse(&text(more)).expect("a configuration");
    let evict_after = Duration::from_millis(500);
    let copies =
        CopiesConfig { copies: 2, size_bytes: None, min_current: 2, evict_after, scrub: days(1), compare: None };
    assert_eq!(config.volumes[0].copies, Some(copies));
}

#[test]
fn striped_without_a_stripe_has_the_default_stripe() {
    let config = parse(&volume("layout = \"striped\"")).expect("a configuration");
    assert_eq!(config.volumes[0].layout, LayoutKind::Striped { stripe_bytes: 64 << 10 });
}

#[test]
fn one_listener_needs_no_list_and_port_zero_may_repeat() {
    let listen = |line: &str| parse(&format!("{line}\n{}", volume(""))).map(|config| config.listen);
    assert_eq!(listen("listen = '0.0.0.0:1'"), Ok(vec![Listen::Tcp(address("0.0.0.0:1"))]));
    let any = Listen::Tcp(address("127.0.0.1:0"));
    assert_eq!(listen("listen = ['127.0.0.1:0', '127.0.0.1:0']\nadmin = '127.0.0.1:0'"), Ok(vec![any.clone(), any]));
}

#[test]
fn inline_tables_and_windows_line_ends_are_toml_too() {
    let text = "volume = [{ name = 'pool', node = [{ address = 'tablet' }] }]";
    assert_eq!(parse(text), parse(&volume("")));
    assert_eq!(parse(&volume("").replace('\n', "\r\n")), parse(&volume("")));
}
