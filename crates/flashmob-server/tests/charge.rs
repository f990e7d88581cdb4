//! A node on a real file that belongs to a volume with copies: who is in charge is remembered when the process has ended.

use std::path::Path;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::units::MIB;
use flashmob_core::wire::hello::{Charge, Hello, Refuse, RefuseReason};
use flashmob_core::wire::{Decoded, FrameKind, decode_frame};
use flashmob_server::net::{Clock, Wake};
use flashmob_server::node::{Extent, ExtentConfig};
use flashmob_server::store::StoreConfig;

fn open(data: &Path, forget: bool) -> (Extent, Clock) {
    let config = ExtentConfig {
        store: StoreConfig { size_bytes: Some(MIB), ..StoreConfig::new(data) },
        state_dir: None,
        forget,
        memory_bytes: 16 * MIB,
        links_max: 8,
        cluster: None,
        repin: false,
        new_key: false,
        enroll: None,
        order: IssueOrder::Sorted,
    };
    let clock = Clock::start();
    (Extent::open(&config, clock, Wake::nobody()).expect("an extent"), clock)
}

fn hello(epoch: u64) -> Hello {
    Hello {
        gateway_id: [epoch as u8; 16],
        session: epoch,
        attempt: 1,
        volume_id: "photos".to_string(),
        extent: 3,
        extents: 4096,
        layout: "mapped:4194304".to_string(),
        charge: Some(Charge { map_id: [7; 16], epoch, nonce: u64::MAX - epoch, version: 1 }),
        ..Hello::default()
    }
}

/// Says hello on a new link. Returns the reason of the refusal; `None` if it is welcome.
fn greet((extent, clock): &mut (Extent, Clock), hello: &Hello) -> Option<RefuseReason> {
    let link = extent.node.link_opened();
    let mut bytes = Vec::new();
    hello.encode(&mut bytes);
    extent.node.rx(link).expect("a link").extend(&bytes);
    extent.process(clock.now(), link);
    extent.turn(clock.now());
    let sent = extent.node.out(link).expect("a link").take_all();
    let Ok(Decoded::Frame(frame, _)) = decode_frame(&sent) else { panic!("no answer") };
    match frame.kind {
        FrameKind::Welcome => None,
        FrameKind::Refuse => Some(Refuse::decode(frame.meta).expect("a refusal").reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deposed_gateway_is_refused_after_a_restart_of_the_node_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut node = open(&data, false);
    assert_eq!(greet(&mut node, &hello(4)), None);
    assert_eq!(greet(&mut node, &hello(5)), None);
    assert_eq!(greet(&mut node, &hello(4)), Some(RefuseReason::Deposed));
    drop(node);
    let mut node = open(&data, false);
    assert_eq!(node.0.identity().charge(), hello(5).charge);
    assert_eq!(greet(&mut node, &hello(4)), Some(RefuseReason::Deposed));
    assert_eq!(greet(&mut node, &Hello { charge: None, ..hello(5) }), Some(RefuseReason::Identity));
    assert_eq!(greet(&mut node, &hello(5)), None);
    drop(node);
    // Given up, it is as free as a new one.
    let mut node = open(&data, true);
    let plain = Hello { extent: 0, extents: 1, layout: "linear".to_string(), charge: None, ..hello(1) };
    assert_eq!(greet(&mut node, &plain), None);
    assert_eq!(greet(&mut node, &hello(9)), Some(RefuseReason::Identity), "it has no copies now");
}

#[test]
fn a_charge_that_cannot_be_written_is_not_welcome() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut node = open(&data, false);
    assert_eq!(greet(&mut node, &hello(4)), None);
    // In the place of the room that is kept for it.
    let spare = dir.path().join("data.flashmob.new");
    std::fs::remove_file(&spare).expect("the room for the next identity");
    std::fs::create_dir(&spare).expect("something in the way");
    assert_eq!(greet(&mut node, &hello(5)), Some(RefuseReason::Store));
    assert_eq!(greet(&mut node, &Hello { link: 1, ..hello(4) }), None, "the one in charge is served");
    drop(node);
    assert_eq!(open(&data, false).0.identity().charge(), hello(4).charge);
}
