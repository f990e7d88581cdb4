//! An extent that does not fit the volume is refused, and nothing of it stands in the way of the one that replaces it.

use std::time::Duration;

use crate::testing::{GatewayBed, bytes_of, gateway_config, volume, welcome};
use flashmob_core::copies::{MapImage, Member};
use flashmob_core::gateway::{Action, CopiesSpec, Event, ExtentSpec, LinkId, LinkPhase, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::Time;
use flashmob_core::wire::frame::encode_error;
use flashmob_core::wire::hello::Welcome;

const STRIPE_BYTES: u64 = 64 << 10;

/// A gateway with a striped volume of one node, whose size is not configured, over two links.
fn bed() -> GatewayBed {
    let layout = LayoutKind::Striped { stripe_bytes: STRIPE_BYTES };
    let striped = VolumeSpec { layout, links: 2, extents: vec![ExtentSpec::new("node")], ..volume(&[]) };
    GatewayBed::new(gateway_config(striped))
}

/// Connects the second link, and has the node say who it is. Returns what the gateway does then.
fn link(bed: &mut GatewayBed, extent_id: u8, size_bytes: u64) -> Vec<Action> {
    let id = [extent_id; 16];
    bed.link(1, &Welcome { extent_id: id, boot_id: id, ..welcome(size_bytes) });
    bed.actions()
}

#[test]
fn an_extent_below_a_stripe_is_refused_and_its_successor_is_taken() {
    let mut bed = bed();
    // The second link is the first to be welcome: it is the one that must end.
    let actions = link(&mut bed, 1, STRIPE_BYTES - 1);
    assert!(actions.contains(&Action::Disconnect(LinkId(1))), "{actions:?}");
    let is_refusal = |a: &Action| matches!(a, Action::Tell(Event::NodeRefused(_, why)) if why.contains("less than"));
    assert!(actions.iter().any(is_refusal), "{actions:?}");
    assert!(!actions.iter().any(|a| matches!(a, Action::Remember { .. })), "{actions:?}");
    assert_eq!(bed.phase(1), LinkPhase::Waiting);
    assert!(bed.gateway.layout(0).is_none());
    bed.now = Time(0) + Duration::from_secs(60);
    let actions = link(&mut bed, 2, STRIPE_BYTES);
    assert!(actions.iter().any(|a| matches!(a, Action::Tell(Event::VolumeReady(..)))), "{actions:?}");
    assert_eq!(bed.phase(1), LinkPhase::Ready);
    assert_eq!(bed.gateway.layout(0).map(|l| l.size_bytes()), Some(STRIPE_BYTES));
}

/// What a gateway does with a node that answers its hello with this error; the volume may have copies.
fn reported(has_copies: bool, error: &str) -> Vec<Action> {
    const SIZE_BYTES: u64 = 1 << 20;
    let mut spec = volume(&[SIZE_BYTES]);
    if has_copies {
        let domain = "node0".to_string();
        let member = Member { extent_id: [1; 16], boot_id: None, seen: None, size_bytes: SIZE_BYTES, domain };
        let map = MapImage::new([9; 16], SIZE_BYTES, 1, vec![member]).unwrap();
        spec.layout = LayoutKind::Mapped { chunk_bytes: SIZE_BYTES };
        spec.copies = Some(Box::new(CopiesSpec::new(map)));
    }
    let mut bed = GatewayBed::new(gateway_config(spec));
    bed.gateway.handle_timeout(bed.now);
    bed.actions();
    bed.gateway.link_connected(bed.now, LinkId(0));
    bed.gateway.link_rx(LinkId(0)).extend(&bytes_of(|out| encode_error(out, error)));
    bed.gateway.process_link(bed.now, LinkId(0));
    assert_eq!(bed.phase(0), LinkPhase::Waiting);
    bed.actions()
}

#[test]
fn a_node_from_before_volumes_with_copies_is_refused_and_the_remedy_is_named() {
    let refusal = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Tell(Event::NodeRefused(_, why)) => Some(why.clone()),
            _ => None,
        })
    };
    let why = refusal(&reported(true, "malformed hello")).expect("a refusal");
    assert_eq!(
        why,
        "it knows no volumes with copies, or none that was linear; update flashmob on that node (the node reports: malformed hello)"
    );
    for (has_copies, error) in [(false, "malformed hello"), (true, "malformed hello: seen"), (true, "no room")] {
        assert_eq!(refusal(&reported(has_copies, error)), None, "{error}");
    }
}
