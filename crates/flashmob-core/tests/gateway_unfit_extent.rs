//! An extent that does not fit the volume is refused, and nothing of it stands in the way of the one that replaces it.

use std::time::Duration;

use flashmob_core::gateway::{
    Action, BatchMode, Event, ExtentSpec, Gateway, GatewayConfig, LinkId, LinkPhase, VolumeSpec,
};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::Time;
use flashmob_core::wire::hello::Welcome;

const STRIPE_BYTES: u64 = 64 << 10;

/// A gateway with a striped volume of one node, whose size is not configured, over two links.
fn gateway() -> Gateway {
    let volume = VolumeSpec {
        name: "v".to_string(),
        id: "v".to_string(),
        description: String::new(),
        read_only: false,
        layout: LayoutKind::Striped { stripe_bytes: STRIPE_BYTES },
        batch: BatchMode::Auto,
        batch_bytes: 1 << 20,
        links: 2,
        outstanding_batches: 2,
        timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(3),
        reconnect_min: Duration::from_millis(50),
        reconnect_max: Duration::from_secs(2),
        keep_awake: None,
        extents: vec![ExtentSpec { name: "node".to_string(), size_bytes: None, is_local: false }],
    };
    let volumes = vec![volume];
    let config = GatewayConfig {
        id: [1; 16],
        session: 1,
        memory_bytes: 1 << 20,
        clients_max: 4,
        seed: 1,
        volumes,
        extent_ids: Vec::new(),
    };
    Gateway::new(config).expect("a gateway")
}

/// Connects a link, and has the node say who it is. Returns what the gateway does then.
fn welcome(gateway: &mut Gateway, now: Time, link: LinkId, extent_id: u8, size_bytes: u64) -> Vec<Action> {
    gateway.handle_timeout(now);
    gateway.link_connected(now, link);
    let mut bytes = Vec::new();
    Welcome {
        extent_id: [extent_id; 16],
        boot_id: [extent_id; 16],
        size_bytes,
        no_io: false,
        modelled: false,
        keeps_alive: true,
        hello_received_ns: 0,
        welcome_sent_ns: 0,
    }
    .encode(&mut bytes);
    gateway.link_rx(link).extend(&bytes);
    gateway.process_link(now, link);
    std::iter::from_fn(|| gateway.poll_action()).collect()
}

fn phase(gateway: &Gateway, link: usize) -> LinkPhase {
    gateway.status().volumes[0].nodes[0].links[link].phase
}

#[test]
fn an_extent_below_a_stripe_is_refused_and_its_successor_is_taken() {
    let mut gateway = gateway();
    // The second link is the first to be welcome: it is the one that must end.
    let actions = welcome(&mut gateway, Time(1), LinkId(1), 1, STRIPE_BYTES - 1);
    assert!(actions.contains(&Action::Disconnect(LinkId(1))), "{actions:?}");
    let is_refusal = |a: &Action| matches!(a, Action::Tell(Event::NodeRefused(_, why)) if why.contains("less than"));
    assert!(actions.iter().any(is_refusal), "{actions:?}");
    assert!(!actions.iter().any(|a| matches!(a, Action::Remember { .. })), "{actions:?}");
    assert_eq!(phase(&gateway, 1), LinkPhase::Waiting);
    assert!(gateway.layout(0).is_none());
    let later = Time(0) + Duration::from_secs(60);
    let actions = welcome(&mut gateway, later, LinkId(1), 2, STRIPE_BYTES);
    assert!(actions.iter().any(|a| matches!(a, Action::Tell(Event::VolumeReady(..)))), "{actions:?}");
    assert_eq!(phase(&gateway, 1), LinkPhase::Ready);
    assert_eq!(gateway.layout(0).map(|l| l.size_bytes()), Some(STRIPE_BYTES));
}
