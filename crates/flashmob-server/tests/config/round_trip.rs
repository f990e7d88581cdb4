//! What is written as TOML reads back as the same; what TOML cannot say is not written.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashmob_server::config::{
    Batch, Config, CopiesConfig, Engine, EtcdConfig, ExtentId, LayoutKind, Listen, Mapping, NodeConfig, NodeSource,
    Sizing, SocketConfig, ToTomlError, VolumeConfig,
};
use flashmob_server::etcd::Tls;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{parse, volume};

fn ms(range: std::ops::RangeInclusive<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

/// Any address; each gets a port of its own where they have to differ.
fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn text() -> impl Strategy<Value = String> {
    "[!-~éß水\"'\\\\#]([ -~éß水]{0,20}[!-~])?"
}

fn node() -> impl Strategy<Value = NodeConfig> {
    let engine = prop_oneof![Just(Engine::Threads), Just(Engine::IoUring)];
    let mapped = prop_oneof![Just(Mapping::Auto), Just(Mapping::On), Just(Mapping::Off)];
    let local = ("[a-zé' \"]{1,8}", 1usize..=64, engine, any::<bool>(), mapped).prop_map(
        |(name, threads, engine, direct, mapped)| NodeSource::Local {
            path: PathBuf::from(format!("/x/{name}")),
            threads,
            engine,
            direct,
            mapped,
        },
    );
    let remote = prop_oneof![
        ip().prop_map(|ip| NodeSource::Remote { address: SocketAddr::new(ip, 1).to_string() }),
        "[a-z][a-z0-9]{0,8}(\\.local)?".prop_map(|host| NodeSource::Remote { address: format!("{host}:1") }),
    ];
    let source = prop_oneof![local, remote];
    let extent = option::of(any::<[u8; 16]>().prop_map(ExtentId));
    (source, option::of(1u64..1 << 50), extent).prop_map(|(source, size_bytes, extent)| NodeConfig {
        is_gone: false,
        source,
        size_bytes,
        extent,
        domain: None,
    })
}

fn socket() -> impl Strategy<Value = SocketConfig> {
    let bytes = || option::of(4096u64..=1 << 30);
    let sizing = prop_oneof![Just(Sizing::Path), Just(Sizing::Kernel)];
    (bytes(), bytes(), sizing, option::of("[a-z0-9_-]{1,15}"), option::of((1u64..=3600).prop_map(Duration::from_secs)))
        .prop_map(|(send_buffer_bytes, receive_buffer_bytes, sizing, congestion, keepalive)| SocketConfig {
            send_buffer_bytes,
            receive_buffer_bytes,
            sizing,
            congestion,
            keepalive,
        })
}

fn volumes() -> impl Strategy<Value = VolumeConfig> {
    let layout = prop_oneof![
        Just(LayoutKind::Linear),
        (9u32..=30).prop_map(|power| LayoutKind::Striped { stripe_bytes: 1 << power })
    ];
    let batch = prop_oneof![Just(Batch::Auto), (1u16..=4096).prop_map(Batch::Fixed)];
    (
        (text(), text(), option::of(text()), layout, any::<bool>(), batch, 4096u64..=1 << 20, 1usize..=64, 1usize..=64),
        (ms(100..=3_600_000), ms(100..=3_600_000), ms(1..=3_600_000), ms(1..=3_600_000)),
        socket(),
        vec(node(), 1..5),
    )
        .prop_map(|(plain, (timeout, connect_timeout, one, other), socket, nodes)| {
            let (name, id, description, layout, read_only, batch, batch_bytes, links, outstanding_batches) = plain;
            // Some of the striped ones have copies instead.
            let copies = (stripe_of(layout) == Some(1 << 22)).then(|| CopiesConfig {
                copies: 1,
                size_bytes: read_only.then_some((links as u64) << 22),
                min_current: 1,
                evict_after: one.max(Duration::from_millis(500)).min(Duration::from_secs(600)),
                scrub: read_only.then(|| other.max(Duration::from_secs(3600))),
                compare: (!read_only).then_some(Duration::from_secs(86_400 * links as u64)),
            });
            let timeout = if copies.is_some() { Duration::from_secs(601).max(timeout) } else { timeout };
            let layout = if copies.is_some() { LayoutKind::Mapped { chunk_bytes: 4 << 20 } } else { layout };
            let mut nodes = nodes;
            if copies.is_some() {
                nodes.iter_mut().for_each(|node| node.size_bytes = Some(4 << 20));
                nodes[0].domain = Some("a shelf".to_string());
            }
            VolumeConfig {
                name,
                id,
                description,
                layout,
                copies,
                read_only,
                batch,
                batch_bytes,
                links,
                outstanding_batches,
                timeout,
                connect_timeout,
                reconnect_min: one.min(other),
                reconnect_max: one.max(other),
                keep_awake: one.min(Duration::from_secs(1)),
                socket,
                nodes,
            }
        })
}

/// The stripe of a layout.
fn stripe_of(layout: LayoutKind) -> Option<u64> {
    match layout {
        LayoutKind::Striped { stripe_bytes } => Some(stripe_bytes),
        _ => None,
    }
}

/// Where maps are, if not in files.
fn etcd() -> impl Strategy<Value = EtcdConfig> {
    let path = || "/[a-zé ]{1,8}".prop_map(PathBuf::from);
    let tls = (path(), option::of((path(), path()))).prop_map(|(ca, own)| {
        let (cert, key) = own.unzip();
        Tls { ca, cert, key }
    });
    (vec("10\\.0\\.0\\.[1-9]:[1-9][0-9]{0,3}", 1..5), option::of(tls), "/[a-z]{1,8}/", 3u64..3600).prop_map(
        |(endpoints, tls, prefix, lease_s)| EtcdConfig { endpoints, tls, prefix, lease: Duration::from_secs(lease_s) },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let listen = prop_oneof![
        ip().prop_map(|ip| Listen::Tcp(SocketAddr::new(ip, 1))),
        "[a-zé ]{1,8}".prop_map(|name| Listen::Unix(PathBuf::from(format!("/run/{name}"))))
    ];
    (
        vec(listen, 1..4),
        (option::of((ip(), any::<u16>())), vec("[a-z0-9.-]{1,20}", 0..3), option::of("/[a-zé ]{1,8}")),
        1usize..=1024,
        (0u64..=1000, 0u64..=1_000_000_000),
        40u64 << 20..=1 << 40,
        (option::of(text()), option::of(etcd())),
        vec(volumes(), 1..4),
    )
        .prop_map(
            |(
                listen,
                (admin, admin_hosts, keys),
                connections,
                (busy_poll_us, trace_one_in),
                memory_bytes,
                (name, etcd),
                volumes,
            )| {
                let admin = admin.map(|(ip, port)| SocketAddr::new(ip, port.max(100)));
                let mut config = Config {
                    listen,
                    admin,
                    admin_hosts,
                    keys: keys.map(PathBuf::from),
                    etcd,
                    connections,
                    busy_poll_us,
                    trace_one_in,
                    memory_bytes,
                    name,
                    volumes,
                };
                if config.unfit_for_etcd().is_some() {
                    config.etcd = None;
                }
                tell_apart(&mut config);
                config
            },
        )
}

/// Numbers everything that may occur once only.
fn tell_apart(config: &mut Config) {
    for (n, listen) in config.listen.iter_mut().enumerate() {
        match listen {
            Listen::Tcp(address) => address.set_port(1 + n as u16),
            Listen::Unix(path) => *path = path.with_extension(n.to_string()),
        }
    }
    let mut nodes = 0;
    for (n, volume) in config.volumes.iter_mut().enumerate() {
        volume.name.push_str(&n.to_string());
        volume.id.push_str(&n.to_string());
        for node in &mut volume.nodes {
            nodes += 1;
            match &mut node.source {
                NodeSource::Remote { address } => address.push_str(&format!("{nodes:03}")),
                NodeSource::Local { path, .. } => *path = path.with_extension(nodes.to_string()),
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(config in config()) {
        let text = config.to_toml().map_err(|error| TestCaseError::fail(error.to_string()))?;
        // All paths are absolute, so it does not matter where the text lies.
        let again = Config::parse(&text, "again.toml", Path::new("/elsewhere"));
        prop_assert_eq!(again.map_err(|error| TestCaseError::fail(error.to_string()))?, config);
    }
}

#[test]
fn what_is_written_reads_well() {
    let config = parse(&volume("[volume.socket]\ncongestion = 'bbr'")).expect("a configuration");
    assert_eq!(
        config.to_toml().expect("its text"),
        r#"listen = ["127.0.0.1:10809"]
admin_hosts = []
connections = 64
busy_poll_us = 100
trace_one_in = 1000
memory = "128MiB"

[[volume]]
name = "pool"
id = "pool"
layout = "linear"
read_only = false
batch = "auto"
batch_bytes = "1MiB"
links = 1
outstanding_batches = 2
timeout = "10s"
connect_timeout = "3s"
reconnect_min = "50ms"
reconnect_max = "2s"
keep_awake = "75ms"

[volume.socket]
congestion = "bbr"

[[volume.node]]
address = "tablet:7411"
"#
    );
}

#[test]
fn what_no_configuration_may_hold_is_not_written() {
    let mut config = parse(&volume("")).expect("a configuration");
    config.volumes[0].links = 65;
    let Err(ToTomlError::Refused(error)) = config.to_toml() else { panic!("refused") };
    assert!(error.to_string().contains("`links` must be between 1 and 64, not 65"), "{error}");
}

#[test]
fn what_would_read_back_differently_is_not_written() {
    use std::os::unix::ffi::OsStringExt;

    let valid = parse(&volume("")).expect("a configuration");
    let mut odd_path = valid.clone();
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/a\xff".to_vec()));
    let local = NodeSource::Local { path, threads: 4, engine: Engine::Threads, direct: false, mapped: Mapping::Auto };
    odd_path.volumes[0].nodes[0].source = local;
    let mut fine_time = valid.clone();
    fine_time.volumes[0].timeout += Duration::from_nanos(1);
    let mut no_port = valid;
    no_port.volumes[0].nodes[0].source = NodeSource::Remote { address: "tablet".into() };
    for config in [odd_path, no_port] {
        assert!(matches!(config.to_toml(), Err(ToTomlError::Changed)), "{config:?}");
    }
    // Every time can be written, to the nanosecond.
    let text = fine_time.to_toml().expect("a configuration");
    assert_eq!(parse(&text).expect("the same"), fine_time, "{text}");
}
